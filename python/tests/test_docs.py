"""Runs the examples of the Python documentation in a copy of the corpus."""

import doctest
import re
import shutil
from pathlib import Path

import pytest
import torch

from conftest import CORPUS, ROOT, TTMEM, ran

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
    _, code = BLOCK.findall(PYTORCH.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    exec(compile(code, str(PYTORCH), "exec"), names)  # noqa: S102
    assert sorted(path.suffix for path in (tmp_path / "profiles").iterdir()) == [".json", ".ttmem"]
    assert Path(str(names["path"])).exists()


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12),
    reason="older versions of PyTorch allocate other sizes",
)
def test_the_two_commands_print_what_the_page_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    text = PYTORCH.read_text(encoding="utf-8")
    program, _ = BLOCK.findall(text)
    (tmp_path / "train.py").write_text(program)
    session = re.findall(r"^```text\n(\$ ttmem track .*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    _, first, second = re.split(r"^\$ ttmem ", session, flags=re.MULTILINE)
    command, *shown = first.splitlines()
    tracked = ran([*TTMEM, *command.split()], cwd=tmp_path, env=environment)
    (recording,) = tmp_path.glob("*.ttmem")
    assert (tracked.returncode, tracked.stdout) == (0, "")
    assert [re.sub(r"/.*/|\d+_\d+", "", line) for line in shown] == ["ttmem: memory_profile_.ttmem"]
    assert tracked.stderr == f"ttmem: {recording}\n"
    command, *shown = second.splitlines()
    assert command.startswith("summary memory_profile_")
    summary = ran([*TTMEM, "summary", recording.name], cwd=tmp_path, env=environment)
    parts = "\n".join(map(comparable, shown)).split("…")
    pattern = ".*".join(map(re.escape, parts))
    printed = "\n".join(map(comparable, summary.stdout.splitlines()))
    assert re.fullmatch(pattern, printed, re.DOTALL), summary.stdout


def comparable(line: str) -> str:
    """Returns a line without times, estimated savings and the host's memory, and with single spaces."""
    line = re.sub(r"\d+(\.\d+)? (s|ms|µs)\b", "TIME", line)
    line = re.sub(r" of [\d.]+ [GT]iB \(<?\d+%\).*", " HOST", line)
    return " ".join(re.sub(r"(about|^ +)\s*\d+\.\d [KM]iB\.$", "SAVING", line).split())


def test_the_examples_of_phases_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = USAGE.read_text(encoding="utf-8")
    measured, estimated = BLOCK.findall(text)
    exec(compile(measured, str(USAGE), "exec"), {})  # noqa: S102
    (shown,) = re.findall(r"^```text\n(.*?)…\n^```$", text, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out.startswith(shown)
    exec(compile(estimated, str(USAGE), "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    assert printed.startswith("nan\n")
    assert "\nThese numbers are estimates: nothing was allocated (NO_DISPATCH).\n" in printed
    line = estimated[: estimated.index("loss.item")].count("\n") + 1
    assert f"\n  {USAGE}:{line}: a value is read as NaN" in printed
    assert "Overall cpu Peak: 7450.6" in printed
