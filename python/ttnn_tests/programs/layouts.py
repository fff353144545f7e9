"""Every memory layout in every pool, with pages and shards that the allocator has to align."""

from __future__ import annotations

import itertools

import ttnn
from ledger import Ledger, arguments, interleaved, sharded

TILED = ("bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint16")
ROWS = ("bfloat16", "float32", "uint8", "int32")
ROW_SHARDS = ([7, 3], [5, 17], [33, 10], [1, 6], [3, 48], [64, 64])

options = arguments().parse_args()
ledger = Ledger(options)
ledger.begin()
kept = []

for pool, dtype in itertools.product(("DRAM", "L1"), TILED):
    kept.append(ledger.tensor([1, 2, 70, 200], interleaved(pool), dtype))
    ledger.mark(f"{pool} interleaved tiles of {dtype}")
for pool, dtype in itertools.product(("DRAM", "L1"), ROWS):
    kept.append(ledger.tensor([1, 1, 300, 13], interleaved(pool), dtype, "ROW_MAJOR"))
    ledger.mark(f"{pool} interleaved rows of {dtype}")

for number, (kind, dtype, shard) in enumerate(
    itertools.product(("HEIGHT", "WIDTH", "BLOCK"), ROWS, ROW_SHARDS)
):
    width, height = {"HEIGHT": (1, 4), "WIDTH": (5, 1), "BLOCK": (3, 2)}[kind]
    # The last shard is not full, except for every third tensor.
    missing = number % 3
    if kind == "WIDTH":
        shape = [1, 1, shard[0], shard[1] * width - missing]
    else:
        shape = [1, 1, shard[0] * height - min(missing, shard[0] - 1), shard[1] * width]
    for pool in ("L1", "L1_SMALL") if shard[0] * shard[1] < 100 else ("L1",):
        memory = sharded(kind, pool, ledger.cores(width, height), shard)
        kept.append(ledger.tensor(shape, memory, dtype, "ROW_MAJOR"))
        ledger.mark(f"{pool} {kind} shards {shard} of {dtype}")
    # Leaves holes before live buffers.
    if number % 4 == 3:
        ttnn.deallocate(kept.pop(-2))
        ledger.mark("freed")

for kind, dtype in itertools.product(("HEIGHT", "WIDTH", "BLOCK"), TILED):
    width, height = {"HEIGHT": (1, 3), "WIDTH": (3, 1), "BLOCK": (2, 2)}[kind]
    shape = [1, 1, 64 * height - (0 if kind == "WIDTH" else 7), 96 * width]
    kept.append(ledger.tensor(shape, sharded(kind, "L1", ledger.cores(width, height), [64, 96]), dtype))
    ledger.mark(f"L1 {kind} tiles of {dtype}")

for kind, shard in itertools.product(("HEIGHT", "WIDTH"), ([7, 3], [32, 32])):
    layout = "TILE" if shard[0] % 32 == 0 else "ROW_MAJOR"
    shape = [1, 1, shard[0] * (6 if kind == "HEIGHT" else 1), shard[1] * (6 if kind == "WIDTH" else 1)]
    kept.append(ledger.tensor(shape, sharded(kind, "DRAM", ledger.cores(6, 1), shard), layout=layout))
    ledger.mark(f"DRAM {kind} shards {shard}")

while kept:
    ttnn.deallocate(kept.pop(len(kept) // 2))
    if len(kept) % 9 == 0:
        ledger.mark(f"{len(kept)} left")
ledger.finish()
ledger.close()
