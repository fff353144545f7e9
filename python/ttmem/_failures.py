"""The exception that ends the program: it goes into the recording, and to whoever was told before."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

MAX_TEXT = 2000
"""A message may be as long as a tensor printed in full."""
MAX_CHAIN = 64


class Uncaught:
    """Notes the exception that nobody caught. What Python does about it stays as it is.

    `SystemExit` is no failure, and Python does not call the hook for it.
    """

    def __init__(self, note: Callable[[str, list[str]], None], libraries: Sequence[str]) -> None:
        """`note` gets the exception with its place, and the messages of those that led to it."""
        self._note = note
        self._libraries = tuple(libraries)
        self._before: Hook = sys.excepthook
        self._is_open = False

    def open(self) -> None:
        """Begins."""
        self._before = sys.excepthook
        sys.excepthook = self._raised
        self._is_open = True

    def close(self) -> None:
        """Ends: the hook is what it was, unless the program has put another there since."""
        self._is_open = False
        if sys.excepthook == self._raised:
            sys.excepthook = self._before

    def _raised(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # An interactive session goes on.
        if self._is_open and not hasattr(sys, "ps1"):
            # Whatever goes wrong here: the program's own error is what people must see.
            with contextlib.suppress(Exception):
                self._note(described(error, trace, self._libraries), messages(error))
        self._before(kind, error, trace)


def described(error: BaseException, trace: TracebackType | None, libraries: Sequence[str]) -> str:
    """The exception as Python prints it, and the innermost line of the program that it went through."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    place = _place(trace, tuple(libraries))
    return f"{text} ({place})" if place else text


def messages(error: BaseException) -> list[str]:
    """The messages of an exception, and of those that it was raised from."""
    found: list[str] = []
    at: BaseException | None = error
    while at is not None and len(found) < MAX_CHAIN:
        found.append(str(at))
        at = at.__cause__ or at.__context__
    return found


def _place(trace: TracebackType | None, libraries: tuple[str, ...]) -> str | None:
    """`FILE:LINE in FUNCTION`: of the program, or of a library where nothing else is there."""
    place = outer = None
    for frame, line in traceback.walk_tb(trace):
        code = frame.f_code
        here = f"{_short(code.co_filename)}:{line} in {code.co_name}"
        outer = here
        if not code.co_filename.startswith((*libraries, "<frozen ")):
            place = here
    return place or outer


def _short(file: str) -> str:
    """A file as people know it: from where the program runs."""
    try:
        here = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if here.startswith("..") else here
