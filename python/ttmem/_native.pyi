"""The native module, implemented in `crates/ttmem-py`."""

import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, TypedDict, final

import torch
from typing_extensions import Self, disjoint_base

__all__ = [
    "Call",
    "Error",
    "Forward",
    "History",
    "NoMemoryData",
    "Operations",
    "Profile",
    "UnknownFormat",
    "Usage",
    "Watch",
    "__version__",
    "check_output",
    "export",
    "load",
    "memory_size",
    "save_memory_profile",
    "tracker_settings",
    "tt_memory_profiler",
    "ttmem",
    "write_output",
]

__version__: str

class Error(Exception):
    """An error of ttmem. Its text is the error message of the `ttmem` command."""

    exit_code: int
    """Exit code of the `ttmem` command: 2, 4 for no memory data, 70 for a bug in ttmem."""

class UnknownFormat(Error):
    """The format of a file is not recognized, or `format` names no reader."""

class NoMemoryData(Error):
    """The file has a known format but no memory data; the message names the missing setting."""

class _Warning(TypedDict):
    file: str
    line: int | None
    message: str

@final
class Profile:
    """The memory profile of a run, read by `load`."""

    @property
    def format(self) -> str:
        """The name of the input's format, as listed by `ttmem formats`."""

    @property
    def warnings(self) -> list[_Warning]:
        """Problems found while reading. Warnings about the whole file have the `line` None."""

    def summary(
        self,
        *,
        run: int | str | None = None,
        rank: int | str | None = None,
        process: int | str | None = None,
        top: int | None = None,
        at: int | None = None,
        expect: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Returns the summary: the object that `ttmem summary --json` prints (docs/json.md).

        Sizes are in bytes. An unknown value is None, never 0.

        Args:
            run: Program runs to include: `"all"`, those of the last pass (`"last"`), or a run
                number, starting at 1.
            rank: The rank: `0` or `"1,0"`.
            process: Processes to include if several wrote to one log: `"all"`, or a process number,
                starting at 1.
            top: Maximum number of rows in each list.
            at: A step: `at` in the result describes the memory in use before it.
            expect: Expected sizes of tensor classes, as for `ttmem summary --expect`:
                `{"params": 1_235_814_400, "dtype": "bf16"}`. `expected` in the result has the comparison.

        Raises:
            Error: The run or rank does not exist, or `expect` is empty.
            ValueError: `run`, `process` or `expect` is invalid.

        """

    def memory_map(self, at: int | None = None, *, rank: int = 0) -> dict[str, Any]:
        """Returns the buffers of every pool with their addresses (docs/json.md).

        Args:
            at: A step: the result describes the memory in use before it. By default, the end.
            rank: The index of the rank in `summary()["ranks"]`.

        Raises:
            Error: The step or rank does not exist.

        """

    def diff(self, after: Profile, *, rank: int | str | None = None) -> dict[str, Any]:
        """Returns what changed between this profile and another one (docs/diff.md).

        It is the object that `ttmem diff --json` prints.

        Args:
            after: The second profile, of the same kind of device.
            rank: The rank: `0` or `"1,0"`. By default, all.

        Raises:
            Error: The profiles cannot be compared, or the rank does not exist.

        """

    def growth(self, *, rank: int = 0) -> dict[str, Any] | None:
        """Returns whether memory grows from iteration to iteration, and what stays (docs/growth.md).

        It is the object `growth` of a rank in `summary()`.

        Args:
            rank: The index of the rank in the file.

        Returns:
            None if fewer than six iterations are known.

        Raises:
            Error: The rank does not exist.

        """

    def check(
        self,
        limits: dict[str, Any] | None = None,
        *,
        baseline: Profile | None = None,
        rank: int | str | None = None,
        run: int | str | None = None,
    ) -> dict[str, Any]:
        """Compares the profile with limits (docs/check.md).

        It is the object that `ttmem check --json` prints: `result` is `"passed"`, `"failed"` or `"unknown"`.

        Args:
            limits: The limits by name: `{"cuda:0": "40GiB", "headroom.L1": "32KiB", "fail-over": "5%"}`.
            baseline: A profile whose peaks must not be exceeded by more than `fail-over`.
            rank: The rank: `0` or `"1,0"`. By default, all.
            run: The runs: `"all"`, `"last"` or a number.

        Raises:
            ValueError: A limit is invalid, or there is none.
            Error: The profiles cannot be compared, or the rank does not exist.

        """

    def replay(self, *, rank: int = 0) -> dict[str, Any]:
        """Replays all allocations with ttmem's model of tt-metal's allocator (docs/json.md).

        Returns how many allocations have a known address, how many of them get the same address, and the
        first one that does not.

        Args:
            rank: The index of the rank in `summary()["ranks"]`.

        Raises:
            Error: The rank does not exist.

        """

    def markdown(self, *, budget: int | None = None, top: int | None = None) -> str:
        """Returns the summary as Markdown, as printed by `ttmem summary --markdown`."""

    def report(self, directory: str | os.PathLike[str], name: str | None = None, force: bool = False) -> Path:
        """Writes a report into a folder; returns the path of its page.

        Args:
            directory: The folder; created if needed.
            name: Prefix of the file names; the name of the input by default.
            force: Replaces an existing report of that name.

        Raises:
            FileExistsError: A report of that name already exists.
            OSError: The report cannot be written.

        """

def export(
    inputs: list[str],
    dataset: str,
    *,
    run: str | None,
    labels: list[tuple[str, str]],
    host: str | None,
    format: str | None,
) -> tuple[int, int, int]:
    """Exports inputs as tables, for `ttmem.export`.

    Returns the number of ranks, of rows, and of files that could not be read.
    """

def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    estimate: str | os.PathLike[str] | None = None,
) -> Profile:
    """Reads a log, a capture, a recording, a profile, or a report folder.

    Other Python threads keep running meanwhile. Ctrl-C cancels it.

    Args:
        path: The file or folder; `"-"` is standard input. May be compressed with gzip or zstd.
        format: Name of the reader to use, instead of detecting the format.
        estimate: A capture of the same program with `RunMode.NO_DISPATCH`. It completes a capture of a run.

    Raises:
        UnknownFormat: The format is not recognized.
        NoMemoryData: The file has no memory data.
        Error: The file is empty or corrupt, or contains a mix of ranks.
        OSError: The file cannot be read (`FileNotFoundError`, for example).

    """

def memory_size(text: str) -> int:
    """Parses a size such as `200MB` into bytes.

    Raises:
        ValueError: The text is not a size.

    """

def ttmem(words: list[str], again: list[str]) -> int:
    """Runs the command `ttmem`; returns its exit code. `again` is the command line that starts it again."""

def tt_memory_profiler(words: list[str], again: list[str]) -> int:
    """Runs the command `tt-memory-profiler`; returns its exit code."""

def check_output(path: str, *, force: bool) -> None:
    """Checks that a command may write a file.

    Raises:
        Error: The file exists, ttmem did not write it, and `force` is not set. Or it is a log, a recording
            or a profile.

    """

def write_output(path: str, content: str, *, force: bool) -> None:
    """Checks and writes a file. If that fails, an existing file stays as it was.

    Raises:
        Error: As for `check_output`.
        OSError: The file cannot be written.

    """

class _Settings(TypedDict):
    enabled: bool
    output_dir: str
    interval: float
    level: Literal["phases", "tensors", "ops"]
    limit: str
    problems: list[str]

def tracker_settings() -> _Settings:
    """Returns the tracker's settings from the environment and the configuration file.

    `problems` lists invalid settings, each with its file and line.
    """

@final
class Call:
    """A call of a scope, held by a context variable."""

@final
class Forward:
    """Enters a scope for the forward pass of every module."""

    def __new__(cls, watch: Watch, models: Any) -> Self:
        """`models` names unknown modules and gets the passes of whole models: `ttmem._torch.modules`."""

    def know(self, module: torch.nn.Module, name: str, is_model: bool) -> None:
        """Sets the name of a module."""

    def begins(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Enters the forward pass of a module."""

    def ends(self, module: torch.nn.Module, output: object) -> None:
        """Leaves the forward pass of a module."""

    def begins_alone(self, model: torch.nn.Module) -> None:
        """Enters the forward pass of a model, without looking at its modules."""

    def ends_alone(self, model: torch.nn.Module) -> None:
        """Leaves a forward pass that `begins_alone` has entered."""

    def fingerprint(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> tuple[int, int]:
        """Returns a hash of the submodules of modules, and one of their parameters and buffers."""

    def contents(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> None:
        """Classifies the parameters and buffers of modules, given with their name prefixes."""

    def gradients(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> None:
        """Classifies the gradients of the modules' parameters; modules are given with their name prefixes.

        No other thread may use the modules meanwhile.
        """

@final
class History:
    """The memory history of one kind of device (`cuda`, `xpu`)."""

    def __new__(cls, watch: Watch, kind: str) -> Self:
        """From now on, tensors on these devices are tracked only by the history."""

    @property
    def drained(self) -> int:
        """Number of recorded rows."""

    def follow(self, library: str = "libc10_cuda.so") -> str | None:
        """Receives the actions of the allocator in a library as they happen, from before its history begins.

        Returns why that is not possible.
        """

    def unfollow(self) -> None:
        """Ends what `follow` began."""

    @property
    def is_following(self) -> bool:
        """Whether actions are received."""

    @property
    def is_fed(self) -> bool:
        """Whether received actions are those of the history, which must then be empty after each drain."""

    @property
    def received(self) -> int:
        """Number of actions that were received and not yet recorded."""

    @property
    def allocations(self) -> int | None:
        """Number of received allocations, if they are received."""
    def take(self, limit: int) -> bool:
        """Records at most `limit` received actions of each device. Returns whether there are more."""

    def drain(self, snapshot: dict[str, Any], allocations: list[int], now_us: int | None = None) -> int:
        """Records the new rows of a snapshot; returns their number.

        Args:
            snapshot: The result of `_snapshot()`.
            allocations: Total number of allocations of each device.
            now_us: Unix time of the snapshot in microseconds; now by default.

        """

@final
class Operations:
    """Records the operations that PyTorch's profiler reports."""

    def __new__(cls, watch: Watch) -> Self:
        """From now on, CPU tensors are tracked only by the profiler."""

    def record(
        self,
        rows: list[
            tuple[
                int | None,
                str,
                int,
                int,
                int,
                tuple[int, int] | None,
                list[tuple[str, int, list[int]]],
                str | None,
            ]
        ],
    ) -> int:
        """Records events; returns their number.

        Args:
            rows: For each event: its parent row, its name, its start and end (Unix time in nanoseconds), its
                thread, the address and size change of a memory event, the tensor arguments of an operation
                (element type, bytes per element, shape), and the shapes of all arguments as JSON.

        """

@disjoint_base
class Watch:
    """Tracks the tensors of a program. `ttmem._torch.mode` makes a dispatch mode of it."""

    is_on: bool
    """Whether anything is recorded."""

    def __new__(
        cls,
        path: str | None,
        *,
        tensor: type,
        parameter: type,
        current: ContextVar[Call | None],
        inner: Callable[[Any], Iterable[Any]],
        complain: Callable[[BaseException], None],
        is_programs: Callable[[BaseException], bool],
        disable_torch_function: Callable[[], AbstractContextManager[None]],
        libraries: list[str],
        limit: int | None = None,
        estimates: bool = False,
    ) -> Self:
        """Records to a file if `path` is not None.

        Args:
            path: The recording.
            tensor: `torch.Tensor`.
            parameter: `torch.nn.Parameter`.
            current: Holds the innermost running call of a context.
            inner: Returns the plain tensors inside a tensor that has no storage.
            complain: Called with the tracker's first internal error.
            is_programs: Whether one of the program's signal handlers raised an error.
            disable_torch_function: `torch._C.DisableTorchFunction`.
            libraries: Folders with code that is not the user's.
            limit: Maximum total size of the recording's files in bytes.
            estimates: Whether to count tensors without memory on the device they claim to be on.

        """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls an operation for PyTorch and records its results."""

    def gone(self, weak: object) -> None:
        """Records that a storage was freed: the callback of weak references."""

    def see(self, tensor: object, name: str) -> None:
        """Records a tensor whose allocation was not tracked; `name` is its operation."""

    def made(self, tensor: object, name: str) -> None:
        """Records a tensor that `name` has just allocated outside PyTorch's dispatcher."""

    def classify(
        self,
        tensor: object,
        class_: str,
        name: str | None = None,
        requires_grad: bool | None = None,
        *,
        only_unknown: bool = False,
    ) -> None:
        """Sets the class and name of a tensor."""

    def label(self, tensors: object, class_: str) -> None:
        """Sets the class of all tensors in a container whose allocator has a history."""

    def held_by(self, rows: list[tuple[object, str]]) -> None:
        """Records what keeps storages alive, given with the references to each."""

    def pass_calls_to(self, pass_on: Callable[[str], object] | None) -> None:
        """Passes the running call of each thread to an allocator from now on."""

    has_details: bool
    """Whether modules inside models are recorded."""

    labels_all: bool
    """Whether the outputs of all calls are labeled, not only those of the first ones."""

    rotations: int
    """How often the recording has continued in a new file."""

    forgotten: int
    """How often it did so without the iterations with details of earlier files."""

    tells_allocators: bool
    """Whether allocators with a history need the running call and the outputs of modules."""

    backward: Call | None
    """The backward pass that this thread has begun."""

    def not_watched(self, device: str, what: str) -> None:
        """Records what the numbers of a device do not include."""

    def only_counters(self) -> None:
        """Records every reading of counters as a step, because there are no other steps."""

    def launch(
        self,
        argv: list[str],
        *,
        pid: int | None,
        rank: int | None,
        local_rank: int | None,
        world_size: int | None,
        host: str | None,
        versions: tuple[str | None, str | None, str | None, str | None],
    ) -> None:
        """Records the process; versions are those of Python, PyTorch, the device runtime and the driver."""

    def allocator_rules(
        self,
        pool: str,
        *,
        max_split: int | None,
        is_expandable: bool,
        divisions: list[tuple[int, int]],
        limit: int | None,
    ) -> None:
        """Records an allocator's settings: which blocks it splits, how it rounds, what it may use."""

    def highest(self, pool: str, size: int) -> None:
        """Records the peak that a counter reports since it was last read."""

    def resized(self, storage: object) -> None:
        """Records the new size of a storage."""

    def begin(self, name: str, kind: str, tag: int = 0) -> Call | None:
        """Begins a call inside the context's current one and makes it the current one."""

    def end(self, call: Call) -> None:
        """Ends a call."""

    def end_tagged(self, tag: int) -> None:
        """Ends the innermost call with that tag and all calls inside it."""

    is_in_pass: bool
    """Whether the context's current call is a forward pass or an optimizer step."""

    def passes(self) -> list[int]:
        """Returns the tags of this thread's forward passes and optimizer steps, innermost first."""

    def failed(self, error: BaseException) -> None:
        """Counts an internal error. Raises it again if one of the program's signal handlers raised it."""

    def snapshot(self, name: str | None = None) -> None:
        """Records a snapshot."""

    def devices(self, names: list[str]) -> None:
        """Registers the tracked devices, the most important first."""

    def reading(
        self,
        pool: str,
        *,
        allocated: int | None = None,
        active: int | None = None,
        reserved: int | None = None,
        requested: int | None = None,
        free: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Records the counters of a pool, in bytes."""

    def op_totals(
        self,
        name: str,
        count: int,
        cpu_time: int,
        device_time: int | None,
        cpu_bytes: int,
        device_bytes: int | None,
        shapes: str | None,
    ) -> None:
        """Records a profiler's totals of an operation; times in nanoseconds."""

    def expect(self, words: list[tuple[str, str]]) -> None:
        """Records the expected sizes of tensor classes, given as keys and values."""

    def warn(self, message: str) -> None:
        """Records a warning."""

    def ended_by(self, text: str, messages: list[str]) -> None:
        """Records the exception that ends the program, and the messages of its chain of causes."""

    def figures(self) -> list[tuple[str, int, int, int, int]]:
        """Returns for each device: current bytes, peak bytes, number of live storages, of allocations."""

    def next_phase(self) -> list[tuple[str, int, int, int]]:
        """Returns for each device: peak above the start, bytes allocated, bytes freed since the last call."""

    def moved(self, tensor: object, to: object) -> None:
        """Tracks `to` in place of `tensor`, which it stands in for."""

    @property
    def errors(self) -> int:
        """Number of internal errors, which the program does not see."""

    @property
    def failure(self) -> str | None:
        """Why the recording is no longer written; None if it is."""

    def flush(self) -> None:
        """Waits until all recorded events are written."""

    def finish(self) -> None:
        """Completes the recording."""

    def abandon(self) -> None:
        """Leaves the recording to the process that began it."""

def save_memory_profile(recording: str | os.PathLike[str], *, is_running: bool = False) -> str:
    """Writes the JSON profile of a recording next to it; returns its path."""

@final
class Usage:
    """Divides a program into phases. The public interface is `ttmem.usage`."""

    def __new__(cls) -> Self: ...
    def begin_capture(self, estimated: bool, device: str | None = None) -> int:
        """Begins a capture; returns its number. `device` is the PyTorch device."""

    def snapshot(self, name: str) -> None:
        """Ends the current phase and begins the next."""

    def end_capture(self, name: str) -> None:
        """Ends the last phase and the capture."""

    def end_and_clear(self, capture: int) -> None:
        """Ends a capture and removes its phases; does nothing if another capture has begun."""

    def clear(self) -> None:
        """Removes all phases and ends a running capture."""

    @property
    def is_capturing(self) -> bool:
        """Whether a capture is running."""

    def record(self, peak: int, allocations: int, deallocations: int) -> None:
        """Records the peak above current memory, and the bytes allocated and freed."""

    def record_graph(self, json: str) -> None:
        """Records a ttnn graph capture."""

    def dram(self, name: str) -> tuple[int, int, int]:
        """Returns the peak, allocations and deallocations of a phase."""

    def l1(self, name: str) -> tuple[int, int, int]:
        """Returns the peaks of circular buffers, of buffers, and of both together in a phase."""

    def phases(self) -> list[tuple[str, tuple[int, int, int], tuple[int, int, int]]]:
        """Returns all phases, in order."""

    def text(self) -> str:
        """Returns the numbers of all phases as text."""

    def record_to(self, path: str | os.PathLike[str]) -> None:
        """Starts a recording of later captures."""

    def finish(self) -> None:
        """Completes the recording."""
