"""Child processes of a tracked program: which are tracked, and what is printed about the others.

`ttmem track` sets the variables that `ttmem-start.pth` reads, so new Python processes start a tracker when
they import PyTorch. Processes without tensors of the program are not tracked (launchers, data loader workers,
compile workers), nor are children of a rank and children after `fork`.
"""

from __future__ import annotations

import os
import site
import sys
from typing import TYPE_CHECKING, Any

from ttmem import _launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = "ttmem-start.pth"
ANNOUNCE = "TTMEM_TRACK_ANNOUNCE"
"""Set if children print the path of their recording."""
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "torchrun")
COMPILE_WORKER = os.path.join("torch", "_inductor", "compile_worker")
QUIET = (
    os.path.join("torch", "utils", "data"),
    os.path.join("torch", "_inductor"),
    f"{os.sep}subprocess.py",
)
"""Files of code that forks for data loader workers, compile workers and other programs."""
WORKER_MODULES = ("torch.utils.data", "torch._inductor")
MAX_FRAMES = 64


def is_launcher(program: str, *, is_module: bool) -> bool:
    """Whether a module or script starts the ranks of a program and has no tensors itself."""
    return (program if is_module else os.path.basename(program)) in LAUNCHERS


def can_follow() -> bool:
    """Whether Python processes of this environment read `ttmem-start.pth`."""
    folders = [*site.getsitepackages()] if hasattr(site, "getsitepackages") else []
    if site.ENABLE_USER_SITE and hasattr(site, "getusersitepackages"):
        folders.append(site.getusersitepackages())
    return any(os.path.exists(os.path.join(folder, START)) for folder in folders)


def follow(output_dir: str, interval: float, level: str, limit: str | None, *, announces: bool) -> None:
    """Sets the variables that start the tracker in new Python processes; in a rank, those that do not.

    The children of a rank would be recorded under its number.
    """
    if _launch.rank() is not None:
        os.environ["TTMEM_TRACK"] = "0"
        return
    os.environ.update(
        TTMEM_TRACK="1",
        TTMEM_TRACK_DIR=os.path.abspath(output_dir),
        TTMEM_TRACK_INTERVAL=str(interval),
        TTMEM_TRACK_LEVEL=level,
        TTMEM_TRACK_LIMIT="none" if limit is None else str(limit),
    )
    if announces:
        os.environ[ANNOUNCE] = "1"


def start(begin: Callable[[], None]) -> None:
    """Starts the tracker of a new process: now, when its task is known, or not at all."""
    program = _program()
    if is_launcher(program, is_module=True) or is_launcher(program, is_module=False):
        return
    if COMPILE_WORKER in program:
        return
    process = sys.modules.get("multiprocessing.process")
    is_server = program.startswith("from multiprocessing.forkserver ")
    if process is not None and (is_server or hasattr(process.current_process(), "_inheriting")):
        _begin_with_task(process.BaseProcess, begin)
    else:
        _begin(begin, is_child=process is not None and process.parent_process() is not None)


def _begin_with_task(kind: Any, begin: Callable[[], None]) -> None:
    """Waits until a child of `multiprocessing` has received its task."""
    bootstrap = kind._bootstrap  # noqa: SLF001 - has no public hook

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only once, because this process may fork.
        kind._bootstrap = bootstrap  # noqa: SLF001
        target = getattr(self, "_target", None)
        if not str(getattr(target, "__module__", "")).startswith(WORKER_MODULES):
            _begin(begin, is_child=True)
        return bootstrap(self, *args, **kwargs)

    kind._bootstrap = _bootstrap  # noqa: SLF001


def _begin(begin: Callable[[], None], *, is_child: bool) -> None:
    begin()
    if is_child:
        from multiprocessing import util

        # Some of these processes end without `atexit` functions, and some forget finalizers when they start.
        _finalize(announced_stop)
        util.register_after_fork(announced_stop, _finalize)
    if _launch.rank() is not None:
        os.environ["TTMEM_TRACK"] = "0"


def _finalize(stop: Callable[[], None]) -> None:
    from multiprocessing import util

    util.Finalize(None, stop, exitpriority=-100)


def announced_stop() -> None:
    """Stops the tracker and prints the path of the recording, if there is one."""
    from ttmem.tracker import get_memory_tracker, stop_memory_tracker

    # The recording, not the JSON, which contains only snapshots.
    tracker = get_memory_tracker()
    recording = tracker.recording
    if stop_memory_tracker() and recording and tracker.announces and sys.stderr is not None:
        sys.stderr.write(f"ttmem: {recording}\n")


def untracked_forks(count: int) -> str:
    """Returns the message about children after `fork`, which are not tracked."""
    what = "1 child process was" if count == 1 else f"{count} child processes were"
    return f"{what} forked and not tracked; children of the start method `spawn` are tracked"


def is_quiet_fork() -> bool:
    """Whether the program does not know about the fork that begins: it is for a worker or another program."""
    return any(part in file for file in _files() for part in QUIET)


def _files() -> Iterator[str]:
    frame = sys._getframe(1)  # noqa: SLF001 - as documented for debuggers
    for _ in range(MAX_FRAMES):
        yield frame.f_code.co_filename
        if frame.f_back is None:
            return
        frame = frame.f_back


def _program() -> str:
    """Returns the module, script or code in Python's command line."""
    words: Iterator[str] = iter(getattr(sys, "orig_argv", [])[1:])
    for word in words:
        if word in ("-m", "-c"):
            return next(words, "")
        if word in ("-W", "-X"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""
