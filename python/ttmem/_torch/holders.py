"""What keeps tensors alive: the references from a variable of the program to each tensor.

The search follows references forward, from the variables of all running functions and of the program's
modules. It calls no code of the program: objects are compared by identity, their contents come from
`gc.get_referents`, and attributes are read only through descriptors of Python and PyTorch. Other threads may
run meanwhile; what they change is found as it was or as it is. Afterwards, no references are left.
"""

from __future__ import annotations

import gc
import sys
import time
import types
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem._failures import encodable
from ttmem._frames import OURS
from ttmem._sizes import size_text
from ttmem._torch.autograd_graph import Graph
from ttmem._torch.reference_names import Names, chain_text, is_container, locals_of, mro, namespace_of, place
from ttmem._torch.referrers import Limits, Referrers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

MAX_OBJECTS = 5_000_000
"""The limit of visited objects: each takes about 200 bytes."""
MAX_OBJECTS_AT_END = 1_000_000
"""The limit after an out-of-memory error."""
MAX_SECONDS = 5.0
SEARCH_SHARE = 0.8
"""The share of the time that the search may take. The rest remains to name what it found."""
MANY_REFERENCES = 10_000
"""Containers with more references come after the others, so that one of them does not use up the limits."""
CLOCK_EVERY = 1024
CO_OPTIMIZED = 0x1
UNFINISHED = "not found within the limits of the search"
MAX_RECORDED = 10_000
"""Of the storages that a search finds, the largest are recorded."""
MAX_CHAIN_TEXT = 1000
MAX_CHAINS = 1000
"""The limit of different chains that a search records: the names of a recording are limited as well."""


class Holder(NamedTuple):
    """Tensors that are kept alive in the same way."""

    chain: str
    """The references from a variable to the tensors; `*` stands for any index, key or number in a key."""
    tensors: int
    """The number of tensors, including those that autograd has saved."""
    bytes: int
    """Their size. Memory that several tensors share counts once."""
    devices: tuple[str, ...]
    """The devices that they are on."""
    sizes: tuple[int, ...]
    """The distinct sizes of their memory, largest first."""


class Memory(NamedTuple):
    """The memory of a tensor."""

    storage: int
    size: int
    device: str


class Row(NamedTuple):
    """A tensor, its memory, and the references to it."""

    memory: Memory
    chain: str
    tensor: object


class Root(NamedTuple):
    """A variable that the search starts from."""

    text: str
    value: object


def holders(
    *, device: str | None = None, sizes: Collection[int] | None = None, max_seconds: float = MAX_SECONDS
) -> list[Holder]:
    """Finds what keeps the live tensors of this process alive, largest first.

    Runs no code of the program and keeps no references. Tensors that were not reached within `max_seconds`
    are in a separate row.

    Args:
        device: Only tensors on this device: `"cuda"`, `"cuda:0"` or `"cpu"`.
        sizes: Only tensors whose memory has one of these sizes in bytes.
        max_seconds: The limit of processor time, for the search and the names of what it finds.

    """
    return _found(lambda search: _holders_of(search.rows(device, sizes)), max_seconds, MAX_OBJECTS)


def record_holders(
    record: Callable[[list[tuple[object, str]]], object],
    warn: Callable[[str], object],
    *,
    trace: types.TracebackType | None = None,
    max_seconds: float = MAX_SECONDS,
    max_objects: int = MAX_OBJECTS,
) -> list[Holder]:
    """Does the same as `holders`, and passes the largest storages with the references to them to `record`.

    Args:
        record: Must not keep the storages.
        warn: Gets a sentence if a limit has ended the search.
        trace: The functions that an exception has ended; their variables are searched first.
        max_seconds: The limit of processor time.
        max_objects: The limit of visited objects.

    """

    def noted(search: Search) -> list[Holder]:
        rows = search.rows(None, None)
        if search.is_cut:
            warn(_cut_text(rows))
        record(_largest(rows))
        return _holders_of(rows)

    return _found(noted, max_seconds, max_objects, trace)


def _found(
    result: Callable[[Search], list[Holder]],
    max_seconds: float,
    max_objects: int,
    trace: types.TracebackType | None = None,
) -> list[Holder]:
    import torch

    with torch._C.DisableTorchFunction():
        search = Search(torch.Tensor, max_seconds, max_objects)
        try:
            search.run(_traceback_roots(trace))
            search.run(_program_roots())
            search.run(_exception_roots())
            return result(search)
        finally:
            search.clear()


def _cut_text(rows: list[Row]) -> str:
    """Returns what a search that was cut off has not found."""
    missing = {row.memory.storage: row.memory.size for row in rows if row.chain == UNFINISHED}
    consequence = "tensors that only autograd graphs refer to may be missing"
    if missing:
        tensors = "1 tensor" if len(missing) == 1 else f"{len(missing)} tensors"
        verb = "was" if len(missing) == 1 else "were"
        consequence = f"{tensors} ({size_text(sum(missing.values()))}) {verb} not reached"
    return f"the search for what keeps tensors alive reached its limit; {consequence}"


def _largest(rows: list[Row]) -> list[tuple[object, str]]:
    """Returns the largest storages, each with the references to it."""
    import torch

    storage_of: Any = torch._C.TensorBase.untyped_storage
    known: dict[int, Row] = {}
    for row in rows:
        if row.chain != UNFINISHED:
            known.setdefault(row.memory.storage, row)
    recorded = []
    chains: set[str] = set()
    for row in sorted(known.values(), key=lambda row: -row.memory.size)[:MAX_RECORDED]:
        chain = encodable(row.chain[:MAX_CHAIN_TEXT])
        if chain in chains or len(chains) < MAX_CHAINS:
            chains.add(chain)
            recorded.append((storage_of(row.tensor), chain))
    return recorded


def holders_text(found: list[Holder], *, top: int = 5) -> str:
    """Returns lines with the largest holders: their size, the number of tensors and the chain."""
    lines = []
    for one in found[:top]:
        tensors = "1 tensor" if one.tensors == 1 else f"{one.tensors} tensors"
        lines.append(f"  {size_text(one.bytes):>10}  {tensors}: {one.chain}")
    if len(found) > top:
        rest = found[top:]
        lines.append(f"  {size_text(sum(one.bytes for one in rest)):>10}  {len(rest)} more")
    return "\n".join(lines)


class Search:
    """One search. Objects are known by their `id`, and stay alive while it runs."""

    def __init__(self, tensor_type: type, max_seconds: float, max_objects: int) -> None:
        now = time.thread_time()
        self.is_cut = False
        """Whether a limit has ended the search."""
        self._tensor_type = tensor_type
        self._is_tensor_type: dict[int, bool] = {}
        self._graph = Graph()
        self._names = Names(self._graph)
        self._search_end = now + SEARCH_SHARE * max_seconds
        self._end = now + max_seconds
        self._max_objects = max_objects
        self._count = 0
        self._visited: dict[int, tuple[object, int | None]] = {}
        """Each visited object, and the `id` of the one that refers to it."""
        self._roots: dict[int, str] = {}
        # Without a limit: it takes 0.3 s per million objects, and says what the search has not reached.
        known = self._is_tensor_type
        self._tensors: dict[int, object] = {
            id(one): one
            for one in gc.get_objects()
            if known.get(id(type(one)), True) and self._is_tensor(one)
        }
        self._missing = set(self._tensors)

    def run(self, roots: Iterable[Root]) -> None:
        """Follows references from variables, the nearest objects first."""
        queue = self._start(roots)
        large: deque[object] = deque()
        # Graphs come last: a parameter belongs to its module, not to the graph of a loss.
        graphs: deque[object] = deque()
        while (queue or large or graphs) and not self._is_over():
            if not self._missing:
                # Every tensor is found; their graphs may lead to more.
                graphs.extend(one for one in queue if id(one) in self._tensors)
                queue.clear()
                large.clear()
            if queue or large:
                one = queue.popleft() if queue else large.popleft()
                found = gc.get_referents(one)
                if len(found) > MANY_REFERENCES and queue:
                    large.append(one)
                    continue
                self._follow(one, found, _skipped(one), queue, graphs)
                if id(one) in self._tensors:
                    graphs.append(one)
            elif graphs:
                one = graphs.popleft()
                is_tensor = id(one) in self._tensors
                nodes = self._graph.of_tensor(one) if is_tensor else self._graph.of_node(one)
                self._follow(one, nodes, None, queue, graphs)

    def _start(self, roots: Iterable[Root]) -> deque[object]:
        """Visits the values of variables."""
        queue: deque[object] = deque()
        for root in roots:
            if self._is_over():
                break
            if is_container(root.value) and id(root.value) not in self._visited:
                self._visit(root.value, None)
                self._roots[id(root.value)] = root.text
                queue.append(root.value)
        return queue

    def _follow(
        self,
        one: object,
        found: Iterable[object],
        skipped: set[int] | None,
        queue: deque[object],
        graphs: deque[object],
    ) -> None:
        """Visits the objects that an object refers to. A graph refers to nothing that is skipped."""
        for inner in found:
            if self._is_over():
                return
            if id(inner) not in self._visited and (skipped is None or _counts(inner, skipped)):
                self._visit(inner, id(one))
                (graphs if self._graph.is_node(inner) else queue).append(inner)

    def _is_over(self) -> bool:
        """Whether a limit is reached. Called for each object."""
        self._count += 1
        if len(self._visited) >= self._max_objects or (
            self._count % CLOCK_EVERY == 0 and time.thread_time() > self._search_end
        ):
            self.is_cut = True
        return self.is_cut

    def rows(self, device: str | None, sizes: Collection[int] | None) -> list[Row]:
        """Returns the tensors with their chains."""
        limits = Limits(self._end, self._max_objects - len(self._visited))
        # After a search that was cut off, variables that it has not reached may lead to the other tensors.
        graphs = {} if self.is_cut else self._graphs_of_unreached(limits)
        chosen: list[tuple[Memory, int, str | None, object]] = []
        for key, tensor, saver in self._all_tensors():
            memory = _memory(tensor)
            is_chosen = memory is not None and _is_on(memory.device, device)
            if memory is not None and is_chosen and (sizes is None or memory.size in sizes):
                chosen.append((memory, key, saver, tensor))
        chosen.sort(key=lambda row: -row[0].size)
        rows: list[tuple[Memory, str | None, object]] = []
        for memory, key, saver, tensor in chosen:
            is_late = key in self._visited and time.thread_time() > self._end
            self.is_cut = self.is_cut or is_late
            rows.append((memory, UNFINISHED if is_late else self._chain(key, saver), tensor))
        ours = (chosen, *chosen, rows, *rows)
        unreached = self._unreached(
            [tensor for _, chain, tensor in rows if chain is None], graphs, ours, limits
        )
        return [
            Row(memory, chain or unreached.get(id(tensor)) or UNFINISHED, tensor)
            for memory, chain, tensor in rows
        ]

    def clear(self) -> None:
        """Drops all references."""
        self._visited.clear()
        self._tensors.clear()
        self._graph.clear()
        self._names.clear()

    def _visit(self, one: object, by: int | None) -> None:
        self._visited[id(one)] = (one, by)
        if self._is_tensor(one):
            self._missing.discard(id(one))
            # It may have been created since the search began.
            self._tensors[id(one)] = one

    def _all_tensors(self) -> Iterator[tuple[int, object, str | None]]:
        """Yields the end of each tensor's chain, the tensor and the name of the node that saved it."""
        saved = {
            id(tensor): (id(node), name)
            for node, name, tensor in self._graph.saved()
            if id(node) in self._visited
        }
        for key, tensor in list(self._tensors.items()):
            node, name = saved.get(key, (key, None))
            yield (key, tensor, None) if key in self._visited else (node, tensor, name)
        for saver, name, tensor in self._graph.saved():
            if id(tensor) not in self._tensors:
                yield id(saver), tensor, name

    def _graphs_of_unreached(self, limits: Limits) -> dict[int, list[object]]:
        """Follows the graphs of tensors that no variable leads to.

        Returns the objects that refer to each object there. Objects that variables lead to are left out.
        """
        saved = {id(tensor) for _, _, tensor in self._graph.saved()}
        waiting = deque(
            tensor for key, tensor in self._tensors.items() if key not in self._visited and key not in saved
        )
        known = {id(one) for one in waiting}
        found: dict[int, list[object]] = {}
        count = 0
        while waiting:
            count += 1
            is_late = count % CLOCK_EVERY == 0 and time.thread_time() > limits.end
            if is_late or len(known) > limits.max_objects:
                self.is_cut = True
                break
            one = waiting.popleft()
            before = len(self._graph.saved())
            is_tensor = id(one) in self._tensors
            for inner in self._graph.of_tensor(one) if is_tensor else self._graph.of_node(one):
                if id(inner) in self._visited:
                    continue
                found.setdefault(id(inner), []).append(one)
                if self._is_tensor(inner):
                    self._tensors[id(inner)] = inner
                if id(inner) not in known:
                    known.add(id(inner))
                    waiting.append(inner)
            for _, _, tensor in self._graph.saved()[before:]:
                found.setdefault(id(tensor), []).append(one)
        return found

    def _unreached(
        self,
        tensors: list[object],
        graphs: dict[int, list[object]],
        rows: tuple[object, ...],
        limits: Limits,
    ) -> dict[int, str | None]:
        """Returns the chains of tensors that no variable leads to, by their `id`."""
        if not tensors or self.is_cut:
            return {}
        saved = self._graph.saved()
        ours = (self._visited, self._tensors, saved, *saved, tensors, *graphs.values(), *rows)
        referrers = Referrers(self._names, self._visited, ours, graphs, limits)
        referrers.search(tensors)
        found = {id(tensor): referrers.chain(tensor) for tensor in tensors}
        self.is_cut = referrers.is_cut
        referrers.clear()
        return found

    def _chain(self, key: int, saver: str | None) -> str | None:
        if key not in self._visited:
            return None
        objects: list[object] = []
        at: int | None = key
        while at is not None:
            one, at = self._visited[at]
            objects.append(one)
        objects.reverse()
        parts = self._names.chain(self._roots[id(objects[0])], objects)
        if saver is not None:
            parts.append(f"saved by {saver}")
        return chain_text(parts)

    def _is_tensor(self, one: object) -> bool:
        kind = type(one)
        known = self._is_tensor_type.get(id(kind))
        if known is None:
            known = any(base is self._tensor_type for base in mro(kind))
            self._is_tensor_type[id(kind)] = known
        return known


def _holders_of(rows: list[Row]) -> list[Holder]:
    """Groups tensors by their chains. Memory that is in several groups counts in the first."""
    groups: dict[str, list[Memory]] = {}
    for row in rows:
        groups.setdefault(row.chain, []).append(row.memory)
    taken: set[int] = set()
    found = []
    for chain, memories in groups.items():
        own = {one.storage: one for one in memories if one.storage not in taken}
        taken.update(own)
        size = sum(one.size for one in own.values())
        devices = tuple(sorted({one.device for one in memories}))
        sizes = tuple(sorted({one.size for one in memories}, reverse=True))
        found.append(Holder(chain, len(memories), size, devices, sizes))
    return sorted(found, key=lambda one: (-one.bytes, one.chain))


def _skipped(one: object) -> set[int]:
    """Returns the ids of objects that a reference is not followed to: they lead to all of the program."""
    kind = type(one)
    skipped = {id(kind)}
    if kind is types.FunctionType:
        skipped |= {id(one.__globals__), id(one.__builtins__)}  # type: ignore[attr-defined]
    elif kind is types.FrameType:
        skipped |= {id(one.f_globals), id(one.f_builtins)}  # type: ignore[attr-defined]
    return skipped


def _counts(inner: object, skipped: set[int]) -> bool:
    return is_container(inner) and id(inner) not in skipped and not _is_ours(inner)


def _is_ours(one: object) -> bool:
    return type(one) is types.FrameType and one.f_code.co_filename.startswith(OURS)


def _memory(tensor: Any) -> Memory | None:
    """Returns the memory of a tensor; None if it has none."""
    import torch

    base: Any = torch._C.TensorBase
    try:
        device = base.__dict__["device"].__get__(tensor)
        if device.type == "meta":
            return None
        storage = base.untyped_storage(tensor)
        return Memory(storage._cdata, storage.nbytes(), str(device))
    except Exception:  # noqa: BLE001 - a sparse, fake or wrapped tensor
        return None


def _is_on(place: str, device: str | None) -> bool:
    return device is None or device in (place, place.split(":", maxsplit=1)[0])


def _frames() -> list[types.FrameType]:
    """Returns the frames of all threads, outermost first, without those of this search."""
    found: list[types.FrameType] = []
    for innermost in list(sys._current_frames().values()):
        stack = []
        frame: types.FrameType | None = innermost
        while frame is not None:
            if not frame.f_code.co_filename.startswith(OURS):
                stack.append(frame)
            frame = frame.f_back
        found += reversed(stack)
    return found


def _program_roots() -> Iterator[Root]:
    """The variables of the program's functions and modules, then those of the libraries that run."""
    from ttmem._torch.mode import libraries

    theirs = (*libraries(), OURS, "<frozen ")
    frames = _frames()
    for frame in frames:
        if not frame.f_code.co_filename.startswith(theirs):
            yield from _of_frame(frame)
    for name, module in list(sys.modules.items()):
        if type(module) is types.ModuleType and type(name) is str:
            namespace = namespace_of(module)
            file = namespace.get("__file__")
            if name == "__main__" or (type(file) is str and not file.startswith(theirs)):
                yield from _of_module(name, namespace)
    for frame in frames:
        if frame.f_code.co_filename.startswith(theirs):
            yield from _of_frame(frame)


def _traceback_roots(trace: types.TracebackType | None) -> Iterator[Root]:
    """The variables of the functions that an exception has ended, outermost first."""
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            yield from _of_frame(trace.tb_frame)
        trace = trace.tb_next


def _exception_roots() -> Iterator[Root]:
    """The exception that was raised last, which Python keeps for debuggers."""
    for name in ("last_exc", "last_value", "last_traceback"):
        if name in sys.__dict__:
            yield Root(f"`sys.{name}`", sys.__dict__[name])
    current = sys.exc_info()[1]
    if current is not None:
        yield Root("the exception that is being handled", current)


def _of_frame(frame: types.FrameType) -> Iterator[Root]:
    # Not the body of a module or class: its variables are those of the module.
    if frame.f_code.co_flags & CO_OPTIMIZED:
        for name, value in locals_of(frame):
            yield Root(f"{_kind(value)} `{name}` in {place(frame)}", value)


def _of_module(name: str, namespace: dict[str, object]) -> Iterator[Root]:
    for key, value in list(namespace.items()):
        if type(key) is str and type(value) is not types.ModuleType:
            yield Root(f"{_kind(value)} `{key}` of module `{name}`", value)


def _kind(value: object) -> str:
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name
