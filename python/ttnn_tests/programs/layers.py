"""Layers that add and multiply: `layers.py FOLDER KEY=VALUE…` writes FOLDER/layers.json.

`rows`, `layers`, `dtype` and `memory` change the tensors, `keep` leaves out a deallocation of one layer,
`swap` exchanges two operations, and `free=early` deallocates tensors right after their last use.
"""

import sys

import ttnn

options = dict(word.split("=") for word in sys.argv[2:])
rows, count = int(options.get("rows", "512")), int(options.get("layers", "3"))
dtype = getattr(ttnn, options.get("dtype", "bfloat16"))
memory = ttnn.L1_MEMORY_CONFIG if options.get("memory") == "l1" else ttnn.DRAM_MEMORY_CONFIG


def tensor(memory_config: ttnn.MemoryConfig) -> ttnn.Tensor:
    return ttnn.empty(
        (1, 1, rows, 512), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory_config
    )


def layer(hidden: ttnn.Tensor, *, keeps: bool) -> ttnn.Tensor:
    if options.get("swap"):
        gate, value = ttnn.relu(hidden), ttnn.exp(hidden)
    else:
        value, gate = ttnn.exp(hidden), ttnn.relu(hidden)
    added = ttnn.add(value, gate, memory_config=memory)
    early = [value, gate] if options.get("free") == "early" else []
    for freed in early:
        ttnn.deallocate(freed)
    out = ttnn.multiply(added, hidden)
    if keeps:
        kept.append(added)
    for freed in [*([] if early else [value, gate]), *([] if keeps else [added]), hidden]:
        ttnn.deallocate(freed)
    return out


device = ttnn.open_device(device_id=0)
ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
kept = []
try:
    hidden = tensor(ttnn.DRAM_MEMORY_CONFIG)
    for number in range(count):
        hidden = layer(hidden, keeps=bool(options.get("keep")) and number == 0)
finally:
    ttnn.graph.end_graph_capture_to_file(f"{sys.argv[1]}/layers.json")
    ttnn.close_device(device)
