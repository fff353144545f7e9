"""Measures the tracker's overhead on a CUDA device: training steps of GPT-2 124M, with and without it, in one process.

    python bench/torch_cuda.py

Rounds of all variants alternate, so that the load of the machine affects them equally. The drain is measured
separately, because it is not part of a step.
"""

from __future__ import annotations

import gc
import logging
import statistics
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as f
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS, WIDTH, HEADS, LAYERS = 50257, 768, 12, 12
BATCH, LENGTH = 8, 1024
ROUNDS, STEPS = 7, 15
# The tracker labels the outputs of the 1st, 2nd, 3rd, 5th, 9th … call of a module. None is between the 33rd and the 65th,
# which represents a longer run.
FEW, MANY = 2, 33


class Block(nn.Module):
    """A block of GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.first_norm(x)).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        more: torch.Tensor = self.mlp(self.second_norm(x))
        return x + more


class Gpt2(nn.Module):
    """GPT-2, 124M."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        logits = self.head(self.norm(self.blocks(self.words(words) + self.places(places))))
        return f.cross_entropy(logits.flatten(0, 1), words.flatten())


class Nothing:
    """The program without the tracker."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Tracked:
    """The program with the tracker. Starting and stopping it is not measured."""

    def __init__(self, level: Any) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.tracker = ttmem.initialize_memory_tracker(self._folder.name, level=self._level)

    def __exit__(self, *_: object) -> None:
        peak = torch.cuda.max_memory_allocated()
        ttmem.stop_memory_tracker()
        assert self.tracker.recording is not None
        pool = ttmem.load(self.tracker.recording).summary()["ranks"][0]["pools"]["cuda:0"]
        if pool["peak_total"] != peak:
            print(f"WRONG PEAK: {pool['peak_total']} instead of {peak}")
        self._folder.cleanup()


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, Python {sys.version.split()[0]}")
    torch.manual_seed(0)
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.randint(WORDS, (BATCH, LENGTH), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(words)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def timed(steps: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps * 1e3

    timed(5)
    ways: dict[str, Callable[[], Any]] = {
        "nothing": Nothing,
        "phases": lambda: Tracked("phases"),
        "tensors": lambda: Tracked("tensors"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    early: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            gc.collect()
            torch.cuda.reset_peak_memory_stats()
            with way():
                timed(FEW)
                early[name].append(timed(STEPS))
                timed(MANY - FEW - STEPS)
                times[name].append(timed(STEPS))
    for title, found in (("the first", early), ("later", times)):
        bare = statistics.median(found["nothing"])
        for name, rounds in found.items():
            middle = statistics.median(rounds)
            spread = f"{min(rounds):.2f} to {max(rounds):.2f}"
            print(f"{title:10} {name:8} {middle:7.2f} ms per step, {middle / bare:.3f} x   {spread}")
    drain(step)


def drain(step: Callable[[], None]) -> None:
    """Measures how long reading the history takes."""
    with tempfile.TemporaryDirectory() as folder:
        tracker = ttmem.initialize_memory_tracker(folder)
        for _ in range(30):
            step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        ttmem.save_memory_profile()
        saved = time.perf_counter() - began
        (allocator,) = tracker._allocators
        before = allocator._history.drained
        for _ in range(30):
            step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        allocator.drain()
        took = time.perf_counter() - began
        entries = allocator._history.drained - before
        snapshot = torch.cuda.memory._snapshot
        began = time.perf_counter()
        in_ring = len(snapshot()["device_traces"][0])
        alone = time.perf_counter() - began
        print(
            f"drain: {took * 1e3:.0f} ms for {entries} new rows of {in_ring} entries, "
            f"{took / in_ring * 1e8:.0f} ms for 100,000 entries (PyTorch's snapshot: {alone / in_ring * 1e8:.0f} ms); "
            f"saving the profile: {saved * 1e3:.0f} ms"
        )
        ttmem.stop_memory_tracker()


if __name__ == "__main__":
    main()
