"""Model names: two objects of one class are two models, and their modules get different paths."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# These call the model in their attribute `module`.
WRAPPERS = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
# The attributes of other wrappers: of FSDP, of recomputed and of compiled modules.
WRAPPED = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"})
# Further models of one class share a name: a program may create models in a loop.
MAX_NUMBER = 100
# Further paths are not compared.
MAX_PATHS = 1 << 16


class ModelName(NamedTuple):
    """A model's name, and the prefix of its modules' paths."""

    name: str
    prefix: str


class NamedModule(NamedTuple):
    """A module of a model, its name, and the prefix of its parameters' names."""

    module: torch.nn.Module
    name: str
    prefix: str


class _Owner(NamedTuple):
    module: weakref.ref[torch.nn.Module]
    model: weakref.ref[torch.nn.Module]


class ModelNames:
    """Gives every model a unique name: `GPT`, `GPT (2)`.

    Module paths (`blocks.0.mlp`) get the model's name as a prefix if another model has used one of them. They
    do not contain wrappers such as `DistributedDataParallel`.
    """

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, ModelName] = weakref.WeakKeyDictionary()
        self._numbers: dict[str, int] = {}
        # The owner of each path, including models that were freed: their memory is in the recording.
        self._owners: dict[str, _Owner] = {}

    def of(self, model: torch.nn.Module) -> ModelName:
        """Returns the name of a model, which does not change."""
        known = self._names.get(model)
        if known is None:
            name = self._new_name(model)
            known = ModelName(name, f"{name}." if self._shares_a_path(model) else "")
            self._names[model] = known
        self._remember_paths(model, known)
        return known

    def inside(self, model: torch.nn.Module) -> Iterator[NamedModule]:
        """Yields the modules of a model, itself included."""
        wrapped = _unwrapped(model)
        own, inner = self.of(model), self.of(wrapped)
        for path, module in _paths(model):
            if module is model or module is wrapped:
                yield NamedModule(module, own.name if module is model else inner.name, inner.prefix)
            else:
                name = f"{inner.prefix}{path}" if path else type(module).__name__
                yield NamedModule(module, name, f"{inner.prefix}{path}." if path else inner.prefix)

    def _new_name(self, model: torch.nn.Module) -> str:
        name = type(model).__name__
        if next(model.parameters(), None) is None:
            # Losses and activations are often created for every call, and are interchangeable.
            return name
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        if number > MAX_NUMBER:
            return f"{name} ({MAX_NUMBER} and later)"
        return name if number == 1 else f"{name} ({number})"

    def _shares_a_path(self, model: torch.nn.Module) -> bool:
        for path, module in _paths(model):
            owner = self._owners.get(path)
            if owner is not None and owner.module() is not module and owner.model() is not model:
                return True
        return False

    def _remember_paths(self, model: torch.nn.Module, name: ModelName) -> None:
        if name.prefix:
            return
        this = weakref.ref(model)
        for path, module in _paths(model):
            if path and len(self._owners) < MAX_PATHS:
                self._owners[path] = _Owner(weakref.ref(module), this)


def is_wrapper(module: torch.nn.Module) -> bool:
    """Returns whether a module only runs another one."""
    return isinstance(module, WRAPPERS) or any(name in WRAPPED for name, _ in module.named_children())


def _paths(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yields the modules of a model and their paths, without wrappers."""
    start = "module." if isinstance(model, WRAPPERS) else ""
    for path, module in model.named_modules():
        short = f"{path}.".removeprefix(start).removesuffix(".")
        if not WRAPPED.isdisjoint(parts := short.split(".")):
            short = ".".join(part for part in parts if part not in WRAPPED)
        yield short, module


def _unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Returns the model that wrappers run; the model itself if there are none."""
    while True:
        names = {"module"} if isinstance(model, WRAPPERS) else WRAPPED
        inner = next((child for name, child in model.named_children() if name in names), None)
        if inner is None:
            return model
        model = inner
