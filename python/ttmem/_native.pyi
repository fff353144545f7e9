"""What the native module has: `crates/ttmem-py`."""

import os
from pathlib import Path
from typing import Any, TypedDict, final

__all__ = [
    "Error",
    "NoMemoryData",
    "Profile",
    "UnknownFormat",
    "__version__",
    "open",
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
        top: int | None = None,
        at: int | None = None,
    ) -> dict[str, Any]:
        """Where the memory went: the object that `ttmem summary --json` prints (docs/json.md).

        Sizes are bytes, and None is not known, never 0.

        Args:
            run: Which program runs: `"all"`, those of the last pass (`"last"`), or one by its number from 1.
            rank: Which rank: `0` or `"1,0"`.
            top: How many rows lists have.
            at: A step: what was in memory before it stands in `at`, besides the peaks.

        Raises:
            Error: The run or the rank is not there.
            ValueError: `run` is neither `"all"` nor `"last"` nor a number from 1.

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

def ttmem(words: list[str], again: list[str]) -> int:
    """Run the command `ttmem`; return its exit code. The words of `again` start it another time."""

def tt_memory_profiler(words: list[str], again: list[str]) -> int:
    """Run the command `tt-memory-profiler`; return its exit code."""
