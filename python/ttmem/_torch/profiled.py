"""What PyTorch's profiler says of operations: composite ones and the time of devices are only known there."""

from __future__ import annotations

import inspect
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# What PyTorch's profiler calls the time that a dispatch mode takes for an operation, which is inside.
MODE = "PythonDispatchMode"


@contextmanager
def profiled(mode: Mode) -> Iterator[None]:
    """Takes down what every operation inside costs, also when the block ends by an exception."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    # There is one cycle. Versions that can keep the events of several warn that they do not.
    keeps = "acc_events" in inspect.signature(profile.__init__).parameters
    options: dict[str, Any] = {"acc_events": True} if keeps else {}
    profiler = profile(activities=activities, record_shapes=True, profile_memory=True, **options)
    try:
        profiler.__enter__()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        # Another profiler runs: there can be one.
        logger.warning("operations are not profiled: %s", error)
        mode.warn(f"operations were not profiled: {error}")
        yield
        return
    try:
        yield
    finally:
        profiler.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        try:
            take_down(mode, profiler)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            mode.failed(error)


def take_down(mode: Mode, profiler: Any) -> None:
    """Takes the totals of a profiler down, for each operation and shapes of its arguments."""
    has_device = ProfilerActivity.CUDA in profiler.activities
    events = profiler.events()
    # The profiler is ours. An operation that a dispatch mode was called for comes twice: when it reaches the
    # mode, and, inside of that, when the mode calls it.
    events[:] = [event for event in events if not _is_called_by_a_mode(event)]
    for row in profiler.key_averages(group_by_input_shape=True):
        # Others are the profiler's own: `[memory]`, `ProfilerStep`, the runtime of the device.
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
    # Some reach the mode from a range of their own without a namespace: `detach` in `aten::detach`.
    return _base(mode.cpu_parent.name) == _base(event.name)


def _base(name: str) -> str:
    return name.rpartition("::")[2]
