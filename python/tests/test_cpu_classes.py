"""What CPU tensors are for that modules do not allocate: a loss, or parameters without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as f
from torch import nn
from torch.utils.checkpoint import checkpoint

from test_advice import ranked

if TYPE_CHECKING:
    from pathlib import Path

WORDS, WIDTH = 2000, 64


def share(rank: dict[str, Any], kind: str) -> float:
    """Returns the share of a class at the peak."""
    size: int = rank["peaks"]["cpu"]["by_class_per_bank"].get(kind, 0)
    peak: int = rank["pools"]["cpu"]["peak_total"]
    return size / peak


def names(rank: dict[str, Any]) -> list[str]:
    return [tensor["name"] for tensor in rank["peak"]["live"] if tensor["name"]]


def test_a_loss_outside_the_model_is_an_activation(tmp_path: Path) -> None:
    def program() -> None:
        model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)).bfloat16()
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(3):
            words = torch.randint(WORDS, (1024,))
            # A variable keeps the logits until the next iteration; autograd keeps them, and their logarithms.
            logits = model(words).float()
            f.cross_entropy(logits, words).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()

    rank = ranked(tmp_path, program)
    assert share(rank, "unknown") < 0.01
    rows = [(row["op"], row["class"]) for row in rank["peak"]["live"] if row["shape"] == [1024, WORDS]]
    assert ("aten::_to_copy", "activation") in rows
    assert ("aten::_log_softmax", "activation") in rows


def test_logits_for_a_module_that_computes_the_loss_are_no_input(tmp_path: Path) -> None:
    def program() -> None:
        model, loss = nn.Linear(WIDTH, WORDS), nn.CrossEntropyLoss()
        for _ in range(3):
            words = torch.randint(WORDS, (1024,))
            loss(model(torch.ones(1024, WIDTH)) / 0.7, words).backward()
            model.zero_grad()

    rank = ranked(tmp_path, program)
    logits = [row["class"] for row in rank["peak"]["live"] if row["op"] == "aten::div"]
    assert logits == ["activation"] * len(logits)
    assert share(rank, "input") < 0.05
    assert share(rank, "unknown") < 0.01


def test_programs_without_modules_have_temporary_tensors(tmp_path: Path) -> None:
    def program() -> None:
        weights = torch.randn(256, 256, requires_grad=True)
        for _ in range(3):
            # The product is gone before the backward pass.
            (torch.ones(4096, 256) @ weights).mean().backward()  # type: ignore[no-untyped-call]
            weights.grad = None

    rank = ranked(tmp_path, program)
    assert [row["class"] for row in rank["peak"]["live"] if row["op"] == "aten::mm"][:1] == ["temporary"]


def test_gradients_of_a_closure(tmp_path: Path) -> None:
    def program() -> None:
        weights = torch.randn(512, 512, requires_grad=True)
        optimizer = torch.optim.LBFGS([weights], max_iter=2)

        def closure() -> float:
            optimizer.zero_grad()
            loss = weights.square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            return float(loss.detach())

        for _ in range(3):
            optimizer.step(closure)  # type: ignore[no-untyped-call]

    rank = ranked(tmp_path, program)
    made = [row["class"] for row in rank["peak"]["live"] if row["shape"] == [512, 512]]
    assert {"parameter", "gradient"} <= set(made)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(8 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(f.gelu(self.up(x)))
        return out


class Checkpointed(nn.Module):
    def __init__(self, *, is_reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.is_reentrant = is_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.is_reentrant)
        return x


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_recomputed_activations_have_their_name(is_reentrant: bool, tmp_path: Path) -> None:
    def program() -> None:
        model = Checkpointed(is_reentrant=is_reentrant)
        for _ in range(3):
            model(torch.ones(2048, WIDTH)).square().mean().backward()
            model.zero_grad()

    rank = ranked(tmp_path, program)
    assert share(rank, "unknown") < 0.01
    assert "recomputed activation" in names(rank)


def test_a_model_that_is_converted_before_its_first_call(tmp_path: Path) -> None:
    def program() -> None:
        model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).double()
        model(torch.ones(1, 256, dtype=torch.double))

    rank = ranked(tmp_path, program)
    # The peak is in the conversion.
    assert rank["pools"]["cpu"]["peak_total"] >= 4 * 256 * 256 * 8 + 256 * 256 * 4
    assert share(rank, "parameter") > 0.99
    assert {"0.weight", "3.weight"} <= {name for name in names(rank) if "weight" in name}


def test_parameters_of_an_optimizer_without_a_model(tmp_path: Path) -> None:
    def program() -> None:
        weights = torch.randn(512, 512, requires_grad=True)
        optimizer = torch.optim.Adam([weights])
        for _ in range(3):
            (torch.ones(4, 512) @ weights).square().mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()

    rank = ranked(tmp_path, program)
    by_class = rank["peaks"]["cpu"]["by_class_per_bank"]
    one = 512 * 512 * 4
    assert {kind: by_class[kind] // one for kind in ("parameter", "gradient", "optimizer")} == {
        "parameter": 1,
        "gradient": 1,
        "optimizer": 2,
    }
    assert share(rank, "unknown") < 0.01
