"""A program that is told to end saves its profile first. What it does about signals itself stays."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Ending:
    """Calls a function when the process is told to end (SIGTERM), and then does what would have been done."""

    def __init__(self, at_end: Callable[[], object]) -> None:
        """What is to be called."""
        self._at_end = at_end
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
            self._at_end()
        finally:
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
