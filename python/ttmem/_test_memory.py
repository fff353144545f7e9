"""Measures the memory of one test, for the pytest plugin.

PyTorch is measured by the memory tracker: tensors by its hooks, CUDA and XPU by the allocator's counters and
history. ttnn is measured by graph captures, as `MemoryUsageTracker` does.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ttmem._torch.mode import Mode
    from ttmem.tracker import MemoryTracker
    from ttmem.usage import _Captures

TTNN = "ttnn"
BEGIN, END = "test begins", "test ends"
"""Checkpoints in the recording of a test."""
WORKSPACE = "workspace"
"""The class of memory that libraries such as cuBLAS allocate once per process and keep."""
NOT_TRACKED = "(allocation not tracked)"
"""The operation of tensors that were allocated before the tracker started."""


class NotMeasured(Exception):
    """The memory of a test cannot be measured."""


class DeviceUsage(NamedTuple):
    """Memory use of a test on one device, in bytes."""

    device: str
    peak: int
    """Peak above the memory in use when the test began."""
    total: int
    """Peak including the memory in use when the test began, as far as it is known."""
    growth: int | None
    """Memory in use after the test minus before; None if the test failed."""


class Row(NamedTuple):
    """A live tensor."""

    size: int
    class_: str
    name: str | None
    op: str | None
    line: str | None
    module: str | None
    is_older: bool
    """Whether it was allocated before the test."""


class Segments:
    """The memory use of tracked tensors since the test began.

    `MemoryUsageTracker` reuses the tracker's phases, so a test that uses it also ends them.
    """

    def __init__(self, mode: Mode) -> None:
        self.peaks: dict[str, int] = {}
        self.changes: dict[str, int] = {}
        self._mode = mode
        self._next: Callable[[], list[tuple[str, int, int, int]]] = mode.next_phase
        self._next()
        mode.next_phase = self.next  # type: ignore[method-assign]

    def next(self) -> list[tuple[str, int, int, int]]:
        """Ends a phase; returns its figures by device."""
        found = self._next()
        for device, peak, allocated, freed in found:
            start = self.changes.get(device, 0)
            self.peaks[device] = max(self.peaks.get(device, 0), start + peak)
            self.changes[device] = start + allocated - freed
        return found

    def close(self) -> None:
        """Restores the mode."""
        self._mode.__dict__.pop("next_phase", None)


class TorchMemory:
    """The memory of a test that uses PyTorch."""

    def __init__(self, folder: str) -> None:
        """`folder` is where the recording goes."""
        self.usages: list[DeviceUsage] = []
        self.is_pending = False
        self.tracks_cpu = True
        self._folder = folder
        self._counters: dict[str, int] = {}
        self.tracker: MemoryTracker

    def begin(self, fixtures: Iterable[object]) -> None:
        """Starts the tracker. `fixtures` are the test's fixtures: their models are known from the start."""
        import torch

        from ttmem import tracker as trackers

        running = trackers.get_memory_tracker()
        if running.recording is not None:
            msg = (
                f"another memory tracker is running and writes {running.recording}; "
                "stop it before the test, or run pytest without it"
            )
            raise NotMeasured(msg)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            # Garbage of earlier tests would be freed during this one and lower its figures.
            gc.collect()
        tracker = trackers.initialize_memory_tracker(self._folder)
        mode = tracker._mode
        if mode is None:
            msg = "the memory tracker did not start"
            raise NotMeasured(msg)
        self._mode, self._segments, self.tracker = mode, Segments(mode), tracker
        for value in fixtures:
            if isinstance(value, torch.nn.Module):
                tracker.track_model_with_hooks(value)
        self._counters = self._read_counters()
        tracker.checkpoint(BEGIN)

    @property
    def recording(self) -> str:
        """Path of the recording."""
        return self.tracker.recording or ""

    def now(self) -> list[DeviceUsage]:
        """Returns the memory use so far. On CUDA and XPU, this reads the allocator's history."""
        self._check()
        self._segments.next()
        self.tracks_cpu = self._mode.sees_operations
        counters = self._read_counters()
        if counters:
            self.tracker.save()
        return self._usages(counters, with_growth=True)

    def end_call(self, *, passed: bool, may_shrink: bool) -> None:
        """Measures the test after its call.

        If fixtures may free some of its memory (`may_shrink`), the tracker continues until `end`.
        """
        self._check()
        self._segments.next()
        if passed and self._has_grown(self._read_counters()):
            gc.collect()
            self._segments.next()
        counters = self._read_counters()
        self.tracks_cpu = self._mode.sees_operations
        self.is_pending = passed and may_shrink and self._has_grown(counters)
        if counters:
            # Reads the history, so that the checkpoint comes after it.
            self.tracker.save()
        self.tracker.checkpoint(END)
        self.usages = self._usages(counters, with_growth=passed)
        if self.is_pending:
            self._mode.flush()
        else:
            self._stop()
            self.usages = [
                self._lowered(usage) if usage.device in counters else usage for usage in self.usages
            ]

    def end(self) -> None:
        """Measures the growth again, after the fixtures of the test were torn down."""
        if not self.is_pending:
            return
        self.is_pending = False
        gc.collect()
        self._stop()
        self.usages = [self._lowered(usage) for usage in self.usages]

    def peak_rows(self, device: str) -> list[Row]:
        """Returns the tensors that were live at the peak."""
        rank = _rank(self.recording)
        return _rows(rank["peaks"].get(device), _first_step(rank))

    def growth_rows(self, device: str) -> list[Row]:
        """Returns the tensors of the test that are still live."""
        return [row for row, is_gone in self._at_end(device) if not is_gone]

    def close(self) -> None:
        """Ends a measurement that failed."""
        if hasattr(self, "tracker"):
            self._stop()

    def _check(self) -> None:
        from ttmem.tracker import get_memory_tracker

        if get_memory_tracker() is not self.tracker or self.tracker._mode is not self._mode:
            msg = (
                "the test started or stopped a memory tracker, which ended the measurement; "
                "use the fixture device_memory instead (device_memory.tracker is the tracker of the test)"
            )
            raise NotMeasured(msg)

    def _stop(self) -> None:
        from ttmem.tracker import get_memory_tracker, stop_memory_tracker

        self._segments.close()
        if get_memory_tracker() is self.tracker:
            stop_memory_tracker()

    def _read_counters(self) -> dict[str, int]:
        """Returns the allocated memory of devices whose allocator counts it."""
        return {
            device: figures["allocated"]
            for allocator in self.tracker._allocators
            for device, figures in allocator.figures().items()
            if "peak" in figures
        }

    def _has_grown(self, counters: dict[str, int]) -> bool:
        return any(now > self._counters.get(device, 0) for device, now in counters.items()) or any(
            change > 0 for change in self._segments.changes.values()
        )

    def _usages(self, counters: dict[str, int], *, with_growth: bool) -> list[DeviceUsage]:
        totals = {name: peak for name, _, peak, *_ in self._mode.figures()}
        found = []
        for device, change in self._segments.changes.items():
            if device not in counters and _is_device(device) and (device != "cpu" or self.tracks_cpu):
                peak = self._segments.peaks[device]
                total = max(totals.get(device, 0), peak)
                found.append(DeviceUsage(device, peak, total, change if with_growth else None))
        if counters:
            pools = _rank(self.recording)["pools"]
            for device, now in counters.items():
                start = self._counters.get(device, 0)
                total = max(pools.get(device, {}).get("peak_per_bank") or 0, now, start)
                found.append(DeviceUsage(device, total - start, total, now - start if with_growth else None))
        return found

    def _lowered(self, usage: DeviceUsage) -> DeviceUsage:
        """Returns the usage without growth that is not the test's."""
        if not usage.growth or usage.growth < 0:
            return usage
        gone = sum(row.size for row, is_gone in self._at_end(usage.device) if is_gone)
        return usage._replace(growth=usage.growth - gone)

    def _at_end(self, device: str) -> list[tuple[Row, bool]]:
        """Returns the tensors of the test that were live after its call.

        Each has whether it does not count as growth: it was freed later, or it is a workspace.
        """
        rank = _rank(self.recording)
        ends = [point["step"] for point in rank.get("checkpoints", []) if point["name"] == END]
        if not ends:
            return []
        pool = _rank(self.recording, at=ends[-1])["at"]["pools"].get(device)
        live = (pool or {}).get("live") or []
        rows = zip(_rows(pool, _first_step(rank)), live, strict=True)
        return [
            (row, tensor["dies_step"] is not None or row.class_ == WORKSPACE)
            for row, tensor in rows
            if not row.is_older
        ]


class GraphMemory:
    """The memory of a test that uses ttnn: the DRAM of all devices."""

    is_pending = False
    tracks_cpu = True

    def __init__(self, folder: str) -> None:
        """`folder` is where captures go."""
        self.usages: list[DeviceUsage] = []
        self._folder = folder
        self._graphs: list[Any] = []
        self._captures: _Captures

    def begin(self, fixtures: Iterable[object]) -> None:
        """Starts a graph capture."""
        del fixtures
        from ttmem._ttnn import GraphCaptures
        from ttmem.usage import _Captures

        # Not the process's own `MemoryUsageTracker`, which the test may use: graph captures nest.
        self._captures = _Captures()
        source = GraphCaptures(estimated=False, kept=self._graphs)
        self._captures.begin(estimated=False, source=source)

    @property
    def recording(self) -> str:
        """The capture with the peak, written to a file; `""` if there is none."""
        best, highest, held = None, -1, 0
        for (_, (peak, allocated, freed), _), graph in zip(
            self._captures.usage.phases(), self._graphs, strict=False
        ):
            if held + peak > highest:
                best, highest = graph, held + peak
            held += allocated - freed
        if best is None:
            return ""
        path = os.path.join(self._folder, "ttnn_graph.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(best if isinstance(best, str) else json.dumps(best))
        return path

    def now(self) -> list[DeviceUsage]:
        """Returns the memory use so far."""
        self._captures.snapshot("part")
        return self._usages(with_growth=True)

    def end_call(self, *, passed: bool, may_shrink: bool) -> None:
        """Ends the capture: fixtures may close the device."""
        del may_shrink
        if passed:
            gc.collect()
        self._captures.end("end")
        self.usages = self._usages(with_growth=passed)

    def end(self) -> None:
        """Does nothing: the capture ended with the call."""

    def close(self) -> None:
        """Ends a measurement that failed."""
        if self._captures.usage.is_capturing:
            self._captures.clear()

    def peak_rows(self, device: str) -> list[Row]:
        """Returns the tensors that were live at the peak."""
        del device
        path = self.recording
        return _rows(_rank(path)["peaks"].get("DRAM"), 0) if path else []

    def growth_rows(self, device: str) -> list[Row]:
        """Returns the tensors that are live at the end of the capture with the peak."""
        del device
        path = self.recording
        if not path:
            return []
        last = _rank(path)["operations"]["total"]
        return _rows(_rank(path, at=last)["at"]["pools"].get("DRAM"), 0)

    def _usages(self, *, with_growth: bool) -> list[DeviceUsage]:
        highest, held = 0, 0
        for _, (peak, allocated, freed), _ in self._captures.usage.phases():
            highest = max(highest, held + peak)
            held += allocated - freed
        return [DeviceUsage(TTNN, highest, highest, held if with_growth else None)]


Memory = TorchMemory | GraphMemory


def memories(folder: str) -> list[Memory]:
    """Returns what can be measured in this process."""
    found: list[Memory] = []
    if sys.modules.get(TTNN) is not None:
        found.append(GraphMemory(folder))
    if _is_installed("torch"):
        found.append(TorchMemory(folder))
    if not found:
        msg = "device memory is measured with PyTorch or ttnn: neither is installed; run `pip install torch`"
        raise NotMeasured(msg)
    return found


def _is_installed(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _is_device(pool: str) -> bool:
    return pool != "host" and not pool.endswith(" driver")


def _rank(path: str, at: int | None = None) -> dict[str, Any]:
    from ttmem._native import load

    rank: dict[str, Any] = load(path).summary(at=at)["ranks"][0]
    return rank


def _first_step(rank: dict[str, Any]) -> int:
    steps = [point["step"] for point in rank.get("checkpoints", []) if point["name"] == BEGIN]
    return int(steps[0]) if steps else 0


def _rows(moment: dict[str, Any] | None, first_step: int) -> list[Row]:
    return [_row(tensor, first_step) for tensor in (moment or {}).get("live") or []]


def _row(tensor: dict[str, Any], first_step: int) -> Row:
    born = tensor["born_step"]
    return Row(
        tensor["padded_bytes"] or tensor["per_bank"] or 0,
        tensor["class"],
        tensor["name"],
        tensor["op"],
        tensor["loc"],
        tensor.get("made_in"),
        tensor["op"] == NOT_TRACKED or born is None or born < first_step,
    )
