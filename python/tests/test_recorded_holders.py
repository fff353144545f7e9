"""What keeps tensors alive, in the recording: at a checkpoint, and when memory has run out."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem
from conftest import MODULE, preloaded, ran
from ttmem._failures import Uncaught
from ttmem._torch import holders as search
from ttmem._torch.autograd_graph import Graph
from ttmem._torch.reference_names import Names
from ttmem._torch.referrers import Limits, Referrers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MIB = 1 << 20
STEPS = 14

TRAINING = """
    import gc
    import sys

    import torch
    from torch import nn

    import ttmem

    MIB = 1 << 20


    class Node:
        def __init__(self):
            self.peer = self.payload = None


    def keep_in_list(loss, kept):
        kept.append(torch.ones(MIB, dtype=torch.uint8))  # list


    cache = {}


    def keep_in_dict(loss, kept):
        cache[f"request {len(cache)}"] = torch.ones(MIB, dtype=torch.uint8)  # dict


    def keep_in_closure(loss, kept):
        batch = torch.ones(MIB, dtype=torch.uint8)  # closure
        kept.append(lambda: batch)


    def fail():
        scratch = torch.ones(MIB, dtype=torch.uint8)  # traceback
        raise ValueError(scratch.shape)


    def keep_exception(loss, kept):
        try:
            fail()
        except ValueError as error:
            kept.append(error)


    def keep_cycle(loss, kept):
        a, b = Node(), Node()
        a.peer, b.peer = b, a
        b.payload = torch.ones(MIB, dtype=torch.uint8)  # cycle


    wide = nn.Sequential(nn.Linear(64, 4096), nn.Sigmoid(), nn.Linear(4096, 8))


    def keep_graph_in_cycle(loss, kept):
        a, b = Node(), Node()
        a.peer, b.peer = b, a
        b.payload = wide(torch.ones(64, 64))  # cycle


    def keep_loss(loss, kept):
        kept.append(wide(torch.ones(64, 64)).square().mean())  # graph


    def train(leak):
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
        optimizer = torch.optim.AdamW(model.parameters())
        kept = []
        for step in range(14):
            loss = model(torch.ones(16, 64)).square().mean()
            leak(loss, kept)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        ttmem.memory_checkpoint("trained", holders=True)


    gc.disable()
    train(globals()[sys.argv[1]])
"""

LIST = r"list `kept` in `train\(\)`, program.py:\d+ → `\[\*\]"
HOLDERS = {
    "keep_in_list": LIST + "`$",
    "keep_in_dict": r"dict `cache` of module `__main__` → `\['request \*'\]`$",
    "keep_in_closure": LIST + r"` → closure variable `batch` of `keep_in_closure.<locals>.<lambda>\(\)`, ",
    "keep_exception": LIST + r"\.__traceback__` → local `scratch` in `fail\(\)`, program.py:\d+$",
    "keep_cycle": r"reference cycle \(`Node.peer.peer` → back to `Node`\), freed by the next garbage "
    r"collection → `Node` → `.payload`$",
    "keep_graph_in_cycle": r"reference cycle \(`Node.peer.peer` → back to `Node`\), freed by the next "
    r"garbage collection → `Node` → `.payload` → `Tensor.grad_fn` → saved by \w+Backward0$",
    "keep_loss": LIST + r"` → `Tensor.grad_fn` → saved by \w+Backward0$",
}


def summary_of(folder: Path, program: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Returns the summary of a tracked program, from the command, after its process has ended."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    line = ["-m", "ttmem", "track", "--output-dir", "profiles", script.name, *words]
    assert preloaded().run(line, cwd=folder).returncode == code
    (recording,) = (folder / "profiles").glob("*.ttmem")
    shown = ran([*MODULE, "summary", "--json", str(recording)])
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)["ranks"][0]
    return found


@pytest.mark.parametrize("leak", HOLDERS)
def test_the_recording_names_what_holds_a_leak(tmp_path: Path, leak: str) -> None:
    summary = summary_of(tmp_path, TRAINING, leak)
    most = summary["growth"]["survivors"][0]
    assert re.match(HOLDERS[leak], most["held_by"]), most["held_by"]
    assert most["held_by"] in summary["growth"]["statement"]["detail"]
    (row,) = [row for row in summary["holders"]["rows"] if row["chain"] == most["held_by"]]
    assert row["pool"] == "cpu"
    if leak not in ("keep_loss", "keep_graph_in_cycle"):
        assert (row["tensors"], row["per_bank"]) == (STEPS, STEPS * MIB)
    held = [one for one in summary["peak"]["live"] if one.get("held_by") == most["held_by"]]
    assert held
    assert summary["checkpoints"][0]["name"] == "trained"


RUNS_OUT = """
    import torch

    def serve():
        history = [torch.ones(1 << 20, dtype=torch.uint8) for _ in range(8)]
        batch = torch.ones(3001)
        torch.empty(1 << 50, dtype=torch.uint8)

    cache = {"keys": torch.ones(5001)}
    serve()
"""


def test_an_out_of_memory_error_records_the_holders(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, RUNS_OUT, code=1)
    assert summary["oom"] is not None
    rows = summary["holders"]["rows"]
    most = rows[0]
    assert (most["tensors"], most["per_bank"]) == (8, 8 * MIB)
    assert re.match(r"list `history` in `serve\(\)`, program.py:\d+ → `\[\*\]`$", most["chain"])
    assert any("dict `cache` of module `__main__` → `['keys']`" in row["chain"] for row in rows)
    (recording,) = (tmp_path / "profiles").glob("*.ttmem")
    text, markdown = (
        " ".join(ran([*MODULE, "summary", str(recording), *words]).stdout.split())
        for words in ([], ["--markdown"])
    )
    chain = r"list `history` in `serve\(\)`, program.py:\d+ → `\[\*\]`"
    assert re.search(r"Kept alive by 8\.0 MiB in 8 tensors " + chain, text), text
    row = r"\| list history in serve\(\), program.py:\d+ → \[\*\] \| cpu \| 8\.000 MiB \| 8 \|"
    assert re.search(r"## Kept Alive By .*" + row, markdown), markdown


NOT_UTF_8 = """
    import torch

    program = '''
    def keep():
        kept = torch.ones(3001)
        torch.empty(1 << 50, dtype=torch.uint8)
    '''
    import textwrap
    exec(compile(textwrap.dedent(program), "name\\udcff.py", "exec"))
    keep()
"""


def test_names_that_are_not_utf_8_lose_no_holders(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, NOT_UTF_8, code=1)
    chains = [row["chain"] for row in summary["holders"]["rows"]]
    assert "Tensor `kept` in `keep()`, name?.py:4" in chains
    assert summary["oom"] is not None


def test_errors_after_the_traceback_are_counted() -> None:
    errors: list[Exception] = []

    def fail(*_: object) -> Any:
        raise MemoryError

    shown: list[BaseException] = []
    before, sys.excepthook = sys.excepthook, lambda _, error, __: shown.append(error)
    uncaught = Uncaught(fail, [], fail, errors.append)
    uncaught.open()
    try:
        error = torch.OutOfMemoryError("out of memory")
        sys.excepthook(type(error), error, None)
    finally:
        uncaught.close()
        sys.excepthook = before
    assert shown == [error]
    assert [type(one) for one in errors] == [MemoryError, MemoryError]


def test_other_errors_are_not_searched(tmp_path: Path) -> None:
    program = """
        import torch
        kept = torch.ones(1000)
        raise RuntimeError("another reason")
    """
    assert "holders" not in summary_of(tmp_path, program, code=1)


SEARCHES_AT_END = [
    ("tensors", False, True),
    ("phases", True, True),
    ("phases", False, False),
]


def recorded(folder: Path, *, holders: bool, level: Any = "tensors") -> tuple[dict[str, Any], int]:
    """Returns the summary of a program with a checkpoint, and the number of new references to a tensor."""
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0, level=level)
    kept = torch.ones(7001)
    before = sys.getrefcount(kept)
    ttmem.memory_checkpoint("here", holders=holders)
    after = sys.getrefcount(kept)
    assert tracker.get_summary()["errors"] == 0
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    return ttmem.load(tracker.recording).summary()["ranks"][0], after - before


def test_a_checkpoint_searches_only_if_asked(tmp_path: Path) -> None:
    summary, _ = recorded(tmp_path, holders=False)
    assert "holders" not in summary
    assert all("held_by" not in row for row in summary["peak"]["live"])


def test_a_search_keeps_no_references(tmp_path: Path) -> None:
    summary, references = recorded(tmp_path, holders=True)
    assert references == 0
    (row,) = [row for row in summary["holders"]["rows"] if "`kept`" in row["chain"]]
    assert (row["tensors"], row["per_bank"]) == (1, 4 * 7001)


@pytest.mark.parametrize(("level", "is_printed", "searches"), SEARCHES_AT_END)
def test_the_end_is_searched_only_for_what_is_recorded_or_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Any, *, is_printed: bool, searches: bool
) -> None:
    searched: list[object] = []

    def run(_: object, roots: Iterable[object]) -> None:
        searched.extend(roots)

    monkeypatch.setattr(search.Search, "run", run)
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level=level)
    tracker._holders_at_end(None, is_printed)
    ttmem.stop_memory_tracker()
    assert bool(searched) == searches


def test_without_tensors_there_is_nothing_to_record(tmp_path: Path) -> None:
    summary, _ = recorded(tmp_path, holders=True, level="phases")
    assert "holders" not in summary


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_is_searched_when_it_begins_and_ends(tmp_path: Path, *, fails: bool) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    before: torch.Tensor | None = torch.ones(11001)
    with contextlib.suppress(ValueError), tracker.checkpoint("block", holders=True):
        before = None
        inside = torch.ones(9001)
        if fails:
            raise ValueError
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    summary = ttmem.load(tracker.recording).summary(top=100)["ranks"][0]
    # Only the first search can have found the one, and only the last one the other.
    held = {row["per_bank"]: row.get("held_by", "") for row in summary["peak"]["live"]}
    assert "`before`" in held[4 * 11001]
    # An exception does not wait for a search.
    found = [row for row in summary["holders"]["rows"] if "`inside`" in row["chain"]]
    assert bool(found) != fails
    del before, inside


def test_a_search_that_fails_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(search.Search, "run", fail)
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    ttmem.memory_checkpoint("here", holders=True)
    assert tracker.get_summary()["errors"] == 1
    ttmem.stop_memory_tracker()


def test_what_a_search_does_not_reach_is_not_recorded() -> None:
    rows: list[tuple[object, str]] = []
    kept = [[torch.ones(13001)]]
    warnings: list[str] = []
    found = search.record_holders(rows.extend, warnings.append, max_seconds=-1.0, max_objects=0)
    assert any(one.chain == search.UNFINISHED for one in found)
    assert rows == []
    limit = "the search for what keeps tensors alive reached its limit; "
    assert re.fullmatch(limit + r"\d+ tensors? \(.*\) (was|were) not reached", warnings[0])
    del kept


def test_a_search_that_was_cut_off_leaves_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_SHARE", -1.0)
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    many = [[number] for number in range(10_000)]
    kept = {"far": [[[torch.ones(13001)]]]}
    ttmem.memory_checkpoint("here", holders=True)
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    warnings = [warning["message"] for warning in ttmem.load(tracker.recording).warnings]
    (warning,) = [one for one in warnings if one.startswith("the search for what keeps tensors alive")]
    assert "reached its limit; " in warning
    shown = ran([*MODULE, "summary", "--markdown", tracker.recording])
    assert "the search for what keeps tensors alive reached its limit" in shown.stdout
    del kept, many


def test_the_limit_of_objects_holds_inside_a_container() -> None:
    kept = [[number] for number in range(50_000)]
    away = torch.ones(1)
    limited = search.Search(torch.Tensor, 600.0, 10_000)
    try:
        limited.run([search.Root("kept", kept)])
        assert limited.is_cut
        assert len(limited._visited) == 10_000
    finally:
        limited.clear()
    del away


def test_a_large_container_does_not_use_up_the_limit() -> None:
    large = [[number] for number in range(50_000)]
    small = {"kept": torch.ones(17001)}
    rows: list[tuple[object, str]] = []
    limited = search.Search(torch.Tensor, 600.0, 10_000)
    try:
        limited.run([search.Root("large", large), search.Root("small", small)])
        rows += [(row.tensor, row.chain) for row in limited.rows(None, {4 * 17001})]
    finally:
        limited.clear()
    assert [chain for _, chain in rows] == ["small → `['kept']`"]


def test_a_search_that_was_cut_off_does_not_look_for_referrers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("the limits of the search were exceeded")

    kept = [[torch.ones(13001)]]
    monkeypatch.setattr(search, "Referrers", fail)
    found = search.holders(max_seconds=-1.0)
    assert any(one.chain == search.UNFINISHED for one in found)
    del kept


@pytest.mark.parametrize("limits", [Limits(-1.0, 1_000_000), Limits(time.thread_time() + 600.0, 100)])
def test_the_search_for_referrers_has_limits(limits: Limits) -> None:
    kept = [[[number]] for number in range(10_000)]
    referrers = Referrers(Names(Graph()), {}, (), {}, limits)
    assert referrers.is_cut
    referrers.search([kept[0]])
    assert len(referrers._referrers) < 5_000
    assert referrers.chain(kept[0]) is None
    referrers.clear()
    del kept


@pytest.mark.parametrize("kind", [list, dict])
def test_many_tensors_in_one_container_have_their_names(kind: type) -> None:
    rows: list[tuple[object, str]] = []
    count = 20_000
    kept: Any = [torch.ones(1) for _ in range(count)]
    if kind is dict:
        kept = {f"request {number}": one for number, one in enumerate(kept)}
    # Naming them one by one must not take as long as their number squared: that would be minutes.
    search.record_holders(rows.extend, pytest.fail, max_seconds=60.0)
    names = [chain for _, chain in rows if "`kept` in `test_many_tensors" in chain]
    assert len(names) > search.MAX_RECORDED // 2
    # One row, with their sum.
    assert len(set(names)) == 1
    assert names[0].endswith(" → `[*]`")
    del kept, rows


def test_the_number_of_different_chains_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_CHAINS", 3)
    kept = {name: torch.ones(30_000 + size) for size, name in enumerate("abcdefgh")}
    rows: list[tuple[object, str]] = []
    search.record_holders(rows.extend, pytest.fail, max_seconds=60.0)
    assert len({chain for _, chain in rows}) == 3
    del kept, rows


def chain_of(elements: int) -> str:
    """Returns the references to the tensors of a size, without the variable."""
    (row,) = ttmem.holders(sizes={4 * elements}, max_seconds=600.0)
    return row.chain.partition(" → ")[2]


def test_numbers_in_keys_are_not_shown() -> None:
    cache = {f"layer {layer}, request 7": [torch.ones(19001)] for layer in range(3)}
    assert chain_of(19001) == "`['layer *, request *'][*]`"
    wide = torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(40)])
    wide[7].register_buffer("extra", torch.ones(19003))
    assert chain_of(19003) == "`.*.extra`"
    deep = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Linear(19005, 1))
    assert chain_of(19005) == "`.1.weight`"
    del cache, deep


@pytest.mark.parametrize("count", [1, 50])
def test_keys_are_named_as_keys(count: int) -> None:
    # As in the state of an optimizer, whose keys are parameters.
    state = {torch.ones(21001): {"exp_avg": torch.ones(21003)} for _ in range(count)}
    assert chain_of(21001) == "`.keys()[*]`"
    assert chain_of(21003) == ("`[*]['exp_avg']`")
    del state


def test_threads_may_run_beside_a_checkpoint(tmp_path: Path) -> None:
    ends = threading.Event()
    errors: list[BaseException] = []

    def churn() -> None:
        try:
            table: dict[int, torch.Tensor] = {}
            number = 0
            while not ends.is_set():
                table[number % 50] = torch.ones(100 + number % 7)
                table.pop((number * 7) % 50, None)
                number += 1
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    thread = threading.Thread(target=churn)
    kept = torch.ones(15001)
    thread.start()
    try:
        for number in range(3):
            ttmem.memory_checkpoint(f"checkpoint {number}", holders=True)
    finally:
        ends.set()
        thread.join()
    assert not errors
    assert tracker.get_summary()["errors"] == 0
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    summary = ttmem.load(tracker.recording).summary()["ranks"][0]
    (row,) = [row for row in summary["holders"]["rows"] if row["per_bank"] == 4 * 15001]
    assert "`kept` in `test_threads_may_run_beside_a_checkpoint()`" in row["chain"]
    del kept
