"""Peaks of eight real programs, compared with PyTorch's profiler: equal, or the summary explains why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed.fsdp
from torch.profiler import ProfilerActivity, profile

import real_programs
import ttmem
from conftest import preloaded
from ttmem._torch.compiled import compiles_beside_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

EXACT = 0.0


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# The tracker's peak may be lower by this share: it does not track what kernels allocate and free internally.
SCRATCH = {
    "trainer_plain": 0.001,
    "trainer_checkpointing": 0.001,
    "generate": EXACT,
    "resnet_autocast": 0.03,
    "compiled_gpt": EXACT,
    "ddp": EXACT,
    "fsdp": 0.001,
    "gan": 0.08,
}
NEEDS = {"trainer_plain": "transformers", "trainer_checkpointing": "transformers", "generate": "transformers"}
NEEDS |= {"resnet_autocast": "torchvision"}


def check(name: str, found: dict[str, Any]) -> None:
    """Compares a peak with the profiler's."""
    assert found["errors"] == 0
    # A library may have started a thread that computes nothing.
    assert all("threads started before the tracker" in warning for warning in found["warnings"])
    # The profiler does not report frees of other threads. Allocations without a free may or may not be live,
    # so the true peak is in between.
    assert found["theirs_freed"] * (1 - SCRATCH[name]) <= found["ours"] <= found["theirs"]
    if found["ours"] < found["theirs_freed"]:
        assert any("while they run" in missing for missing in found["missing"])


@pytest.mark.parametrize("name", [name for name in SCRATCH if name not in ("ddp", "fsdp")])
def test_one_process(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(name, "torch"))
    if name == "compiled_gpt" and not compiles_beside_modes():
        pytest.skip("this PyTorch has no modes beside compiled code")
    check(name, real_programs.measured(name, str(tmp_path)))


def test_two_ranks(tmp_path: Path) -> None:
    """Under torchrun, each rank is measured separately."""
    names = ["ddp", "fsdp"] if hasattr(torch.distributed.fsdp, "fully_shard") else ["ddp"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # torchrun limits each rank to one thread, and ranks are new interpreters.
    preloaded().run([*launcher, real_programs.__file__, str(tmp_path), *names], check=True)
    for name in names:
        for rank in range(2):
            check(name, json.loads((tmp_path / f"{name}.{rank}.json").read_text()))


@pytest.mark.parametrize("name", ["resnet_autocast", "gan"])
def test_level_ops_measures_what_is_missing(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(name, "torch"))
    torch.manual_seed(0)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        real_programs.PROGRAMS[name]()
    torch.manual_seed(0)
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level="ops")
    real_programs.PROGRAMS[name]()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    pool = ttmem.open(tracker.recording).summary()["ranks"][0]["pools"]["cpu"]
    assert "not_watched" not in pool
    assert pool["peak_total"] == pytest.approx(real_programs.highest(profiled), rel=0.005)
