"""Records the programs of this corpus with the installed version of ttmem: `python record.py FOLDER [cuda|cut-outs]`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import torch
from torch import nn

import ttmem

WIDTH = 256


class Model(nn.Module):
    """Two blocks of linear layers with something between them that autograd keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(2))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.blocks(x)
        return y.square().mean()


def train(tracker: ttmem.MemoryTracker, device: str, steps: int) -> None:
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        with tracker.track_operation("step"):
            loss = model(torch.randn(64, WIDTH, device=device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if step == 1:
            ttmem.memory_checkpoint("second step")


def record(folder: Path, name: str, device: str, level: Literal["tensors", "ops"], steps: int, limit: str | None = None) -> None:
    """Record a training run of a few steps, in a process of its own."""
    folder = folder / name
    folder.mkdir()
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0, level=level, limit=limit)
    if name == "killed":
        train(tracker, device, steps)
        ttmem.save_memory_profile()
        os.kill(os.getpid(), signal.SIGKILL)
    train(tracker, device, steps)
    if name == "cuda_oom":
        try:
            keep = [torch.zeros(2**33, device=device, dtype=torch.uint8) for _ in range(64)]
        except torch.OutOfMemoryError:
            keep = []
        del keep
    ttmem.stop_memory_tracker()


PROGRAMS = {
    "tensors": ("cpu", "tensors", 3, None),
    "operations": ("cpu", "ops", 3, None),
    "killed": ("cpu", "tensors", 3, None),
    "rotated": ("cpu", "tensors", 3000, "1MB"),
    "cuda_tensors": ("cuda", "tensors", 3, None),
    "cuda_operations": ("cuda", "ops", 3, None),
    "cuda_oom": ("cuda", "tensors", 2, None),
}


CORPUS = Path(__file__).resolve().parent.parent


def cut_out(folder: Path, log: str) -> None:
    """Cut the last pass out of a log of the corpus and keep the profile of its report."""
    with tempfile.TemporaryDirectory() as work:
        lines = Path(work, f"{log}-last.log")
        # The profile has these names: they must not be those of a machine.
        subprocess.run(["ttmem", "last-run", f"tt_log/{log}.log", "-o", lines], cwd=CORPUS, check=True)
        subprocess.run(["ttmem", "report", lines.name, "-o", "report"], cwd=work, check=True)
        profile = Path(work, "report", f"{log}-last.ttmem")
        shutil.copy(profile, folder / f"profile_tt_log_{log}-last-run.ttmem")


def main(folder: str, device: str = "cpu", only: str | None = None) -> None:
    """Record every program of a device, each in its own process."""
    if only is not None:
        device, level, steps, limit = PROGRAMS[only]
        record(Path(folder), only, device, level, steps, limit)  # type: ignore[arg-type]
        return
    if device == "cut-outs":
        for log in ["vae-decoder", "llm-decode"]:
            cut_out(Path(folder), log)
        return
    for name, program in PROGRAMS.items():
        if program[0] == device:
            subprocess.run([sys.executable, __file__, folder, device, name], check=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
