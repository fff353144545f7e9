"""Operations as decorators for functions, coroutines and generators."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from ttmem._frames import leave

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

F = TypeVar("F", bound="Callable[..., Any]")


def decorated(function: F, operation: Callable[[], AbstractContextManager[object]]) -> F:
    """Wraps a function so that every call is an operation; for a generator, every resumption."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                with operation():
                    return await function(*args, **kwargs)
            except BaseException as error:
                leave(error)
                raise

        return awaited  # type: ignore[return-value]
    if (
        inspect.isgeneratorfunction(function)
        and not function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE
    ):
        return _generated(function, operation)  # type: ignore[return-value]
    if inspect.isasyncgenfunction(function):
        return _generated_by_task(function, operation)  # type: ignore[return-value]

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            with operation():
                return function(*args, **kwargs)
        except BaseException as error:
            leave(error)
            raise

    return called  # type: ignore[return-value]


def _generated(
    function: Callable[..., Generator[Any, Any, Any]], operation: Callable[[], AbstractContextManager[object]]
) -> Callable[..., Generator[Any, Any, Any]]:
    @functools.wraps(function)
    def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        # A list, so that no local variable keeps a value alive: it may be a large tensor.
        passing: list[Any] = [None]
        thrown: BaseException | None = None
        try:
            generator = function(*args, **kwargs)
            while True:
                with operation():
                    try:
                        passing.append(
                            generator.send(passing.pop()) if thrown is None else generator.throw(thrown)
                        )
                    except StopIteration as end:
                        return end.value
                thrown = None
                try:
                    passing.append((yield passing.pop()))
                except GeneratorExit:
                    with operation():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - passed on to the wrapped generator
                    leave(error)
                    thrown = error
        except BaseException as error:
            leave(error)
            raise

    return generated


def _generated_by_task(
    function: Callable[..., AsyncGenerator[Any, Any]], operation: Callable[[], AbstractContextManager[object]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    @functools.wraps(function)
    async def generated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        passing: list[Any] = [None]
        thrown: BaseException | None = None
        try:
            generator = function(*args, **kwargs)
            while True:
                with operation():
                    try:
                        if thrown is None:
                            passing.append(await generator.asend(passing.pop()))
                        else:
                            passing.append(await generator.athrow(thrown))
                    except StopAsyncIteration:
                        return
                thrown = None
                try:
                    passing.append((yield passing.pop()))
                except GeneratorExit:
                    with operation():
                        await generator.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - passed on to the wrapped generator
                    leave(error)
                    thrown = error
        except BaseException as error:
            leave(error)
            raise

    return generated
