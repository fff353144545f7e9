"""The tracker on a real CUDA device, compared with the allocator's counters. Skipped without CUDA."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem
from ttmem._torch import allocators

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

WIDTH = 512


class Model(nn.Module):
    """Two layers, with an activation in between that autograd keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(torch.nn.functional.gelu(self.first(x)))
        return y * self.scale


def train(model: Any, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(64, WIDTH, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch.zeros(1, device="cuda")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    ttmem.stop_memory_tracker()


def tracked(tmp_path: Path, **kwargs: Any) -> ttmem.MemoryTracker:
    return ttmem.initialize_memory_tracker(tmp_path, interval=60, **kwargs)


def pool_of(tracker: ttmem.MemoryTracker) -> dict[str, Any]:
    assert tracker.recording is not None
    summary = ttmem.open(tracker.recording).summary()
    assert [w for w in summary["source"]["warnings"] if "could not be tracked" in w["message"]] == []
    pool: dict[str, Any] = summary["ranks"][0]["pools"]["cuda:0"]
    return pool


def profile_of(path: str) -> dict[str, Any]:
    with open(path) as file:
        profile: dict[str, Any] = json.load(file)
    return profile


def test_peaks_are_exactly_those_of_the_allocator(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    train(Model().cuda())
    gc.collect()
    now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    pool = pool_of(tracker)
    assert (pool["peak_total"], pool["final_total"]) == (peak, now)


def test_peaks_are_exact_for_what_counters_are_read_at_boundaries_only(tmp_path: Path) -> None:
    tracker = tracked(tmp_path, level="phases")
    with tracker.track_operation("training"):
        train(Model().cuda())
    peak = torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    assert pool_of(tracker)["peak_total"] == peak


def test_odd_sizes_and_pieces_that_are_not_cut(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    generator = torch.Generator().manual_seed(7)
    kept: list[torch.Tensor] = []
    for _ in range(2000):
        size = int(2 ** (torch.rand(1, generator=generator).item() * 24))
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        while len(kept) > 40:
            kept.pop(int(torch.randint(len(kept), (1,), generator=generator).item()))
    now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    pool = pool_of(tracker)
    assert (pool["peak_total"], pool["final_total"]) == (peak, now)


def test_classes_shapes_and_names_are_filled_in(tmp_path: Path) -> None:
    tracked(tmp_path)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(torch.randn(64, WIDTH, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    ttmem.memory_checkpoint("after")
    profile = profile_of(ttmem.stop_memory_tracker())
    (after,) = [row for row in profile["snapshots"] if row["checkpoint_name"] == "after"]
    rows = after["device_breakdown"]["cuda:0"]["tensors"]
    by_class: dict[str, list[Any]] = {}
    for row in rows:
        by_class.setdefault(row["class"], []).append(row["shape"])
    weights = [[4 * WIDTH, WIDTH], [WIDTH, 4 * WIDTH]]
    assert sorted(by_class["parameter"])[-2:] == sorted(weights)
    assert sorted(by_class["gradient"])[-2:] == sorted(weights)
    assert {row["name"] for row in rows} >= {"first.weight", "second.weight.grad", "exp_avg"}


def test_operations_modules_and_the_backward_pass_have_what_they_allocated(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    model = Model().cuda()
    for _ in range(2):
        with tracker.track_operation("step"):
            model(torch.randn(64, WIDTH, device="cuda")).square().mean().backward()
    profile = profile_of(ttmem.stop_memory_tracker())
    totals = profile["operation_summary"]
    hidden = 64 * 4 * WIDTH * 4 / (1 << 20)
    assert totals["step"]["invocation_count"] == 2
    (step,) = [node for node in profile["operation_tree"] if node["name"] == "step"]
    (forward,) = [node for node in step["children"] if node["name"] == "Model"]
    assert {node["name"]: node["allocated_mb"] >= 2 * hidden for node in forward["children"]}["first"]
    (backward,) = [node for node in step["children"] if node["name"] == "backward"]
    assert {"second", "first"} <= {node["name"] for node in backward["children"]}
    assert backward["allocated_mb"] > hidden


def test_threads_have_trees_of_their_own(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)

    def work(number: int) -> None:
        for _ in range(20):
            with tracker.track_operation(f"thread {number}"):
                torch.empty(number << 20, dtype=torch.uint8, device="cuda")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    totals = profile_of(ttmem.stop_memory_tracker())["operation_summary"]
    if not hasattr(torch._C, "_cuda_setMemoryMetadata"):
        pytest.skip("this torch cannot say which thread allocates")
    for number in range(1, 5):
        # The allocator does not split a block if little would remain: up to a megabyte is added.
        assert 20 * number <= totals[f"thread {number}"]["allocated_mb"] <= 20 * (number + 1)


def test_a_stream_that_still_uses_memory_keeps_it_active(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    other = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    x = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(other):
        torch.cuda._sleep(200_000_000)  # type: ignore[no-untyped-call]
    x.record_stream(other)
    del x
    stats = torch.cuda.memory_stats()
    ttmem.memory_checkpoint("waiting")
    ttmem.stop_memory_tracker()
    assert stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"] == 8 << 20
    assert pool_of(tracker)["peak_total"] == torch.cuda.max_memory_allocated()


def test_a_ring_that_is_too_short_says_so_and_keeps_the_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocators, "FIRST_ENTRIES", 500)
    monkeypatch.setattr(allocators, "MAX_ENTRIES", 500)
    # Otherwise, what the ring loses was received.
    monkeypatch.setattr(allocators.CachingAllocator, "_can_clear", lambda _: False)
    tracker = tracked(tmp_path)
    model = Model().cuda()
    big = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    del big
    train(model, 20)
    now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    summary = ttmem.open(tracker.recording).summary()
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert (pool["peak_total"], pool["final_total"]) == (peak, now)
    assert any("were overwritten" in warning["message"] for warning in summary["source"]["warnings"])


def test_a_drain_on_request_is_no_end(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    model = Model().cuda()
    train(model)
    assert ttmem.save_memory_profile()
    train(model)
    gc.collect()
    now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    pool = pool_of(tracker)
    assert (pool["peak_total"], pool["final_total"]) == (peak, now)


def test_what_the_program_records_itself_stays_its_own(tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history(max_entries=1000)
    try:
        tracker = tracked(tmp_path)
        train(Model().cuda(), 1)
        ttmem.stop_memory_tracker()
        assert torch._C._cuda_isHistoryEnabled()
        assert pool_of(tracker)["peak_total"] == torch.cuda.max_memory_allocated()
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_out_of_memory_is_in_the_recording_before_the_program_hears_of_it(tmp_path: Path) -> None:
    program = f"""
        import os, signal, torch, ttmem
        ttmem.initialize_memory_tracker({str(tmp_path)!r})
        torch.cuda.set_per_process_memory_fraction(0.02)
        kept = []
        try:
            while True:
                kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    (recording,) = tmp_path.glob("*.ttmem")
    rank = ttmem.open(recording).summary()["ranks"][0]
    (fault,) = rank["faults"]
    assert fault["kind"] == "out_of_memory"
    assert rank["pools"]["cuda:0"]["final_total"] > 1 << 30


def test_the_device_is_never_used_before_the_program_does(tmp_path: Path) -> None:
    program = f"""
        import os, torch, ttmem
        ttmem.initialize_memory_tracker({str(tmp_path)!r})
        assert not torch.cuda.is_initialized()
        cpu = torch.ones(1 << 20)
        child = os.fork()
        if child == 0:
            torch.ones(1, device="cuda")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        x = torch.ones(1 << 20, device="cuda")
        assert torch._C._len_torch_dispatch_stack() == 0
        print(ttmem.stop_memory_tracker())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, capture_output=True, text=True
    )
    with open(done.stdout.strip().splitlines()[-1]) as file:
        last = json.load(file)["snapshots"][-1]["device_breakdown"]
    assert last["cuda:0"]["total_bytes"] == 4 << 20
    assert last["cpu"]["total_bytes"] == 4 << 20


def test_graphs_are_captured_and_replayed_as_without(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    model, x = Model().cuda(), torch.randn(64, WIDTH, device="cuda")
    with torch.no_grad():
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            expected = model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, expected)
    peak = torch.cuda.max_memory_allocated()
    ttmem.stop_memory_tracker()
    assert pool_of(tracker)["peak_total"] == peak
    assert tracker.get_summary() == {"enabled": False}


# PyTorch's compiler imports modules that PyTorch has deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_models_compile_the_same_graphs(tmp_path: Path) -> None:
    def graphs() -> int:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = torch.compile(Model().cuda(), backend="aot_eager")
        train(model, 2)
        return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])

    bare = graphs()
    tracked(tmp_path)
    assert graphs() == bare


def test_the_summary_of_a_running_program_has_all_counters(tmp_path: Path) -> None:
    tracker = tracked(tmp_path)
    x = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    device = tracker.get_summary()["devices"]["cuda:0"]
    assert device["total_bytes"] == torch.cuda.memory_allocated()
    assert device["peak_bytes"] == torch.cuda.max_memory_allocated()
    assert device["reserved_bytes"] == torch.cuda.memory_reserved()
    assert tracker.get_summary()["errors"] == 0
    del x
    assert os.path.exists(ttmem.stop_memory_tracker())
