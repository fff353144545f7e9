"""Finds the lines of the program that depend on values that a NO_DISPATCH capture does not compute."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
from typing import NamedTuple

import torch

from ttmem._torch.mode import libraries

logger = logging.getLogger("ttmem")

MAX_ASKED = 10_000
"""A line that reads more often is in an infinite loop: text generation takes fewer steps."""
ASKED_OFTEN = 1_000

OFTEN = (
    "%s: read an unknown value %d times. A NO_DISPATCH capture computes no values, so a loop that waits for "
    "this one never ends; an error is raised after %d reads"
)
TOO_OFTEN = (
    "{line}: read an unknown value {count} times: a NO_DISPATCH capture computes no values, so a loop that "
    "waits for this one never ends; limit the number of iterations, or capture this part with RunMode.NORMAL"
)

MAX_LINES = 1_000
"""Further lines are not listed."""

CONDITION = "a condition is taken as False; a real run may take the other branch and allocate more or less"
VALUE = "a value is read as NaN (0 as an index); if the program decides by it, a real run may differ"
SIZE = "the maximum size is used for {}; a real run may allocate less"


class Line(NamedTuple):
    """A line that reads a value, and the line of the program that it is called from."""

    asking: tuple[str, int]
    program: tuple[str, int] | None

    def __str__(self) -> str:
        text = "{}:{}".format(*self.asking)
        if self.program is None or self.program == self.asking:
            return text
        return "{} (called from {}:{})".format(text, *self.program)


class Asked:
    """Counts uses of unknown values by line."""

    def __init__(self) -> None:
        self._counts: dict[Line, int] = {}
        # By line and effect, in the order of the first uses.
        self._effects: dict[tuple[Line, str], None] = {}
        self._libraries = tuple(libraries())
        places = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
        self._own = tuple(os.path.join(place, "") for place in places)
        paths = sysconfig.get_paths()
        self._standard = os.path.join(paths["stdlib"], "")
        # Installed packages may be inside the standard library's folder.
        self._packages = tuple({os.path.join(paths[name], "") for name in ("purelib", "platlib")})

    def clear(self) -> None:
        self._counts.clear()
        self._effects.clear()

    def warnings(self) -> list[str]:
        """Returns each line that depends on unknown values, and how this affects the numbers."""
        return [f"{line}: {effect}" for line, effect in self._effects]

    def read(self, effect: str) -> Line:
        """Counts the line that currently reads a value; raises `RuntimeError` after too many reads."""
        line = self.depends(effect)
        count = self._counts[line] = self._counts.get(line, 0) + 1
        if count == ASKED_OFTEN:
            logger.warning(OFTEN, line, count, MAX_ASKED)
        if count > MAX_ASKED:
            raise RuntimeError(TOO_OFTEN.format(line=line, count=count))
        return line

    def depends(self, effect: str) -> Line:
        """Records that the current line depends on unknown values. Returns the line."""
        line = self._line()
        if len(self._effects) < MAX_LINES:
            self._effects[line, effect] = None
        return line

    def _line(self) -> Line:
        frame = sys._getframe(1)
        asking: tuple[str, int] | None = None
        here = (frame.f_code.co_filename, frame.f_lineno)
        at = frame.f_back
        while at is not None:
            here = (at.f_code.co_filename, at.f_lineno)
            if asking is None and not self._is_skipped(here[0]):
                asking = here
            if not here[0].startswith(self._libraries) and not here[0].startswith("<frozen "):
                return Line(asking or here, here)
            at = at.f_back
        return Line(asking or here, None)

    def _is_skipped(self, file: str) -> bool:
        """Whether a file belongs to PyTorch, ttmem or the standard library, which read for their callers."""
        is_standard = file.startswith(self._standard) and not file.startswith(self._packages)
        return is_standard or file.startswith((*self._own, "<frozen "))
