"""Tensors that the autograd graph keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# Attribute names of saved tensors, by node type.
_kept: dict[type, list[str]] = {}


def saved_tensors(output: object) -> Iterator[torch.Tensor]:
    """Yields the tensors that the graph of a result keeps for the backward pass."""
    nodes = [tensor.grad_fn for tensor in _tensors(output) if tensor.grad_fn is not None]
    seen = set(nodes)
    while nodes:
        node: Any = nodes.pop()
        for name in _names(node):
            yield from _kept_by(getattr(node, name))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)


def _names(node: object) -> list[str]:
    names = _kept.get(type(node))
    if names is None:
        # Not `_saved_*`: they unpack the tensor, which may recompute a checkpointed block.
        names = [name for name in dir(node) if name.startswith("_raw_saved_")]
        _kept[type(node)] = names
    return names


def _kept_by(saved: Any) -> Iterator[torch.Tensor]:
    """Yields tensors that are saved unchanged, not those packed by the program's hooks."""
    if isinstance(saved, (tuple, list)):
        for one in saved:
            yield from _kept_by(one)
    elif getattr(saved, "unpack_hook", None) is None:
        tensor = getattr(saved, "data", None)
        if isinstance(tensor, torch.Tensor):
            yield tensor


def _tensors(found: object) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (tuple, list)):
        for part in found:
            yield from _tensors(part)
    elif isinstance(found, dict):
        for part in found.values():
            yield from _tensors(part)
