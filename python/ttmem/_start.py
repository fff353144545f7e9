"""Starts the tracker with the program, when the environment says so: `TTMEM_TRACK=1 python script.py`.

`ttmem-start.pth` imports this when Python starts. PyTorch is not imported for it: the tracker starts when the
program imports PyTorch.
"""

from __future__ import annotations

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
        """Finds PyTorch as it would be found without, and starts the tracker when it is loaded."""
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
        self._loader.exec_module(module)
        start()


def start() -> None:
    """Starts the tracker as the environment says. A program is not kept from running by that."""
    from ttmem.tracker import initialize_memory_tracker

    environment = os.environ
    try:
        initialize_memory_tracker(
            environment.get("TTMEM_TRACK_DIR", "."),
            interval=float(environment.get("TTMEM_TRACK_INTERVAL", "5")),
            level="phases" if environment.get("TTMEM_TRACK_LEVEL") == "phases" else "tensors",
        )
    except (OSError, ValueError) as error:
        sys.stderr.write(f"ttmem: the tracker was not started: {error}\n")


sys.meta_path.insert(0, AfterTorch())
