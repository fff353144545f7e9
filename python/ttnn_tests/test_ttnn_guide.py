"""The guide about a clash, on real ttnn: the program fails, and runs with the change that the guide makes."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

from described_cards import HERE

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

    from described_cards import Cards

ROOT = HERE.parents[1]
CLASH = "Statically allocated dataflow buffers in program 0 clash with L1 buffers"


def changed(program: str) -> str:
    """Returns the program with the change in the guide."""
    guide = (ROOT / "docs/guides/softmax-clash.md").read_text()
    [diff] = re.findall(r"```diff\n(.*?)```", guide, re.DOTALL)
    removed, added = (
        "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+"
    )
    assert program.count(removed) == 1
    return program.replace(removed, added)


def test_the_change_of_the_guide_makes_the_program_run(cards: Cards, tmp_path: Path) -> None:
    program = (ROOT / "corpus/guides/softmax.py").read_text()
    (tmp_path / "fixed.py").write_text(changed(program))
    shutil.copy(ROOT / "corpus/guides/softmax.py", tmp_path)
    failed = cards.start("n150", tmp_path / "softmax.py", tmp_path, "softmax")
    assert failed.returncode != 0
    assert CLASH in failed.stdout + failed.stderr
    oom = summary(tmp_path / "softmax.json")["oom"]
    assert oom["ways_out"][0]["kind"] == "move_to_dram"
    fixed = cards.start("n150", tmp_path / "fixed.py", tmp_path, "fixed")
    assert fixed.returncode == 0, fixed.stderr[-2000:]
    after = summary(tmp_path / "fixed.json")
    assert after["oom"] is None
    assert after["faults"] == []


def summary(path: Path) -> Any:
    """Returns the answer for a capture."""
    return ttmem.open(path).summary()["ranks"][0]
