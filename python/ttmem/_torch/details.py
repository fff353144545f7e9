"""Records the details of some iterations only: modules, and the stacks of allocations.

An iteration lasts from the start of a model's forward pass to the start of the next one: a training step, or
a generated token. Programs repeat them. Once several iterations have made the same number of allocations,
further ones are recorded without details, which costs almost nothing; the reader copies the details from an
iteration with the same order of allocations. If the number changes, the next iteration has details again,
unless the same change has happened before (`Missed`).

Without details, modules have no hooks, and a wrapper of the model's `__call__` counts the iterations.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

from ttmem._frames import leave
from ttmem._torch.inductor import has_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from ttmem._torch.allocators import CachingAllocator
    from ttmem._torch.mode import Mode
    from ttmem._torch.modules import Modules

# Iterations in a row that must repeat earlier ones before details are left out for the first time.
STEADY = 2
# If an iteration without details has this many times the usual allocations, something else runs.
MANY = 3
# Different numbers of allocations that are remembered for a model.
MAX_KNOWN = 64
# If an iteration was missed this often, it is usual.
MISSES = 2
# Usual iterations are waited for as soon as at most one of this many had details, but not for long.
ITERATIONS_PER_DETAILED, MAX_WAITING = 25, 64


class Missed:
    """Iterations that had no details, although none with details has made the same number of allocations.

    The last token of a text is an example: other operations follow it than tokens in the middle. Which
    iteration will be such a one is only known afterwards. If one repeats, all iterations have details until
    it does so again.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[int | None, int], int] = {}
        self._wanted: set[tuple[int | None, int]] = set()
        self._waited = 0
        # Whether details stay on until the wanted iterations were seen.
        self.is_waiting = False

    def add(self, iteration: tuple[int | None, int]) -> None:
        """Adds an iteration: the model, and its number of allocations."""
        if iteration in self._times or len(self._times) < MAX_KNOWN:
            self._times[iteration] = self._times.get(iteration, 0) + 1
            # Exactly then: one that was not seen in time is not waited for again.
            if self._times[iteration] == MISSES:
                self._wanted.add(iteration)

    def is_usual(self, iteration: tuple[int | None, int]) -> bool:
        """Whether an iteration repeats, so that it does not mean that the program does something else now."""
        return self._times.get(iteration, 0) >= MISSES

    def has_details(self, iteration: tuple[int | None, int]) -> None:
        """Notes that an iteration had details."""
        self._wanted.discard(iteration)
        self._waited += self.is_waiting
        if not self._wanted or self._waited >= MAX_WAITING:
            self._wanted.clear()
            self._waited, self.is_waiting = 0, False

    def wait(self) -> None:
        """Begins to wait, if there is an iteration to wait for."""
        self.is_waiting = bool(self._wanted)


class Details:
    """Decides which iterations have details."""

    def __init__(self, mode: Mode, modules: Modules, allocator: CachingAllocator) -> None:
        self._mode = mode
        self._modules = modules
        self._allocator = allocator
        self._thread: int | None = None
        self._models: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        # The model of the running iteration, and the number of allocations at its start.
        self._model: int | None = None
        self._count = 0
        # The numbers of allocations that iterations of a model have made with details.
        self._known: dict[int | None, set[int]] = {}
        self._missed = Missed()
        # The number of iterations, and of those with details.
        self._iterations, self._detailed = 0, 0
        self._repeated = 0
        self._forgotten = 0
        self._is_closed = False
        # Whether the iteration that begins was counted by the wrapper of its model.
        self._is_counted = False
        self._is_inside = False
        # Whether the inputs of the model that begins are classified although it has no details.
        self.wants_inputs = False
        self._wrapped: dict[type, tuple[Any, Any]] = {}

    def close(self) -> None:
        """Ends this: from now on, everything has details."""
        if not self._is_closed:
            self._is_closed = True
            self._resume()
            self._mode.labels_all = False

    def begins(self, model: torch.nn.Module) -> None:
        """Called when a model's forward pass begins, with hooks on its modules."""
        if self._is_counted:
            self._is_counted = False
        elif not self._is_closed:
            self._models.add(model)
            if self._is_steady(model):
                # The last iteration with details has allocated the inputs of this one.
                self.wants_inputs = self._mode.has_details
                self._leave_out()
            elif not self._mode.has_details:
                self._resume()

    def look(self) -> None:
        """Returns to details if the program runs something that is not a known model. Called now and then."""
        if self._is_closed or self._mode.has_details:
            return
        made = self._allocator.allocations() - self._count
        known = [known for model, known in self._known.items() if model is not None]
        usual = max((count for counts in known for count in counts), default=0)
        if made > MANY * usual:
            self._resume()

    def left_alone(self) -> None:
        """Called when the forward pass of a model without details has ended, which still had hooks."""
        if self._is_closed or has_compiled():
            # Dynamo would compile again if hooks come and go. Compiled modules have no hooks inside anyway.
            return
        try:
            for kind in {type(model) for model in self._models}:
                self._wrap(kind)
        except TypeError:
            # A class that does not allow it keeps its hooks.
            self._unwrap()
            return
        self._modules.unhook()

    def _is_steady(self, model: torch.nn.Module) -> bool:
        """Counts the last iteration. Returns whether the next one may be without details."""
        count = self._allocator.allocations()
        last, made = self._model, count - self._count
        self._model, self._count = id(model), count
        if self._thread is None:
            self._thread = threading.get_ident()
        elif self._thread != threading.get_ident():
            # Iterations of several threads are interleaved, and have no order that could repeat.
            self.close()
            return False
        known = self._known.setdefault(last, set())
        is_known = made in known or self._missed.is_usual((last, made))
        self._iterations += 1
        if self._mode.has_details:
            self._detailed += 1
            if len(known) < MAX_KNOWN:
                known.add(made)
            self._missed.has_details((last, made))
        elif made not in known:
            self._missed.add((last, made))
        if self._detailed * ITERATIONS_PER_DETAILED <= self._iterations:
            self._missed.wait()
        self._repeated = self._repeated + 1 if is_known else 0
        if self._forgotten != self._mode.forgotten:
            # The new file does not have all iterations with details.
            self._forgotten = self._mode.forgotten
            self._known, self._missed, self._repeated = {}, Missed(), 0
        # A new model has details first.
        has_learned = bool(self._known.get(id(model)))
        is_steady = self._repeated >= (1 if self._mode.labels_all else STEADY)
        return has_learned and is_steady and not self._missed.is_waiting

    def _leave_out(self) -> None:
        if self._mode.has_details:
            self._mode.has_details = False
            # If details return, their labels are those of a single iteration.
            self._mode.labels_all = True
            self._allocator.record_stacks(wanted=False)

    def _resume(self) -> None:
        if not self._mode.has_details:
            self._allocator.record_stacks(wanted=True)
            self._mode.has_details = True
            self._modules.hook()
        self._unwrap()

    def _wrap(self, kind: type) -> None:
        if kind in self._wrapped:
            return
        call: Callable[..., Any] = kind.__call__
        details = self

        @functools.wraps(call)
        def call_tracked(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return call(*args, **kwargs)
            is_alone = details._begins_alone(args[0])
            try:
                return call(*args, **kwargs)
            except BaseException as error:
                leave(error)
                raise
            finally:
                if is_alone:
                    details._ends_alone(args[0])

        self._wrapped[kind] = kind.__dict__.get("__call__"), call_tracked
        kind.__call__ = call_tracked  # type: ignore[method-assign]

    def _unwrap(self) -> None:
        """Restores `__call__`, unless another wrapper was installed around ours."""
        while self._wrapped:
            kind, (before, ours) = self._wrapped.popitem()
            if kind.__dict__.get("__call__") is not ours:
                continue
            if before is None:
                del kind.__call__
            else:
                kind.__call__ = before  # type: ignore[method-assign]

    def _begins_alone(self, model: torch.nn.Module) -> bool:
        """Called when a model is called. Returns whether this is an iteration without details."""
        if self._is_inside or self._mode.has_details or not self._mode.is_on:
            return False
        try:
            if self._modules.forward is None:
                return False
            if model not in self._models or not self._is_steady(model):
                self._is_counted = model in self._models
                self._resume()
                return False
            self._modules.forward.begins_alone(model)
        except Exception as error:  # noqa: BLE001 - the program must not see it
            self._mode.failed(error)
            return False
        self._is_inside = True
        return True

    def _ends_alone(self, model: torch.nn.Module) -> None:
        self._is_inside = False
        if self._modules.forward is not None:
            self._modules.forward.ends_alone(model)
