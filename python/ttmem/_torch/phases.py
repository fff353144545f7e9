"""What PyTorch does in a phase: by what a watcher sees of storages, and by the counters of the allocator."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ttmem import tracker
from ttmem._torch.compiled import StepAside
from ttmem._torch.inductor import CompiledBuffers
from ttmem._torch.mode import Mode, install, uninstall
from ttmem._torch.storages import Storages
from ttmem._torch.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._native import Usage
    from ttmem._torch.pretend import Pretence

logger = logging.getLogger("ttmem")


class Did(NamedTuple):
    """What happened in a phase, in bytes; the peak is above what was there at its start."""

    peak: int
    allocated: int
    freed: int


NOTHING = Did(0, 0, 0)


class Phases:
    """Counts the phases of a device.

    Where the memory tracker watches tensors, its watcher is asked; otherwise one is installed that makes no
    recording.
    """

    def __init__(self, device: str | torch.device | int | None, *, estimated: bool) -> None:
        """Of which device; without, of the one that programs use here."""
        self._device = _device(device)
        self._estimated = estimated
        self._mode: Mode | None = None
        self._parts: list[Any] = []
        self._pretence: Pretence | None = None
        self._counters: Counters | None = None
        # What was allocated, on which device.
        self._seen: dict[str, int] = {}

    def begin(self) -> None:
        """Begins to look, and to pretend."""
        mode = None if self._estimated else tracker.watching()
        if mode is None:
            self._watch()
        else:
            self._mode = mode
            mode.next_phase()
        if self._estimated:
            from ttmem._torch.pretend import Pretence

            pretence = Pretence(self._mode)
            pretence.begin()
            self._pretence = pretence
        else:
            stats = getattr(getattr(torch, self._device.type, None), "memory_stats", None)
            self._counters = Counters(functools.partial(stats, self._device)) if stats else None

    def cut(self, usage: Usage) -> None:
        """Tells what happened since the last time."""
        did = NOTHING
        if self._mode is not None:
            for name, *figures in self._mode.next_phase():
                self._seen[name] = self._seen.get(name, 0) + figures[1]
                if name == str(self._device):
                    did = Did(*figures)
        if self._counters is not None:
            did = self._counters.next(did)
        usage.record(*did)

    def check(self) -> None:
        """Who pretends does so in one thread."""
        if self._pretence is not None:
            self._pretence.check()

    def end(self) -> None:
        """Looks no longer; what was made while nothing ran stays without memory."""
        if self._pretence is not None:
            self._pretence.end()
        self._look_away()
        here = str(self._device)
        others = {name: size for name, size in self._seen.items() if size and name != here}
        if others and not self._seen.get(here) and self._counters is None:
            most = max(others, key=others.__getitem__)
            logger.warning(
                "no tensor was made on %s, whose memory was counted, but %d bytes on %s: "
                "MemoryUsageTracker.begin_capture(device=%r) counts those",
                here,
                others[most],
                most,
                most,
            )

    def abandon(self) -> None:
        """A child after a fork runs as without."""
        if self._pretence is not None:
            self._pretence.end()
        self._look_away()

    def lose(self, mode: object, usage: Usage) -> None:
        """The watcher that is asked ends: it tells what it has seen, and one of our own follows."""
        if self._mode is mode and not self._parts:
            self.cut(usage)
            self._watch()
            logger.warning(
                "the memory tracker stopped during a capture: what was made before and goes now is not seen"
            )

    def _watch(self) -> None:
        mode = self._mode = Mode(None, estimates=self._estimated)
        install(mode)
        threads, storages, aside = Threads(mode), Storages(mode), StepAside(mode)
        compiled = CompiledBuffers(mode)
        # What these threads do is not seen. Estimates are of what this one does.
        if not self._estimated and (unwatched := threads.open()):
            logger.info("threads that were there before the capture are not in it: %s", ", ".join(unwatched))
        storages.open()
        aside.open()
        compiled.open()
        self._parts = [compiled, aside, storages, threads]

    def _look_away(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None and self._parts:
            for part in self._parts:
                part.close()
            self._parts = []
            uninstall(mode)
            mode.finish()


class Counters:
    """The counters of a device's allocator. They are read, and never reset: they are the program's."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        """Begins with what is there. `stats` gives the counters."""
        self._stats = stats
        self._before = self._read()

    def next(self, seen: Did) -> Did:
        """What happened since the last time.

        The counters have every byte, also of scratch memory. But their peak is the highest since it was last
        reset: only a phase that goes higher than all before moves it. Of another phase, the peak is what the
        watcher has seen of tensors.
        """
        before, now = self._before, self._read()
        self._before = now
        start = before["current"]
        change = now["current"] - start
        if now["peak"] == before["peak"]:
            peak = min(seen.peak, now["peak"] - start)
        else:
            # What was seen is more where the program has reset the peak meanwhile.
            peak = max(seen.peak, now["peak"] - start)
        allocated = now["allocated"] - before["allocated"]
        freed = now["freed"] - before["freed"]
        if min(allocated, freed) < 0 or allocated - freed != change:
            # These, too, can be reset.
            allocated = max(seen.allocated, change)
            freed = allocated - change
        return Did(max(peak, change, 0), allocated, freed)

    def _read(self) -> dict[str, int]:
        stats = self._stats()
        return {
            key: int(stats.get(f"allocated_bytes.all.{key}", 0))
            for key in ("current", "peak", "allocated", "freed")
        }


def _device(device: str | torch.device | int | None) -> torch.device:
    found = torch.device(device if device is not None else _accelerator())
    index: Any = found.index
    if index is None and found.type not in {"cpu", "meta"}:
        module: Any = getattr(torch, found.type, None)
        is_there = _is_available(found.type) and hasattr(module, "current_device")
        return torch.device(found.type, module.current_device() if is_there else 0)
    return found


def _accelerator() -> str:
    return next((name for name in ("cuda", "xpu", "mps") if _is_available(name)), "cpu")


def _is_available(device: str) -> bool:
    for place in (torch, torch.backends):
        module: Any = getattr(place, device, None)
        if hasattr(module, "is_available"):
            return bool(module.is_available())
    return False
