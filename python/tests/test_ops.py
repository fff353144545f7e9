"""Level ops: PyTorch's profiler runs all the time without disturbing the program."""

from __future__ import annotations

import json
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import ttmem
from conftest import MODULE, preloaded, ran

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    ttmem.stop_memory_tracker()


def tracked(tmp_path: Path) -> ttmem.MemoryTracker:
    return ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level="ops")


def warnings_of(tracker: ttmem.MemoryTracker) -> list[str]:
    assert tracker.recording is not None
    return [warning["message"] for warning in ttmem.open(tracker.recording).warnings]


def pool_of(tracker: ttmem.MemoryTracker) -> dict[str, Any]:
    assert tracker.recording is not None
    pool: dict[str, Any] = ttmem.open(tracker.recording).summary()["ranks"][0]["pools"]["cpu"]
    return pool


def test_it_is_emptied_only_where_no_range_is_open(tmp_path: Path) -> None:
    program = f"""
        import torch, ttmem
        from torch.utils.checkpoint import checkpoint
        from ttmem._torch import operations
        operations.SECONDS = 0.0
        tracker = ttmem.initialize_memory_tracker({str(tmp_path)!r}, interval=0.05, level="ops")
        block = torch.nn.Linear(64, 64)
        optimizer = torch.optim.Adam(block.parameters())
        for step in range(40):
            with torch.profiler.record_function("mine"), tracker.track_operation("step"):
                x = torch.ones(8, 64, requires_grad=True)
                y = checkpoint(block, block(x), use_reentrant=step % 2 == 0)
                y.sum().backward()
                optimizer.step()
                ttmem.memory_checkpoint("inside")
            ttmem.memory_checkpoint("outside")
        print(tracker.get_summary()["errors"])
        ttmem.stop_memory_tracker()
    """
    done = preloaded().run(["-c", textwrap.dedent(program)])
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


# Older versions use their own deprecated functions.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_checkpointed_blocks_are_computed_as_often_as_without(tmp_path: Path) -> None:
    counts: list[int] = []

    class Block(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            counts[-1] += 1
            return super().forward(x).relu()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block(16, 16) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    def run() -> int:
        counts.append(0)
        Model()(torch.ones(2, 16)).sum().backward()
        return counts[-1]

    bare = run()
    tracked(tmp_path)
    assert run() == bare


# PyTorch 2.12 warns on every use about another way of using it.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")
def test_a_profiler_of_the_program_is_left_alone(tmp_path: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        tracker = tracked(tmp_path)
        torch.ones(4) + 1
        ttmem.stop_memory_tracker()
    assert any(event.name == "aten::add" for event in profiled.events())
    assert any("already runs PyTorch's profiler" in message for message in warnings_of(tracker))
    tracker = tracked(tmp_path)
    torch.zeros(1 << 10)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        torch.ones(4) + 1
    ttmem.stop_memory_tracker()
    assert any(event.name == "aten::add" for event in profiled.events())
    assert any("the program started its own profiler" in message for message in warnings_of(tracker))
    assert pool_of(tracker)["peak_total"] >= 4 << 10


def test_memory_of_others_is_not_counted_as_the_processors(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    model = nn.Linear(64, 64)
    for _ in range(10):
        model(torch.from_numpy(np.ones((1 << 10, 64), dtype=np.float32)))
    ttmem.stop_memory_tracker()
    assert pool_of(tracker)["final_total"] < 1 << 20


def test_nothing_is_reserved_on_the_cpu(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    kept = torch.ones(1 << 20)
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    screen = ran([*MODULE, "summary", tracker.recording]).stdout
    assert "B reserved" not in screen
    table = ttmem.load(tracker.recording).markdown().split("## Peak Memory")[1]
    head, _, row, *_ = table.strip().splitlines()
    cells = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert (cells["Requested at peak"], cells["Reserved at peak"]) == ("\N{EN DASH}", "\N{EN DASH}")
    del kept


def test_operations_belong_to_the_calls_of_their_own_thread(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    entered, done = threading.Event(), threading.Event()

    def wait() -> None:
        with tracker.track_operation("other"):
            entered.set()
            done.wait()

    with tracker.track_operation("mine"):
        other = threading.Thread(target=wait)
        other.start()
        entered.wait()
        kept = torch.zeros(1 << 20)
        done.set()
        other.join()
    path = ttmem.stop_memory_tracker()
    del kept
    with open(path) as file:
        totals = json.load(file)["operation_summary"]
    assert (totals["mine"]["allocated_mb"], totals["other"]["allocated_mb"]) == (4.0, 0.0)


def test_classes_are_those_of_the_calls_around_operations(tmp_path: Path) -> None:
    """Also in passes like earlier ones, which are not labeled again."""
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level="ops")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    for _ in range(7):
        model(torch.ones(256, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    opened = ttmem.open(tracker.recording)
    steps = opened.summary()["ranks"][0]["operations"]["total"]
    seen = set()
    for step in range(0, steps, 3):
        live = opened.summary(at=step, top=1000)["ranks"][0]["at"]["pools"]["cpu"]["live"]
        seen |= {(row["class"], row["op"]) for row in live if row["per_bank"] >= 4096}
    assert {"activation", "gradient", "optimizer", "parameter", "temporary"} <= {class_ for class_, _ in seen}
    # Tensors allocated by the loop itself belong to no operation.
    assert {op for class_, op in seen if class_ == "unknown"} <= {"aten::empty", "aten::ones", "aten::sum"}
