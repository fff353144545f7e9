"""Every operation, with shapes, time and effect: what PyTorch's profiler writes down, taken over.

Only the profiler sees composite operations and the memory that kernels use inside. It keeps everything in
memory until it is stopped, so it is stopped and started anew from time to time. That must not be done while a
range of it is open (`record_function`, an operation that has called Python): the end of such a range would be
written into memory that is gone. `_is_safe` says when none is.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

from ttmem import _native
from ttmem._torch.threads import names_of_others

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# The profiler is stopped and started anew after so many seconds, when there is an opportunity.
SECONDS = 1.0
# Where there was none for so long, people should know.
SECONDS_WITHOUT = 60.0

Row = tuple[
    "int | None",
    str,
    int,
    int,
    int,
    "tuple[int, int] | None",
    "list[tuple[str, int, list[int]]]",
    "str | None",
]

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
# Code of PyTorch's that opens no ranges around what it calls, or only such as are counted.
_HARMLESS = tuple(
    os.path.join(_TORCH, *place)
    for place in (("nn", "modules"), ("utils", "data"), ("profiler",), ("autograd", "profiler.py"))
)


class Operations:
    """Takes down what the profiler sees: the thread that opens it, and the backward passes of that."""

    has_history = True

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._native = _native.Operations(mode)
        self._thread = 0
        self._began = 0.0
        self._is_on = False
        self._warned: set[str] = set()
        # How many ranges that Python has opened are open, in this thread.
        self._ranges = 0
        self._patched: list[tuple[type, str, Callable[..., Any], Callable[..., Any]]] = []

    def open(self) -> None:
        """Begins."""
        self._thread = threading.get_ident()
        if torch._C._autograd._profiler_enabled():
            self._warn(
                "operations are not profiled: the program has a profiler of its own, and there can be one"
            )
            return
        # Newer ones say on standard error that they start and stop. What is set is read once, the first time.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._patch(profiler.record_function, "__enter__", self._range_opens)
        self._patch(profiler.record_function, "__exit__", self._range_closes)
        self._patch(profiler.profile, "_prepare_trace", self._another_begins)
        self._start()

    def close(self) -> None:
        """Ends. Only the thread that began can take the last ones over."""
        for owner, name, ours, theirs in self._patched:
            if getattr(owner, name) is ours:
                setattr(owner, name, theirs)
        self._patched = []
        if not self._is_on:
            return
        if threading.get_ident() != self._thread:
            self._warn(
                "the tracker was stopped in another thread: PyTorch's profiler goes on in the first one"
            )
        elif not self._is_safe():
            self._warn("the tracker was stopped inside of an operation: PyTorch's profiler goes on")
        else:
            self._take_over()
        self._is_on = False

    def abandon(self) -> None:
        """In a child after a fork: what the profiler had was taken over before."""
        self._is_on = False

    def pause(self) -> bool:
        """Stops, if that is possible here: before a fork, a child of which would wait for it forever."""
        if not self._is_on or threading.get_ident() != self._thread or not self._is_safe():
            return False
        self._take_over()
        return True

    def resume(self) -> None:
        """Goes on."""
        self._guarded(self._start)

    def sample(self) -> None:
        """It has no counters."""
        self.turn()

    def figures(self) -> dict[str, dict[str, int]]:
        """They are known when the recording is read."""
        return {}

    def turn(self) -> None:
        """Here may be an opportunity to take over what there is."""
        if not self._is_on or time.monotonic() < self._began + SECONDS:
            return
        if self.pause():
            self.resume()
        elif time.monotonic() >= self._began + SECONDS_WITHOUT:
            self._warn(
                "PyTorch's profiler could not be emptied for a minute, and needs ever more memory: call "
                "memory_checkpoint() now and then, in the thread that started the tracker"
            )

    def drain(self) -> None:
        """Takes over what there is, and goes on."""
        if self.pause():
            self.resume()

    def _is_safe(self) -> bool:
        """Whether no range of the profiler is open in this thread, as far as that can be known."""
        if self._ranges > 0 or self._mode.backward is not None:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_TORCH) and not file.startswith(_HARMLESS):
                return False
            frame = frame.f_back
        return True

    def _take_over(self) -> None:
        self._is_on = False
        self._look_for_others()

        def take() -> None:
            results = torch._C._autograd._disable_profiler()
            self._native.take(rows_of(results.experimental_event_tree()))

        self._guarded(take)

    def _start(self) -> None:
        # All threads at once would be possible, but then the profiler sees no memory.
        session: Any = profiler.profile(use_kineto=True, record_shapes=True, profile_memory=True)
        session._ttmem = True
        session._prepare_trace()
        session._start_trace()
        self._is_on = True
        self._began = time.monotonic()

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._mode.warn(message)
            logger.warning("%s", message)

    def _look_for_others(self) -> None:
        # Those that Python has not started are of the autograd engine.
        others = [name for name in names_of_others(self._thread) if not name.startswith(("ttmem", "Dummy-"))]
        if others and "others" not in self._warned:
            self._warned.add("others")
            self._mode.warn(
                "level ops sees the thread that started the tracker, and its backward passes; not what "
                f"others do: {', '.join(sorted(others))}"
            )

    def _patch(self, owner: type, name: str, before: Callable[[object], None]) -> None:
        """Has something be told before a method is called."""
        theirs = getattr(owner, name)

        @functools.wraps(theirs)
        def ours(this: object, *args: Any, **kwargs: Any) -> Any:
            before(this)
            return theirs(this, *args, **kwargs)

        setattr(owner, name, ours)
        self._patched.append((owner, name, ours, theirs))

    def _range_opens(self, _: object) -> None:
        if threading.get_ident() == self._thread:
            self._ranges += 1

    def _range_closes(self, _: object) -> None:
        # One may have been opened before.
        if threading.get_ident() == self._thread and self._ranges > 0:
            self._ranges -= 1

    def _another_begins(self, session: object) -> None:
        """The program starts a profiler of its own: there can be one, and it is the program's."""
        if getattr(session, "_ttmem", False) or not self._is_on:
            return
        if not self.pause():
            self._is_on = False
        self._warn("from when the program started a profiler of its own, operations are not profiled")


def rows_of(tree: list[Any]) -> list[Row]:
    """The operations and changes of memory of the profiler's tree; what is inside of another comes later."""
    rows: list[Row] = []
    waiting: list[tuple[Any, int | None]] = [(event, None) for event in reversed(tree)]
    operation, allocation = (
        torch._C._profiler._EventType.TorchOp,
        torch._C._profiler._EventType.Allocation,
    )
    while waiting:
        event, inside = waiting.pop()
        fields = event.extra_fields
        start, thread = event.start_time_ns, event.start_tid
        if event.tag == operation:
            tensors, shapes = _tensors(fields.inputs), _shapes(fields.inputs)
            rows.append((inside, event.name, start, event.end_time_ns, thread, None, tensors, shapes))
            inside = len(rows) - 1
        elif event.tag == allocation and fields.device.type == "cpu" and fields.ptr is not None:
            change = (fields.ptr, fields.alloc_size)
            rows.append((inside, event.name, start, start, thread, change, [], None))
        waiting += [(child, inside) for child in reversed(event.children)]
    return rows


def _tensors(inputs: list[Any]) -> list[tuple[str, int, list[int]]]:
    found: list[tuple[str, int, list[int]]] = []
    for value in inputs:
        if isinstance(value, list):
            found += _tensors(value)
        elif hasattr(value, "sizes"):
            found.append((str(value.dtype), value.dtype.itemsize, value.sizes))
    return found


def _shapes(inputs: list[Any]) -> str | None:
    """The shapes of arguments as PyTorch's profiler lists them, as JSON: empty for all but single tensors."""
    return str([[*getattr(value, "sizes", ())] for value in inputs]) if inputs else None
