"""Records every operation, with shapes, time and memory, from PyTorch's profiler.

Only the profiler reports composite operations and the memory that kernels use internally. It keeps all events
in memory until it is stopped, so it is restarted regularly. It must not be stopped while one of its ranges is
open (`record_function`, an operation that has called Python): the end of the range would be written to freed
memory. `_is_safe` checks for open ranges.
"""

from __future__ import annotations

import contextlib
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
from ttmem._frames import leave
from ttmem._torch.threads import names_of_others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

LOG_LEVEL = "KINETO_LOG_LEVEL"
# The profiler is restarted at the first opportunity after this time.
SECONDS = 1.0
# Without an opportunity for this long, a warning is recorded.
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
# PyTorch code that opens no ranges around its callees, or only ranges that `_ranges` counts.
_HARMLESS = tuple(
    os.path.join(_TORCH, *place)
    for place in (("nn", "modules"), ("utils", "data"), ("profiler",), ("autograd", "profiler.py"))
)


class Operations:
    """Records the profiler's events: those of the thread that opens it, and of its backward passes."""

    has_history = True

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._native = _native.Operations(mode)
        self._thread = 0
        self._began = 0.0
        self._is_on = False
        self._warned: set[str] = set()
        # Number of open `record_function` ranges in this thread.
        self._ranges = 0
        self._patched: list[tuple[type, str, Callable[..., Any], Callable[..., Any]]] = []

    def open(self) -> None:
        self._thread = threading.get_ident()
        if torch._C._autograd._profiler_enabled():
            self._warn(
                "operations and CPU tensors are not tracked: the program already runs PyTorch's profiler, "
                "and only one can run at a time"
            )
            return
        self._patch(profiler.record_function, "__enter__", self._range_opens)
        self._patch(profiler.record_function, "__exit__", self._range_closes)
        self._patch(profiler.profile, "_prepare_trace", self._another_begins)
        self._start()

    def close(self) -> None:
        """Stops profiling. Only the thread that opened it can record the last events."""
        for owner, name, ours, theirs in self._patched:
            if getattr(owner, name) is ours:
                setattr(owner, name, theirs)
        self._patched = []
        if not self._is_on:
            return
        if threading.get_ident() != self._thread:
            self._warn(
                "the tracker was stopped in another thread: the last operations are not recorded, and "
                "PyTorch's profiler keeps running; stop the tracker in the thread that started it"
            )
        elif not self._is_safe():
            self._warn(
                "the tracker was stopped inside an operation: the last operations are not recorded, and "
                "PyTorch's profiler keeps running"
            )
        else:
            self._stop_and_record()
        self._is_on = False

    def abandon(self) -> None:
        """Stops in a forked child: the parent's events were recorded before the fork."""
        self._is_on = False

    def pause(self) -> bool:
        """Stops if that is safe here. Needed before a fork: the child would wait for the profiler forever."""
        if not self._is_on or threading.get_ident() != self._thread or not self._is_safe():
            return False
        self._stop_and_record()
        return True

    def resume(self) -> None:
        self._guarded(self._start)

    def sample(self) -> None:
        """Uses the opportunity to record events; there are no counters to read."""
        self.turn()

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns nothing: the numbers are only known when the recording is read."""
        return {}

    def turn(self) -> None:
        """Records the events so far if it is time and safe here."""
        if not self._is_on or time.monotonic() < self._began + SECONDS:
            return
        if self.pause():
            self.resume()
        elif time.monotonic() >= self._began + SECONDS_WITHOUT:
            self._warn(
                "PyTorch's profiler could not be drained for a minute, so its memory keeps growing: call "
                "memory_checkpoint() regularly in the thread that started the tracker"
            )

    def drain(self) -> None:
        """Records the events so far, if that is safe here, and continues."""
        if self.pause():
            self.resume()

    def _is_safe(self) -> bool:
        """Whether no profiler range is open in this thread, as far as can be determined."""
        if self._ranges > 0 or self._mode.backward is not None:
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_TORCH) and not file.startswith(_HARMLESS):
                return False
            frame = frame.f_back
        return True

    def _stop_and_record(self) -> None:
        self._is_on = False
        self._look_for_others()

        def record() -> None:
            results = torch._C._autograd._disable_profiler()
            self._native.record(rows_of(results.experimental_event_tree()))

        self._guarded(record)

    def _start(self) -> None:
        # Profiling all threads is possible, but then the profiler reports no memory.
        session: Any = profiler.profile(use_kineto=True, record_shapes=True, profile_memory=True)
        session._ttmem = True
        with silent_kineto():
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
        # `Dummy-` threads were not started by Python: they belong to the autograd engine.
        others = [name for name in names_of_others(self._thread) if not name.startswith(("ttmem", "Dummy-"))]
        if others and "others" not in self._warned:
            self._warned.add("others")
            self._mode.warn(
                "level ops only tracks the thread that started the tracker and its backward passes; CPU "
                f"tensors of other threads are not counted: {', '.join(sorted(others))}"
            )

    def _patch(self, owner: type, name: str, before: Callable[[object], None]) -> None:
        """Calls `before` before each call of a method."""
        theirs = getattr(owner, name)

        @functools.wraps(theirs)
        def ours(this: object, *args: Any, **kwargs: Any) -> Any:
            before(this)
            try:
                return theirs(this, *args, **kwargs)
            except BaseException as error:
                leave(error)
                raise

        setattr(owner, name, ours)
        self._patched.append((owner, name, ours, theirs))

    def _range_opens(self, _: object) -> None:
        if threading.get_ident() == self._thread:
            self._ranges += 1

    def _range_closes(self, _: object) -> None:
        # The range may have been opened before the tracker started.
        if threading.get_ident() == self._thread and self._ranges > 0:
            self._ranges -= 1

    def _another_begins(self, session: object) -> None:
        """Makes way for a profiler that the program starts: only one can run."""
        if getattr(session, "_ttmem", False) or not self._is_on:
            return
        if not self.pause():
            self._is_on = False
        self._warn("the program started its own profiler: later operations and CPU tensors are not tracked")


@contextlib.contextmanager
def silent_kineto() -> Iterator[None]:
    """Silences Kineto, the library that PyTorch's profiler uses, unless the user has set its log level.

    Otherwise it logs every start and stop to standard error, and an error on machines without a GPU. It reads
    the variable once per process, when its first profiler starts.
    """
    if LOG_LEVEL in os.environ:
        yield
        return
    os.environ[LOG_LEVEL] = "99"
    try:
        yield
    finally:
        # Child processes of the program must not inherit it.
        os.environ.pop(LOG_LEVEL, None)


def rows_of(tree: list[Any]) -> list[Row]:
    """Returns the operations and memory changes of the profiler's tree; parents come before children."""
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
    """Returns the argument shapes as PyTorch's profiler lists them, as JSON: `[]` unless a single tensor."""
    return str([[*getattr(value, "sizes", ())] for value in inputs]) if inputs else None
