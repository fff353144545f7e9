"""What the graph of autograd says: which tensors it keeps, and where a backward pass is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ttmem._torch.mode import Mode

# The names of what a kind of node keeps.
_kept: dict[type, list[str]] = {}


def mark(mode: Mode, name: str, output: object) -> None:
    """Has the engine say when it comes to what a module did: its threads know of no module."""
    for tensor in _tensors(output):
        node = tensor.grad_fn
        if node is not None and tensor.device.type != "cpu":

            def reached(_: object) -> None:
                if mode.is_on:
                    mode.backward_reaches(name, mode.backward, threading.get_ident())

            node.register_prehook(reached)
            return


def saved_tensors(output: object) -> Iterator[torch.Tensor]:
    """The tensors that the graph behind a result keeps for the backward pass."""
    nodes = [tensor.grad_fn for tensor in _tensors(output) if tensor.grad_fn is not None]
    seen = set(nodes)
    while nodes:
        node: Any = nodes.pop()
        for name in _names(node):
            yield from _tensors(_value(node, name))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)


def _value(node: object, name: str) -> object:
    try:
        return getattr(node, name)
    except RuntimeError:
        # It was changed since, or given back.
        return None


def _names(node: object) -> list[str]:
    names = _kept.get(type(node))
    if names is None:
        names = [name for name in dir(node) if name.startswith("_saved_") or name == "saved_tensors"]
        _kept[type(node)] = names
    return names


def _tensors(found: object) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (tuple, list)):
        for part in found:
            yield from _tensors(part)
    elif isinstance(found, dict):
        for part in found.values():
            yield from _tensors(part)
