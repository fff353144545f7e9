"""Memory snapshots of a CUDA device, compared with its allocator's counters. Skipped without CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

SETTINGS = [
    "",
    "roundup_power2_divisions:4",
    "max_split_size_mb:64",
    "expandable_segments:True",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "max_split_size_mb:32,roundup_power2_divisions:8",
]

WHOLE = 1_000_000
WRAPPED = 700

# Allocates and frees at random, on two streams; frees of memory that a stream still uses stay pending.
PROGRAM = """
import json, pickle, random, sys, torch

path, entries = sys.argv[1], int(sys.argv[2])
random.seed(entries)
torch.cuda.memory._record_memory_history(max_entries=entries)
live, side = [], torch.cuda.Stream()

def size():
    unit = random.choice([1, 512, 4096, 1 << 20, 3 << 20, 20 << 20, 200 << 20])
    return int(unit * random.uniform(0.3, 1.7)) + 1

for index in range(600):
    draw = random.random()
    if draw < 0.55 or not live:
        with torch.cuda.stream(side if random.random() < 0.3 else torch.cuda.default_stream()):
            live.append(torch.empty(size(), dtype=torch.uint8, device="cuda"))
    elif draw < 0.9:
        tensor = live.pop(random.randrange(len(live)))
        if random.random() < 0.3:
            with torch.cuda.stream(side):
                torch.cuda._sleep(1_000_000)
            tensor.record_stream(side)
        del tensor
    elif draw < 0.93:
        torch.cuda.empty_cache()
    elif draw < 0.96:
        torch.cuda.synchronize()
    else:
        with torch.profiler.record_function(f"phase{index % 3}"):
            torch.randn(300, 300, device="cuda") @ torch.randn(300, 300, device="cuda")
    if len(live) > 120:
        del live[::2]

snapshot, stats = torch.cuda.memory._snapshot(), torch.cuda.memory_stats()
with open(path, "wb") as file:
    pickle.dump(snapshot, file)
names = ("allocated.current", "allocated.peak", "reserved.peak")
counters = {name: stats[name.replace(".", "_bytes.all.")] for name in names}
with open(path + ".json", "w") as file:
    json.dump(counters, file)
"""


@pytest.mark.parametrize("entries", [WHOLE, WRAPPED])
@pytest.mark.parametrize("settings", SETTINGS)
def test_levels_are_those_of_the_allocator(settings: str, entries: int, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=settings)
    command = [sys.executable, "-c", PROGRAM, str(path), str(entries)]
    subprocess.run(command, env=environment, check=True)
    counters = json.loads((tmp_path / "snapshot.pickle.json").read_text())
    pool = ttmem.load(path).summary()["ranks"][0]["pools"]["cuda:0"]
    assert pool["final_total"] == counters["allocated.current"]
    if entries == WHOLE:
        assert pool["peak_total"] == counters["allocated.peak"]
        assert pool["allocator"]["reserved_peak_total"] == counters["reserved.peak"]


# Keeps a little more in each iteration, until a limit below the memory of the device is reached.
LIMITED = """
import json, sys, torch

path = sys.argv[1]
total = torch.cuda.mem_get_info()[1]
torch.cuda.set_per_process_memory_fraction(0.05)
torch.cuda.memory._record_memory_history()
kept = []
try:
    while True:
        with torch.profiler.record_function("iteration"):
            kept.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
            torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    torch.cuda.memory._dump_snapshot(path)
with open(path + ".json", "w") as file:
    json.dump({"limit": int(total * 0.05), "reserved": torch.cuda.memory_reserved()}, file)
"""


def test_a_limit_below_the_memory_of_the_device_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    subprocess.run([sys.executable, "-c", LIMITED, str(path)], check=True)
    counters = json.loads((tmp_path / "snapshot.pickle.json").read_text())
    rank = ttmem.load(path).summary()["ranks"][0]
    oom = rank["oom"]
    assert oom["cause"] == "memory_limit"
    assert "so PyTorch refused it" in oom["detail"]
    assert counters["reserved"] <= counters["limit"] < counters["reserved"] + oom["requested_total"]
    # Each iteration keeps 256 MiB.
    iteration = next(call for call in rank["ran"] if call["name"] == "iteration")
    assert iteration["retained_per_call_bytes"] == 256 << 20
