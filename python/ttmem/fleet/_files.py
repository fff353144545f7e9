"""The files of a dataset that count at one moment."""

from __future__ import annotations

import os
from typing import NamedTuple

from ttmem.fleet._schema import TABLES

ATTEMPTS = 100


class Files(NamedTuple):
    """A consistent list of files: the files of the same exports in every table."""

    tables: dict[str, list[str]]
    """The absolute paths of the files of each table; empty if the table has none."""


class NotADatasetError(ValueError):
    """A folder has no table `runs`."""


def files(dataset: str | os.PathLike[str]) -> Files:
    """Lists the files of a dataset.

    An export renames its file in `runs` last, and removes it first. So if `runs` has the same files before
    and after the other tables are listed, the list has all files of these exports.
    """
    root = os.path.abspath(os.fspath(dataset))
    for _ in range(ATTEMPTS):
        before = _exports(root, "runs")
        tables = {table: _exports(root, table) for table in TABLES if table != "runs"}
        if _exports(root, "runs") != before:
            continue
        if not before:
            message = f"{os.fspath(dataset)}: not a dataset; run `ttmem export INPUT -o {os.fspath(dataset)}`"
            raise NotADatasetError(message)
        listed = {"runs": before} | {table: found & before for table, found in tables.items()}
        return Files({table: _paths(root, table, found) for table, found in listed.items()})
    message = f"{os.fspath(dataset)}: the list of files keeps changing; try again"
    raise TimeoutError(message)


def _exports(root: str, table: str) -> set[tuple[str, str]]:
    """Returns the folder and the file name of each export in a table."""
    found: set[tuple[str, str]] = set()
    for folder in _names(os.path.join(root, table)):
        for name in _names(os.path.join(root, table, folder)):
            if name.endswith(".parquet") and not name.startswith("."):
                found.add((folder, name))
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _paths(root: str, table: str, found: set[tuple[str, str]]) -> list[str]:
    return [os.path.join(root, table, folder, name) for folder, name in sorted(found)]
