"""Runs each program once on a described card, and keeps its output files."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TTNN = HERE.parents[1] / "target" / "ttnn"


@dataclass(frozen=True)
class Run:
    """The output files of a program."""

    folder: Path
    output: str
    errors: str = ""

    @property
    def truth(self) -> dict[str, Any]:
        """The allocator's numbers."""
        return json.loads((self.folder / "truth.json").read_text())  # type: ignore[no-any-return]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the capture."""
        return json.loads((self.folder / "capture.json").read_text())  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Batch:
    """The random programs of a range of seeds, run on one card."""

    folder: Path
    captures: list[Run]
    crashes: list[str]


class Cards:
    """Runs programs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[tuple[str, ...], Run | str] = {}
        self._batches = 0

    def run(self, chip: str, program: str, *arguments: str) -> Run:
        """Runs a program on a chip, or returns the output of an earlier run."""
        key = (chip, program, *arguments)
        if key not in self._runs:
            self._runs[key] = self._fresh_run(f"{len(self._runs)}-{chip}-{program}", *key)
        run = self._runs[key]
        if isinstance(run, str):
            pytest.fail(run)
        return run

    def draw(self, chip: str, first: int, count: int, *arguments: str) -> Batch:
        """Runs the random programs of a range of seeds.

        The programs share a process, because starting ttnn takes longer than a program. If it crashes, the
        remaining ones run in another process.
        """
        self._batches += 1
        folder = self._folder / f"drawn-{self._batches}-{chip}"
        folder.mkdir()
        crashes: list[str] = []
        end = first + count
        while first < end:
            words = ("--first", str(first), "--count", str(end - first), *arguments)
            ended = self._start(folder, chip, "any_program", *words)
            if ended.returncode == 0:
                break
            # The journal names the step.
            started = max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
            if started is None or started < first:
                pytest.fail(explained(ended))
            journal = (folder / str(started) / "journal.txt").read_text()[-1000:]
            crashes.append(f"seed {started} on {chip}: {explained(ended)}\n{journal}")
            first = started + 1
        truths = sorted(folder.glob("*/capture-*/truth.json"), key=lambda path: int(path.parts[-3]))
        return Batch(folder, [Run(truth.parent, output="") for truth in truths], crashes)

    def fail(self, chip: str, first: int, count: int, *arguments: str) -> Path:
        """Runs the random programs of a range of seeds that run out of memory; returns their folder."""
        words = ("--first", str(first), "--count", str(count), *arguments)
        return self._start_in_folder(f"failing-{chip}", chip, "any_failure", *words)

    def repeat(self, chip: str, changes: Path, *arguments: str) -> list[Any]:
        """Runs programs with changes; returns the action that fails and its message, or None, for each."""
        folder = self._start_in_folder(
            f"changed-{chip}", chip, "any_failure", "--changes", str(changes), *arguments
        )
        return json.loads((folder / "results.json").read_text())  # type: ignore[no-any-return]

    def _start_in_folder(self, name: str, chip: str, program: str, *arguments: str) -> Path:
        self._batches += 1
        folder = self._folder / f"{name}-{self._batches}"
        folder.mkdir()
        ended = self._start(folder, chip, program, *arguments)
        if ended.returncode:
            pytest.fail(explained(ended))
        return folder

    def _fresh_run(self, name: str, chip: str, program: str, *arguments: str) -> Run | str:
        folder = self._folder / name
        folder.mkdir()
        ended = self._start(folder, chip, program, *arguments)
        return explained(ended) if ended.returncode else Run(folder, ended.stdout, ended.stderr)

    def _start(
        self, folder: Path, chip: str, program: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        return self.start(chip, HERE / "programs" / f"{program}.py", folder, str(folder), *arguments)

    @staticmethod
    def start(chip: str, program: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in a folder."""
        # ttnn writes generated/ into its working directory.
        environment = os.environ | {
            "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(HERE / "chips" / f"{chip}.yaml"),
            "TT_METAL_CACHE": str(TTNN / "cache"),
            "OMPI_MCA_btl": "self",  # no shared memory: there is only one process
        }
        words = [
            str(TTNN / "venv/bin/python"),
            str(HERE / "launch.py"),
            str(program),
            *arguments,
        ]
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )


def explained(ended: subprocess.CompletedProcess[str]) -> str:
    """Returns how a program failed, with its last output."""
    code = ended.returncode
    how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    return f"{how}: {' '.join(ended.args)}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
