"""The names of references: variables, attributes, keys and indexes.

Reads them without calling the program's code.
"""

from __future__ import annotations

import gc
import re
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ttmem._torch.autograd_graph import Graph

MAX_KEY = 60
MAX_CHAIN = 40
"""Longer chains, such as linked lists, are cut in the middle."""
MANY_KEYS = 32
"""Dictionaries with as many entries are collections: their keys are not shown."""
NUMBER = re.compile(r"\d+")
CO_OPTIMIZED = 0x1
HAS_PROXY = sys.version_info >= (3, 13)
"""Whether `frame.f_locals` is a view of the variables and not a copy that the frame keeps."""
MODULE_TABLES = ("._parameters", "._buffers", "._modules")
SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)

mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_members_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__


ATOMS = {
    id(kind) for kind in (str, bytes, int, float, complex, bool, type(None), types.CodeType, types.ModuleType)
}
"""The ids of types. Comparing or hashing a type may run code of its metaclass."""


def is_container(one: object) -> bool:
    """Whether an object may refer to others that belong to it. A module is found by its name instead."""
    return id(type(one)) not in ATOMS and gc.is_tracked(one)


def namespace_of(module: types.ModuleType) -> dict[str, object]:
    """Returns the variables of a module."""
    found: dict[str, object] = _members_of(types.ModuleType)["__dict__"].__get__(module)
    return found


class Names:
    """Names the references of a chain."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._keys: dict[int, frozenset[int]] = {}

    def chain(self, root: str, objects: list[object]) -> list[str]:
        """Returns the parts of a chain. The first object is the value of the root."""
        parts = [root]
        path = ""
        at = 0
        while at + 1 < len(objects):
            outer, inner = objects[at], objects[at + 1]
            # The dictionary of an object's attributes is not shown.
            if at + 2 < len(objects) and type(inner) is dict and inner is dict_of(outer):
                key = _key_of(inner, objects[at + 2])
                step, at = (f".{key}" if type(key) is str else None), at + 2
            elif at + 2 < len(objects) and type(outer) is types.FunctionType and type(inner) is tuple:
                step, at = _closure(outer, objects[at + 2]), at + 2
            else:
                step, at = self._step(outer, inner), at + 1
            if step is None:
                continue
            if step.startswith((".", "[")):
                path = _joined(path, step)
                continue
            if path:
                parts.append(f"`{path}`")
                path = ""
            parts.append(step)
        if path:
            parts.append(f"`{path}`")
        return _shortened(parts)

    def _step(self, outer: object, inner: object) -> str | None:  # noqa: C901, PLR0911
        kind = type(outer)
        if self._graph.is_node(inner):
            return None if self._graph.is_node(outer) else "`Tensor.grad_fn`"
        if self._graph.is_node(outer):
            saver = self._graph.saver(outer, inner)
            return "graph" if saver is None else f"saved by {saver}"
        bases = mro(kind)
        if kind is types.CellType:
            return None
        if kind is types.FrameType:
            return _variable(outer, inner)
        if kind is types.TracebackType:
            return None
        if any(kind is one for one in SUSPENDED):
            return f"local of suspended `{outer.__name__}()`"  # type: ignore[attr-defined]
        if kind is types.MethodType:
            return ".__self__" if outer.__self__ is inner else None  # type: ignore[attr-defined]
        if any(base is list or base is tuple or base is deque for base in bases):
            # Looking for an element takes as long as the list, for each of its elements.
            is_plain = kind is list or kind is tuple or kind is deque
            return "[*]" if is_plain or _is_in(outer, inner) else _attribute(outer, inner)
        if any(base is dict for base in bases):
            return self._of_dict(outer, inner) or _attribute(outer, inner)
        if any(base is set or base is frozenset for base in bases):
            return "[*]"
        if any(base is BaseException for base in bases):
            return _of_exception(outer, inner)
        return _attribute(outer, inner)

    def _of_dict(self, mapping: Any, inner: object) -> str | None:
        """Returns `[key]` for a value, and `.keys()[*]` for a key, as a parameter in an optimizer's state."""
        if dict.__len__(mapping) < MANY_KEYS:
            try:
                items = list(dict.items(mapping))
            except RuntimeError:
                # Another thread changes it.
                return None
            found = next((f"[{_key_text(key)}]" for key, value in items if value is inner), None)
            return found or (".keys()[*]" if any(key is inner for key, _ in items) else None)
        if id(inner) in self._container_keys(mapping):
            return ".keys()[*]"
        # Looking for a value takes as long as the dictionary, for each of its values.
        attribute = None if type(mapping) is dict else _attribute(mapping, inner)
        return attribute if attribute is not None and attribute.startswith(".") else "[*]"

    def _container_keys(self, mapping: Any) -> frozenset[int]:
        """Returns the ids of the keys that may refer to other objects. They are looked up only once."""
        keys = self._keys.get(id(mapping))
        if keys is None:
            try:
                keys = frozenset(id(key) for key in list(dict.keys(mapping)) if is_container(key))
            except RuntimeError:
                # Another thread changes it.
                return frozenset()
            self._keys[id(mapping)] = keys
        return keys

    def clear(self) -> None:
        """Drops all references."""
        self._keys.clear()


def chain_text(parts: list[str]) -> str:
    """Returns a chain as text."""
    if len(parts) > MAX_CHAIN:
        parts = [*parts[: MAX_CHAIN // 2], "…", *parts[-MAX_CHAIN // 2 :]]
    return " → ".join(parts)


def place(frame: types.FrameType) -> str:
    """Returns `` `train()`, train.py:31 ``."""
    from ttmem._failures import _short

    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    return f"`{name}()`, {_short(code.co_filename)}:{frame.f_lineno}"


def locals_of(frame: types.FrameType) -> list[tuple[str, object]]:
    """Returns the variables of a function that runs, and leaves no copy of them in the frame."""
    values = frame.f_locals
    found = list(values.items())
    # Before Python 3.13, the frame keeps this dictionary, and with it what the variables refer to now. It is
    # emptied unless the program or a debugger uses it: it has called `locals()`, or traces the function.
    is_copy = not HAS_PROXY and frame.f_code.co_flags & CO_OPTIMIZED and type(values) is dict
    if is_copy and sys.getrefcount(values) <= 3 and sys.gettrace() is None and frame.f_trace is None:  # noqa: PLR2004
        values.clear()
    return found


def dict_of(one: object) -> dict[str, object] | None:
    """Returns the attributes of an object; None if it has none or if a class defines `__dict__` itself."""
    for base in mro(type(one)):
        descriptor = _members_of(base).get("__dict__")
        if descriptor is not None:
            if type(descriptor) is not types.GetSetDescriptorType:
                return None
            found = descriptor.__get__(one)
            return found if type(found) is dict else None
    return None


def _attribute(outer: object, inner: object) -> str | None:
    """Returns `.name` for an attribute."""
    attributes = dict_of(outer)
    key = None if attributes is None else _key_of(attributes, inner)
    if type(key) is str:
        return f".{key}"
    for base in mro(type(outer)):
        for name, member in list(_members_of(base).items()):
            if type(member) is types.MemberDescriptorType:
                try:
                    if member.__get__(outer) is inner:
                        return f".{name}"
                except AttributeError:
                    continue
    if type(outer) is type or any(base is type for base in mro(type(outer))):
        key = next((key for key, value in list(_members_of(outer).items()) if value is inner), None)  # type: ignore[arg-type]
        return f".{key}" if type(key) is str else None
    return f"`{_name_of(type(outer))}`"


def _closure(function: Any, cell: object) -> str | None:
    code = function.__code__
    for name, one in zip(code.co_freevars, function.__closure__ or (), strict=False):
        if one is cell:
            return f"closure variable `{name}` of `{function.__qualname__}()`, {_line(code)}"
    return f"default argument of `{function.__qualname__}()`, {_line(code)}"


def _line(code: types.CodeType) -> str:
    from ttmem._failures import _short

    return f"{_short(code.co_filename)}:{code.co_firstlineno}"


def _variable(frame: Any, inner: object) -> str | None:
    if type(inner) is types.FrameType:
        return None
    name = next((name for name, value in locals_of(frame) if value is inner), None)
    return f"local `{name}` in {place(frame)}" if name is not None else f"{place(frame)}"


def _of_exception(error: Any, inner: object) -> str | None:
    for name in ("__traceback__", "__context__", "__cause__", "args"):
        if BaseException.__dict__[name].__get__(error) is inner:
            return f".{name}"
    return _attribute(error, inner)


def _is_in(container: Any, inner: object) -> bool:
    return any(one is inner for one in gc.get_referents(container))


def _key_of(mapping: Any, inner: object) -> object:
    """Returns the key of a value; a dictionary key that is the object itself counts as well."""
    try:
        items = list(dict.items(mapping))
    except RuntimeError:
        # Another thread changes it.
        return None
    return next((key for key, value in items if value is inner or key is inner), None)


def _key_text(key: object) -> str:
    if type(key) is str:
        text = key if len(key) <= MAX_KEY else key[:MAX_KEY] + "…"
        return repr(text)
    # Numbers count steps or ids: what they refer to is held alike.
    return "*"


def _joined(path: str, step: str) -> str:
    """Adds a step to a path. The tables of a module are left out: `.head.weight`."""
    for table in MODULE_TABLES:
        if path.endswith(table) and step.startswith(("['", "[*")):
            return path.removesuffix(table) + "." + (step[2:-2] or "*")
    # Numbers in keys count requests or layers: `['request *']`.
    return path + (NUMBER.sub("*", step) if step.startswith(("['", '["')) else step)


def _shortened(parts: Iterable[str]) -> list[str]:
    """Removes repetitions: the nodes of a graph."""
    found: list[str] = []
    for part in parts:
        if not (part == "graph" and found and found[-1] in ("graph", "`Tensor.grad_fn`")):
            found.append(part)
    return found
