"""New threads are watched, too: the stack of dispatch modes is each thread's own."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ttmem._torch.mode import install, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem._torch.mode import Mode


class Threads:
    """Installs a mode in every thread that starts while this is open."""

    def __init__(self, mode: Mode) -> None:
        """Of which mode."""
        self._mode = mode
        self._start: Callable[[threading.Thread], None] | None = None

    def open(self) -> list[str]:
        """Begins; the names of the threads that are there already, which cannot be watched."""
        if self._start is not None:
            return []
        start = self._start = threading.Thread.start
        mode = self._mode

        def start_watched(thread: threading.Thread, *args: Any, **kwargs: Any) -> None:
            if mode.is_on and mode.sees_operations:
                try:
                    _watch(thread, mode)
                except Exception as error:  # noqa: BLE001 - the program must not see it
                    mode.failed(error)
            start(thread, *args, **kwargs)

        self._started = start_watched
        threading.Thread.start = start_watched  # type: ignore[method-assign, assignment]
        return names_of_others(threading.current_thread().ident)

    def close(self) -> None:
        """Ends: threads that start from now on are as they were. Somebody else's wrapper of ours stays."""
        if self._start is not None and threading.Thread.start is self._started:
            threading.Thread.start = self._start  # type: ignore[method-assign, assignment]
        self._start = None


def names_of_others(ident: int | None) -> list[str]:
    """Name the running threads except one, and except those that only compile: they allocate no tensors."""
    compiling = _compiler_threads()
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.ident != ident and thread.is_alive() and thread not in compiling
    ]


def _compiler_threads() -> frozenset[threading.Thread]:
    """Find the threads that Inductor keeps for its compilers, without starting them."""
    module = sys.modules.get("torch._inductor.async_compile")
    try:
        pool = module.AsyncCompile.pool  # type: ignore[union-attr]
        return frozenset(pool()._threads) if pool.cache_info().currsize else frozenset()
    except AttributeError:  # nothing was compiled, or a version of PyTorch that keeps them elsewhere
        return frozenset()


def _watch(thread: threading.Thread, mode: Mode) -> None:
    """Has what the thread runs run with the mode. Also where a class has a `run` of its own."""
    run = thread.run

    def run_watched() -> None:
        # The thread is as it was for whoever looks at it: and no cycle keeps it alive.
        thread.__dict__.pop("run", None)
        install(mode)
        try:
            run()
        finally:
            uninstall(mode)

    thread.run = run_watched  # type: ignore[method-assign]
