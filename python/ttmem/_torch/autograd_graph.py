"""The autograd graph of a tensor, and the tensors that its nodes have saved for the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ttmem._torch.reference_names import mro

if TYPE_CHECKING:
    from collections.abc import Iterator

RAW = "_raw_saved_"


class Graph:
    """The nodes that were visited.

    References inside a graph are in C++, where Python's garbage collector does not see them.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, object] = {}
        self._fields: dict[int, list[tuple[str, Any]]] = {}
        self._saved: list[tuple[object, str, object]] = []
        self._savers: dict[tuple[int, int], str] = {}

    def of_tensor(self, tensor: object) -> Iterator[object]:
        """Yields the node that computed a tensor, and its gradient."""
        import torch

        read: Any = torch._C.TensorBase.__dict__
        try:
            # Only a leaf has a gradient; reading that of another tensor prints a warning.
            is_leaf = read["is_leaf"].__get__(tensor)
            found = read["grad" if is_leaf else "grad_fn"].__get__(tensor)
        except Exception:  # noqa: BLE001 - a tensor without autograd
            return
        if found is not None:
            if not is_leaf:
                self._nodes[id(found)] = found
            yield found

    def of_node(self, node: object) -> Iterator[object]:
        """Yields the nodes that a node refers to, and notes the tensors that it has saved."""
        if id(node) not in self._nodes:
            return
        fields = self._fields_of(type(node))
        for name, field in fields:
            if name == "next_functions":
                for inner, _ in field.__get__(node):
                    if inner is not None:
                        self._nodes[id(inner)] = inner
                        yield inner
            elif name == "variable":
                yield field.__get__(node)
            else:
                self._note_saved(node, field)

    def is_node(self, one: object) -> bool:
        """Whether an object is a visited node."""
        return id(one) in self._nodes

    def saved(self) -> list[tuple[object, str, object]]:
        """Returns the saved tensors: the node, its name and the tensor."""
        return self._saved

    def saver(self, node: object, tensor: object) -> str | None:
        """Returns the name of a node that has saved a tensor."""
        return self._savers.get((id(node), id(tensor)))

    def clear(self) -> None:
        """Drops all references."""
        self._nodes.clear()
        self._saved.clear()
        self._savers.clear()

    def _note_saved(self, node: object, field: Any) -> None:
        try:
            raw = field.__get__(node)
        except Exception:  # noqa: BLE001 - freed by the backward pass
            return
        name = type.__dict__["__name__"].__get__(type(node))
        for one in raw if type(raw) in (tuple, list) else (raw,):
            # With a hook, unpacking would run the program's code.
            try:
                if one is not None and one.unpack_hook is None:
                    tensor = one.data
                    if tensor is not None:
                        self._saved.append((node, name, tensor))
                        self._savers[id(node), id(tensor)] = name
            except Exception:  # noqa: BLE001, PERF203, S112 - freed, or a version of PyTorch without this attribute
                continue

    def _fields_of(self, kind: type) -> list[tuple[str, Any]]:
        """Returns the attributes of a node's type that refer to nodes and tensors."""
        known = self._fields.get(id(kind))
        if known is None:
            known = [
                (name, field)
                for base in mro(kind)
                for name, field in type.__dict__["__dict__"].__get__(base).items()
                if name in ("next_functions", "variable") or name.startswith(RAW)
            ]
            self._fields[id(kind)] = known
        return known
