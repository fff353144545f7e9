"""Programs that run out of memory in known ways: `failures.py FOLDER KIND`.

Leaves the report with its sidecar, a database, and truth.json with the error and the allocator's state. The
output of the program is a log.
"""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any

import ttnn
from ledger import Ledger, Passed, arguments, interleaved, sharded

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = (
    "clash",
    "clash_late",
    "clash_circular",
    "dram",
    "l1",
    "l1_small",
    "fragmented",
    "layer_norm",
)
SQUARE = [1, 1, 2048, 2048]
WIDE = [1, 1, 2048, 8192]


class Failure:
    """Runs until an operation fails."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.kept: list[Any] = []

    def fill(self, count: int, shape: list[int], memory: Any) -> None:
        """Allocates tensors that stay."""
        for number in range(count):
            self.kept.append(self.ledger.tensor(shape, memory))
            self.ledger.mark(f"resident {number}")

    def fill_l1(self) -> None:
        """Allocates all tensors that fit into L1."""
        l1 = self.ledger.view("L1")
        tiles = -(-2048 * 2048 // 1024 // l1["banks"])
        self.fill(l1["size"] // (tiles * 2048), SQUARE, interleaved("L1"))

    def clash(self) -> None:
        """The buffers of a program reach into tensors."""
        self.fill(8, SQUARE, interleaved("L1"))
        x = self.ledger.tensor(WIDE, interleaved("DRAM"))
        self.ledger.mark("input")
        ttnn.softmax(x, dim=-1)

    def clash_late(self) -> None:
        """A cached program ran; tensors that were allocated later are in its way."""
        x = self.ledger.tensor(WIDE, interleaved("DRAM"))
        self.kept.append(ttnn.softmax(x, dim=-1))
        self.ledger.mark("cached")
        self.fill(8, SQUARE, interleaved("L1"))
        ttnn.softmax(x, dim=-1)

    def clash_circular(self) -> None:
        """As `clash`, with circular buffers in place of dataflow buffers."""
        self.fill_l1()
        x = self.ledger.tensor([1, 8, 512, 256], interleaved("DRAM"))
        self.ledger.mark("input")
        ttnn.transformer.scaled_dot_product_attention(x, x, x, is_causal=False)

    def dram(self) -> None:
        """DRAM is full."""
        self.fill(64, [1, 1, 16384, 32768], interleaved("DRAM"))

    def l1(self) -> None:
        """L1 is full."""
        self.fill(64, SQUARE, interleaved("L1"))

    def l1_small(self) -> None:
        """L1_SMALL is full."""
        self.fill(8, [1, 1, 256, 64], sharded("HEIGHT", "L1_SMALL", self.ledger.cores(4, 1), [64, 64]))

    def fragmented(self) -> None:
        """Enough of L1 is free, but no block of it is large enough."""
        self.fill_l1()
        for tensor in self.kept[::2]:
            ttnn.deallocate(tensor)
        self.ledger.mark("holes")
        self.ledger.tensor([1, 1, 2048, 6144], interleaved("L1"))

    def layer_norm(self) -> None:
        """An operation finds that its buffers do not fit, and refuses to start."""
        self.fill_l1()
        x = self.ledger.tensor(WIDE, interleaved("DRAM"))
        self.ledger.mark("input")
        ttnn.layer_norm(x)


def main() -> None:
    """Runs a program, and records how it failed."""
    parser = arguments()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--stack-traces", action="store_true", help="Python stack traces in the sidecar")
    parser.add_argument("--slow", action="store_true", help="a graph of each operation in the sidecar")
    options = parser.parse_args()
    ttnn.CONFIG.enable_graph_python_stack_traces = options.stack_traces
    ttnn.CONFIG.enable_fast_runtime_mode = not options.slow
    ledger = Ledger(options)
    failure = Failure(ledger)
    ledger.begin()
    message = None
    step: Callable[[], None] = getattr(failure, options.kind)
    try:
        step()
    except Passed:
        pass
    except RuntimeError as error:
        message = str(error)
        traceback.print_exc()
    if options.change:
        (options.folder / "result.json").write_text(json.dumps(message))
        return
    if message is None:
        raise AssertionError(options.kind)
    ledger.mark("after the failure")
    # The state that the failed operation saw.
    before = ledger.rows[-2]
    at_failure = {"pools": before["pools"], "buffers": before["buffers"]}
    ledger.finish(error=message, at_failure=at_failure, places=ledger.places)
    failure.kept.clear()
    ledger.close()


main()
