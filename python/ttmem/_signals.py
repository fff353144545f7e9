"""Signals: a program that is told to end saves its profile first. What it does about them itself stays."""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


class Ending:
    """Calls a function when the process is told to end (SIGTERM), and then does what would have been done.

    A program that has a handler of its own may go on.
    """

    def __init__(self, at_end: Callable[[], object], may_go_on: Callable[[], object]) -> None:
        """What is to be called when it ends, and what when it may go on."""
        self._at_end = at_end
        self._may_go_on = may_go_on
        self.before: Any = None
        self.is_open = False

    def open(self) -> None:
        """Begins. Only the main thread can: elsewhere, what is left of an ended program is its recording."""
        if threading.current_thread() is threading.main_thread():
            self.before = self._without_closed(signal.getsignal(signal.SIGTERM))
            # Not one that is ignored, nor one that was not made in Python and could not be put back.
            if self.before is not signal.SIG_IGN and self.before is not None:
                signal.signal(signal.SIGTERM, self._ended)
                self.is_open = True

    def close(self) -> None:
        """Ends: what was there before is there again, unless the program has put another there since."""
        here = threading.current_thread() is threading.main_thread()
        if self.is_open and here and signal.getsignal(signal.SIGTERM) == self._ended:
            signal.signal(signal.SIGTERM, self.before)
        self.is_open = False

    @staticmethod
    def _without_closed(handler: Any) -> Any:
        """What was there before those of ours that were closed in another thread, and are still there."""
        while isinstance(ending := getattr(handler, "__self__", None), Ending) and not ending.is_open:
            handler = ending.before
        return handler

    def _ended(self, number: int, frame: FrameType | None) -> None:
        before = self.before
        try:
            if callable(before):
                self._may_go_on()
            else:
                self._at_end()
        finally:
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)


def raised_by_a_handler(error: BaseException) -> bool:
    """Whether an error comes from a signal handler of the program's: those run in the midst of anything.

    A handler is told what it has interrupted, which is the frame that it was called from.
    """
    codes = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number)))}
    trace, before = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in codes or (before is not None and _is_told(frame, before)):
            return True
        trace, before = trace.tb_next, frame
    return False


def _is_told(frame: FrameType, of: FrameType) -> bool:
    """Whether a frame is among the arguments of a call."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is of or (type(value) is tuple and any(one is of for one in value)):
            return True
    return False


def _code_of(handler: Any) -> CodeType | None:
    """The code of a handler that is a function, a method, or a part of one. Not ours."""
    try:
        while isinstance(ending := getattr(handler, "__self__", None), Ending):
            handler = ending.before
        while isinstance(handler, functools.partial):
            handler = handler.func
        return getattr(handler, "__code__", None)
    except Exception:  # noqa: BLE001 - an odd one is asked for nothing
        return None
