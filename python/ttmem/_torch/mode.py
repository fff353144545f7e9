"""The dispatch mode: sees every operation of the threads that it is installed in."""

from __future__ import annotations

import logging
import os
import sysconfig
import tempfile
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ttmem._native import Call, Watch
from ttmem._signals import raised_by_a_handler

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("ttmem")

# The call that runs in this context: a thread's, or a task's.
current: ContextVar[Call | None] = ContextVar("ttmem_call", default=None)


class Mode(Watch, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The watcher as a dispatch mode.

    It is put on PyTorch's stack of modes directly, not by `with`: entering a mode the usual way turns
    compilation off for all threads.
    """

    supports_higher_order_operators = True

    # Every operation is watched by its results. Not where allocators say what they do: that costs nothing.
    sees_operations = True
    # Called between forward passes and steps, where there is something to be done then.
    turn: Callable[[], None] | None = None
    # Called where an operation begins inside of a forward pass or a step: it may be over.
    end_interrupted: Callable[[], None] | None = None

    def __init__(self, path: str | None, limit: int | None = None, *, estimates: bool = False) -> None:
        """Watches, and records to a file if there is a path. It may count tensors that have no memory."""
        del path, limit, estimates
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]

    def __new__(cls, path: str | None, limit: int | None = None, *, estimates: bool = False) -> Mode:
        """Gives the watcher what it needs of Python."""
        return super().__new__(
            cls,
            path,
            tensor=torch.Tensor,
            parameter=torch.nn.Parameter,
            current=current,
            inner=plain_tensors,
            complain=complain,
            is_programs=raised_by_a_handler,
            plainly=torch._C.DisableTorchFunction,
            libraries=libraries(),
            limit=limit,
            estimates=estimates,
        )

    @classmethod
    def is_infra_mode(cls) -> bool:
        """It is no mode of the program's."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What is compiled is compiled as without it."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def install(mode: Mode) -> None:
    """Puts the mode on the stack of this thread: below all others, which go when they are to.

    One of an earlier tracker, which was stopped in another thread, is still there: now it goes.
    """
    if not mode.sees_operations:
        return
    above = [torch._C._pop_torch_dispatch_stack(None) for _ in range(torch._C._len_torch_dispatch_stack())]
    torch._C._push_on_torch_dispatch_stack(mode)
    for other in reversed(above):
        if not isinstance(other, Mode) or other.is_on:
            torch._C._push_on_torch_dispatch_stack(other)


def leave_to_allocators(mode: Mode) -> None:
    """From now on, allocators say what happens: the mode goes from all threads, when they come by."""
    if mode.sees_operations:
        mode.sees_operations, mode.tells_allocators = False, True
        uninstall(mode)


def uninstall(mode: Mode) -> bool:
    """Takes the mode off the stack of this thread, wherever in it that is. False when it is not there."""
    above: list[Any] = []
    found = False
    while torch._C._len_torch_dispatch_stack() > 0:
        top = torch._C._pop_torch_dispatch_stack(None)
        if top is mode:
            found = True
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_dispatch_stack(other)
    return found


def complain(error: BaseException) -> None:
    """Says the first error of the watcher's own; the program never sees one."""
    logger.warning("ttmem could not follow an operation, and counts those from now on: %r", error)


def libraries() -> list[str]:
    """Where code lies that is not the user's: the first line of a stack outside of these is where to look."""
    paths = sysconfig.get_paths()
    places = {os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__))}
    places |= {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    # Code that Inductor has generated: `torchinductor_` and the name of the user.
    generated = {os.path.join(tempfile.gettempdir(), "torchinductor_")}
    if place := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        generated.add(os.path.join(os.path.abspath(place), ""))
    return sorted({os.path.join(place, "") for place in places} | generated)


def plain_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors with storages of their own that a tensor is made of."""
    found: list[torch.Tensor] = []
    for part in _parts(tensor):
        if part is tensor:
            found.append(tensor)
        elif isinstance(part, torch.Tensor):
            found += plain_tensors(part)
    return found


def _parts(tensor: torch.Tensor) -> list[Any]:
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names, _ = flatten()
        return [getattr(tensor, name) for name in names]
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    # Memory that PyTorch does not show: mkldnn, vulkan.
    return []
