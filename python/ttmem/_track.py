"""`python -m ttmem track script.py …`: runs an unmodified program with the tracker."""

from __future__ import annotations

import argparse
import atexit
import builtins
import glob
import io
import os
import runpy
import sys
import time
import types
import zipfile
from typing import TYPE_CHECKING

from ttmem._children import START, announced_stop, can_follow, follow, is_launcher, untracked_forks
from ttmem._frames import hide_runner
from ttmem._native import tracker_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ttmem._native import _Settings


SPAWNING = ("spawn_posix", "spawn_win32", "forkserver")
"""Parts of `multiprocessing` that are loaded when a process is spawned."""


def arguments(usual: _Settings) -> argparse.ArgumentParser:
    """Returns the parser. Everything after the script is passed to the script."""
    parser = argparse.ArgumentParser(
        prog=f"{os.path.basename(sys.argv[0])} track",
        description="Run a Python program and track the memory of its PyTorch tensors. "
        "When the program ends, the output folder contains the profile and the recording. "
        "Defaults come from the environment and the configuration (`ttmem config`).",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output-dir",
        default=usual["output_dir"],
        metavar="DIR",
        help="output folder (default: %(default)s)",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=usual["interval"],
        metavar="SECONDS",
        help="time between snapshots (default: %(default)s)",
    )
    parser.add_argument(
        "--level",
        choices=("phases", "tensors", "ops"),
        default=usual["level"],
        help="phases: only counters, at snapshots; tensors: every allocation; ops: also every operation "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        default=usual["limit"],
        metavar="SIZE",
        help="maximum total size of the recording, such as 200MB, or none; beyond it, the oldest details are "
        "dropped (default: %(default)s)",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module instead of a file")
    parser.add_argument("program", help="the script, or the module with -m")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="arguments of the program")
    return parser


def main(words: Sequence[str]) -> int:
    usual = tracker_settings()
    options = arguments(usual).parse_args(words)
    for problem in usual["problems"]:
        sys.stderr.write(f"ttmem: {problem}\n")
    if options.program == "torchrun" and not options.module and not os.path.exists("torchrun"):
        options.module, options.program = True, "torch.distributed.run"
    if not options.module and not os.path.exists(options.program):
        sys.stderr.write(f"ttmem: {options.program}: no such file; pass the script to track\n")
        return 2
    if is_launcher(options.program, is_module=options.module):
        return _launch(options)
    from ttmem.tracker import initialize_memory_tracker

    # The recording contains the arguments of the program.
    ours, sys.argv = sys.argv, [options.program, *options.words]
    try:
        tracker = initialize_memory_tracker(
            options.output_dir, interval=options.interval, level=options.level, limit=options.limit
        )
    except (ModuleNotFoundError, OSError, ValueError) as error:
        sys.argv = ours
        sys.stderr.write(f"ttmem: {error}\n")
        return 2
    tracker.announces = True
    # At exit: the program's threads may outlive its script.
    atexit.register(_stop, os.getpid())
    _follow(options, announces=True)
    _run_unchanged(options)
    return 0


def _launch(options: argparse.Namespace) -> int:
    """Runs a launcher, such as `torchrun`: its processes are tracked, and the launcher itself is not."""
    if not can_follow():
        sys.stderr.write(
            f"ttmem: the processes of {options.program} cannot be tracked, because {START} is not in "
            "site-packages; install ttmem with pip, or run `torchrun … -m ttmem track SCRIPT`\n"
        )
        return 2
    waiting = sys.modules.get("ttmem._start")
    if waiting is not None:
        waiting.cancel()
    sys.argv = [options.program, *options.words]
    _follow(options, announces=False)
    atexit.register(_announce_ranks, os.getpid(), os.path.abspath(options.output_dir), time.time())
    _run_unchanged(options)
    return 0


def _follow(options: argparse.Namespace, *, announces: bool) -> None:
    follow(options.output_dir, options.interval, options.level, options.limit, announces=announces)


def _run_unchanged(options: argparse.Namespace) -> None:
    """Runs the program; its traceback is the same as without us."""
    try:
        _run(options.program, is_module=options.module)
    except BaseException:
        # Now, because the program may have replaced `sys.excepthook`.
        hide_runner()
        raise


def _run(program: str, *, is_module: bool) -> None:
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif os.path.isfile(program) and not zipfile.is_zipfile(program):
        sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        _run_script(os.path.abspath(program))
    else:
        runpy.run_path(program, run_name="__main__")


def _run_script(path: str) -> None:
    """Runs a script in a `__main__` module that stays alive, as Python does: pickling at exit needs it."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - runs the user's script


def _stop(process: int) -> None:
    from ttmem.tracker import get_memory_tracker

    # A child after `fork` may run this as well.
    if os.getpid() != process:
        return
    forks = get_memory_tracker().forks
    announced_stop()
    if forks:
        sys.stderr.write(f"ttmem: {untracked_forks(forks)}\n")
    elif not can_follow() and any(f"multiprocessing.popen_{how}" in sys.modules for how in SPAWNING):
        sys.stderr.write(
            f"ttmem: child processes were not tracked, because {START} is not in site-packages; install "
            "ttmem with pip\n"
        )


def _announce_ranks(process: int, folder: str, began: float) -> None:
    if os.getpid() != process:
        return
    count = sum(
        os.path.getmtime(path) >= began and not path.endswith((".before.ttmem", ".peak.ttmem"))
        for path in glob.glob(os.path.join(glob.escape(folder), "memory_profile_*.ttmem"))
    )
    if count == 0:
        sys.stderr.write("ttmem: no recordings, because no rank imported PyTorch\n")
    else:
        what = "1 recording" if count == 1 else f"{count} recordings"
        sys.stderr.write(f"ttmem: {what} in {folder}; run `ttmem summary {folder}`\n")
