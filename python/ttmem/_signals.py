"""Saves the profile on SIGTERM, without changing how the program handles the signal."""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from ttmem._frames import leave

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


class Ending:
    """Calls a function on SIGTERM, then runs the previous handler.

    A program with its own handler may continue: then `may_go_on` is called instead of `at_end`.
    """

    def __init__(self, at_end: Callable[[], object], may_go_on: Callable[[], object]) -> None:
        self._at_end = at_end
        self._may_go_on = may_go_on
        self.before: Any = None
        self.is_open = False

    def open(self) -> None:
        """Installs the handler, in the main thread only. Without it, SIGTERM leaves only the recording."""
        if threading.current_thread() is threading.main_thread():
            self.before = self._without_closed(signal.getsignal(signal.SIGTERM))
            # Leave an ignored signal alone, and a handler installed from C, which could not be restored.
            if self.before is not signal.SIG_IGN and self.before is not None:
                signal.signal(signal.SIGTERM, self._ended)
                self.is_open = True

    def close(self) -> None:
        """Restores the previous handler, unless the program has replaced ours."""
        here = threading.current_thread() is threading.main_thread()
        if self.is_open and here and signal.getsignal(signal.SIGTERM) == self._ended:
            signal.signal(signal.SIGTERM, self.before)
        self.is_open = False

    @staticmethod
    def _without_closed(handler: Any) -> Any:
        """Skips our own handlers that were closed in another thread, where they could not be removed."""
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
                try:
                    before(number, frame)
                except BaseException as error:
                    leave(error)
                    raise
            else:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)


def raised_by_a_handler(error: BaseException) -> bool:
    """Whether one of the program's signal handlers raised an error; they may run in the middle of our code.

    A handler is recognized by its code, or by its argument: the frame it interrupted, which is its caller.
    """
    codes = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number)))}
    trace, before = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in codes or (before is not None and _gets_frame(frame, before)):
            return True
        trace, before = trace.tb_next, frame
    return False


def _gets_frame(frame: FrameType, of: FrameType) -> bool:
    """Whether the call of `frame` has the frame `of` among its arguments."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is of or (type(value) is tuple and any(one is of for one in value)):
            return True
    return False


def _code_of(handler: Any) -> CodeType | None:
    """Returns the code of a handler: a function, method or `partial`; for ours, that of the previous one."""
    try:
        while isinstance(ending := getattr(handler, "__self__", None), Ending):
            handler = ending.before
        while isinstance(handler, functools.partial):
            handler = handler.func
        return getattr(handler, "__code__", None)
    except Exception:  # noqa: BLE001 - a handler may be any object
        return None
