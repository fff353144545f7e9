"""Tables of the corpus on real databases: they equal the summaries, and all engines give the same rows."""

import argparse
import errno
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyspark
import pytest
from pyspark import SparkContext, TaskContext

import ttmem
import ttmem.fleet
from conftest import CORPUS, SWEEP, TTMEM
from made_fleet import PLANTED, ROWS, VALUES, make
from ttmem.fleet import _files
from ttmem.fleet import spark as tasks
from ttmem.fleet._engines import ClickHouse, ClickHouseServer, DuckDB, Engine, EngineError, Spark
from ttmem.fleet._files import NotADatasetError, files
from ttmem.fleet._questions import NAMES, Choice, sql, title
from ttmem.fleet._schema import TABLES
from ttmem.fleet.command import _output, _without_secrets, _wrong, arguments, main

GUIDES = CORPUS / "guides"
CLUSTER = "local-cluster[2,1,1024]" if SWEEP else "local[2,4]"
"""Two workers, as processes or as threads, that run a task up to 4 times."""
# Libraries that the engines load warn about each other.
pytestmark = pytest.mark.filterwarnings("ignore")


def export(dataset: Path, *words: str | Path) -> str:
    """Runs `ttmem export`; returns what it prints."""
    command = [*TTMEM, "export", "-o", dataset, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def inputs() -> list[Path]:
    """The files of the corpus. Without a sweep, some of the smaller ones of each format."""
    found = [path for path in CORPUS.rglob("*") if path.is_file() and path.suffix != ".md"]
    small = sorted(path for path in found if path.stat().st_size < 200_000)
    return sorted(found) if SWEEP else small[::2]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus as one run, and a second one with other labels."""
    folder = tmp_path_factory.mktemp("fleet") / "it's a fleet"
    export(folder, "--run", "corpus", "--label", "commit=it's \\1", "--label", "model=m", *inputs())
    export(folder, "--run", "100%", "--label", "commit=2", "--label", "model=m", *inputs()[::5])
    # Some sources are replaced, so some rows of a file do not count.
    export(folder, "--run", "corpus", "--label", "commit=it's \\1", "--label", "model=m", *inputs()[:9])
    return folder


@pytest.fixture(scope="module")
def engines(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All engines, each started once."""
    # Workers would write next to PySpark.
    os.environ["SPARK_WORKER_DIR"] = str(tmp_path_factory.mktemp("workers"))
    # The `python3` in the PATH does not have the package.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    started: dict[str, Engine] = {
        "duckdb": DuckDB(dataset),
        "clickhouse": ClickHouse(dataset),
        "spark": Spark(dataset, CLUSTER),
    }
    yield started
    for engine in started.values():
        engine.close()
    # PySpark keeps a thread, and trackers of later tests would warn about it.
    assert SparkContext._gateway is not None
    SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


@functools.cache
def summaries() -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The summaries of all ranks, and the errors of the files that cannot be read."""
    found, errors = [], {}
    for path in inputs():
        try:
            ranks = ttmem.load(path).summary()["ranks"]
        except ttmem.Error as error:
            errors[str(path)] = str(error)
            continue
        found += [{**rank, "file": str(path), "index": index} for index, rank in enumerate(ranks)]
    return found, errors


def of_ranks(engine: Engine, table: str, columns: str, condition: str = "1 = 1") -> list[tuple[Any, ...]]:
    """Returns columns of a table, after the file and the index of the rank."""
    names = ", ".join(f"{table}.{column} AS {table}_{column}" for column in columns.split())
    return engine.query(
        f"SELECT runs.source AS source, runs.rank_index AS rank_index, {names} "
        f"FROM {table} JOIN runs ON {table}.rank_id = runs.rank_id WHERE runs.run = 'corpus' AND {condition}"
    ).rows


@pytest.mark.parametrize("name", ["duckdb", "clickhouse", "spark"])
def test_peaks_classes_tensors_and_verdicts_equal_the_summary(engines: dict[str, Engine], name: str) -> None:
    engine, (expected, unreadable) = engines[name], summaries()
    assert len(expected) > 30
    errors = engine.query("SELECT source, error FROM runs WHERE run = 'corpus' AND error IS NOT NULL").rows
    assert in_order(errors) == in_order(list(unreadable.items()))
    query = "SELECT source, rank_index, verdict, oom_cause FROM runs WHERE run = 'corpus' AND error IS NULL"
    verdicts = [
        (one["file"], one["index"], (one["oom"] or {}).get("headline"), (one["oom"] or {}).get("cause"))
        for one in expected
    ]
    assert in_order(engine.query(query).rows) == in_order(verdicts)

    measured = ("peak_per_bank", "peak_total", "peak_step", "level")
    of_tensors = ("unexplained_per_bank", "live_count")
    pools = [
        (one["file"], one["index"], pool, *map(found.get, measured), *map(one["peaks"][pool].get, of_tensors))
        for one in expected
        for pool, found in one["pools"].items()
    ]
    columns = " ".join(("pool", *measured, *of_tensors))
    assert in_order(of_ranks(engine, "pools", columns)) == in_order(pools)

    classes = [
        (one["file"], one["index"], pool, kind, size)
        for one in expected
        for pool, peak in one["peaks"].items()
        for kind, size in (peak["by_class_per_bank"] or {}).items()
    ]
    assert in_order(of_ranks(engine, "classes", "pool class per_bank")) == in_order(classes)

    fields = ("name", "class", "per_bank", "dtype", "op", "loc", "born_step", "dies_step")
    live = [
        (one["file"], one["index"], pool, shape_text(tensor["shape"]), *map(tensor.get, fields))
        for one in expected
        for pool, peak in one["peaks"].items()
        for tensor in peak["live"] or []
    ]
    assert len(live) > 500
    columns = " ".join(("pool", "shape", *fields))
    assert in_order(of_ranks(engine, "tensors", columns, "tensors.at_peak")) == in_order(live)


def shape_text(shape: list[int] | None) -> str | None:
    return None if shape is None else "x".join(map(str, shape))


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("question", NAMES)
def test_all_engines_give_the_same_rows(engines: dict[str, Engine], question: str) -> None:
    choices = [Choice(limit=1000, before="2", after="it's \\1")]
    if question not in {"growth", "growth-tensors"}:
        choices.append(Choice(limit=3, run="100%"))
    for choice in choices:
        answers = {name: engine.query(sql(question, name, choice)) for name, engine in engines.items()}
        assert answers["clickhouse"] == answers["duckdb"]
        assert answers["spark"] == answers["duckdb"]
    assert answers["duckdb"].rows


def test_the_schema_is_that_of_the_files(dataset: Path) -> None:
    kinds = {"VARCHAR": "text", "BIGINT": "number", "BOOLEAN": "flag"}
    for table, paths in files(dataset).tables.items():
        query = "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)"
        found = duckdb.execute(query, [paths])
        columns = {name: kinds[kind] for name, kind, *_ in found.fetchall()}
        assert columns == TABLES[table], table


def test_planted_causes_are_found_first(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    ranks = 1000 if SWEEP else 8
    for number in range(ranks):
        shutil.copy(GUIDES / "batch32.ttmem", tmp_path / f"rank{number}.ttmem")
    shutil.copy(GUIDES / "batch256.ttmem", tmp_path / "rank5.ttmem")
    (tmp_path / f"rank{ranks}.ttmem").write_bytes((GUIDES / "batch32.ttmem").read_bytes()[:40])
    message = export(folder, "--run", "nightly", "--label", "commit=b", *sorted(tmp_path.glob("rank*.ttmem")))
    assert f"rank{ranks}.ttmem" in message
    assert "1 error" in message
    export(
        folder,
        "--run",
        "nightly before",
        "--label",
        "commit=a",
        "--label",
        "model=x",
        GUIDES / "batch32.ttmem",
    )
    export(
        folder,
        "--run",
        "nightly after",
        "--label",
        "commit=b",
        "--label",
        "model=x",
        GUIDES / "batch256.ttmem",
    )

    def first(question: str, *words: str) -> dict[str, Any]:
        command = [*TTMEM, "fleet", question, str(folder), "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        row: dict[str, Any] = json.loads(done.stdout)["rows"][0]
        return row

    outlier = first("outliers")
    assert Path(outlier["file"]).name == "rank5.ttmem"
    whole = ttmem.load(GUIDES / "batch256.ttmem").summary()["ranks"][0]["peak"]
    usual = ttmem.load(GUIDES / "batch32.ttmem").summary()["ranks"][0]["peak"]
    difference = {
        kind: size - usual["by_class_per_bank"].get(kind, 0)
        for kind, size in whole["by_class_per_bank"].items()
    }
    assert outlier["difference_per_bank"] == max(
        *difference.values(), whole["allocated_per_bank"] - usual["allocated_per_bank"]
    )
    assert Path(first("failures", "--run", "nightly")["file"]).name == "rank5.ttmem"
    assert Path(first("errors")["file"]).name == f"rank{ranks}.ttmem"
    grown = first("growth", "--before", "a", "--after", "b")
    assert grown["model"] == "x"
    assert grown["difference_per_bank"] == outlier["difference_per_bank"]


def test_planted_causes_are_found_first_among_a_thousand_ranks(tmp_path: Path) -> None:
    # All ten models grow by 2% of the capacity; activations of one of them grow by 3 GiB more.
    regressed, broken = "$run = 1 AND number % 10 = 7", "$run = 1 AND number = 400"
    model = "CASE key WHEN 'commit' THEN 'c' || $run ELSE 'm' || number % 10 END"
    activation = f"peak - capacity // 10 + CASE WHEN {regressed} THEN {3 << 30} ELSE 0 END"
    unknown = ("pool", "peak_bytes", "capacity_bytes", "peak_per_bank", "capacity_per_bank")
    of_runs = {column: f"CASE WHEN NOT ({broken}) THEN {column} END" for column in unknown}
    of_runs["error"] = f"CASE WHEN {broken} THEN 'truncated' END"
    size = f"CASE class WHEN 'parameter' THEN capacity // 10 ELSE {activation} END"
    changed = {"runs": of_runs, "labels": {"value": model}, "classes": {"per_bank": size}}
    make(tmp_path, 2, 500, {table: values | changed.get(table, {}) for table, values in VALUES.items()})
    engine = DuckDB(tmp_path)

    def first(question: str) -> dict[str, Any]:
        answer = engine.query(sql(question, "duckdb", Choice(before="c0", after="c1")))
        return dict(zip(answer.columns, answer.rows[0], strict=True))

    assert engine.query("SELECT count(*) FROM runs").rows == [(1000,)]
    outlier = first("outliers")
    assert (outlier["run"], outlier["rank"]) == ("nightly-1", str(PLANTED))
    assert (first("failures")["rank"], first("closest")["rank"]) == (str(PLANTED), str(PLANTED))
    assert first("errors")["file"] == "/srv/nightly/1/rank400.ttmem"
    grown = first("growth")
    assert (grown["model"], grown["class"]) == ("m7", "activation")
    engine.close()


def test_ranks_without_a_model_are_compared_with_each_other(tmp_path: Path) -> None:
    for number, name in (("1", "batch32"), ("2", "batch256")):
        export(tmp_path, "--run", f"nightly-{number}", "--label", f"n={number}", GUIDES / f"{name}.ttmem")
    engine = DuckDB(tmp_path)
    for question in ("growth", "growth-tensors"):
        answer = engine.query(sql(question, "duckdb", Choice(key="n", before="1", after="2")))
        first = dict(zip(answer.columns, answer.rows[0], strict=True))
        assert (first["model"], first["pool"], first["class"]) == (None, "cuda", "activation")
    engine.close()


def test_the_timeline_has_the_highest_value_of_each_part(tmp_path: Path) -> None:
    # Step and value, in the order of the curve. Of 64 steps, each of the 32 parts has two.
    curve = [(0, 10), (8, 90), (8, 20), (16, 70), (17, 30), (17, 5), (63, 40)]
    step, size = (f"list_extract({[one[at] for one in curve]}, CAST(step + 1 AS INT))" for at in (0, 1))
    points = {"pool": "pool", "position": "step", "step": step, "time_ns": "step", "per_bank": size}
    rows = f"SELECT *, range AS step FROM ranks, range({len(curve)})"
    make(tmp_path, 1, 3, VALUES | {"curves": points}, ROWS | {"curves": rows})
    engine = DuckDB(tmp_path)
    expected = [10] * 4 + [90] + [20] * 3 + [70] + [5] * 22 + [40]
    for limit in (1, 2):
        answer = engine.query(sql("timeline", "duckdb", Choice(limit=limit)))
        found = [row[answer.columns.index("per_bank")] for row in answer.rows]
        assert found == expected * limit
    engine.close()


def test_outliers_are_compared_with_ranks_of_the_same_kind_of_pool(tmp_path: Path) -> None:
    # Ranks 0 to 7 have devices of a kind. Ranks 8 and 9 have another kind, and much smaller banks.
    is_other = "number >= 8"
    pool = f"CASE WHEN {is_other} THEN 'DRAM' ELSE 'cuda:' || number END"
    peak = f"CASE WHEN {is_other} THEN 7 WHEN number = {PLANTED} THEN 1200 ELSE 1000 END"
    changed = {
        "runs": {"pool": pool, "peak_per_bank": peak},
        "pools": {"pool": pool, "peak_per_bank": peak, "unexplained_per_bank": "NULL"},
        "classes": {"pool": "'none'"},
    }
    make(tmp_path, 1, 10, {table: values | changed.get(table, {}) for table, values in VALUES.items()})
    engine = DuckDB(tmp_path)
    answer = engine.query(sql("outliers", "duckdb", Choice()))
    (row,) = answer.rows
    found = dict(zip(answer.columns, row, strict=True))
    assert (found["rank"], found["pool"], found["part"]) == (str(PLANTED), f"cuda:{PLANTED}", "peak")
    assert (found["median_per_bank"], found["difference_per_bank"]) == (1000, 200)
    engine.close()


def test_sums_have_one_unit(tmp_path: Path) -> None:
    # Ranks 0 and 1 have a GPU, rank 2 has DRAM. All have other pools as well.
    pool = "CASE WHEN number < 2 THEN 'cuda:' || number ELSE 'DRAM' END"
    tensor = {
        "tensor": "0",
        "pool": f"CASE WHEN kind = 'main' THEN {pool} ELSE 'host' END",
        "class": "'activation'",
        "per_bank": "10",
        "name": "'x'",
        "at_peak": "true",
        "stack": "0",
    }
    of_stack = {"stack": "0", "line": "'train.py:1'", "lines": "'train.py:1'"}
    of_runs = VALUES["runs"] | {"pool": pool}
    of_pools = {
        "pool": "'L1'",
        "banks": "64",
        "unexplained_per_bank": "2",
        "reserved_at_peak_total": "NULL",
        "padded_bytes": "5",
        "logical_bytes": "3",
    }
    values = {"runs": of_runs, "tensors": tensor, "stacks": of_stack, "labels": VALUES["labels"]}
    make(tmp_path, 1, 3, values, ROWS | {"tensors": "SELECT *, unnest(['main', 'other']) AS kind FROM ranks"})
    engine = DuckDB(tmp_path)

    def answer(question: str) -> list[dict[str, Any]]:
        found = engine.query(sql(question, "duckdb", Choice()))
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    for question in ("tensors", "lines"):
        sums = [(row["pool"], row["sum_per_bank"], row["tensors"]) for row in answer(question)]
        assert sums == [("cuda", 20, 2), ("DRAM", 10, 1)], question
    engine.close()

    # The padding of DRAM is not that of L1, and a column without values stays empty.
    of_runs = VALUES["runs"] | {"pool": "'L1'", "padded_bytes": "500", "logical_bytes": "100"}
    make(tmp_path, 1, 3, {"runs": of_runs, "pools": of_pools})
    engine = DuckDB(tmp_path)
    for row in answer("waste"):
        assert (row["padding_bytes"], row["unexplained_bytes"]) == (3 * 2, 3 * 2 * 64)
        assert row["unallocated_bytes"] is None
    engine.close()


def test_a_reader_during_exports_sees_a_state_before_or_after(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    # Each side replaces the other one. The label, the peak and the curve are of the same side.
    sides = {"1": GUIDES / "batch32.ttmem", "2": GUIDES / "batch256.ttmem"}
    for side, path in sides.items():
        (tmp_path / side).mkdir()
        shutil.copy(path, tmp_path / side / "rank.ttmem")
    source = tmp_path / "rank.ttmem"
    query = (
        "SELECT any_value(labels.value), count(DISTINCT rank_id), count(DISTINCT curves.rank_id), "
        "max(peak_per_bank), count(*) FROM runs JOIN labels USING (rank_id) LEFT JOIN curves USING (rank_id)"
    )

    def state() -> Any:
        connection = ttmem.fleet.connect(folder)
        try:
            return connection.sql(query).fetchall()[0]
        finally:
            connection.close()

    expected = set()
    for side in sides:
        shutil.copy(tmp_path / side / "rank.ttmem", source)
        ttmem.export(source, folder, run="r", labels={"side": side})
        expected.add(state())
    assert len(expected) == 2
    script = (
        "import os, shutil, sys, ttmem\n"
        "folder, source, root = sys.argv[1:]\n"
        "for turn in range(10**6):\n"
        "    side = str(1 + turn % 2)\n"
        "    shutil.copy(f'{root}/{side}/rank.ttmem', source)\n"
        "    ttmem.export(source, folder, run='r', labels={'side': side})\n"
        "    ttmem.export(f'{root}/missing{turn}', folder, run=f'other{turn % 50}')\n"
    )
    words = [sys.executable, "-c", script, str(folder), str(source), str(tmp_path)]
    seen: list[Any] = []
    listed = 0
    with subprocess.Popen(words) as exporter:
        try:
            before = (folder / "runs" / "run=r").stat().st_mtime_ns
            end = time.monotonic() + (60 if SWEEP else 5)
            # On a busy machine, it takes longer to read ten times.
            while time.monotonic() < end or len(set(seen)) < 2 or listed < 10:
                assert exporter.poll() is None
                files(folder)
                listed += 1
                # A listed file may be removed before it is read. That is an error, not another state.
                with suppress(duckdb.IOException):
                    seen.append(state())
            assert (folder / "runs" / "run=r").stat().st_mtime_ns > before
        finally:
            exporter.kill()
    assert set(seen) == expected


def test_exports_that_are_only_added_do_not_delay_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, 2, 1)
    names = _files._names
    count = 0

    def busy(folder: str) -> list[str]:
        # Whenever a folder is listed, another export is complete.
        nonlocal count
        count += 1
        for table in ("curves", "runs"):
            (tmp_path / table / "run=nightly-1" / f"{count}.parquet").touch()
        return names(folder)

    monkeypatch.setattr(_files, "_names", busy)
    found = files(tmp_path).tables
    assert {Path(path).name for path in found["curves"]} == {Path(path).name for path in found["runs"]}

    def removed(folder: str) -> list[str]:
        found = names(folder)
        for name in found:
            if folder.endswith("runs/run=nightly-1"):
                Path(folder, name).rename(Path(folder, f"{name}-new.parquet"))
        return found

    monkeypatch.setattr(_files, "_names", removed)
    monkeypatch.setattr(_files, "ATTEMPTS", 3)
    with pytest.raises(TimeoutError, match="keeps changing"):
        files(tmp_path)


def test_the_command_prints_tables(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    export(folder, GUIDES / "batch256.ttmem")

    def run(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "ttmem", "fleet", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = run("closest", str(folder))
    assert code == 0
    assert out.startswith(title("closest"))
    assert "138.59 GiB" in out
    assert "Out of memory: cuda:0 is full." in out
    code, out, _ = run("closest", str(folder), "--markdown")
    assert (code, out.count("\n| batch256 |")) == (0, 1)
    code, out, _ = run("tensors", str(folder))
    assert (code, "  largest/bank  " in out, " GiB  " in out) == (0, True, True)
    code, out, _ = run("errors", str(folder))
    assert (code, out.splitlines()[-1]) == (0, "  no rows")
    code, out, _ = run("closest", str(folder), "--sql")
    assert (code, out.count("CREATE TEMPORARY VIEW")) == (0, len(TABLES))
    assert run("closest", str(folder), "--sql", "--engine", "spark")[0] == 2
    code, _, error = run("closest", str(tmp_path / "none"))
    assert (code, "not a dataset" in error) == (2, True)
    code, _, error = run("growth", str(folder))
    assert (code, "--before" in error) == (2, True)


def test_a_mistyped_name_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, 12, 1)

    def error(*words: str) -> str:
        assert main([words[0], str(tmp_path), *words[1:]]) == 2
        found = capsys.readouterr()
        assert found.out == ""
        return found.err.removeprefix("ttmem: ")

    message = error("failures", "--run", "nightly-99")
    assert message == (
        "nightly-99: no such run; the dataset has nightly-9, nightly-8, nightly-7, nightly-6, nightly-5 "
        "and 7 more\n"
    )
    words = ("--before", "c0ffee1", "--after", "c0ffe2")
    for question in ("growth", "growth-tensors"):
        assert "c0ffe2: no run has this value of the label `commit`; the dataset" in error(question, *words)
    assert error("growth", "--label", "x", *words) == (
        "x: no run has this label; `ttmem fleet labels` lists the labels\n"
    )
    assert main(["failures", str(tmp_path), "--run", "nightly-1"]) == 0


def fleet(*words: str | Path) -> tuple[int, str, str]:
    """Runs `ttmem fleet` in its own process, which may have one session of ClickHouse."""
    done = subprocess.run([*TTMEM, "fleet", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_errors_of_engines_have_one_line(tmp_path: Path) -> None:
    make(tmp_path, 1, 2)
    for path in (tmp_path / "classes").rglob("*.parquet"):
        path.write_bytes(b"PAR1 broken PAR1")
    for engine, name in (("duckdb", "DuckDB"), ("clickhouse", "ClickHouse")):
        code, out, error = fleet("outliers", tmp_path, "--engine", engine)
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert error.startswith(f"ttmem: {name}: ")


def test_a_file_that_vanished_is_an_error_with_advice(tmp_path: Path) -> None:
    make(tmp_path, 1, 2)
    engine = DuckDB(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(EngineError, match=r"DuckDB: .*; if an export was running, try again"):
        engine.query("SELECT * FROM runs")
    engine.close()


def test_a_folder_without_permission_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listdir(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", listdir)
    assert main(["closest", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"ttmem: {tmp_path}/runs: Permission denied\n"


def test_names_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "'a' || chr(27) || '[2J' || chr(155) || '2K' || chr(8238) || chr(10) || 'b'"
    make(tmp_path, 1, 1, {"runs": VALUES["runs"] | {"file": name}})
    for form in ((), ("--markdown",), ("--json",)):
        assert main(["closest", str(tmp_path), *form]) == 0
        out = capsys.readouterr().out
        assert not set(out) & set("\x1b\x9b")
        if form == ("--json",):
            assert json.loads(out)["rows"][0]["file"] == "a\x1b[2J\x9b2K\u202e\nb"
        else:
            assert "a\ufffd[2J\ufffd2K\ufffd b" in out
    assert main(["closest", str(tmp_path), "--run", "\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_tables_of_other_versions(tmp_path: Path) -> None:
    newer, older = tmp_path / "newer", tmp_path / "older"
    make(newer, 1, 1, VALUES | {"runs": VALUES["runs"] | {"schema_version": "2"}})
    for engine in ("duckdb", "clickhouse"):
        expected = f"ttmem: {newer}: tables of version 2, but this ttmem reads version 1; upgrade ttmem\n"
        assert fleet("closest", newer, "--engine", engine) == (2, "", expected)
    with pytest.raises(ValueError, match="upgrade ttmem"):
        ttmem.fleet.connect(newer)
    # Without a column, and with one of a later version.
    make(older, 1, 2)
    (file,) = (older / "curves").rglob("*.parquet")
    scan = f"SELECT * EXCLUDE (position), 1 AS later FROM read_parquet('{file}', hive_partitioning = false)"
    duckdb.execute(f"CREATE TABLE curves AS {scan}; COPY curves TO '{file}' (FORMAT parquet)")
    answers = [fleet("timeline", older, "--engine", engine, "--json") for engine in ("duckdb", "clickhouse")]
    assert answers[0] == answers[1]
    assert len(json.loads(answers[0][1])["rows"]) == 64
    connection = ttmem.fleet.connect(older)
    assert connection.sql("SELECT * FROM curves").columns == list(TABLES["curves"])
    assert connection.sql("SELECT count(*), count(position) FROM curves").fetchall() == [(400, 0)]


def test_the_scripts_give_the_rows_of_the_question(tmp_path: Path) -> None:
    # Hive partitioning would read this name as a number.
    export(tmp_path / "fleet", "--run", "007", GUIDES / "batch32.ttmem")

    def script(engine: str) -> str:
        words = ["trend", str(tmp_path / "fleet"), "--engine", engine, "--sql"]
        return _output(arguments().parse_args(words))

    (row,) = duckdb.connect().execute(script("duckdb")).fetchall()
    assert row[0] == "007"
    # A process may have one session of ClickHouse.
    client = (
        "import sys, chdb.session\n"
        "session = chdb.session.Session(sys.argv[1])\n"
        "for statement in sys.stdin.read().removesuffix(';\\n').split(';\\n'):\n"
        "    answer = session.query(statement, 'JSONCompact')\n"
        "print(answer)\n"
    )
    words = [sys.executable, "-c", client, str(tmp_path / "session")]
    done = subprocess.run(words, input=script("clickhouse"), capture_output=True, text=True, check=True)
    (found,) = json.loads(done.stdout)["data"]
    assert found[0] == "007"


def test_options_of_connections_are_checked(tmp_path: Path) -> None:
    export(tmp_path / "fleet", GUIDES / "batch256.ttmem")

    def parsed(*words: str) -> argparse.Namespace:
        return arguments().parse_args(["closest", str(tmp_path / "fleet"), *words])

    clickhouse, spark = ("--engine", "clickhouse"), ("--engine", "spark")
    script = _output(parsed(*clickhouse, "--sql", "--dataset-on-server", "/srv/fleet/"))
    assert "file('/srv/fleet/runs/*/*.parquet'" in script
    assert _wrong(parsed(*spark, "--connection", "sc://x", "--dataset-on-server", "hdfs://x/fleet")) is None
    for words, message in {
        ("--connection", "http://x"): "DuckDB has no server",
        (*clickhouse, "--connection", "clickhouse://x"): "expected the HTTP interface",
        (*spark, "--dataset-on-server", "/x"): "only with --connection",
        (*spark, "--connection", "sc://x", "--dataset-on-server", "x"): "expected an absolute path",
    }.items():
        assert message in (_wrong(parsed(*words)) or "")


def test_a_connection_shows_one_state_of_the_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "[a]*?"
    with pytest.raises(NotADatasetError):
        ttmem.fleet.connect(folder)
    export(folder, "--run", "r", "--label", "n=1", GUIDES / "batch32.ttmem")
    # An export that was killed before its last rename has files, but no rows.
    other = tmp_path / "other"
    export(other, "--run", "r", "--label", "n=2", GUIDES / "batch256.ttmem")
    for path in [path for path in other.rglob("*.parquet") if "runs" not in path.parts]:
        target = folder / path.relative_to(other)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    connection = ttmem.fleet.connect(folder)
    assert connection.sql("SELECT value FROM labels").fetchall() == [("1",)]
    assert connection.sql("SELECT count(DISTINCT rank_id) FROM tensors").fetchall() == [(1,)]
    assert connection.sql("SELECT count(*) FROM phases").fetchall() == [(0,)]


def content(dataset: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of all tables, without what differs between exports."""
    connection = ttmem.fleet.connect(dataset)
    found = {}
    for table in TABLES:
        columns = "* EXCLUDE (rank_id, export_id, exported_ns)"
        scan = "runs"
        if table != "runs":
            columns = "source, rank_index, of_rank.* EXCLUDE (rank_id)"
            scan = f"{table} AS of_rank JOIN runs USING (rank_id)"
        found[table] = in_order(connection.sql(f"SELECT {columns} FROM {scan}").fetchall())
    return found


def exported(dataset: Path, inputs: int) -> ttmem.Exported:
    """Counts what a dataset has."""
    counts = ttmem.fleet.connect(dataset).sql("SELECT count(*), count(error) FROM runs").fetchall()
    ((runs, errors),) = counts
    rows = sum(map(len, content(dataset).values()))
    return ttmem.Exported(inputs, runs - errors, rows, errors)


def logs(folder: Path) -> list[Path]:
    """Some files of the corpus, one that is broken, and one that is missing."""
    broken = folder / "broken.ttmem"
    broken.write_bytes((GUIDES / "batch32.ttmem").read_bytes()[:40])
    return [*inputs()[::6], broken, folder / "missing.log"]


def test_the_function_exports_as_the_command_does(tmp_path: Path) -> None:
    paths, labels = logs(tmp_path), {"commit": "1", "model": "a=b"}
    function, command = tmp_path / "function", tmp_path / "command"
    done = ttmem.export(paths, function, run="r", labels=labels)
    export(command, "--run", "r", "--label", "commit=1", "--label", "model=a=b", *paths)
    assert content(function) == content(command)
    assert done == exported(command, len(paths))
    assert done.errors >= 2
    # Without a run, each input is one.
    assert ttmem.export(str(paths[0]), function).inputs == 1
    runs = ttmem.fleet.connect(function).sql("SELECT DISTINCT run FROM runs").fetchall()
    assert len(runs) == 2
    assert ttmem.export([], tmp_path / "none") == ttmem.Exported(0, 0, 0, 0)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match="run: expected a name"):
        ttmem.export(paths, tmp_path / "none", run="")
    with pytest.raises(ttmem.UnknownFormat):
        ttmem.export(paths, tmp_path / "none", format="none")
    with pytest.raises(NotADirectoryError):
        ttmem.export(paths, paths[0])


def test_tasks_of_spark_write_the_rows_of_the_command(
    engines: dict[str, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = as_spark(engines).session
    paths = logs(tmp_path)
    export(tmp_path / "command", "--run", "r", "--label", "commit=1", "--host", "shared", *paths)
    expected, written = content(tmp_path / "command"), tmp_path / "tasks"
    monkeypatch.chdir(tmp_path)

    def ingest(count: int) -> ttmem.Exported:
        mixed: list[str | Path] = [*paths, str(paths[0]), "broken.ttmem"]
        return tasks.ingest(session, mixed, "tasks", run="r", labels={"commit": "1"}, tasks=count)

    done = ingest(3)
    assert content(written) == expected
    assert done == exported(tmp_path / "command", len(paths))
    # The files of a task share one per table.
    assert len(list((written / "runs").rglob("*.parquet"))) == 3

    # Each task is lost after its export, and repeated.
    task = tasks._task

    def failing_task(dataset: str, options: dict[str, Any]) -> Any:
        export_share = task(dataset, options)

        def lost_once(share: Any) -> Any:
            found = export_share(share)
            if TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]
                message = "the worker is lost"
                raise RuntimeError(message)
            return found

        return lost_once

    monkeypatch.setattr(tasks, "_task", failing_task)
    assert ingest(2) == done
    assert content(written) == expected
    # All of these replaced what was exported before.
    assert len(list((written / "runs").rglob("*.parquet"))) == 2
    with pytest.raises(ValueError, match="hdfs://x/y: not a path"):
        tasks.ingest(session, ["hdfs://x/y"], written)
    assert tasks.ingest(session, [], written) == ttmem.Exported(0, 0, 0, 0)


def as_spark(engines: dict[str, Engine]) -> Spark:
    spark = engines["spark"]
    assert isinstance(spark, Spark)
    return spark


@pytest.fixture(scope="module")
def clickhouse_server() -> Any:
    """The address of ClickHouse's HTTP interface."""
    script = Path(__file__).with_name("clickhouse_server.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"


def test_a_clickhouse_server_gives_the_same_rows(
    engines: dict[str, Engine], dataset: Path, clickhouse_server: str, tmp_path: Path
) -> None:
    seen_at = tmp_path / "mounted"
    seen_at.symlink_to(dataset)
    server = ClickHouseServer(dataset, clickhouse_server, str(seen_at))
    choice = Choice(limit=1000, before="2", after="it's \\1")
    for question in NAMES:
        expected = engines["duckdb"].query(sql(question, "duckdb", choice))
        assert server.query(sql(question, "clickhouse", choice)) == expected, question
    server.close()
    with pytest.raises(EngineError, match="sees 0 of 3 files"):
        ClickHouseServer(dataset, clickhouse_server, str(tmp_path / "elsewhere"))
    with pytest.raises(EngineError, match="ClickHouse: "):
        ClickHouseServer(dataset, "http://127.0.0.1:1")
    # An error of Spark is one of the engine as well.
    with pytest.raises(EngineError, match="Spark: "):
        engines["spark"].query("SELECT nothing FROM nowhere")


@pytest.mark.parametrize(
    "address",
    [
        "http://user:se/cret@x",
        "http://user:12/cret@x",
        "http://user:cret?a@x",
        "http://u:cret@x:cret",
        "http://",
    ],
)
def test_no_part_of_a_password_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["closest", str(tmp_path), "--engine", "clickhouse", "--connection", address])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert "--connection: invalid address" in message
    assert "cret" not in message


def test_the_password_may_be_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import clickhouse_connect

    make(tmp_path, 1, 1)
    monkeypatch.setenv("TTMEM_FLEET_PASSWORD", "of the environment")
    found = []

    def get_client(**options: Any) -> Any:
        found.append(options["password"])
        raise OSError

    monkeypatch.setattr(clickhouse_connect, "get_client", get_client)
    for address in ("http://user@x:8123", "http://user:own@x:8123"):
        with pytest.raises(EngineError):
            ClickHouseServer(tmp_path, address)
    # An empty password leaves that of the address.
    assert found == ["of the environment", ""]
    message = _without_secrets("sc://x/;token=abc: of the environment, p@ss", "http://u:p%40ss@x/?token=abc")
    assert message == "sc://x/;token=***: ***, ***"


def test_a_password_is_only_sent_encrypted_to_https(tmp_path: Path) -> None:
    export(tmp_path / "fleet", GUIDES / "batch32.ttmem")
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        received.extend(peer.recv(65536))

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"https://user:secret@127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(EngineError, match="ClickHouse: "):
            ClickHouseServer(tmp_path / "fleet", address)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    # TLS begins with a handshake record.
    assert received[0] == 0x16
    assert b"Authorization" not in received


@pytest.mark.skipif(not SWEEP, reason="starting a server of Spark Connect takes long; `make soak` does it")
def test_a_server_of_spark_connect_gives_the_same_rows(engines: dict[str, Engine], dataset: Path) -> None:
    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    options = ("--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}")
    command = [str(home / "bin" / "spark-submit"), *options, "--class", service, "spark-internal"]
    environment = os.environ | {"SPARK_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            # The client waits for the server.
            words = (
                "--engine",
                "spark",
                "--connection",
                f"sc://127.0.0.1:{port}",
                "--limit",
                "1000",
                "--json",
            )
            for question in ("closest", "outliers", "timeline"):
                done = subprocess.run(
                    [*TTMEM, "fleet", question, str(dataset), *words],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                expected = engines["duckdb"].query(sql(question, "duckdb", Choice(limit=1000)))
                rows = [dict(zip(expected.columns, row, strict=True)) for row in expected.rows]
                assert json.loads(done.stdout)["rows"] == rows
        finally:
            server.terminate()
