"""Entry points of the commands `ttmem` (also `python -m ttmem`) and `tt-memory-profiler`.

The native module implements the commands; this module sets up signals for them. It imports little, because
every import delays a command.
"""

import os
import sys

# Not `signal`, which imports `enum` and more.
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGINT,
    SIGXFSZ,
    default_int_handler,
    getsignal,
    signal,
)

from ttmem import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

VERBS = {"fleet": "ttmem.fleet.command", "track": "ttmem._track"}
"""Commands implemented in Python, each with the module whose `main(words)` runs it."""


def ttmem() -> int:
    """Runs the command `ttmem` with the arguments in `sys.argv`; returns its exit code."""
    module = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        return _run(_native.ttmem)
    from importlib import import_module

    code: int = import_module(module).main(sys.argv[2:])
    return code


def tt_memory_profiler() -> int:
    """Runs the command `tt-memory-profiler`; returns its exit code."""
    return _run(_native.tt_memory_profiler)


def _run(command: "Callable[[list[str], list[str]], int]") -> int:
    """Runs a native command with the signal handling of an ordinary program."""
    # Python's handler would only run after the command returns. An ignored signal (`nohup`) stays ignored.
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, SIG_DFL)
    # Python ignores SIGXFSZ, and child processes would inherit that.
    signal(SIGXFSZ, SIG_DFL)
    again = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_again.py")
    # `sys.executable` may be empty when Python is embedded in another program.
    return command(sys.argv, [sys.executable, "-I", again] if sys.executable else [])


if __name__ == "__main__":
    # The usage lines of `--help` and of errors start with it. Otherwise it is the path of this file.
    sys.argv[0] = "python -m ttmem"
    sys.exit(ttmem())
