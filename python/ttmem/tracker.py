"""The memory tracker: watches a PyTorch program while it runs.

    >>> import ttmem
    >>> ttmem.initialize_memory_tracker(output_dir="./profiles")
    >>> with ttmem.get_memory_tracker().track_operation("model_forward"):
    ...     output = model(batch)
    >>> ttmem.stop_memory_tracker()

Disabled, everything here does nothing, at the cost of a function call. What it sees goes into a recording as
it happens (`memory_profile_….ttmem`), from which all else is made: in the end, or later by `ttmem`.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ttmem._native import Error, memory_size
from ttmem._native import save_memory_profile as save

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    import torch

    from ttmem._native import Call
    from ttmem._torch.inductor import CompiledBuffers
    from ttmem._torch.mode import Mode
    from ttmem._torch.modules import Modules

__all__ = [
    "MemoryTracker",
    "get_memory_summary",
    "get_memory_tracker",
    "initialize_memory_tracker",
    "memory_checkpoint",
    "save_memory_profile",
    "stop_memory_tracker",
]

Level = Literal["phases", "tensors", "ops"]
F = TypeVar("F", bound="Callable[..., Any]")
MIB = 1 << 20
DEFAULT_LIMIT = "256MB"
"""How large the files of a recording become together: the newest is read whole when the tracker stops."""
SMALLEST_LIMIT = MIB
UNSEEN = "memory that operations allocate and free while they run, as convolutions do; level ops measures it"
logger = logging.getLogger("ttmem")
# Held while a call is taken out of a list that threads share. A handler of a signal may come in between.
_taking = threading.RLock()


class Nothing:
    """What a tracker that is disabled gives for a checkpoint: it does nothing."""

    __slots__ = ()

    def __enter__(self) -> Nothing:
        """Begins nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends nothing."""


NOTHING = Nothing()


class Operation:
    """An operation of the program, for `with` or as a decorator."""

    __slots__ = ("_calls", "_mode", "_name")

    _calls: list[tuple[int, Call | None]]

    def __init__(self, mode: Mode | None, name: str) -> None:
        """Which, and who watches."""
        self._mode = mode
        self._name = name
        # One may be entered again while it runs, and by several threads.
        self._calls = []

    def __enter__(self) -> Operation:
        """It begins."""
        mode = self._mode
        if mode is not None and not _is_compiling() and mode.is_on:
            try:
                if mode.is_in_pass and mode.end_interrupted is not None:
                    mode.end_interrupted()
                call = mode.begin(str(self._name), "operation")
            except Exception as error:  # noqa: BLE001 - the program must not see it
                mode.failed(error)
            else:
                self._calls.append((threading.get_ident(), call))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It ends, however that is."""
        mode = self._mode
        if mode is not None and not _is_compiling() and self._calls:
            call = self._last_here()
            if call is not None:
                mode.end(call)
            if mode.turn is not None:
                mode.turn()

    def _last_here(self) -> Call | None:
        """The call that this thread has begun last; where there is none, the last one: a task may move."""
        with _taking:
            if not self._calls:
                return None
            here = [at for at, (thread, _) in enumerate(self._calls) if thread == threading.get_ident()]
            _, call = self._calls.pop(here[-1] if here else -1)
        return call

    def __call__(self, function: F) -> F:
        """The function, every call of which is such an operation, of the tracker that there is then."""
        from ttmem._decorated import decorated

        name = self._name
        return decorated(function, lambda: _tracker.track_operation(name))


class Idle(Operation):
    """An operation of a tracker that is disabled: it does nothing."""

    __slots__ = ()

    def __enter__(self) -> Idle:
        """Begins nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends nothing."""


# One for each name: making an object takes longer than all else that a disabled tracker does.
_idle: dict[str, Idle] = {}
MOST_IDLE = 1024


def _idle_of(name: str) -> Idle:
    idle = Idle(None, name)
    if len(_idle) < MOST_IDLE and isinstance(name, str):
        _idle[name] = idle
    return idle


def _never() -> bool:
    return False


# `torch.compiler.is_compiling`, when there is a tracker: what is compiled has no operations inside.
_is_compiling: Callable[[], bool] = _never


class Checkpoint:
    """A checkpoint that was taken; with `with`, another is taken at the end."""

    __slots__ = ("_name", "_tracker")

    def __init__(self, tracker: MemoryTracker, name: str) -> None:
        """Which."""
        self._tracker = tracker
        self._name = name

    def __enter__(self) -> Checkpoint:
        """It was taken already."""
        return self

    def __exit__(self, *_: object) -> None:
        """What is there in the end."""
        self._tracker._checkpoint(self._name, " (end)")


class MemoryTracker:
    """Watches a program. There is one at a time: `initialize_memory_tracker` makes it."""

    def __init__(
        self,
        output_dir: str | os.PathLike[str] = ".",
        enabled: bool = True,
        interval: float = 5.0,
        level: Level = "tensors",
        limit: int | str | None = DEFAULT_LIMIT,
    ) -> None:
        """Prepares; nothing is watched before `start`."""
        if interval <= 0:
            msg = f"interval is {interval}: it must be more than 0 seconds"
            raise ValueError(msg)
        if level not in ("phases", "tensors", "ops"):
            msg = f"there is no level {level!r}: choose 'phases', 'tensors' or 'ops'"
            raise ValueError(msg)
        self.output_dir = os.fspath(output_dir)
        self.enabled = enabled
        self.interval = interval
        self.level = level
        self.limit = _limit(limit)
        self.recording: str | None = None
        self._mode: Mode | None = None
        self._modules: Modules | None = None
        self._compiled: CompiledBuffers | None = None
        self._parts: list[Any] = []
        self._allocators: list[Any] = []
        self._ended = threading.Event()
        self._sampler: threading.Thread | None = None
        self._stopped: str | None = None
        self._failure: str | None = None

    def start(self) -> None:
        """Begins to watch."""
        global _is_compiling
        if not self.enabled or self._mode is not None:
            return
        from ttmem._failures import Uncaught
        from ttmem._signals import Ending

        mode_of = _torch_parts()
        # Programs go to other folders while they run.
        folder = os.path.abspath(self.output_dir)
        os.makedirs(folder, exist_ok=True)
        stamp = time.strftime("%Y%m%d_%H%M%S")
        self.recording = _taken(os.path.join(folder, f"memory_profile_{stamp}"))
        mode = self._mode = mode_of.Mode(self.recording, self.limit)
        _is_compiling = mode_of.torch.compiler.is_compiling
        self._ended.clear()
        self._open_allocators(mode)
        if self.level == "phases":
            mode.only_counters()
        else:
            self._watch(mode)
        ending = Ending(stop_memory_tracker, save_memory_profile)
        uncaught = Uncaught(mode.ended_by, mode_of.libraries())
        for part in (ending, uncaught):
            part.open()
            self._parts.append(part)
        self._sample()
        self._sampler = threading.Thread(target=self._sample_on, name="ttmem-sampler", daemon=True)
        self._sampler.start()

    def _open_allocators(self, mode: Mode) -> None:
        from ttmem._torch.allocators import CachingAllocator, allocators
        from ttmem._torch.mode import leave_to_allocators

        found = allocators(mode, self.interval, with_history=self.level != "phases")
        self._allocators = [*found]
        for allocator in found:
            if isinstance(allocator, CachingAllocator):
                allocator.at_start = functools.partial(_leave_to, allocator.kind, mode)
            allocator.open()
        if self.level == "ops":
            from ttmem._torch.operations import Operations

            leave_to_allocators(mode)
            operations = Operations(mode)
            operations.open()
            mode.turn = operations.turn
            self._allocators.append(operations)
        if self.level == "tensors" and mode.sees_operations:
            mode.devices(["cpu"])
            mode.not_watched("cpu", UNSEEN)

    def _watch(self, mode: Mode) -> None:
        from ttmem._torch.compiled import StepAside
        from ttmem._torch.inductor import CompiledBuffers
        from ttmem._torch.mode import install
        from ttmem._torch.modules import Modules
        from ttmem._torch.storages import Storages
        from ttmem._torch.threads import Threads
        from ttmem._torch.training import Training

        install(mode)
        threads = Threads(mode)
        unwatched = threads.open()
        if unwatched and mode.sees_operations:
            mode.warn(
                "threads that were there before the tracker are not watched: " + ", ".join(sorted(unwatched))
            )
        modules = self._modules = Modules(mode)
        modules.open()
        training, storages, aside = Training(mode, modules), Storages(mode), StepAside(mode)
        training.open()
        storages.open()
        aside.open()
        compiled = self._compiled = CompiledBuffers(mode)
        compiled.open()
        self._parts = [compiled, aside, storages, training, modules, threads]

    def stop(self) -> str:
        """Ends: the path of the profile that was saved, or an empty text where nothing was watched."""
        mode, self._mode = self._mode, None
        if mode is None:
            return self._stopped or ""
        from ttmem._torch.mode import uninstall

        self._ended.set()
        if self._sampler is not None and self._sampler is not threading.current_thread():
            self._sampler.join(timeout=1.0)
        parts, self._parts = self._parts, []
        usage = sys.modules.get("ttmem.usage")
        ends = [part.close for part in parts]
        if usage is not None:
            ends.append(functools.partial(usage.tracker_ends, mode))
        ends += [functools.partial(self._read, mode), functools.partial(mode.snapshot, "final")]
        ends += [allocator.close for allocator in self._allocators]
        ends += [
            functools.partial(uninstall, mode),
            functools.partial(_report_compiled, mode, self._compiled),
        ]
        interrupt = _all_done(mode, ends)
        self._allocators = []
        self._look_at_failure(mode)
        try:
            mode.finish()
        except (OSError, Error) as error:
            logger.warning("the recording is not whole: %s", error)
        self._stopped = self._save_json()
        if interrupt is not None:
            raise interrupt
        return self._stopped

    def track_operation(self, name: str) -> Operation:
        """An operation of the program, for `with`, or as a decorator: of coroutines and generators, too."""
        mode = self._mode
        if mode is not None:
            if _is_compiling():
                # Older compilers take no other objects for `with` than new ones of such a class.
                return Nothing()  # type: ignore[return-value]
            return Operation(mode, name)
        try:
            return _idle[name]
        except (KeyError, TypeError):
            return _idle_of(name)

    def checkpoint(self, name: str) -> Checkpoint | Nothing:
        """Takes down what is there now, under a name."""
        if self._mode is None or _is_compiling():
            return NOTHING
        self._checkpoint(name)
        return Checkpoint(self, name)

    def track_pytorch_ops(self) -> AbstractContextManager[object]:
        """Has PyTorch's profiler look at the operations of a block: how often, how long, which shapes."""
        if self._mode is None or _is_compiling() or self.level == "ops":
            # There can be one profiler, and at that level it is running.
            return NOTHING
        from ttmem._torch.profiled import profiled

        return profiled(self._mode)

    def label(self, tensors: object, class_: str, name: str | None = None) -> None:
        """Says what tensors are: `tracker.label(cache, "kv_cache")`. They may lie in containers."""
        if self._mode is not None:
            from ttmem._torch.labels import label

            # A class that does not exist is the caller's error; what objects do that are looked into is not.
            self._mode.label((), class_)
            _guarded(self._mode, functools.partial(label, self._mode, tensors, class_, name and str(name)))

    def expect(
        self,
        *,
        params: float | None = None,
        dtype: torch.dtype | str | None = None,
        kv_pages: int | None = None,
        page_size: int | None = None,
        layers: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        kv_dtype: torch.dtype | str | None = None,
        **sizes: int | str,
    ) -> None:
        """Says what classes should take: `ttmem summary` holds it against what they did take.

        Weights are `params` of `dtype`. A KV cache is keys and values of `kv_pages` of `page_size` tokens, in
        each of `layers`, with `kv_heads` of `head_dim` elements of `kv_dtype`, or else of `dtype`. Any other
        class has a size: `tracker.expect(gradient="2.3GiB")`. The last word on a class counts.
        """
        if self._mode is not None:
            model = {
                "params": params,
                "dtype": dtype,
                "kv_pages": kv_pages,
                "page_size": page_size,
                "layers": layers,
                "kv_heads": kv_heads,
                "head_dim": head_dim,
                "kv_dtype": kv_dtype,
            }
            words = [(key, str(value)) for key, value in {**model, **sizes}.items() if value is not None]
            self._mode.expect(words)

    def track_model_with_hooks(self, model: torch.nn.Module) -> None:
        """Learns the names of a model's parts now; without, they are learned when it is first called."""
        if self._modules is not None and self._mode is not None:
            _guarded(self._mode, functools.partial(self._modules.learn, model))

    def save(self) -> str:
        """Saves the profile so far, and goes on: its path."""
        if self._mode is None:
            return self._stopped or ""
        for allocator in self._allocators:
            _guarded(self._mode, allocator.drain)
        self._mode.flush()
        return self._save_json(is_running=True)

    def get_summary(self) -> dict[str, Any]:
        """What is there now, and the most that was."""
        mode = self._mode
        if mode is None:
            return {"enabled": False}
        devices = {
            name: {
                "total_bytes": now,
                "total_mb": now / MIB,
                "peak_bytes": peak,
                "peak_mb": peak / MIB,
                "count": count,
                "allocations": allocations,
            }
            for name, now, peak, count, allocations in mode.figures()
            if name != "host"
        }
        for allocator in self._allocators:
            for name, figures in allocator.figures().items():
                devices[name] = _of_counters(figures)
        self._look_at_failure(mode)
        total, peak = (
            sum(device[key] or 0 for device in devices.values()) for key in ("total_bytes", "peak_bytes")
        )
        return {
            "enabled": True,
            "recording": self.recording,
            "total_bytes": total,
            "current_memory_mb": total / MIB,
            "peak_memory_mb": peak / MIB,
            "tensor_count": sum(device["count"] or 0 for device in devices.values()),
            "devices": devices,
            "errors": mode.errors,
            "failure": mode.failure,
        }

    def _save_json(self, *, is_running: bool = False) -> str:
        if self.recording is None:
            return ""
        try:
            return save(self.recording, is_running=is_running)
        except (OSError, Error) as error:
            logger.warning("the profile was not saved: %s", error)
            return ""

    def _snapshot(self, name: str | None) -> None:
        mode = self._mode
        if mode is not None and mode.is_on:
            self._look_at_failure(mode)
            self._read(mode)
            mode.snapshot(name)

    def _checkpoint(self, name: object, end: str = "") -> None:
        mode = self._mode
        if mode is not None:
            # A name may be anything, also something that cannot be written.
            _guarded(mode, lambda: self._snapshot(f"{name}{end}"))

    def _look_at_failure(self, mode: Mode) -> None:
        """Says once that the recording is not written any more."""
        failure = mode.failure
        if failure is not None and self._failure is None:
            self._failure = failure
            logger.warning("%s (the figures of the tracker go on)", failure)

    def _sample(self) -> None:
        self._snapshot(None)

    def _sample_on(self) -> None:
        while not self._ended.wait(self.interval):
            self._sample()

    def _read(self, mode: Mode) -> None:
        """Takes counters down."""
        resident = _resident_bytes()
        if resident is not None:
            mode.reading("host", allocated=resident)
        for allocator in self._allocators:
            allocator.sample()

    def _forked(self) -> None:
        """In a child, nothing is watched: the recording is the parent's."""
        mode, self._mode = self._mode, None
        if mode is not None:
            from ttmem._torch.mode import uninstall

            mode.abandon()
            for allocator in self._allocators:
                allocator.abandon()
            uninstall(mode)
            parts, self._parts = self._parts, []
            for part in parts:
                # A child may be ended as it could be without: it has nothing to save.
                _guarded(mode, part.close)


def _torch_parts() -> Any:
    try:
        from ttmem._torch import mode
    except ModuleNotFoundError as error:
        if error.name == "torch":
            msg = "the memory tracker watches PyTorch, which is not installed here: pip install torch"
            raise ModuleNotFoundError(msg, name="torch") from error
        raise
    return mode


def _of_counters(figures: dict[str, int]) -> dict[str, Any]:
    """What an allocator's own counters say of a device. It does not count tensors."""
    now, peak = figures["allocated"], figures["peak"]
    return {
        "total_bytes": now,
        "total_mb": now / MIB,
        "peak_bytes": peak,
        "peak_mb": peak / MIB,
        "active_bytes": figures["active"],
        "reserved_bytes": figures["reserved"],
        "requested_bytes": figures["requested"],
        "count": None,
        "allocations": figures["allocations"],
    }


def _leave_to(kind: str, mode: Mode) -> None:
    from ttmem._torch.mode import leave_to_allocators

    if mode.sees_operations:
        mode.warn(
            f"from when the program used {kind}, new tensors of the processor are not watched: that would "
            "take more time than all else"
        )
    leave_to_allocators(mode)


def _guarded(mode: Mode, do: Callable[[], object]) -> None:
    """Does something of ours: the program must not see an error of it."""
    try:
        do()
    except Exception as error:  # noqa: BLE001 - it is counted
        mode.failed(error)


def _all_done(mode: Mode, ends: list[Callable[[], object]]) -> BaseException | None:
    """Does several things, whatever happens in one of them. What interrupted it, if anything."""
    interrupt: BaseException | None = None
    for end in ends:
        try:
            _guarded(mode, end)
        except BaseException as error:  # noqa: BLE001, PERF203 - the caller raises it again
            interrupt = error
    return interrupt


def _report_compiled(mode: Mode, buffers: CompiledBuffers | None) -> None:
    missing = buffers.missing() if buffers is not None and mode.sees_operations else None
    if missing is not None:
        mode.not_watched("cpu", missing)
        # The older tool's keys have no place for it but the warnings.
        mode.warn(f"not tracked, so the real peak may be higher: {missing}")


def _limit(limit: int | str | None) -> int | None:
    """The bytes that a recording may have; none where there is no limit."""
    if limit is None or (isinstance(limit, str) and limit.strip().lower() == "none"):
        return None
    try:
        found = memory_size(str(limit))
    except ValueError as error:
        msg = f"limit is {limit!r}: {error}"
        raise ValueError(msg) from error
    if found < SMALLEST_LIMIT:
        msg = f"limit is {limit!r}: a recording needs at least 1MB (none: as much as it takes)"
        raise ValueError(msg)
    return found


def _taken(stem: str) -> str:
    """A file for a recording that nobody else has: programs may begin in one folder in the same second."""
    path, number = f"{stem}.ttmem", 1
    while not _is_created(path):
        number += 1
        path = f"{stem}_{number}.ttmem"
    return path


def _is_created(path: str) -> bool:
    """Makes a file, unless there is one."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True


def _resident_bytes() -> int | None:
    """What the process has in memory, as the system counts it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


_DISABLED = MemoryTracker(enabled=False)
_tracker = _DISABLED


def initialize_memory_tracker(
    output_dir: str | os.PathLike[str] = ".",
    enabled: bool = True,
    interval: float = 5.0,
    *,
    level: Level = "tensors",
    limit: int | str | None = DEFAULT_LIMIT,
) -> MemoryTracker:
    """Begins to watch the program. An earlier tracker is stopped, and its profile saved."""
    global _tracker
    tracker = MemoryTracker(output_dir, enabled, interval, level, limit)
    # One that waits for the import of PyTorch would start right now, beside this one.
    waiting = sys.modules.get("ttmem._start")
    if waiting is not None:
        waiting.cancel()
    stop_memory_tracker()
    tracker.start()
    _tracker = tracker
    return tracker


def get_memory_tracker() -> MemoryTracker:
    """The tracker: one that is disabled, where none was initialized."""
    return _tracker


def memory_checkpoint(name: str) -> Checkpoint | Nothing:
    """Takes down what is there now, under a name. With `with`, also what is there in the end."""
    return _tracker.checkpoint(name)


def save_memory_profile() -> str:
    """Saves the profile so far, and goes on: its path."""
    return _tracker.save()


def get_memory_summary() -> dict[str, Any]:
    """What is there now, and the most that was."""
    return _tracker.get_summary()


def stop_memory_tracker() -> str:
    """Stops the tracker and saves the profile: its path, or an empty text where there was no tracker."""
    global _tracker
    tracker, _tracker = _tracker, _DISABLED
    return tracker.stop()


def watching() -> Mode | None:
    """The watcher that is installed, where tensors are watched."""
    mode = _tracker._mode
    return mode if mode is not None and _tracker.level == "tensors" and mode.sees_operations else None


def _before_fork() -> None:
    for allocator in _tracker._allocators:
        pause = getattr(allocator, "pause", None)
        if pause is not None and pause():
            _paused.append(allocator)


def _after_fork_here() -> None:
    while _paused:
        _paused.pop().resume()


# What was stopped for a fork.
_paused: list[Any] = []


def _after_fork() -> None:
    _paused.clear()
    global _taking, _tracker
    # Another thread may have held it, and is not in the child.
    _taking = threading.RLock()
    tracker, _tracker = _tracker, _DISABLED
    tracker._forked()


atexit.register(stop_memory_tracker)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_after_fork)
