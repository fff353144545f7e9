"""Runs a program without allocating memory (NO_DISPATCH): its tensors have shapes and devices, but no values.

`Pretence` begins and ends it, `Pretend` handles operations, `Unknowns` handles reads of tensor values from
Python. Unknown values are NaN, so that a training loop continues; one warning is logged.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree
from torch.utils.data import DataLoader, dataloader

from ttmem._frames import leave
from ttmem._torch import known
from ttmem._torch.as_real import AsReal
from ttmem._torch.asked import CONDITION, SIZE, VALUE, Asked
from ttmem._torch.compiled import AsWritten

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode

logger = logging.getLogger("ttmem")
aten = torch.ops.aten

# The types of tensors that select one position if they have a single element.
POSITIONS = (torch.int8, torch.int16, torch.int32, torch.int64)
UNKNOWN = (
    "%s: the program reads a tensor value in a NO_DISPATCH capture, which computes no values; the result is "
    "NaN (False for booleans, 0 for indices). This warning is shown once; print_memory_usage() lists all "
    "lines"
)
LARGEST = (
    "%s: the size of a result depends on values that a NO_DISPATCH capture does not compute (%s): the "
    "maximum size is used, so the estimate may be too high. This warning is shown once; "
    "print_memory_usage() lists all lines"
)
OUTSIDE = (
    "this tensor was created in a NO_DISPATCH capture: it has a shape but no values; "
    "create it again outside the capture"
)
USED = (
    "a tensor created in a NO_DISPATCH capture is used after the capture: neither the tensor nor results "
    "computed from it have values. This warning is shown once"
)


class Pretend(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Computes only the shapes of results. Real tensors are replaced by stand-ins and stay unchanged.

    There is one per process: fake tensors of different modes cannot be mixed.
    """

    def __init__(self) -> None:
        # A model created before the capture has real parameters.
        super().__init__(allow_non_fake_inputs=True)
        self.is_on = False
        self.watcher: Mode | None = None
        self._said: set[str] = set()
        self._asked = Asked()
        self._as_real = AsReal(self)
        _forget_results(self.fake_tensor_converter)

    def begin(self, watcher: Mode | None) -> None:
        """Starts a capture; warnings may be logged again."""
        self.is_on, self.watcher = True, watcher
        self._said.clear()
        self._asked.clear()
        known.begin()
        self._as_real.begin()
        self.__enter__()

    def end(self) -> None:
        """Ends the capture. Tensors created in it stay without values."""
        self.__exit__(None, None, None)
        self._as_real.end()
        self.is_on, self.watcher = False, None

    def __torch_dispatch__(  # type: ignore[override]
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return self._estimate(func, types, args, kwargs)
        except BaseException as error:
            leave(error)
            raise

    def _estimate(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        if not self.is_on:
            self.say(USED)
        self._as_real.look()
        if func is aten._local_scalar_dense.default and not isinstance(args[0], FakeTensor):
            return self._real_value(args[0])
        kwargs = kwargs or {}
        if func in self.lift_fns:
            result = super().__torch_dispatch__(func, types, args, kwargs)
            if _is_real(args[0]):
                known.remember(result, args[0])
            return result
        args, kwargs = self._stand_ins(func, args, kwargs)
        operation = known.Operation(func, args, kwargs)
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        except DataDependentOutputException:
            return self._answer(operation, func, args)
        except DynamicOutputShapeException:
            return self._sized(operation, func, args)
        operation.follow(result)
        return result

    def may_turn_const(self, t: torch.Tensor) -> bool:
        """Turns off PyTorch's own constants, which cover only single numbers: `known` keeps all values."""
        del t
        return False

    def _real_value(self, real: torch.Tensor) -> Any:
        """Returns the value of a real tensor, including writes in the capture, which do not reach it."""
        is_written, value = known.value_of_real(real)
        if not is_written:
            return aten._local_scalar_dense.default(real)
        if value is None:
            return self.value(real.dtype)
        with torch._C._DisableTorchDispatch():
            return value.item()

    def _answer(self, operation: known.Operation, func: Any, args: Any) -> Any:
        """Returns the number or boolean that an operation returns to Python."""
        is_truth = func in (aten.equal.default, aten.allclose.default, aten.is_nonzero.default)
        if not is_truth and func is not aten._local_scalar_dense.default:
            raise DataDependentOutputException(func)
        answer = operation.compute() if self.is_on else None
        return self.value(torch.bool if is_truth else args[0].dtype) if answer is None else answer

    def _sized(self, operation: known.Operation, func: Any, args: Any) -> Any:
        """Returns the result of an operation whose shape depends on values."""
        result = operation.compute()
        if result is not None:
            return _pytree.tree_map_only(torch.Tensor, self.from_known, result)
        largest = _largest(func, args)
        if largest is None:
            raise DynamicOutputShapeException(func)
        self.says_largest(func)
        return largest

    def says_largest(self, what: object) -> None:
        """Warns that the maximum size is used for a result."""
        name = getattr(what, "overloadpacket", what)
        self.say(LARGEST, self._asked.depends(SIZE.format(name)), name)

    def warnings(self) -> list[str]:
        """Returns the lines that depend on unknown values."""
        return self._asked.warnings()

    def from_real(self, real: torch.Tensor) -> torch.Tensor:
        """Returns a stand-in without memory for a real tensor."""
        stand_in: torch.Tensor = self.from_tensor(real)
        known.stand_in(stand_in, real)
        return stand_in

    def from_known(self, real: torch.Tensor) -> torch.Tensor:
        """Returns a tensor without memory whose value is known."""
        result: torch.Tensor = self.from_tensor(real)
        known.remember(result, real)
        return result

    def _stand_ins(self, func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Replaces real arguments with stand-ins: PyTorch would compute with some real ones."""
        if not any(_is_real(arg) for arg in _pytree.tree_leaves((args, kwargs))):
            return args, kwargs
        self._see(func, args)

        def stand_in(tensor: torch.Tensor) -> torch.Tensor:
            return self.from_real(tensor) if _is_real(tensor) else tensor

        changed: tuple[Any, dict[str, Any]] = _pytree.tree_map_only(torch.Tensor, stand_in, (args, kwargs))
        return changed

    def _see(self, func: Any, args: Any) -> None:
        """Records real arguments that the operation would return: the tracker only looks at results."""
        schema = getattr(func, "_schema", None)
        if self.watcher is None or schema is None or all(of.alias_info is None for of in schema.returns):
            return
        for arg, of in zip(args, schema.arguments, strict=False):
            if of.alias_info is not None and _is_real(arg):
                self.watcher.see(arg, schema.name)

    def value(self, dtype: torch.dtype) -> float | bool:
        """Returns a placeholder for an unknown value, with a warning."""
        if not self.is_on:
            raise RuntimeError(OUTSIDE)
        is_truth = dtype is torch.bool
        self.say(UNKNOWN, self._asked.read(CONDITION if is_truth else VALUE))
        return False if is_truth else math.nan

    def say(self, what: str, *args: object) -> None:
        """Logs a warning once per capture."""
        if what not in self._said:
            self._said.add(what)
            logger.warning(what, *args)


def _is_real(thing: object) -> bool:
    return isinstance(thing, torch.Tensor) and not isinstance(thing, FakeTensor)


def _forget_results(converter: Any) -> None:
    """Stops PyTorch from memoizing results: `module.to(…)` rejects tensors with weak references."""
    remember = converter.set_tensor_memo

    def remember_real(tensor: torch.Tensor, stand_in: FakeTensor) -> None:
        if tensor.device.type != "meta":
            remember(tensor, stand_in)

    converter.set_tensor_memo = remember_real


@functools.cache
def _the_pretend() -> Pretend:
    return Pretend()


def _largest(func: Any, args: Any) -> Any:
    """Returns the largest possible result if its size depends on values; `None` for other operations."""
    x = args[0]
    if func is aten.nonzero.default:
        return x.new_empty((x.numel(), x.dim()), dtype=torch.int64)
    if func is aten.masked_select.default:
        shape: torch.Size = torch.broadcast_shapes(x.shape, args[1].shape)  # type: ignore[no-untyped-call]
        return x.new_empty(shape.numel())
    if func is aten._unique2.default:
        # Arguments: tensor, sorted, return_inverse, return_counts.
        given = dict(enumerate(args))
        is_inverse, is_counted = given.get(2, False), given.get(3, False)
        whole = functools.partial(x.new_empty, dtype=torch.int64)
        inverse = whole(x.shape if is_inverse else 0)
        return x.new_empty(x.numel()), inverse, whole(x.numel() if is_counted else 0)
    return None


def _is_unknown(bound: object) -> bool:
    return isinstance(bound, FakeTensor) and known.value_of(bound) is None


def _is_position(part: object) -> bool:
    """Whether an index is one position that is unknown."""
    return isinstance(part, FakeTensor) and part.dim() == 0 and part.dtype in POSITIONS and _is_unknown(part)


class Unknowns(TorchFunctionMode):
    """Handles reads of tensor values from Python that PyTorch would reject."""

    def __init__(self, pretend: Pretend) -> None:
        super().__init__()
        self._pretend = pretend
        tensor = torch.Tensor
        self._answers: dict[Any, Callable[..., Any]] = {
            tensor.__int__: self._whole,
            tensor.__index__: self._whole,
            tensor.__format__: self._text,
            tensor.numpy: self._array,
            tensor.__array__: self._array,
            tensor.__getitem__: self._part,
            tensor.__setitem__: self._put,
        }
        # Here, the index may be without memory, and the tensor real.
        self._indexing = (tensor.__getitem__, tensor.__setitem__)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = self._answers.get(func)
        try:
            if answer is not None and (isinstance(args[0], FakeTensor) or func in self._indexing):
                return answer(*args)
            return func(*args, **(kwargs or {}))
        except BaseException as error:
            leave(error)
            raise

    def _whole(self, x: torch.Tensor) -> int:
        value = x.item()
        return 0 if math.isnan(value) else int(value)

    def _part(self, x: torch.Tensor, index: Any) -> torch.Tensor:
        """Returns a slice; unknown bounds give the largest possible one, and unknown positions the first."""
        found, is_position = self._known_index(index)
        part = torch.Tensor.__getitem__(x, found)
        return known.at_unknown_position(part) if is_position else part

    def _put(self, x: torch.Tensor, index: Any, value: Any) -> None:
        """Writes to a slice. At an unknown position, any element may have changed."""
        found, is_position = self._known_index(index)
        torch.Tensor.__setitem__(x, found, value)
        if is_position:
            known.forget(x)

    def _known_index(self, index: Any) -> tuple[Any, bool]:
        """Returns an index without unknown values, and whether it had an unknown position."""
        parts = index if isinstance(index, tuple) else (index,)
        found = tuple(map(self._known_part, parts))
        if all(new is old for new, old in zip(found, parts, strict=True)):
            return index, False
        is_position = any(map(_is_position, parts))
        return found if isinstance(index, tuple) else found[0], is_position

    def _known_part(self, part: Any) -> Any:
        if isinstance(part, slice) and any(map(_is_unknown, (part.start, part.stop, part.step))):
            self._pretend.says_largest("a slice")
            return slice(None)
        # Every position gives a result of the same size.
        return 0 if _is_position(part) else part

    def _text(self, x: torch.Tensor, how: str) -> str:
        return format(x.item(), how) if x.dim() == 0 else format(repr(x), how)

    def _array(self, x: torch.Tensor, *_: object) -> Any:
        import numpy as np

        if (known_value := known.value_of(x)) is not None:
            return known_value.numpy().copy()
        # NumPy's name of the type. One broadcast value takes no memory.
        name = str(x.dtype).removeprefix("torch.")
        value = self._pretend.value(x.dtype)
        whole = not (x.dtype.is_floating_point or x.dtype.is_complex)
        return np.broadcast_to(np.array(0 if whole else value, dtype=name), tuple(x.shape))


class Pretence:
    """A NO_DISPATCH capture, in the thread that begins it."""

    def __init__(self, mode: Mode | None) -> None:
        self._mode = mode
        self._pretend = _the_pretend()
        self._unknowns = Unknowns(self._pretend)
        self._thread = threading.get_ident()
        self._as_written: AsWritten | None = None
        self._replaced: list[tuple[type, str, Any, Any]] = []

    def begin(self) -> None:
        # Compiled code would need values.
        self._as_written = AsWritten()
        self._pretend.begin(self._mode)
        torch._C._push_on_torch_function_stack(self._unknowns)
        # Data loaders run for real: the order of samples depends on values.
        for owner, name in ((DataLoader, "__iter__"), (dataloader._BaseDataLoaderIter, "__next__")):
            self._replace(owner, name, self._loaded(getattr(owner, name)))
        self._replace(FakeTensor, "tolist", self._listed())

    def check(self) -> None:
        """Raises in another thread: only the thread that began the capture can remove the mode."""
        if threading.get_ident() != self._thread:
            msg = "a NO_DISPATCH capture must end in the thread that began it; call end_capture() there"
            raise RuntimeError(msg)

    def end(self) -> None:
        """Ends the capture. Tensors created in it stay without values."""
        for owner, name, before, ours in self._replaced:
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, before) if before is not None else delattr(owner, name)
        _take_off_function_stack(self._unknowns)
        self._pretend.end()
        if self._as_written is not None:
            self._as_written.undo()

    def warnings(self) -> list[str]:
        """Returns the lines of the program whose unknown values affect the numbers."""
        return self._pretend.warnings()

    def _replace(self, owner: type, name: str, ours: Callable[..., Any]) -> None:
        self._replaced.append((owner, name, owner.__dict__.get(name), ours))
        setattr(owner, name, ours)

    def _listed(self) -> Callable[[FakeTensor], Any]:
        def tolist(x: FakeTensor) -> Any:
            if (known_value := known.value_of(x)) is not None:
                return known_value.tolist()
            value: Any = self._pretend.value(x.dtype)
            for size in reversed(x.shape):
                value = [value] * size
            return value

        return tolist

    def _loaded(self, before: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(before)
        def loaded(*args: Any, **kwargs: Any) -> Any:
            try:
                if threading.get_ident() != self._thread or not self._pretend.is_on:
                    return before(*args, **kwargs)
                with unset_fake_temporarily():
                    found = before(*args, **kwargs)
            except BaseException as error:
                leave(error)
                raise
            return _pytree.tree_map_only(torch.Tensor, self._stand_in, found)

        return loaded

    def _stand_in(self, real: torch.Tensor) -> torch.Tensor:
        """Returns a stand-in for a real tensor, and tracks it in place of the real one."""
        if not _is_real(real):
            return real
        stand_in = self._pretend.from_real(real)
        if self._mode is not None and real.layout is torch.strided:
            self._mode.moved(real, stand_in)
        return stand_in


def _take_off_function_stack(mode: TorchFunctionMode) -> None:
    """Removes a mode from any position in the stack."""
    above: list[Any] = []
    while torch._C._len_torch_function_stack() > 0:
        top = torch._C._pop_torch_function_stack()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
