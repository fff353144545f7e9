"""ttnn's captures, reports and databases, compared with the allocator after every operation."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

    from described_cards import Cards, Run

POOLS = {0: "DRAM", 1: "L1", 3: "L1_SMALL", 4: "TRACE"}
PROGRAMS = [
    ("n150", "layouts"),
    ("p150", "layouts"),
    ("n150", "encoder"),
    ("p150", "encoder"),
    ("n300", "encoder", "--mesh"),
    ("n150", "layouts", "--detailed"),
    ("p150", "encoder", "--detailed"),
]
EVIDENCE = ["capture.json", "report.json", "database/db.sqlite"]


@pytest.fixture(params=PROGRAMS, ids=" ".join)
def run(request: pytest.FixtureRequest, cards: Cards) -> Run:
    return cards.run(*request.param)


def held_at_marks(path: Path) -> dict[str, dict[str, int | None]]:
    """Returns ttmem's numbers of the pools at each mark.

    A mark is before an empty function in a capture. A database lists buffers after operations; tensors that
    Python has released since the previous operation are missing only from the next list.
    """
    is_database = path.suffix == ".sqlite"
    profile = ttmem.open(path)
    profile.report(path.parent / "read", name="read", force=True)
    rows = json.loads((path.parent / "read" / "read_memory.json").read_text())["operations"]
    rank = profile.summary()["ranks"][0]
    held: dict[str, dict[str, int | None]] = {}
    for row in rows:
        if row["mlir_op"].startswith("mark "):
            step = row["step"] + is_database
            if step == rank["operations"]["total"]:
                pools = {name: pool["final_per_bank"] for name, pool in rank["pools"].items()}
            else:
                at = profile.summary(at=step, top=1)["ranks"][0]["at"]
                pools = {name: pool["allocated_per_bank"] for name, pool in at["pools"].items()}
            held[row["mlir_op"]] = pools
    return held


def allocated(row: dict[str, Any], pools: Any) -> dict[str, int]:
    """Returns the allocator's numbers of the pools that the file mentions. The others were empty."""
    assert all(bytes_ == 0 for pool, bytes_ in row["held"].items() if pool not in pools), (row, pools)
    return {pool: row["held"][pool] for pool in POOLS.values() if pool in pools}


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_every_pool_holds_what_the_allocator_holds(run: Run, evidence: str) -> None:
    held = held_at_marks(run.folder / evidence)
    rows = run.truth["rows"]
    assert list(held) == [row["mark"] for row in rows]
    for row in rows:
        found = {pool: bytes_ for pool, bytes_ in held[row["mark"]].items() if pool != "CB"}
        assert found == allocated(row, found), row["mark"]


def replayed_peaks(run: Run) -> dict[str, int]:
    """Returns the peak of each pool, including inside operations: the capture's sizes, aligned.

    Compares its numbers with the allocator at every mark.
    """
    alignment = 64 if run.truth["pools"]["L1"]["banks"] > 64 else 32
    rows = {row["mark"]: row for row in run.truth["rows"]}
    held: Counter[str] = Counter()
    peaks: Counter[str] = Counter()
    for node in run.nodes:
        params = node["params"] or {}
        if node["node_type"] in ("buffer_allocate", "buffer_deallocate"):
            sign = 1 if node["node_type"] == "buffer_allocate" else -1
            pool = POOLS[params["buffer_type"]]
            held[pool] += sign * -(-params["max_size_per_bank"] // alignment) * alignment
            peaks[pool] = max(peaks[pool], held[pool])
        elif node["node_type"] == "function_start" and params["name"] in rows:
            assert {pool: held[pool] for pool in POOLS.values()} == rows[params["name"]]["held"]
    return peaks


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_peaks_are_the_allocators(run: Run, evidence: str) -> None:
    pools = ttmem.open(run.folder / evidence).summary()["ranks"][0]["pools"]
    for pool, peak in replayed_peaks(run).items():
        assert pools[pool]["peak_per_bank"] == peak, pool
        assert pools[pool]["final_per_bank"] == run.truth["pools"][pool]["allocated"], pool


@pytest.mark.parametrize("evidence", EVIDENCE[:2])
def test_nothing_is_missing_and_no_warning_says_so(run: Run, evidence: str) -> None:
    assert ttmem.open(run.folder / evidence).warnings == []


def test_bank_sizes_are_the_allocators(run: Run) -> None:
    rank = ttmem.open(run.folder / "report.json").summary()["ranks"][0]
    truth = run.truth["pools"]
    for pool in ("DRAM", "L1"):
        assert rank["pools"][pool]["capacity_per_bank"] == truth[pool]["size"], pool
        assert rank["pools"][pool]["banks"] == truth[pool]["banks"], pool
    dram = truth["DRAM"]["size"] * truth["DRAM"]["banks"]
    assert rank["sessions"][0]["device_memory_bytes"] == dram


def test_a_capture_without_a_report_has_no_bank_sizes(cards: Cards) -> None:
    run = cards.run("n150", "encoder")
    pools = ttmem.open(run.folder / "capture.json").summary()["ranks"][0]["pools"]
    assert {pool["capacity_per_bank"] for pool in pools.values()} == {None}


@pytest.mark.parametrize("evidence", EVIDENCE[:2])
def test_the_phase_of_a_capture_is_what_ttnn_extracts(run: Run, evidence: str) -> None:
    phase = ttmem.open(run.folder / evidence).summary()["ranks"][0]["phases"][0]
    ttnn = run.truth["ttnn"]
    assert phase["l1_peak_cb_bytes"] == ttnn["peak_cb"]
    assert phase["l1_peak_buffer_bytes"] == ttnn["peak_l1"]
    assert phase["l1_peak_total_bytes"] == ttnn["peak_total"]


@pytest.mark.parametrize("chip", ["n150", "p150"])
@pytest.mark.parametrize("evidence", EVIDENCE[:2])
def test_without_dispatch_sizes_are_those_of_a_run(cards: Cards, chip: str, evidence: str) -> None:
    estimate = cards.run(chip, "layouts", "--no-dispatch")
    assert ttmem.open(estimate.folder / evidence).warnings == []
    held = held_at_marks(estimate.folder / evidence)
    rows = cards.run(chip, "layouts").truth["rows"]
    assert list(held) == [row["mark"] for row in rows]
    for row in rows:
        assert held[row["mark"]] == allocated(row, held[row["mark"]]), row["mark"]


@pytest.mark.parametrize("chip", ["n150", "p150"])
def test_a_trace_region_is_not_part_of_dram(cards: Cards, chip: str) -> None:
    run = cards.run(chip, "trace_region", "--trace-region", "1000000")
    profile = ttmem.open(run.folder / "report.json")
    assert profile.warnings == []
    pools, truth = profile.summary()["ranks"][0]["pools"], run.truth["pools"]
    assert pools["DRAM"]["capacity_per_bank"] == truth["DRAM"]["size"]
    assert {pool: pools[pool]["final_per_bank"] for pool in ("DRAM", "TRACE")} == {
        pool: truth[pool]["allocated"] for pool in ("DRAM", "TRACE")
    }
