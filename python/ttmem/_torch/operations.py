"""Every operation, with shapes, time and effect: what PyTorch's profiler writes down, taken over.

Only the profiler sees composite operations and the memory that kernels use inside. It keeps everything in
memory until it is stopped, so it is stopped and started anew between forward passes and steps.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

from ttmem import _native

if TYPE_CHECKING:
    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# The profiler is stopped and started anew after so many seconds, when there is an opportunity.
SECONDS = 1.0

Row = tuple["int | None", str, int, int, int, "tuple[int, int] | None", "list[tuple[str, int, list[int]]]"]


class Operations:
    """Takes down what the profiler sees: the thread that opens it, and the backward passes of that."""

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._native = _native.Operations(mode)
        self._thread = 0
        self._began = 0.0
        self._is_on = False
        self._has_warned = False

    def open(self) -> None:
        """Begins."""
        self._thread = threading.get_ident()
        try:
            self._start()
        except RuntimeError as error:
            # Another profiler runs: there can be one.
            self._mode.warn(f"operations are not profiled: {error}")
            logger.warning("operations are not profiled: %s", error)

    def close(self) -> None:
        """Ends. Only the thread that began can take the last ones over."""
        if threading.get_ident() == self._thread:
            self._guarded_turn(starts_anew=False)
        elif self._is_on:
            self._mode.warn("the tracker was stopped in another thread: the last operations are not known")

    def abandon(self) -> None:
        """In a child after a fork: what the profiler has is the parent's."""
        self._is_on = False

    def sample(self) -> None:
        """It has no counters."""
        self.turn()

    def figures(self) -> dict[str, dict[str, int]]:
        """They are known when the recording is read."""
        return {}

    def turn(self) -> None:
        """Here is an opportunity to take over what there is."""
        if threading.get_ident() == self._thread and time.monotonic() >= self._began + SECONDS:
            self.drain()

    def drain(self) -> None:
        """Takes over what there is, and goes on."""
        if threading.get_ident() == self._thread:
            self._guarded_turn(starts_anew=True)

    def _guarded_turn(self, *, starts_anew: bool) -> None:
        if not self._is_on:
            return
        self._is_on = False
        self._look_for_others()
        try:
            results = torch._C._autograd._disable_profiler()
            self._native.take(rows_of(results.experimental_event_tree()))
            if starts_anew:
                self._start()
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _look_for_others(self) -> None:
        others = [thread.name for thread in threading.enumerate() if thread.ident != self._thread]
        # Those that Python has not started are of the autograd engine.
        others = [name for name in others if not name.startswith(("ttmem", "Dummy-"))]
        if others and not self._has_warned:
            self._has_warned = True
            self._mode.warn(
                "level ops sees the thread that started the tracker, and its backward passes; not what "
                f"others do: {', '.join(sorted(others))}"
            )

    def _start(self) -> None:
        # All threads at once would be possible, but then the profiler sees no memory.
        session: Any = profiler.profile(use_kineto=True, record_shapes=True, profile_memory=True)
        session._prepare_trace()
        session._start_trace()
        self._is_on = True
        self._began = time.monotonic()


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
            rows.append((inside, event.name, start, event.end_time_ns, thread, None, _tensors(fields.inputs)))
            inside = len(rows) - 1
        elif event.tag == allocation and fields.device.type == "cpu" and fields.ptr is not None:
            change = (fields.ptr, fields.alloc_size)
            rows.append((inside, event.name, start, start, thread, change, []))
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
