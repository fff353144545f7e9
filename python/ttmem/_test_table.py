"""The table of `pytest --ttmem`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem._held import aligned
from ttmem._sizes import size_text

if TYPE_CHECKING:
    import pytest

PROPERTY = "ttmem"
"""The property of a test's report with its memory use, as JSON."""


class TableRow(NamedTuple):
    """The memory use of a test on a device."""

    test: str
    device: str
    peak: int
    growth: int | None


class Table:
    """The table of `--ttmem`. With pytest-xdist, it is collected from the reports of the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # By test. A test that runs again replaces its earlier figures.
        self._found: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the memory use of a test."""
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    self._found[report.nodeid] = json.loads(str(value))

    def rows(self) -> list[TableRow]:
        """Returns the rows of tests that allocated memory, the highest peak first."""
        rows = [
            TableRow(test, device, figures["peak_bytes"], figures["growth_bytes"])
            for test, found in self._found.items()
            for device, figures in found["devices"].items()
            if figures["peak_bytes"] or figures["growth_bytes"]
        ]
        return sorted(rows, key=lambda row: -row.peak)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the table."""
        self._write_json()
        if not self._config.getoption("--ttmem"):
            return
        terminalreporter.section("device memory")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Returns the lines of the table and what it leaves out."""
        lines, rows = [], self.rows()
        if rows:
            table = [("peak", "growth", "device", "test")]
            table += [(size_text(row.peak), _growth(row.growth), row.device, row.test) for row in rows]
            lines += aligned(table, right=2).splitlines()
        shown = {row.test for row in rows}
        reasons = Counter(found["not_measured"] for test, found in self._found.items() if test not in shown)
        without = reasons.pop(None, 0)
        if without:
            lines.append(f"{_tests(without)} allocated no device memory")
        return lines + [f"{_tests(count)} not measured: {why}" for why, count in reasons.items()]

    def _write_json(self) -> None:
        path = self._config.getoption("--ttmem-json")
        if path is None or hasattr(self._config, "workerinput"):
            return
        rows = [
            {"test": row.test, "device": row.device, "peak_bytes": row.peak, "growth_bytes": row.growth}
            for row in self.rows()
        ]
        with open(str(path), "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
            file.write("\n")


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def _growth(size: int | None) -> str:
    return "-" if size is None else size_text(size)
