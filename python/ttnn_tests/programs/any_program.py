"""A random program from a seed: allocations of every layout, operations, frees. Operations may fail."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import ttnn

if TYPE_CHECKING:
    from collections.abc import Callable
from ledger import Ledger, arguments, interleaved, sharded

SIDES = (1, 2, 3, 5, 7, 17, 31, 32, 33, 48, 64, 96, 100, 160, 256, 500, 1024)
UNARY = ("gelu", "exp", "relu", "silu", "sqrt", "neg")
DTYPES = {
    "TILE": ("bfloat16", "float32", "bfloat8_b", "bfloat4_b"),
    "ROW_MAJOR": ("bfloat16", "float32", "uint8", "int32"),
}

parser = arguments()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--steps", type=int, default=50)
options = parser.parse_args()
choose = random.Random(options.seed)
ledger = Ledger(options)
alive: list[Any] = []


def memory() -> Any:
    """Returns the memory configuration of a result."""
    return interleaved("L1" if choose.random() < 0.5 else "DRAM")


def allocate() -> Any:
    """Allocates a tensor of a random layout."""
    layout = choose.choice(tuple(DTYPES))
    dtype = choose.choice(DTYPES[layout])
    kind = choose.choice(("INTERLEAVED", "INTERLEAVED", "HEIGHT", "WIDTH", "BLOCK"))
    if kind == "INTERLEAVED":
        shape = [1, choose.choice((1, 1, 3)), choose.choice(SIDES), choose.choice(SIDES)]
        return ledger.tensor(shape, memory(), dtype, layout)
    shard = [choose.choice(SIDES[:12]), choose.choice(SIDES[:12])]
    if layout == "TILE":
        shard = [-(-side // 32) * 32 for side in shard]
    width = 1 if kind == "HEIGHT" else choose.randint(1, ledger.grid.x)
    height = 1 if kind == "WIDTH" else choose.randint(1, ledger.grid.y)
    shape = [1, 1, shard[0] * height, shard[1] * width]
    shape[3 if kind == "WIDTH" else 2] -= choose.randrange(min(shard))
    pool = choose.choice(("L1", "L1", "L1", "L1_SMALL"))
    return ledger.tensor(shape, sharded(kind, pool, ledger.cores(width, height), shard), dtype, layout)


def square(x: Any) -> Any:
    """Multiplies matrices. ttnn crashes on some sharded operands, so they are interleaved first."""
    if x.is_sharded():
        x = ttnn.to_memory_config(x, memory())
    return ttnn.matmul(x, ttnn.transpose(x, -2, -1), memory_config=memory())


OPERATIONS: tuple[Callable[[Any], Any], ...] = (
    lambda x: getattr(ttnn, choose.choice(UNARY))(x, memory_config=memory()),
    lambda x: getattr(ttnn, choose.choice(("add", "multiply")))(x, x, memory_config=memory()),
    square,
    lambda x: ttnn.softmax(x, dim=-1, memory_config=memory()),
    lambda x: ttnn.transpose(x, -2, -1, memory_config=memory()),
    lambda x: ttnn.concat([x, x], dim=-1, memory_config=memory()),
    lambda x: ttnn.layer_norm(x, memory_config=memory()),
    lambda x: ttnn.to_layout(x, choose.choice((ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT))),
    lambda x: ttnn.to_memory_config(x, memory()),
    lambda x: ttnn.sum(x, dim=-1),
)

ledger.begin()
for step in range(options.steps):
    # A no-op returns its operand, which may be deallocated by now.
    alive = [tensor for tensor in alive if tensor.is_allocated()]
    chance = choose.random()
    try:
        if not alive or chance < 0.35:
            alive.append(allocate())
        elif chance < 0.5:
            ttnn.deallocate(alive.pop(choose.randrange(len(alive))))
        elif chance < 0.6:
            alive.pop(choose.randrange(len(alive)))
        else:
            alive.append(choose.choice(OPERATIONS)(choose.choice(alive)))
    except (RuntimeError, TypeError):
        ledger.mark(f"step {step} failed")
        continue
    ledger.mark(f"step {step}")
ledger.finish()
