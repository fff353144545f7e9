"""Runs the guide about fleets (docs/guides/fleet.md) in a copy of the corpus.

Its commands need the Python package, so they are fenced as `console python`. As in the tests of other guides
(crates/ttmem-cli/tests/it/docs.rs), each line with `$` runs, and `…` stands for any lines of its output.
"""

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

from conftest import CORPUS, ROOT, SCRIPTS

GUIDE = ROOT / "docs" / "guides" / "fleet.md"
BLOCK = re.compile(r"^```console python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fits(pattern: list[str], lines: list[str]) -> bool:
    """Whether lines match a pattern with `…` for any lines."""
    if not pattern:
        return not lines
    if pattern[0] == "…":
        return any(fits(pattern[1:], lines[skipped:]) for skipped in range(len(lines) + 1))
    return bool(lines) and lines[0].rstrip() == pattern[0].rstrip() and fits(pattern[1:], lines[1:])


def test_the_commands_of_the_guide_print_what_it_shows(tmp_path: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for path in (CORPUS / "guides").iterdir():
        shutil.copy(path, tmp_path)
    environment = {"PATH": f"{SCRIPTS}:{os.environ['PATH']}", "TTMEM_HOME": str(tmp_path / "home")}

    def shell(command: str) -> list[str]:
        words = ["/bin/sh", "-c", f"{{ {command}\n}} 2>&1"]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout.splitlines()

    (inputs,) = re.findall(r"^```sh\n(mkdir ranks .*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shell(inputs) == []
    count = 0
    for block in BLOCK.findall(text):
        lines = block.splitlines()
        starts = [at for at, line in enumerate(lines) if line.startswith("$ ttmem ")]
        assert starts[0] == 0
        for first, end in pairwise([*starts, len(lines)]):
            count += 1
            printed = shell(lines[first][2:])
            assert fits(lines[first + 1 : end], printed), "\n".join([lines[first], *printed])
    assert count == 11
    assert (tmp_path / "fleet.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert len(list((tmp_path / "ranks").iterdir())) == 32
