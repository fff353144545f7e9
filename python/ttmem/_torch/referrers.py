"""The objects that refer to a tensor that no variable of the program leads to."""

from __future__ import annotations

import gc
import sys
import time
import types
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ttmem._frames import OURS
from ttmem._torch.reference_names import is_container, namespace_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from ttmem._torch.reference_names import Names

MAX_OBJECTS = 20_000
MAX_SHOWN = 4
CLOCK_EVERY = 1024
UNNAMED = {id(kind) for kind in (dict, list, tuple, types.CellType)}
CYCLE = "reference cycle, freed by the next garbage collection"
OUTSIDE = "held outside Python, by C++ or an extension"


class Limits(NamedTuple):
    """The limits of a search."""

    end: float
    """The processor time of this thread when it ends."""
    max_objects: int
    """The number of objects whose referrers are known. Each takes about 200 bytes."""


class Referrers:
    """Follows references backward, to a module of a library or around a cycle."""

    def __init__(self, names: Names, visited: Container[int], ours: Iterable[object], limits: Limits) -> None:
        """`visited` are the objects that variables lead to; `ours` are containers of the search itself."""
        self.is_cut = False
        """Whether a limit has ended the search."""
        self._names = names
        self._limits = limits
        self._count = 0
        self._modules = {
            id(namespace_of(module)): name
            for name, module in list(sys.modules.items())
            if type(module) is types.ModuleType and type(name) is str
        }
        self._referrers: dict[int, list[object]] = {}
        skipped = {id(one) for one in ours}
        for one in gc.get_objects():
            if self._is_over():
                break
            if id(one) in visited or id(one) in skipped or not _counts(one):
                continue
            for inner in gc.get_referents(one):
                if self._is_over():
                    break
                # No chain leads through an object that variables lead to.
                if id(inner) not in visited and is_container(inner):
                    self._referrers.setdefault(id(inner), []).append(one)

    def chain(self, tensor: object) -> str | None:
        """Returns the chain that keeps a tensor alive; None if a limit was reached."""
        came: dict[int, tuple[object, object | None]] = {id(tensor): (tensor, None)}
        waiting = deque([tensor])
        has_cycle = False
        while waiting:
            if len(came) > MAX_OBJECTS or self._is_over():
                return None
            inner = waiting.popleft()
            for one in self._referrers.get(id(inner), ()):
                if self._is_over():
                    return None
                if id(one) in came:
                    has_cycle = True
                    continue
                came[id(one)] = (one, inner)
                if id(one) in self._modules:
                    return self._named(f"module `{self._modules[id(one)]}`", one, came)
                waiting.append(one)
        return self._around(came) if has_cycle else OUTSIDE

    def _is_over(self) -> bool:
        """Whether a limit is reached. Called for each object."""
        self._count += 1
        if len(self._referrers) > self._limits.max_objects or (
            self._count % CLOCK_EVERY == 0 and time.thread_time() > self._limits.end
        ):
            self.is_cut = True
        return self.is_cut

    def clear(self) -> None:
        """Drops all references."""
        self._referrers.clear()

    def _named(self, root: str, outermost: object, came: dict[int, tuple[object, object | None]]) -> str:
        objects: list[object] = []
        at: object | None = outermost
        while at is not None:
            objects.append(at)
            at = came[id(at)][1]
        return " → ".join(self._names.chain(root, objects))

    def _around(self, came: dict[int, tuple[object, object | None]]) -> str:
        """Returns the last part of a cycle: the nearest object with attributes, and the way to the tensor."""
        paths = []
        for one, _ in came.values():
            objects: list[object] = []
            at: object | None = one
            while at is not None:
                objects.append(at)
                at = came[id(at)][1]
            if 1 < len(objects) <= MAX_SHOWN and id(type(one)) not in UNNAMED:
                paths.append(objects)
        if not paths:
            return CYCLE
        shortest = min(paths, key=len)
        name = type.__dict__["__name__"].__get__(type(shortest[0]))
        return " → ".join([CYCLE, *self._names.chain(f"`{name}`", shortest)])


def _counts(one: object) -> bool:
    return is_container(one) and not (
        type(one) is types.FrameType and one.f_code.co_filename.startswith(OURS)
    )
