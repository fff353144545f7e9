"""The tracker is turned on by a configuration file, in real programs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from conftest import MODULE, preloaded, ran

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

ON = "[[backend]]\nenable_memory_profiling = true\n"
OURS = '[ttmem]\noutput_dir = "out"\ninterval = 7\nlevel = "phases"\nlimit = "20MB"\n'
SHOWN = """
import torch
import ttmem
tracker = ttmem.get_memory_tracker()
print(tracker.enabled, tracker.output_dir, tracker.interval, tracker.level, tracker.limit)
"""
OFF = "False . 5.0 tensors 268435456\n"


class Place:
    """A working directory with an empty home directory and no configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TTMEM_")
        }
        self.environment["TTMEM_HOME"] = str(self.home)

    def config(self, text: str, name: str = "server.toml") -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def run(self, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run_words("-c", program, **variables)

    def run_words(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return preloaded().run(words, cwd=self.folder, env=self.environment | variables, check=True)

    def run_new(self, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in a new interpreter."""
        return self.started([sys.executable, "-c", program], **variables)

    def started(self, words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        command = ran(words, cwd=self.folder, env=self.environment | variables)
        assert command.returncode == 0, command.stderr
        return command

    def recordings(self) -> list[str]:
        return sorted(str(path.parent.relative_to(self.folder)) for path in self.folder.rglob("*.ttmem"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_file_starts_it_with_what_it_says(place: Place) -> None:
    command = place.run_new(SHOWN, TTMEM_CONFIG=place.config(ON + OURS))
    assert (command.stdout, command.stderr) == ("True out 7.0 phases 20971520\n", "")
    assert place.recordings() == ["out"]


def test_the_file_in_the_home_of_ttmem_needs_no_variable(place: Place) -> None:
    place.config(ON + OURS, "home/config.toml")
    assert place.run_new(SHOWN).stdout == "True out 7.0 phases 20971520\n"


def test_the_environment_wins(place: Place) -> None:
    config = place.config(ON + OURS)
    assert place.run(SHOWN, TTMEM_CONFIG=config, TTMEM_TRACK="0").stdout == OFF
    variables = {
        "TTMEM_TRACK_DIR": "other",
        "TTMEM_TRACK_INTERVAL": "3",
        "TTMEM_TRACK_LEVEL": "tensors",
        "TTMEM_TRACK_LIMIT": "40MB",
    }
    assert place.run(SHOWN, TTMEM_CONFIG=config, **variables).stdout == "True other 3.0 tensors 41943040\n"
    off = place.config(ON.replace("true", "false") + OURS)
    assert place.run(SHOWN, TTMEM_CONFIG=off).stdout == OFF
    assert place.run(SHOWN, TTMEM_CONFIG=off, TTMEM_TRACK="1").stdout == "True out 7.0 phases 20971520\n"


def test_a_broken_file_is_said_once_and_breaks_nothing(place: Place) -> None:
    config = place.config("a = 1\n[[backend]\n")
    command = place.run(SHOWN, TTMEM_CONFIG=config)
    assert command.stdout == OFF
    assert command.stderr.startswith(f"ttmem: {config}, line 2: invalid TOML (")
    assert command.stderr.count("\n") == 1
    # The environment still applies without the file.
    command = place.run(SHOWN, TTMEM_CONFIG=config, TTMEM_TRACK="1")
    assert command.stdout == "True . 5.0 tensors 268435456\n"
    assert command.stderr.count("\n") == 1
    missing = place.run(SHOWN, TTMEM_CONFIG="missing.toml")
    assert (missing.stdout, missing.stderr.count("\n")) == (OFF, 1)
    assert "TTMEM_CONFIG: missing.toml does not exist" in missing.stderr


def test_what_is_not_understood_is_said_and_the_rest_holds(place: Place) -> None:
    config = place.config(ON + OURS + "levels = 1\n")
    command = place.run(SHOWN, TTMEM_CONFIG=config, TTMEM_TRACK_INTERVAL="often")
    assert command.stdout == "True out 7.0 phases 20971520\n"
    said = command.stderr.splitlines()
    assert said[0].startswith(f'ttmem: {config}, line 8: [ttmem] has no setting "levels"')
    assert said[1].startswith('ttmem: TTMEM_TRACK_INTERVAL is "often"')
    assert len(said) == 2


def test_a_folder_that_cannot_be_made_breaks_nothing(place: Place) -> None:
    config = place.config(ON + f"[ttmem]\noutput_dir = '{place.config('')}'\n", "other.toml")
    command = place.run(SHOWN, TTMEM_CONFIG=config)
    assert command.stdout == OFF
    assert command.stderr.startswith("ttmem: the tracker was not started: ")
    assert command.stderr.count("\n") == 1


LOADED = "import sys; print(*sorted(name for name in sys.modules if name.startswith(('ttmem', 'torch'))))"


def test_where_nothing_is_configured_nothing_is_loaded(place: Place) -> None:
    assert place.run_new(LOADED).stdout == "\n"
    assert place.run_new(LOADED, TTMEM_TRACK="0", TTMEM_CONFIG=place.config(ON)).stdout == "\n"


def test_a_program_without_torch_is_left_alone(place: Place) -> None:
    command = place.run_new(LOADED, TTMEM_CONFIG=place.config("broken"))
    assert (command.stdout, command.stderr) == ("ttmem ttmem._native ttmem._start\n", "")
    assert place.recordings() == []


def test_the_command_switches_it_on_and_off(place: Place) -> None:
    for is_on, shown in (("true", "True . 5.0 tensors 268435456\n"), ("false", OFF)):
        place.started([*MODULE, "config", "update", "--backend-enable-memory-profiling", is_on])
        assert place.run(SHOWN).stdout == shown


def test_a_tracker_of_the_program_takes_its_place(place: Place) -> None:
    program = "import ttmem; ttmem.initialize_memory_tracker('own', interval=2); " + SHOWN.replace(
        "\n", "; "
    ).strip("; ")
    command = place.run(program, TTMEM_CONFIG=place.config(ON + OURS))
    assert (command.stdout, command.stderr) == ("True own 2 tensors 268435456\n", "")
    assert place.recordings() == ["own"]


def test_track_takes_from_it_what_is_not_given(place: Place) -> None:
    place.config(SHOWN, "script.py")
    config = place.config(ON + OURS)
    track = ["-m", "ttmem", "track", "--interval", "2", "script.py"]
    assert place.run_words(*track, TTMEM_CONFIG=config).stdout == "True out 2.0 phases 20971520\n"
    assert place.recordings() == ["out"]
