"""Allocators: with a history (CUDA, XPU), or with counters that can only be polled (MPS, pinned host memory).

A caching allocator records its actions, with the stack and a label that we set: the running call. Reading the
history is slow, so it is only read at the end, when memory runs out, and on request. In between, tracking
costs almost nothing.

The history loses its oldest entries. Therefore the actions of CUDA's allocator are also received as they
happen, without stacks, if this version of PyTorch allows it (`History.follow`). A thread records them. The
history is then only needed for stacks: it is off while iterations have no details.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch

from ttmem._native import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")

# The ring buffer's initial and maximum number of entries, and for how many seconds it should last.
FIRST_ENTRIES, MAX_ENTRIES, SECONDS = 200_000, 1_000_000, 60.0
# An allocation has three entries: allocated, free requested, free completed by all streams.
ENTRIES_PER_ALLOCATION = 3
# Received actions are recorded this often, and this many at once: who reads the history meanwhile must wait.
SECONDS_BETWEEN_TAKES, TAKEN_AT_ONCE = 0.1, 1 << 15
# If this many actions are new, and not fewer than there are blocks, which is checked more often, the history
# is read. The program waits for that, so that readings should be short; but every one includes the blocks.
MIN_ENTRIES, SECONDS_BETWEEN_READS = 1_000, 0.01
# After readings of this many seconds, enough for the first iterations, they may take a share of the time.
FREE_SECONDS, SHARE_OF_READS = 0.6, 0.05
# A size is rounded to at most this many parts of a power of two.
MAX_PARTS = (1 << 16) - 1
# PyTorch's value for no limit is at least this large.
NO_MAX_SPLIT = 1 << 62
# Pinned memory below this size is not shown: PyTorch uses some itself.
MIN_PINNED = 1 << 20
# Minimum time between two drains: a program that handles out-of-memory errors may have many of them.
SECONDS_BETWEEN_DRAINS = 1.0

# PyTorch cannot remove an observer, so there is one per kind of device, which calls the current allocator.
_observed: dict[str, CachingAllocator | None] = {}


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Suspends garbage collection: many objects for a moment would make it look at all others."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _begin(waiting: weakref.ref[CachingAllocator]) -> None:
    allocator = waiting()
    if allocator is not None:
        allocator._begin()


class CachingAllocator:
    """The allocator of one kind of device, `cuda` or `xpu`: its counters and, optionally, its history."""

    def __init__(self, mode: Mode, kind: str, *, with_history: bool) -> None:
        self._mode = mode
        self.kind = kind
        self._device: Any = getattr(torch, kind)
        self._memory: Any = self._device.memory
        self._wants_history = with_history and hasattr(self._memory, "_record_memory_history")
        self._history: History | None = None
        self._is_open = False
        self._is_ours = False
        # Whether the history is off, because received actions suffice; and whether the thread is about to
        # turn it off, after reading the last entries with stacks.
        self._is_paused = self._is_pausing = False
        # Held while the history is read or changed: threads must not record it out of order.
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._taker: threading.Thread | None = None
        # The seconds of reading without a limit that are left, and the time when another reading is allowed.
        self._free_seconds, self._next_read = FREE_SECONDS, 0.0
        self._blocks = 0
        self._entries = FIRST_ENTRIES
        self._peaks: dict[int, int] = {}
        self._counted: tuple[float, int] | None = None
        self._ran_out = -SECONDS_BETWEEN_DRAINS
        self._has_stacks = True
        # The program's limits when memory first ran out, by device.
        self._limits_then: dict[int, int | None] | None = None
        # The devices that were used when the counters were last read.
        self._used: list[int] = []
        self.at_start: Callable[[], object] | None = None

    @property
    def has_history(self) -> bool:
        """Whether the history is being recorded."""
        return self._history is not None

    def open(self) -> None:
        """Starts now, or when the program first uses the device. Never initializes the device itself."""
        self._is_open = True
        if self._device.is_initialized():
            self._begin()
        else:
            # PyTorch keeps the callback forever: a weak reference does not keep a stopped tracker alive.
            self._device._lazy_call(functools.partial(_begin, weakref.ref(self)))

    def close(self) -> None:
        """Records the rest of the history and restores the allocator's settings."""
        if not self._is_open:
            return
        self._is_open = False
        self._closed.set()
        if _observed.get(self.kind) is self:
            _observed[self.kind] = None
        if self._history is None:
            return
        if self._taker is not None:
            self._taker.join(timeout=1.0)
        self._guarded(self._end)
        self._history = None

    def abandon(self) -> None:
        """Stops in a forked child: the device belongs to the parent."""
        if self._history is not None:
            self._history.unfollow()
        self._closed.set()
        self._is_open, self._history = False, None
        if _observed.get(self.kind) is self:
            _observed[self.kind] = None

    def sample(self) -> None:
        """Records the counters."""
        if self._is_open and self._device.is_initialized():
            self._guarded(self._sample)

    def drain(self) -> None:
        """Records the new entries of the history."""
        if self._history is not None:
            self._guarded(self._drain)

    def out_of_memory(self) -> None:
        """Records the history when memory runs out, before the program gets the exception."""
        if time.monotonic() >= self._ran_out + SECONDS_BETWEEN_DRAINS:
            self._ran_out = time.monotonic()
            self.sample()
            self._guarded(self._keep_limits)
            self.drain()
            self._mode.snapshot("out of memory")
        self._mode.flush()

    @property
    def is_ours(self) -> bool:
        """Whether the history has the settings of the tracker."""
        return self._is_ours

    def allocations(self) -> int:
        """Returns the number of allocations that the devices in use have made."""
        received = self._history.allocations if self._history is not None else None
        if received is not None:
            # PyTorch's counters are a dictionary of a hundred numbers, which takes some time.
            return received
        if not self._used:
            self._stats()
        stats = self._memory.memory_stats_as_nested_dict
        return sum(_allocations(stats(index)) for index in self._used)

    def record_stacks(self, *, wanted: bool) -> None:
        """Sets whether entries of the history have stacks."""
        if not self._is_ours or self._history is None:
            return
        if not wanted and self._taker is not None and self._history.is_fed:
            # Not locked: the program would wait until the thread has read the history.
            self._has_stacks = False
            self._record("all", self._entries)
            self._pass_calls(wanted=False)
            self._is_pausing = True
            return
        with self._lock:
            if not wanted or self._is_pausing:
                # Before the next entries, which differ in having stacks.
                self._guarded(self._drain)
            self._has_stacks, self._free_seconds = wanted, FREE_SECONDS
            self._is_paused = self._is_pausing = False
            self._record_on()
            self._pass_calls()

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns the current and peak memory of each device from the allocator's counters."""
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
        # If the program already records a history, it is only read.
        is_on = getattr(torch._C, f"_{self.kind}_isHistoryEnabled", None)
        self._is_ours = is_on is None or not is_on()
        history = History(self._mode, self.kind)
        if self._is_ours:
            why_not = history.follow() if self._can_clear() else "its history cannot be cleared"
            if why_not is not None:
                logger.debug("only the history of the %s allocator is read: %s", self.kind.upper(), why_not)
            self._record_on()
        else:
            self._mode.warn(
                f"the program already records {self.kind.upper()} memory history: its settings are kept, so "
                "stacks or older events may be missing"
            )
        self._history = history
        self._drain()
        self._pass_calls()
        self._observe()
        if self.at_start is not None:
            self.at_start()
        if history.is_following:
            self._taker = threading.Thread(target=self._take_on, name="ttmem-history", daemon=True)
            self._taker.start()

    def _can_clear(self) -> bool:
        """Returns whether this version of PyTorch can clear the history, without turning it off."""
        record = getattr(self._memory, "_record_memory_history_impl", self._memory._record_memory_history)
        return "clear_history" in inspect.signature(record).parameters

    def _end(self) -> None:
        self._sample()
        self._drain()
        self._pass_calls(wanted=False)
        if self._history is not None:
            self._history.unfollow()
        if self._is_ours:
            self._record(None, 1)

    def _pass_calls(self, *, wanted: bool = True) -> None:
        """Passes the running calls to the allocator, which copies their text for each of its actions."""
        set_text = getattr(torch._C, f"_{self.kind}_setMemoryMetadata", None)
        wanted = wanted and not self._is_paused
        self._mode.pass_calls_to(set_text if wanted else None)
        if set_text is not None and not wanted:
            set_text("")

    def _take_on(self) -> None:
        """Records received actions until the end."""
        while not self._closed.wait(SECONDS_BETWEEN_TAKES if self._is_paused else SECONDS_BETWEEN_READS):
            self._guarded(self._take)

    def _take(self) -> None:
        history = self._history
        if history is None:
            return
        if self._is_pausing:
            self._pause(history)
        if self._is_paused and history.is_fed:
            while self._take_some(history):
                # Other threads may run in between.
                time.sleep(0)
        elif history.received > max(MIN_ENTRIES, self._blocks):
            self._read_or_take(history)
        if self._is_paused and not history.is_fed:
            with self._lock:
                self._is_paused = False
                self._record_on()
                self._pass_calls()

    def _pause(self, history: History) -> None:
        """Reads the last entries with stacks, and turns the history off."""
        with self._lock:
            if self._is_pausing:
                self._drain()
                self._is_pausing, self._is_paused = False, history.is_fed
                self._record_on()

    def _read_or_take(self, history: History) -> None:
        """Reads the history; or, if that has taken too much time, records only what was received."""
        began = time.monotonic()
        if self._free_seconds > 0 or began >= self._next_read:
            self._drain()
            now = time.monotonic()
            self._free_seconds -= now - began
            self._next_read = now + (now - began) / SHARE_OF_READS
        elif history.is_fed:
            with self._lock:
                # What happens meanwhile must not be in the history, because it is recorded here.
                self._record_on(entries=1)
                while history.take(TAKEN_AT_ONCE):
                    time.sleep(0)
                self._record_on()

    def _take_some(self, history: History) -> bool:
        with self._lock:
            return self._is_paused and not self._closed.is_set() and history.take(TAKEN_AT_ONCE)

    def _record_on(self, entries: int | None = None) -> None:
        """Records the history, unless received actions suffice."""
        if self._is_paused:
            self._record(None, 1)
            return
        is_fed = self._history is not None and self._history.is_fed
        self._record("all", entries or self._entries, **({"clear_history": True} if is_fed else {}))

    def _record(self, enabled: str | None, entries: int, **options: bool) -> None:
        has_stacks = self._has_stacks
        context = "alloc" if has_stacks else None
        record = self._memory._record_memory_history
        record(enabled, context=context, stacks="python", max_entries=entries, **options)
        if self._has_stacks != has_stacks and enabled is not None:
            # Another thread has changed it meanwhile.
            self._record(enabled, entries)

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
        if self._history is not None:
            with self._lock:
                self._drain_locked(self._history)

    def _drain_locked(self, history: History) -> None:
        allocations = [0] * self._device.device_count()
        self._blocks = 0
        for index, stats in self._stats():
            allocations[index] = _allocations(stats)
            self._blocks += stats["active"]["all"]["current"]
        with _no_collection():
            self._read(history, allocations)
        if history.is_fed and self._is_ours:
            # Its entries are recorded. What has happened since then was received.
            self._record_on()

    def _read(self, history: History, allocations: list[int]) -> None:
        snapshot = self._memory._snapshot()
        self._guarded(lambda: self._settings(snapshot.get("allocator_settings", {})))
        history.drain(snapshot, allocations)

    def _settings(self, settings: dict[str, Any]) -> None:
        """Records the settings that determine the sizes of blocks, and the program's memory limit."""
        max_split = settings.get("max_split_size", -1)
        divisions = settings.get("roundup_power2_divisions", {})
        for index in self._used:
            self._mode.allocator_rules(
                f"{self.kind}:{index}",
                max_split=max_split if 0 <= max_split < NO_MAX_SPLIT else None,
                is_expandable=bool(settings.get("expandable_segments", False)),
                divisions=[(int(size), min(parts, MAX_PARTS)) for size, parts in divisions.items()],
                limit=self._limit(index),
            )

    def _limit(self, index: int) -> int | None:
        """Returns the memory that the program may use, if that is less than the device has.

        After memory has run out, it is the limit of that time.
        """
        if self._limits_then is not None:
            return self._limits_then.get(index)
        fraction_of = getattr(self._memory, "get_per_process_memory_fraction", None)
        fraction = fraction_of(index) if fraction_of is not None else 1.0
        return int(self._capacity(index) * fraction) if fraction < 1 else None

    def _sample(self) -> None:
        for index, stats in self._stats():
            figures = _figures(stats)
            pool, peak = f"{self.kind}:{index}", figures.pop("peak")
            # An unchanged peak is not reported again, even if the program has reset it in between.
            if self._peaks.get(index) != peak:
                self._peaks[index] = peak
                self._mode.highest(pool, peak)
            self._mode.reading(pool, capacity=self._capacity(index), **figures)
        self._grow()

    def _keep_limits(self) -> None:
        if self._limits_then is None:
            self._limits_then = {index: self._limit(index) for index in self._used}

    def _capacity(self, index: int) -> int:
        return int(self._device.get_device_properties(index).total_memory)

    def _grow(self) -> None:
        """Enlarges the ring buffer to the allocation rate. Its entries are kept."""
        now, count = time.monotonic(), sum(_allocations(stats) for _, stats in self._stats())
        before, self._counted = self._counted, (now, count)
        if before is None or not self._is_ours or self._history is None or now <= before[0]:
            return
        if self._history.is_fed:
            return
        rate = (count - before[1]) / (now - before[0])
        wanted = min(MAX_ENTRIES, int(rate * ENTRIES_PER_ALLOCATION * SECONDS))
        if wanted > self._entries:
            if count * ENTRIES_PER_ALLOCATION > self._entries:
                # A ring buffer that has wrapped around would be out of order after growing: start a new one.
                self._drain()
                self._record(None, 1)
            self._entries = wanted
            self._record("all", wanted)

    def _stats(self) -> list[tuple[int, dict[str, Any]]]:
        """Returns the counters of the devices that were used."""
        found = []
        for index in range(self._device.device_count()):
            stats = self._memory.memory_stats_as_nested_dict(index)
            if stats and stats["reserved_bytes"]["all"]["peak"] > 0:
                found.append((index, stats))
        self._used = [index for index, _ in found]
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
    """Memory whose size can only be read now and then."""

    has_history = False

    def __init__(
        self, mode: Mode, pool: str, read: Callable[[], dict[str, int | None] | None], warning: str
    ) -> None:
        """`read` returns `None` while the program has not used this memory."""
        self._mode, self._pool, self._read, self._warning = mode, pool, read, warning
        self._has_warned = False

    def open(self) -> None:
        self.sample()

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def sample(self) -> None:
        """Records the sizes."""
        try:
            sizes = self._read()
            if sizes is None:
                return
            if not self._has_warned:
                self._has_warned = True
                self._mode.warn(self._warning)
            self._mode.reading(self._pool, **sizes)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def figures(self) -> dict[str, dict[str, int]]:
        """Returns nothing: the dispatch mode tracks the tensors of these devices."""
        return {}


def _mps() -> dict[str, int | None]:
    """Returns the counters of Apple's driver. Tensors on MPS are tracked by the dispatch mode."""
    mps: Any = torch.mps
    capacity = getattr(mps, "recommended_max_memory", None)
    return {
        "allocated": mps.current_allocated_memory(),
        "reserved": mps.driver_allocated_memory(),
        "capacity": capacity() if capacity is not None else None,
    }


def _pinned() -> dict[str, int | None] | None:
    """Returns the counters of the allocator of pinned host memory."""
    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        return None
    stats = cuda.host_memory_stats()
    used, owned = stats.get("active_bytes.current"), stats.get("allocated_bytes.current")
    return {"allocated": used, "reserved": owned} if owned and owned >= MIN_PINNED else None


def allocators(mode: Mode, seconds: float, *, with_history: bool) -> list[CachingAllocator | Polled]:
    """Returns the allocators that this build of PyTorch supports."""
    found: list[CachingAllocator | Polled] = []
    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is not None and device._is_compiled():
            found.append(CachingAllocator(mode, kind, with_history=with_history))
    often = f"read every {seconds:g} s and at checkpoints, so peaks in between are missed"
    if torch.cuda._is_compiled() and hasattr(torch.cuda, "host_memory_stats"):
        warning = f"pinned host memory has no history: its counters are {often}"
        found.append(Polled(mode, "cuda pinned", _pinned, warning))
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        warning = f"MPS has no memory history: its counters are {often}"
        found.append(Polled(mode, "mps driver", _mps, warning))
    return found
