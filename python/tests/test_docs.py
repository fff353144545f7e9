"""The examples of docs/python.md and docs/pytorch.md are true: they are run, in a copy of the corpus."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

from conftest import CORPUS, ROOT

PAGE = ROOT / "docs" / "python.md"
PYTORCH = ROOT / "docs" / "pytorch.md"
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
