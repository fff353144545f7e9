"""What training says: when gradients are computed and the optimizer steps, and which tensors are whose."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode
    from ttmem._torch.modules import Modules


class Training:
    """Enters a scope for every backward pass and step of an optimizer, and learns what they leave behind."""

    def __init__(self, mode: Mode, modules: Modules) -> None:
        """For which watcher, and the modules that it knows."""
        self._mode = mode
        self._modules = modules
        self._handles: list[Any] = []
        self._backward: Callable[..., Any] | None = None
        # Which state of an optimizer was seen: it may get another one.
        # Of optimizers: how many steps run inside of their own.
        self._inner: dict[int, int] = {}
        self._seen: weakref.WeakKeyDictionary[Optimizer, list[int]] = weakref.WeakKeyDictionary()

    def open(self) -> None:
        """Begins."""
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        backward = self._backward = torch.autograd.backward

        @functools.wraps(backward)
        def backward_watched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._mode.is_on:
                return backward(*args, **kwargs)
            return self._during_backward(backward, args, kwargs)

        self._watched = backward_watched
        torch.autograd.backward = backward_watched

    def close(self) -> None:
        """Ends. Somebody else's wrapper around ours stays."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._backward is not None and torch.autograd.backward is self._watched:
            torch.autograd.backward = self._backward
        self._backward = None

    def _during_backward(
        self, backward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        mode, outer = self._mode, self._mode.backward
        try:
            self._modules.end_interrupted()
            mode.backward = mode.begin("backward", "backward", id(self))
        except Exception as error:  # noqa: BLE001 - the program must not see it
            mode.failed(error)
        try:
            return backward(*args, **kwargs)
        finally:
            mode.backward = outer
            self._mode.end_tagged(id(self))
            self._gradients()

    def _gradients(self) -> None:
        try:
            self._modules.gradients()
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _before_step(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        if torch.compiler.is_compiling() or not self._mode.is_on:
            return
        try:
            self._modules.end_interrupted(is_inside=True)
            if id(optimizer) in self._mode.passes():
                # The step of the class that it is derived from: it is a part of this one.
                self._inner[id(optimizer)] = self._inner.get(id(optimizer), 0) + 1
                return
            self._inner.pop(id(optimizer), None)
            self._modules.gradients_by_hand()
            self._mode.begin(f"{type(optimizer).__name__}.step", "optimizer", id(optimizer))
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _after_step(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        if torch.compiler.is_compiling():
            return
        try:
            if self._inner.get(id(optimizer), 0) > 0:
                self._inner[id(optimizer)] -= 1
                return
            self._mode.end_tagged(id(optimizer))
            states = [id(state) for state in list(optimizer.state.values())]
            if self._mode.is_on and self._seen.get(optimizer) != states:
                self._seen[optimizer] = states
                self._states(optimizer)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _states(self, optimizer: Optimizer) -> None:
        # Copies: another thread may make steps of the same optimizer.
        for state in list(optimizer.state.values()):
            for key, value in list(state.items()):
                if isinstance(value, torch.Tensor):
                    self._mode.classify(value, "optimizer", str(key))
