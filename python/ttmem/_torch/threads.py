"""Installs the dispatch mode in new threads: every thread has its own mode stack."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ttmem._frames import leave
from ttmem._torch.mode import install, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode


class Threads:
    """Installs a mode in every thread that starts while this is open."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._start: Callable[[threading.Thread], None] | None = None

    def open(self) -> list[str]:
        """Patches `Thread.start`. Returns the names of running threads, which cannot be tracked."""
        if self._start is not None:
            return []
        start = self._start = threading.Thread.start
        mode = self._mode

        def start_tracked(thread: threading.Thread, *args: Any, **kwargs: Any) -> None:
            if mode.is_on and mode.sees_operations:
                try:
                    _track(thread, mode)
                except Exception as error:  # noqa: BLE001 - the program must not see it
                    mode.failed(error)
            try:
                start(thread, *args, **kwargs)
            except BaseException as error:
                leave(error)
                raise

        self._started = start_tracked
        threading.Thread.start = start_tracked  # type: ignore[method-assign, assignment]
        return names_of_others(threading.current_thread().ident)

    def close(self) -> None:
        """Restores `Thread.start`, unless another wrapper was installed around ours."""
        if self._start is not None and threading.Thread.start is self._started:
            threading.Thread.start = self._start  # type: ignore[method-assign, assignment]
        self._start = None


def names_of_others(ident: int | None) -> list[str]:
    """Returns the names of running threads other than `ident` and compiler threads, which have no tensors."""
    compiling = _compiler_threads()
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.ident != ident and thread.is_alive() and thread not in compiling
    ]


def _compiler_threads() -> frozenset[threading.Thread]:
    """Returns Inductor's compiler threads, without starting them."""
    module = sys.modules.get("torch._inductor.async_compile")
    try:
        pool = module.AsyncCompile.pool  # type: ignore[union-attr]
        return frozenset(pool()._threads) if pool.cache_info().currsize else frozenset()
    except AttributeError:  # nothing was compiled, or another version of PyTorch
        return frozenset()


def _track(thread: threading.Thread, mode: Mode) -> None:
    """Wraps the thread's `run`, which a subclass may define, to install the mode."""
    run = thread.run

    def run_tracked() -> None:
        # Restores the thread's attributes, and avoids a reference cycle.
        thread.__dict__.pop("run", None)
        install(mode)
        try:
            run()
        except BaseException as error:
            leave(error)
            raise
        finally:
            uninstall(mode)

    thread.run = run_tracked  # type: ignore[method-assign]
