"""What modules say: which forward pass runs, which tensors are parameters, buffers and inputs."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module

from ttmem._torch.autograd import mark, saved_tensors
from ttmem._torch.mode import uninstall

if TYPE_CHECKING:
    from ttmem._torch.mode import Mode

# Inputs are looked for in containers down to this depth.
DEEPEST = 4


class Modules:
    """Enters a scope for the forward pass of every module, and learns what is in it."""

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._known: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._filter: object = None

    def open(self) -> None:
        """Begins."""
        # Hooks on all modules fire once more for a compiled one: that does no harm.
        warnings.filterwarnings(
            "ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks"
        )
        self._filter = warnings.filters[0]
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._before),
            torch_module.register_module_forward_hook(self._after, always_call=True),
        ]

    def close(self) -> None:
        """Ends."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def learn(self, model: torch.nn.Module) -> None:
        """Takes down the names of a model, and what its parameters and buffers are."""
        mode = self._mode
        for name, module in model.named_modules():
            self._names[module] = name or type(module).__name__
        for name, parameter in model.named_parameters():
            mode.classify(parameter, "parameter", name, parameter.requires_grad)
            if parameter.is_leaf and parameter.grad is not None:
                mode.classify(parameter.grad, "gradient", f"{name}.grad")
        for name, buffer in model.named_buffers():
            mode.classify(buffer, "buffer", name, buffer.requires_grad)
        self._known.add(model)

    @property
    def models(self) -> list[torch.nn.Module]:
        """The models that were seen, and are still there."""
        return list(self._known)

    def _before(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if torch.compiler.is_compiling() or not self._mode.is_on or _is_wrapper(module):
            return
        try:
            name = self._names.get(module)
            if name is None:
                self.learn(module)
                name = self._names[module]
            if module in self._known:
                self._inputs(args)
            self._mode.begin(name, "forward", id(module))
            if not self._mode.sees_operations and torch._C._len_torch_dispatch_stack() > 0:
                uninstall(self._mode)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _after(self, module: torch.nn.Module, args: tuple[Any, ...], output: object) -> None:
        del args
        if torch.compiler.is_compiling():
            return
        if self._mode.tells_allocators and self._mode.is_on:
            self._tell(module, output)
        self._mode.end_tagged(id(module))
        if self._mode.turn is not None and module in self._known:
            self._mode.turn()

    def _tell(self, module: torch.nn.Module, output: object) -> None:
        """What a module has given, and what is kept of it, for allocators that know only addresses."""
        mode = self._mode
        try:
            name = self._names.get(module)
            if name is not None:
                mark(mode, name, output)
            if mode.wants_labels():
                mode.label(output, "activation")
                if module in self._known:
                    mode.label(list(saved_tensors(output)), "activation")
        except Exception as error:  # noqa: BLE001 - the program must not see it
            mode.failed(error)

    def _inputs(self, args: object, depth: int = 0) -> None:
        """What goes into a model that nobody has made."""
        if isinstance(args, torch.Tensor):
            self._mode.classify(args, "input", None, args.requires_grad, only_unknown=True)
        elif depth < DEEPEST and isinstance(args, (list, tuple)):
            for arg in args:
                self._inputs(arg, depth + 1)
        elif depth < DEEPEST and isinstance(args, dict):
            for arg in args.values():
                self._inputs(arg, depth + 1)


def _is_wrapper(module: torch.nn.Module) -> bool:
    """What `torch.compile` puts around a module: what runs is inside."""
    return type(module).__name__ == "OptimizedModule"
