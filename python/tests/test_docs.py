"""The examples of the pages about Python are true: they are run, in a copy of the corpus."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

from conftest import CORPUS, ROOT

PAGE = ROOT / "docs" / "python.md"
PYTORCH = ROOT / "docs" / "pytorch.md"
USAGE = ROOT / "docs" / "usage.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_page_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(CORPUS / "tt_log", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    kinds = {True: 0, False: 0}
    for block in BLOCK.finditer(text):
        code, line = block[1], text[: block.start(1)].count("\n")
        is_session = code.startswith(">>> ")
        kinds[is_session] += 1
        if is_session:
            example = doctest.DocTestParser().get_doctest(code, names, PAGE.name, str(PAGE), line)
            runner.run(example, out=said.append, clear_globs=False)
            names = example.globs
        else:
            exec(compile("\n" * line + code, str(PAGE), "exec"), {})  # noqa: S102
    assert not said, "".join(said)
    assert kinds == {True: 4, False: 1}


def test_the_example_of_a_tracker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = BLOCK.findall(PYTORCH.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    exec(compile(code, str(PYTORCH), "exec"), names)  # noqa: S102
    assert sorted(path.suffix for path in (tmp_path / "profiles").iterdir()) == [".json", ".ttmem"]
    assert Path(str(names["path"])).exists()


def test_the_examples_of_phases_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = USAGE.read_text(encoding="utf-8")
    measured, estimated = BLOCK.findall(text)
    exec(compile(measured, str(USAGE), "exec"), {})  # noqa: S102
    (shown,) = re.findall(r"^```text\n(.*?)…\n^```$", text, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out.startswith(shown)
    exec(compile(estimated, str(USAGE), "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    assert printed.startswith("nan\n")
    assert printed.endswith("These figures are estimates: nothing was allocated (NO_DISPATCH).\n")
    assert "Overall DRAM Peak: 7629" in printed
