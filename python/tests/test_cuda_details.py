"""Iterations that repeat earlier ones are recorded without details, and get them from those. Needs CUDA."""

from __future__ import annotations

import gc
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as f
from torch import nn

import ttmem
from ttmem.tracker import MemoryTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

WIDTH, WORDS = 128, 500


class Block(nn.Module):
    """Attention with a cache that grows by concatenation, and a feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, cache: list[torch.Tensor] | None) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
            cache[:] = [k, v]
        x = x + self.out(f.scaled_dot_product_attention(q, k, v))
        more: torch.Tensor = self.mlp(x)
        return x + more


class Model(nn.Module):
    """A small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor, caches: list[list[torch.Tensor]] | None = None) -> torch.Tensor:
        x = self.words(words)
        for index, block in enumerate(self.blocks):
            x = block(x, caches[index] if caches is not None else None)
        result: torch.Tensor = self.head(x)
        return result


class Training:
    """A model, its optimizer, and the losses so far."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.words = torch.randint(WORDS, (8, 64), device="cuda")
        self.losses: list[float] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            loss = f.cross_entropy(self.model(self.words).flatten(0, 1), self.words.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.item())


@torch.no_grad()
def generate(model: nn.Module, tokens: int) -> None:
    caches: list[list[torch.Tensor]] = [[] for _ in range(3)]
    word = torch.zeros(1, 16, dtype=torch.long, device="cuda")
    for _ in range(tokens):
        word = model(word, caches)[:, -1:].argmax(-1)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch.zeros(1, device="cuda")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    ttmem.stop_memory_tracker()


def has_details(tracker: MemoryTracker) -> bool:
    assert tracker._mode is not None
    return tracker._mode.has_details


def recorded(folder: Path, program: Callable[[], object]) -> ttmem.Profile:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60)
    program()
    gc.collect()
    assert tracker.recording is not None
    ttmem.stop_memory_tracker()
    return ttmem.load(tracker.recording)


def rank_of(profile: ttmem.Profile, at: int | None = None) -> dict[str, Any]:
    rank: dict[str, Any] = profile.summary(at=at)["ranks"][0]
    return rank


def moments(profile: ttmem.Profile) -> list[Any]:
    """Returns what is in memory at some steps: the classes, the parts that allocated it, and the tensors."""
    end = rank_of(profile)["operations"]["total"]
    found = []
    for at in range(end // 4, end, end // 16):
        pool = rank_of(profile, at)["at"]["pools"]["cuda:0"]
        # Not shapes: details of every iteration have fewer of them, because fewer outputs are inspected.
        keys = ("name", "class", "op", "made_in", "per_bank")
        live = [tuple(map(tensor.get, keys)) for tensor in pool["live"]]
        made_in = [(m["name"], m["per_bank"]) for m in pool["made_in"]]
        found.append((at, pool["by_class_per_bank"], made_in, sorted(live, key=str)))
    return found


@pytest.mark.parametrize("kind", ["training", "generation"])
def test_iterations_without_details_are_like_those_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def program() -> None:
        training = Training()
        if kind == "training":
            training.run(16)
        else:
            for _ in range(2):
                generate(training.model, 20)

    program()
    some = recorded(tmp_path / "some", program)
    peak = torch.cuda.max_memory_allocated()
    monkeypatch.setattr(MemoryTracker, "_choose_details", lambda *_: None)
    every = recorded(tmp_path / "every", program)
    assert rank_of(some)["pools"]["cuda:0"]["peak_total"] == peak
    warnings = [w["message"] for w in some.summary()["source"]["warnings"]]
    assert not [warning for warning in warnings if "differ" in warning or "overwritten" in warning], warnings
    for with_some, with_every in zip(moments(some), moments(every), strict=True):
        assert with_some == with_every


def test_details_are_left_out_and_return_when_the_order_changes(tmp_path: Path) -> None:
    training = Training()
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60)
    training.run(10)
    assert not has_details(tracker)
    assert "__call__" in Model.__dict__
    with torch.no_grad():
        # Not an iteration that was seen before; the next one has details.
        training.model(training.words[:1])
    training.run(1)
    assert has_details(tracker)
    training.run(3)
    assert not has_details(tracker)
    ttmem.stop_memory_tracker()
    assert "__call__" not in Model.__dict__
    assert not torch.nn.modules.module._global_forward_hooks


def test_details_return_for_another_model(tmp_path: Path) -> None:
    training, twin = Training(), Training()
    other = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()).cuda()
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60)
    training.run(10)
    assert not has_details(tracker)
    twin.run(1)
    assert has_details(tracker)
    training.run(10)
    assert not has_details(tracker)
    # Its class has no wrapper, so it is noticed by its allocations.
    for _ in range(2000):
        other(torch.zeros(1, WIDTH, device="cuda"))
    tracker._sample()
    assert has_details(tracker)
    other(torch.zeros(1, WIDTH, device="cuda"))
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    assert "Sequential" in [row["name"] for row in rank_of(ttmem.load(tracker.recording))["ran"]]


def test_an_exception_ends_an_iteration_without_details(tmp_path: Path) -> None:
    training = Training()
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60)
    training.run(10)
    assert not has_details(tracker)
    with pytest.raises(IndexError) as caught:
        training.model(torch.zeros(1, 1, dtype=torch.long, device="cuda"), [])
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if "ttmem" in frame.filename.split("tests")[0].split("/")]
    training.run(2)
    assert tracker._mode is not None
    assert tracker._mode.errors == 0
    assert tracker._mode.passes() == []


def test_iterations_of_several_threads_all_have_details(tmp_path: Path) -> None:
    training = Training()
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60)
    training.run(8)
    thread = threading.Thread(target=generate, args=(training.model, 4))
    thread.start()
    thread.join()
    training.run(8)
    assert has_details(tracker)


def test_results_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        without, with_tracker = Training(), Training()
        without.run(20)
        recorded(tmp_path, lambda: with_tracker.run(20))
    finally:
        torch.use_deterministic_algorithms(False)
    assert without.losses == with_tracker.losses
    for one, other in zip(without.model.parameters(), with_tracker.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiled_models_are_not_compiled_again(tmp_path: Path) -> None:
    import torch._dynamo.utils as dynamo

    torch._dynamo.reset()
    training = Training()
    training.model = torch.compile(training.model)  # type: ignore[assignment]
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60)
    training.run(3)
    compiled = dynamo.counters["stats"]["unique_graphs"]
    training.run(10)
    assert not has_details(tracker)
    assert dynamo.counters["stats"]["unique_graphs"] == compiled
