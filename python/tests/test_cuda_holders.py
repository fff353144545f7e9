"""What keeps tensors of a CUDA device alive, in the recording. Skipped without CUDA."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch

from test_recorded_holders import summary_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

MIB = 1 << 20

KEPT = r"list `history` in `train\(\)`, program.py:\d+ → `\[\*\]`"

GROWS = """
    import torch
    from torch import nn

    import ttmem


    def train(keeps_graph):
        model = nn.Sequential(nn.Linear(1024, 4096), nn.Sigmoid(), nn.Linear(4096, 1024)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        history = []
        for step in range(30):
            loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
            history.append(loss if keeps_graph else torch.ones(1 << 20, dtype=torch.uint8, device="cuda"))
            loss.backward(retain_graph=keeps_graph)
            optimizer.step()
            optimizer.zero_grad()
        ttmem.memory_checkpoint("trained", holders=True)


    train(keeps_graph={keeps_graph})
"""

RUNS_OUT = """
    import torch


    def serve():
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.set_per_process_memory_fraction((1 << 30) / total)
        history = []
        while True:
            history.append(torch.ones(64 << 20, dtype=torch.uint8, device="cuda"))


    serve()
"""


def test_kept_tensors(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, GROWS.format(keeps_graph=False))
    most = summary["growth"]["survivors"][0]
    assert re.fullmatch(KEPT, most["held_by"]), most
    assert most["loc"].split("/")[-1].startswith("program.py:"), most
    (row,) = [row for row in summary["holders"]["rows"] if row["chain"] == most["held_by"]]
    assert (row["pool"], row["tensors"], row["per_bank"]) == ("cuda:0", 30, 30 * MIB)


def test_graphs_of_kept_losses(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, GROWS.format(keeps_graph=True))
    most = summary["growth"]["survivors"][0]
    assert re.match(KEPT + " → `Tensor.grad_fn` → saved by ", most["held_by"]), most


def test_out_of_memory(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, RUNS_OUT, code=1)
    assert summary["oom"] is not None
    most = summary["holders"]["rows"][0]
    assert re.fullmatch(KEPT.replace("train", "serve"), most["chain"]), most
    assert most["pool"] == "cuda:0"
    assert most["per_bank"] == most["tensors"] * 64 * MIB
    assert most["tensors"] >= 12
