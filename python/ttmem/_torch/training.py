"""Hooks for training: backward passes, optimizer steps, gradients and optimizer states."""

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

from ttmem._frames import leave

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._native import Call
    from ttmem._torch.mode import Mode
    from ttmem._torch.modules import Modules


class Training:
    """Enters a scope for every backward pass and optimizer step, and classifies the tensors they create."""

    def __init__(self, mode: Mode, modules: Modules) -> None:
        self._mode = mode
        self._modules = modules
        self._handles: list[Any] = []
        self._backward: Callable[..., Any] | None = None
        # Number of nested steps, by optimizer.
        self._inner: dict[int, int] = {}
        # Ids of the classified states, by optimizer: states may be replaced.
        self._seen: weakref.WeakKeyDictionary[Optimizer, list[int]] = weakref.WeakKeyDictionary()
        # By optimizer: the ids of its parameters, and those that are not part of a model.
        self._own: weakref.WeakKeyDictionary[Optimizer, tuple[list[int], list[weakref.ref[torch.Tensor]]]] = (
            weakref.WeakKeyDictionary()
        )

    def open(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        backward = self._backward = torch.autograd.backward

        @functools.wraps(backward)
        def backward_tracked(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._mode.is_on:
                return backward(*args, **kwargs)
            outer = self._begin_backward()
            try:
                return backward(*args, **kwargs)
            except BaseException as error:
                leave(error)
                raise
            finally:
                self._end_backward(outer)

        self._tracked = backward_tracked
        torch.autograd.backward = backward_tracked

    def close(self) -> None:
        """Removes the hooks, except if another wrapper was installed around `backward`."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._backward is not None and torch.autograd.backward is self._tracked:
            torch.autograd.backward = self._backward
        self._backward = None

    def _begin_backward(self) -> Call | None:
        """Enters the scope of a backward pass; returns the pass that it is nested in."""
        mode, outer = self._mode, self._mode.backward
        try:
            self._modules.end_interrupted()
            mode.backward = mode.begin("backward", "backward", id(self))
        except Exception as error:  # noqa: BLE001 - the program must not see it
            mode.failed(error)
        return outer

    def _end_backward(self, outer: Call | None) -> None:
        self._mode.backward = outer
        self._mode.end_tagged(id(self))
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
                # `super().step()`: part of the step that is already running.
                self._inner[id(optimizer)] = self._inner.get(id(optimizer), 0) + 1
                return
            self._inner.pop(id(optimizer), None)
            self._modules.gradients_by_hand()
            self._mode.begin(f"{type(optimizer).__name__}.step", "optimizer", id(optimizer))
            if self._mode.has_details:
                self._own_parameters(optimizer)
                self._own_gradients(optimizer)
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
            if self._mode.is_on and self._mode.has_details:
                # A closure has computed gradients in the step.
                self._own_gradients(optimizer)
            states = [id(state) for state in list(optimizer.state.values())]
            if self._mode.is_on and self._seen.get(optimizer) != states:
                self._seen[optimizer] = states
                self._states(optimizer)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def _own_parameters(self, optimizer: Optimizer) -> None:
        """Classifies parameters that are not part of a model."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        ids = [id(parameter) for parameter in parameters]
        known, _ = self._own.get(optimizer, ([], []))
        if known != ids:
            in_models = self._modules.parameters()
            own = [parameter for parameter in parameters if id(parameter) not in in_models]
            self._own[optimizer] = ids, [weakref.ref(parameter) for parameter in own]
            for parameter in own:
                self._mode.classify(parameter, "parameter", None, parameter.requires_grad)

    def _own_gradients(self, optimizer: Optimizer) -> None:
        """Classifies the gradients of parameters that are not part of a model."""
        _, own = self._own.get(optimizer, ([], []))
        for reference in own:
            parameter = reference()
            # PyTorch warns when the gradient of a tensor is read that is not a leaf.
            if parameter is not None and parameter.is_leaf and parameter.grad is not None:
                self._mode.classify(parameter.grad, "gradient", None)

    def _states(self, optimizer: Optimizer) -> None:
        # Copies, because another thread may step the same optimizer.
        for state in list(optimizer.state.values()):
            for key, value in list(state.items()):
                if isinstance(value, torch.Tensor):
                    self._mode.classify(value, "optimizer", str(key))
