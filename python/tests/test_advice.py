"""Suggestions for PyTorch programs, compared with the peaks of the changed programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH, BATCH = 256, 512


def ranked(folder: Path, program: Callable[[], object]) -> dict[str, Any]:
    """Returns the summary of a program's recording."""
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    program()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    rank: dict[str, Any] = ttmem.open(tracker.recording).summary()["ranks"][0]
    return rank


def peak(rank: dict[str, Any]) -> int:
    found: int = rank["peak"]["allocated_per_bank"]
    return found


def advice(rank: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in rank["suggestions"]}


def train(*, zeroes_early: bool, dtype: torch.dtype = torch.float32) -> None:
    """Trains with SGD, and clears gradients right after the step or right before the backward pass."""
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)
    inputs = torch.ones(BATCH, WIDTH, dtype=dtype)
    for _ in range(4):
        loss = model(inputs).relu().sum(dim=1)
        # The peak is in the forward pass, where gradients of the last iteration may still be live.
        torch.ones(8 * BATCH, WIDTH, dtype=dtype).neg()
        if not zeroes_early:
            optimizer.zero_grad()
        loss.backward(torch.ones_like(loss))
        optimizer.step()
        if zeroes_early:
            optimizer.zero_grad()


def test_gradients_that_the_optimizer_has_used(tmp_path: Path) -> None:
    before = ranked(tmp_path / "before", lambda: train(zeroes_early=False))
    after = ranked(tmp_path / "after", lambda: train(zeroes_early=True))
    said = advice(before)["gradients_kept"]
    assert "optimizer.zero_grad() right after optimizer.step()" in said["message"]
    assert said["docs"].endswith("docs/advice/README.md#gradients_kept")
    assert said["saves_bytes"] == peak(before) - peak(after) > 0
    assert "gradients_kept" not in advice(after)


def test_fewer_bits(tmp_path: Path) -> None:
    before = ranked(tmp_path / "before", lambda: train(zeroes_early=True))
    after = ranked(tmp_path / "after", lambda: train(zeroes_early=True, dtype=torch.bfloat16))
    said = advice(before)["f32_tensors"]
    assert "float32 tensors take" in said["message"]
    assert said["saves_bytes"] == peak(before) - peak(after) > 0
    assert "f32_tensors" not in advice(after)


def test_two_changes_together(tmp_path: Path) -> None:
    before = ranked(tmp_path / "before", lambda: train(zeroes_early=False))
    after = ranked(tmp_path / "after", lambda: train(zeroes_early=True, dtype=torch.bfloat16))
    together = {frozenset(one["rules"]): one for one in before["combinations"]}
    found = together[frozenset({"f32_tensors", "gradients_kept"})]
    assert found["saves_bytes"] == peak(before) - peak(after)
    assert [before["suggestions"][index]["rule"] for index in found["suggestions"]] == found["rules"]


class Language(nn.Module):
    """An embedding and a head, with a loss over the vocabulary."""

    TOKENS, VOCABULARY, HIDDEN, PARTS = 2048, 8192, 32, 8

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(self.VOCABULARY, self.HIDDEN)
        self.head = nn.Linear(self.HIDDEN, self.VOCABULARY, bias=False)

    def loss_of(self, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(hidden).float(), targets, reduction="sum")

    def forward(self, tokens: torch.Tensor, *, in_parts: bool) -> torch.Tensor:
        hidden = self.embedding(tokens)
        if not in_parts:
            return self.loss_of(hidden, tokens)
        parts = zip(hidden.chunk(self.PARTS), tokens.chunk(self.PARTS), strict=True)
        losses = [checkpoint(self.loss_of, *part, use_reentrant=False) for part in parts]
        return torch.stack(losses).sum()


def learn(*, in_parts: bool) -> None:
    model = Language()
    tokens = torch.arange(model.TOKENS)
    for _ in range(2):
        model(tokens, in_parts=in_parts).backward()
        model.zero_grad()


def test_a_loss_in_parts(tmp_path: Path) -> None:
    before = ranked(tmp_path / "before", lambda: learn(in_parts=False))
    after = ranked(tmp_path / "after", lambda: learn(in_parts=True))
    said, saves = advice(before)["logits"], peak(before) - peak(after)
    assert "2048 tokens by a vocabulary of 8192" in said["message"]
    assert 0.95 * saves <= said["saves_bytes"] <= saves


def test_a_small_number_of_classes_is_not_a_vocabulary(tmp_path: Path) -> None:
    def classify() -> None:
        model = nn.Linear(32, 100)
        targets = torch.zeros(4096, dtype=torch.long)
        loss = functional.cross_entropy(model(torch.ones(4096, 32)), targets)
        loss.backward()  # type: ignore[no-untyped-call]

    assert "logits" not in advice(ranked(tmp_path, classify))
