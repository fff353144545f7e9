"""The memory tracker: records the memory of a PyTorch program while it runs.

    >>> import ttmem
    >>> ttmem.initialize_memory_tracker(output_dir="./profiles")
    >>> with ttmem.get_memory_tracker().track_operation("model_forward"):
    ...     output = model(batch)
    >>> ttmem.stop_memory_tracker()

Events are written to a recording (`memory_profile_….ttmem`) as they happen, which `ttmem` reads. Stopping the
tracker also writes a JSON profile from it. While no tracker runs, each function here costs only a call.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ttmem import _host, _launch
from ttmem._children import is_quiet_fork, untracked_forks
from ttmem._native import Error, memory_size
from ttmem._native import save_memory_profile as save

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    import torch

    from ttmem._native import Call
    from ttmem._torch.allocators import CachingAllocator
    from ttmem._torch.holders import Holder
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
"""Maximum total size of a recording's files. Stopping the tracker reads the newest file completely."""
MIN_LIMIT = MIB
NOT_TRACKED = (
    "scratch memory that operations such as convolutions allocate and free while they run; "
    "use level ops to track it"
)
logger = logging.getLogger("ttmem")
# Held while a call is removed from a list that threads share. Reentrant: a signal handler may interrupt.
_taking = threading.RLock()


class Nothing:
    """The checkpoint of a disabled tracker: does nothing."""

    __slots__ = ()

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


NOTHING = Nothing()


class Operation:
    """A named operation of the program: a context manager and a decorator."""

    __slots__ = ("_calls", "_mode", "_name")

    _calls: list[tuple[int, Call | None]]

    def __init__(self, mode: Mode | None, name: str) -> None:
        self._mode = mode
        self._name = name
        # Can be entered recursively, and by several threads.
        self._calls = []

    def __enter__(self) -> Operation:
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
        mode = self._mode
        if mode is not None and not _is_compiling() and self._calls:
            call = self._last_here()
            if call is not None:
                mode.end(call)
            if mode.turn is not None:
                mode.turn()

    def _last_here(self) -> Call | None:
        """Removes this thread's latest call, or the latest of any thread: a task may change threads."""
        with _taking:
            if not self._calls:
                return None
            here = [at for at, (thread, _) in enumerate(self._calls) if thread == threading.get_ident()]
            _, call = self._calls.pop(here[-1] if here else -1)
        return call

    def __call__(self, function: F) -> F:
        """Wraps a function so that each call is this operation, in the tracker that runs at that time."""
        from ttmem._decorated import decorated

        name = self._name
        return decorated(function, lambda: _tracker.track_operation(name))


class Idle(Operation):
    """The operation of a disabled tracker: does nothing."""

    __slots__ = ()

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        pass


# Reused by name: creating an object takes longer than everything else a disabled tracker does.
_idle: dict[str, Idle] = {}
MAX_IDLE = 1024


def _idle_of(name: str) -> Idle:
    idle = Idle(None, name)
    if len(_idle) < MAX_IDLE and isinstance(name, str):
        _idle[name] = idle
    return idle


def _never() -> bool:
    return False


# `torch.compiler.is_compiling` while a tracker runs: compiled code has no operations inside.
_is_compiling: Callable[[], bool] = _never


class Checkpoint:
    """A recorded checkpoint. As a context manager, it records another one at the end of the block."""

    __slots__ = ("_holders", "_name", "_tracker")

    def __init__(self, tracker: MemoryTracker, name: str, *, holders: bool) -> None:
        self._tracker = tracker
        self._name = name
        self._holders = holders

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # An exception must not wait for a search.
        holders = self._holders and kind is None
        self._tracker._checkpoint(self._name, " (end)", holders=holders)


class MemoryTracker:
    """Records the memory of a PyTorch program.

    One tracker runs at a time; `initialize_memory_tracker` creates and starts it. Its errors never reach the
    program: the first one is logged, and all are counted in `get_summary()["errors"]`.

    Attributes:
        output_dir: Folder of the recording and the profile.
        enabled: Whether `start` does anything.
        interval: Seconds between snapshots.
        level: `"phases"`, `"tensors"` or `"ops"`.
        limit: Maximum total size of the recording's files in bytes; `None` is unlimited.
        recording: Path of the recording; `None` before `start`.
        announces: Whether to print the path of the recording when the program ends.
        forks: Number of forked child processes, which are not tracked, without workers of data loaders.

    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] = ".",
        enabled: bool = True,
        interval: float = 5.0,
        level: Level = "tensors",
        limit: int | str | None = DEFAULT_LIMIT,
    ) -> None:
        """Checks the options. Nothing is tracked before `start`."""
        if interval <= 0:
            msg = f"interval is {interval}: expected more than 0 seconds"
            raise ValueError(msg)
        if level not in ("phases", "tensors", "ops"):
            msg = f"level is {level!r}: expected 'phases', 'tensors' or 'ops'"
            raise ValueError(msg)
        self.output_dir = os.fspath(output_dir)
        self.enabled = enabled
        self.interval = interval
        self.level = level
        self.limit = _limit(limit)
        self.recording: str | None = None
        self.announces = False
        self.forks = 0
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
        """Starts tracking. Does nothing if the tracker is disabled or already runs."""
        global _is_compiling
        if not self.enabled or self._mode is not None:
            return
        from ttmem._failures import Uncaught
        from ttmem._signals import Ending

        mode_of = _torch_parts()
        # Absolute, because the program may change its working directory.
        folder = os.path.abspath(self.output_dir)
        os.makedirs(folder, exist_ok=True)
        stamp = time.strftime("%Y%m%d_%H%M%S")
        rank = _launch.rank()
        name = f"memory_profile_{stamp}" if rank is None else f"memory_profile_rank{rank}_{stamp}"
        self.recording = _taken(os.path.join(folder, name))
        mode = self._mode = mode_of.Mode(self.recording, self.limit)
        _guarded(mode, functools.partial(_launch.record, mode, mode_of.torch))
        _is_compiling = mode_of.torch.compiler.is_compiling
        self._ended.clear()
        self._open_allocators(mode)
        _guarded(mode, functools.partial(self._record_capacity, mode))
        if self.level == "phases":
            mode.only_counters()
        else:
            self._watch(mode)
        ending = Ending(self._terminated, save_memory_profile)
        uncaught = Uncaught(mode.ended_by, mode_of.libraries(), self._holders_at_end, mode.failed)
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
                allocator.at_start = functools.partial(self._leave_to, allocator, mode)
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
            mode.not_watched("cpu", NOT_TRACKED)

    def _record_capacity(self, mode: Mode) -> None:
        """Records how much memory the process may use. CPU tensors are a part of it."""
        capacity = _host.capacity()
        pools = {name for name, *_ in mode.figures()}
        for pool in ("cpu", "host"):
            if capacity is not None and (pool == "host" or pool in pools):
                mode.reading(pool, capacity=capacity)

    def _leave_to(self, allocator: CachingAllocator, mode: Mode) -> None:
        """Switches to the history of an allocator, which has just begun."""
        from ttmem._torch.mode import leave_to_allocators

        if mode.sees_operations:
            mode.warn(
                f"CPU tensors created after the first {allocator.kind.upper()} call are not tracked "
                "(tracking them would slow the program down)"
            )
        leave_to_allocators(mode)
        self._choose_details(mode)

    def _choose_details(self, mode: Mode) -> None:
        """Leaves out the details of repeated iterations, if an allocator has a history for the rest."""
        with_history = [allocator for allocator in self._allocators if allocator.has_history]
        if self._modules is None or self.level != "tensors" or len(with_history) != 1:
            return
        (allocator,) = with_history
        if allocator.is_ours and self._modules.details is None:
            from ttmem._torch.details import Details

            self._modules.details = Details(mode, self._modules, allocator)

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
        untracked = threads.open()
        if untracked and mode.sees_operations:
            mode.warn(
                "threads started before the tracker are not tracked, so CPU tensors they allocate are not "
                "counted: " + ", ".join(sorted(untracked))
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
        self._choose_details(mode)

    def stop(self) -> str:
        """Stops tracking and saves the profile. Returns its path; `""` if nothing was tracked or saved."""
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
        if self.forks:
            mode.warn(untracked_forks(self.forks))
        self._look_at_failure(mode)
        try:
            mode.finish()
        except (OSError, Error) as error:
            logger.warning("%s is incomplete: %s", self.recording, error)
        self._stopped = self._save_json()
        if interrupt is not None:
            raise interrupt
        return self._stopped

    def _terminated(self) -> None:
        """Stops before SIGTERM ends the program, which then runs no `atexit` functions."""
        if stop_memory_tracker() and self.announces and sys.stderr is not None:
            # Not `sys.stderr.write`, which the signal may have interrupted.
            with contextlib.suppress(OSError, ValueError):
                os.write(sys.stderr.fileno(), f"ttmem: {self.recording}\n".encode())

    def track_operation(self, name: str) -> Operation:
        """Names an operation of the program, as a context manager or decorator.

        As a decorator, it also supports coroutines and generators.
        """
        mode = self._mode
        if mode is not None:
            if _is_compiling():
                # Older versions of Dynamo only support a new object of a simple class in `with`.
                return Nothing()  # type: ignore[return-value]
            return Operation(mode, name)
        try:
            return _idle[name]
        except (KeyError, TypeError):
            return _idle_of(name)

    def checkpoint(self, name: str, *, holders: bool = False) -> Checkpoint | Nothing:
        """Records the memory in use now, under a name; as a context manager, also at the end of the block.

        Args:
            name: The name of the checkpoint.
            holders: Whether to search for what keeps each tensor alive, and record it. The search takes up to
                5 seconds of processor time, and 200 bytes for each of up to 5 million objects.

        """
        if self._mode is None or _is_compiling():
            return NOTHING
        self._checkpoint(name, holders=holders)
        return Checkpoint(self, name, holders=holders)

    def track_pytorch_ops(self) -> AbstractContextManager[object]:
        """Profiles the operations of a block with PyTorch's profiler: calls, times, shapes and memory."""
        if self._mode is None or _is_compiling() or self.level == "ops":
            # Only one profiler can run, and level ops already uses it.
            return NOTHING
        from ttmem._torch.profiled import profiled

        return profiled(self._mode)

    def label(self, tensors: object, class_: str, name: str | None = None) -> None:
        """Sets the class of tensors: `tracker.label(cache, "kv_cache")`.

        Args:
            tensors: A tensor, or a container or object with tensors inside.
            class_: One of ttmem's tensor classes.
            name: The name to show; tensors in a container get `name` and their path inside it.

        Raises:
            ValueError: The class does not exist.

        """
        if self._mode is not None:
            from ttmem._torch.labels import label

            # An invalid class raises. Errors while searching the objects do not.
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
        """Sets the expected size of tensor classes; `ttmem summary` compares it with the measured size.

        A later call for the same class replaces the earlier one.

        Args:
            params: Number of parameters of the model, with elements of `dtype`.
            dtype: Element type of the parameters.
            kv_pages: Number of pages in the KV cache, in each layer, for keys and for values.
            page_size: Tokens per page.
            layers: Number of layers.
            kv_heads: Key-value heads per layer.
            head_dim: Elements per head.
            kv_dtype: Element type of the KV cache; `dtype` by default.
            **sizes: Sizes of other classes: `tracker.expect(gradient="2.3GiB")`.

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
        """Registers the names of a model's modules now, instead of at its first call."""
        if self._modules is not None and self._mode is not None:
            _guarded(self._mode, functools.partial(self._modules.learn, model))

    def save(self) -> str:
        """Saves the profile recorded so far and continues tracking. Returns its path."""
        if self._mode is None:
            return self._stopped or ""
        for allocator in self._allocators:
            _guarded(self._mode, allocator.drain)
        self._mode.flush()
        return self._save_json(is_running=True)

    def get_summary(self) -> dict[str, Any]:
        """Returns current and peak memory, in total and per device; `{"enabled": False}` if not tracking."""
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

    def _checkpoint(self, name: object, end: str = "", *, holders: bool = False) -> None:
        mode = self._mode
        if mode is not None:
            # Formatting `name` may raise: it can be any object.
            _guarded(mode, lambda: self._snapshot(f"{name}{end}"))
            # At level phases, there are no tensors to record it for.
            if holders and mode.is_on and self.level != "phases":
                from ttmem._torch.holders import record_holders

                _guarded(mode, lambda: record_holders(mode.held_by, mode.warn))

    def _holders_at_end(self, trace: TracebackType | None, is_printed: bool) -> list[Holder]:
        """Records what keeps tensors alive when memory has run out, by a search that takes little memory."""
        from ttmem._torch.holders import MAX_OBJECTS_AT_END, record_holders

        mode = self._mode
        has_tensors = self.level != "phases"
        if mode is None or not (has_tensors or is_printed):
            return []
        # The system may end the program during the search.
        mode.flush()

        def record(rows: list[tuple[object, str]]) -> None:
            # If this fails, the holders are printed nevertheless.
            if has_tensors:
                _guarded(mode, lambda: mode.held_by(rows))

        def warn(message: str) -> None:
            if has_tensors:
                mode.warn(message)

        return record_holders(record, warn, trace=trace, max_objects=MAX_OBJECTS_AT_END)

    def _look_at_failure(self, mode: Mode) -> None:
        """Warns once when the recording can no longer be written."""
        failure = mode.failure
        if failure is not None and self._failure is None:
            self._failure = failure
            logger.warning("%s (get_memory_summary() stays up to date)", failure)

    def _sample(self) -> None:
        self._snapshot(None)

    def _sample_on(self) -> None:
        while not self._ended.wait(self.interval):
            self._sample()

    def _read(self, mode: Mode) -> None:
        """Records the counters."""
        resident = _host.resident_bytes()
        if resident is not None:
            mode.reading("host", allocated=resident)
        for allocator in self._allocators:
            allocator.sample()
        if self._modules is not None and self._modules.details is not None:
            _guarded(mode, self._modules.details.look)

    def _forked(self) -> None:
        """Stops tracking in a forked child: the recording belongs to the parent."""
        mode, self._mode = self._mode, None
        if mode is not None:
            from ttmem._torch.mode import uninstall

            mode.abandon()
            for allocator in self._allocators:
                allocator.abandon()
            uninstall(mode)
            parts, self._parts = self._parts, []
            for part in parts:
                # Also removes our signal handler: a child has nothing to save.
                _guarded(mode, part.close)


def _torch_parts() -> Any:
    try:
        from ttmem._torch import mode
    except ModuleNotFoundError as error:
        if error.name == "torch":
            msg = "the memory tracker needs PyTorch, which is not installed; run `pip install torch`"
            raise ModuleNotFoundError(msg, name="torch") from error
        raise
    return mode


def _of_counters(figures: dict[str, int]) -> dict[str, Any]:
    """Converts a device allocator's counters. They do not count tensors."""
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


def _guarded(mode: Mode, do: Callable[[], object]) -> None:
    """Calls one of our own functions; its errors do not reach the program."""
    try:
        do()
    except Exception as error:  # noqa: BLE001 - counted
        mode.failed(error)


def _all_done(mode: Mode, ends: list[Callable[[], object]]) -> BaseException | None:
    """Calls all functions, even if one fails. Returns the exception that interrupted them, such as Ctrl-C."""
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
        # The JSON profile has no other field for it.
        mode.warn(f"the actual peak may be higher; not tracked: {missing}")


def _limit(limit: int | str | None) -> int | None:
    """Parses a limit into bytes; `None` is unlimited."""
    if limit is None or (isinstance(limit, str) and limit.strip().lower() == "none"):
        return None
    try:
        found = memory_size(str(limit))
    except ValueError as error:
        msg = f"limit is {limit!r}: {error}"
        raise ValueError(msg) from error
    if found < MIN_LIMIT:
        msg = f"limit is {limit!r}: expected a size of at least 1MB (such as 200MB) or none"
        raise ValueError(msg)
    return found


def _taken(stem: str) -> str:
    """Creates a new file for a recording: several programs may start in one folder in the same second."""
    path, number = f"{stem}.ttmem", 1
    while not _is_created(path):
        number += 1
        path = f"{stem}_{number}.ttmem"
    return path


def _is_created(path: str) -> bool:
    """Creates a file; False if it already exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True


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
    """Starts the tracker. Stops an earlier one and saves its profile.

    Args:
        output_dir: Folder for the recording and the profile; created if needed.
        enabled: If false, the tracker does nothing.
        interval: Seconds between snapshots.
        level: `"phases"` records only counters, at snapshots and checkpoints; `"tensors"` every tensor
            allocation; `"ops"` also every operation, with PyTorch's profiler.
        limit: Maximum total size of the recording's files, in bytes or as text (`"200MB"`). Beyond it, the
            oldest details are dropped. `None` is unlimited.

    Raises:
        ValueError: `interval`, `level` or `limit` is invalid.
        ModuleNotFoundError: PyTorch is not installed.
        OSError: The recording cannot be created.

    """
    global _tracker
    tracker = MemoryTracker(output_dir, enabled, interval, level, limit)
    # A tracker that waits for the import of PyTorch (`ttmem._start`) would otherwise start as well.
    waiting = sys.modules.get("ttmem._start")
    if waiting is not None:
        waiting.cancel()
    stop_memory_tracker()
    tracker.start()
    _tracker = tracker
    return tracker


def get_memory_tracker() -> MemoryTracker:
    """Returns the tracker that runs, or a disabled one."""
    return _tracker


def memory_checkpoint(name: str, *, holders: bool = False) -> Checkpoint | Nothing:
    """Records the memory in use now, under a name; as a context manager, also at the end of the block.

    Args:
        name: The name of the checkpoint.
        holders: Whether to search for what keeps each tensor alive, and record it. The search takes up to 5
            seconds of processor time, and 200 bytes for each of up to 5 million objects.

    """
    return _tracker.checkpoint(name, holders=holders)


def save_memory_profile() -> str:
    """Saves the profile recorded so far and continues tracking. Returns its path."""
    return _tracker.save()


def get_memory_summary() -> dict[str, Any]:
    """Returns current and peak memory, in total and per device; `{"enabled": False}` if not tracking."""
    return _tracker.get_summary()


def stop_memory_tracker() -> str:
    """Stops the tracker and saves the profile. Returns its path; `""` if no tracker was running."""
    global _tracker
    tracker, _tracker = _tracker, _DISABLED
    return tracker.stop()


def watching() -> Mode | None:
    """Returns the installed dispatch mode, if it tracks every tensor."""
    mode = _tracker._mode
    return mode if mode is not None and _tracker.level == "tensors" and mode.sees_operations else None


def _before_fork() -> None:
    if _tracker._mode is not None and not is_quiet_fork():
        _tracker.forks += 1
    for allocator in _tracker._allocators:
        pause = getattr(allocator, "pause", None)
        if pause is not None and pause():
            _paused.append(allocator)


def _after_fork_here() -> None:
    while _paused:
        _paused.pop().resume()


# Allocators paused during a fork.
_paused: list[Any] = []


def _after_fork() -> None:
    _paused.clear()
    global _taking, _tracker
    # A thread that does not exist in the child may have held it.
    _taking = threading.RLock()
    tracker, _tracker = _tracker, _DISABLED
    tracker._forked()


atexit.register(stop_memory_tracker)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_here, after_in_child=_after_fork)
