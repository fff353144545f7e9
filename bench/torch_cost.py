"""Measures the tracker's overhead for a PyTorch program on the CPU, as ratios and in microseconds.

Run by `make bench-torch`, with the package installed. All variants run in one process, in turns. The result is the
minimum of all rounds, because other programs only add time.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import ttmem

# Many short rounds, because the load of the machine varies.
ROUNDS, OPERATIONS = 9, 20_000
TRAINING_ROUNDS, STEPS = 40, 2


class Empty(TorchDispatchMode):
    """A dispatch mode that does nothing, to measure PyTorch's own overhead for modes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def tracked(level: str) -> Iterator[None]:
    """Runs the tracker, with its recording."""
    with tempfile.TemporaryDirectory() as folder:
        ttmem.initialize_memory_tracker(folder, interval=3600, level=level)
        yield
        ttmem.stop_memory_tracker()


@contextmanager
def mem_tracker() -> Iterator[None]:
    """Runs PyTorch's own memory tracker, for comparison."""
    from torch.distributed._tools.mem_tracker import MemTracker

    with MemTracker():
        yield


def best(
    ways: dict[str, Callable[[], Any]], work: Callable[[], None], rounds: int, count: int
) -> dict[str, float]:
    """Returns the time per operation or step of each variant, the minimum of all rounds."""
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            with way():
                work()
                start = time.perf_counter()
                work()
                found[name] = min(found[name], (time.perf_counter() - start) / count)
    return found


def additions() -> None:
    """Runs a loop of small additions, each with a new result."""
    a, b = torch.ones(64, 64), torch.ones(64, 64)
    for _ in range(OPERATIONS):
        _ = a + b


def training() -> Callable[[], None]:
    """Returns a function that runs training steps of a small transformer."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(8, 64, 256)

    def work() -> None:
        for _ in range(STEPS):
            model(data).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return work


def main() -> None:
    torch.set_num_threads(1)
    ways = {
        "nothing": nullcontext,
        "an empty TorchDispatchMode": Empty,
        "ttmem, phases": lambda: tracked("phases"),
        "ttmem, tensors": lambda: tracked("tensors"),
        "MemTracker": mem_tracker,
    }
    found = best(ways, additions, ROUNDS, OPERATIONS)
    print("an addition of 64 x 64")
    for name, each in found.items():
        over = (each - found["an empty TorchDispatchMode"]) * 1e6
        print(f"  {name:28} {each * 1e6:7.2f} us  {each / found['nothing']:6.2f} x  {over:+7.2f} us vs. an empty mode")
    # MemTracker does not support a second iteration.
    del ways["MemTracker"]
    found = best(ways, training(), TRAINING_ROUNDS, STEPS)
    print("a training step")
    for name, each in found.items():
        print(f"  {name:28} {each * 1e3:7.2f} ms  {each / found['nothing']:6.3f} x")
    disabled()
    checkpoint()


def disabled() -> None:
    """Measures a call while no tracker runs."""
    count = 1_000_000
    tracker = ttmem.get_memory_tracker()
    start = time.perf_counter()
    for _ in range(count):
        ttmem.memory_checkpoint("x")
    each = (time.perf_counter() - start) / count
    start = time.perf_counter()
    for _ in range(count):
        with tracker.track_operation("x"):
            pass
    operation = (time.perf_counter() - start) / count
    print(f"disabled: a checkpoint {each * 1e9:.0f} ns, an operation {operation * 1e9:.0f} ns")


def checkpoint() -> None:
    """Measures a checkpoint with a million live objects."""
    objects: list[list[int]] = [[] for _ in range(1_000_000)]
    with tracked("tensors"):
        ttmem.memory_checkpoint("first")
        start = time.perf_counter()
        for _ in range(100):
            ttmem.memory_checkpoint("look")
        each = (time.perf_counter() - start) / 100
    print(f"a checkpoint with {len(gc.get_objects()):,} live objects: {each * 1e3:.3f} ms")
    del objects


if __name__ == "__main__":
    main()
