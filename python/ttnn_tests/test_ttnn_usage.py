"""`ttmem.MemoryUsageTracker` in a ttnn program: its phases, compared with the allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ttmem

if TYPE_CHECKING:
    from described_cards import Cards, Run

CARDS = [("n150",), ("p150",), ("n300", "--mesh"), ("n150", "--no-dispatch")]
NAMES = ["MODEL_CREATION", "FORWARD_PASS", "BACKWARD_PASS", "ITERATION_COMPLETE"]


@pytest.fixture(params=CARDS, ids=" ".join)
def run(request: pytest.FixtureRequest, cards: Cards) -> Run:
    chip, *arguments = request.param
    return cards.run(chip, "phases", *arguments)


@pytest.fixture
def seen(run: Run, request: pytest.FixtureRequest, cards: Cards) -> list[list[dict[str, int]]]:
    """Returns the allocator's numbers in each phase; without dispatch, those of a run with dispatch."""
    is_estimate = "--no-dispatch" in request.node.callspec.params["run"]
    dispatched = cards.run("n150", "phases") if is_estimate else run
    return [phase["seen"] for phase in dispatched.truth["phases"]]


def rise(values: list[int]) -> int:
    """Returns the peak above the first number."""
    return max(values) - values[0]


def test_phases_are_what_the_allocator_did(run: Run, seen: list[list[dict[str, int]]]) -> None:
    truth = run.truth
    assert truth["names"] == NAMES
    for name, of_phase, dram, l1 in zip(NAMES, seen, truth["dram"], truth["l1"], strict=True):
        in_dram = [moment["DRAM"] for moment in of_phase]
        assert dram["peak"] == rise(in_dram), name
        assert dram["total_allocations"] - dram["total_deallocations"] == in_dram[-1] - in_dram[0], name
        assert l1["peak_buffer"] == rise([moment["L1"] for moment in of_phase]), name
    assert truth["forward"] == truth["dram"][1]
    assert all(usage["peak"] > 0 for usage in truth["dram"][:2])
    assert truth["l1"][1]["peak_buffer"] > 0


def same(phase: dict[str, Any], dram: dict[str, int]) -> bool:
    """Whether a phase of a summary has these numbers."""
    figures = (phase["segment_peak_bytes"], phase["allocations_bytes"], phase["deallocations_bytes"])
    return figures == (dram["peak"], dram["total_allocations"], dram["total_deallocations"])


def test_the_recording_has_the_same_phases(run: Run) -> None:
    profile = ttmem.open(run.folder / "phases.ttmem")
    phases = profile.summary()["ranks"][0]["phases"]
    assert [phase["name"] for phase in phases] == NAMES
    assert all(same(phase, dram) for phase, dram in zip(phases, run.truth["dram"], strict=True))


def test_the_printed_summary_is_read_from_the_output_of_the_program(run: Run) -> None:
    assert run.truth["text"] in run.output
    log = run.folder / "output.log"
    log.write_text(run.output)
    profile = ttmem.open(log)
    assert profile.format == "tt_train"
    assert [phase["name"] for phase in profile.summary()["ranks"][0]["phases"]] == NAMES
