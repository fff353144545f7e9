"""Storages that change their size without an operation."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode


class Storages:
    """Has `UntypedStorage.resize_` say so: sharded training frees parameters that way."""

    def __init__(self, mode: Mode) -> None:
        """For which watcher."""
        self._mode = mode
        self._resize: Callable[..., Any] | None = None

    def open(self) -> None:
        """Begins."""
        resize = self._resize = torch.UntypedStorage.resize_
        mode = self._mode

        @functools.wraps(resize)
        def resize_watched(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
            result = resize(storage, *args, **kwargs)
            if mode.is_on:
                try:
                    mode.resized(storage)
                except Exception as error:  # noqa: BLE001 - the program must not see it
                    mode.failed(error)
            return result

        self._watched = resize_watched
        torch.UntypedStorage.resize_ = resize_watched  # type: ignore[method-assign, assignment]

    def close(self) -> None:
        """Ends. Somebody else's wrapper around ours stays."""
        if self._resize is not None and torch.UntypedStorage.resize_ is self._watched:
            torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        self._resize = None
