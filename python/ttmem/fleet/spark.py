"""Exports in the tasks of a Spark cluster.

    >>> import ttmem.fleet.spark
    >>> ttmem.fleet.spark.ingest(spark, paths, "/shared/fleet", run="nightly-17")
    Exported(inputs=4096, ranks=4095, rows=8391372, errors=1)

The workers need the package `ttmem`. Files and dataset must have the same paths on all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ttmem._export import Exported, check, export, list_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ttmem._export import PathLike

__all__ = ["Exported", "ingest"]

SHARED = "shared"
"""The host of files that all machines see. It is the same in all tasks, so a task that is repeated on another
machine replaces what it has exported before."""
TASKS_PER_CORE = 4
"""The number of tasks for each core, so that cores with small files take more of them."""


def ingest(
    spark: Any,
    paths: PathLike | Iterable[PathLike],
    dataset: PathLike,
    *,
    run: str | None = None,
    labels: Mapping[str, str] | None = None,
    host: str = SHARED,
    format: str | None = None,
    tasks: int | None = None,
) -> Exported:
    """Exports files to a dataset in the tasks of a Spark cluster, as `ttmem export` does.

    A file that cannot be read is a row of `runs` with its error; the job goes on. A file that was exported
    before is replaced, so tasks may be repeated, and the job may be run again.

    Args:
        spark: The `SparkSession`.
        paths: The files, as the workers see them. Relative paths start at the current folder of this process.
        dataset: The folder of the dataset, on a file system that all workers share.
        run: The name of the run that the files are ranks of. By default, each file is a run of its name.
        labels: Labels of the runs, such as `{"commit": "1a2b3c"}`.
        host: The name of the file system. It is part of the identity of a file, so exports replace only those
            with the same name (`--host` of `ttmem export`).
        format: Name of the reader to use, instead of detecting the format.
        tasks: The number of tasks; by default, 4 for each core of the cluster. The files of a task share one
            file per table and run.

    Raises:
        ValueError: A path is a URL, or the session is one of Spark Connect, which has no tasks.

    """
    check(run, labels)
    inputs = {_absolute(os.fspath(path)) for path in list_of(paths)}
    target = _absolute(os.fspath(dataset))
    if not inputs:
        return Exported(0, 0, 0, 0)
    if tasks is not None and tasks < 1:
        message = "tasks: expected a number of tasks, at least 1"
        raise ValueError(message)
    context = _context(spark)
    # A task gets neighbors. Without `run`, files of the same name in several folders are one run.
    ordered = sorted(inputs, key=lambda path: ("" if run else os.path.basename(path), path))
    count = min(len(inputs), tasks or TASKS_PER_CORE * context.defaultParallelism)
    options = {"run": run, "labels": dict(labels or {}), "host": host, "format": format}
    done = context.parallelize(ordered, count).mapPartitions(_task(target, options)).collect()
    return Exported(*map(sum, zip(*done, strict=True)))


def _task(dataset: str, options: dict[str, Any]) -> Callable[[Iterator[str]], list[tuple[int, ...]]]:
    """Returns the function that a task calls with its files."""

    def exported(share: Iterator[str]) -> list[tuple[int, ...]]:
        return [tuple(export(share, dataset, **options))]

    return exported


def _absolute(path: str) -> str:
    """Returns the path for processes that have another current folder."""
    if "://" in path:
        message = f"{path}: not a path; mount the storage on the workers, and pass paths of its files"
        raise ValueError(message)
    return os.path.abspath(path)


def _context(spark: Any) -> Any:
    """Returns the `SparkContext` of a session."""
    try:
        return spark.sparkContext
    except Exception as error:
        # Its class depends on the version of PySpark.
        message = (
            "this session is one of Spark Connect, which has no SparkContext; run `ingest` on the cluster"
        )
        raise ValueError(message) from error
