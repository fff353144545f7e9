"""A layer whose softmax does not fit next to the tensors in L1: `softmax.py NAME [estimate]` writes NAME.json.

Run it on a card, or, to make the files of the guide, on a described one (python/ttnn_tests).
"""

import sys

import ttnn

L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG


def tensor(rows: int, columns: int, memory: ttnn.MemoryConfig) -> ttnn.Tensor:
    return ttnn.empty(
        (1, 1, rows, columns),
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=memory,
    )


def attention(scores: ttnn.Tensor) -> ttnn.Tensor:
    keys = [tensor(2048, 2048, L1) for _ in range(4)]
    values = [tensor(2048, 2048, L1) for _ in range(4)]
    weights = ttnn.softmax(scores, dim=-1)
    return [ttnn.add(key, value) for key, value in zip(keys, values)] + [weights]


device = ttnn.open_device(device_id=0, l1_small_size=16384)
modes = ttnn.graph.RunMode
ttnn.graph.begin_graph_capture(modes.NO_DISPATCH if sys.argv[2:] == ["estimate"] else modes.NORMAL)
try:
    attention(tensor(2048, 8192, DRAM))
finally:
    ttnn.graph.end_graph_capture_to_file(f"{sys.argv[1]}.json")
    ttnn.close_device(device)
