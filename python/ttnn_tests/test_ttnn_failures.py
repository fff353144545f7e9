"""ttnn programs that run out of memory in known ways: what ttmem finds in a log, a report and a database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

    from described_cards import Cards, Run


@dataclass(frozen=True)
class Kind:
    """What ttmem has to find."""

    pool: str
    cause: str | None
    operation: str


KINDS = {
    "clash": Kind("L1", "circular_buffers", "ttnn.softmax"),
    "clash_late": Kind("L1", "circular_buffers", "ttnn.softmax"),
    "clash_circular": Kind("L1", "circular_buffers", "ttnn.transformer.scaled_dot_product_attention"),
    "dram": Kind("DRAM", "capacity", "ttnn.empty"),
    "l1": Kind("L1", "capacity", "ttnn.empty"),
    "l1_small": Kind("L1_SMALL", "capacity", "ttnn.empty"),
    "fragmented": Kind("L1", "fragmentation", "ttnn.empty"),
    # No cause: an operation's own check, in its own words.
    "layer_norm": Kind("L1", None, "ttnn.layer_norm"),
}
RUNS = [
    *[("n150", kind) for kind in KINDS],
    ("p150", "clash_circular"),
    ("p150", "fragmented"),
    ("n300", "clash", "--mesh"),
    ("n150", "clash", "--stack-traces"),
    ("n150", "dram", "--slow"),
    ("n150", "l1", "--detailed"),
]
EVIDENCE = ("output.log", "report.json", "database/db.sqlite")

OUT_OF_MEMORY = re.compile(
    r"Not enough space to allocate (?P<requested_total>\d+) B \w+ buffer across (?P<banks>\d+) banks,"
    r" where each bank needs to store (?P<requested_per_bank>\d+) B, but bank size is (?P<size>\d+) B"
    r" \(allocated: (?P<allocated>\d+) B, free: (?P<free_per_bank>\d+) B,"
    r" largest free block: (?P<largest_free_per_bank>\d+) B\)"
)
CLASH = re.compile(
    r"buffers in program (?P<program>\d+) clash with L1 buffers on core range (?P<cores>\[[^]]+\])\."
    r" L1 buffer allocated at (?P<buffer_address>\d+) and static \w+ buffer region ends at"
    r" (?P<region_end>\d+)"
)
REFUSAL = re.compile(r"require (?P<requested>\d+) bytes, but only (?P<free>\d+) bytes")


@pytest.fixture(params=RUNS, ids=" ".join)
def run(request: pytest.FixtureRequest, cards: Cards) -> Run:
    chip, *arguments = request.param
    run = cards.run(chip, "failures", *arguments)
    (run.folder / "output.log").write_text(run.output + run.errors)
    return run


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["run"][1])


def out_of_memory(path: Path) -> dict[str, Any]:
    """Returns ttmem's explanation of the failure."""
    found = ttmem.open(path).summary()["ranks"][0]["oom"]
    assert found is not None
    return dict(found)


def numbers(error: str) -> dict[str, int | str]:
    """Returns the numbers of an error message, by ttmem's names."""
    match = OUT_OF_MEMORY.search(error) or CLASH.search(error) or REFUSAL.search(error)
    assert match is not None, error
    return {name: int(text) if text.isdigit() else text for name, text in match.groupdict().items()}


def test_the_message_has_the_allocators_numbers(run: Run, kind: str) -> None:
    """The programs fail as intended: what the tests below expect is true."""
    truth, stated = run.truth, numbers(run.truth["error"])
    pool = truth["at_failure"]["pools"][KINDS[kind].pool]
    if "size" in stated:
        assert (stated["size"], stated["allocated"]) == (pool["size"], pool["allocated"])
        assert stated["free_per_bank"] == pool["free"]
        assert stated["largest_free_per_bank"] == pool["largest_free"]
    elif "region_end" in stated:
        lowest = min(address for name, address, _ in truth["at_failure"]["buffers"] if name == "L1")
        assert stated["buffer_address"] == lowest
    else:
        assert stated["requested"] > stated["free"]  # type: ignore[operator]
        # A little less than what lies below the lowest buffer.
        lowest = min(address for name, address, _ in truth["at_failure"]["buffers"] if name == "L1")
        assert 0 <= lowest - truth["first_l1_address"] - int(stated["free"]) < 4096


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_kind_of_failure_is_found(run: Run, kind: str, evidence: str) -> None:
    found = out_of_memory(run.folder / evidence)
    assert found["pool"] == KINDS[kind].pool
    if KINDS[kind].cause is not None:
        assert found["cause"] == KINDS[kind].cause


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_operation_is_found(run: Run, kind: str, evidence: str) -> None:
    found = out_of_memory(run.folder / evidence)["op"]
    name = KINDS[kind].operation
    if evidence == "output.log":
        # The backtrace names the C++ function that ttnn.empty and others call.
        assert found is not None
        assert found.startswith("ttnn.")
        assert found == name or kind in ("dram", "l1", "l1_small", "fragmented")
    else:
        assert found == name


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_numbers_are_those_of_the_message(run: Run, kind: str, evidence: str) -> None:
    found, stated = out_of_memory(run.folder / evidence), numbers(run.truth["error"])
    if "size" in stated:
        names = ("requested_total", "requested_per_bank", "banks", "free_per_bank", "largest_free_per_bank")
        assert {name: found[name] for name in names} == {name: stated[name] for name in names}
        available = stated["largest_free_per_bank" if kind == "fragmented" else "free_per_bank"]
        assert found["lacks_per_bank"] == stated["requested_per_bank"] - available  # type: ignore[operator]
        assert found["overlap_bytes"] is None
    elif "region_end" in stated:
        overlap = stated["region_end"] - stated["buffer_address"]  # type: ignore[operator]
        assert (found["overlap_bytes"], found["lacks_per_bank"]) == (overlap, overlap)
        assert (found["requested_total"], found["banks"]) == (None, None)
        addresses = ("region_end", "buffer_address", "program", "cores")
        assert {name: found[name] for name in addresses} == {name: stated[name] for name in addresses}
    else:
        assert found["lacks_per_bank"] == stated["requested"] - stated["free"]  # type: ignore[operator]
    assert found["message"] in run.truth["error"]


def test_stack_traces_name_the_line_that_failed(cards: Cards) -> None:
    run = cards.run("n150", "failures", "clash", "--stack-traces")
    for evidence in EVIDENCE[1:]:
        loc = out_of_memory(run.folder / evidence)["loc"]
        assert re.search(r"failures\.py:\d+$", loc), (evidence, loc)


def test_a_caught_failure_leaves_the_buffers_of_the_allocator(run: Run) -> None:
    profile: Any = ttmem.open(run.folder / "report.json")
    pools = profile.memory_map()["pools"]
    found = sorted(
        [pool, buffer["address"], buffer["bytes_per_bank"]]
        for pool in pools
        for buffer in pools[pool]["buffers"]
        if pool in ("DRAM", "L1", "L1_SMALL", "TRACE")
    )
    assert found == sorted(run.truth["buffers"])
