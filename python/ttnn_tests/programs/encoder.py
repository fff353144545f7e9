"""Encoder layers: weights in DRAM, activations in L1 and DRAM, some of them sharded."""

from __future__ import annotations

import ttnn
from ledger import Ledger, arguments, interleaved, sharded

WIDTH, TOKENS, HEADS = 512, 128, 8

parser = arguments()
parser.add_argument("--layers", type=int, default=2)
options = parser.parse_args()
ledger = Ledger(options)
dram, l1 = interleaved("DRAM"), interleaved("L1")
ledger.begin()

layers = []
for _ in range(options.layers):
    weights = {
        name: ledger.tensor([1, 1, WIDTH, WIDTH], dram, "bfloat8_b") for name in ("q", "k", "v", "out")
    }
    weights["up"] = ledger.tensor([1, 1, WIDTH, 4 * WIDTH], dram)
    weights["down"] = ledger.tensor([1, 1, 4 * WIDTH, WIDTH], dram)
    weights["bias"] = ledger.tensor([1, 1, 1, WIDTH], dram, "float32", "ROW_MAJOR")
    layers.append(weights)
    ledger.mark("weights")

x = ledger.tensor([1, 1, TOKENS, WIDTH], l1)
ledger.mark("input")
for weights in layers:
    projected = {}
    for name in ("q", "k", "v"):
        flat = ttnn.matmul(x, weights[name], memory_config=l1)
        split = ttnn.reshape(flat, (1, TOKENS, HEADS, WIDTH // HEADS))
        ledger.mark(f"project {name}")
        projected[name] = ttnn.transpose(split, 1, 2, memory_config=dram)
        del flat, split
        ledger.mark(f"heads of {name}")
    keys = ttnn.transpose(projected.pop("k"), -2, -1, memory_config=dram)
    scores = ttnn.matmul(projected.pop("q"), keys, memory_config=l1)
    ledger.mark("scores")
    scores = ttnn.softmax(scores, dim=-1, memory_config=l1)
    ledger.mark("softmax")
    mixed = ttnn.matmul(scores, projected.pop("v"), memory_config=dram)
    ttnn.deallocate(scores)
    ttnn.deallocate(keys)
    ledger.mark("mix")
    mixed = ttnn.reshape(ttnn.transpose(mixed, 1, 2), (1, 1, TOKENS, WIDTH))
    attended = ttnn.add(x, ttnn.matmul(mixed, weights["out"], memory_config=l1), memory_config=l1)
    ttnn.deallocate(mixed)
    ttnn.deallocate(x)
    ledger.mark("residual")

    spread = sharded("BLOCK", "L1", ledger.cores(4, 2), [TOKENS // 2, WIDTH // 4])
    blocks = ttnn.to_memory_config(attended, spread)
    ledger.mark("to blocks")
    blocks = ttnn.gelu(blocks)
    ledger.mark("gelu of blocks")
    normal = ttnn.layer_norm(ttnn.to_memory_config(blocks, l1), memory_config=l1)
    ttnn.deallocate(blocks)
    ledger.mark("layer norm")

    wide = ttnn.gelu(ttnn.matmul(normal, weights["up"], memory_config=dram), memory_config=l1)
    ledger.mark("up")
    narrow = ttnn.matmul(wide, weights["down"], memory_config=l1)
    ttnn.deallocate(wide)
    ttnn.deallocate(normal)
    x = ttnn.add(attended, narrow, memory_config=l1)
    ttnn.deallocate(attended)
    ttnn.deallocate(narrow)
    ledger.mark("down")
    rows = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
    ledger.mark("rows")
    ttnn.deallocate(rows)
ttnn.deallocate(x)
ledger.mark("end")
ledger.finish()
ledger.close()
