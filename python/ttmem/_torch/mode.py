"""The dispatch mode: sees every operation of the threads that it is installed in."""

from __future__ import annotations

import logging
import os
import sysconfig
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ttmem._native import Call, Watch

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("ttmem")

# The call that runs in this context: a thread's, or a task's.
current: ContextVar[Call | None] = ContextVar("ttmem_call", default=None)


class Mode(Watch, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The watcher as a dispatch mode.

    It is put on PyTorch's stack of modes directly, not by `with`: entering a mode the usual way turns
    compilation off for all threads, and this one changes nothing of what runs.
    """

    supports_higher_order_operators = True

    def __init__(self, path: str | None) -> None:
        """Watches, and records to a file if there is a path."""
        del path
        TorchDispatchMode.__init__(self)  # type: ignore[no-untyped-call]

    def __new__(cls, path: str | None) -> Mode:
        """Gives the watcher what it needs of Python."""
        return super().__new__(
            cls,
            path,
            tensor=torch.Tensor,
            current=current,
            inner=plain_tensors,
            complain=complain,
            libraries=libraries(),
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
    """Puts the mode on the stack of this thread."""
    torch._C._push_on_torch_dispatch_stack(mode)


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
    return sorted(os.path.join(place, "") for place in places)


def plain_tensors(tensor: torch.Tensor) -> Iterable[torch.Tensor]:
    """The tensors with storages that a tensor without one is made of."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names, _ = flatten()
        parts = [getattr(tensor, name) for name in names]
    elif tensor.layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        # Memory that PyTorch does not show (mkldnn, vulkan), or none.
        parts = []
    for part in parts:
        if isinstance(part, torch.Tensor):
            try:
                part.untyped_storage()
            except (RuntimeError, NotImplementedError):
                yield from plain_tensors(part)
            else:
                yield part
