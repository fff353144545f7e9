"""The questions: one SQL source each, translated for an engine."""

from __future__ import annotations

from importlib import resources
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    "closest",
    "failures",
    "errors",
    "outliers",
    "growth",
    "growth-tensors",
    "waste",
    "tensors",
    "lines",
    "timeline",
    "trend",
    "ranks",
    "labels",
)
"""The questions, in the order of `--help`."""

WITH_LABELS = ("growth", "growth-tensors")
"""Questions that compare two values of a label."""


class Dialect(NamedTuple):
    """What differs between the SQL of engines."""

    text: str
    """The type of texts that may be NULL."""
    quote: Callable[[str], str]
    """Returns a literal of a text."""


class Choice(NamedTuple):
    """The parameters of a question."""

    limit: int = 20
    run: str | None = None
    key: str = "commit"
    before: str = ""
    after: str = ""
    parts: int = 32


def _doubled(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


DIALECTS = {
    "duckdb": Dialect("VARCHAR", _doubled),
    "clickhouse": Dialect("Nullable(String)", _escaped),
    "spark": Dialect("STRING", _escaped),
}


def source(question: str) -> str:
    """Returns the SQL source of a question."""
    return _read(f"{question}.sql")


def _read(file: str) -> str:
    return resources.files(__package__).joinpath("sql").joinpath(file).read_text(encoding="utf-8")


def title(question: str) -> str:
    """Returns the description of a question: the comment that its source begins with."""
    lines = source(question).splitlines()
    comment = [line.removeprefix("-- ") for line in lines[: [*map(_is_code, lines), True].index(True)]]
    return " ".join(comment).replace("{parts}", str(Choice().parts))


def sql(question: str, engine: str, choice: Choice) -> str:
    """Returns the SQL of a question for an engine."""
    dialect = DIALECTS[engine]
    run = "1 = 1" if choice.run is None else f"run = {dialect.quote(choice.run)}"
    numbers = " UNION ALL ".join(f"SELECT {part} AS part" for part in range(choice.parts))
    fields = {
        "limit": str(int(choice.limit)),
        "in_run": run,
        "in_run_of_runs": "1 = 1" if choice.run is None else f"runs.{run}",
        "key": dialect.quote(choice.key),
        "before": dialect.quote(choice.before),
        "after": dialect.quote(choice.after),
        "parts": str(int(choice.parts)),
        "numbers": numbers,
        "text": dialect.text,
    }
    fields["known"] = _filled(code(_read("parts/known.sql")), fields).rstrip()
    return _filled(source(question), fields)


def _filled(text: str, fields: dict[str, str]) -> str:
    # One pass, so that a value with braces stays as it is.
    pieces = text.split("{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}")
        filled.append(fields[name] + rest)
    return "".join(filled)


def code(text: str) -> str:
    """Returns a source without the comment that it begins with."""
    return "".join(dropwhile(lambda line: not _is_code(line), text.splitlines(keepends=True)))


def _is_code(line: str) -> bool:
    return not line.startswith("-- ")
