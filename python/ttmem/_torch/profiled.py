"""Totals of operations from PyTorch's profiler, which also covers composite operations and device time."""

from __future__ import annotations

import inspect
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile

from ttmem._torch.operations import silent_kineto

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# The profiler's event for the time that a dispatch mode takes, with the operation inside.
MODE = "PythonDispatchMode"


@contextmanager
def profiled(mode: Mode) -> Iterator[None]:
    """Records the totals of every operation in the block, even if it ends with an exception."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    # Avoids a warning of newer versions, which would discard the events of earlier cycles; there is only one.
    keeps = "acc_events" in inspect.signature(profile.__init__).parameters
    options: dict[str, Any] = {"acc_events": True} if keeps else {}
    profiler = profile(activities=activities, record_shapes=True, profile_memory=True, **options)
    try:
        with silent_kineto():
            profiler.__enter__()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        # Another profiler is running, and only one can.
        logger.warning("operations are not profiled: %s", error)
        mode.warn(f"operations were not profiled: {error}")
        yield
        return
    try:
        yield
    finally:
        profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        try:
            record_totals(mode, profiler)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            mode.failed(error)


def record_totals(mode: Mode, profiler: Any) -> None:
    """Records a profiler's totals for each operation and its argument shapes."""
    has_device = ProfilerActivity.CUDA in profiler.activities
    events = profiler.events()
    # An operation under a dispatch mode is listed twice: when it reaches the mode, and inside that, when the
    # mode calls it. The profiler is ours, so its events may be changed.
    events[:] = [event for event in events if not _is_called_by_a_mode(event)]
    for row in profiler.key_averages(group_by_input_shape=True):
        # Skips the profiler's own events: `[memory]`, `ProfilerStep`, calls of the device runtime.
        if "::" not in row.key:
            continue
        mode.op_totals(
            row.key,
            row.count,
            round(row.cpu_time_total * 1000),
            round(row.device_time_total * 1000) if has_device else None,
            row.cpu_memory_usage,
            row.device_memory_usage if has_device else None,
            json.dumps(row.input_shapes) if row.input_shapes else None,
        )


def _is_called_by_a_mode(event: Any) -> bool:
    mode = event.cpu_parent
    if mode is None or mode.name != MODE or mode.cpu_parent is None:
        return False
    # Some operations have an inner range without a namespace: `detach` in `aten::detach`.
    return _base(mode.cpu_parent.name) == _base(event.name)


def _base(name: str) -> str:
    return name.rpartition("::")[2]
