"""Records the exception that ends the program."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from ttmem._frames import cleaned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

MAX_TEXT = 2000
"""Longer messages are cut: they may contain a printed tensor."""
MAX_CHAIN = 64
OUT_OF_MEMORY = "OutOfMemoryError"
"""PyTorch's exception for all accelerators."""


class Uncaught:
    """Records an uncaught exception, then calls the previous `sys.excepthook`.

    Python does not call the hook for `SystemExit`, which is not a failure.
    """

    def __init__(self, note: Callable[[str, list[str]], None], libraries: Sequence[str]) -> None:
        """`note` gets the exception with its location, and the messages of its chain of causes."""
        self._note = note
        self._libraries = tuple(libraries)
        self._before: Hook = sys.excepthook
        self._is_open = False

    def open(self) -> None:
        self._before = sys.excepthook
        sys.excepthook = self._raised
        self._is_open = True

    def close(self) -> None:
        """Restores the previous hook, unless the program has replaced ours."""
        self._is_open = False
        if sys.excepthook == self._raised:
            sys.excepthook = self._before

    def _raised(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        is_noted = self._is_open and not hasattr(sys, "ps1")
        # `ps1`: an interactive session, which continues after an exception.
        if is_noted:
            # An error here must not hide the program's own.
            with contextlib.suppress(Exception):
                self._note(described(error, trace, self._libraries), messages(error))
        self._before(kind, error, cleaned(error, trace))
        if is_noted and kind.__name__ == OUT_OF_MEMORY:
            with contextlib.suppress(Exception):
                _print_holders()


def described(error: BaseException, trace: TracebackType | None, libraries: Sequence[str]) -> str:
    """Returns the exception as Python prints it, and the innermost line of the program's own code."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    place = _place(trace, tuple(libraries))
    return f"{text} ({place})" if place else text


def messages(error: BaseException) -> list[str]:
    """Returns the messages of an exception and of its causes."""
    found: list[str] = []
    at: BaseException | None = error
    while at is not None and len(found) < MAX_CHAIN:
        found.append(str(at))
        at = at.__cause__ or at.__context__
    return found


def _print_holders() -> None:
    """Prints what keeps the memory of accelerators alive, after the traceback."""
    from ttmem._torch.holders import holders, holders_text

    found = [one for one in holders() if any(device != "cpu" for device in one.devices)]
    if found and sys.stderr is not None:
        print(f"\nttmem: tensors are kept alive by:\n{holders_text(found)}", file=sys.stderr)  # noqa: T201


def _place(trace: TracebackType | None, libraries: tuple[str, ...]) -> str | None:
    """Returns `FILE:LINE in FUNCTION` in the program, or in a library if no frame is the program's."""
    place = outer = None
    for frame, line in traceback.walk_tb(trace):
        code = frame.f_code
        here = f"{_short(code.co_filename)}:{line} in {code.co_name}"
        outer = here
        if not code.co_filename.startswith((*libraries, "<frozen ")):
            place = here
    return place or outer


def _short(file: str) -> str:
    """Returns a path relative to the working directory, if the file is inside it."""
    try:
        here = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if here.startswith("..") else here
