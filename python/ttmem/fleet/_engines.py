"""The engines: views on the tables of a dataset, and queries."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ttmem.fleet._files import files
from ttmem.fleet._questions import DIALECTS
from ttmem.fleet._schema import FLAG, NUMBER, TABLES, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

TYPES = {
    "duckdb": {TEXT: "VARCHAR", NUMBER: "BIGINT", FLAG: "BOOLEAN"},
    "clickhouse": {TEXT: "Nullable(String)", NUMBER: "Nullable(Int64)", FLAG: "Nullable(Bool)"},
    "spark": {TEXT: "STRING", NUMBER: "BIGINT", FLAG: "BOOLEAN"},
}
CLICKHOUSE_SETTINGS = {
    # Missing rows and columns are NULL, as in the other engines.
    "join_use_nulls": 1,
    "cast_keep_nullable": 1,
    "input_format_parquet_allow_missing_columns": 1,
    # `run` is a column of the files. The name of a folder may be a number.
    "use_hive_partitioning": 0,
    "output_format_json_quote_64bit_integers": 0,
}


class Answer(NamedTuple):
    """The rows of a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class Engine(Protocol):
    """An engine with the views of a dataset."""

    def query(self, sql: str) -> Answer:
        """Runs a query."""

    def close(self) -> None:
        """Ends the engine."""


def views(dataset: str | os.PathLike[str], engine: str) -> Iterator[tuple[str, str]]:
    """Returns the name and the definition of each view.

    Of several exports of a source, only the newest counts.
    """
    for table, paths in files(dataset).tables.items():
        scan = _empty(table, engine) if not paths else _scan(table, paths, engine)
        if table == "runs":
            columns = ", ".join(TABLES[table])
            newest = "SELECT *, MAX(export_id) OVER (PARTITION BY source_id) AS newest_export FROM "
            yield table, f"SELECT {columns} FROM ({newest}{scan}) AS exports WHERE export_id = newest_export"
        else:
            yield table, f"SELECT * FROM {scan} WHERE rank_id IN (SELECT rank_id FROM runs)"


def _empty(table: str, engine: str) -> str:
    columns = (f"CAST(NULL AS {TYPES[engine][kind]}) AS {name}" for name, kind in TABLES[table].items())
    return f"(SELECT {', '.join(columns)} WHERE 1 = 0) AS no_rows"


def _scan(table: str, paths: list[str], engine: str) -> str:
    quote = DIALECTS[engine].quote
    if engine == "duckdb":
        listed = ", ".join(quote(_without_wildcards(path)) for path in paths)
        return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    if engine == "clickhouse":
        structure = ", ".join(f"{name} {TYPES[engine][kind]}" for name, kind in TABLES[table].items())
        root = os.path.dirname(os.path.dirname(paths[0]))
        if set(root) & set("*?{}[]"):
            message = f"{root}: ClickHouse reads these characters as wildcards; rename the folder"
            raise ValueError(message)
        # ClickHouse has no lists of files, and does not open files that the condition excludes.
        listed = ", ".join(map(quote, paths))
        scan = f"file({quote(root + '/*/*.parquet')}, 'Parquet', {quote(structure)})"
        return f"(SELECT * FROM {scan} WHERE _path IN ({listed})) AS listed_files"
    return f"ttmem_files_{table}"


def _without_wildcards(path: str) -> str:
    """Returns the pattern that matches only this path."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


class DuckDB:
    """DuckDB, in this process."""

    def __init__(self, dataset: str | os.PathLike[str]) -> None:
        self.connection = connect(dataset)

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        found = self.connection.execute(sql)
        return Answer([column[0] for column in found.description or ()], found.fetchall())

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


def connect(dataset: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """Returns a DuckDB connection with a view for each table of a dataset.

    The views show the dataset as it is now. Call this again to see later exports.
    """
    import duckdb

    connection = duckdb.connect()
    for table, definition in views(dataset, "duckdb"):
        connection.execute(f"CREATE VIEW {table} AS {definition}")
    return connection


class ClickHouse:
    """ClickHouse, in this process (chdb)."""

    def __init__(self, dataset: str | os.PathLike[str]) -> None:
        import chdb.session

        self._folder = tempfile.mkdtemp(prefix="ttmem-fleet-")
        untyped: Any = chdb.session
        self._session = untyped.Session(self._folder)
        for name, value in CLICKHOUSE_SETTINGS.items():
            self._session.query(f"SET {name} = {value}")
        self._session.query("CREATE DATABASE IF NOT EXISTS fleet")
        self._session.query("USE fleet")
        for table, definition in views(dataset, "clickhouse"):
            self._session.query(f"CREATE VIEW {table} AS {definition}")

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        found = json.loads(self._session.query(sql, "JSONCompact").bytes())
        return Answer([column["name"] for column in found["meta"]], [tuple(row) for row in found["data"]])

    def close(self) -> None:
        """Ends the session."""
        self._session.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Spark:
    """Spark: a session that exists, or a local one."""

    def __init__(self, dataset: str | os.PathLike[str], session: Any = None) -> None:
        from pyspark.sql import SparkSession

        self._own = session is None
        if session is None:
            builder: Any = SparkSession.builder
            local = builder.master("local[2]").config("spark.ui.enabled", "false")
            local = local.config("spark.ui.showConsoleProgress", "false")
            # A local session has little data, and each partition costs time.
            local = local.config("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
            session = local.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        self.session: Any = session
        for table, paths in files(dataset).tables.items():
            if paths:
                schema = ", ".join(f"{name} {TYPES['spark'][kind]}" for name, kind in TABLES[table].items())
                scan = session.read.schema(schema).parquet(
                    *("file://" + _escaped_path(path) for path in paths)
                )
                scan.createOrReplaceTempView(f"ttmem_files_{table}")
        for table, definition in views(dataset, "spark"):
            session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {table} AS {definition}")

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        found = self.session.sql(sql)
        return Answer(list(found.columns), [tuple(row) for row in found.collect()])

    def close(self) -> None:
        """Ends the session, if it was started here."""
        if self._own:
            self.session.stop()


def _escaped_path(path: str) -> str:
    """Returns the pattern of Hadoop that matches only this path."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in path)


def start(engine: str, dataset: str | os.PathLike[str]) -> Engine:
    """Starts an engine with the views of a dataset."""
    kinds: dict[str, type[DuckDB | ClickHouse | Spark]] = {
        "duckdb": DuckDB,
        "clickhouse": ClickHouse,
        "spark": Spark,
    }
    return kinds[engine](dataset)
