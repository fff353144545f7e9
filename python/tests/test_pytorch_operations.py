"""`pytorch_operations` and the totals of level ops, compared with PyTorch's profiler."""

from __future__ import annotations

import json
import os
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import ttmem
from conftest import preloaded
from ttmem._torch.operations import LOG_LEVEL, Operations, silent_kineto

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events")

MIB = 1 << 20


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    ttmem.stop_memory_tracker()


def train() -> None:
    """Composite operations, views, lists of tensors, and a backward pass."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        (model(torch.randn(32, 64)).softmax(-1) * torch.cat([torch.ones(16, 64)] * 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


Totals = dict[tuple[str, str], tuple[int, int]]


def totals_by_pytorch(profiled: Any) -> Totals:
    """Returns the calls and bytes by operation and argument shapes."""
    rows = [row for row in profiled.key_averages(group_by_input_shape=True) if "::" in row.key]
    return summed((row.key, row.input_shapes, row.count, row.cpu_memory_usage) for row in rows)


def totals_of(path: str) -> Totals:
    with open(path) as file:
        rows = json.load(file)["pytorch_operations"]
    return summed(
        (row["op_name"], row["input_shapes"], row["count"], round(row["cpu_memory_mb"] * MIB)) for row in rows
    )


def summed(rows: Any) -> Totals:
    calls: Counter[tuple[str, str]] = Counter()
    bytes_: Counter[tuple[str, str]] = Counter()
    for name, shapes, count, size in rows:
        calls[name, json.dumps(shapes or [])] += count
        bytes_[name, json.dumps(shapes or [])] += size
    return {key: (calls[key], bytes_[key]) for key in calls}


def test_a_block_of_operations_is_counted_as_without_the_tracker(tmp_path: Path) -> None:
    options: Any = {"activities": [ProfilerActivity.CPU], "record_shapes": True, "profile_memory": True}
    with profile(**options) as profiled:
        train()
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    with tracker.track_pytorch_ops():
        train()
    ours = totals_of(ttmem.stop_memory_tracker())
    theirs = totals_by_pytorch(profiled)
    assert ours["aten::addmm", "[[128], [32, 64], [64, 128], [], []]"] == (2, 2 * 32 * 128 * 4)
    assert {key: ours.get(key) for key in theirs} == theirs
    # While a dispatch mode is active, PyTorch detaches results that it keeps for the backward pass.
    more = {key: ours[key] for key in ours.keys() - theirs.keys()}
    assert all((name, size) == ("aten::detach", 0) for (name, _), (_, size) in more.items())


PROFILES = """
    import os, sys, torch, ttmem
    os.environ.pop("KINETO_LOG_LEVEL", None)
    tracker = ttmem.initialize_memory_tracker(level=sys.argv[1])
    for _ in range(2):
        with tracker.track_pytorch_ops():
            torch.ones(3) * 2
    ttmem.stop_memory_tracker()
    print(os.environ.get("KINETO_LOG_LEVEL"))
"""


@pytest.mark.parametrize("level", ["tensors", "ops"])
def test_the_profiler_does_not_log(tmp_path: Path, level: str) -> None:
    # Its own process: the profiler reads the variable once.
    done = preloaded().run(["-c", textwrap.dedent(PROFILES), level], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def test_a_log_level_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOG_LEVEL, raising=False)
    with silent_kineto():
        assert os.environ[LOG_LEVEL] == "99"
    assert LOG_LEVEL not in os.environ
    monkeypatch.setenv(LOG_LEVEL, "0")
    with silent_kineto():
        assert os.environ[LOG_LEVEL] == "0"
    assert os.environ[LOG_LEVEL] == "0"


def test_level_ops_counts_what_the_profiler_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Any] = []
    stop_and_record = Operations._stop_and_record

    def record(self: Operations) -> None:
        """Keeps the profiler's results of the same run."""
        disable = torch._C._autograd._disable_profiler

        def disabled() -> Any:
            sessions.append(disable())
            return sessions[-1]

        monkeypatch.setattr(torch._C._autograd, "_disable_profiler", disabled)
        stop_and_record(self)
        monkeypatch.setattr(torch._C._autograd, "_disable_profiler", disable)

    monkeypatch.setattr(Operations, "_stop_and_record", record)
    ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level="ops")
    train()
    ttmem.memory_checkpoint("in between")
    train()
    ours = totals_of(ttmem.stop_memory_tracker())
    events = [event for session in sessions for event in session.events() if "::" in event.name()]
    calls: Counter[tuple[str, str]] = Counter()
    for event in events:
        calls[event.name(), json.dumps(event.shapes() or [])] += 1
    assert {key: count for key, (count, _) in ours.items()} == calls
    assert ours["aten::addmm", "[[128], [32, 64], [64, 128], [], []]"] == (4, 4 * 32 * 128 * 4)


def test_what_an_optimizer_frees_is_freed_in_its_step(tmp_path: Path) -> None:
    """The totals are equal at every level."""

    def step(level: Any) -> dict[str, Any]:
        model = nn.Linear(512, 512)
        optimizer = torch.optim.AdamW(model.parameters())
        tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level=level)
        for _ in range(3):
            model(torch.ones(4, 512)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        ttmem.stop_memory_tracker()
        assert tracker.recording is not None
        rows = ttmem.open(tracker.recording).summary()["ranks"][0]["ran"]
        (found,) = (row for row in rows if row["name"] == "AdamW.step")
        return {key: found[key] for key in ("calls", "peak_bytes", "kept_bytes", "change_bytes")}

    by_tensors, by_operations = step("tensors"), step("ops")
    # Level ops also tracks what kernels allocate and free internally: scalars, here.
    assert 0 <= by_operations.pop("peak_bytes") - by_tensors.pop("peak_bytes") <= 64
    assert by_operations == by_tensors
