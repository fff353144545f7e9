"""Storages that are resized without an operation."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from ttmem._frames import leave

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode


class Storages:
    """Tracks `UntypedStorage.resize_`, with which sharded training (FSDP) frees parameters."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._resize: Callable[..., Any] | None = None

    def open(self) -> None:
        resize = self._resize = torch.UntypedStorage.resize_
        mode = self._mode

        @functools.wraps(resize)
        def resize_tracked(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
            try:
                result = resize(storage, *args, **kwargs)
            except BaseException as error:
                leave(error)
                raise
            if mode.is_on:
                try:
                    mode.resized(storage)
                except Exception as error:  # noqa: BLE001 - the program must not see it
                    mode.failed(error)
            return result

        self._tracked = resize_tracked
        torch.UntypedStorage.resize_ = resize_tracked  # type: ignore[method-assign, assignment]

    def close(self) -> None:
        """Restores `resize_`, unless another wrapper was installed around ours."""
        if self._resize is not None and torch.UntypedStorage.resize_ is self._tracked:
            torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        self._resize = None
