"""Recordings of CUDA programs: allocations outside modules, and the allocator's settings.

Each program runs in its own process, because a workspace exists once per process. Skipped without CUDA.
"""

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
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

MIB = 1 << 20
GIB = 1 << 30


def tracked(tmp_path: Path, program: str, **settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs a program under the tracker. Returns the summary, and the allocator's counters."""
    script = tmp_path / "program.py"
    before = f"""
    import json, sys
    import torch, ttmem
    from torch import nn
    tracker = ttmem.initialize_memory_tracker({str(tmp_path)!r}, interval=60)
    """
    after = """
    counters = torch.cuda.memory_stats()
    ttmem.stop_memory_tracker()
    print(json.dumps({"recording": tracker.recording, "counters": counters}))
    """
    script.write_text("".join(map(textwrap.dedent, (before, program, after))))
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    return ttmem.load(told["recording"]).summary(), told["counters"]


def classes_at_peak(summary: dict[str, Any], real: int) -> dict[str, int]:
    rank = summary["ranks"][0]
    assert rank["pools"]["cuda:0"]["peak_total"] == real
    classes: dict[str, int] = rank["peaks"]["cuda:0"]["by_class_per_bank"]
    return classes


def test_a_loss_outside_the_model_and_workspaces(tmp_path: Path) -> None:
    summary, counters = tracked(
        tmp_path,
        """
        model = nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 32000)).cuda().bfloat16()
        optimizer = torch.optim.AdamW(model.parameters())
        words = torch.randint(32000, (2048,), device="cuda")
        for _ in range(8):
            x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16)
            loss = nn.functional.cross_entropy(model(x).float(), words)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )
    peak = counters["allocated_bytes.all.peak"]
    classes = classes_at_peak(summary, peak)
    assert classes.get("unknown", 0) <= peak / 100, classes
    # One of the program's thread, one of autograd's.
    assert classes["workspace"] >= 2 * 8 * MIB, classes
    # The float32 logits.
    assert classes["activation"] >= 2048 * 32000 * 4, classes


def test_a_model_that_is_converted_consists_of_parameters(tmp_path: Path) -> None:
    summary, counters = tracked(tmp_path, "nn.Linear(4096, 4096).cuda().bfloat16()")
    peak = counters["allocated_bytes.all.peak"]
    assert classes_at_peak(summary, peak) == {"parameter": peak}


def test_pinned_memory_has_its_own_pool(tmp_path: Path) -> None:
    program = "pinned = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True); copy = pinned.cuda()"
    summary, _ = tracked(tmp_path, program)
    assert summary["ranks"][0]["pools"]["cuda pinned"]["peak_total"] == 64 * MIB
    (warning,) = [w["message"] for w in summary["source"]["warnings"] if "pinned" in w["message"]]
    assert warning.startswith("pinned host memory has no history"), warning


def test_the_limit_of_the_program_is_known(tmp_path: Path) -> None:
    summary, _ = tracked(
        tmp_path,
        f"""
        torch.cuda.init()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction({GIB} / total)
        held = []
        try:
            while True:
                held.append(torch.empty({100 * MIB}, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            pass
        """,
    )
    oom = summary["ranks"][0]["oom"]
    assert oom["cause"] == "memory_limit"
    total = torch.cuda.get_device_properties(0).total_memory / GIB
    assert f"of {total:.2f} GiB was free. The limit is 1.00 GiB, and " in oom["detail"], oom
    assert oom["advice"].startswith("Raise the limit by at least "), oom


@pytest.mark.parametrize(
    "setting",
    [
        "roundup_power2_divisions:4,max_split_size_mb:64",
        "roundup_power2_divisions:[64:2,128:4,>:8],expandable_segments:True",
    ],
)
def test_blocks_are_rounded_and_split_as_the_allocator_is_set(tmp_path: Path, setting: str) -> None:
    summary, counters = tracked(
        tmp_path,
        """
        def tensor(size):
            return torch.empty(size, dtype=torch.uint8, device="cuda")

        sizes = [3 << 20, (5 << 20) + 7, 70 << 20, 129 << 20, 1000, 900_000, 21 << 20]
        held = [tensor(size) for size in sizes]
        del held[2], held[0]
        held += [tensor(65 << 20), tensor(40 << 20), tensor(200)]
        """,
        PYTORCH_CUDA_ALLOC_CONF=setting,
        PYTORCH_ALLOC_CONF=setting,
    )
    pool = summary["ranks"][0]["pools"]["cuda:0"]
    assert pool["peak_total"] == counters["allocated_bytes.all.peak"]
    tensors = summary["ranks"][0]["peaks"]["cuda:0"]["explained_per_bank"]
    assert tensors == counters["allocated_bytes.all.peak"]
    assert not any("estimate" in warning["message"] for warning in summary["source"]["warnings"])
