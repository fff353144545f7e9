"""Compiled code on versions of PyTorch that do not support it together with dispatch modes.

They would recompile a function at every call while a mode is active. So the mode is removed during such
calls, and a NO_DISPATCH capture runs them uncompiled. Both hook `torch._dynamo.eval_frame.set_eval_frame`.
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


# Imported on first use.
EVAL_FRAME: str = "torch._dynamo.eval_frame"


def compiles_beside_modes() -> bool:
    """Whether compiled code can run under a mode. PyTorch 2.9 has the flag, but recompiles at every call."""
    major, minor, *_ = torch.__version__.split(".")
    return hasattr(TorchDispatchMode, "ignore_compile_internals") and (int(major), int(minor)) >= (2, 10)


class StepAside:
    """Removes the mode from a thread's stack while compiled code runs in it."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._setting: Setting | None = None
        self._thread = threading.local()

    def open(self) -> None:
        if not compiles_beside_modes():
            self._setting = Setting(self._set)

    def close(self) -> None:
        if self._setting is not None:
            self._setting.undo()

    def _set(self, before: Any, callback: Any) -> Any:
        is_aside = getattr(self._thread, "is_aside", False)
        if callback is not None:
            if not is_aside:
                self._thread.is_aside = uninstall(self._mode)
            return before(callback)
        # First, so that the code below is not compiled.
        prior = before(None)
        if is_aside:
            self._thread.is_aside = False
            if self._mode.is_on:
                install(self._mode)
        return prior


class AsWritten:
    """Runs compiled functions uncompiled (eager)."""

    def __init__(self) -> None:
        set_stance = getattr(torch.compiler, "set_stance", None)
        self._stance = set_stance("force_eager") if set_stance is not None else None
        self._setting = Setting(lambda before, _: before(None)) if set_stance is None else None

    def undo(self) -> None:
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
        if self._setting is not None:
            self._setting.undo()


class Setting:
    """Replaces `set_eval_frame` with a function that gets the original one as its first argument."""

    def __init__(self, instead: Any) -> None:
        self._module: Any = import_module(EVAL_FRAME)
        self._replaced: list[tuple[str, Any, Any]] = []
        for name in ("set_eval_frame", "_maybe_set_eval_frame"):
            before = vars(self._module).get(name)
            if before is not None:
                ours = _wrapped(before, instead)
                # Keep Dynamo from compiling them.
                for function in (ours, instead):
                    self._module.skip_code(getattr(function, "__func__", function).__code__)
                setattr(self._module, name, ours)
                self._replaced.append((name, before, ours))

    def undo(self) -> None:
        """Restores the original, unless another wrapper was installed around ours."""
        for name, before, ours in self._replaced:
            if getattr(self._module, name) is ours:
                setattr(self._module, name, before)


def _wrapped(before: Any, instead: Any) -> Any:
    def set_eval_frame(callback: Any) -> Any:
        return instead(before, callback)

    return set_eval_frame
