"""Writes a dataset of made ranks, in the schema of docs/fleet.md, with DuckDB alone.

    python python/tests/made_fleet.py DATASET RUNS RANKS

Each rank has a curve of 200 values. Rank 5 of the last run needs more memory than the others, and runs out.
"""

import sys
from pathlib import Path

import duckdb

from ttmem.fleet._schema import TABLES

CAPACITY = 80 << 30
TYPES = {"text": "VARCHAR", "number": "BIGINT", "flag": "BOOLEAN"}
STEPS = 200
OF_POOL = ("peak_per_bank", "peak_total", "capacity_per_bank", "capacity_total", "extent", "level", "pool")
PLANTED = 5

# One rank per row. The peak grows by 2% of the capacity from run to run.
RANKS = f"""
    SELECT *, CASE WHEN peak >= 0.99 * capacity THEN 'full' ELSE 'ok' END AS level,
           peak AS peak_bytes, peak AS peak_per_bank, peak AS peak_total, capacity AS capacity_bytes,
           capacity AS capacity_per_bank, capacity AS capacity_total, 'device' AS extent, 'cuda:0' AS pool
    FROM (
      SELECT *, CASE WHEN is_planted THEN capacity - 64 * 1048576
                     ELSE capacity // 2 + $run * capacity // 50 + (number * 518992896) % (capacity // 16)
                END AS peak
      FROM (
        SELECT range AS number, CAST(range AS VARCHAR) AS rank,
               CAST($run AS BIGINT) * 1000000 + range AS rank_id,
               'nightly-' || $run AS run, 'host' || range // 8 AS host, {CAPACITY} AS capacity,
               '/srv/nightly/' || $run || '/rank' || range || '.ttmem' AS file,
               $run = $runs - 1 AND range = {PLANTED} AS is_planted
        FROM range($ranks)
      )
    )
"""
VALUES = {
    "runs": {
        "schema_version": "1",
        "export_id": "'1'",
        "source_id": "file",
        "source": "file",
        "source_host": "host",
        "host": "host",
        "exported_ns": "(1790000000 + CAST($run AS BIGINT) * 86400) * 1000000000",
        "file": "file",
        "format": "'ttmem'",
        "rank_index": "0",
        "rank_number": "number",
        "device": "'cuda'",
        "peak_bytes": "peak",
        "capacity_bytes": "capacity",
        "oom_cause": "CASE WHEN is_planted THEN 'full' END",
        "oom_step": "CASE WHEN is_planted THEN 9000 END",
        "verdict": "CASE WHEN is_planted THEN 'Out of memory: cuda:0 is full.' END",
        **{column: column for column in OF_POOL},
    },
    "pools": {
        "is_main": "true",
        "banks": "1",
        "unexplained_per_bank": "1048576",
        "reserved_at_peak_total": "peak + 268435456",
        **{column: column for column in OF_POOL},
    },
    "classes": {
        "pool": "pool",
        "class": "class",
        "per_bank": "CASE class WHEN 'parameter' THEN capacity // 10 ELSE peak - capacity // 10 END",
    },
    "labels": {"key": "key", "value": "CASE key WHEN 'commit' THEN 'c0ffee' || $run ELSE 'gpt' END"},
    "curves": {
        "pool": "pool",
        "position": "step",
        "step": "step * 50",
        "time_ns": "step * 50000000",
        "per_bank": f"""
            CAST(peak * CASE WHEN step < 20 THEN step / 50.0 WHEN step = {STEPS - 30} THEN 1.0
                             ELSE 0.55 + 0.35 * abs(sin((step + number % 5) / 9.0)) END AS BIGINT)
        """,
    },
}
# Several rows per rank.
ROWS = {
    "classes": "SELECT *, unnest(['parameter', 'activation']) AS class FROM ranks",
    "labels": "SELECT *, unnest(['commit', 'model']) AS key FROM ranks",
    "curves": f"SELECT *, range AS step FROM ranks, range({STEPS})",
}


def make(
    dataset: Path,
    runs: int,
    ranks: int,
    values: dict[str, dict[str, str]] = VALUES,
    rows_of: dict[str, str] = ROWS,
) -> None:
    """Writes a dataset of `runs` runs with `ranks` ranks each."""
    connection = duckdb.connect()
    for run in range(runs):
        known = {"$ranks": ranks, "$runs": runs, "$run": run}

        def filled(sql: str, known: dict[str, int] = known) -> str:
            for name, value in known.items():
                sql = sql.replace(name, str(value))
            return sql

        connection.execute(filled(f"CREATE OR REPLACE TABLE ranks AS {RANKS}"))
        for table, of_table in values.items():
            file = dataset / table / f"run=nightly-{run}" / "made.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            all_values = {"rank_id": "rank_id", "run": "run", "rank": "rank"} | of_table
            columns = ", ".join(
                f"CAST({filled(all_values.get(column, 'NULL'))} AS {TYPES[kind]}) AS {column}"
                for column, kind in TABLES[table].items()
            )
            target = str(file).replace("'", "''")
            rows = rows_of.get(table, "SELECT * FROM ranks")
            connection.execute(f"COPY (SELECT {columns} FROM ({rows})) TO '{target}' (FORMAT parquet)")


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
