"""Suggestions for captures of real ttnn, compared with the peaks of the changed programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from described_cards import HERE, explained

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

    from described_cards import Cards


def ranked(cards: Cards, folder: Path, *options: str) -> dict[str, Any]:
    """Returns the summary of a capture of `programs/layers.py`."""
    folder.mkdir()
    ended = cards.start("n150", HERE / "programs" / "layers.py", folder, str(folder), *options)
    assert ended.returncode == 0, explained(ended)
    rank: dict[str, Any] = ttmem.open(folder / "layers.json").summary()["ranks"][0]
    return rank


def peak(rank: dict[str, Any]) -> int:
    found: int = rank["pools"]["DRAM"]["peak_per_bank"]
    return found


def advice(rank: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in rank["suggestions"]}


def test_a_deallocation_after_the_last_use(cards: Cards, tmp_path: Path) -> None:
    before = ranked(cards, tmp_path / "before")
    after = ranked(cards, tmp_path / "after", "free=early")
    said = advice(before)["free_after_last_use"]
    assert said["saves_per_bank"] == peak(before) - peak(after) > 0
    assert "free_after_last_use" not in advice(after)


def test_fewer_bits(cards: Cards, tmp_path: Path) -> None:
    before = ranked(cards, tmp_path / "before", "dtype=float32")
    after = ranked(cards, tmp_path / "after", "dtype=bfloat16")
    said = advice(before)["f32_tensors"]
    assert said["saves_per_bank"] == peak(before) - peak(after) > 0
    assert "f32_tensors" not in advice(after)
