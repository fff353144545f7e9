"""`Profile.diff` on captures of real ttnn: programs that differ in one known way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from described_cards import HERE, explained

import ttmem

if TYPE_CHECKING:
    from pathlib import Path

    from described_cards import Cards


@pytest.fixture(scope="module")
def before(cards: Cards, tmp_path_factory: pytest.TempPathFactory) -> ttmem.Profile:
    return captured(cards, tmp_path_factory.mktemp("before"))


def captured(cards: Cards, folder: Path, *options: str) -> ttmem.Profile:
    program = HERE / "programs" / "layers.py"
    ended = cards.start("n150", program, folder, str(folder), *options)
    assert ended.returncode == 0, explained(ended)
    return ttmem.open(folder / "layers.json")


CASES = {
    "rows=1024": ("resized", "a dimension of 512 became 1024"),
    "dtype=float32": ("dtype", "→"),
    "memory=l1": ("pool", "moved: DRAM → L1"),
    "keep=yes": ("freed_later", "freed"),
    "layers=4": ("appeared", "new"),
}


@pytest.mark.parametrize("option", CASES)
def test_the_change_is_named_first(cards: Cards, before: ttmem.Profile, tmp_path: Path, option: str) -> None:
    kind, detail = CASES[option]
    after = captured(cards, tmp_path, option)
    rank = before.diff(after)["ranks"][0]
    first = rank["changes"][0]
    assert (first["kind"], detail in first["detail"]) == (kind, True), rank["changes"]
    check_both_directions(before, after)


def test_swapped_operations_are_reordered(cards: Cards, before: ttmem.Profile, tmp_path: Path) -> None:
    after = captured(cards, tmp_path, "swap=yes")
    rank = before.diff(after)["ranks"][0]
    assert rank["changes"][0]["kind"] == "reordered", rank["changes"]
    assert rank["operations"]["reordered"] > 0
    assert (rank["operations"]["added"], rank["operations"]["removed"]) == (0, 0)
    check_both_directions(before, after)


def check_both_directions(before: ttmem.Profile, after: ttmem.Profile) -> None:
    def effects(answer: dict[str, Any], sign: int) -> list[int]:
        rows = answer["ranks"][0]["changes"]
        left = [row["moved_from"]["effect_per_bank"] for row in rows if "moved_from" in row]
        return sorted(sign * effect for effect in [row["effect_per_bank"] for row in rows] + left)

    assert effects(before.diff(after), 1) == effects(after.diff(before), -1)
    assert after.diff(after)["ranks"][0]["changes"] == []
