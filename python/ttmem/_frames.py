"""Removes the tracker's frames from tracebacks, so that an exception reads as it does without the tracker.

A function of ttmem that calls the program's code, or PyTorch's for the program, removes itself:

    try:
        return function(*args)
    except BaseException as error:
        leave(error)
        raise

This works because a bare `raise` does not add the current frame to the traceback again. Python 3.10 restores
the traceback from before; there, only `without_ours` removes such frames, when an exception ends the program.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
RUNNER = os.path.join(OURS, "_track.py")
"""Runs the program: every frame above its own belongs to the command."""
RUNPY = "runpy.py", "<frozen runpy>"


def leave(error: BaseException) -> None:
    """Removes the calling function's frame from the traceback of an exception that it has caught.

    Also removes our functions that it has called, unless one of them raised the exception.
    """
    trace = error.__traceback__
    if trace is None or trace.tb_frame is not sys._getframe(1):  # noqa: SLF001
        return
    called = inner = trace.tb_next
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(OURS):
        inner = inner.tb_next
    error.__traceback__ = called if inner is None else inner


def without_ours(error: BaseException) -> None:
    """Removes our frames from the tracebacks of an exception and of its causes.

    The innermost frames stay if they are ours: then ttmem itself raised the exception.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _of_program(one.__traceback__)
            waiting += [one.__cause__, one.__context__]
            members = getattr(one, "exceptions", None)
            if isinstance(members, tuple):
                waiting += [member for member in members if isinstance(member, BaseException)]


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    files = [entry.tb_frame.f_code.co_filename for entry in entries]
    first = 0
    if RUNNER in files:
        first = len(files) - files[::-1].index(RUNNER)
        while first < len(files) and files[first].endswith(RUNPY):
            first += 1
    end = len(files)
    while end > first and files[end - 1].startswith(OURS):
        end -= 1
    kept = [
        entry
        for at, entry in enumerate(entries)
        if at >= first and (at >= end or not files[at].startswith(OURS))
    ]
    for entry, following in zip(kept, [*kept[1:], None], strict=False):
        entry.tb_next = following
    return kept[0] if kept else None


def cleaned(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """Returns a hook's traceback argument without our frames. Never raises."""
    is_own = trace is error.__traceback__
    # The exception may be of any class.
    with contextlib.suppress(Exception):
        without_ours(error)
    return error.__traceback__ if is_own else trace


def hide_runner() -> None:
    """Removes our frames when the exception that is about to end the program is printed."""
    hook: Callable[..., object] = sys.excepthook

    def without_runner(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        hook(kind, error, cleaned(error, trace))

    sys.excepthook = without_runner
