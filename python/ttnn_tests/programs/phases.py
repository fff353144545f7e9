"""A training step in phases, measured by `ttmem.MemoryUsageTracker`, and the allocator's own numbers.

The tensors have a multiple of 24 tiles, so they fill the 12 banks of a Wormhole and the 8 of a Blackhole
evenly, and the device's bytes are the bytes per bank times the number of banks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ttnn
from ledger import Ledger, arguments, interleaved

import ttmem
from ttmem import MemoryUsageTracker

options = arguments().parse_args()
ledger = Ledger(options)
dram, l1 = interleaved("DRAM"), interleaved("L1")
phases: list[dict[str, Any]] = []
seen: list[dict[str, int]] = []


def mark() -> None:
    """Returns the allocator's numbers."""
    views = {pool: ledger.view(pool) for pool in ("DRAM", "L1")}
    seen.append({"DRAM": views["DRAM"]["allocated"] * views["DRAM"]["banks"], "L1": views["L1"]["allocated"]})


def phase(name: str) -> None:
    """Ends a phase."""
    MemoryUsageTracker.snapshot(name)
    phases.append({"name": name, "seen": list(seen)})
    del seen[:-1]


weights = [ledger.tensor([1, 1, 768, 64], dram) for _ in range(2)]
recording = options.folder / "phases.ttmem"
MemoryUsageTracker.record_to(recording)
modes = ttnn.graph.RunMode
guard = MemoryUsageTracker.begin_capture(modes.NO_DISPATCH if options.no_dispatch else modes.NORMAL)
mark()
weights += [ledger.tensor([1, 1, 768, 768], dram), ledger.tensor([1, 1, 768, 96], dram, "float32")]
mark()
phase("MODEL_CREATION")

x = ledger.tensor([1, 1, 768, 768], l1)
mark()
hidden = ttnn.add(x, weights[2], memory_config=dram)
mark()
active = ttnn.gelu(hidden, memory_config=l1)
mark()
ttnn.deallocate(x)
mark()
phase("FORWARD_PASS")

ttnn.deallocate(weights.pop(0))
mark()
gradient = ttnn.multiply(active, hidden, memory_config=dram)
mark()
ttnn.deallocate(hidden)
ttnn.deallocate(active)
mark()
phase("BACKWARD_PASS")

ttnn.deallocate(gradient)
mark()
MemoryUsageTracker.end_capture("ITERATION_COMPLETE")
phases.append({"name": "ITERATION_COMPLETE", "seen": seen})
MemoryUsageTracker.print_memory_usage()
MemoryUsageTracker.finish()

truth = {
    "phases": phases,
    "names": MemoryUsageTracker.get_trace_names(),
    "dram": [usage._asdict() for _, usage in MemoryUsageTracker.get_dram_usage_all()],
    "l1": [usage._asdict() for _, usage in MemoryUsageTracker.get_l1_usage_all()],
    "text": MemoryUsageTracker.memory_usage_text(),
    "version": ttmem.__version__,
    "forward": MemoryUsageTracker.get_dram_usage("FORWARD_PASS")._asdict(),
}
Path(options.folder / "truth.json").write_text(json.dumps(truth))
guard.release()
ledger.close()
