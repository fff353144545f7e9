"""Programs run the same in an interpreter with PyTorch loaded as in a new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from conftest import preloaded, ran

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import atexit, os, sys
is_loaded = "torch" in sys.modules
atexit.register(lambda: print("over", __name__))
print(is_loaded, __name__, sys.argv[1:], sys.path[0], globals().get("__file__"), os.getcwd())
print(sorted(vars(sys.modules["__main__"]).keys() - {"__cached__", "__loader__"}), os.getenv("TTMEM_HOME"))
print(sys.stdin.read(), sys.stdout.isatty(), os.getenv("TTMEM_TRACK"), file=sys.stderr)
"""


@pytest.mark.parametrize("how", ["-c", "script", "-m"])
def test_a_program_sees_what_it_would_see_in_a_new_interpreter(how: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = {"-c": ["-c", PROGRAM], "script": ["program.py"], "-m": ["-m", "program"]}[how]
    environment = os.environ | {"TTMEM_HOME": str(tmp_path / "home"), "TTMEM_TRACK": "0"}
    new = ran([sys.executable, *words, "a", "b c"], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL)
    found = preloaded().run([*words, "a", "b c"], cwd=tmp_path, env=environment)
    assert (found.returncode, found.stdout, found.stderr) == (new.returncode, new.stdout, new.stderr)
    assert new.stdout.startswith("False __main__ ['a', 'b c']")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('why')", 1),
        ("1 / 0", 1),
        ("os._exit(5)", 5),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass", -signal.SIGINT),
    ],
)
def test_a_program_ends_as_in_a_new_interpreter(end: str, code: int, tmp_path: Path) -> None:
    program = f"import os, signal, sys\nprint('begun', flush=True)\n{end}\n"
    new = ran([sys.executable, "-c", program], cwd=tmp_path)
    found = preloaded().run(["-c", program], cwd=tmp_path)
    assert found.returncode == new.returncode == code
    assert found.stdout == new.stdout
    assert found.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]


def test_the_tracker_starts_when_a_program_imports_pytorch(tmp_path: Path) -> None:
    program = """
        import sys
        started = sorted(name for name in sys.modules if name.startswith("ttmem"))
        import torch
        print(started, torch is sys.modules["torch"], torch.__spec__.origin == torch.__file__)
        import ttmem
        print(ttmem.get_memory_tracker().enabled)
    """
    environment = os.environ | {"TTMEM_TRACK": "1", "TTMEM_TRACK_DIR": str(tmp_path)}
    found = preloaded().run(["-c", textwrap.dedent(program)], env=environment, check=True)
    assert found.stdout == "['ttmem', 'ttmem._native', 'ttmem._start'] True True\nTrue\n"
    assert len([*tmp_path.glob("*.ttmem")]) == 1


def test_variables_that_are_read_at_the_start_are_refused() -> None:
    with pytest.raises(ValueError, match="OMP_NUM_THREADS"):
        preloaded().run(["-c", "pass"], env=os.environ | {"OMP_NUM_THREADS": "7"})


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        preloaded().start(["-c", "import signal; signal.pause()"]).wait(timeout=0.1)
