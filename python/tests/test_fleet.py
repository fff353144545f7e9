"""Tables of the corpus on real databases: they equal the summaries, and all engines give the same rows."""

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

import ttmem
import ttmem.fleet
from conftest import CORPUS, SWEEP, TTMEM
from ttmem.fleet._engines import ClickHouse, DuckDB, Engine, Spark
from ttmem.fleet._files import NotADatasetError, files
from ttmem.fleet._questions import NAMES, Choice, sql, title
from ttmem.fleet._schema import TABLES

GUIDES = CORPUS / "guides"
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
def engines(dataset: Path) -> Any:
    """All engines, each started once."""
    started: dict[str, Engine] = {
        "duckdb": DuckDB(dataset),
        "clickhouse": ClickHouse(dataset),
        "spark": Spark(dataset),
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
        found += [{"file": str(path), "index": index, **rank} for index, rank in enumerate(ranks)]
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
    import duckdb

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
