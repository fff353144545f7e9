"""What modules say: which forward pass runs, which tensors are parameters, buffers and inputs."""

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
from ttmem._torch.model_names import ModelNames

if TYPE_CHECKING:
    from types import FrameType

    from ttmem._torch.mode import Mode

# Inputs are looked for in containers down to this depth, and among so many things in each.
DEEPEST, MOST = 4, 256
# What models of transformers call the KV cache that they give.
CACHE = "past_key_values"
# PyTorch's own frame that calls hooks is no further away.
FRAMES = 5


class Modules:
    """Has a scope entered for the forward pass of every module, and learns what is in it."""

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._forward: Forward | None = None
        self._names = ModelNames()
        # Of each model: the modules in it, and how the names of their parameters begin.
        self._models: weakref.WeakKeyDictionary[
            torch.nn.Module, list[tuple[weakref.ref[torch.nn.Module], str]]
        ] = weakref.WeakKeyDictionary()
        # Which modules, parameters and buffers it had when it was learned.
        self._had: weakref.WeakKeyDictionary[torch.nn.Module, tuple[int, int]] = weakref.WeakKeyDictionary()
        # Of each module in a model: which model that is.
        self._model_of: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.nn.Module]] = (
            weakref.WeakKeyDictionary()
        )
        # The threads that run models; of each, those that ran since its last backward pass.
        self._threads: set[int] = set()
        self._ran: dict[int, weakref.WeakSet[torch.nn.Module]] = {}
        self._handles: list[Any] = []
        self._filter: object = None

    def open(self) -> None:
        """Begins."""
        # Hooks on all modules fire once more for a compiled one: that does no harm.
        warnings.filterwarnings(
            "ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks"
        )
        self._filter = warnings.filters[0]
        forward = self._forward = Forward(self._mode, self)
        begins, ends = forward.begins, forward.ends

        # All else is native: a compiler that looks into these must see that there is nothing for it.
        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if not is_compiling():
                begins(module, args)

        def after(module: torch.nn.Module, args: tuple[Any, ...], output: object) -> None:
            del args
            if not is_compiling():
                ends(module, output)

        self._mode.end_interrupted = self.end_interrupted
        self._handles = [
            torch_module.register_module_forward_pre_hook(before),
            torch_module.register_module_forward_hook(after, always_call=True),
        ]

    def close(self) -> None:
        """Ends."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._forward = None
        self._mode.end_interrupted = None
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def learn(self, model: torch.nn.Module) -> None:
        """Takes down the names of a model, and what its parameters and buffers are."""
        forward = self._forward
        if forward is None:
            return
        inside, this = [], weakref.ref(model)
        own = self._names.of(model)
        for path, module in model.named_modules():
            forward.know(module, f"{own.prefix}{path}" if path else own.name, module is model)
            inside.append((weakref.ref(module), f"{own.prefix}{path}." if path else own.prefix))
            self._model_of[module] = this
        self._models[model] = inside
        self._had[model] = forward.fingerprint(inside)
        forward.contents(inside)
        forward.gradients(inside)

    def gradients(self, *, is_over: bool = True) -> None:
        """Takes down which gradients the models have, when a backward pass of this thread is over.

        What other threads may be writing must not be looked at, not even with Python's lock held: PyTorch
        gives it up in between. So where several run models, each looks at those that only it has run since.
        """
        thread = threading.get_ident()
        here = self._ran.get(thread) or ()
        # A copy is made in one piece; while this loop runs, other threads add and remove theirs.
        elsewhere = [ran for of, ran in self._ran.copy().items() if of != thread]
        if is_over:
            self._ran.pop(thread, None)
        models = [model for model in here if not any(model in ran for ran in elsewhere)]
        if not here and self._threads <= {thread}:
            # It may have run before an earlier backward pass.
            models = [model for reference in self._models.keyrefs() if (model := reference()) is not None]
        for model in models:
            inside = self._models.get(model)
            if inside is not None and self._forward is not None:
                self._forward.gradients(inside)

    def gradients_by_hand(self) -> None:
        """The same before an optimizer's step, where no backward pass was seen: `autograd.grad`."""
        if threading.get_ident() in self._ran:
            self.gradients(is_over=False)

    def end_interrupted(self, *, is_inside: bool = False) -> None:
        """Ends forward passes and steps that are over: of those that Ctrl-C ends, PyTorch tells nobody.

        `is_inside`: the innermost that PyTorch runs is one that has not begun here yet.
        """
        passes = self._mode.passes()
        running = _running() if passes else []
        if running is None:
            return
        over = [tag for tag in passes if tag not in running[is_inside:]]
        if over:
            self._mode.end_tagged(over[-1])

    def enters(self, model: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """The forward pass of a model begins."""
        self.end_interrupted(is_inside=True)
        self._runs(model)
        self._look_again(model)
        self._inputs(args)
        self._inputs(_keywords())
        if not self._mode.sees_operations and torch._C._len_torch_dispatch_stack() > 0:
            uninstall(self._mode)

    def enters_part(self, module: torch.nn.Module) -> None:
        """The forward pass of a part of a model begins, outside of one of the model."""
        model_of = self._model_of.get(module)
        model = model_of() if model_of is not None else None
        if model is not None:
            self._runs(model)

    def _runs(self, model: torch.nn.Module) -> None:
        self._threads.add(threading.get_ident())
        self._ran.setdefault(threading.get_ident(), weakref.WeakSet()).add(model)

    def _look_again(self, model: torch.nn.Module) -> None:
        """A model may have other parts than when it was learned, and its tensors may have been moved."""
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
        """What a model has given may keep more than its modules have given."""
        self._mode.label(list(saved_tensors(output)), "activation")

    def leaves(self, output: object) -> None:
        """The forward pass of a model has ended."""
        # Where allocators have a history, labels are rows of the recording: some for each token.
        cache = _cache_in(output) if self._mode.sees_operations and self._mode.is_on else None
        if cache is not None:
            label(self._mode, cache, "kv_cache", CACHE)
        if self._mode.turn is not None:
            self._mode.turn()

    def _inputs(self, args: object, depth: int = 0) -> None:
        """What goes into a model that nobody has made."""
        if isinstance(args, torch.Tensor):
            self._mode.classify(args, "input", None, args.requires_grad, only_unknown=True)
        elif depth < DEEPEST and isinstance(args, (list, tuple)):
            for arg in args[:MOST]:
                self._inputs(arg, depth + 1)
        elif depth < DEEPEST and isinstance(args, dict):
            for arg in list(args.values())[:MOST]:
                self._inputs(arg, depth + 1)


def _running() -> list[int] | None:
    """The modules and optimizers that PyTorch runs in this thread, innermost first. None: not known."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename in (torch_module.__file__, torch_optimizer.__file__):
            if code.co_name in ("_call_impl", "wrapper"):
                found.append(id(frame.f_locals.get("self")))
            elif code.co_name.startswith("torch_dynamo"):
                # The rest of one, compiled: it does not say of which.
                return None
        frame = frame.f_back
    return found


def _cache_in(output: object) -> object:
    """The KV cache in what a model has given."""
    if isinstance(output, dict):
        return output.get(CACHE)
    # Not `getattr`: what a module gives may be an object that computes its attributes.
    return getattr(output, "__dict__", {}).get(CACHE)


def _keywords() -> dict[str, Any]:
    """What a model is given by keyword: hooks on all modules are not told, but whoever calls them knows."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(FRAMES):
        if frame is None:
            break
        if frame.f_code.co_filename == torch_module.__file__:
            found = frame.f_locals.get("kwargs")
            return found if isinstance(found, dict) else {}
        frame = frame.f_back
    return {}
