"""Random ttnn programs: every pool and every buffer, compared with the allocator after every operation.

`programs/any_program.py` draws a program for each seed. TTMEM_TTNN_PROGRAMS is the number of programs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

import ttmem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from described_cards import Batch, Cards, Run

POOLS = {0: "DRAM", 1: "L1", 3: "L1_SMALL", 4: "TRACE"}
PROGRAMS_PER_BATCH = 20
CARDS = (
    ("n150",),
    ("p150", "--trace-region", "100000"),
    ("n300", "--mesh"),
    ("n150", "--trace-region", "1000000", "--l1-small", "32768"),
    ("p150", "--l1-small", "32768"),
    ("n300", "--mesh", "--l1-small", "0", "--trace-region", "1000000"),
)
BATCHES = -(-int(os.environ.get("TTMEM_TTNN_PROGRAMS", "200")) // PROGRAMS_PER_BATCH)
# Importing a report takes longer than the program.
ONE_IN_DATABASE = 5
OVERFLOW = 1 << 32


def named(numbers: range, *cards: tuple[str, ...]) -> list[Any]:
    """Returns the parameters of batches: a card, its options, and the first seed."""
    rows = [(cards[number % len(cards)], number * PROGRAMS_PER_BATCH) for number in numbers]
    return [pytest.param(row, id=f"{row[0][0]} {row[1]}") for row in rows]


@pytest.fixture(scope="module", params=named(range(BATCHES), *CARDS))
def batch(request: pytest.FixtureRequest, cards: Cards) -> Iterator[Batch]:
    (chip, *options), first = request.param
    batch = cards.draw(chip, first, PROGRAMS_PER_BATCH, "--databases", str(ONE_IN_DATABASE), *options)
    yield batch
    shutil.rmtree(batch.folder)


@pytest.fixture(
    scope="module",
    params=named(range(-(-BATCHES // 10)), ("n150", "--no-dispatch"), ("p150", "--no-dispatch")),
)
def estimates(request: pytest.FixtureRequest, cards: Cards) -> Iterator[Batch]:
    (chip, *options), first = request.param
    batch = cards.draw(chip, first, PROGRAMS_PER_BATCH, *options)
    yield batch
    shutil.rmtree(batch.folder)


def assert_no_crash(batch: Batch) -> None:
    """Fails if a program raised an exception; a crash of ttnn skips unless ttnn is required."""
    for crash in batch.crashes:
        if "killed by signal" not in crash or os.environ.get("TTMEM_REQUIRE_TTNN") == "1":
            pytest.fail(crash)
    if batch.crashes:
        pytest.skip("\n".join(batch.crashes))


def test_every_program_runs_to_its_end(batch: Batch) -> None:
    assert_no_crash(batch)
    assert len({capture.folder.parent for capture in batch.captures}) == PROGRAMS_PER_BATCH


@dataclass(frozen=True)
class Pool:
    """A pool of ttmem's memory map. None is unknown."""

    numbers: dict[str, int | None]
    buffers: dict[int, int | None]
    without_address: int

    @classmethod
    def of(cls, row: dict[str, Any]) -> Pool:
        """Reads the pool of a map."""
        names = {
            "allocated": "allocated_per_bank",
            "free": "free_per_bank",
            "largest_free": "largest_free_per_bank",
            "size": "capacity_per_bank",
        }
        buffers = {buffer["address"]: buffer["bytes_per_bank"] for buffer in row["buffers"]}
        buffers.pop(None, None)
        numbers = {name: row[field] for name, field in names.items()}
        return cls(numbers, buffers, without_address=len(row["buffers"]) - len(buffers))


def maps_at_marks(path: Path, profile: Any) -> dict[str, dict[str, Pool]]:
    """Returns ttmem's memory map at each mark.

    A mark is before an empty function in a capture. A database lists buffers after operations; tensors that
    Python has released since the previous operation are missing only from the next list.
    """
    profile.report(path.parent / "read", name="read", force=True)
    rows = json.loads((path.parent / "read" / "read_memory.json").read_text())["operations"]
    shutil.rmtree(path.parent / "read")
    maps: dict[str, dict[str, Pool]] = {}
    for row in rows:
        if row["mlir_op"].startswith("mark "):
            pools = profile.memory_map(at=row["step"] + (path.suffix == ".sqlite"))["pools"]
            maps[row["mlir_op"]] = {
                name: Pool.of(pool) for name, pool in pools.items() if name in POOLS.values()
            }
    return maps


@dataclass(frozen=True)
class Evidence:
    """A file, and what can be known from it."""

    capture: Run
    path: Path
    truth: dict[str, Any]

    @cached_property
    def profile(self) -> Any:
        """What ttmem reads from the file."""
        return ttmem.open(self.path)

    @cached_property
    def has_alignment(self) -> bool:
        """Whether the file determines how buffers are aligned. A bare list of nodes may not."""
        if self.path.name != "capture.json":
            return True
        return not any(
            "does not identify the architecture" in warning["message"] for warning in self.profile.warnings
        )

    @property
    def has_all_buffers(self) -> bool:
        """Whether buffers that are older than the capture, if there are any, are in the file."""
        # ttnn lists buffers in a report only after the first allocation; its importer does not look back.
        return not self.truth["before"] or (self.truth["is_detailed"] and self.path.name == "report.json")

    @cached_property
    def trace_region(self) -> int:
        """The size of the trace region if nothing in the file tells where it starts.

        A report does not mention the region, which is taken from DRAM. Its first buffer does.
        """
        start = self.truth["first_trace_address"]
        nodes = self.capture.nodes if start else []
        addresses = {
            (params["buffer_type"], params.get("address"))
            for params in (node["params"] or {} for node in nodes)
            if "buffer_type" in params
        }
        size: int = self.truth["pools"]["TRACE"]["size"]
        return 0 if (4, start) in addresses else size

    def numbers(self, pool: str, name: str, row: dict[str, Any]) -> tuple[int, int, bool]:
        """Returns the lowest and highest correct value of a number, and whether it must be known."""
        low: int = row["pools"][pool][name]
        high = low
        older = {(name, address) for name, address, _ in self.truth["before"]}
        has_older = any(name == pool and (name, address) in older for name, address, _ in row["buffers"])
        # Snapshots have the sizes of older buffers without their padding.
        if has_older and name == "allocated":
            low = 0
        elif has_older and name != "size":
            high = row["pools"][pool]["size"]
        if name != "allocated" and pool == "DRAM":
            high += self.trace_region
        elif name != "allocated" and pool == "TRACE" and self.trace_region:
            low = 0
        # DRAM starts at an address that only its first buffer tells.
        has_dram = any(name == "DRAM" for row in self.truth["rows"] for name, _, _ in row["buffers"])
        has_sizes = self.path.name == "report.json" and (pool == "L1" or (pool == "DRAM" and has_dram))
        has_numbers = has_sizes or (name == "allocated" and self.has_alignment)
        return low, high, low == high and has_numbers

    def compare_numbers(self, pool: str, row: dict[str, Any], found: Pool) -> Iterator[str]:
        """Yields wrong and missing numbers of a pool."""
        for name, number in found.numbers.items():
            low, high, must_be_known = self.numbers(pool, name, row)
            if must_be_known if number is None else not low <= number <= high:
                yield f"{name}: {number}, not {row['pools'][pool][name]}"

    def compare_buffers(self, pool: str, row: dict[str, Any], found: Pool) -> Iterator[str]:
        """Yields wrong, missing and unknown buffers of a pool."""
        older = {address for name, address, _ in self.truth["before"] if name == pool}
        want = {address: size for name, address, size in row["buffers"] if name == pool}
        for address, size in want.items():
            if address in found.buffers:
                is_older = address in older
                known = found.buffers[address]
                if known is None:
                    is_right = is_older or not self.has_alignment
                else:
                    is_right = known == size or (is_older and known < size)
                if not is_right:
                    yield f"buffer at {address}: {known} bytes, not {size}"
            elif address not in older or self.has_all_buffers:
                yield f"buffer at {address}: missing"
        for address in found.buffers.keys() - want.keys():
            yield f"buffer at {address}: does not exist"
        if found.without_address:
            yield f"{found.without_address} buffers without an address"

    def compare(self, row: dict[str, Any], found: dict[str, Pool]) -> Iterator[str]:
        """Yields the differences at a mark."""
        for pool in POOLS.values():
            if pool in found:
                differences = list(self.compare_buffers(pool, row, found[pool]))
                if self.has_all_buffers:
                    differences += self.compare_numbers(pool, row, found[pool])
            else:
                is_empty = row["pools"][pool]["allocated"] == 0 or not self.has_all_buffers
                differences = [] if is_empty else ["missing"]
            for difference in differences:
                yield f"{self.path}: {row['mark']}: {pool}: {difference}"

    def differences(self) -> Iterator[str]:
        """Yields the differences at the first mark that has some. The later ones follow from them."""
        maps = maps_at_marks(self.path, self.profile)
        rows = self.truth["rows"]
        if list(maps) != [row["mark"] for row in rows]:
            yield f"{self.path}: marks {list(maps)}"
            return
        for row in rows:
            found = list(self.compare(row, maps[row["mark"]]))
            if found:
                yield from found
                return


def shares_an_address(capture: Run) -> bool:
    """Whether buffers of two pools have the same address at some time, even inside an operation."""
    addresses = {(pool, address) for pool, address, _ in capture.truth["before"]}
    for node in capture.nodes:
        if node["node_type"] == "buffer_allocate":
            addresses.add((POOLS[node["params"]["buffer_type"]], node["params"]["address"]))
    return len({address for _, address in addresses}) < len(addresses)


def assert_equal(batch: Batch, name: str, *, one_in: int = 1) -> None:
    """Compares a file of each capture, or of one in some programs, with the allocator."""
    differences: list[str] = []
    for capture in batch.captures:
        if int(capture.folder.parent.name) % one_in:
            continue
        truth = capture.truth
        # When a buffer is freed, ttnn's importer removes all buffers at its address, whatever their pool.
        if not name.endswith(".sqlite") or not shares_an_address(capture):
            differences += Evidence(capture, capture.folder / name, truth).differences()
    assert not differences, "\n".join(differences)


def test_reports_have_the_allocators_buffers(batch: Batch) -> None:
    assert_equal(batch, "report.json")


def test_captures_have_the_allocators_buffers(batch: Batch) -> None:
    assert_equal(batch, "capture.json", one_in=ONE_IN_DATABASE)


def test_databases_have_the_allocators_buffers(batch: Batch) -> None:
    assert_equal(batch, "database/db.sqlite", one_in=ONE_IN_DATABASE)


def replay(capture: Run) -> Iterator[str]:
    """Replays the nodes of a capture, and yields what differs from the allocator at the marks.

    Independent of ttmem: if this holds and ttmem differs, ttmem is wrong.
    """
    truth = capture.truth
    alignment = 64 if truth["pools"]["L1"]["banks"] > 64 else 32
    live = {(pool, address): size for pool, address, size in truth["before"]}
    rows = {row["mark"]: row for row in truth["rows"]}
    for node in capture.nodes:
        params = node["params"] or {}
        if node["node_type"] == "buffer_allocate":
            size = -(-params["max_size_per_bank"] // alignment) * alignment
            live[POOLS[params["buffer_type"]], params["address"]] = size
        elif node["node_type"] == "buffer_deallocate":
            del live[POOLS[params["buffer_type"]], params["address"]]
        elif node["node_type"] == "function_start" and params["name"] in rows:
            want = {(pool, address): size for pool, address, size in rows[params["name"]]["buffers"]}
            if live != want:
                yield f"{capture.folder}: {params['name']}: {live}, not {want}"
                return


def test_the_nodes_of_captures_have_the_allocators_buffers(batch: Batch) -> None:
    differences = [difference for capture in batch.captures for difference in replay(capture)]
    assert not differences, "\n".join(differences)


def knows_older_buffers(profile: Any, truth: dict[str, Any]) -> bool:
    """Whether ttmem has the addresses and sizes of all buffers that are older than a capture."""
    pools = profile.memory_map(at=0)["pools"]
    found = {
        (pool, buffer["address"], buffer["bytes_per_bank"])
        for pool, row in pools.items()
        for buffer in row["buffers"]
    }
    return all((pool, address, size) in found for pool, address, size in truth["before"])


def test_the_model_of_the_allocator_gives_the_same_addresses(batch: Batch) -> None:
    allocations = 0
    for capture in batch.captures:
        profile: Any = ttmem.open(capture.folder / "report.json")
        if knows_older_buffers(profile, capture.truth):
            found = profile.replay()
            assert found["first_difference"] is None, capture.folder
            nodes = [node for node in capture.nodes if node["node_type"] == "buffer_allocate"]
            assert found["allocations"] == found["reproduced"] == len(nodes), capture.folder
            allocations += len(nodes)
    assert allocations > 0


def peak_l1_of_device(nodes: list[dict[str, Any]]) -> int:
    """Returns ttnn's `extract_peak_L1_memory_usage`: bytes of the device plus bytes of a core."""
    program = buffers = peak = depth = 0
    inputs_follow = False
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        # The inputs of a C++ function that Python calls directly.
        inputs_follow &= kind == "tensor" or (kind == "buffer" and params["type"] == "L1")
        if kind == "function_start":
            inputs_follow = depth == 0
            depth += 1
        elif kind == "function_end":
            depth -= 1
        elif kind in ("circular_buffer_allocate", "scratchpad_allocate"):
            program += params["size"]  # those that lie on a tensor, too
        elif kind == "dataflow_buffer_allocate":
            program += 0 if params["borrows_memory"] == "1" else params["size"]
        elif kind == "circular_buffer_deallocate_all":
            program = 0
        elif kind == "buffer_allocate" or (kind == "buffer" and inputs_follow):
            buffers += params["size"] if params["type"] == "L1" else 0
        elif kind == "buffer_deallocate":
            freed = nodes[node["connections"][0]]["params"]
            buffers -= freed["size"] if freed["type"] == "L1" else 0
        peak = max(peak, (program + buffers) % OVERFLOW)
    return peak


def test_ttnns_peak_of_l1_follows_the_rule(batch: Batch) -> None:
    for capture in batch.captures:
        assert peak_l1_of_device(capture.nodes) == capture.truth["ttnn"]["peak_l1_of_device"], capture.folder


def test_ttnns_peak_of_estimates_follows_the_rule(estimates: Batch) -> None:
    assert_no_crash(estimates)
    kinds: Counter[str] = Counter()
    for capture in estimates.captures:
        kinds.update(node["node_type"] for node in capture.nodes)
        assert peak_l1_of_device(capture.nodes) == capture.truth["ttnn"]["peak_l1_of_device"], capture.folder
    assert kinds["dataflow_buffer_allocate"] > 0
    assert kinds["scratchpad_allocate"] > 0


@pytest.mark.parametrize("evidence", ["capture.json", "report.json"])
def test_the_peaks_of_an_estimate_are_what_ttnns_functions_return(estimates: Batch, evidence: str) -> None:
    for capture in estimates.captures:
        found = ttmem.open(capture.folder / evidence).summary()["ranks"][0]["l1"]
        ttnn = capture.truth["ttnn"]
        if found is None:  # no program, and no layout of L1
            assert evidence == "capture.json"
            assert ttnn["peak_cb"] == 0
            continue
        peaks = found["ttnn"]
        # ttnn counts the bytes of all cores with 32 bits, and takes the highest remainder.
        if peaks["peak_l1_memory_usage"] < OVERFLOW:
            assert peaks["peak_l1_memory_usage"] == ttnn["peak_l1_of_device"], capture.folder
        names = ("peak_cb", "peak_dataflow_buffer", "peak_scratchpad", "peak_l1", "peak_total")
        assert {name: peaks[name] for name in names} == {name: ttnn[name] for name in names}, capture.folder


@pytest.mark.parametrize("evidence", ["capture.json", "report.json"])
def test_the_phase_of_an_estimate_is_what_ttnn_extracts(estimates: Batch, evidence: str) -> None:
    differences: list[str] = []
    for capture in estimates.captures:
        phase = ttmem.open(capture.folder / evidence).summary()["ranks"][0]["phases"][0]
        ttnn = capture.truth["ttnn"]
        found = {name: phase[f"l1_{name}_bytes"] for name in ("peak_cb", "peak_buffer", "peak_total")}
        want = {"peak_cb": ttnn["peak_cb"], "peak_buffer": ttnn["peak_l1"], "peak_total": ttnn["peak_total"]}
        # ttnn writes the bytes per core with 32 bits; with the number of cores, a report shows the rest.
        if found != want and max(found.values()) < OVERFLOW:
            differences.append(f"{capture.folder / evidence}: {found}, not {want}")
    assert not differences, "\n".join(differences)
