"""`python -m ttmem track script.py …`: runs a program with the tracker, without a change to it."""

from __future__ import annotations

import argparse
import atexit
import builtins
import io
import os
import runpy
import sys
import types
import zipfile
from typing import TYPE_CHECKING

from ttmem._native import tracker_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ttmem._native import _Settings


def arguments(usual: _Settings) -> argparse.ArgumentParser:
    """The options; what follows the script is the script's."""
    parser = argparse.ArgumentParser(
        prog="ttmem track",
        description="Run a Python program and watch the memory of its PyTorch tensors. "
        "When it ends, the profile and the recording are in the output folder. "
        "What is not given is as the environment and the configuration say (`ttmem config`).",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output-dir", default=usual["output_dir"], metavar="DIR", help="where files go (here: %(default)s)"
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=usual["interval"],
        metavar="SECONDS",
        help="time between snapshots (here: %(default)s)",
    )
    parser.add_argument(
        "--level",
        choices=("phases", "tensors", "ops"),
        default=usual["level"],
        help="phases: only counters, at snapshots; tensors: every allocation; ops: every operation, too "
        "(here: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        default=usual["limit"],
        metavar="SIZE",
        help="how large the files of the recording become together, such as 200MB; beyond, the oldest detail "
        "goes; none: as large as it takes (here: %(default)s)",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="what follows is a module, not a file")
    parser.add_argument("program", help="the script, or with -m the module")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def main(words: Sequence[str]) -> int:
    """Runs a program with the tracker."""
    usual = tracker_settings()
    options = arguments(usual).parse_args(words)
    for problem in usual["problems"]:
        sys.stderr.write(f"ttmem: {problem}\n")
    if not options.module and not os.path.exists(options.program):
        sys.stderr.write(f"ttmem: there is no {options.program}: name the script that is to be watched\n")
        return 2
    from ttmem.tracker import initialize_memory_tracker, stop_memory_tracker

    try:
        initialize_memory_tracker(
            options.output_dir, interval=options.interval, level=options.level, limit=options.limit
        )
    except (ModuleNotFoundError, OSError, ValueError) as error:
        sys.stderr.write(f"ttmem: {error}\n")
        return 2
    # When all is over: threads of the program may go on when its script has ended.
    atexit.register(_stop, stop_memory_tracker)
    sys.argv = [options.program, *options.words]
    if options.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    elif os.path.isfile(options.program) and not zipfile.is_zipfile(options.program):
        sys.path.insert(0, os.path.dirname(os.path.abspath(options.program)))
        _run_script(os.path.abspath(options.program))
    else:
        runpy.run_path(options.program, run_name="__main__")
    return 0


def _run_script(path: str) -> None:
    """Runs a script as Python itself does: in a module that stays, for what is pickled at the very end."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - that is what is asked for


def _stop(stop: Callable[[], str]) -> None:
    from ttmem.tracker import get_memory_tracker

    # The JSON beside it has snapshots only: the recording is what the commands should read.
    recording = get_memory_tracker().recording
    if stop() and recording:
        sys.stderr.write(f"ttmem: {recording}\n")
