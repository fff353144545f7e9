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
BEFORE_START = ImportError, OSError, SyntaxError
"""Raised if the program can't be found, opened or compiled. Python prints no frames for these errors."""

# Not the attributes: the class of an exception may override them or forbid assignment.
traceback_of: Callable[[BaseException], TracebackType | None] = vars(BaseException)["__traceback__"].__get__
cause_of: Callable[[BaseException], BaseException | None] = vars(BaseException)["__cause__"].__get__
context_of: Callable[[BaseException], BaseException | None] = vars(BaseException)["__context__"].__get__
_set_traceback = BaseException.with_traceback


def leave(error: BaseException) -> None:
    """Removes the calling function's frame from the traceback of an exception that it has caught.

    Also removes our functions that it has called, unless one of them raised the exception. Never raises, but
    an exception of a signal handler of the program that runs meanwhile passes through.
    """
    try:
        trace = traceback_of(error)
        if trace is None or trace.tb_frame is not sys._getframe(1):  # noqa: SLF001
            return
        called = inner = trace.tb_next
        while inner is not None and inner.tb_frame.f_code.co_filename.startswith(OURS):
            inner = inner.tb_next
        _set_traceback(error, called if inner is None else inner)
    except Exception as failure:
        # The recursion limit, or an audit hook that forbids access to frames. Here, calls may fail again.
        is_programs = False
        try:
            from ttmem._signals import raised_by_a_handler

            is_programs = raised_by_a_handler(failure)
        except Exception:  # noqa: BLE001, S110 - must not replace the program's exception
            pass
        if is_programs:
            raise


def without_ours(error: BaseException) -> None:
    """Removes our frames from the tracebacks of an exception and of its causes. Never raises.

    The innermost frames stay if they are ours: then ttmem itself raised the exception.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            # The exception may be of any class.
            with contextlib.suppress(Exception):
                waiting += [cause_of(one), context_of(one)]
                _set_traceback(one, _of_program(one))
                waiting += _members(one)


def _members(error: BaseException) -> list[BaseException]:
    """Returns the exceptions of a group, which may be of the package `exceptiongroup`."""
    if all(base.__name__ != "BaseExceptionGroup" for base in type(error).__mro__):
        return []
    members = getattr(error, "exceptions", ())
    return [member for member in members if isinstance(member, BaseException)]


def _of_program(error: BaseException) -> TracebackType | None:
    """Returns the traceback without our frames; all of it if no other frame is in it."""
    whole = trace = traceback_of(error)
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    files = [entry.tb_frame.f_code.co_filename for entry in entries]
    first = 0
    if RUNNER in files:
        # Only here: the runner has loaded it, and another program may have a file of this name.
        import runpy

        first = len(files) - files[::-1].index(RUNNER)
        # `<frozen runpy>` since Python 3.11.
        while first < len(files) and files[first] == runpy.run_path.__code__.co_filename:
            first += 1
    end = len(files)
    while end > first and files[end - 1].startswith(OURS):
        end -= 1
    kept = [
        entry
        for at, entry in enumerate(entries)
        if at >= first and (at >= end or not files[at].startswith(OURS))
    ]
    if not kept:
        return None if issubclass(type(error), BEFORE_START) else whole
    for entry, following in zip(kept, [*kept[1:], None], strict=False):
        entry.tb_next = following
    return kept[0]


def cleaned(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """Returns a hook's traceback argument without our frames. Never raises."""
    # The program may call the hook with any arguments.
    with contextlib.suppress(Exception):
        is_own = trace is traceback_of(error)
        without_ours(error)
        if is_own:
            return traceback_of(error)
    return trace


def hide_runner() -> None:
    """Removes our frames when the exception that is about to end the program is printed."""
    hook: Callable[..., object] = sys.excepthook

    def without_runner(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        hook(kind, error, cleaned(error, trace))

    sys.excepthook = without_runner
