"""Tables of what holds the memory of a test."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ttmem._sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ttmem._test_memory import Row

MAX_GROUPS = 10
MIN_SHARE = 0.005
Key = tuple[bool, str, str | None, str | None]


def held_text(rows: list[Row], root: str) -> str:
    """Returns a table of live tensors, grouped by class and source line, largest first.

    Args:
        rows: The tensors.
        root: The folder that paths are relative to.

    """
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: -_size(group[1]))
    least = MIN_SHARE * _size(rows)
    count = sum(_size(group) >= least for _, group in ordered[:MAX_GROUPS])
    shown, rest = ordered[:count], ordered[count:]
    table = [("size", "tensors", "class", "allocated by")]
    table += [
        (size_text(_size(group)), str(len(group)), key[1].replace("_", " "), _source(key, group, root))
        for key, group in shown
    ]
    if rest:
        others = [row for _, group in rest for row in group]
        table.append((size_text(_size(others)), str(len(others)), "", "others"))
    return aligned(table, right=2)


def aligned(table: Sequence[tuple[str, ...]], *, right: int) -> str:
    """Returns lines with aligned columns. The first `right` columns are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for cells in table:
        padded = [
            cell.rjust(width) if at < right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append("  ".join(["", *padded]).rstrip())
    return "\n".join(lines)


def _key(row: Row) -> Key:
    return (True, row.class_, None, None) if row.is_older else (False, row.class_, row.line, row.op)


def _size(rows: list[Row]) -> int:
    return sum(row.size for row in rows)


def _source(key: Key, rows: list[Row], root: str) -> str:
    is_older, _, line, op = key
    parts = ["before the test"] if is_older else [_relative(line, root) if line else "", op or ""]
    names, modules = _names([row.name for row in rows]), _names([row.module for row in rows])
    if names:
        parts.append(f"({names})")
    elif modules:
        parts.append(f"in {modules}")
    return " ".join(part for part in parts if part) or "unknown"


def _names(names: list[str | None]) -> str:
    """Returns the first name and the number of others. Similar layers have the same name."""
    found = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.)", "*", name) for name in names if name))
    return f"{found[0]} and {len(found) - 1} more" if len(found) > 1 else "".join(found)


def _relative(line: str, root: str) -> str:
    """Returns a source line with a path relative to the folder, if it is inside."""
    return line.removeprefix(os.path.join(root, ""))
