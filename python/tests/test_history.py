"""Histories of real allocators, recorded on an H200, compared with the allocators' counters."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import ttmem
from ttmem._native import History
from ttmem._torch.mode import Mode

CORPUS = Path(__file__).parents[2] / "corpus" / "torch_snapshot"
FACTS = {fact["name"]: fact for fact in map(json.loads, (CORPUS / "facts.jsonl").read_text().splitlines())}
WHOLE = ["train_gpt2_30m", "oom_gpt2_124m", "graph_expandable_pools"]


def snapshot_of(name: str) -> dict[str, Any]:
    with gzip.open(CORPUS / f"{name}.pickle.gz") as file:
        snapshot: dict[str, Any] = pickle.load(file)  # noqa: S301 - it is our own
    return snapshot


def end_of(snapshot: dict[str, Any]) -> int:
    return int(max(entry["time_us"] for trace in snapshot["device_traces"] for entry in trace)) + 1


def cut(snapshot: dict[str, Any], at: int) -> dict[str, Any]:
    """Returns the snapshot as it would have been halfway, reconstructed from the entries."""
    trace = snapshot["device_traces"][0]
    live = {
        block["address"]: block
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    segments = {segment["address"]: segment["total_size"] for segment in snapshot["segments"]}
    for entry in reversed(trace[at:]):
        if entry["action"] == "alloc":
            del live[entry["addr"]]
        elif entry["action"] == "free_completed":
            live[entry["addr"]] = {"address": entry["addr"], "size": -1, "requested_size": entry["size"]}
        elif entry["action"] == "segment_alloc":
            del segments[entry["addr"]]
        elif entry["action"] == "segment_free":
            segments[entry["addr"]] = entry["size"]
    return {"segments": [], "device_traces": [trace[:at]], "live": live, "left": segments}


def record(path: Path, drains: list[tuple[dict[str, Any], list[int]]]) -> dict[str, Any]:
    mode = Mode(str(path))
    history = History(mode, "cuda")
    for snapshot, allocations in drains:
        history.drain(snapshot, allocations, end_of(snapshot))
    mode.finish()
    return ttmem.open(path).summary()


@pytest.mark.parametrize("name", WHOLE)
def test_levels_are_those_of_the_allocator(name: str, tmp_path: Path) -> None:
    summary = record(tmp_path / "h.ttmem", [(snapshot_of(name), [0])])
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["peak_total"] == FACTS[name]["peak_allocated"]
    assert pool["final_total"] == FACTS[name]["allocated"]
    assert pool["allocator"]["reserved_peak_total"] == FACTS[name]["peak_reserved"]
    assert pool["allocator"]["requested_at_peak_total"] <= FACTS[name]["requested_peak"]
    assert pool["allocator"]["active_at_peak_total"] >= pool["peak_total"]
    assert summary["source"]["warnings"] == []


def test_a_ring_that_has_lost_its_beginning_is_followed_from_its_end(tmp_path: Path) -> None:
    name = "wrapped_ring_gpt2_30m"
    summary = record(tmp_path / "h.ttmem", [(snapshot_of(name), [0])])
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["final_total"] == FACTS[name]["allocated"]
    assert pool["peak_total"] <= FACTS[name]["peak_allocated"]


def test_two_drains_are_as_one(tmp_path: Path) -> None:
    snapshot = snapshot_of("train_gpt2_30m")
    trace = snapshot["device_traces"][0]
    half = {"segments": [], "device_traces": [trace[: len(trace) // 2]]}
    allocations = [
        sum(entry["action"] == "alloc" for entry in part) for part in (trace[: len(trace) // 2], trace)
    ]
    mode = Mode(str(tmp_path / "h.ttmem"))
    history = History(mode, "cuda")
    # Nothing was allocated before the first entry, so the final state of the half adds no information.
    first = history.drain({**half, **_state_at(snapshot, len(trace) // 2)}, [allocations[0]], end_of(half))
    again = history.drain({**half, **_state_at(snapshot, len(trace) // 2)}, [allocations[0]], end_of(half))
    rest = history.drain(snapshot, [allocations[1]], end_of(snapshot))
    mode.finish()
    assert (first > 0, again, rest > 0) == (True, 0, True)
    summary = ttmem.open(tmp_path / "h.ttmem").summary()
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["peak_total"] == FACTS["train_gpt2_30m"]["peak_allocated"]
    assert pool["final_total"] == FACTS["train_gpt2_30m"]["allocated"]
    assert summary["source"]["warnings"] == []


def test_what_was_forgotten_is_counted_and_what_is_there_still_known(tmp_path: Path) -> None:
    whole, wrapped = snapshot_of("train_gpt2_30m"), snapshot_of("wrapped_ring_gpt2_30m")
    # The history is read at the start, and not again before most of it was overwritten.
    empty = {"segments": [], "device_traces": [whole["device_traces"][0][:1]]}
    summary = record(tmp_path / "h.ttmem", [(empty, [0]), (wrapped, [5000])])
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["final_total"] == FACTS["wrapped_ring_gpt2_30m"]["allocated"]
    (warning,) = summary["source"]["warnings"]
    seen = sum(entry["action"] == "alloc" for entry in wrapped["device_traces"][0])
    assert f"{5000 - seen} allocations in cuda:0" in warning["message"]


def test_a_counter_says_how_high_it_was_where_the_history_does_not(tmp_path: Path) -> None:
    wrapped, peak = snapshot_of("wrapped_ring_gpt2_30m"), FACTS["wrapped_ring_gpt2_30m"]["peak_allocated"]
    mode = Mode(str(tmp_path / "h.ttmem"))
    history = History(mode, "cuda")
    history.drain(wrapped, [0], end_of(wrapped))
    mode.highest("cuda:0", peak)
    mode.finish()
    pool = ttmem.open(tmp_path / "h.ttmem").summary()["ranks"][0]["pools"]["cuda:0"]
    assert pool["peak_total"] == peak


def test_11_an_out_of_memory_error_is_told_with_the_line_that_asked(tmp_path: Path) -> None:
    snapshot = snapshot_of("oom_gpt2_124m")
    summary = record(tmp_path / "h.ttmem", [(snapshot, [0])])
    (fault,) = summary["ranks"][0]["faults"]
    assert fault["kind"] == "out_of_memory"
    assert fault["pool"] == "cuda:0"
    assert "412090368" in fault["message"]
    assert fault["op"] == "linear.forward"
    oom = summary["ranks"][0]["oom"]
    cached = FACTS["oom_gpt2_124m"]["reserved"] - FACTS["oom_gpt2_124m"]["active"]
    (entry,) = [e for e in snapshot["device_traces"][0] if e["action"] == "oom"]
    assert oom["requested_total"] == 412090368
    assert oom["free_per_bank"] == cached + entry["device_free"]
    assert oom["largest_free_per_bank"] == entry["device_free"]
    assert oom["cause"] == "memory_limit"
    assert "requested 393.0 MiB; 136.49 GiB was free. That would have been enough" in oom["detail"]
    assert "bank" not in oom["detail"] + oom["advice"]


def test_odd_entries_are_passed_over(tmp_path: Path) -> None:
    snapshot = {
        "segments": [],
        "device_traces": [
            [
                {"action": "annotate", "addr": 1, "size": 2, "time_us": 1},
                {"action": "segment_alloc", "addr": -(1 << 62), "size": 2 << 20, "time_us": 2},
                {"action": "alloc", "addr": -(1 << 62), "size": 100, "time_us": 3, "frames": []},
                {"action": "free_requested", "addr": 77, "size": 100, "time_us": 4},
            ],
            [],
        ],
    }
    summary = record(tmp_path / "h.ttmem", [(snapshot, [])])
    assert summary["ranks"][0]["pools"]["cuda:0"]["peak_total"] >= 512


def _state_at(snapshot: dict[str, Any], at: int) -> dict[str, Any]:
    """Returns the segments and blocks of the snapshot halfway."""
    found = cut(snapshot, at)
    blocks = [
        {**block, "size": max(block["size"], block["requested_size"]), "state": "active_allocated"}
        for block in found["live"].values()
    ]
    segments = [
        {
            "device": 0,
            "address": address,
            "total_size": size,
            "blocks": [block for block in blocks if address <= block["address"] < address + size],
        }
        for address, size in found["left"].items()
    ]
    return {"segments": segments}
