"""The files of a dataset that count at one moment."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ttmem.fleet._schema import TABLES

ATTEMPTS = 100


class Files(NamedTuple):
    """A consistent list of files: the files of the same exports in every table."""

    tables: dict[str, list[str]]
    """The absolute paths of the files of each table; empty if the table has none."""


class NotADatasetError(ValueError):
    """A folder has no table `runs`."""


def files(dataset: str | os.PathLike[str], seen_at: str | None = None) -> Files:
    """Lists the files of a dataset, which the engine may see at another path.

    Exports of different runs do not depend on each other, so each run is listed until nothing that was listed
    has vanished meanwhile. Files that were added meanwhile are not in the list.
    """
    root = os.path.abspath(os.fspath(dataset))
    found: dict[str, list[tuple[str, str]]] = {table: [] for table in TABLES}
    changing = sorted(_names(os.path.join(root, "runs")))
    for attempt in range(ATTEMPTS):
        # Exports that replace each other in turn need a moment.
        time.sleep(0.01 * min(attempt, 10))
        changing = [folder for folder in changing if not _add(root, folder, found)]
        if not changing:
            break
    else:
        message = f"{os.fspath(dataset)}: the list of files keeps changing; try again"
        raise TimeoutError(message)
    if not found["runs"]:
        message = f"{os.fspath(dataset)}: not a dataset; run `ttmem export INPUT -o {os.fspath(dataset)}`"
        raise NotADatasetError(message)
    paths = {
        table: [os.path.join(seen_at or root, table, folder, name) for folder, name in sorted(exports)]
        for table, exports in found.items()
    }
    return Files(paths)


def _add(root: str, folder: str, found: dict[str, list[tuple[str, str]]]) -> bool:
    """Adds the files of a run; returns false if an export was removed meanwhile.

    An export renames its file in `runs` last, and removes it first, so while it is in `runs`, all its files
    are there. A list of `runs` may lack both an export that was removed while the folder was read and the one
    that replaced it, but then the list before it has the first of them.
    """
    earlier = _exports(root, "runs", folder)
    exports = _exports(root, "runs", folder)
    tables = {table: _exports(root, table, folder) & exports for table in TABLES if table != "runs"}
    if not earlier <= exports <= _exports(root, "runs", folder):
        return False
    for table, names in {"runs": exports, **tables}.items():
        found[table] += [(folder, name) for name in names]
    return True


def _exports(root: str, table: str, folder: str) -> set[str]:
    """Returns the file names of the exports of a run in a table."""
    names = _names(os.path.join(root, table, folder))
    return {name for name in names if name.endswith(".parquet") and not name.startswith(".")}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
