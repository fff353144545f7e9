"""A device with a trace region, and a buffer in it. Recording a trace needs a real card."""

from __future__ import annotations

from ledger import Ledger, arguments, interleaved

ledger = Ledger(arguments().parse_args())
ledger.begin()
kept = [ledger.tensor([1, 1, 64, 96], interleaved(pool)) for pool in ("DRAM", "TRACE", "DRAM")]
ledger.mark("all")
ledger.finish()
ledger.close()
