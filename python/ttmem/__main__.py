"""The commands: `ttmem`, `tt-memory-profiler`, and `python -m ttmem`, which is the first of them.

What the commands do is the native module's; here the process is made ready for them. Nothing is imported
that a command would have to wait for.
"""

import os
import sys

# Not of `signal`: that one imports much to give numbers names.
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

VERBS = {"track": "ttmem._track"}
"""Verbs that are written in Python: the module of each, whose `main(words)` gets what follows the verb."""


def ttmem() -> int:
    """Run the command `ttmem` with the words of `sys.argv`; return its exit code."""
    module = VERBS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        return _run(_native.ttmem)
    from importlib import import_module

    code: int = import_module(module).main(sys.argv[2:])
    return code


def tt_memory_profiler() -> int:
    """Run the command `tt-memory-profiler`; return its exit code."""
    return _run(_native.tt_memory_profiler)


def _run(command: "Callable[[list[str], list[str]], int]") -> int:
    """Run a command of the native module as if it were the program of this process."""
    # The interpreter's handler would wait until the command is over. What was ignored (`nohup`) stays so.
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, SIG_DFL)
    # This one the interpreter ignores, and so would all that the command starts.
    signal(SIGXFSZ, SIG_DFL)
    again = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_again.py")
    # A program that has an interpreter inside of it may know of none that could be started.
    return command(sys.argv, [sys.executable, "-I", again] if sys.executable else [])


if __name__ == "__main__":
    sys.exit(ttmem())
