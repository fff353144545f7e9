"""The objects that refer to tensors that no variable of the program leads to."""

from __future__ import annotations

import gc
import sys
import time
import types
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from ttmem._frames import OURS
from ttmem._torch.reference_names import chain_text, is_container, mro, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from ttmem._torch.reference_names import Names

CLOCK_EVERY = 1024
UNNAMED = {id(kind) for kind in (dict, list, tuple, types.CellType, types.FrameType, types.TracebackType)}
"""The ids of types that say little about a cycle: another of its objects is named if there is one."""
MAX_LOOP = 1000
"""The number of objects that are visited to find the way around a cycle."""
MAX_LOOP_PARTS = 4
"""Longer ways around a cycle are cut in the middle."""
MAX_PATH = 80
"""Longer paths of attributes are cut in the middle."""
CYCLE = "reference cycle, freed by the next garbage collection"
GRAPH_CYCLE = "reference cycle through an autograd graph, which garbage collection may not free"
OUTSIDE = "code outside Python (C++ or an extension)"


class Limits(NamedTuple):
    """The limits of a search."""

    end: float
    """The processor time of this thread when it ends."""
    max_objects: int
    """The number of objects whose referrers are known. Each takes about 200 bytes."""


class Referrers:
    """Follows references backward, to modules of libraries and to cycles, and from there to the tensors.

    Objects are known by their `id`, and stay alive until `clear`.
    """

    def __init__(
        self,
        names: Names,
        visited: Container[int],
        ours: Iterable[object],
        graphs: Mapping[int, list[object]],
        limits: Limits,
    ) -> None:
        """Lists the objects that refer to each object.

        Args:
            names: Names the references.
            visited: The objects that variables lead to.
            ours: Containers of the search itself.
            graphs: The objects that refer to each object inside an autograd graph.
            limits: The limits of this search.

        """
        self.is_cut = False
        """Whether a limit has ended the search."""
        self._names = names
        self._limits = limits
        self._count = 0
        self._modules = {
            id(namespace_of(module)): name
            for name, module in list(sys.modules.items())
            if type(name) is str and any(base is types.ModuleType for base in mro(type(module)))
        }
        self._graphs = graphs
        self._tensors: set[int] = set()
        self._objects: dict[int, object] = {}
        """The objects that lead to a tensor."""
        self._inner: dict[int, list[int]] = {}
        """What they refer to."""
        self._inner_of_graphs: dict[int, list[int]] = {}
        self._came: dict[int, int | None] = {}
        """Each object that a module or a cycle leads to, and the `id` of the one that refers to it."""
        self._roots: dict[int, str] = {}
        self._ways_around: dict[int, str] = {}
        """By object of a cycle: the references that lead back to it."""
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

    def search(self, tensors: Iterable[object]) -> None:
        """Finds what keeps tensors alive."""
        self._find_outer(tensors)
        self._spread((key for key in self._objects if key in self._modules), None)
        self._spread_from_cycles(self._inner, CYCLE)
        both = {
            key: [*self._inner.get(key, ()), *self._inner_of_graphs.get(key, ())] for key in self._objects
        }
        self._spread_from_cycles(both, GRAPH_CYCLE)

    def chain(self, tensor: object) -> str | None:
        """Returns the chain that keeps a tensor alive; None if a limit was reached."""
        if self.is_cut or time.thread_time() > self._limits.end:
            self.is_cut = True
            return None
        if id(tensor) not in self._came:
            return OUTSIDE
        keys: list[int] = []
        at: int | None = id(tensor)
        while at is not None:
            keys.append(at)
            at = self._came[at]
        keys.reverse()
        root = keys[0]
        objects = [tensor if key == id(tensor) else self._objects[key] for key in keys]
        if root in self._modules:
            return chain_text(self._names.chain(f"module `{self._modules[root]}`", objects))
        name = type.__dict__["__name__"].__get__(type(objects[0]))
        return chain_text([self._cycle_text(root, name), *self._names.chain(f"`{name}`", objects)])

    def clear(self) -> None:
        """Drops all references."""
        self._referrers.clear()
        self._objects.clear()
        self._ways_around.clear()

    def _cycle_text(self, root: int, name: str) -> str:
        """Returns ``reference cycle (`Node.parent` → back to `Node`), freed by …``."""
        text = self._roots[root]
        around = self._ways_around.get(root)
        if around is None:
            tables = [self._inner] if text == CYCLE else [self._inner, self._inner_of_graphs]
            objects = [self._objects[key] for key in _way_around(root, tables)]
            around = _around_text(self._names.chain(f"`{name}`", objects)) if objects else ""
            self._ways_around[root] = around
        return text.replace("reference cycle", f"reference cycle ({around})", 1) if around else text

    def _is_over(self) -> bool:
        """Whether a limit is reached. Called for each object."""
        self._count += 1
        if len(self._referrers) > self._limits.max_objects or (
            self._count % CLOCK_EVERY == 0 and time.thread_time() > self._limits.end
        ):
            self.is_cut = True
        return self.is_cut

    def _find_outer(self, tensors: Iterable[object]) -> None:
        """Finds the objects that lead to tensors, and what they refer to."""
        waiting = deque(tensors)
        self._tensors = {id(one) for one in waiting}
        self._objects.update((id(one), one) for one in waiting)
        while waiting and not self._is_over():
            inner = waiting.popleft()
            if id(inner) in self._modules:
                continue
            for outer_of, inner_of in (
                (self._referrers, self._inner),
                (self._graphs, self._inner_of_graphs),
            ):
                for one in outer_of.get(id(inner), ()):
                    if self._is_over():
                        return
                    inner_of.setdefault(id(one), []).append(id(inner))
                    if id(one) not in self._objects:
                        self._objects[id(one)] = one
                        waiting.append(one)

    def _spread_from_cycles(self, inner_of: Mapping[int, list[int]], text: str) -> None:
        """Follows references from cycles. All objects of a cycle lead to the same tensors."""
        cycles = _cycles(self._objects, inner_of, self._is_over)
        named = [key for key in cycles if id(type(self._objects[key])) not in UNNAMED]
        # The object that a tensor refers to says more than the tensor.
        self._spread((key for key in named if key not in self._tensors), text)
        self._spread(named, text)
        self._spread(cycles, text)

    def _spread(self, sources: Iterable[int], text: str | None) -> None:
        """Follows references, those inside graphs last."""
        queue: deque[int] = deque()
        graphs: deque[int] = deque()
        for key in sources:
            if key not in self._came:
                self._came[key] = None
                if text is not None:
                    self._roots[key] = text
                queue.append(key)
        while (queue or graphs) and not self._is_over():
            if queue:
                outer = queue.popleft()
                graphs.append(outer)
                found = self._inner.get(outer, ())
            else:
                outer = graphs.popleft()
                found = self._inner_of_graphs.get(outer, ())
            for inner in found:
                if inner not in self._came:
                    self._came[inner] = outer
                    queue.append(inner)


def _way_around(root: int, tables: Iterable[Mapping[int, list[int]]]) -> list[int]:
    """Returns the objects from one back to itself, on the shortest way; none if there is no short one."""
    came: dict[int, int] = {}
    queue = deque([root])
    while queue and len(came) < MAX_LOOP:
        outer = queue.popleft()
        for inner in (inner for table in tables for inner in table.get(outer, ())):
            if inner not in came:
                came[inner] = outer
                queue.append(inner)
            if inner == root:
                queue.clear()
                break
    if root not in came:
        return []
    way = [root, came[root]]
    while way[-1] != root:
        way.append(came[way[-1]])
    return way[::-1]


def _around_text(parts: list[str]) -> str:
    """Returns ``Node.parent` → back to `Node`` for the parts of a chain from an object to itself."""
    root, *steps = parts
    if not steps:
        return ""
    if steps[0].startswith(("`.", "`[")):
        steps[0] = f"{root[:-1]}{steps[0][1:]}"
    else:
        steps.insert(0, root)
    steps = [_short_path(one) for one in steps]
    if len(steps) > MAX_LOOP_PARTS:
        steps = [*steps[: MAX_LOOP_PARTS // 2], "…", *steps[-MAX_LOOP_PARTS // 2 :]]
    return " → ".join([*steps, f"back to {root}"])


def _short_path(step: str) -> str:
    is_short = len(step) <= MAX_PATH or not step.startswith("`")
    return step if is_short else f"{step[: MAX_PATH // 2]}…{step[-MAX_PATH // 2 :]}"


def _cycles(keys: Iterable[int], inner_of: Mapping[int, list[int]], is_over: Callable[[], bool]) -> list[int]:
    """Returns the objects of cycles, and those on a way from one cycle to another."""
    outer_of: dict[int, list[int]] = {}
    for outer, found in inner_of.items():
        for inner in found:
            outer_of.setdefault(inner, []).append(outer)
    left = set(keys)
    for table in (inner_of, outer_of):
        left = _trimmed(left, table, is_over)
    return [key for key in keys if key in left]


def _trimmed(keys: set[int], inner_of: Mapping[int, list[int]], is_over: Callable[[], bool]) -> set[int]:
    """Removes the objects that none of the others refer to, until there are none."""
    count = Counter(inner for outer in keys for inner in inner_of.get(outer, ()))
    waiting = [key for key in keys if not count[key]]
    left = set(keys)
    while waiting and not is_over():
        outer = waiting.pop()
        left.discard(outer)
        for inner in inner_of.get(outer, ()):
            count[inner] -= 1
            if not count[inner] and inner in left:
                waiting.append(inner)
    return left


def _counts(one: object) -> bool:
    return is_container(one) and not (
        type(one) is types.FrameType and one.f_code.co_filename.startswith(OURS)
    )
