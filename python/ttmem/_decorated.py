"""Operations as decorators: of functions, coroutines and generators."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

F = TypeVar("F", bound="Callable[..., Any]")


def decorated(function: F, operation: Callable[[], AbstractContextManager[object]]) -> F:
    """The function, every call of which is an operation; of a generator, every piece between results."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with operation():
                return await function(*args, **kwargs)

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
        with operation():
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def _generated(
    function: Callable[..., Generator[Any, Any, Any]], operation: Callable[[], AbstractContextManager[object]]
) -> Callable[..., Generator[Any, Any, Any]]:
    @functools.wraps(function)
    def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        # What goes through is held by nobody here: a result may be large.
        passing: list[Any] = [None]
        thrown: BaseException | None = None
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
            except BaseException as error:  # noqa: BLE001 - it is for the one inside
                thrown = error

    return generated


def _generated_by_task(
    function: Callable[..., AsyncGenerator[Any, Any]], operation: Callable[[], AbstractContextManager[object]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    @functools.wraps(function)
    async def generated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        passing: list[Any] = [None]
        thrown: BaseException | None = None
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
            except BaseException as error:  # noqa: BLE001 - it is for the one inside
                thrown = error

    return generated
