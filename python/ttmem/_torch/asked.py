"""Which lines of a program ask for values that a NO_DISPATCH capture does not compute, and how often."""

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
"""A line that asks more often is in a loop that does not end: no generation is as long."""
ASKED_OFTEN = 1_000

OFTEN = (
    "%s: asked %d times for a value that a NO_DISPATCH capture does not compute. A loop that waits for it "
    "does not end; after %d times it is an error"
)
TOO_OFTEN = (
    "{line}: asked {count} times for a value that a NO_DISPATCH capture does not compute, so a loop that "
    "waits for it does not end. Give the loop a limit that does not depend on tensors, or capture this part "
    "with RunMode.NORMAL"
)


class Line(NamedTuple):
    """Where a value is asked for: the line that asks, and the line of the program it is called from."""

    asking: tuple[str, int]
    program: tuple[str, int] | None

    def __str__(self) -> str:
        """Gives `FILE:LINE`, with the program's own line where a library asks."""
        text = "{}:{}".format(*self.asking)
        if self.program is None or self.program == self.asking:
            return text
        return "{} (called from {}:{})".format(text, *self.program)


class Asked:
    """Counts, by line."""

    def __init__(self) -> None:
        """Nobody has asked."""
        self._counts: dict[Line, int] = {}
        self._libraries = tuple(libraries())
        places = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
        self._own = tuple(os.path.join(place, "") for place in places)
        paths = sysconfig.get_paths()
        self._standard = os.path.join(paths["stdlib"], "")
        # They may be inside of the standard library's folder.
        self._packages = tuple({os.path.join(paths[name], "") for name in ("purelib", "platlib")})

    def clear(self) -> None:
        """Begins anew."""
        self._counts.clear()

    def count(self) -> None:
        """Counts the line that asks now; raises where it has asked too often."""
        line = self._line()
        count = self._counts[line] = self._counts.get(line, 0) + 1
        if count == ASKED_OFTEN:
            logger.warning(OFTEN, line, count, MAX_ASKED)
        if count > MAX_ASKED:
            raise RuntimeError(TOO_OFTEN.format(line=line, count=count))

    def _line(self) -> Line:
        frame = sys._getframe(1)
        asking: tuple[str, int] | None = None
        here = (frame.f_code.co_filename, frame.f_lineno)
        at = frame.f_back
        while at is not None:
            here = (at.f_code.co_filename, at.f_lineno)
            if asking is None and not self._is_passed_over(here[0]):
                asking = here
            if not here[0].startswith(self._libraries) and not here[0].startswith("<frozen "):
                return Line(asking or here, here)
            at = at.f_back
        return Line(asking or here, None)

    def _is_passed_over(self, file: str) -> bool:
        """Whether a file is PyTorch's, ours, or the standard library's: it asks for somebody else."""
        is_standard = file.startswith(self._standard) and not file.startswith(self._packages)
        return is_standard or file.startswith((*self._own, "<frozen "))
