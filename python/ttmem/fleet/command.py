"""`ttmem fleet QUESTION DATASET`: answers a question about a dataset."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from ttmem._sizes import size_text
from ttmem.fleet._engines import start, views
from ttmem.fleet._files import NotADatasetError
from ttmem.fleet._questions import DIALECTS, NAMES, WITH_LABELS, Choice, sql, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ttmem.fleet._engines import Answer

MAX_CELL = 60
"""The length of a text in a table on the terminal; JSON and Markdown have all of it."""
PACKAGES = {"duckdb": "ttmem[fleet]", "chdb": "chdb", "pyspark": "pyspark"}
"""The package to install for each module."""


def arguments() -> argparse.ArgumentParser:
    """Returns the parser."""
    questions = "\n".join(f"  {name:<15} {title(name).partition('. ')[0].rstrip('.')}." for name in NAMES)
    parser = argparse.ArgumentParser(
        prog=f"{os.path.basename(sys.argv[0])} fleet",
        description="Answer a question about all ranks and runs of a dataset (`ttmem export`) with SQL.",
        epilog=f"questions:\n{questions}\n\ndocs/fleet.md describes the tables and the questions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("question", choices=NAMES, metavar="QUESTION", help="one of the questions below")
    parser.add_argument("dataset", metavar="DATASET", help="the folder that `ttmem export` wrote")
    parser.add_argument("--run", metavar="NAME", help="only this run")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="the number of rows (default: 20)")
    parser.add_argument(
        "--label", default="commit", metavar="KEY", help="the label to compare (default: commit)"
    )
    parser.add_argument("--before", metavar="VALUE", help="its value before a change")
    parser.add_argument("--after", metavar="VALUE", help="its value after a change")
    parser.add_argument(
        "--engine", choices=tuple(DIALECTS), default="duckdb", help="the engine (default: duckdb)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    form.add_argument(
        "--sql", action="store_true", help="print the views and the query instead of running them"
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments()
    options = parser.parse_args(words)
    if options.limit < 1:
        parser.error("--limit: expected a number of rows, at least 1")
    if options.question in WITH_LABELS and (options.before is None or options.after is None):
        parser.error(
            f"{options.question}: pass two values of a label, such as --label commit --before A --after B"
        )
    if options.sql and options.engine == "spark":
        parser.error("--sql: Spark reads lists of files from programs only; use another engine")
    choice = Choice(options.limit, options.run, options.label, options.before or "", options.after or "")
    try:
        if options.sql:
            sys.stdout.write(_script(options.dataset, options.question, options.engine, choice))
            return 0
        answer = _ask(options.dataset, options.question, options.engine, choice)
    except (NotADatasetError, ValueError, TimeoutError) as error:
        sys.stderr.write(f"ttmem: {error}\n")
        return 2
    except ModuleNotFoundError as error:
        package = PACKAGES.get(error.name or "")
        if package is None:
            raise
        sys.stderr.write(
            f"ttmem: {error.name}: not installed; run `{sys.executable} -m pip install '{package}'`\n"
        )
        return 2
    if options.json:
        sys.stdout.write(_json(options.question, answer))
    elif options.markdown:
        sys.stdout.write(_markdown(options.question, answer))
    else:
        sys.stdout.write(_text(options.question, answer))
    return 0


def _ask(dataset: str, question: str, name: str, choice: Choice) -> Answer:
    engine = start(name, dataset)
    try:
        return engine.query(sql(question, name, choice))
    finally:
        engine.close()


def _script(dataset: str, question: str, engine: str, choice: Choice) -> str:
    statements = [f"CREATE TEMPORARY VIEW {table} AS {query}" for table, query in views(dataset, engine)]
    if engine == "clickhouse":
        statements = [statement.replace("CREATE TEMPORARY VIEW", "CREATE VIEW") for statement in statements]
    return "".join(f"{statement};\n" for statement in (*statements, sql(question, engine, choice).rstrip()))


def _json(question: str, answer: Answer) -> str:
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    return json.dumps({"question": question, "rows": rows}, indent=2, ensure_ascii=False) + "\n"


def _is_size(column: str) -> bool:
    return column == "per_bank" or column.endswith(("_bytes", "_per_bank"))


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if _is_size(column):
        return size_text(int(value))
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())


def _heading(column: str) -> str:
    return column.removesuffix("_bytes").replace("_per_bank", "/bank").replace("_", " ")


def _cells(answer: Answer) -> list[list[str]]:
    return [
        [_cell(name, value) for name, value in zip(answer.columns, row, strict=True)] for row in answer.rows
    ]


def _markdown(question: str, answer: Answer) -> str:
    escaped = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in _cells(answer)]
    align = ["---:" if _is_number(answer, index) else "---" for index in range(len(answer.columns))]
    rows = [[_heading(column) for column in answer.columns], align, *escaped]
    return f"{title(question)}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _text(question: str, answer: Answer) -> str:
    if not answer.rows:
        return f"{title(question)}\n\n  no rows\n"
    # Columns without values are omitted.
    shown = [
        index for index in range(len(answer.columns)) if any(row[index] is not None for row in answer.rows)
    ]
    headings = [_heading(answer.columns[index]) for index in shown]
    rows = [[_shortened(row[index]) for index in shown] for row in _cells(answer)]
    widths = [max(len(row[place]) for row in [headings, *rows]) for place in range(len(shown))]
    right = [_is_number(answer, index) for index in shown]
    lines = []
    for row in [headings, *rows]:
        parts = zip(row, widths, right, strict=True)
        cells = [cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in parts]
        lines.append(("  " + "  ".join(cells)).rstrip() + "\n")
    return f"{title(question)}\n\n" + "".join(lines)


def _is_number(answer: Answer, index: int) -> bool:
    return all(row[index] is None or isinstance(row[index], int) for row in answer.rows)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
