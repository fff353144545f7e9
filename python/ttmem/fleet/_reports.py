"""The reports of ranks: the pages that `ttmem report` wrote, and the command that writes one."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PAGE = "_report.html"


class Rank(NamedTuple):
    """What identifies a rank outside the dataset."""

    source: str
    """The exported input, as an absolute path."""
    source_host: str
    """The machine that it is on."""
    file: str
    """The file in the input, as it was named in the export."""
    label: str | None
    """The label of the rank."""
    run: str = ""
    """The run. A file may be in several."""
    place: int = 0
    """The place of the rank in its file, from 0."""

    @property
    def path(self) -> str:
        """The absolute path of what to open: the input, or the file in it if it is a folder of several.

        `file` is as it was named in the export, or in an earlier command if the input is a report.
        """
        parent, name = os.path.split(self.file)
        if name == os.path.basename(self.source):
            return self.source
        inside = os.path.join(self.source, name)
        if os.path.exists(inside):
            return inside
        # The input may be on another machine.
        is_inside = os.path.basename(parent) in {os.path.basename(self.source), ".", ".."}
        return inside if is_inside and not os.path.exists(self.source) else self.source

    @property
    def of_file(self) -> tuple[str, ...]:
        """What the ranks of a file share."""
        return self.source, self.source_host, self.file, self.run

    @property
    def command(self) -> str | None:
        """The command that writes its report; `None` for standard input."""
        return None if self.source == "-" else f"ttmem report {shlex.quote(self.path)}"


class Reports:
    """The pages of reports, by the files that they are of."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._of_path: dict[str, set[str]] = {}
        self._of_file: dict[str, set[str]] = {}
        home = os.environ.get("TTMEM_HOME") or os.path.join(os.path.expanduser("~"), ".ttmem")
        self._add(os.path.join(home, "reports"))
        for folder in folders:
            if not os.path.isdir(folder):
                message = f"{folder}: not a folder with reports"
                raise ValueError(message)
            self._add(folder)

    def links(self, ranks: Sequence[Rank], folder: str) -> list[str | None]:
        """Returns the link from a folder to each rank's page; `None` if there is none.

        A page is only linked if it exists and cannot be that of another rank.
        """
        hosts: dict[str, set[str]] = {}
        inputs: dict[str, set[str]] = {}
        labels: dict[tuple[str, ...], list[str | None]] = {}
        for rank in ranks:
            hosts.setdefault(rank.path, set()).add(rank.source_host)
            inputs.setdefault(rank.file, set()).add(rank.path)
            labels.setdefault(rank.of_file, []).append(rank.label)
        found = []
        for rank in ranks:
            # Equal paths on several machines are different files, and only one of them is here.
            is_here = len(hosts[rank.path]) == 1 or rank.source_host == os.uname().nodename
            page = self._page(rank, is_only=len(inputs[rank.file]) == 1) if is_here else None
            found.append(page and _address(page, folder) + _anchor(labels[rank.of_file], rank))
        return found

    def _page(self, rank: Rank, *, is_only: bool) -> str | None:
        """Returns the page of a rank. `is_only`: no other file of the dataset has the same name."""
        if rank.source == "-":
            return None
        path = rank.path
        # The profile in a report's folder is next to its page.
        beside = os.path.splitext(path)[0] + PAGE
        if path.endswith(".ttmem") and os.path.isfile(beside):
            return beside
        if os.path.isdir(path):
            inside = _pages(path)
            return inside[0] if len(inside) == 1 else None
        pages = self._of_path.get(path) or (self._of_file.get(rank.file) if is_only else None) or set()
        return next(iter(pages)) if len(pages) == 1 else None

    def _add(self, root: str) -> None:
        for folder in _folders(os.path.abspath(root)):
            for page in _pages(folder):
                source = _json(os.path.join(folder, "source.json"))
                path = source.get("path") if isinstance(source, dict) else None
                if isinstance(path, str):
                    self._of_path.setdefault(path, set()).add(page)
                    continue
                for file in _files(page):
                    known = self._of_path if os.path.isabs(file) else self._of_file
                    known.setdefault(file, set()).add(page)


def _folders(root: str) -> Iterator[str]:
    """Returns a folder and all folders in it. Its entries may be links, as in the folder of `ttmem list`."""
    yield root
    try:
        inside = sorted(entry.path for entry in os.scandir(root) if entry.is_dir())
    except OSError:
        return
    for folder in inside:
        for path, _, _ in os.walk(folder):
            yield path


def _pages(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(PAGE)]


def _files(page: str) -> Iterator[str]:
    """Returns the files that a page is of, as they were named in its command."""
    summary = _json(page.removesuffix(PAGE) + "_summary.json")
    ranks = summary.get("ranks") if isinstance(summary, dict) else None
    for rank in ranks if isinstance(ranks, list) else []:
        file = rank.get("file") if isinstance(rank, dict) else None
        if isinstance(file, str):
            yield file


def _json(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return None


def _address(page: str, folder: str) -> str:
    # The first part of a path such as `a:b` would be the scheme of an address.
    return f"./{quote(os.path.relpath(page, folder))}"


def _anchor(labels: Sequence[str | None], rank: Rank) -> str:
    """Returns the part of a link that selects a rank of a page (`web/src/link.ts`)."""
    if len(labels) == 1:
        return ""
    is_unique = rank.label is not None and labels.count(rank.label) == 1
    name = rank.label if is_unique and rank.label is not None else f"number {rank.place}"
    return f"#rank={quote(name, safe='')}"
