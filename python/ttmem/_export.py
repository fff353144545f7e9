"""`ttmem.export`: what `ttmem export` does, as a function."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ttmem import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    PathLike = str | os.PathLike[str]


class Exported(NamedTuple):
    """What was exported."""

    inputs: int
    """The number of inputs."""
    ranks: int
    """The number of ranks."""
    rows: int
    """The number of rows in all tables."""
    errors: int
    """The number of files that could not be read. Each is a row of `runs` with its error."""


def export(
    inputs: PathLike | Iterable[PathLike],
    dataset: PathLike,
    *,
    run: str | None = None,
    labels: Mapping[str, str] | None = None,
    host: str | None = None,
    format: str | None = None,
) -> Exported:
    """Exports logs, recordings, snapshots, reports, and folders of these as tables of a dataset.

    Inputs that were exported before are replaced. Each run becomes visible as a whole. Several processes may
    export to a dataset at the same time. Other Python threads keep running meanwhile. Ctrl-C cancels the
    current run.

    Args:
        inputs: One path, or several.
        dataset: The folder of the dataset.
        run: The name of the run that the inputs are ranks of. By default, each input is a run of its name.
            Standard input (`-`) has no name and needs this.
        labels: Labels of the runs, such as `{"commit": "1a2b3c"}`.
        host: The machine that the inputs are on; by default, the name of this one. On a file system that
            several machines share, give all exports the same name.
        format: Name of the reader to use, instead of detecting the format.

    Raises:
        UnknownFormat: `format` names no reader.
        OSError: The dataset cannot be written (`PermissionError`, for example).

    """
    paths = [os.fspath(path) for path in list_of(inputs)]
    check(run, labels)
    if not paths:
        return Exported(0, 0, 0, 0)
    pairs = list((labels or {}).items())
    done = _native.export(paths, os.fspath(dataset), run=run, labels=pairs, host=host, format=format)
    return Exported(len(paths), *done)


def list_of(inputs: PathLike | Iterable[PathLike]) -> list[PathLike]:
    """Returns the paths of an argument that is one path or several."""
    return [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)


def check(run: str | None, labels: Mapping[str, str] | None) -> None:
    """Raises `ValueError` if the name of a run or of a label is empty."""
    if run == "":
        message = "run: expected a name"
        raise ValueError(message)
    if "" in (labels or {}):
        message = "labels: expected names such as `commit`"
        raise ValueError(message)
