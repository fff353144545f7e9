"""What the native module has: `crates/ttmem-py`."""

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
    "memory_size",
    "open",
    "save_memory_profile",
    "tracker_settings",
    "tt_memory_profiler",
    "ttmem",
]

__version__: str

class Error(Exception):
    """Why there is no answer. The text is what the command says."""

    exit_code: int
    """What the command exits with: 2, 4 where there is no memory data, 70 where it is a bug of ttmem."""

class UnknownFormat(Error):
    """No reader knows the format, or there is none of that name."""

class NoMemoryData(Error):
    """The format is known, but there is no memory data in it; the text says which setting is missing."""

class _Warning(TypedDict):
    file: str
    line: int | None
    message: str

@final
class Profile:
    """What a run left behind, read. `open` makes it."""

    @property
    def format(self) -> str:
        """The name of the format, as `ttmem formats` lists it."""

    @property
    def warnings(self) -> list[_Warning]:
        """What people should know about the reading. A warning whose `line` is None is of no line."""

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
        """Where the memory went: the object that `ttmem summary --json` prints (docs/json.md).

        Sizes are bytes, and None is not known, never 0.

        Args:
            run: Which program runs: `"all"`, those of the last pass (`"last"`), or one by its number from 1.
            rank: Which rank: `0` or `"1,0"`.
            process: Which of the processes that wrote one log: `"all"`, or one by its number from 1.
            top: How many rows lists have.
            at: A step: what was in memory before it stands in `at`, besides the peaks.
            expect: What is expected of classes of tensors, as `--expect` of the command takes it:
                `{"params": 1_235_814_400, "dtype": "bf16"}`. What was measured stands in `expected`.

        Raises:
            Error: The run or the rank is not there, or nothing is expected.
            ValueError: `run` is neither `"all"` nor `"last"` nor a number from 1, or `expect` says nothing
                that could be expected.

        """

    def markdown(self) -> str:
        """Give the answer as Markdown, for agents and issues: what `ttmem summary --markdown` prints."""

    def report(self, directory: str | os.PathLike[str], name: str | None = None, force: bool = False) -> Path:
        """Write the report into a folder, which need not be there; return where its page is.

        Args:
            directory: The folder.
            name: How the names of the files begin; without it, the name of what was read.
            force: Whether a report of that name that is there already is replaced.

        Raises:
            FileExistsError: There is a report of that name.
            OSError: It cannot be written.

        """

def open(path: str | os.PathLike[str], *, format: str | None = None) -> Profile:
    """Read what a run left behind: a log, a capture, a recording, a profile, or the folder of a report.

    Other threads of Python go on meanwhile, and Ctrl-C ends it.

    Args:
        path: The file or folder; `"-"` is standard input. Packed files (gzip, zstd) are unpacked.
        format: The name of a reader, instead of the one that knows the content.

    Raises:
        UnknownFormat: No reader knows it.
        NoMemoryData: There is no memory data in it.
        Error: It is empty, damaged, or a mix of ranks.
        OSError: The file cannot be read; `FileNotFoundError` and the like.

    """

def memory_size(text: str) -> int:
    """Give the bytes of a size as people type it: `200MB`.

    Raises:
        ValueError: It is none.

    """

def ttmem(words: list[str], again: list[str]) -> int:
    """Run the command `ttmem`; return its exit code. The words of `again` start it another time."""

def tt_memory_profiler(words: list[str], again: list[str]) -> int:
    """Run the command `tt-memory-profiler`; return its exit code."""

class _Settings(TypedDict):
    enabled: bool
    output_dir: str
    interval: float
    level: Literal["phases", "tensors", "ops"]
    limit: str
    problems: list[str]

def tracker_settings() -> _Settings:
    """Say what holds for the tracker: what the environment says, and the file that it names.

    What is not understood stands in `problems`, each a sentence with the file and the line.
    """

@final
class Call:
    """A call of a scope, which a context holds."""

@final
class Forward:
    """Enters a scope for the forward pass of every module."""

    def __new__(cls, watch: Watch, models: Any) -> Self:
        """`models` names what is not known, and is told of the passes of models: `ttmem._torch.modules`."""

    def know(self, module: torch.nn.Module, name: str, is_model: bool) -> None:
        """Say what a module is called."""

    def begins(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Enter the forward pass of a module."""

    def ends(self, module: torch.nn.Module, output: object) -> None:
        """Leave it."""

    def fingerprint(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> tuple[int, int]:
        """Give a number for which modules are inside of modules, and one for their parameters and buffers."""

    def contents(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> None:
        """Say what the parameters and buffers of modules are, by how the names of what is in them begin."""

    def gradients(self, modules: list[tuple[weakref.ref[torch.nn.Module], str]]) -> None:
        """Say which gradients the parameters of modules have, by how the names of these begin.

        The modules must be this thread's alone.
        """

@final
class History:
    """The history of the allocators of one kind of device."""

    def __new__(cls, watch: Watch, kind: str) -> Self:
        """From now on, storages of these devices are known from the history."""

    @property
    def drained(self) -> int:
        """How many rows were taken down."""

    def drain(self, snapshot: dict[str, Any], allocations: list[int], now_us: int | None = None) -> int:
        """Take down what is new in a snapshot; return how many rows were.

        Args:
            snapshot: What `_snapshot()` gives.
            allocations: How many allocations each device has had.
            now_us: When the snapshot was taken, in Unix time, if not now.

        """

@final
class Operations:
    """What PyTorch's profiler says of every operation."""

    def __new__(cls, watch: Watch) -> Self:
        """From now on, storages of the processor are known from the profiler."""

    def take(
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
        """Take events down; return how many there were.

        Args:
            rows: Of each event: the row that it is inside of, its name, when it began and ended in
                nanoseconds of Unix time, its thread, for memory the address and by how much there is more,
                for operations the tensors among the arguments (element type, bytes of an element, shape),
                and the shapes of all arguments as JSON.

        """

@disjoint_base
class Watch:
    """Watches the tensors of a program: `ttmem._torch.mode` makes a dispatch mode of it."""

    is_on: bool
    """Whether anything is taken down."""

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
        plainly: Callable[[], AbstractContextManager[None]],
        libraries: list[str],
        limit: int | None = None,
        estimates: bool = False,
    ) -> Self:
        """Record to the path, if there is one.

        Args:
            path: The recording.
            tensor: `torch.Tensor`.
            parameter: `torch.nn.Parameter`.
            current: Holds the call that runs in a context.
            inner: The plain tensors in one that has no storage.
            complain: Told the first error of our own.
            is_programs: Whether a signal handler of the program's raised an error.
            plainly: `torch._C.DisableTorchFunction`.
            libraries: Where code lies that is not the user's.
            limit: How many bytes the files of the recording may have together.
            estimates: Count tensors without memory on the device that they say they are on.

        """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operation for PyTorch, and take its results down."""

    def gone(self, weak: object) -> None:
        """Take down that a storage is gone: what weak references call."""

    def see(self, tensor: object, name: str) -> None:
        """Take a tensor down that was made unseen, and by what."""

    def made(self, tensor: object, name: str) -> None:
        """Record a tensor that something outside of the dispatcher has just allocated, and what did."""

    def classify(
        self,
        tensor: object,
        class_: str,
        name: str | None = None,
        requires_grad: bool | None = None,
        *,
        only_unknown: bool = False,
    ) -> None:
        """Say what a tensor is, and what people call it."""

    def label(self, tensors: object, class_: str) -> None:
        """Say what all tensors in something are whose allocator has a history."""

    def pass_calls_to(self, pass_on: Callable[[str], object] | None) -> None:
        """Pass which call runs on to allocators."""

    tells_allocators: bool
    """Whether allocators with a history want to know which call runs, and what modules give."""

    backward: Call | None
    """The backward pass that this thread has begun."""

    def not_watched(self, device: str, what: str) -> None:
        """Say what is not in the figures of a device."""

    def only_counters(self) -> None:
        """Take every reading of counters down as a step: there are no others."""

    def highest(self, pool: str, size: int) -> None:
        """Take down what a counter says was the most since it was read last."""

    def resized(self, storage: object) -> None:
        """Look at the size of a storage again."""

    def begin(self, name: str, kind: str, tag: int = 0) -> Call | None:
        """Begin a call inside of the one that the context holds; the context holds it then."""

    def end(self, call: Call) -> None:
        """End a call."""

    def end_tagged(self, tag: int) -> None:
        """End the innermost call with that tag, and those inside of it."""

    is_in_pass: bool
    """Whether what the context is right inside of is a forward pass, or a step of an optimizer."""

    def passes(self) -> list[int]:
        """Tags of the forward passes and steps that the context is in here, innermost first."""

    def failed(self, error: BaseException) -> None:
        """Count an error of our own. What a signal handler of the program's has raised is raised again."""

    def snapshot(self, name: str | None = None) -> None:
        """Mark this moment."""

    def devices(self, names: list[str]) -> None:
        """Name the devices whose tensors are watched, the most important first."""

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
        """Take down what a pool was seen to have, in bytes."""

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
        """Take down what a profiler says of an operation; times in nanoseconds."""

    def expect(self, words: list[tuple[str, str]]) -> None:
        """Take down what classes should take, as keys and values say it."""

    def warn(self, message: str) -> None:
        """Take down what people should know."""

    def ended_by(self, text: str, messages: list[str]) -> None:
        """Take down the exception that ends the program, and the messages of those that led to it."""

    def figures(self) -> list[tuple[str, int, int, int, int]]:
        """Return for each device what is there, the most that was, how many storages there are and were."""

    def next_phase(self) -> list[tuple[str, int, int, int]]:
        """Return for each device the peak above the start, and what was allocated and freed since then."""

    def moved(self, tensor: object, to: object) -> None:
        """Follow a tensor that stands for another, which may go."""

    @property
    def errors(self) -> int:
        """How many errors of our own the program did not see."""

    @property
    def failure(self) -> str | None:
        """Why the recording is not written any more, if that is so."""

    def flush(self) -> None:
        """Wait until all that was seen is in the file."""

    def finish(self) -> None:
        """Write what is left, and the end."""

    def abandon(self) -> None:
        """Leave the recording to the process that began it."""

def save_memory_profile(recording: str | os.PathLike[str], *, is_running: bool = False) -> str:
    """Make `memory_profile_….json` of a recording, beside it; return its path."""

@final
class Usage:
    """Cuts a program into phases, of what it is told: `ttmem.usage` is what people use."""

    def __new__(cls) -> Self:
        """Begin with no phase."""

    def begin_capture(self, estimated: bool) -> int:
        """Begin a capture; return its number."""

    def snapshot(self, name: str) -> None:
        """End the phase, and begin the next."""

    def end_capture(self, name: str) -> None:
        """End the last phase, and the capture."""

    def end_and_clear(self, capture: int) -> None:
        """End that capture, if it still runs, and forget its phases; nothing where another has begun."""

    def clear(self) -> None:
        """Forget the phases. A capture that runs is over."""

    @property
    def is_capturing(self) -> bool:
        """Whether a capture runs."""

    def record(self, peak: int, allocations: int, deallocations: int) -> None:
        """Take down what happened: the peak above what is there, the bytes of all allocations and frees."""

    def record_graph(self, json: str) -> None:
        """Take down a graph capture of ttnn."""

    def dram(self, name: str) -> tuple[int, int, int]:
        """Return the peak, the allocations and the deallocations of a phase."""

    def l1(self, name: str) -> tuple[int, int, int]:
        """Return the peaks of circular buffers, of buffers, and of both in a phase."""

    def phases(self) -> list[tuple[str, tuple[int, int, int], tuple[int, int, int]]]:
        """Return all phases, in order."""

    def text(self) -> str:
        """Return the figures of all phases as text."""

    def record_to(self, path: str | os.PathLike[str]) -> None:
        """Begin a recording of the captures to come."""

    def finish(self) -> None:
        """Finish the recording."""
