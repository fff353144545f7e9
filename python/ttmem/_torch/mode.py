"""The dispatch mode that tracks every operation of the threads it is installed in."""

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

# The innermost running call of this context (a thread or a task).
current: ContextVar[Call | None] = ContextVar("ttmem_call", default=None)


class Mode(Watch, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The native tracker as a dispatch mode.

    It is pushed on PyTorch's mode stack directly, not with `with`: entering a mode the usual way turns off
    compilation for all threads.
    """

    supports_higher_order_operators = True

    # Whether the results of every operation are tracked. Not needed if allocators record a history, which is
    # much cheaper.
    sees_operations = True
    # Called between forward passes and optimizer steps.
    turn: Callable[[], None] | None = None
    # Called when an operation begins inside a forward pass or step, which an exception may have ended.
    end_interrupted: Callable[[], None] | None = None

    def __init__(self, path: str | None, limit: int | None = None, *, estimates: bool = False) -> None:
        del path, limit, estimates
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]

    def __new__(cls, path: str | None, limit: int | None = None, *, estimates: bool = False) -> Mode:
        return super().__new__(
            cls,
            path,
            tensor=torch.Tensor,
            parameter=torch.nn.Parameter,
            current=current,
            inner=plain_tensors,
            complain=complain,
            is_programs=raised_by_a_handler,
            disable_torch_function=torch._C.DisableTorchFunction,
            libraries=libraries(),
            limit=limit,
            estimates=estimates,
        )

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Tells PyTorch that this is not one of the program's modes."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Tells PyTorch to compile as if this mode were not active."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def install(mode: Mode) -> None:
    """Installs the mode at the bottom of this thread's stack, so that the program can pop its own modes.

    Also removes the mode of an earlier tracker that was stopped in another thread.
    """
    if not mode.sees_operations:
        return
    above = [torch._C._pop_torch_dispatch_stack(None) for _ in range(torch._C._len_torch_dispatch_stack())]
    torch._C._push_on_torch_dispatch_stack(mode)
    for other in reversed(above):
        if not isinstance(other, Mode) or other.is_on:
            torch._C._push_on_torch_dispatch_stack(other)


def leave_to_allocators(mode: Mode) -> None:
    """Switches to the allocators' history: threads remove the mode at their next forward pass."""
    if mode.sees_operations:
        mode.sees_operations, mode.tells_allocators = False, True
        uninstall(mode)


def uninstall(mode: Mode) -> bool:
    """Removes the mode from this thread's stack, at any position. Returns False if it is not installed."""
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
    """Logs the tracker's first internal error. Later ones are only counted."""
    logger.warning(
        "ttmem could not track an operation, so the numbers may be incomplete (later errors are only "
        "counted): %r",
        error,
    )


def libraries() -> list[str]:
    """Returns path prefixes of library code. An allocation's location is the innermost line outside them."""
    paths = sysconfig.get_paths()
    places = {os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__))}
    places |= {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths}
    # Inductor's generated code is in `torchinductor_USER`.
    generated = {os.path.join(tempfile.gettempdir(), "torchinductor_")}
    if place := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        generated.add(os.path.join(os.path.abspath(place), ""))
    return sorted({os.path.join(place, "") for place in places} | generated)


def plain_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Returns the tensors with their own storage that a tensor consists of."""
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
    # PyTorch does not expose the memory of other layouts (mkldnn, vulkan).
    return []
