"""Buffers of compiled code.

Code that Inductor generates for the CPU does not allocate through PyTorch's dispatcher, so a dispatch mode
does not see its buffers. It calls one function of PyTorch for each of them, which every generated module
looks up when it is loaded.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from ttmem._torch.compiled import compiles_beside_modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode

# The name that generated modules give to the function, and its name in PyTorch.
ALLOCATE, NATIVE = "empty_strided_cpu", "_empty_strided_cpu"
# What makes a generated module C++ as a whole: its buffers cannot be seen.
CPP_ENTRY = "inductor_entry"


class CompiledBuffers:
    """Has compiled code report every buffer that it allocates on the CPU."""

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._allocate: Callable[..., Any] | None = None
        self._watched: Callable[..., Any] | None = None

    def open(self) -> None:
        """Begins, also for modules that are loaded already."""
        self._allocate = getattr(_guards(), NATIVE, None)
        if self._allocate is None:
            return
        mode, allocate = self._mode, self._allocate

        @functools.wraps(allocate)
        def allocate_watched(*args: Any, **kwargs: Any) -> Any:
            buffer = allocate(*args, **kwargs)
            if mode.is_on and mode.sees_operations:
                mode.made(buffer, "inductor::empty_strided_cpu")
            return buffer

        self._watched = allocate_watched
        setattr(_guards(), NATIVE, allocate_watched)
        _replace(allocate, allocate_watched)

    def close(self) -> None:
        """Ends."""
        allocate, watched = self._allocate, self._watched
        if allocate is None or watched is None:
            return
        _replace(watched, allocate)
        if getattr(_guards(), NATIVE, None) is watched:
            setattr(_guards(), NATIVE, allocate)

    def missing(self) -> str | None:
        """What compiled code allocated that was not seen, if any compiled code ran."""
        if not _has_compiled():
            return None
        if self._allocate is None or not compiles_beside_modes():
            return (
                "memory that compiled code allocates while it runs, and its results until another operation "
                f"uses them (PyTorch {torch.__version__} does not report them)"
            )
        if any(hasattr(module, CPP_ENTRY) for module in _generated()):
            return "memory that compiled code allocates while it runs, where it was compiled with cpp_wrapper"
        return None


def _guards() -> Any:
    return torch._C._dynamo.guards


def _generated() -> list[Any]:
    """The modules that Inductor has generated."""
    codecache = sys.modules.get("torch._inductor.codecache")
    return [*getattr(getattr(codecache, "PyCodeCache", None), "modules", ())]


def _replace(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    for module in _generated():
        if getattr(module, ALLOCATE, None) is one:
            setattr(module, ALLOCATE, other)


def _has_compiled() -> bool:
    """Whether a graph was compiled in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    # Another thread may be importing it.
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters["stats"].get("unique_graphs"))
