"""Lets code that checks for tensors without memory run as it does with real ones.

transformers skips attention masks that mask nothing, but not for fake tensors, whose values it expects to be
unknown. PyTorch keeps the old parameter longer when it converts a module of fake tensors. A NO_DISPATCH
capture would therefore report other numbers than a real run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Callable

# The functions of libraries that return whether a tensor is a fake one.
CHECKS = (("transformers.utils.import_utils", "is_fake_tensor"),)


class AsReal:
    """Replaces these checks while a capture runs."""

    def __init__(self, mode: FakeTensorMode) -> None:
        """`mode` is the mode of the tensors without memory."""
        self._mode = mode
        self._waiting: list[tuple[str, str]] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def begin(self) -> None:
        self._waiting = list(CHECKS)
        self._replace(torch.utils, "swap_tensors", _swap)
        self.look()

    def look(self) -> None:
        """Replaces the checks of libraries that were imported since the last call."""
        for name, function in self._waiting.copy() if self._waiting else ():
            module = sys.modules.get(name)
            # A module that is being imported does not have all functions yet.
            if module is not None and hasattr(module, function):
                self._waiting.remove((name, function))
                self._replace(module, function, self._is_other_fake)

    def end(self) -> None:
        """Restores the checks, unless the program has replaced them as well."""
        self._waiting = []
        while self._replaced:
            owner, name, before, ours = self._replaced.pop()
            if getattr(owner, name, None) is ours:
                setattr(owner, name, before)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        before = getattr(owner, name)
        ours = make(before)
        setattr(owner, name, ours)
        self._replaced.append((owner, name, before, ours))

    def _is_other_fake(self, before: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def is_fake_tensor(x: Any) -> bool:
            is_ours = isinstance(x, FakeTensor) and x.fake_mode is self._mode
            return not is_ours and before(x)

        return is_fake_tensor


def _swap(before: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def swap_tensors(t1: Any, t2: Any) -> None:
        before(t1, t2)
        caller = sys._getframe(1).f_code
        if caller is torch.nn.Module._apply.__code__ and isinstance(t2, FakeTensor):
            # `_apply` keeps the old tensor until it has converted the next one. Real parameters get the new
            # data in place, which frees the old data at once.
            torch._C._swap_tensor_impl(t2, t2.detach().new_empty(0))

    return swap_tensors
