"""Hooks for modules: forward passes, and which tensors are parameters, buffers and inputs."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from ttmem._native import Forward
from ttmem._torch.autograd import saved_tensors
from ttmem._torch.labels import label
from ttmem._torch.mode import uninstall
from ttmem._torch.model_names import ModelNames, is_wrapper

if TYPE_CHECKING:
    from types import FrameType

    from ttmem._torch.details import Details
    from ttmem._torch.mode import Mode

# Inputs are searched in containers to this depth, and among this many items of each.
MAX_DEPTH, MAX_ITEMS = 4, 256
# The KV cache in the outputs of Hugging Face models.
CACHE = "past_key_values"
# Models are nested at most this deep.
MAX_NESTED = 64
# PyTorch's frame that calls hooks is at most this many frames away.
FRAMES = 5


class Modules:
    """Enters a scope for the forward pass of every module, and classifies the module's tensors."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._forward: Forward | None = None
        self._names = ModelNames()
        # By model: its modules, and the prefixes of their parameters' names.
        self._models: weakref.WeakKeyDictionary[
            torch.nn.Module, list[tuple[weakref.ref[torch.nn.Module], str]]
        ] = weakref.WeakKeyDictionary()
        # By model: the fingerprint of its modules, parameters and buffers when they were registered.
        self._had: weakref.WeakKeyDictionary[torch.nn.Module, tuple[int, int]] = weakref.WeakKeyDictionary()
        # By module: the model that it is part of.
        self._model_of: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.nn.Module]] = (
            weakref.WeakKeyDictionary()
        )
        # The threads that run models; by thread, the models that ran since its last backward pass.
        self._threads: set[int] = set()
        self._ran: dict[int, weakref.WeakSet[torch.nn.Module]] = {}
        # By module: the one that it was first assigned to.
        self._parents: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.nn.Module]] = (
            weakref.WeakKeyDictionary()
        )
        self._handles: list[Any] = []
        self._registrations: list[Any] = []
        self._filter: object = None
        # Which iterations are recorded with all modules; without it, all are.
        self.details: Details | None = None

    @property
    def forward(self) -> Forward | None:
        return self._forward

    def open(self) -> None:
        # Global hooks are called once more for a compiled module, which is harmless.
        warnings.filterwarnings(
            "ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks"
        )
        self._filter = warnings.filters[0]
        self._forward = Forward(self._mode, self)
        self._mode.end_interrupted = self.end_interrupted
        self._registrations = [
            torch_module.register_module_module_registration_hook(self._registers),
            torch_module.register_module_parameter_registration_hook(self._registers_parameter),
        ]
        self.hook()

    def hook(self) -> None:
        """Adds the hooks of modules, unless they are there."""
        if self._handles or self._forward is None:
            return
        begins, ends = self._forward.begins, self._forward.ends

        # The rest is native. These are Python, so that Dynamo can see that there is nothing to compile.
        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if not is_compiling():
                begins(module, args)

        def after(module: torch.nn.Module, args: tuple[Any, ...], output: object) -> None:
            del args
            if not is_compiling():
                ends(module, output)

        self._handles = [
            torch_module.register_module_forward_pre_hook(before),
            torch_module.register_module_forward_hook(after, always_call=True),
        ]

    def unhook(self) -> None:
        """Removes the hooks of modules."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def close(self) -> None:
        if self.details is not None:
            self.details.close()
        self.unhook()
        for handle in self._registrations:
            handle.remove()
        self._registrations = []
        self._forward = None
        self._mode.end_interrupted = None
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def learn(self, model: torch.nn.Module) -> None:
        """Records the names of a model's modules, and classifies its parameters and buffers.

        If the model is a part of another one, which calls it by hand, all of that one is registered.
        """
        forward = self._forward
        if forward is None:
            return
        called, model = model, self._whole(model)
        inside, this = [], weakref.ref(model)
        for module, name, prefix in self._names.inside(model):
            forward.know(module, name, module is model or module is called)
            inside.append((weakref.ref(module), prefix))
            self._model_of[module] = this
        self._models[model] = inside
        self._had[model] = forward.fingerprint(inside)
        forward.contents(inside)
        forward.gradients(inside)

    def _registers(self, parent: torch.nn.Module, _: str, module: torch.nn.Module | None) -> None:
        """Called when a module is assigned to an attribute of another one."""
        if module is not None:
            self._parents.setdefault(module, weakref.ref(parent))

    def _registers_parameter(self, _: torch.nn.Module, __: str, parameter: torch.nn.Parameter | None) -> None:
        """Called when a parameter is assigned to an attribute of a module.

        The model may be converted before its first call, which frees this memory. An allocator with a history
        records the code that allocates parameters.
        """
        if parameter is None or not self._mode.sees_operations or torch.compiler.is_compiling():
            return
        try:
            self._mode.classify(parameter, "parameter", None, parameter.requires_grad)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)

    def parameters(self) -> set[int]:
        """Returns the ids of all parameters of models."""
        inside = [reference for parts in list(self._models.values()) for reference, _ in parts]
        modules = [module for reference in inside if (module := reference()) is not None]
        return {id(parameter) for module in modules for parameter in list(module._parameters.values())}

    def _whole(self, model: torch.nn.Module) -> torch.nn.Module:
        """Returns the outermost model that contains a model, such as a `LightningModule`; not a wrapper."""
        whole, module = model, model
        for _ in range(MAX_NESTED):
            parent = self._parents.get(module)
            found = parent() if parent is not None else None
            if found is None or not any(child is module for child in found.children()):
                break
            module = found
            if not is_wrapper(module):
                whole = module
        return whole

    def gradients(self, *, is_over: bool = True) -> None:
        """Classifies the gradients of models after a backward pass of this thread.

        Gradients that another thread may be writing must not be read, not even with the GIL held, because
        PyTorch releases it in between. So each thread reads only models that no other thread has run since.
        """
        if not self._mode.has_details:
            return
        thread = threading.get_ident()
        here = self._ran.get(thread) or ()
        # `copy` is atomic; other threads add and remove entries while this loop runs.
        elsewhere = [ran for of, ran in self._ran.copy().items() if of != thread]
        if is_over:
            self._ran.pop(thread, None)
        models = [model for model in here if not any(model in ran for ran in elsewhere)]
        if not here and self._threads <= {thread}:
            # The model may have run before an earlier backward pass.
            models = [model for reference in self._models.keyrefs() if (model := reference()) is not None]
        for model in models:
            inside = self._models.get(model)
            if inside is not None and self._forward is not None:
                self._forward.gradients(inside)

    def gradients_by_hand(self) -> None:
        """Classifies gradients before an optimizer step without a backward pass (`autograd.grad`)."""
        if threading.get_ident() in self._ran:
            self.gradients(is_over=False)

    def end_interrupted(self, *, is_inside: bool = False) -> None:
        """Ends forward passes and steps that Ctrl-C has interrupted: PyTorch calls no hook for them.

        `is_inside`: the innermost module or optimizer that PyTorch runs has not been entered here yet.
        """
        passes = self._mode.passes()
        running = _running() if passes else []
        if running is None:
            return
        over = [tag for tag in passes if tag not in running[is_inside:]]
        if over:
            self._mode.end_tagged(over[-1])

    def iterates(self, model: torch.nn.Module) -> None:
        """Called when a forward pass begins that is not part of another one."""
        if self.details is not None:
            self.details.begins(model)

    def left_alone(self) -> None:
        """Called when the forward pass of a model without details has ended."""
        if self.details is not None:
            self.details.left_alone()

    def enters(self, model: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Called when the forward pass of a model begins."""
        if not self._mode.has_details:
            if self.details is not None and self.details.wants_inputs:
                self.details.wants_inputs = False
                self._inputs(args)
                self._inputs(_keywords())
            return
        self.end_interrupted(is_inside=True)
        whole_of = self._model_of.get(model)
        whole = (whole_of() if whole_of is not None else None) or model
        self._runs(whole)
        self._look_again(whole)
        self._inputs(args)
        self._inputs(_keywords())
        if not self._mode.sees_operations and torch._C._len_torch_dispatch_stack() > 0:
            uninstall(self._mode)

    def enters_part(self, module: torch.nn.Module) -> None:
        """Called when the forward pass of a submodule begins outside a forward pass of its model."""
        model_of = self._model_of.get(module)
        model = model_of() if model_of is not None else None
        if model is not None:
            self._runs(model)

    def _runs(self, model: torch.nn.Module) -> None:
        self._threads.add(threading.get_ident())
        self._ran.setdefault(threading.get_ident(), weakref.WeakSet()).add(model)

    def _look_again(self, model: torch.nn.Module) -> None:
        """Registers a model again if its modules have changed or its tensors were moved."""
        forward, inside = self._forward, self._models.get(model)
        if forward is None or inside is None:
            return
        before, now = self._had[model], forward.fingerprint(inside)
        self._had[model] = now
        if now[0] != before[0]:
            self.learn(model)
        elif now != before:
            forward.contents(inside)

    def keeps(self, output: object) -> None:
        """Labels tensors that a model's output keeps for the backward pass."""
        self._mode.label(list(saved_tensors(output)), "activation")

    def leaves(self, output: object) -> None:
        """Called when the forward pass of a model ends."""
        # With an allocator history, every label would be a row of the recording, for every token.
        cache = _cache_in(output) if self._mode.sees_operations and self._mode.is_on else None
        if cache is not None:
            label(self._mode, cache, "kv_cache", CACHE)
        if self._mode.turn is not None:
            self._mode.turn()

    def _inputs(self, args: object, depth: int = 0) -> None:
        """Classifies a model's arguments that have no class yet as inputs."""
        if isinstance(args, torch.Tensor):
            # Not what is computed with gradients, such as the logits for a module that computes a loss.
            if args.grad_fn is None:
                self._mode.classify(args, "input", None, args.requires_grad, only_unknown=True)
        elif depth < MAX_DEPTH and isinstance(args, (list, tuple)):
            for arg in args[:MAX_ITEMS]:
                self._inputs(arg, depth + 1)
        elif depth < MAX_DEPTH and isinstance(args, dict):
            for arg in list(args.values())[:MAX_ITEMS]:
                self._inputs(arg, depth + 1)


def _running() -> list[int] | None:
    """Returns the ids of modules and optimizers running in this thread, innermost first; None if unknown."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename in (torch_module.__file__, torch_optimizer.__file__):
            if code.co_name in ("_call_impl", "wrapper"):
                found.append(id(frame.f_locals.get("self")))
            elif code.co_name.startswith("torch_dynamo"):
                # A compiled continuation does not have the module or optimizer.
                return None
        frame = frame.f_back
    return found


def _cache_in(output: object) -> object:
    """Returns the KV cache in a model's output."""
    if isinstance(output, dict):
        return output.get(CACHE)
    # Not `getattr`: the output may be an object that computes its attributes.
    return getattr(output, "__dict__", {}).get(CACHE)


def _keywords() -> dict[str, Any]:
    """Returns a model's keyword arguments from PyTorch's frame: global hooks do not get them."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_code.co_filename == torch_module.__file__:
            found = frame.f_locals.get("kwargs")
            return found if isinstance(found, dict) else {}
        frame = frame.f_back
    return {}
