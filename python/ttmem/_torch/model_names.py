"""Model names: two objects of one class are two models, and their modules get different paths."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

# Further models of one class share a name: a program may create models in a loop.
MAX_NUMBER = 100
# Further paths are not compared.
MAX_PATHS = 1 << 16


class ModelName(NamedTuple):
    """A model's name, and the prefix of its modules' paths."""

    name: str
    prefix: str


class _Owner(NamedTuple):
    module: weakref.ref[torch.nn.Module]
    model: weakref.ref[torch.nn.Module]


class ModelNames:
    """Gives every model a unique name: `GPT`, `GPT (2)`.

    Module paths (`blocks.0.mlp`) get the model's name as a prefix if another model has used one of them.
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
        for path, module in model.named_modules():
            owner = self._owners.get(path)
            if owner is not None and owner.module() is not module and owner.model() is not model:
                return True
        return False

    def _remember_paths(self, model: torch.nn.Module, name: ModelName) -> None:
        if name.prefix:
            return
        this = weakref.ref(model)
        for path, module in model.named_modules():
            if path and len(self._owners) < MAX_PATHS:
                self._owners[path] = _Owner(weakref.ref(module), this)
