"""Buffers of compiled code.

Code that Inductor generates for the CPU does not allocate through PyTorch's dispatcher, so a dispatch mode
cannot track its buffers. Instead, the PyTorch function that it calls for every buffer is wrapped. Generated
modules look this function up when they are loaded.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from ttmem._frames import leave
from ttmem._torch.compiled import compiles_beside_modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode

# The name that generated modules give to the function, and its name in PyTorch.
ALLOCATE, NATIVE = "empty_strided_cpu", "_empty_strided_cpu"
# Generated modules with this attribute are entirely C++: their buffers cannot be tracked.
CPP_ENTRY = "inductor_entry"


class CompiledBuffers:
    """Tracks every CPU buffer that compiled code allocates."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._allocate: Callable[..., Any] | None = None
        self._tracked: Callable[..., Any] | None = None

    def open(self) -> None:
        """Wraps the allocation function, including in modules that are already loaded."""
        self._allocate = getattr(_guards(), NATIVE, None)
        if self._allocate is None:
            return
        mode, allocate = self._mode, self._allocate

        @functools.wraps(allocate)
        def allocate_tracked(*args: Any, **kwargs: Any) -> Any:
            try:
                buffer = allocate(*args, **kwargs)
            except BaseException as error:
                leave(error)
                raise
            if mode.is_on and mode.sees_operations:
                mode.made(buffer, "inductor::empty_strided_cpu")
            return buffer

        self._tracked = allocate_tracked
        setattr(_guards(), NATIVE, allocate_tracked)
        _replace(allocate, allocate_tracked)

    def close(self) -> None:
        allocate, tracked = self._allocate, self._tracked
        if allocate is None or tracked is None:
            return
        _replace(tracked, allocate)
        if getattr(_guards(), NATIVE, None) is tracked:
            setattr(_guards(), NATIVE, allocate)

    def missing(self) -> str | None:
        """Describes the allocations of compiled code that were not tracked, if any compiled code ran."""
        if not has_compiled():
            return None
        if self._allocate is None or not compiles_beside_modes():
            return (
                "memory that compiled code allocates while it runs, and its results until another operation "
                f"uses them (not supported with PyTorch {torch.__version__})"
            )
        if any(hasattr(module, CPP_ENTRY) for module in _generated()):
            return "memory that code compiled with cpp_wrapper allocates while it runs"
        return None


def _guards() -> Any:
    return torch._C._dynamo.guards


def _generated() -> list[Any]:
    """Returns the modules that Inductor has generated."""
    codecache = sys.modules.get("torch._inductor.codecache")
    return [*getattr(getattr(codecache, "PyCodeCache", None), "modules", ())]


def _replace(one: Callable[..., Any], other: Callable[..., Any]) -> None:
    for module in _generated():
        if getattr(module, ALLOCATE, None) is one:
            setattr(module, ALLOCATE, other)


def has_compiled() -> bool:
    """Whether a graph was compiled in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    # Another thread may be importing the module: it may lack the attribute.
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters["stats"].get("unique_graphs"))
