"""What ttnn does in a phase, by its graph captures. A phase is a capture, which the native module reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttmem._native import Usage


class GraphCaptures:
    """Captures one phase after the other."""

    def __init__(self, *, estimated: bool) -> None:
        """Whether operations run is ttnn's business: it is told."""
        import ttnn  # type: ignore[import-not-found]

        self._graph: Any = ttnn.graph
        self._mode: Any = self._graph.RunMode.NO_DISPATCH if estimated else self._graph.RunMode.NORMAL
        self._is_open = False

    def begin(self) -> None:
        """Begins the capture of a phase."""
        self._graph.begin_graph_capture(self._mode)
        self._is_open = True

    def cut(self, usage: Usage) -> None:
        """Ends the capture of a phase, and begins the next."""
        captured = self._end()
        self.begin()
        if captured is not None:
            usage.record_graph(captured if isinstance(captured, str) else json.dumps(captured))

    def check(self) -> None:
        """It may be ended anywhere."""

    def end(self) -> None:
        """Ends; what was captured since the last cut is not looked at."""
        self._end()

    def abandon(self) -> None:
        """A child cannot use its parent's devices: there is nothing to end."""

    def _end(self) -> Any:
        if not self._is_open:
            return None
        self._is_open = False
        return self._graph.end_graph_capture()
