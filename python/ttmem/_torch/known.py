"""Known values in a NO_DISPATCH capture: values that follow from the program's constants.

The value of a tensor made from Python values (`torch.tensor`, `full`, `arange`), or of a real integer tensor,
is known without running a model. It is kept with the storage, so that all views share it, and operations on
known values are computed. Loops that wait for a position or a maximum length therefore end. Values that
depend on random numbers or weights are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

aten = torch.ops.aten

MAX_ELEMENTS = 1 << 16
"""Larger tensors have no known values, so that a capture does not use the memory that it estimates."""
MAX_WHOLE = 1 << 20
"""The same for integers and booleans: models read the attention mask of a batch, which may be larger."""
MAX_ITEM = 16
CONTENTS = "_ttmem_contents"
UNCERTAIN = "_ttmem_uncertain"
"""The attribute of views whose position in their storage is unknown."""
REAL = (torch.Tensor, torch.nn.Parameter)

FILLED: dict[Any, Any] = {
    aten.zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.ones.default: 1,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}
# The value is the argument after the shape, or after the tensor whose shape is used.
FILLED_WITH_ARGUMENT: dict[Any, int] = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
}
COMPUTED = {
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.scalar_tensor.default,
    aten.eye.default,
    aten.eye.m,
    aten.linspace.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
}
# Operations that overwrite a tensor completely.
OVERWRITES = {aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default, aten.copy_.default}
# One operand can decide the result: `x | True` is true, `x & False` is false.
DECIDED_BY_TRUE = {
    aten.bitwise_or.Tensor,
    aten.bitwise_or_.Tensor,
    aten.logical_or.default,
    aten.logical_or_.default,
}
DECIDED_BY_FALSE = {
    aten.bitwise_and.Tensor,
    aten.bitwise_and_.Tensor,
    aten.logical_and.default,
    aten.logical_and_.default,
}
# In-place shape changes that also change the storage.
STORAGE_CHANGES = {aten.set_.source_Tensor, aten.set_.source_Storage_storage_offset, aten.resize_.default}
UNINITIALIZED = ("aten::empty", "aten::new_empty")


class Contents:
    """The known contents of a storage. All stand-ins for a real tensor share them during a capture."""

    __slots__ = ("capture", "is_written", "whole")

    def __init__(self, capture: object) -> None:
        self.capture = capture
        self.whole: torch.UntypedStorage | None = None
        self.is_written = False


class Captures:
    """The running capture. Values of real tensors from an earlier one may be outdated."""

    now: object = object()


def begin() -> None:
    Captures.now = object()


def value_of(tensor: object) -> torch.Tensor | None:
    """Returns the known value of a tensor without memory, as a real CPU tensor; `None` if unknown."""
    if not isinstance(tensor, FakeTensor) or UNCERTAIN in tensor.__dict__:
        return None
    contents = _contents(tensor)
    return None if contents is None else _view_of(contents, tensor)


def at_unknown_position(tensor: torch.Tensor) -> torch.Tensor:
    """Marks a view as one whose position is unknown, and therefore its value. Returns it."""
    setattr(tensor, UNCERTAIN, True)
    return tensor


def value_of_real(tensor: torch.Tensor) -> tuple[bool, torch.Tensor | None]:
    """Returns whether this capture has written to a real tensor, which stays unchanged, and its new value."""
    contents = _contents(tensor)
    if contents is None or not contents.is_written:
        return False, None
    return True, _view_of(contents, tensor)


def remember(tensor: object, value: torch.Tensor) -> None:
    """Stores a copy of the value of a tensor that has its own storage."""
    if not isinstance(tensor, FakeTensor) or not _can_be_known(tensor) or tensor.is_conj() or tensor.is_neg():
        return
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        storage = tensor.untyped_storage()
        whole = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
        room = torch.empty(0, dtype=tensor.dtype)
        room.set_(whole, tensor.storage_offset(), tensor.size(), tensor.stride())
        room.copy_(value)
        contents = getattr(storage, CONTENTS, None)
        if contents is None:
            contents = Contents(Captures.now)
            setattr(storage, CONTENTS, contents)
        contents.whole = whole


def stand_in(tensor: torch.Tensor, real: torch.Tensor) -> None:
    """Stores the value of a real tensor for its stand-in: integers, booleans, single numbers."""
    if type(real) not in REAL or real.layout is not torch.strided or real.device.type == "meta":
        return
    contents = _contents(real)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        storage = real.untyped_storage()
        if contents is None:
            contents = Contents(Captures.now)
            is_number = storage.nbytes() == real.itemsize
            may_keep = storage.nbytes() <= MAX_ITEM * _max_elements(real)
            if (_is_whole(real) or is_number) and may_keep:
                contents.whole = storage.cpu().clone()  # type: ignore[no-untyped-call]
            setattr(storage, CONTENTS, contents)
        setattr(tensor.untyped_storage(), CONTENTS, contents)


def forget(tensor: object) -> None:
    """Removes the value of a tensor and of all tensors that share its storage."""
    contents = _contents(tensor)
    if contents is not None:
        contents.whole, contents.is_written = None, True


def wrote(tensor: object) -> None:
    """Marks a tensor as written; the real tensor that it stands in for is unchanged."""
    contents = _contents(tensor)
    if contents is not None:
        contents.is_written = True


def _contents(tensor: object) -> Contents | None:
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    with torch._C.DisableTorchFunction():
        contents: Contents | None = getattr(tensor.untyped_storage(), CONTENTS, None)
    return contents if contents is not None and contents.capture is Captures.now else None


def _view_of(contents: Contents, tensor: Any) -> torch.Tensor | None:
    if contents.whole is None or tensor.numel() > _max_elements(tensor):
        return None
    if tensor.is_conj() or tensor.is_neg():
        return None
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        view = torch.empty(0, dtype=tensor.dtype)
        return view.set_(contents.whole, tensor.storage_offset(), tensor.size(), tensor.stride())


class Operation:
    """An operation about to run without memory, and the known values of its arguments."""

    __slots__ = ("_args", "_func", "_kwargs", "_tensors", "_values")

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Looks up the argument values now, because the operation may change them."""
        self._func, self._args, self._kwargs = func, args, kwargs
        leaves = _pytree.tree_leaves((args, kwargs))
        self._tensors = [arg for arg in leaves if isinstance(arg, torch.Tensor)]
        self._values = {id(tensor): value_of(tensor) for tensor in self._tensors}

    @property
    def is_known(self) -> bool:
        """Whether the operation has tensor arguments and all their values are known."""
        return bool(self._values) and all(value is not None for value in self._values.values())

    def compute(self) -> Any:
        """Computes the real result on the CPU; `None` if that is not possible."""
        if not self.is_known or not _is_computable(self._func):
            return None
        return self._run()

    def follow(self, result: Any) -> None:
        """Stores the known values of the result, which has no memory, and removes outdated ones."""
        func = self._func
        if any(UNCERTAIN in arg.__dict__ for arg in self._tensors):
            # The position of a view of such a view is also unknown.
            _pytree.tree_map_only(FakeTensor, at_unknown_position, result)
        if not isinstance(func, torch._ops.OpOverload):
            self._forget_written()
            return
        known = self._filled(result)
        if known is None and self._is_worth_computing(result):
            known = self._run()
        if known is None:
            known = self._decided(result)
        if known is None:
            self._forget_written()
        else:
            self._keep(result, known)
            self._each_written(wrote)

    def _filled(self, result: Any) -> torch.Tensor | None:
        """Returns the value of a tensor created from Python values."""
        func = self._func
        if not isinstance(result, FakeTensor) or not _can_be_known(result):
            return None
        if func in FILLED:
            return _full(result, FILLED[func])
        if func in FILLED_WITH_ARGUMENT:
            at = FILLED_WITH_ARGUMENT[func]
            fill = self._args[at] if len(self._args) > at else self._kwargs.get("fill_value")
            return _full(result, fill) if isinstance(fill, (bool, int, float, complex)) else None
        if func in COMPUTED:
            computed: torch.Tensor | None = self._run()
            return computed
        is_overwritten = func in OVERWRITES and _covers_its_storage(result)
        return self._overwritten(result) if is_overwritten else None

    def _overwritten(self, result: FakeTensor) -> torch.Tensor | None:
        source = self._args[1] if len(self._args) > 1 else 0
        value = self._values.get(id(source)) if isinstance(source, torch.Tensor) else source
        if isinstance(value, torch.Tensor):
            return value.expand(result.shape)
        return None if value is None else _full(result, value)

    def _is_worth_computing(self, result: Any) -> bool:
        if not self.is_known or not _is_computable(self._func):
            return False
        outputs = [out for out in _pytree.tree_leaves(result) if isinstance(out, torch.Tensor)]
        if not outputs or not all(isinstance(out, FakeTensor) and _can_be_known(out) for out in outputs):
            return False
        # A view already has the value of its storage.
        return self._writes() or any(value_of(out) is None for out in outputs)

    def _decided(self, result: Any) -> torch.Tensor | None:
        """Returns the result if one operand alone decides it."""
        func = self._func
        if func not in DECIDED_BY_TRUE and func not in DECIDED_BY_FALSE:
            return None
        if not isinstance(result, FakeTensor) or not _can_be_known(result):
            return None
        for value in self._values.values():
            if value is None or value.numel() == 0:
                continue
            with torch._C._DisableTorchDispatch():
                if func in DECIDED_BY_FALSE and not bool(value.any()):
                    return _full(result, 0)
                is_true = func not in (aten.bitwise_or.Tensor, aten.bitwise_or_.Tensor) or (
                    value.dtype is torch.bool and result.dtype is torch.bool
                )
                if func in DECIDED_BY_TRUE and is_true and bool(value.all()):
                    return _full(result, 1)
        return None

    def _run(self) -> Any:
        """Runs the operation with known values; returns `None` if it fails."""

        def real(arg: Any) -> Any:
            if isinstance(arg, torch.Tensor):
                return self._values[id(arg)]
            return torch.device("cpu") if isinstance(arg, torch.device) else arg

        args, kwargs = _pytree.tree_map(real, (tuple(self._args), self._kwargs))
        if "pin_memory" in kwargs:
            kwargs = {**kwargs, "pin_memory": False}
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
                return self._func(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None

    def _keep(self, result: Any, known: Any) -> None:
        for out, value in zip(_pytree.tree_leaves(result), _pytree.tree_leaves(known), strict=False):
            # In-place results are already in the storage's value, if it had one.
            if isinstance(out, FakeTensor) and value_of(out) is None and _covers_its_storage(out):
                remember(out, value)
            elif isinstance(out, FakeTensor) and (have := value_of(out)) is not None and have is not value:
                with torch._C._DisableTorchDispatch(), torch.no_grad():
                    if have.data_ptr() != value.data_ptr():
                        have.copy_(value)

    def _writes(self) -> bool:
        return any(_is_written(of) for of in self._func._schema.arguments)

    def _forget_written(self) -> None:
        """Removes the values of tensors that the operation has written to."""
        # Most in-place views change only the shape, not the storage.
        if torch.Tag.inplace_view not in getattr(self._func, "tags", ()) or self._func in STORAGE_CHANGES:
            self._each_written(forget)

    def _each_written(self, do: Callable[[object], None]) -> None:
        schema = getattr(self._func, "_schema", None)
        if schema is None:
            _pytree.tree_map_only(torch.Tensor, do, (self._args, self._kwargs))
            return
        written = [(at, of) for at, of in enumerate(schema.arguments) if _is_written(of)]
        for at, of in written:
            arg = self._args[at] if at < len(self._args) else self._kwargs.get(of.name)
            _pytree.tree_map_only(torch.Tensor, do, arg)


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _is_computable(func: Any) -> bool:
    """Whether an operation is deterministic and has no side effects."""
    return (
        isinstance(func, torch._ops.OpOverload)
        and func.namespace in ("aten", "prims")
        and torch.Tag.nondeterministic_seeded not in func.tags
        and torch.Tag.inplace_view not in func.tags
        and not func._schema.name.startswith(UNINITIALIZED)
    )


def _can_be_known(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.numel() > _max_elements(tensor):
        return False
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage().nbytes() <= MAX_ITEM * _max_elements(tensor)


def _is_whole(tensor: torch.Tensor) -> bool:
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def _max_elements(tensor: torch.Tensor) -> int:
    return MAX_WHOLE if _is_whole(tensor) else MAX_ELEMENTS


def _covers_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its whole storage, so that its value is the storage's."""
    with torch._C.DisableTorchFunction():
        return tensor.numel() * tensor.itemsize == tensor.untyped_storage().nbytes()


def _full(like: torch.Tensor, value: Any) -> torch.Tensor:
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return torch.full(tuple(like.shape), value, dtype=like.dtype)
