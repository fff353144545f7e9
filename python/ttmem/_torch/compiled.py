"""Compiled code beside modes, on versions of PyTorch that cannot have both.

There, a function that is compiled would be compiled anew at every call while a mode is on. So the watcher
steps aside around such calls; and who pretends has them run as they were written. Both happen where PyTorch
sets what runs a function: `torch._dynamo.eval_frame.set_eval_frame`.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ttmem._torch.mode import install, uninstall

if TYPE_CHECKING:
    from ttmem._torch.mode import Mode


# Not imported before it is needed.
EVAL_FRAME: str = "torch._dynamo.eval_frame"


def compiles_beside_modes() -> bool:
    """Whether a mode can be there while compiled code runs. 2.9 says so, and compiles at every call."""
    major, minor, *_ = torch.__version__.split(".")
    return hasattr(TorchDispatchMode, "ignore_compile_internals") and (int(major), int(minor)) >= (2, 10)


class StepAside:
    """Takes the watcher off a thread's stack as long as compiled code runs in it."""

    def __init__(self, mode: Mode) -> None:
        """Which watcher."""
        self._mode = mode
        self._setting: Setting | None = None
        self._thread = threading.local()

    def open(self) -> None:
        """Begins, where that is needed."""
        if not compiles_beside_modes():
            self._setting = Setting(self._set)

    def close(self) -> None:
        """Ends."""
        if self._setting is not None:
            self._setting.undo()

    def _set(self, before: Any, callback: Any) -> Any:
        is_aside = getattr(self._thread, "is_aside", False)
        if callback is not None:
            if not is_aside:
                self._thread.is_aside = uninstall(self._mode)
            return before(callback)
        # First: what follows would be compiled, too.
        prior = before(None)
        if is_aside:
            self._thread.is_aside = False
            if self._mode.is_on:
                install(self._mode)
        return prior


class AsWritten:
    """Has functions that are compiled run as they were written."""

    def __init__(self) -> None:
        """Begins."""
        set_stance = getattr(torch.compiler, "set_stance", None)
        self._stance = set_stance("force_eager") if set_stance is not None else None
        self._setting = Setting(lambda before, _: before(None)) if set_stance is None else None

    def undo(self) -> None:
        """Ends."""
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
        if self._setting is not None:
            self._setting.undo()


class Setting:
    """Something else that is done in the place of `set_eval_frame`: it is told what that was."""

    def __init__(self, instead: Any) -> None:
        """Begins."""
        self._module: Any = import_module(EVAL_FRAME)
        self._replaced: list[tuple[str, Any, Any]] = []
        for name in ("set_eval_frame", "_maybe_set_eval_frame"):
            before = vars(self._module).get(name)
            if before is not None:
                ours = _wrapped(before, instead)
                # Otherwise they would be compiled themselves.
                for function in (ours, instead):
                    self._module.skip_code(getattr(function, "__func__", function).__code__)
                setattr(self._module, name, ours)
                self._replaced.append((name, before, ours))

    def undo(self) -> None:
        """Ends. Somebody else's wrapper around ours stays."""
        for name, before, ours in self._replaced:
            if getattr(self._module, name) is ours:
                setattr(self._module, name, before)


def _wrapped(before: Any, instead: Any) -> Any:
    def set_eval_frame(callback: Any) -> Any:
        return instead(before, callback)

    return set_eval_frame
