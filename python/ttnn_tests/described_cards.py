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

    @property
    def truth(self) -> dict[str, Any]:
        """The allocator's numbers."""
        return json.loads((self.folder / "truth.json").read_text())  # type: ignore[no-any-return]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the capture."""
        return json.loads((self.folder / "capture.json").read_text())  # type: ignore[no-any-return]


class Cards:
    """Runs programs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[tuple[str, ...], Run | str] = {}

    def run(self, chip: str, program: str, *arguments: str) -> Run:
        """Runs a program on a chip, or returns the output of an earlier run."""
        key = (chip, program, *arguments)
        if key not in self._runs:
            self._runs[key] = self._fresh_run(f"{len(self._runs)}-{chip}-{program}", *key)
        run = self._runs[key]
        if isinstance(run, str):
            # A random program may hit a bug in ttnn. The seeds used in CI do not.
            if "killed by signal" in run and os.environ.get("TTMEM_REQUIRE_TTNN") != "1":
                pytest.skip(run)
            pytest.fail(run)
        return run

    def _fresh_run(self, name: str, chip: str, program: str, *arguments: str) -> Run | str:
        # ttnn writes generated/ into its working directory.
        folder = self._folder / name
        folder.mkdir()
        environment = os.environ | {
            "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(HERE / "chips" / f"{chip}.yaml"),
            "TT_METAL_CACHE": str(TTNN / "cache"),
            "OMPI_MCA_btl": "self",  # no shared memory: there is only one process
        }
        program_file = HERE / "programs" / f"{program}.py"
        words = [
            str(TTNN / "venv/bin/python"),
            str(HERE / "launch.py"),
            str(program_file),
            str(folder),
            *arguments,
        ]
        ended = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if ended.returncode != 0:
            how = (
                f"exit code {ended.returncode}"
                if ended.returncode > 0
                else f"killed by signal {-ended.returncode}"
            )
            return f"{how}: {' '.join(words)}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        return Run(folder, ended.stdout)
