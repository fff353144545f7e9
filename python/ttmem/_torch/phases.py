"""Phases of a PyTorch program, measured by tracked tensors and the allocator's counters."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ttmem import tracker
from ttmem._sizes import size_text
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


class PhaseUsage(NamedTuple):
    """Memory use of a phase, in bytes. The peak is relative to the start."""

    peak: int
    allocated: int
    freed: int


NOTHING = PhaseUsage(0, 0, 0)


class Phases:
    """Measures the phases of a device.

    Reuses the hooks of the memory tracker if it tracks every tensor; otherwise installs its own, without a
    recording.
    """

    def __init__(self, device: str | torch.device | int | None, *, estimated: bool) -> None:
        self._device = _device(device)
        self._estimated = estimated
        self._mode: Mode | None = None
        self._parts: list[Any] = []
        self._pretence: Pretence | None = None
        self._counters: Counters | None = None
        # Allocated bytes by device.
        self._seen: dict[str, int] = {}

    @property
    def device(self) -> str:
        return str(self._device)

    def begin(self) -> None:
        mode = None if self._estimated else tracker.watching()
        if mode is None:
            self._install_hooks()
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
        """Reports the memory use since the last cut."""
        did = NOTHING
        if self._mode is not None:
            for name, *figures in self._mode.next_phase():
                self._seen[name] = self._seen.get(name, 0) + figures[1]
                if name == str(self._device):
                    did = PhaseUsage(*figures)
        if self._counters is not None:
            did = self._counters.next(did)
        usage.record(*did)

    def check(self) -> None:
        """Raises if a NO_DISPATCH capture was begun by another thread."""
        if self._pretence is not None:
            self._pretence.check()

    def end(self) -> None:
        """Stops measuring. Tensors of a NO_DISPATCH capture stay without memory."""
        if self._pretence is not None:
            self._pretence.end()
        self._remove_hooks()
        here = str(self._device)
        others = {name: size for name, size in self._seen.items() if size and name != here}
        if others and not self._seen.get(here) and self._counters is None:
            most = max(others, key=others.__getitem__)
            logger.warning(
                "no tensors were allocated on %s, the measured device, but %s on %s; to measure %s, call "
                "MemoryUsageTracker.begin_capture(device=%r)",
                here,
                size_text(others[most]),
                most,
                most,
                most,
            )

    def warnings(self) -> list[str]:
        """Returns the lines of the program whose values a NO_DISPATCH capture had to assume."""
        return self._pretence.warnings() if self._pretence is not None else []

    def abandon(self) -> None:
        """Removes all hooks in a forked child."""
        if self._pretence is not None:
            self._pretence.end()
        self._remove_hooks()

    def lose(self, mode: object, usage: Usage) -> None:
        """Replaces the memory tracker's hooks, which are about to be removed, with our own."""
        if self._mode is mode and not self._parts:
            self.cut(usage)
            self._install_hooks()
            logger.warning(
                "the memory tracker stopped during a capture: tensors allocated before that and freed later "
                "are not counted as freed"
            )

    def _install_hooks(self) -> None:
        mode = self._mode = Mode(None, estimates=self._estimated)
        install(mode)
        threads, storages, aside = Threads(mode), Storages(mode), StepAside(mode)
        compiled = CompiledBuffers(mode)
        # A NO_DISPATCH capture covers only this thread.
        if not self._estimated and (untracked := threads.open()):
            logger.info("threads started before the capture are not tracked: %s", ", ".join(untracked))
        storages.open()
        aside.open()
        compiled.open()
        self._parts = [compiled, aside, storages, threads]

    def _remove_hooks(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None and self._parts:
            for part in self._parts:
                part.close()
            self._parts = []
            uninstall(mode)
            mode.finish()


class Counters:
    """The counters of a device's allocator. They are never reset, because the program may use them."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        """`stats` returns the counters."""
        self._stats = stats
        self._before = self._read()

    def next(self, seen: PhaseUsage) -> PhaseUsage:
        """Returns the memory use since the last call.

        The counters include every byte, even scratch memory. But their peak is the highest since the program
        last reset it, so only a phase above all earlier ones changes it. For other phases, the peak is that
        of the tracked tensors (`seen`).
        """
        before, now = self._before, self._read()
        self._before = now
        start = before["current"]
        change = now["current"] - start
        if now["peak"] == before["peak"]:
            peak = min(seen.peak, now["peak"] - start)
        else:
            # `seen.peak` is higher if the program has reset the counter's peak in the meantime.
            peak = max(seen.peak, now["peak"] - start)
        allocated = now["allocated"] - before["allocated"]
        freed = now["freed"] - before["freed"]
        if min(allocated, freed) < 0 or allocated - freed != change:
            # The program has also reset these counters.
            allocated = max(seen.allocated, change)
            freed = allocated - change
        return PhaseUsage(max(peak, change, 0), allocated, freed)

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
