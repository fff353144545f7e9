"""The engines: views on the tables of a dataset, and queries."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from ttmem.fleet._files import Files, files
from ttmem.fleet._questions import DIALECTS, code
from ttmem.fleet._schema import FLAG, NUMBER, SCHEMA, TABLES, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
VERSION_QUERY = "SELECT MAX(schema_version) FROM runs"
PASSWORD = "TTMEM_FLEET_PASSWORD"  # noqa: S105
"""The environment variable with the password for a ClickHouse server."""
SERVER_PATH = (
    "ClickHouse reads files below its user_files_path only: put the dataset there, and pass its path on the "
    "server with --dataset-on-server"
)


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


class EngineError(ValueError):
    """An engine cannot be reached, does not see the dataset, or does not run a query."""

    def __init__(self, engine: str, why: object, advice: str | None = None) -> None:
        lines = str(why).splitlines() or [type(why).__name__]
        super().__init__(f"{engine}: {lines[0]}" + (f"; {advice}" if advice else ""))


class View(NamedTuple):
    """The view of a table."""

    table: str
    scan: str
    """The rows of the files."""

    @property
    def definition(self) -> str:
        """The query of the view. Of several exports of a source, only the newest counts."""
        columns = ", ".join(TABLES[self.table])
        if self.table != "runs":
            return f"SELECT {columns} FROM {self.scan} WHERE rank_id IN (SELECT rank_id FROM runs)"
        newest = f"SELECT *, MAX(export_id) OVER (PARTITION BY source_id) AS newest_export FROM {self.scan}"
        return f"SELECT {columns} FROM ({newest}) AS exports WHERE export_id = newest_export"

    def filled(self) -> View:
        """Returns the view with NULL for columns that no file has. Only DuckDB needs it."""
        union = f"SELECT * FROM {self.scan} UNION ALL BY NAME SELECT * FROM {_empty(self.table, 'duckdb')}"
        return self._replace(scan=f"({union}) AS filled")


def views(listed: Files, engine: str) -> list[View]:
    """Returns the views on the files of a dataset."""
    return [
        View(table, _scan(table, paths, engine) if paths else _empty(table, engine))
        for table, paths in listed.tables.items()
    ]


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


class Views:
    """The views of a dataset that a query uses, each created once.

    Creating a view takes time, because engines read the schema of all its files.
    """

    def __init__(self, missing: Iterable[View]) -> None:
        self._missing = {view.table: view for view in missing}

    def create(self, sql: str, create: Callable[[View], object]) -> None:
        """Creates the views that a query names and that do not exist. All views use `runs`."""
        names = {"runs", *re.findall(r"\w+", sql)}
        for table in [table for table in self._missing if table in names]:
            create(self._missing.pop(table))


class DuckDB:
    """DuckDB, in this process."""

    def __init__(self, dataset: str | os.PathLike[str]) -> None:
        self.connection = _duckdb()
        self._views = Views(views(files(dataset), "duckdb"))

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        import duckdb

        try:
            self._views.create(sql, lambda view: _create(self.connection, view))
            found = self.connection.execute(sql)
            return Answer([column[0] for column in found.description or ()], found.fetchall())
        except duckdb.IOException as error:
            raise EngineError("DuckDB", error, "if an export was running, try again") from error
        except duckdb.Error as error:
            raise EngineError("DuckDB", error) from error

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()


def connect(dataset: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """Returns a DuckDB connection with a view for each table of a dataset, and `runs` in memory.

    They show the dataset as it is now. Call this again to see later exports.
    """
    connection = _duckdb()
    for view in views(files(dataset), "duckdb"):
        _create(connection, view)
    ((version,),) = connection.execute(VERSION_QUERY).fetchall()
    _check_version(dataset, version)
    return connection


def _duckdb() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    # A file of a dataset never changes, so the schema that a view has read is that of the query.
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def _create(connection: duckdb.DuckDBPyConnection, view: View) -> None:
    import duckdb

    # All other views use `runs`. In memory, it is read once, and its size is known when joins are planned.
    create = f"CREATE {'TABLE' if view.table == 'runs' else 'VIEW'} {view.table} AS "
    try:
        connection.execute(create + view.definition)
    except duckdb.BinderException:
        # An earlier version has written all of these files, without some columns.
        connection.execute(create + view.filled().definition)


class ClickHouse:
    """ClickHouse, in this process (chdb)."""

    def __init__(self, dataset: str | os.PathLike[str]) -> None:
        import chdb.session

        self._errors = (RuntimeError, chdb.ChdbError)
        self._views = Views(views(files(dataset), "clickhouse"))
        self._folder = tempfile.mkdtemp(prefix="ttmem-fleet-")
        untyped: Any = chdb.session
        try:
            self._session = untyped.Session(self._folder)
            for name, value in CLICKHOUSE_SETTINGS.items():
                self._session.query(f"SET {name} = {value}")
            self._session.query("CREATE DATABASE IF NOT EXISTS fleet")
            self._session.query("USE fleet")
        except self._errors as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise EngineError("ClickHouse", error) from error

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        try:
            self._views.create(sql, self._create)
            found = json.loads(self._session.query(sql, "JSONCompact").bytes())
        except self._errors as error:
            raise EngineError("ClickHouse", error) from error
        return Answer([column["name"] for column in found["meta"]], [tuple(row) for row in found["data"]])

    def _create(self, view: View) -> None:
        self._session.query(f"CREATE VIEW {view.table} AS {view.definition}")

    def close(self) -> None:
        """Ends the session."""
        self._session.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class ClickHouseServer:
    """A ClickHouse server, over HTTP."""

    def __init__(self, dataset: str | os.PathLike[str], connection: str, seen_at: str | None = None) -> None:
        import clickhouse_connect
        from clickhouse_connect.driver.exceptions import ClickHouseError
        from urllib3.exceptions import HTTPError

        self._errors = (ClickHouseError, HTTPError, OSError)
        self._root = seen_at or os.path.abspath(os.fspath(dataset))
        listed = files(dataset, self._root)
        runs = listed.tables["runs"]
        self._views = {view.table: view.definition for view in views(listed, "clickhouse")}
        try:
            address = urlsplit(connection)
            # Of a DSN, the client ignores the scheme. A password would replace that of the DSN.
            self._client = clickhouse_connect.get_client(
                dsn=connection,
                interface=address.scheme,
                password="" if address.password else os.environ.get(PASSWORD, ""),
            )
        except self._errors as error:
            raise EngineError("ClickHouse", error) from error
        # Where ClickHouse finds no files, it reads no rows.
        scan = _scan("runs", runs, "clickhouse")
        ((found,),) = self._rows(f"SELECT uniqExact((run, export_id)) FROM {scan}").rows
        if found != len(runs):
            message = f"the server sees {found} of {len(runs)} files of `runs` in {self._root}"
            raise EngineError("ClickHouse", message, SERVER_PATH)

    def query(self, sql: str) -> Answer:
        """Runs a query. The views are part of it: to create them would take more than the right to read."""
        names = {"runs", *re.findall(r"\w+", sql)}
        used = ", ".join(f"{table} AS ({self._views[table]})" for table in self._views if table in names)
        question = code(sql)
        own = question.removeprefix("WITH ")
        return self._rows(f"WITH {used}{' ' if own == question else ', '}{own}")

    def _rows(self, sql: str) -> Answer:
        try:
            found = self._client.query(sql, settings=CLICKHOUSE_SETTINGS)
        except self._errors as error:
            advice = SERVER_PATH if "user_files_path" in str(error) else None
            raise EngineError("ClickHouse", error, advice) from error
        return Answer(list(found.column_names), [tuple(row) for row in found.result_rows])

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


class Spark:
    """Spark: a cluster, or a local session."""

    def __init__(
        self,
        dataset: str | os.PathLike[str],
        connection: str | None = None,
        seen_at: str | None = None,
    ) -> None:
        self._errors = _spark_errors()
        listed = files(dataset, seen_at)
        try:
            self.session = _spark_session(connection)
            for table, paths in listed.tables.items():
                if paths:
                    self._create_files(table, paths)
            for view in views(listed, "spark"):
                self.session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.table} AS {view.definition}")
        except self._errors as error:
            raise EngineError("Spark", error) from error

    def _create_files(self, table: str, paths: list[str]) -> None:
        schema = ", ".join(f"{name} {TYPES['spark'][kind]}" for name, kind in TABLES[table].items())
        urls = [("" if "://" in path else "file://") + _escaped_path(path) for path in paths]
        self.session.read.schema(schema).parquet(*urls).createOrReplaceTempView(f"ttmem_files_{table}")

    def query(self, sql: str) -> Answer:
        """Runs a query."""
        try:
            found = self.session.sql(sql)
            return Answer(list(found.columns), [tuple(row) for row in found.collect()])
        except self._errors as error:
            raise EngineError("Spark", error) from error

    def close(self) -> None:
        """Ends the session."""
        self.session.stop()


def _spark_errors() -> tuple[type[Exception], ...]:
    """Returns the errors of PySpark, of its connection to Java, and of that to a server."""
    from pyspark.errors import PySparkException

    errors: list[type[Exception]] = [PySparkException, OSError]
    for module, name in (("py4j.protocol", "Py4JError"), ("grpc", "RpcError")):
        with suppress(ModuleNotFoundError):
            errors.append(getattr(import_module(module), name))
    return tuple(errors)


def _spark_session(connection: str | None) -> Any:
    """Starts a session: on a server of Spark Connect (`sc://`), on a cluster with this master, or here."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    if connection is not None and connection.startswith("sc://"):
        return builder.remote(connection).getOrCreate()
    builder = builder.master(connection or "local[2]").config("spark.ui.showConsoleProgress", "false")
    if connection is None or connection.startswith("local"):
        # A local session has little data, and each partition costs time.
        builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
    return builder.getOrCreate()


def _escaped_path(path: str) -> str:
    """Returns the pattern of Hadoop that matches only this path."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in path)


def start(
    engine: str,
    dataset: str | os.PathLike[str],
    connection: str | None = None,
    seen_at: str | None = None,
) -> Engine:
    """Starts an engine with the views of a dataset, or connects to one."""
    started = _started(engine, dataset, connection, seen_at)
    try:
        ((version,),) = started.query(VERSION_QUERY).rows
        _check_version(dataset, version)
    except BaseException:
        started.close()
        raise
    return started


def _started(
    engine: str, dataset: str | os.PathLike[str], connection: str | None, seen_at: str | None
) -> Engine:
    if engine == "duckdb":
        return DuckDB(dataset)
    if engine == "spark":
        return Spark(dataset, connection, seen_at)
    return ClickHouse(dataset) if connection is None else ClickHouseServer(dataset, connection, seen_at)


def _check_version(dataset: str | os.PathLike[str], version: int | None) -> None:
    """Raises `ValueError` if the tables have a version that this package does not know."""
    if version is not None and version > SCHEMA:
        message = (
            f"{os.fspath(dataset)}: tables of version {version}, but this ttmem reads version {SCHEMA}; "
            "upgrade ttmem"
        )
        raise ValueError(message)
