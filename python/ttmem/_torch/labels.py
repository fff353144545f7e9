"""Tensor classes and names set by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ttmem._torch.mode import Mode

# Containers and objects are searched to this depth.
MAX_DEPTH = 6


def label(mode: Mode, tensors: object, class_: str, name: str | None) -> None:
    """Sets the class and name of all tensors in a container or object."""
    for path, tensor in tensors_in(tensors, name or ""):
        mode.classify(tensor, class_, path or None, tensor.requires_grad)


def tensors_in(found: object, path: str, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors in a container or object, with their paths."""
    if isinstance(found, torch.Tensor):
        yield path, found
    elif depth < MAX_DEPTH:
        for key, part in _parts(found):
            yield from tensors_in(part, f"{path}.{key}" if path else str(key), depth + 1)


def _parts(found: object) -> Iterator[tuple[object, object]]:
    if isinstance(found, dict):
        yield from found.items()
    elif isinstance(found, (list, tuple)):
        yield from enumerate(found)
    elif not isinstance(found, (str, bytes, type)):
        yield from getattr(found, "__dict__", {}).items()
