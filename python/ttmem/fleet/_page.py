"""`ttmem fleet report`: one page about a dataset. `web/src/fleet` displays it.

The answers of the questions are in the page as they are, except that the key of a rank is replaced by its
place in the list of ranks.
"""

from __future__ import annotations

import base64
import html
import json
import os
import sys
import time
import zlib
from array import array
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem import __version__
from ttmem.fleet._questions import Choice, sql, title
from ttmem.fleet._reports import Rank, Reports

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ttmem.fleet._engines import Answer, Engine

PARTS = 64
"""The number of cells of a rank in the heat map."""
ALL = 2_000_000_000
"""A limit that no answer reaches."""
LISTS = {"closest": 200, "outliers": 200, "failures": 1000, "errors": 1000, "waste": 1000, "trend": 1000}
"""The questions with a table on the page, and the number of their rows."""
IDENTITY = ("source", "source_host", "file", "rank", "run", "rank_index")
"""The columns of `ranks` that are the fields of `Rank`."""
LEFT_OUT = ("rank_index", "source")
"""Columns of `ranks` that only links need."""


class Page(NamedTuple):
    """The data of a page."""

    head: dict[str, Any]
    """The answers, and what surrounds them."""
    cells: list[int | None]
    """The memory of the ranks over time: the cells of the first rank, of the second one, and so on."""


def compose(
    engine: Engine, dialect: str, *, dataset: str, run: str | None, reports: Reports, folder: str
) -> Page:
    """Asks the questions of the page, which is going to be in a folder."""

    def ask(question: str, limit: int) -> Answer:
        return engine.query(sql(question, dialect, Choice(limit=limit, run=run, parts=PARTS)))

    ranks = ask("ranks", ALL)
    columns = {name: [row[index] for row in ranks.rows] for index, name in enumerate(ranks.columns)}
    place = {rank_id: index for index, rank_id in enumerate(columns.pop("rank_id"))}
    cells: list[int | None] = [None] * (len(place) * PARTS)
    over_time = ask("timeline", ALL)
    part, size, key = map(over_time.columns.index, ("part", "per_bank", "rank_id"))
    for row in over_time.rows:
        if row[key] in place:
            cells[place[row[key]] * PARTS + row[part]] = row[size]
    identities = [Rank(*row) for row in zip(*(columns[name] for name in IDENTITY), strict=True)]
    columns["command"] = [rank.command for rank in identities]
    columns["link"] = reports.links(identities, folder)
    labels, columns["labels"] = _labels(ask("parts/labels-of-ranks", ALL), place)
    answers = {question: _placed(ask(question, limit), place) for question, limit in LISTS.items()}
    head = {
        "name": os.path.basename(os.path.abspath(dataset)),
        "generator": f"ttmem {__version__}",
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "run": run,
        "parts": PARTS,
        "ranks": {name: values for name, values in columns.items() if name not in LEFT_OUT},
        "labels": labels,
        "answers": {
            question: {
                "title": title(question),
                "columns": answer.columns,
                "rows": answer.rows,
                "is_cut": len(answer.rows) == LISTS[question],
            }
            for question, answer in answers.items()
        },
    }
    return Page(head, cells)


def _labels(answer: Answer, place: dict[int, int]) -> tuple[list[tuple[tuple[str, str], ...]], list[int]]:
    """Returns the different sets of labels, and the index of the set of each rank. Most ranks share a set."""
    of_rank: list[list[tuple[str, str]]] = [[] for _ in place]
    for rank_id, key, value in answer.rows:
        if rank_id in place:
            of_rank[place[rank_id]].append((key, value))
    sets: dict[tuple[tuple[str, str], ...], int] = {}
    indices = [sets.setdefault(tuple(labels), len(sets)) for labels in of_rank]
    return list(sets), indices


def _placed(answer: Answer, place: dict[int, int]) -> Answer:
    """Replaces the keys of ranks with their places."""
    if "rank_id" not in answer.columns:
        return answer
    key = answer.columns.index("rank_id")
    rows = [(*row[:key], place.get(row[key]), *row[key + 1 :]) for row in answer.rows]
    return answer._replace(rows=rows)


def text(page: Page) -> str:
    """Returns the page as HTML."""
    whole = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    head, _, rest = whole.partition("ttmem:title")
    middle, _, end = rest.partition("<!--ttmem:data-->")
    data = f'<script type="application/x-ttmem" id="ttmem-fleet">{_block(page)}</script>\n'
    return "".join((head, html.escape(f"{page.head['name']} · ttmem fleet"), middle, data, end))


def _block(page: Page) -> str:
    """Returns the data in the form that `web/src/data/block.ts` reads."""
    width, planes = _planes([0 if size is None else size + 1 for size in page.cells])
    column = {"name": "cells", "kind": "size", "rows": len(page.cells), "width": width}
    about = json.dumps({"columns": [column], **page.head}, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate is not a character in UTF-8.
    encoded = about.encode("utf-8", "replace")
    packed = zlib.compress(b"".join((len(encoded).to_bytes(4, "little"), encoded, *planes)))
    return base64.b64encode(packed).decode("ascii")


def _planes(values: Sequence[int]) -> tuple[int, Iterable[bytes]]:
    """Returns the width of a value in bytes, and the lowest bytes of all values, the next ones, and so on."""
    numbers = array("Q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    little = numbers.tobytes()
    width = (max(values, default=0).bit_length() + 7) // 8
    return width, (little[plane :: numbers.itemsize] for plane in range(width))
