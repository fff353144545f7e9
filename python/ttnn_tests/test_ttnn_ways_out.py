"""Ways out of memory failures, applied to the programs and run on real ttnn.

A changed program must run past the point where it failed. With a little less than the change, it must not.
TTMEM_TTNN_FAILURES is the number of random programs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ttmem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from described_cards import Cards

PROGRAMS_PER_BATCH = 20
PROGRAMS = int(os.environ.get("TTMEM_TTNN_FAILURES", "100"))
CARDS = (("n150",), ("p150", "--l1-small", "32768"), ("n300", "--mesh"))
KINDS = {
    "move_to_dram": "to_dram",
    "bfloat8_b": "bfloat8_b",
    "free_earlier": "free",
}


class Attempt:
    """A program with a change, and whether it has to work."""

    def __init__(self, way: dict[str, Any], change: dict[str, Any], *, works: bool) -> None:
        self.way = way
        self.change = change
        self.works = works

    def contradiction(self, failure: list[Any] | None) -> str | None:
        """Returns what is wrong with the outcome on ttnn."""
        if self.works == (failure is None):
            return None
        return f"{self.change}: {self.way['text']}: {failure}"


def step_of_action(report: Path, profile: Any) -> dict[int, int]:
    """Returns the step after each action."""
    profile.report(report.parent / "read", name="read", force=True)
    rows = json.loads((report.parent / "read" / "read_memory.json").read_text())["operations"]
    shutil.rmtree(report.parent / "read")
    marks = [row for row in rows if row["mlir_op"].startswith("mark ")]
    return {int(row["mlir_op"].split()[-1]): row["step"] for row in marks}


def attempts(seed: int, folder: Path) -> Iterator[Attempt]:
    """Yields the ways out of a program's failure, each with a smaller change that must not be enough."""
    truth = json.loads((folder / "truth.json").read_text())
    if truth["failing"] is None:
        return
    profile: Any = ttmem.open(folder / "report.json")
    oom = profile.summary()["ranks"][0]["oom"]
    assert oom["replay"] == {"allocations": oom["replay"]["allocations"], "fails": True} | {
        "reproduced": oom["replay"]["allocations"]
    }, (seed, oom)
    numbers = {tuple(place): int(number) for number, place in truth["places"].items()}
    base = {"seed": seed, "failing": truth["failing"]}
    unit = 64 if truth["pools"]["L1"]["banks"] > 64 else 32
    small = truth["pools"]["L1_SMALL"]["size"]
    for way in oom["ways_out"]:
        if way["kind"] in KINDS:
            chosen = [numbers[oom["pool"], tensor["address"]] for tensor in way["tensors"]]
            key = KINDS[way["kind"]]
            yield Attempt(way, base | {key: chosen}, works=True)
            yield Attempt(way, base | {key: chosen[:-1]}, works=False)
        elif way["kind"] == "l1_small_size":
            less = unit if way["value"] < small else -unit
            yield Attempt(way, base | {"l1_small": way["value"]}, works=True)
            yield Attempt(way, base | {"l1_small": way["value"] + less}, works=False)
        elif way["kind"] in ("allocate_earlier", "allocate_first"):
            steps = step_of_action(folder / "report.json", profile)
            action = min(number for number, step in steps.items() if step >= way["before_step"])
            if way["kind"] == "allocate_earlier":
                yield Attempt(way, base | {"make_before": action}, works=True)
                continue
            chosen = [numbers[oom["pool"], tensor["address"]] for tensor in way["tensors"]]
            yield Attempt(way, base | {"first": chosen, "at": action}, works=True)
            yield Attempt(way, base | {"first": chosen[:-1], "at": action}, works=False)
        else:
            assert way["kind"] == "allocate_in_dram"
            yield Attempt(way, base | {"request_to_dram": True}, works=True)


@pytest.mark.parametrize("batch", range(-(-PROGRAMS // PROGRAMS_PER_BATCH)))
def test_ways_out_work_on_ttnn_and_less_does_not(cards: Cards, tmp_path: Path, batch: int) -> None:
    chip, *options = CARDS[batch % len(CARDS)]
    first = batch * PROGRAMS_PER_BATCH
    folder = cards.fail(chip, first, PROGRAMS_PER_BATCH, *options)
    tries: list[Attempt] = []
    kinds: Counter[str] = Counter()
    failed = 0
    for seed in range(first, first + PROGRAMS_PER_BATCH):
        found = list(attempts(seed, folder / str(seed)))
        failed += bool(found)
        kinds.update(attempt.way["kind"] for attempt in found if attempt.works)
        tries += found
    changes = tmp_path / "changes.json"
    changes.write_text(json.dumps([attempt.change for attempt in tries]))
    results = cards.repeat(chip, changes, *options)
    contradictions = [attempt.contradiction(result) for attempt, result in zip(tries, results, strict=True)]
    shutil.rmtree(folder)
    assert not [text for text in contradictions if text], "\n".join(text for text in contradictions if text)
    assert failed >= PROGRAMS_PER_BATCH * 3 // 4, failed
    assert len(kinds) >= 3, kinds


FAILURES = (
    "clash",
    "clash_late",
    "clash_circular",
    "dram",
    "l1",
    "l1_small",
    "fragmented",
    "layer_norm",
)


def changes(oom: dict[str, Any], way: dict[str, Any], truth: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Returns a way out as a change of `failures.py`, and one that must not be enough."""
    places = [tuple(place) for place in truth["places"]]
    made = len(places)
    # If the allocation of a tensor failed, what follows it is not of interest.
    base = {} if oom["clash"] or oom["refused"] else {"last": made}
    if way["kind"] in KINDS:
        chosen = [places.index((oom["pool"], tensor["address"])) for tensor in way["tensors"]]
        key = KINDS[way["kind"]]
        rest = {"at": made} if key == "free" else {}
        return base | {key: chosen} | rest, base | {key: chosen[:-1]} | rest
    if way["kind"] == "l1_small_size":
        unit = 64 if truth["pools"]["L1"]["banks"] > 64 else 32
        less = unit if way["value"] < truth["pools"]["L1_SMALL"]["size"] else -unit
        return base | {"l1_small": way["value"]}, base | {"l1_small": way["value"] + less}
    assert way["kind"] == "allocate_in_dram", way["kind"]
    return base | {"to_dram": [made]}, None


@pytest.mark.parametrize("chip", ["n150", "p150"])
@pytest.mark.parametrize("kind", FAILURES)
def test_every_kind_of_failure_has_a_way_out(cards: Cards, kind: str, chip: str) -> None:
    run = cards.run(chip, "failures", kind)
    profile: Any = ttmem.open(run.folder / "report.json")
    oom = profile.summary()["ranks"][0]["oom"]
    assert oom["ways_out"], oom

    def fails(change: dict[str, Any]) -> Any:
        words = [f"--l1-small={change.pop('l1_small')}"] if "l1_small" in change else []
        tried = cards.run(chip, "failures", kind, "--change", json.dumps(change or {"last": None}), *words)
        return json.loads((tried.folder / "result.json").read_text())

    for way in oom["ways_out"]:
        if way["kind"] == "allocate_first":  # tried with the random programs
            continue
        enough, less = changes(oom, way, run.truth)
        assert fails(enough) is None, way
        if less is not None:
            assert fails(less) is not None, way
