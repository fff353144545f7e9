"""Phases of a program and what each of them used: the tracker of tt-train, for PyTorch and ttnn.

    >>> from ttmem import MemoryUsageTracker
    >>> guard = MemoryUsageTracker.begin_capture()
    >>> model = make_model()
    >>> MemoryUsageTracker.snapshot("MODEL_CREATION")
    >>> loss = model(batch).mean()
    >>> MemoryUsageTracker.end_capture("FORWARD_PASS")
    >>> MemoryUsageTracker.print_memory_usage()

Here lives the interface. What happened in a phase is known by a source: `_torch.phases` or `_ttnn`. The
figures, their text and the refusals are the native module's, so they are those of the trackers for C and C++.
"""

from __future__ import annotations

import enum
import importlib.util
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ttmem._native import Usage

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TextIO

    import torch

__all__ = ["DRAMUsage", "L1UsagePerCore", "MemoryUsageTracker", "RunMode", "ScopeGuard", "memory_snapshot"]

SourceName = Literal["torch", "ttnn"]
SOURCES: tuple[SourceName, ...] = ("ttnn", "torch")
DEFAULT_TRACE_NAME = "END_TRACE"
"""The name of the phase that ends where nobody has given one."""

ESTIMATED = "These figures are estimates: nothing was allocated (NO_DISPATCH).\n"


class RunMode(enum.Enum):
    """What is done with the operations of a program while it is captured."""

    NORMAL = "NORMAL"
    """They run."""
    NO_DISPATCH = "NO_DISPATCH"
    """They do not run, and nothing is allocated: the figures are estimates."""


class DRAMUsage(NamedTuple):
    """What a phase did in the memory of the device, in bytes."""

    peak: int
    """The highest use above the start; 0 if it was never above."""
    total_allocations: int
    """Of all allocations."""
    total_deallocations: int
    """Of all frees."""


class L1UsagePerCore(NamedTuple):
    """What a phase took of a core's L1, in bytes. Other devices than ttnn's have none."""

    peak_cb: int
    """The most that circular buffers took."""
    peak_buffer: int
    """The most that buffers took."""
    peak_total: int
    """The most that both took at one moment."""


class Source(Protocol):
    """Knows what a program does to memory."""

    def begin(self) -> None:
        """Begins to look."""

    def cut(self, usage: Usage) -> None:
        """Tells what happened since it was last asked to."""

    def check(self) -> None:
        """Raises what keeps it from being ended here."""

    def end(self) -> None:
        """Looks no longer."""

    def abandon(self) -> None:
        """The same, in a child after a fork."""


class ScopeGuard:
    """Ends its capture and forgets the phases in the end, unless it is released.

    The end is that of a `with` block, or its own. Once another capture has begun, it does nothing.
    """

    __slots__ = ("__weakref__", "_capture", "_depth")

    def __init__(self, capture: int) -> None:
        """Of which capture."""
        self._capture: int | None = capture
        self._depth = 0

    def release(self) -> None:
        """Leaves the capture and the phases as they are, whatever becomes of the guard. Twice is as once."""
        self._capture = None

    def __enter__(self) -> ScopeGuard:
        """The capture has begun already."""
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the capture with the outermost block."""
        self._depth -= 1
        if self._depth == 0:
            self._finish()

    def __del__(self) -> None:
        """Ends the capture where nobody else has."""
        if not sys.is_finalizing():
            self._finish()

    def _finish(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            _the.end_and_clear(capture)


class _Captures:
    """The one tracker of the process, and the source of the capture that runs."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.lock = threading.RLock()
        self.source: Source | None = None
        self.is_estimated = False
        self._capture: int | None = None

    def begin(self, *, estimated: bool, source: Source) -> int:
        with self.lock:
            capture = self._capture = self.usage.begin_capture(estimated)
            try:
                source.begin()
            except BaseException:
                source.abandon()
                self.usage.clear()
                raise
            self.source, self.is_estimated = source, estimated
            return capture

    def snapshot(self, name: str) -> None:
        with self.lock:
            try:
                self._cut()
            finally:
                # Whatever could not be told: the phase has an end.
                self.usage.snapshot(name)

    def end(self, name: str) -> None:
        with self.lock:
            self._check()
            try:
                self._end_source()
            finally:
                self.usage.end_capture(name)

    def end_and_clear(self, capture: int) -> None:
        with self.lock:
            if self._capture == capture:
                self._check()
                try:
                    self._end_source()
                finally:
                    self.usage.end_and_clear(capture)

    def clear(self) -> None:
        with self.lock:
            self._check()
            try:
                self._end_source()
            finally:
                self.usage.clear()

    def _cut(self) -> None:
        if self.source is not None:
            self.source.cut(self.usage)

    def _check(self) -> None:
        if self.source is not None:
            self.source.check()

    def _end_source(self) -> None:
        source, self.source = self.source, None
        if source is not None:
            try:
                source.cut(self.usage)
            finally:
                source.end()

    def forked(self) -> None:
        """In a child nothing is captured: the phases are the parent's."""
        source = self.source
        self.__init__()  # type: ignore[misc]
        if source is not None:
            source.abandon()


_the = _Captures()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_the.forked)


class MemoryUsageTracker:
    """Cuts the program into phases and says what each of them used. There is one in a process."""

    @staticmethod
    def begin_capture(
        mode: RunMode | Any = RunMode.NORMAL,
        *,
        source: SourceName | None = None,
        device: str | torch.device | int | None = None,
    ) -> ScopeGuard:
        """Begins a capture, and its first phase. Keep the guard: the capture ends with it, at the latest.

        Args:
            mode: Whether operations run; `ttnn.graph.RunMode` is understood, too.
            source: Who knows what is allocated: `"torch"`, or `"ttnn"`, by its graph captures. Without, it is
                ttnn where that is what the program has imported.
            device: With PyTorch, the device whose memory is counted. Without, it is the accelerator that
                PyTorch has, or else the CPU.

        Raises:
            RuntimeError: A capture runs already, or the phases that are kept are of another mode.
            ModuleNotFoundError: There is neither PyTorch nor ttnn.

        """
        estimated = _run_mode(mode) is RunMode.NO_DISPATCH
        found = _source(source, device, estimated=estimated)
        return ScopeGuard(_the.begin(estimated=estimated, source=found))

    @staticmethod
    def snapshot(name: str) -> None:
        """Ends the phase, which gets its name now, and begins the next. Names may repeat."""
        _the.snapshot(name)

    @staticmethod
    def end_capture(name: str = DEFAULT_TRACE_NAME) -> None:
        """Ends the last phase, and the capture."""
        _the.end(name)

    @staticmethod
    def clear() -> None:
        """Forgets the phases. A capture that runs is over."""
        _the.clear()

    @staticmethod
    def is_capturing() -> bool:
        """Whether a capture runs."""
        return _the.usage.is_capturing

    @staticmethod
    def memory_usage_text() -> str:
        """What `print_memory_usage` prints."""
        text = _the.usage.text()
        return text + ESTIMATED if _the.is_estimated and _the.usage.phases() else text

    @staticmethod
    def print_memory_usage(file: TextIO | None = None) -> None:
        """Prints the figures of all phases, in the format of tt-train's tracker."""
        out = sys.stdout if file is None else file
        out.write(MemoryUsageTracker.memory_usage_text())
        out.flush()

    @staticmethod
    def get_dram_usage(name: str) -> DRAMUsage:
        """What a phase did in the device's memory. A name that several phases have is a `LookupError`."""
        return DRAMUsage(*_the.usage.dram(name))

    @staticmethod
    def get_l1_usage(name: str) -> L1UsagePerCore:
        """What a phase took of a core. A name that several phases have is a `LookupError`."""
        return L1UsagePerCore(*_the.usage.l1(name))

    @staticmethod
    def get_dram_usage_all() -> list[tuple[str, DRAMUsage]]:
        """What all phases did in the device's memory, in order."""
        return [(name, DRAMUsage(*dram)) for name, dram, _ in _the.usage.phases()]

    @staticmethod
    def get_l1_usage_all() -> list[tuple[str, L1UsagePerCore]]:
        """What all phases took of a core, in order."""
        return [(name, L1UsagePerCore(*l1)) for name, _, l1 in _the.usage.phases()]

    @staticmethod
    def get_trace_names() -> list[str]:
        """The names of the phases, in order; they may repeat."""
        return [name for name, _, _ in _the.usage.phases()]

    @staticmethod
    def record_to(path: str | os.PathLike[str]) -> None:
        """Has the captures to come go into a `.ttmem` file, too: their phases, and no tensors."""
        _the.usage.record_to(os.fspath(path))

    @staticmethod
    def finish() -> None:
        """Finishes the recording, if there is one, and says what went wrong with it."""
        _the.usage.finish()


def memory_snapshot(x: torch.Tensor, fwd_label: str, bwd_label: str) -> torch.Tensor:
    """Gives the tensor back, and ends a phase here: in the forward pass, and again in the backward pass.

    Outside of a capture, and in code that is compiled, it is the tensor and nothing else.
    """
    from ttmem._torch.snapshots import snapshotted

    return snapshotted(x, fwd_label, bwd_label)


def snapshot_if_capturing(name: str) -> None:
    """A snapshot, unless there is no capture."""
    with _the.lock:
        if _the.usage.is_capturing:
            _the.snapshot(name)


def tracker_ends(mode: object) -> None:
    """The memory tracker is about to end, whose eyes the capture may use: it gets its own."""
    with _the.lock:
        lose = getattr(_the.source, "lose", None)
        if lose is not None:
            lose(mode, _the.usage)


def _run_mode(mode: object) -> RunMode:
    if isinstance(mode, RunMode):
        return mode
    try:
        return RunMode[str(getattr(mode, "name", mode))]
    except KeyError:
        msg = f"there is no mode {mode!r}: choose RunMode.NORMAL or RunMode.NO_DISPATCH"
        raise ValueError(msg) from None


def _source(name: str | None, device: str | torch.device | int | None, *, estimated: bool) -> Source:
    if name is None:
        name = "torch" if device is not None else _likely_source()
    if name == "ttnn":
        if device is not None:
            msg = "device is for PyTorch: a graph capture of ttnn is of the devices that ttnn uses"
            raise ValueError(msg)
        from ttmem._ttnn import GraphCaptures

        return GraphCaptures(estimated=estimated)
    if name != "torch":
        msg = f"there is no source {name!r}: choose 'torch' or 'ttnn'"
        raise ValueError(msg)
    try:
        from ttmem._torch.phases import Phases
    except ModuleNotFoundError as error:
        if error.name == "torch":
            msg = "MemoryUsageTracker looks at PyTorch or ttnn, and neither is here: pip install torch"
            raise ModuleNotFoundError(msg, name="torch") from error
        raise
    return Phases(device, estimated=estimated)


def _likely_source() -> SourceName:
    """What the program uses: what it has imported already, or could import."""
    for name in SOURCES:
        if name in sys.modules:
            return name
    return "ttnn" if importlib.util.find_spec("ttnn") is not None else "torch"
