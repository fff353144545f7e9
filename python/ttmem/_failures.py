"""Records the exception that ends the program."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from ttmem._frames import cause_of, cleaned, context_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from ttmem._torch.holders import Holder

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

MAX_TEXT = 2000
"""Longer messages are cut: they may contain a printed tensor."""
MAX_CHAIN = 64
OUT_OF_MEMORY = "OutOfMemoryError"
"""PyTorch's exception for all accelerators."""
CPU_ALLOCATOR = "DefaultCPUAllocator"
"""The CPU's allocator raises a `RuntimeError` whose message has its name."""


class Uncaught:
    """Records an uncaught exception, then calls the previous `sys.excepthook`.

    Python does not call the hook for `SystemExit`, which is not a failure.
    """

    def __init__(
        self,
        note: Callable[[str, list[str]], None],
        libraries: Sequence[str],
        find_holders: Callable[[TracebackType | None, bool], list[Holder]],
        failed: Callable[[Exception], object],
    ) -> None:
        """Sets what is called.

        Args:
            note: Gets the exception with its location, and the messages of its chain of causes.
            libraries: Folders with code that is not the user's.
            find_holders: Records what keeps tensors alive and returns it. Gets the traceback, and whether the
                result is printed; called once, if memory ran out.
            failed: Counts errors of our own code, which must not hide the program's.

        """
        self._note = note
        self._libraries = tuple(libraries)
        self._find_holders = find_holders
        self._failed = failed
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
            self._guarded(lambda: self._note(described(error, trace, self._libraries), messages(error)))
        self._before(kind, error, cleaned(error, trace))
        # After the traceback: the search takes time and memory.
        if is_noted:
            self._guarded(lambda: self._look_for_holders(error, trace))

    def _guarded(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - counted
            with contextlib.suppress(Exception):
                self._failed(error)

    def _look_for_holders(self, error: BaseException, trace: TracebackType | None) -> None:
        is_of_accelerator = any(type(one).__name__ == OUT_OF_MEMORY for one in _chain(error))
        if is_of_accelerator or any(CPU_ALLOCATOR in message for message in messages(error)):
            found = self._find_holders(trace, is_of_accelerator)
            if is_of_accelerator:
                _print_holders(found)


def described(error: BaseException, trace: TracebackType | None, libraries: Sequence[str]) -> str:
    """Returns the exception as Python prints it, and the innermost line of the program's own code."""
    text = _as_printed(error)
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    place = _place(trace, tuple(libraries))
    return encodable(f"{text} ({place})" if place else text)


def messages(error: BaseException) -> list[str]:
    """Returns the messages of an exception and of its causes."""
    return [_message(one) for one in _chain(error)]


def _as_printed(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(type(error), error)).strip()
    except Exception:  # noqa: BLE001 - the class of an exception or of its cause may override what is read
        return f"{type(error).__name__}: {_message(error)}"


def _message(error: BaseException) -> str:
    try:
        return encodable(str(error))
    except Exception:  # noqa: BLE001 - the class of the exception may override it
        return f"<unprintable {type(error).__name__} object>"


def encodable(text: str) -> str:
    """Replaces what UTF-8 cannot encode: a file name may have bytes that are not UTF-8."""
    return text.encode(errors="replace").decode()


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    for _ in range(MAX_CHAIN):
        if at is None:
            return
        yield at
        at = cause_of(at) or context_of(at)


def _print_holders(found: list[Holder]) -> None:
    """Prints what keeps the memory of accelerators alive, after the traceback."""
    from ttmem._torch.holders import holders_text

    shown = [one for one in found if any(device != "cpu" for device in one.devices)]
    if shown and sys.stderr is not None:
        print(f"\nttmem: tensors are kept alive by:\n{holders_text(shown)}", file=sys.stderr)  # noqa: T201


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
