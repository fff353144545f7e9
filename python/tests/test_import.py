"""`import ttmem` is fast and imports little; its type stubs match the module."""

import subprocess
import sys
from pathlib import Path

import pytest

import ttmem
from conftest import ROOT, ran

LOADED = "import sys; before = set(sys.modules); {}; print(*sorted(set(sys.modules) - before))"


def loaded(statement: str) -> list[str]:
    """Returns the modules that a statement loads."""
    return ran([sys.executable, "-c", LOADED.format(statement)]).stdout.split()


def test_importing_it_loads_nothing_else() -> None:
    assert loaded("import ttmem") == ["ttmem", "ttmem._native"]


def test_the_command_waits_for_no_other_module() -> None:
    assert loaded("import ttmem.__main__") == ["ttmem", "ttmem.__main__", "ttmem._native"]


def test_an_answer_needs_no_torch() -> None:
    modules = loaded(f"import ttmem; ttmem.load({str(ROOT / 'corpus/tt_log/vae-decoder.log')!r}).summary()")
    assert "json" in modules
    assert not {"torch", "numpy"} & set(modules)


def test_the_module_uses_the_allocator_of_the_process() -> None:
    """A module that is loaded late may find no space for further thread-local data."""
    library = next(Path(ttmem.__file__).parent.glob("_native*.so"))
    for symbol in (b"mi_malloc", b"mi_heap_malloc"):
        assert symbol not in library.read_bytes()


def test_importing_everything_replaces_nothing_of_python() -> None:
    program = "import builtins, ttmem; from ttmem import *; "
    program += "print(*(set(globals()) & set(dir(builtins))), open is builtins.open)"
    names = ran([sys.executable, "-c", program]).stdout.split()
    assert {name for name in names if not name.startswith("__")} == {"True"}
    assert callable(ttmem.open)


def test_load_has_an_earlier_name() -> None:
    assert ttmem.open is ttmem.load
    assert ttmem.load.__name__ == "load"


def test_completion_lists_functions_that_are_not_imported_yet() -> None:
    program = "import sys, ttmem; print(*dir(ttmem)); print('ttmem.tracker' in sys.modules)"
    names, is_imported = ran([sys.executable, "-c", program]).stdout.splitlines()
    assert set(ttmem.__all__) | {"open"} <= set(names.split())
    assert not {"MODULES", "TYPE_CHECKING"} & set(names.split())
    assert is_imported == "False"


PROGRAM = """
from pathlib import Path

import ttmem

profile: ttmem.Profile = ttmem.load(Path("model.log"), format="tt_log")
ranks = profile.summary(run="last", rank=0, top=3, at=7)["ranks"]
page: Path = profile.report("out", name="x", force=True)
line: int | None = profile.warnings[0]["line"]
text: str = profile.markdown() + profile.format + ttmem.__version__
try:
    ttmem.load("x")
except ttmem.NoMemoryData as error:
    code: int = error.exit_code
"""
WRONG = [
    "ttmem.load(3)",
    "ttmem.load('x', 'tt_log')",
    "ttmem.load('x').summary('last')",
    "ttmem.load('x').summary(run=1.5)",
    "ttmem.load('x').warnings = []",
    "ttmem.nothing",
    "number: int = ttmem.load('x').format",
]


# The stubs import PyTorch, but no signature that the programs use depends on its types, and checking its
# sources takes half a minute.
CONFIG = "[mypy]\nstrict = True\n[mypy-torch.*]\nfollow_imports = skip\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a mypy configuration and cache."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIG)
    return folder


def checked(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type-checks a program that uses the installed package."""
    (folder / "program.py").write_text(program)
    words = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache"]
    return ran([*words, "program.py"], cwd=folder)


def test_a_program_with_right_types_is_accepted(folder: Path) -> None:
    assert checked(PROGRAM, folder).stdout == "Success: no issues found in 1 source file\n"


def test_programs_with_wrong_types_are_refused(folder: Path) -> None:
    said = checked("import ttmem\n\n" + "\n".join(WRONG) + "\n", folder).stdout
    assert [line.split(":")[1] for line in said.splitlines()[:-1] if "error" in line] == [
        str(number) for number in range(3, 3 + len(WRONG))
    ]


def test_stubs_have_just_what_the_module_has(folder: Path) -> None:
    words = [sys.executable, "-m", "mypy.stubtest", "--concise", "--mypy-config-file", "mypy.ini"]
    command = ran([*words, "ttmem._native"], cwd=folder)
    assert command.returncode == 0, command.stdout + command.stderr
