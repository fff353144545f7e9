"""`ttmem fleet QUESTION DATASET`: answers a question about a dataset."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ttmem._native import Error, check_output, write_output
from ttmem._sizes import size_text
from ttmem.fleet._engines import CLICKHOUSE_SETTINGS, PASSWORD, start, views
from ttmem.fleet._files import files
from ttmem.fleet._questions import DIALECTS, NAMES, WITH_LABELS, Choice, sql, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ttmem.fleet._engines import Answer, Engine

REPORT = "report"
"""The command that writes a page with the answers."""
HIDDEN = ("rank_id", "rank_index", "source")
"""Columns that are only in JSON: they identify a rank for programs."""
MAX_CELL = 60
"""The length of a text in a table on the terminal; JSON and Markdown have all of it."""
MAX_NAMES = 5
"""The number of names that the error about an unknown one lists."""
PACKAGES = {
    "duckdb": "ttmem[fleet]",
    "chdb": "chdb",
    "clickhouse_connect": "clickhouse-connect",
    "pyspark": "pyspark",
}
"""The package to install for each module."""


def arguments() -> argparse.ArgumentParser:
    """Returns the parser."""
    questions = "\n".join(f"  {name:<15} {title(name).partition('. ')[0].rstrip('.')}." for name in NAMES)
    questions += f"\n\n  {REPORT:<15} One page about all of them, into the file that -o names."
    parser = argparse.ArgumentParser(
        prog=f"{os.path.basename(sys.argv[0])} fleet",
        description="Answer a question about all ranks and runs of a dataset (`ttmem export`) with SQL.",
        epilog=f"questions:\n{questions}\n\ndocs/fleet.md describes the tables and the questions.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "question", choices=(*NAMES, REPORT), metavar="QUESTION", help="one of the questions below"
    )
    parser.add_argument("dataset", metavar="DATASET", help="the folder that `ttmem export` wrote")
    parser.add_argument("--run", metavar="NAME", help="only this run")
    limit = "the number of rows; for timeline, of ranks (default: 20)"
    parser.add_argument("--limit", type=int, default=20, metavar="N", help=limit)
    parser.add_argument(
        "--label", default="commit", metavar="KEY", help="the label to compare (default: commit)"
    )
    parser.add_argument("--before", metavar="VALUE", help="its value before a change")
    parser.add_argument("--after", metavar="VALUE", help="its value after a change")
    parser.add_argument(
        "--engine", choices=tuple(DIALECTS), default="duckdb", help="the engine (default: duckdb)"
    )
    parser.add_argument(
        "--connection",
        metavar="URL",
        help="the server of the engine: http://USER:PASSWORD@HOST:8123 for ClickHouse (or set "
        f"{PASSWORD}), sc://HOST:15002 or a "
        "master such as spark://HOST:7077 for Spark; by default, the engine runs here",
    )
    parser.add_argument(
        "--dataset-on-server",
        metavar="PATH",
        type=lambda path: path.rstrip("/") or "/",
        help="the absolute path of the dataset on the server (default: the same path)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=f"for {REPORT}: the file of the page")
    force = (
        f"for {REPORT}: replace an existing file that ttmem did not write; logs, recordings and profiles are "
        "never replaced"
    )
    parser.add_argument("--force", action="store_true", help=force)
    parser.add_argument(
        "--reports",
        action="append",
        default=[],
        metavar="DIR",
        help=f"for {REPORT}: a folder with reports to link to, in addition to the stored ones",
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
    wrong = _wrong(options)
    if wrong is not None:
        parser.error(wrong)
    try:
        output = _output(options)
    except (ValueError, OSError, Error) as error:
        sys.stderr.write(f"ttmem: {_printable(_without_secrets(_reason(error), options.connection))}\n")
        return 2
    except ModuleNotFoundError as error:
        package = PACKAGES.get(error.name or "")
        if package is None:
            raise
        sys.stderr.write(
            f"ttmem: {error.name}: not installed; run `{sys.executable} -m pip install '{package}'`\n"
        )
        return 2
    sys.stdout.write(output)
    return 0


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    return str(error)


def _wrong(options: argparse.Namespace) -> str | None:
    """Returns what is wrong with the options."""
    is_report = options.question == REPORT
    if options.limit < 1:
        return "--limit: expected a number of rows, at least 1"
    if options.question in WITH_LABELS and (options.before is None or options.after is None):
        return f"{options.question}: pass two values of a label, such as --label commit --before A --after B"
    if not is_report and (options.output is not None or options.reports or options.force):
        return f"-o, --force and --reports: only for {REPORT}"
    if options.sql and options.engine == "spark":
        return "--sql: Spark reads lists of files from programs only; use another engine"
    return _wrong_connection(options) or (_wrong_for_report(options) if is_report else None)


def _wrong_connection(options: argparse.Namespace) -> str | None:
    connection, seen_at = options.connection, options.dataset_on_server
    if connection is not None and options.engine == "duckdb":
        return "--connection: DuckDB has no server; pass --engine clickhouse or --engine spark"
    is_http = connection is None or connection.startswith(("http://", "https://"))
    if options.engine == "clickhouse" and not is_http:
        return "--connection: expected the HTTP interface of ClickHouse, such as http://localhost:8123"
    if options.engine == "clickhouse" and connection is not None and not _is_address(connection):
        # The address has a password, so it is not in the message.
        return (
            "--connection: invalid address; expected http://USER:PASSWORD@HOST:8123, with special characters "
            f"of the password percent-encoded, or the password in {PASSWORD}"
        )
    if seen_at is None:
        return None
    if connection is None and not options.sql:
        return "--dataset-on-server: only with --connection or --sql"
    is_absolute = seen_at.startswith("/") or (options.engine == "spark" and "://" in seen_at)
    return None if is_absolute else "--dataset-on-server: expected an absolute path"


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        is_valid = bool(address.hostname) and address.port != 0
    except ValueError:
        return False
    # In an address, the characters `/?#` of a password end the host.
    return is_valid and "@" not in f"{address.path}{address.query}{address.fragment}"


def _without_secrets(text: str, connection: str | None) -> str:
    """Removes passwords and tokens from a message of an engine."""
    secrets = [os.environ.get(PASSWORD)]
    if connection is not None:
        secrets += re.findall(r"token=([^;&]*)", connection)
        with suppress(ValueError):
            password = urlsplit(connection).password
            secrets += [password, unquote(password or "")]
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text


def _wrong_for_report(options: argparse.Namespace) -> str | None:
    if options.output is None:
        return f"{REPORT}: pass the file of the page, such as -o fleet.html"
    if options.json or options.markdown or options.sql:
        return f"{REPORT}: writes a page; leave out --json, --markdown and --sql"
    return None


def _output(options: argparse.Namespace) -> str:
    choice = Choice(options.limit, options.run, options.label, options.before or "", options.after or "")
    if options.question == REPORT:
        return _write_page(options)
    if options.sql:
        return _script(options, choice)
    answer = _ask(options, choice)
    if options.json:
        return _json(options.question, answer)
    if options.markdown:
        return _markdown(options.question, _shown(answer))
    return _text(options.question, _shown(answer))


def _ask(options: argparse.Namespace, choice: Choice) -> Answer:
    engine = _started(options)
    try:
        _check_names(engine, options)
        return engine.query(sql(options.question, options.engine, choice))
    finally:
        engine.close()


def _check_names(engine: Engine, options: argparse.Namespace) -> None:
    """Raises `ValueError` if the dataset does not have the run or the values of the label.

    An answer without rows would read as if there were no problem.
    """
    if options.run is not None:
        found = engine.query("SELECT DISTINCT run FROM runs ORDER BY run")
        _check_name(options.run, [run for (run,) in found.rows], "no such run")
    if options.question in WITH_LABELS:
        found = engine.query(sql("parts/values", options.engine, Choice(key=options.label)))
        values = [value for (value,) in found.rows]
        if not values:
            message = f"{options.label}: no run has this label; `ttmem fleet labels` lists the labels"
            raise ValueError(message)
        for value in (options.before, options.after):
            _check_name(value, values, f"no run has this value of the label `{options.label}`")


def _check_name(name: str, known: list[str], why: str) -> None:
    if name not in known:
        shown = difflib.get_close_matches(name, known, MAX_NAMES) or known[-MAX_NAMES:]
        more = len(known) - len(shown)
        others = f" and {more} more" if more else ""
        message = f"{name}: {why}; the dataset has {', '.join(shown)}{others}"
        raise ValueError(message)


def _started(options: argparse.Namespace) -> Engine:
    return start(options.engine, options.dataset, options.connection, options.dataset_on_server)


def _write_page(options: argparse.Namespace) -> str:
    """Writes the page; returns its path, as `ttmem report` prints it."""
    from ttmem.fleet._page import compose, text
    from ttmem.fleet._reports import Reports

    check_output(options.output, force=options.force)
    reports = Reports(options.reports)
    folder = os.path.dirname(os.path.abspath(options.output))
    engine = _started(options)
    try:
        _check_names(engine, options)
        page = compose(
            engine,
            options.engine,
            dataset=options.dataset,
            run=options.run,
            reports=reports,
            folder=folder,
        )
    finally:
        engine.close()
    try:
        write_output(options.output, text(page), force=options.force)
    except OSError as error:
        message = f"{options.output}: cannot write the page: {error.strerror or error}"
        raise ValueError(message) from error
    return f"{options.output}\n"


def _script(options: argparse.Namespace, choice: Choice) -> str:
    engine = options.engine
    found = views(files(options.dataset, options.dataset_on_server), engine)
    if engine == "duckdb":
        # The script works without knowing which columns the files have.
        found = [view.filled() for view in found]
    settings = [f"SET {name} = {value}" for name, value in CLICKHOUSE_SETTINGS.items()]
    create = "CREATE VIEW" if engine == "clickhouse" else "CREATE TEMPORARY VIEW"
    statements = [f"{create} {view.table} AS {view.definition}" for view in found]
    if engine == "clickhouse":
        statements = [*settings, *statements]
    statements.append(sql(options.question, engine, choice).rstrip())
    return "".join(f"{statement};\n" for statement in statements)


def _json(question: str, answer: Answer) -> str:
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    text = json.dumps({"question": question, "rows": rows}, indent=2, ensure_ascii=False)
    # JSON permits these, but some of them control a terminal.
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _is_size(column: str) -> bool:
    return column == "per_bank" or column.endswith(("_bytes", "_per_bank"))


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if _is_size(column):
        return size_text(int(value))
    if column == "time_ns":
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(int(value) / 1e9))
    return f"{value:,}" if isinstance(value, int) else _printable(str(value))


def _printable(text: str) -> str:
    """Returns a text on one line without characters that control a terminal. Names of files may have any."""
    shown = (character if character.isprintable() else "\ufffd" for character in " ".join(text.split()))
    return "".join(shown)


def _heading(column: str) -> str:
    return column.removesuffix("_bytes").removesuffix("_ns").replace("_per_bank", "/bank").replace("_", " ")


def _shown(answer: Answer) -> Answer:
    """Returns the columns that tables show."""
    kept = [index for index, name in enumerate(answer.columns) if name not in HIDDEN]
    return answer._replace(
        columns=[answer.columns[index] for index in kept],
        rows=[tuple(row[index] for index in kept) for row in answer.rows],
    )


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
