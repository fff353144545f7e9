"""`Profile.diff` on recordings of real programs that differ in one known way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Model(nn.Module):
    """A stack of layers."""

    def __init__(self, layers: int, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 64, dtype=dtype)
        self.layers = nn.ModuleList(nn.Linear(64, 64, dtype=dtype) for _ in range(layers))
        self.head = nn.Linear(64, 64, dtype=dtype)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(words)
        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
        out: torch.Tensor = self.head(hidden)
        return out


def trained(
    batch: int = 4, layers: int = 3, *, dtype: torch.dtype = torch.float32, keeps: bool = False
) -> None:
    """Trains a model for a few steps."""
    model = Model(layers, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    words = torch.zeros(batch, 128, dtype=torch.long)
    kept = []
    for _ in range(4):
        out = model(words)
        out.float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if keeps:
            kept.append(out)


def ordered(*, is_swapped: bool = False) -> list[torch.Tensor]:
    """Allocates two tensors, in one order or the other."""
    makers: list[Callable[[], torch.Tensor]] = [lambda: torch.ones(1 << 16), lambda: torch.zeros(1 << 15)]
    made = [maker() for maker in (reversed(makers) if is_swapped else makers)]
    return [*made, max(made, key=torch.numel) + 1]


def recorded(folder: Path, program: Callable[[], object]) -> ttmem.Profile:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    held = program()
    ttmem.stop_memory_tracker()
    del held
    assert tracker.recording is not None
    return ttmem.open(tracker.recording)


def compared(folder: Path, before: Callable[[], object], after: Callable[[], object]) -> dict[str, Any]:
    """Compares two programs; checks that the effects add up to the difference if the peaks correspond."""
    profiles = [recorded(folder / name, one) for name, one in [("before", before), ("after", after)]]
    for profile in profiles:
        assert profile.diff(profile)["ranks"][0]["changes"] == []
    rank: dict[str, Any] = profiles[0].diff(profiles[1])["ranks"][0]
    back = profiles[1].diff(profiles[0])["ranks"][0]
    assert sorted(row["effect_per_bank"] for row in rank["changes"]) == sorted(
        -row["effect_per_bank"] for row in back["changes"]
    )
    peaks = [profile.summary()["ranks"][0]["pools"]["cpu"]["peak_per_bank"] for profile in profiles]
    pool = rank["pools"]["cpu"]
    assert [pool["before_per_bank"], pool["after_per_bank"]] == peaks
    return rank


def test_a_doubled_batch(tmp_path: Path) -> None:
    rank = compared(tmp_path, lambda: trained(4), lambda: trained(8))
    first = rank["changes"][0]
    assert (first["kind"], first["detail"]) == ("resized", "a dimension of 4 became 8")
    assert first["tensors"] > 4
    # The peaks are at the same operation, so the changes explain all of it.
    assert rank["pools"]["cpu"]["explained_per_bank"] == rank["pools"]["cpu"]["change_per_bank"]


def test_an_added_layer(tmp_path: Path) -> None:
    rank = compared(tmp_path, lambda: trained(layers=3), lambda: trained(layers=4))
    first = rank["changes"][0]
    assert first["kind"] == "appeared"
    assert "layers.3" in first["title"]
    assert {row["kind"] for row in rank["changes"] if row["effect_per_bank"]} == {"appeared"}
    assert rank["operations"]["removed"] == 0


def test_another_element_type(tmp_path: Path) -> None:
    rank = compared(tmp_path, trained, lambda: trained(dtype=torch.bfloat16))
    first = rank["changes"][0]
    assert (first["kind"], first["detail"]) == ("dtype", "torch.float32 → torch.bfloat16")
    assert rank["pools"]["cpu"]["change_per_bank"] < 0


def test_results_that_are_kept(tmp_path: Path) -> None:
    rank = compared(tmp_path, trained, lambda: trained(keeps=True))
    first = rank["changes"][0]
    assert first["kind"] == "freed_later"
    assert first["after"]["made_in"] in {"head", "Model"}
    assert first["effect_per_bank"] > 0


def test_operations_in_another_order(tmp_path: Path) -> None:
    rank = compared(tmp_path, ordered, lambda: ordered(is_swapped=True))
    assert rank["changes"][0]["kind"] == "reordered"
    assert rank["operations"]["reordered"] == 1


def test_profiles_of_different_devices_are_refused(tmp_path: Path) -> None:
    from pathlib import Path as Place

    log = Place(__file__).parents[2] / "corpus" / "tt_log" / "vae-decoder.log"
    profile = recorded(tmp_path, ordered)
    with pytest.raises(ttmem.Error, match="cannot compare"):
        profile.diff(ttmem.open(log))
