"""The recording of a program that fails, and that the tracker does not change how it fails."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import ttmem
from conftest import MODULE, preloaded, ran
from ttmem._host import capacity

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MIB = 1 << 20


def written(folder: Path, program: str) -> Path:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    return path


def both(
    folder: Path, program: str, *, is_new: bool = False
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any], str]:
    """Runs a program without and with the tracker; returns the second run, its summary, and the text output.

    `is_new`: in new interpreters.
    """
    script = written(folder, program)
    words = [[script.name], ["-m", "ttmem", "track", "--output-dir", "profiles", script.name]]
    alone, tracked = (
        ran([sys.executable, *line], cwd=folder) if is_new else preloaded().run(line, cwd=folder)
        for line in words
    )
    assert tracked.returncode == alone.returncode
    assert tracked.stdout == alone.stdout
    last = [line for line in alone.stderr.splitlines() if line][-1:]
    assert [line for line in tracked.stderr.splitlines() if line in last] == last
    (recording,) = (folder / "profiles").glob("*.ttmem")
    assert tracked.stderr.splitlines()[-1] == f"ttmem: {recording}"
    summary = ttmem.open(recording).summary()["ranks"][0]
    screen = ran([*MODULE, "summary", str(recording)])
    assert screen.returncode == 0
    return tracked, summary, " ".join(screen.stdout.split())


ASKS_FOR_TOO_MUCH = """
    import torch

    class Cache(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(1 << 48) + x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1 << 20))
            self.cache = Cache()
        def forward(self, x):
            return self.cache(x * self.weight)

    model = Model()
    model(torch.ones(1 << 20))
"""


def test_an_allocation_that_fails_is_a_verdict(tmp_path: Path) -> None:
    run, summary, screen = both(tmp_path, ASKS_FOR_TOO_MUCH)
    assert run.returncode == 1
    oom = summary["oom"]
    assert (oom["pool"], oom["requested_total"]) == ("cpu", 4 << 48)
    assert "program.py:6" in oom["loc"]
    assert oom["op"].startswith("aten::")
    # Live tensors: the parameter, the input and their product.
    assert oom["allocated_per_bank"] == 12 * MIB
    # The host's memory is recorded, and no host has a PiB.
    assert oom["cause"] == "never_fits"
    memory = capacity()
    assert memory is not None
    assert summary["pools"]["cpu"]["capacity_per_bank"] == memory
    assert oom["lacks_per_bank"] == oom["requested_total"] - memory
    assert f"; the capacity is {memory / (1 << 30):.2f} GiB, " in oom["detail"]
    assert oom["headline"] == "Out of memory: the request exceeds the memory of the host."
    assert "but the host has" in next(
        one["message"] for one in summary["suggestions"] if one["rule"] == "out_of_memory"
    )
    (fault,) = summary["faults"]
    assert (fault["kind"], fault["ended_program"]) == ("out_of_memory", True)
    assert "DefaultCPUAllocator" in fault["message"]
    assert "Out of memory" in screen
    assert "program.py:6" in screen
    assert oom["within"] == "cache"
    assert "in cache, requested" in screen
    assert "Tensors held 12.0 MiB at that point" in screen
    (recording,) = (tmp_path / "profiles").glob("*.ttmem")
    moment = ttmem.open(recording).summary(at=oom["step"])["ranks"][0]["at"]["pools"]["cpu"]
    assert moment["explained_per_bank"] == 12 * MIB


def test_one_that_the_program_survives_is_no_verdict(tmp_path: Path) -> None:
    program = """
        import torch
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError:
            print("smaller")
        kept = torch.ones(1000)
    """
    run, summary, screen = both(tmp_path, program)
    assert run.returncode == 0
    assert summary["oom"] is None
    (fault,) = summary["faults"]
    assert (fault["kind"], fault["ended_program"]) == ("out_of_memory", False)
    assert "Out of memory" not in screen


def test_one_inside_of_another_exception_is_a_verdict(tmp_path: Path) -> None:
    program = """
        import torch
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError as error:
            raise ValueError("the batch is too large") from error
    """
    _, summary, _ = both(tmp_path, program)
    assert summary["oom"]["requested_total"] == 1 << 50


def test_an_exception_is_a_line_with_its_place(tmp_path: Path) -> None:
    program = """
        import torch
        kept = torch.ones(1 << 20)

        def checked(x):
            raise ValueError(f"a shape of {tuple(x.shape)}")

        checked(kept)
    """
    run, summary, screen = both(tmp_path, program, is_new=True)
    assert run.returncode == 1
    assert summary["oom"] is None
    (fault,) = summary["faults"]
    assert (fault["kind"], fault["ended_program"]) == ("exception", True)
    assert fault["message"] == "ValueError: a shape of (1048576,) (program.py:6 in checked)"
    assert f"The program ended with {fault['message']}" in screen
    document = ttmem.open(next((tmp_path / "profiles").glob("*.ttmem"))).markdown()
    assert "ValueError" in document


def test_an_exception_that_cannot_be_read_is_a_line_as_well(tmp_path: Path) -> None:
    program = """
        import torch

        class Unreadable(Exception):
            @property
            def __traceback__(self):
                raise RuntimeError("read")
            __cause__ = __context__ = __traceback__
            def __str__(self):
                raise RuntimeError("printed")

        kept = torch.ones(1 << 20)
        raise Unreadable
    """
    run, summary, _ = both(tmp_path, program, is_new=True)
    assert run.returncode == 1
    assert "could not track" not in run.stderr
    (fault,) = summary["faults"]
    assert "Unreadable" in fault["message"]
    assert "program.py:13" in fault["message"]


@pytest.mark.parametrize("how", ["sys.exit(3)", "sys.exit('no data')", "raise SystemExit", "pass"])
def test_an_exit_is_no_failure(tmp_path: Path, how: str) -> None:
    _, summary, screen = both(tmp_path, f"import sys, torch\nkept = torch.ones(1000)\n{how}\n")
    assert summary["faults"] == []
    assert "ended with" not in screen


def test_ctrl_c_is_said(tmp_path: Path) -> None:
    program = """
        import os, signal, torch
        kept = torch.ones(1000)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    """
    run, summary, _ = both(tmp_path, program)
    assert run.returncode == -signal.SIGINT
    (fault,) = summary["faults"]
    assert fault["message"].startswith("KeyboardInterrupt (program.py:")


def test_a_hook_of_the_program_is_called_as_before(tmp_path: Path) -> None:
    program = """
        import sys, torch, ttmem
        def own(kind, error, trace):
            print("own", kind.__name__)
        sys.excepthook = own
        ttmem.initialize_memory_tracker("profiles")
        ttmem.stop_memory_tracker()
        assert sys.excepthook is own
        ttmem.initialize_memory_tracker("profiles")
        raise KeyError("x")
    """
    command = preloaded().run([written(tmp_path, program).name], cwd=tmp_path)
    assert (command.returncode, command.stdout) == (1, "own KeyError\n")
    newest = max((tmp_path / "profiles").glob("*.ttmem"), key=os.path.getmtime)
    (fault,) = ttmem.open(newest).summary()["ranks"][0]["faults"]
    assert fault["message"] == "KeyError: 'x' (program.py:10 in <module>)"


@pytest.mark.parametrize("level", ["phases", "ops"])
def test_other_levels_have_it_too(tmp_path: Path, level: str) -> None:
    script = written(
        tmp_path, "import torch\nkept = torch.ones(9)\ntorch.empty(1 << 50, dtype=torch.uint8)\n"
    )
    words = ["-m", "ttmem", "track", "--level", level, "--output-dir", "profiles", script.name]
    assert preloaded().run(words, cwd=tmp_path).returncode == 1
    oom = ttmem.open(next((tmp_path / "profiles").glob("*.ttmem"))).summary()["ranks"][0]["oom"]
    assert (oom["pool"], oom["requested_total"]) == ("cpu", 1 << 50)
    assert "program.py:3" in oom["message"]
