"""Eight kinds of programs compute the same with the tracker as without it, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

import eight_programs
import ttmem
from ttmem._torch.compiled import compiles_beside_modes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

NEEDS = dict.fromkeys(eight_programs.PROGRAMS, "transformers") | {
    "convnext": "torchvision",
    "mobilenet": "torchvision",
}


@pytest.mark.parametrize("name", eight_programs.PROGRAMS)
def test_losses_and_weights_on_the_cpu(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS[name])
    if "compiled" in name and not compiles_beside_modes():
        pytest.skip("this PyTorch has no modes beside compiled code")
    assert eight_programs.differences(name, "cpu", str(tmp_path)) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", eight_programs.PROGRAMS)
def test_losses_and_weights_on_a_gpu(name: str) -> None:
    pytest.importorskip(NEEDS[name])
    # cuBLAS reads it when it starts. Other tests need its default.
    environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    words = [sys.executable, eight_programs.__file__, "cuda", name]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{name}: []\n"), done.stderr


def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchvision")
    before = eight_programs.results

    def results(name: str, device: str) -> dict[str, torch.Tensor]:
        found = before(name, device)
        if ttmem.get_memory_summary()["enabled"]:
            last = list(found)[-1]
            found[last] = torch.nextafter(found[last], torch.tensor(torch.inf))
        return found

    monkeypatch.setattr(eight_programs, "results", results)
    (different,) = eight_programs.differences("mobilenet", "cpu", str(tmp_path))
    assert different.endswith("bias")
