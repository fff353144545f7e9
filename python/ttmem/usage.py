"""Memory usage of a program's phases: tt-train's `MemoryUsageTracker`, for PyTorch and ttnn.

    >>> from ttmem import MemoryUsageTracker
    >>> guard = MemoryUsageTracker.begin_capture()
    >>> model = make_model()
    >>> MemoryUsageTracker.snapshot("MODEL_CREATION")
    >>> loss = model(batch).mean()
    >>> MemoryUsageTracker.end_capture("FORWARD_PASS")
    >>> MemoryUsageTracker.print_memory_usage()

A source (`_torch.phases` or `_ttnn`) reports what happens in a phase. The native module computes the numbers
and formats text and errors, so they match those of the C and C++ trackers.
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
"""The default name of the last phase."""

ESTIMATED = "These numbers are estimates: nothing was allocated (NO_DISPATCH).\n"
ASSUMED = "Values that were not computed affect these lines of the program:\n"
MAX_WARNINGS = 20
"""The text has no more lines of the program than this."""


class RunMode(enum.Enum):
    """Whether operations run during a capture."""

    NORMAL = "NORMAL"
    """Operations run."""
    NO_DISPATCH = "NO_DISPATCH"
    """Operations do not run and nothing is allocated: the numbers are estimates."""


class DRAMUsage(NamedTuple):
    """Device memory used in a phase, in bytes."""

    peak: int
    """Peak above the memory in use at the start of the phase; 0 if it never rose above that."""
    total_allocations: int
    """Sum of all allocations."""
    total_deallocations: int
    """Sum of all deallocations."""


class L1UsagePerCore(NamedTuple):
    """Peak L1 use of a core in a phase, in bytes. All 0 for PyTorch."""

    peak_cb: int
    """Peak of circular buffers."""
    peak_buffer: int
    """Peak of buffers."""
    peak_total: int
    """Peak of circular buffers and buffers together."""


class Source(Protocol):
    """Measures the memory use of a program."""

    @property
    def device(self) -> str | None:
        """The PyTorch device; None for Tenstorrent devices."""

    def begin(self) -> None:
        """Starts measuring."""

    def cut(self, usage: Usage) -> None:
        """Reports the memory use since the last cut."""

    def check(self) -> None:
        """Raises if the current thread cannot end it."""

    def end(self) -> None:
        """Stops measuring."""

    def warnings(self) -> list[str]:
        """Returns what the numbers depend on, with the line of the program."""

    def abandon(self) -> None:
        """Stops measuring in a forked child."""


class ScopeGuard:
    """Ends its capture and clears the phases, unless released.

    This happens at the end of the outermost `with` block, or when the guard is garbage-collected. The guard
    does nothing once another capture has begun.
    """

    __slots__ = ("__weakref__", "_capture", "_depth")

    def __init__(self, capture: int) -> None:
        self._capture: int | None = capture
        self._depth = 0

    def release(self) -> None:
        """Detaches the guard: the capture and its phases are kept."""
        self._capture = None

    def __enter__(self) -> ScopeGuard:
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._finish()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._finish()

    def _finish(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            _captures.end_and_clear(capture)


class _Captures:
    """The process-wide tracker and the source of the current capture."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.lock = threading.RLock()
        self.source: Source | None = None
        self.is_estimated = False
        # The warnings of earlier captures whose phases are kept.
        self._warnings: list[str] = []
        self._capture: int | None = None

    def begin(self, *, estimated: bool, source: Source) -> int:
        with self.lock:
            capture = self._capture = self.usage.begin_capture(estimated, source.device)
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
                # The phase ends even if the source fails.
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
                    self._warnings = []

    def clear(self) -> None:
        with self.lock:
            self._check()
            try:
                self._end_source()
            finally:
                self.usage.clear()
                self._warnings = []

    def warnings(self) -> list[str]:
        """Returns the warnings of all captures whose phases are kept, each once."""
        with self.lock:
            running = self.source.warnings() if self.source is not None else []
            return list(dict.fromkeys([*self._warnings, *running]))

    def _cut(self) -> None:
        if self.source is not None:
            self.source.cut(self.usage)

    def _check(self) -> None:
        if self.source is not None:
            self.source.check()

    def _end_source(self) -> None:
        self._warnings = self.warnings()
        source, self.source = self.source, None
        if source is not None:
            try:
                source.cut(self.usage)
            finally:
                source.end()

    def forked(self) -> None:
        """Resets a forked child: the phases belong to the parent."""
        source = self.source
        self.__init__()  # type: ignore[misc]
        if source is not None:
            source.abandon()


_captures = _Captures()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_captures.forked)


class MemoryUsageTracker:
    """Measures the memory use of a program's phases. All methods are static: there is one per process."""

    @staticmethod
    def begin_capture(
        mode: RunMode | Any = RunMode.NORMAL,
        *,
        source: SourceName | None = None,
        device: str | torch.device | int | None = None,
    ) -> ScopeGuard:
        """Begins a capture and its first phase.

        Keep the returned guard: the capture ends when the guard is garbage-collected.

        Args:
            mode: Whether operations run. Also accepts `ttnn.graph.RunMode`.
            source: What to measure: `"torch"`, or `"ttnn"` with its graph captures. By default, the library
                that the program has imported, or else one that is installed; ttnn takes precedence.
            device: The PyTorch device to measure. By default, the available accelerator, or the CPU.

        Raises:
            RuntimeError: A capture is already running, or the existing phases were captured in another mode
                or on another device.
            ModuleNotFoundError: Neither PyTorch nor ttnn is installed.

        """
        estimated = _run_mode(mode) is RunMode.NO_DISPATCH
        found = _source(source, device, estimated=estimated)
        return ScopeGuard(_captures.begin(estimated=estimated, source=found))

    @staticmethod
    def snapshot(name: str) -> None:
        """Ends the current phase, names it, and begins the next. Names may repeat."""
        _captures.snapshot(name)

    @staticmethod
    def end_capture(name: str = DEFAULT_TRACE_NAME) -> None:
        """Ends the last phase and the capture."""
        _captures.end(name)

    @staticmethod
    def clear() -> None:
        """Removes all phases and ends a running capture."""
        _captures.clear()

    @staticmethod
    def is_capturing() -> bool:
        """Whether a capture is running."""
        return _captures.usage.is_capturing

    @staticmethod
    def memory_usage_text() -> str:
        """Returns the text that `print_memory_usage` prints."""
        text = _captures.usage.text()
        if not _captures.is_estimated or not _captures.usage.phases():
            return text
        return text + ESTIMATED + _assumed_text(_captures.warnings())

    @staticmethod
    def print_memory_usage(file: TextIO | None = None) -> None:
        """Prints the numbers of all phases; with ttnn, in the format of tt-train's tracker."""
        out = sys.stdout if file is None else file
        out.write(MemoryUsageTracker.memory_usage_text())
        out.flush()

    @staticmethod
    def get_dram_usage(name: str) -> DRAMUsage:
        """Returns a phase's device memory use. Raises `LookupError` unless exactly one phase has the name."""
        return DRAMUsage(*_captures.usage.dram(name))

    @staticmethod
    def get_l1_usage(name: str) -> L1UsagePerCore:
        """Returns a phase's L1 use per core. Raises `LookupError` unless exactly one phase has the name."""
        return L1UsagePerCore(*_captures.usage.l1(name))

    @staticmethod
    def get_dram_usage_all() -> list[tuple[str, DRAMUsage]]:
        """Returns the device memory use of all phases, in order."""
        return [(name, DRAMUsage(*dram)) for name, dram, _ in _captures.usage.phases()]

    @staticmethod
    def get_l1_usage_all() -> list[tuple[str, L1UsagePerCore]]:
        """Returns the L1 use per core of all phases, in order."""
        return [(name, L1UsagePerCore(*l1)) for name, _, l1 in _captures.usage.phases()]

    @staticmethod
    def get_trace_names() -> list[str]:
        """Returns the names of the phases, in order. Names may repeat."""
        return [name for name, _, _ in _captures.usage.phases()]

    @staticmethod
    def get_warnings() -> list[str]:
        """Returns the lines of the program whose values NO_DISPATCH captures had to assume.

        Each names the file and line, what was assumed, and how a real run may differ.
        """
        return _captures.warnings()

    @staticmethod
    def record_to(path: str | os.PathLike[str]) -> None:
        """Records later captures to a `.ttmem` file: their phases, without tensors. Removes existing phases.

        Raises:
            RuntimeError: A capture is running.
            OSError: The file cannot be created.

        """
        _captures.usage.record_to(os.fspath(path))

    @staticmethod
    def finish() -> None:
        """Completes the recording, if there is one; raises the error that ended it early."""
        _captures.usage.finish()


def _assumed_text(warnings: list[str]) -> str:
    if not warnings:
        return ""
    lines = [f"  {warning}\n" for warning in warnings[:MAX_WARNINGS]]
    if len(warnings) > MAX_WARNINGS:
        lines.append(f"  and {len(warnings) - MAX_WARNINGS} more (get_warnings() returns all)\n")
    return ASSUMED + "".join(lines)


def memory_snapshot(x: torch.Tensor, fwd_label: str, bwd_label: str) -> torch.Tensor:
    """Ends a phase here in the forward pass, and another in the backward pass. Returns the tensor.

    Does nothing outside a capture and in compiled code.
    """
    from ttmem._torch.snapshots import snapshotted

    return snapshotted(x, fwd_label, bwd_label)


def snapshot_if_capturing(name: str) -> None:
    """Ends the current phase if a capture is running."""
    with _captures.lock:
        if _captures.usage.is_capturing:
            _captures.snapshot(name)


def tracker_ends(mode: object) -> None:
    """Installs the capture's own hooks if it reuses those of the memory tracker, which is about to stop."""
    with _captures.lock:
        lose = getattr(_captures.source, "lose", None)
        if lose is not None:
            lose(mode, _captures.usage)


def _run_mode(mode: object) -> RunMode:
    if isinstance(mode, RunMode):
        return mode
    try:
        return RunMode[str(getattr(mode, "name", mode))]
    except KeyError:
        msg = f"invalid mode {mode!r}: expected RunMode.NORMAL or RunMode.NO_DISPATCH"
        raise ValueError(msg) from None


def _source(name: str | None, device: str | torch.device | int | None, *, estimated: bool) -> Source:
    if name is None:
        name = "torch" if device is not None else _likely_source()
    if name == "ttnn":
        if device is not None:
            msg = "device is only supported for PyTorch: ttnn captures cover all devices that ttnn uses"
            raise ValueError(msg)
        from ttmem._ttnn import GraphCaptures

        return GraphCaptures(estimated=estimated)
    if name != "torch":
        msg = f"invalid source {name!r}: expected 'torch' or 'ttnn'"
        raise ValueError(msg)
    try:
        from ttmem._torch.phases import Phases
    except ModuleNotFoundError as error:
        if error.name == "torch":
            msg = "MemoryUsageTracker needs PyTorch or ttnn: neither is installed; run `pip install torch`"
            raise ModuleNotFoundError(msg, name="torch") from error
        raise
    return Phases(device, estimated=estimated)


def _likely_source() -> SourceName:
    """Returns the library that the program has imported, or else one that is installed."""
    for name in SOURCES:
        if name in sys.modules:
            return name
    return "ttnn" if importlib.util.find_spec("ttnn") is not None else "torch"
