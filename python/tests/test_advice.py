"""Suggestions for PyTorch programs, compared with the peaks of the changed programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
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


class Adam8bit(torch.optim.Optimizer):
    """AdamW whose state has 8 bits per element and a factor for each block, in the layout of torchao."""

    BLOCK = 256

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, _: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    count = parameter.numel()
                    is_quantized = count >= 4096 and count % self.BLOCK == 0
                    kind = self.quantized if is_quantized else torch.zeros
                    state["mean"], state["square"] = kind(count), kind(count)
                self.update(parameter, state["mean"], state["square"], group["lr"])

    def quantized(self, count: int) -> list[torch.Tensor]:
        codes = torch.linspace(-1, 1, 256)
        return [torch.full((count,), 128, dtype=torch.uint8), torch.zeros(count // self.BLOCK), codes]

    def update(self, parameter: nn.Parameter, mean: Any, square: Any, rate: float) -> None:
        """Updates one block after the other, as a fused kernel does, without memory for all of them."""
        weights, gradients = parameter.view(-1), parameter.grad.view(-1)  # type: ignore[union-attr]
        for first in range(0, weights.numel(), self.BLOCK):
            block = slice(first, first + self.BLOCK)
            gradient = gradients[block]
            means = self.read(mean, block).lerp_(gradient, 0.1)
            squares = self.read(square, block).lerp_(gradient.square(), 0.001)
            weights[block] -= rate * means / (squares.sqrt() + 1e-8)
            self.write(mean, block, means)
            self.write(square, block, squares)

    def read(self, state: Any, block: slice) -> torch.Tensor:
        if isinstance(state, torch.Tensor):
            return state[block].clone()
        bits, factors, codes = state
        read: torch.Tensor = codes[bits[block].int()] * factors[block.start // self.BLOCK]
        return read

    def write(self, state: Any, block: slice, values: torch.Tensor) -> None:
        if isinstance(state, torch.Tensor):
            state[block] = values
            return
        bits, factors, codes = state
        factor = values.abs().max().clamp_(min=1e-12)
        factors[block.start // self.BLOCK] = factor
        bits[block] = torch.searchsorted(codes, values / factor).clamp_(max=255).to(torch.uint8)


def fit(optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]) -> None:
    """Trains a model whose peak is in the forward pass."""
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 512), nn.Linear(512, 10))
    steps = optimizer(model.parameters())
    for _ in range(3):
        model(torch.ones(256, 512)).sum().backward()
        steps.step()
        steps.zero_grad()


def test_an_optimizer_with_8_bits(tmp_path: Path) -> None:
    before = ranked(tmp_path / "before", lambda: fit(torch.optim.AdamW))
    after = ranked(tmp_path / "after", lambda: fit(Adam8bit))
    said, saves = advice(before)["optimizer_state"], peak(before) - peak(after)
    assert "The optimizer state takes" in said["message"]
    assert 0.95 * saves <= said["saves_bytes"] <= saves
    assert "optimizer_state" not in advice(after)


def test_an_optimizer_without_state(tmp_path: Path) -> None:
    rank = ranked(tmp_path, lambda: fit(lambda parameters: torch.optim.SGD(parameters, lr=0.01)))
    assert "optimizer_state" not in advice(rank)


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
