"""Phases of a ttnn program. Each phase is one ttnn graph capture, which the native module parses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttmem._native import Usage


class GraphCaptures:
    """Captures one phase after another."""

    device = None

    def __init__(self, *, estimated: bool, kept: list[Any] | None = None) -> None:
        """`kept` gets the graph of each phase."""
        import ttnn  # type: ignore[import-not-found]

        self._kept = kept
        self._graph: Any = ttnn.graph
        self._mode: Any = self._graph.RunMode.NO_DISPATCH if estimated else self._graph.RunMode.NORMAL
        self._is_open = False

    def begin(self) -> None:
        self._graph.begin_graph_capture(self._mode)
        self._is_open = True

    def cut(self, usage: Usage) -> None:
        """Ends the capture of the current phase and begins the next one."""
        captured = self._end()
        self.begin()
        if captured is not None:
            if self._kept is not None:
                self._kept.append(captured)
            usage.record_graph(captured if isinstance(captured, str) else json.dumps(captured))

    def check(self) -> None:
        """Does nothing: any thread can end a graph capture."""

    def end(self) -> None:
        """Ends the capture and discards everything since the last cut."""
        self._end()

    def warnings(self) -> list[str]:
        """Returns nothing: ttnn has no values to assume."""
        return []

    def abandon(self) -> None:
        """Does nothing: a forked child cannot use its parent's devices."""

    def _end(self) -> Any:
        if not self._is_open:
            return None
        self._is_open = False
        return self._graph.end_graph_capture()
