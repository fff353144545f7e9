"""The allocators of devices: with a history (CUDA, XPU), or with counters that can only be polled (MPS).

A caching allocator writes down what it does, with the line of the program and a text that we pass to it:
which call runs. Reading that back is slow, so it is done in the end, when memory runs out, and when somebody
asks. In between, the program runs as fast as without.
"""

from __future__ import annotations

import functools
import logging
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch

from ttmem._native import History

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# How many entries the ring has at first and at most, and for how many seconds it should last.
FIRST, MOST, SECONDS = 200_000, 1_000_000, 60.0
# An allocation is three entries: it comes, it is given back, and no stream uses it any more.
ENTRIES = 3
# Programs that live with running out of memory do so often: no drain within this time after another.
SECONDS_BETWEEN_DRAINS = 1.0

# PyTorch has no way to take an observer off again: there is one, and it asks who wants to know.
_observed: dict[str, CachingAllocator | None] = {}


def _begin(waiting: weakref.ref[CachingAllocator]) -> None:
    allocator = waiting()
    if allocator is not None:
        allocator._begin()


class CachingAllocator:
    """The allocator of one kind of device, `cuda` or `xpu`: its counters and, if wanted, its history."""

    def __init__(self, mode: Mode, kind: str, *, with_history: bool) -> None:
        """Of which kind, for which watcher."""
        self._mode = mode
        self.kind = kind
        self._device: Any = getattr(torch, kind)
        self._memory: Any = self._device.memory
        self._wants_history = with_history and hasattr(self._memory, "_record_memory_history")
        self._history: History | None = None
        self._is_open = False
        self._is_ours = False
        self._entries = FIRST
        self._peaks: dict[int, int] = {}
        self._counted: tuple[float, int] | None = None
        self._ran_out = -SECONDS_BETWEEN_DRAINS
        self._has_warned = False
        self.at_start: Callable[[], object] | None = None

    @property
    def has_history(self) -> bool:
        """Whether the history is being written."""
        return self._history is not None

    def open(self) -> None:
        """Begins; where the program has not used the device yet, when it does. We never use it first."""
        self._is_open = True
        if self._device.is_initialized():
            self._begin()
        else:
            # It is never taken back: a tracker that has stopped by then is not kept alive by it.
            self._device._lazy_call(functools.partial(_begin, weakref.ref(self)))

    def close(self) -> None:
        """Ends: takes the rest down, and leaves the allocator as it was."""
        if not self._is_open:
            return
        self._is_open = False
        if _observed.get(self.kind) is self:
            _observed[self.kind] = None
        if self._history is None:
            return
        self._guarded(self._end)
        self._history = None

    def abandon(self) -> None:
        """In a child after a fork: all this is the parent's."""
        self._is_open, self._history = False, None
        if _observed.get(self.kind) is self:
            _observed[self.kind] = None

    def sample(self) -> None:
        """Takes the counters down."""
        if self._is_open and self._device.is_initialized():
            self._guarded(self._sample)

    def drain(self) -> None:
        """Takes down what the history has."""
        if self._history is not None:
            self._guarded(self._drain)

    def out_of_memory(self) -> None:
        """There was no memory left: what led there is in the recording before the program hears of it."""
        if time.monotonic() >= self._ran_out + SECONDS_BETWEEN_DRAINS:
            self._ran_out = time.monotonic()
            self.sample()
            self.drain()
            self._mode.snapshot("out of memory")
        self._mode.flush()

    def figures(self) -> dict[str, dict[str, int]]:
        """What each device has now, and the most that it had, by the allocator's own counters."""
        if not self._device.is_initialized():
            return {}
        return {
            f"{self.kind}:{index}": {**_figures(stats), "allocations": _allocations(stats)}
            for index, stats in self._stats()
        }

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _begin(self) -> None:
        if self._is_open:
            self._guarded(self._start)

    def _start(self) -> None:
        self._peaks = {index: _peak(stats) for index, stats in self._stats()}
        if not self._wants_history:
            return
        # Somebody else's history is theirs: it is read, and not changed.
        is_on = getattr(torch._C, f"_{self.kind}_isHistoryEnabled", None)
        self._is_ours = is_on is None or not is_on()
        if self._is_ours:
            self._record("all", self._entries)
        else:
            self._mode.warn(f"the program records the history of {self.kind} itself: its settings are kept")
        self._history = History(self._mode, self.kind)
        self._drain()
        self._mode.pass_calls_to(getattr(torch._C, f"_{self.kind}_setMemoryMetadata", None))
        self._observe()
        if self.at_start is not None:
            self.at_start()

    def _end(self) -> None:
        self._sample()
        self._drain()
        self._mode.pass_calls_to(None)
        forget = getattr(torch._C, f"_{self.kind}_setMemoryMetadata", None)
        if forget is not None:
            forget("")
        if self._is_ours:
            self._record(None, 1)

    def _record(self, enabled: str | None, entries: int) -> None:
        self._memory._record_memory_history(enabled, context="alloc", stacks="python", max_entries=entries)

    def _observe(self) -> None:
        attach = getattr(torch._C, f"_{self.kind}_attach_out_of_memory_observer", None)
        kind = self.kind
        if attach is not None and kind not in _observed:

            def observer(*_: object) -> None:
                allocator = _observed[kind]
                if allocator is not None:
                    allocator._guarded(allocator.out_of_memory)

            attach(observer)
        _observed[kind] = self

    def _drain(self) -> None:
        if self._history is None:
            return
        allocations = [0] * self._device.device_count()
        for index, stats in self._stats():
            allocations[index] = _allocations(stats)
        snapshot = self._memory._snapshot()
        self._look_at_settings(snapshot.get("allocator_settings", {}))
        self._history.drain(snapshot, allocations)

    def _look_at_settings(self, settings: dict[str, Any]) -> None:
        """Says where blocks are not cut as they usually are: then their sizes may be others than we think."""
        rounded = any(settings.get("roundup_power2_divisions", {}).values())
        if (rounded or settings.get("max_split_size", -1) != -1) and not self._has_warned:
            self._has_warned = True
            self._mode.warn(
                f"{self.kind} rounds or cuts its blocks in another way than usual (PYTORCH_CUDA_ALLOC_CONF): "
                "sizes in the history are estimates; the counters are exact"
            )

    def _sample(self) -> None:
        for index, stats in self._stats():
            figures = _figures(stats)
            pool, peak = f"{self.kind}:{index}", figures.pop("peak")
            # One that was reset by the program, and has come back to what it was, says nothing new.
            if self._peaks.get(index) != peak:
                self._peaks[index] = peak
                self._mode.highest(pool, peak)
            self._mode.reading(pool, capacity=self._capacity(index), **figures)
        self._grow()

    def _capacity(self, index: int) -> int:
        return int(self._device.get_device_properties(index).total_memory)

    def _grow(self) -> None:
        """Makes the ring as long as what happens needs. What is in it stays."""
        now, count = time.monotonic(), sum(_allocations(stats) for _, stats in self._stats())
        before, self._counted = self._counted, (now, count)
        if before is None or not self._is_ours or self._history is None or now <= before[0]:
            return
        wanted = min(MOST, int((count - before[1]) / (now - before[0]) * ENTRIES * SECONDS))
        if wanted > self._entries:
            if count * ENTRIES > self._entries:
                # A ring that has come round is not in order any more when it grows: it is begun anew.
                self._drain()
                self._record(None, 1)
            self._entries = wanted
            self._record("all", wanted)

    def _stats(self) -> list[tuple[int, dict[str, Any]]]:
        """The counters of the devices that were used."""
        found = []
        for index in range(self._device.device_count()):
            stats = self._memory.memory_stats_as_nested_dict(index)
            if stats and stats["reserved_bytes"]["all"]["peak"] > 0:
                found.append((index, stats))
        return found


def _figures(stats: dict[str, Any]) -> dict[str, int]:
    return {
        "allocated": stats["allocated_bytes"]["all"]["current"],
        "active": stats["active_bytes"]["all"]["current"],
        "reserved": stats["reserved_bytes"]["all"]["current"],
        "requested": stats["requested_bytes"]["all"]["current"],
        "peak": _peak(stats),
    }


def _peak(stats: dict[str, Any]) -> int:
    return int(stats["allocated_bytes"]["all"]["peak"])


def _allocations(stats: dict[str, Any]) -> int:
    return int(stats["allocation"]["all"]["allocated"])


class Polled:
    """The counters of Apple's devices: they say what is there now, and nothing of what was in between."""

    has_history = False

    def __init__(self, mode: Mode, seconds: float) -> None:
        """How often they are asked is only said here."""
        self._mode = mode
        self._seconds = seconds

    def open(self) -> None:
        """Begins."""
        self._mode.warn(
            f"the driver of mps has counters, but no history: they are read every {self._seconds:g} s and at "
            "checkpoints, and what was in between is not known"
        )

    def close(self) -> None:
        """Ends."""

    def abandon(self) -> None:
        """In a child after a fork, there is nothing to do."""

    def drain(self) -> None:
        """There is no history."""

    def sample(self) -> None:
        """Takes the counters down."""
        try:
            mps: Any = torch.mps
            capacity = getattr(mps, "recommended_max_memory", None)
            self._mode.reading(
                "mps driver",
                allocated=mps.current_allocated_memory(),
                reserved=mps.driver_allocated_memory(),
                capacity=capacity() if capacity is not None else None,
            )
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def figures(self) -> dict[str, dict[str, int]]:
        """They are the watcher's."""
        return {}


def allocators(mode: Mode, seconds: float, *, with_history: bool) -> list[CachingAllocator | Polled]:
    """The allocators that there are here."""
    found: list[CachingAllocator | Polled] = []
    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is not None and device._is_compiled():
            found.append(CachingAllocator(mode, kind, with_history=with_history))
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        found.append(Polled(mode, seconds))
    return found
