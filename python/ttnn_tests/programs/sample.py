"""A small program with a bit of everything; `corpus/ttnn_graph/sample-*.json` are its captures."""

from __future__ import annotations

import ttnn
from ledger import Ledger, arguments, interleaved, sharded

ledger = Ledger(arguments().parse_args())
ledger.begin()
x = ledger.tensor([1, 1, 128, 256], interleaved("DRAM"))
ledger.mark("DRAM, interleaved")
small = ledger.tensor(
    [1, 1, 26, 3], sharded("HEIGHT", "L1", ledger.cores(4, 1), [7, 3]), "uint8", "ROW_MAJOR"
)
ledger.mark("L1, 7 rows of 3 bytes on each of 4 cores")
wide = ledger.tensor([1, 1, 5, 35], sharded("WIDTH", "L1", ledger.cores(5, 1), [5, 7]), layout="ROW_MAJOR")
ledger.mark("L1, 5 rows of 14 bytes on each of 5 cores")
block = ledger.tensor([1, 1, 64, 128], sharded("BLOCK", "L1", ledger.cores(2, 2), [32, 64]), "bfloat8_b")
ledger.mark("L1, 2 tiles on each of 4 cores")
tiny = ledger.tensor(
    [1, 1, 10, 17], sharded("HEIGHT", "L1_SMALL", ledger.cores(2, 1), [5, 17]), "int32", "ROW_MAJOR"
)
ledger.mark("L1_SMALL, 5 rows of 68 bytes on each of 2 cores")
y = ttnn.add(x, x, memory_config=interleaved("L1"))
ledger.mark("add")
ttnn.deallocate(small)
ledger.mark("freed")
ledger.finish()
ledger.close()
