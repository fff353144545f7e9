"""The programs of the recordings l1-*.ttmem: `python l1.py PROGRAM FOLDER [no-dispatch]`, then `ttmem report` of the files.

l1-blocks has both captures of `blocks`, l1-sharded the normal one of `sharded`, l1-clash that of `clash`, and l1-too-large
the one of `too_large` without dispatch.
"""

import pathlib
import sys

import ttnn

L1 = ttnn.L1_MEMORY_CONFIG


def tensor(device, *shape, memory=L1):
    return ttnn.empty(
        shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
    )


def sharded_on(kind, first, size, shard):
    last = ttnn.CoreCoord(first[0] + size[0] - 1, first[1] + size[1] - 1)
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*first), last)})
    spec = ttnn.ShardSpec(cores, shard, ttnn.ShardOrientation.ROW_MAJOR)
    layout = getattr(ttnn.TensorMemoryLayout, f"{kind}_SHARDED")
    return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, spec)


def blocks(device):
    x = tensor(device, 1, 1, 1024, 1024)
    for _ in range(2):
        up = tensor(device, 1, 1, 1024, 4096, memory=ttnn.DRAM_MEMORY_CONFIG)
        down = tensor(device, 1, 1, 4096, 1024, memory=ttnn.DRAM_MEMORY_CONFIG)
        normalized = ttnn.layer_norm(x, memory_config=L1)
        hidden = ttnn.matmul(normalized, up, memory_config=L1)
        ttnn.deallocate(normalized)
        active = ttnn.gelu(hidden, memory_config=L1)
        ttnn.deallocate(hidden)
        result = ttnn.matmul(active, down, memory_config=L1)
        ttnn.deallocate(active)
        y = ttnn.add(x, result, memory_config=L1)
        ttnn.deallocate(result)
        ttnn.deallocate(x)
        x = y


def sharded(device):
    x = tensor(device, 1, 1, 1024, 1024)
    a = ttnn.to_memory_config(x, sharded_on("BLOCK", (0, 0), (4, 4), [256, 256]))
    b = ttnn.to_memory_config(x, sharded_on("HEIGHT", (0, 4), (8, 2), [64, 1024]))
    c = ttnn.gelu(a)
    d = ttnn.add(a, c)
    return x, b, d


def clash(device):
    kept = [tensor(device, 1, 1, 2048, 2048) for _ in range(8)]
    wide = tensor(device, 1, 1, 2048, 8192, memory=ttnn.DRAM_MEMORY_CONFIG)
    try:
        ttnn.softmax(wide, dim=-1)
    except RuntimeError:
        return kept


def too_large(device):
    kept = [tensor(device, 1, 1, 2048, 2048) for _ in range(8)]
    return kept, ttnn.softmax(kept[0], dim=-1, memory_config=L1)


program, folder, *mode = sys.argv[1:]
device = ttnn.open_device(device_id=0, l1_small_size=16384)
run_mode = ttnn.graph.RunMode
ttnn.graph.begin_graph_capture(run_mode.NO_DISPATCH if mode else run_mode.NORMAL)
results = globals()[program](device)
pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
ttnn.graph.end_graph_capture_to_file(str(pathlib.Path(folder) / "report.json"))
ttnn.close_device(device)
