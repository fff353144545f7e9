"""Starts the tracker with the program: `TTMEM_TRACK=1 python script.py`, or by configuration.

`ttmem-start.pth` imports this module at Python startup if the variable or a configuration is set. The tracker
starts, and reads the configuration, when the program imports PyTorch.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterTorch(importlib.abc.MetaPathFinder):
    """Waits for the import of PyTorch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Wraps PyTorch's loader to start the tracker once PyTorch is loaded."""
        del path, target
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            # Imported here, because only this case needs it and this module delays every program.
            from ttmem._frames import leave

            leave(error)
            raise
        start()


def start() -> None:
    """Starts the tracker as configured. Errors are printed and never stop the program."""
    try:
        from ttmem import _children

        _children.start(_start)
    except Exception as error:  # noqa: BLE001 - must not stop the program
        say(f"the tracker was not started: {error}")


def _start() -> None:
    from ttmem._native import tracker_settings

    try:
        settings = tracker_settings()
        for problem in settings["problems"]:
            say(problem)
        if settings["enabled"]:
            from ttmem.tracker import initialize_memory_tracker

            tracker = initialize_memory_tracker(
                settings["output_dir"],
                interval=settings["interval"],
                level=settings["level"],
                limit=settings["limit"],
            )
            if os.environ.get("TTMEM_TRACK_ANNOUNCE") == "1":
                from ttmem._children import announced_stop

                tracker.announces = True
                atexit.register(announced_stop)
    except Exception as error:  # noqa: BLE001 - must not stop the program
        say(f"the tracker was not started: {error}")


def cancel() -> None:
    """Stops waiting for PyTorch: the program has started its own tracker."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, AfterTorch)]


def say(text: str) -> None:
    """Prints to standard error, if there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"ttmem: {text}\n")


sys.meta_path.insert(0, AfterTorch())
