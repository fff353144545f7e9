"""`Profile.summary` returns what the command prints, for all options and errors."""

import json
from pathlib import Path
from typing import Any

import pytest

import ttmem
from conftest import CORPUS, TTMEM, ran

EVIDENCE = sorted(
    path
    for path in CORPUS.rglob("*")
    if path.name != "README.md" and (path.is_file() or path.name == "small_model")
)
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("tt_log/vae-decoder.log", {"run": "last"}),
    ("tt_log/vae-decoder.log", {"run": "all", "top": 3}),
    ("tt_log/vae-decoder.log", {"run": 1, "at": 5}),
    ("tt_log/vae-decoder.log", {"run": "1", "at": 0, "top": 1}),
    ("tt_log/llm-decode.log", {"run": 2}),
    ("tt_log/two-ranks-info-only.log", {"rank": 1}),
    ("tt_log/two-ranks-info-only.log", {"rank": "1,0"}),
    ("tt_log/two-ranks-info-only.log", {"rank": 7}),
    ("tt_log/vae-decoder.log", {"run": 99}),
    ("tt_log/vae-decoder.log", {"at": 10**9}),
]


def flags(options: dict[str, Any]) -> list[str]:
    """Converts options to those of the command."""
    return [f"--{name}={value}" for name, value in options.items()]


def same(path: Path, options: dict[str, Any]) -> bool:
    """Compares a summary with the command's; returns whether there was one."""
    command = ran([*TTMEM, "summary", "--json", str(path), *flags(options)])
    if command.returncode == 0:
        answer = ttmem.open(path).summary(**options)
        printed = json.loads(command.stdout)
        assert json.dumps(answer) == json.dumps(printed)
        assert answer["source"]["warnings"] == ttmem.open(path).warnings
        return True
    with pytest.raises(ttmem.Error) as raised:
        ttmem.open(path).summary(**options)
    assert raised.value.exit_code == command.returncode
    assert command.stderr == f"ttmem: {raised.value}\n"
    assert isinstance(raised.value, ttmem.NoMemoryData) == (command.returncode == 4)
    return False


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: str(path.relative_to(CORPUS)))
def test_every_file_of_the_corpus_is_answered_as_the_command_answers(path: Path) -> None:
    same(path, {})


def test_the_corpus_has_both_answers_and_errors_of_every_reader() -> None:
    assert len(EVIDENCE) > 60
    assert {path.relative_to(CORPUS).parts[0] for path in EVIDENCE} == {
        path.name for path in CORPUS.iterdir()
    }


@pytest.mark.parametrize(("file", "options"), OPTIONS, ids=str)
def test_options_are_those_of_the_command(file: str, options: dict[str, Any]) -> None:
    is_there = 7 not in options.values() and 99 not in options.values() and 10**9 not in options.values()
    assert same(CORPUS / file, options) == is_there


@pytest.mark.parametrize("run", ["", "first", "0", 0, -1, "1.5"])
def test_a_run_that_is_none_is_refused(run: int | str) -> None:
    with pytest.raises(ValueError, match="expected `all`, `last` or a run number, starting at 1"):
        ttmem.open(CORPUS / "tt_log/vae-decoder.log").summary(run=run)


@pytest.mark.parametrize("options", [{"run": 1.5}, {"run": True}, {"rank": [0]}, {"top": "3"}, {"at": 1.0}])
def test_arguments_of_another_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        ttmem.open(CORPUS / "tt_log/vae-decoder.log").summary(**options)


def test_numbers_below_zero_are_refused() -> None:
    profile = ttmem.open(CORPUS / "tt_log/vae-decoder.log")
    several: list[dict[str, Any]] = [{"top": -1}, {"at": -1}]
    for options in several:
        with pytest.raises(OverflowError):
            profile.summary(**options)


def test_an_answer_is_the_callers_own() -> None:
    profile = ttmem.open(CORPUS / "tt_log/vae-decoder.log")
    first = profile.summary()
    first["ranks"].clear()
    assert profile.summary()["ranks"]


def test_a_list_has_at_least_one_row() -> None:
    profile = ttmem.load(CORPUS / "tt_log/vae-decoder.log")
    for ask in (profile.summary, profile.markdown):
        with pytest.raises(ValueError, match="top is 0; expected at least 1"):
            ask(top=0)
