"""Out-of-memory errors of a CUDA device, compared with `torch.cuda.mem_get_info`. Skipped without CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

TOLERANCE = 0.001
"""The largest difference, as a share of the device's memory."""

GIB = 1 << 30

# Writes the numbers of the device and the allocator after the failure. The exception ends the program.
PROGRAM = """
import json, sys, torch

GIB = 1 << 30
held = []

def gib(count):
    return torch.empty(int(count * GIB), dtype=torch.uint8, device="cuda")

def run():
{body}

try:
    run()
except torch.OutOfMemoryError:
    free, total = torch.cuda.mem_get_info()
    facts = {{
        "free": free,
        "total": total,
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
    }}
    with open(sys.argv[1], "w") as file:
        json.dump(facts, file)
    raise
"""


def failed(tmp_path: Path, body: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Runs a program until it fails. Returns the verdict on its output, and what the device said."""
    script, facts, log = tmp_path / "program.py", tmp_path / "facts.json", tmp_path / "program.log"
    script.write_text(PROGRAM.format(body=textwrap.indent(textwrap.dedent(body).strip(), "    ")))
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_ALLOC_CONF")}
    with log.open("wb") as output:
        command = [sys.executable, str(script), str(facts)]
        ended = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, timeout=170, check=False
        )
    assert ended.returncode == 1, log.read_text()
    summary = ttmem.load(log).summary()
    assert summary["source"]["format"] == "cuda_oom"
    oom: dict[str, Any] = summary["ranks"][0]["oom"]
    return oom, json.loads(facts.read_text())


def parts(oom: dict[str, Any]) -> dict[str, int]:
    """The bytes of the parts, by kind."""
    found: dict[str, int] = {}
    for part in oom["ledger"]["parts"]:
        found[part["kind"]] = found.get(part["kind"], 0) + part["bytes"]
    return found


def compare(oom: dict[str, Any], facts: dict[str, int]) -> dict[str, int]:
    """Compares a ledger with the device and the allocator. Returns its parts."""
    ledger, found = oom["ledger"], parts(oom)
    slack = TOLERANCE * facts["total"]
    assert ledger["adds_up"] is True, oom
    assert abs(ledger["capacity_bytes"] - facts["total"]) <= slack
    assert abs(found["free"] - facts["free"]) <= slack
    assert abs(sum(found.values()) - facts["total"]) <= slack, found
    reserved = found["allocated"] + found.get("private_pools", 0) + found["unallocated"]
    assert abs(reserved - facts["reserved"]) <= slack, (found, facts)
    assert oom["loc"].split("/")[-1].startswith("program.py:"), oom["loc"]
    return found


@pytest.fixture
def total() -> int:
    return int(torch.cuda.mem_get_info()[1])


def test_a_full_device(tmp_path: Path) -> None:
    oom, facts = failed(tmp_path, "while True:\n    held.append(gib(4))")
    found = compare(oom, facts)
    assert oom["cause"] in {"capacity", "non_pytorch"}
    assert oom["requested_total"] == 4 * GIB
    assert found["allocated"] > 0.8 * facts["allocated"]
    assert "expandable" not in (oom["advice"] or "")


def test_a_limit(tmp_path: Path, total: int) -> None:
    fraction = 6 * GIB / total
    body = f"torch.cuda.set_per_process_memory_fraction({fraction})\nwhile True:\n    held.append(gib(1))"
    oom, facts = failed(tmp_path, body)
    compare(oom, facts)
    assert oom["cause"] == "memory_limit"
    assert abs(oom["ledger"]["allowed_bytes"] - 6 * GIB) <= TOLERANCE * total
    assert oom["advice"].startswith("Raise the limit")


def test_a_limit_with_fragmentation(tmp_path: Path, total: int) -> None:
    # Every second quarter of a segment is freed, so much is reserved and no block is large.
    fraction = 8 * GIB / total
    body = f"""
    torch.cuda.set_per_process_memory_fraction({fraction})
    small = [torch.empty(5 << 20, dtype=torch.uint8, device="cuda") for _ in range(1400)]
    del small[::2]
    gib(3)
    """
    oom, facts = failed(tmp_path, body)
    found = compare(oom, facts)
    assert found["unallocated"] > 2 * GIB
    # The limit is checked first.
    assert oom["cause"] == "memory_limit"


def test_private_pools_of_cuda_graphs(tmp_path: Path, total: int) -> None:
    body = """
    graph, x = torch.cuda.CUDAGraph(), torch.ones(1 << 20, device="cuda")
    with torch.cuda.graph(graph):
        y = gib(8)
        y.add_(1)
        del y
    while True:
        held.append(gib(4))
    """
    oom, facts = failed(tmp_path, body)
    found = compare(oom, facts)
    assert abs(found["private_pools"] - 8 * GIB) <= TOLERANCE * total
    assert oom["cause"] in {"private_pools", "capacity"}


@pytest.fixture
def neighbor() -> Iterator[int]:
    """Another process that holds 32 GiB, or a quarter of a smaller device. Yields how much."""
    amount = min(32 * GIB, int(torch.cuda.mem_get_info()[1]) // 4)
    allocate = f"x = torch.empty({amount}, dtype=torch.uint8, device='cuda')"
    program = f"import sys, torch; {allocate}; print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield amount
        process.stdin.close()


def test_another_process(tmp_path: Path, neighbor: int) -> None:
    oom, facts = failed(tmp_path, "while True:\n    held.append(gib(4))")
    found = compare(oom, facts)
    # In a container, the driver may not name the processes: then their memory is not attributed.
    outside = sum(found.get(kind, 0) for kind in ("process", "unattributed", "outside"))
    assert outside >= neighbor - TOLERANCE * facts["total"], found
    if found.get("process", 0) >= neighbor:
        assert oom["cause"] == "other_process"
        assert "nvidia-smi" in oom["advice"]
