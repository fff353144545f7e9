"""Runs the code in docs/guides/migrating.md: the new side of each diff.

A block fenced as `diff python` or `diff cpp` shows old and new code: `-` marks lines of the old side, `+`
lines of the new one. The commands in the guides are tested in crates/ttmem-cli/tests/it/docs.rs.
"""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from conftest import ROOT

PAGE = ROOT / "docs" / "guides" / "migrating.md"


def sides(language: str) -> list[tuple[str, str]]:
    """Returns the old and the new code of each diff on the page."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(rf"^```diff {language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    def side(block: str, mark: str) -> str:
        return "".join(f"{line[1:]}\n" for line in block.splitlines() if line[:1] in (mark, " ", ""))

    return [(side(block, "-"), side(block, "+")) for block in blocks]


def names() -> dict[str, object]:
    """Returns the parts of a program that the examples use and do not define."""
    return {
        "create_model": lambda: torch.nn.Linear(64, 64),
        "create_optimizer": lambda model: torch.optim.AdamW(model.parameters()),
        "model": torch.nn.Linear(64, 64),
        "batch": torch.ones(8, 64),
    }


def run(code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), names())  # noqa: S102


def test_every_python_example_parses_and_only_the_new_side_uses_ttmem() -> None:
    found = sides("python")
    assert len(found) == 3
    for old, new in found:
        ast.parse(old)
        ast.parse(new)
        assert "ttmem" not in old
        assert "from ttmem import" in new


def test_the_tracker_of_tt_train_is_replaced_by_ours(capsys: pytest.CaptureFixture[str]) -> None:
    measured, estimated, _ = (new for _, new in sides("python"))
    run(measured)
    printed = capsys.readouterr().out
    phases = ["MODEL_CREATION", "OPTIMIZER_CREATION", "FORWARD_PASS", "BACKWARD_PASS", "ITERATION_COMPLETE"]
    assert re.findall(r"^--- (\w+) ---$", printed, re.MULTILINE) == phases
    run(estimated)
    assert "NO_DISPATCH" in capsys.readouterr().out


def test_the_tracker_of_pie_is_replaced_by_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(sides("python")[2][1])
    written = sorted((tmp_path / "profiles").iterdir())
    assert [path.suffix for path in written] == [".json", ".ttmem"]
    assert len({path.stem for path in written}) == 1
    assert written[0].stem.startswith("memory_profile_")


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_the_cpp_example_compiles() -> None:
    ((old, new),) = sides("cpp")
    assert "ttml::utils" in old
    include = f"-I{ROOT / 'include'}"
    command = ["c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", include, "-x", "c++", "-"]
    subprocess.run(command, input=new, text=True, check=True)
