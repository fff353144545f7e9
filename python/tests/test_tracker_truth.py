"""Compares the tracker with PyTorch's profiler, which reports every allocation: equal bytes at every mark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as f
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Some versions warn about this once.
pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events")

WORDS, WIDTH, LENGTH = 512, 128, 64


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        more: torch.Tensor = self.mlp(self.norms[1](x))
        return x + more


class Gpt(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.words(words) + self.places(torch.arange(words.shape[1]))))
        return f.cross_entropy(logits.flatten(0, 1), words.flatten())


class Convolutions(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return f.cross_entropy(self.layers(pictures), torch.zeros(len(pictures), dtype=torch.long))


def words() -> torch.Tensor:
    return torch.randint(0, WORDS, (4, LENGTH))


def pictures() -> torch.Tensor:
    return torch.randn(8, 3, 32, 32)


def levels(profiled: Any) -> list[tuple[int, int]]:
    """Returns the allocated memory at each mark and the peak before it, as the profiler reports them."""
    events = profiled.profiler.kineto_results.events()
    rows = [(event.start_ns(), event.name() == "[memory]", event) for event in events]
    found, level, peak = [], 0, 0
    for _, is_memory, event in sorted(rows, key=lambda row: row[:2]):
        if is_memory:
            level += event.nbytes()
            peak = max(peak, level)
        elif event.name() == "MARK":
            found.append((level, peak))
    return found


@pytest.mark.parametrize(("make", "data"), [(Gpt, words), (Convolutions, pictures)])
def test_a_training_loop(tmp_path: Path, make: type[nn.Module], data: Callable[[], torch.Tensor]) -> None:
    ours: list[tuple[int, int]] = []
    # Several threads per operation, in one of the loops.
    torch.set_num_threads(2 if make is Convolutions else torch.get_num_threads())

    def mark() -> None:
        cpu = ttmem.get_memory_summary()["devices"]["cpu"]
        ours.append((cpu["total_bytes"], cpu["peak_bytes"]))
        with record_function("MARK"):
            pass

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path, interval=60.0)
        mark()
        model = make()
        mark()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss = model(data())
            mark()
            loss.backward()
            mark()
            optimizer.step()
            mark()
            optimizer.zero_grad()
            del loss
            mark()
        ttmem.stop_memory_tracker()
    theirs = levels(profiled)
    assert [now for now, _ in ours] == [now for now, _ in theirs]
    # Scratch memory of operations is not tracked, and the summary says so: the actual peak may be higher.
    assert ours[-1][1] <= theirs[-1][1] <= ours[-1][1] * 1.2
    assert tracker.recording is not None
    answer = ttmem.open(tracker.recording)
    (said,) = answer.summary()["ranks"][0]["pools"]["cpu"]["not_watched"]
    assert "while they run" in said
    assert f"The actual peak may be higher. Not tracked: {said}." in answer.markdown()


@pytest.mark.parametrize(("make", "data"), [(Gpt, words), (Convolutions, pictures)])
def test_operations_and_what_kernels_use_inside(
    tmp_path: Path, make: type[nn.Module], data: Callable[[], torch.Tensor]
) -> None:
    def train() -> None:
        model = make()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            loss = model(data())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        train()
        with record_function("MARK"):
            pass
    ((_, peak),) = levels(profiled)
    tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path, interval=60.0, level="ops")
    with tracker.track_operation("training"):
        train()
    with open(ttmem.stop_memory_tracker()) as file:
        saved = json.load(file)
    assert tracker.recording is not None
    summary = ttmem.open(tracker.recording).summary()
    assert summary["source"]["warnings"] == []
    assert "not_watched" not in summary["ranks"][0]["pools"]["cpu"]
    ours = summary["ranks"][0]["pools"]["cpu"]["peak_total"]
    assert abs(ours - peak) <= peak * 0.005
    (training,) = [node for node in saved["operation_tree"] if node["name"] == "training"]
    names = {(node["name"], node["kind"]) for node in training["children"]}
    assert {("backward", "backward"), ("AdamW.step", "optimizer"), (make.__name__, "forward")} <= names
    assert any(node["kind"] == "framework" for node in descendants(training) if node["name"] == "aten::addmm")


def descendants(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for child in node["children"] for found in (child, *descendants(child))]
