"""Two objects of one class are two models, in all outputs."""

from __future__ import annotations

import copy
import gc
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WIDTH, ROWS = 64, 32


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    ttmem.stop_memory_tracker()


class Gpt(nn.Module):
    """A model of several blocks, each with a linear layer."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Other(Gpt):
    """The same, of another class."""


def answered(folder: Path, program: Callable[[], object]) -> dict[str, Any]:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    held = program()
    ttmem.stop_memory_tracker()
    del held
    assert tracker.recording is not None
    rank: dict[str, Any] = ttmem.open(tracker.recording).summary()["ranks"][0]
    return rank


def ran(rank: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Returns how often each model ran, and how much memory its calls kept."""
    return {row["name"]: (row["calls"], row["kept_bytes"]) for row in rank["ran"] if row["kind"] == "forward"}


def test_a_policy_and_its_reference_are_told_apart(tmp_path: Path) -> None:
    def program() -> object:
        policy = Gpt()
        reference = copy.deepcopy(policy).requires_grad_(False)
        x = torch.ones(ROWS, WIDTH)
        kept = [policy(x), policy(x)]
        with torch.no_grad():
            kept.append(reference(x))
        return kept, policy, reference

    rank = answered(tmp_path, program)
    result = ROWS * WIDTH * 4
    # The reference model keeps only its output; the policy also keeps tensors for its backward pass.
    assert ran(rank) == {"Gpt": (2, 2 * 2 * result), "Gpt (2)": (1, result)}
    weights = {row["name"]: row["class"] for row in rank["peak"]["live"] if row["class"] == "parameter"}
    assert {"blocks.0.0.weight", "Gpt (2).blocks.0.0.weight", "Gpt (2).blocks.1.0.bias"} <= weights.keys()
    assert len(weights) == 8
    made = {row["name"]: row["per_bank"] for row in rank["peak"]["made_in"]}
    assert made["blocks.*.1"] == 4 * result
    # The outputs of both blocks of the reference model are live when the second was just allocated.
    assert made["Gpt (2).blocks.*.1"] == 2 * result


def test_layers_of_two_models_are_not_counted_together(tmp_path: Path) -> None:
    def program() -> object:
        models = [Gpt(3), Other(5)]
        losses = [model(torch.ones(512, WIDTH)).sum() for model in models]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        return models

    rank = answered(tmp_path, program)
    assert ran(rank).keys() == {"Gpt", "Other"}
    layers = {row["name"]: row["scopes"] for row in rank["peak"]["made_in"]}
    # At the peak, the backward pass has already freed tensors that the last layer kept.
    assert (layers["blocks.*.1"], layers["Other.blocks.*.1"]) == (3, 4)


def test_a_model_keeps_its_name(tmp_path: Path) -> None:
    def program() -> object:
        first, x = Gpt(), torch.ones(ROWS, WIDTH)
        first(x)
        first.blocks.append(nn.Linear(WIDTH, WIDTH))
        first(x)
        second = Gpt()
        second(x)
        first(x)
        second(x)
        return first, second

    calls = {name: count for name, (count, _) in ran(answered(tmp_path, program)).items()}
    assert calls == {"Gpt": 3, "Gpt (2)": 2}


def test_models_that_follow_each_other_are_different_ones(tmp_path: Path) -> None:
    def program() -> object:
        for _ in range(3):
            Gpt()(torch.ones(ROWS, WIDTH))
            gc.collect()
        return None

    assert {name: count for name, (count, _) in ran(answered(tmp_path, program)).items()} == {
        "Gpt": 1,
        "Gpt (2)": 1,
        "Gpt (3)": 1,
    }


def test_what_has_no_parameters_is_no_model_of_its_own(tmp_path: Path) -> None:
    def program() -> object:
        losses = [nn.CrossEntropyLoss() for _ in range(3)]
        return [loss(torch.ones(4, 4), torch.zeros(4, dtype=torch.long)) for loss in losses]

    assert {name: count for name, (count, _) in ran(answered(tmp_path, program)).items()} == {
        "CrossEntropyLoss": 3
    }


def test_names_do_not_become_ever_more(tmp_path: Path) -> None:
    def program() -> object:
        for _ in range(120):
            nn.Linear(2, 2)(torch.ones(1, 2))
        return None

    calls = {name: count for name, (count, _) in ran(answered(tmp_path, program)).items()}
    assert len(calls) == 101
    assert calls["Linear (100 and later)"] == 20


class Task(Gpt):
    """A model that trains its parts by hand, like a `LightningModule`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.net(x).square().mean()
        return loss


def parameters(rank: dict[str, Any]) -> set[str | None]:
    return {row["name"] for row in rank["peak"]["live"] if row["class"] == "parameter"}


def test_parts_that_are_called_by_hand_have_full_names(tmp_path: Path) -> None:
    def program() -> object:
        task = Task()
        for _ in range(3):
            task.training_step(torch.randn(ROWS, WIDTH)).backward()  # type: ignore[no-untyped-call]
        return task

    rank = answered(tmp_path, program)
    assert {"net.0.weight", "net.0.bias", "blocks.0.0.weight"} <= parameters(rank)
    assert ran(rank)["net"][0] == 3
    gradients = {row["name"] for row in rank["peak"]["live"] if row["class"] == "gradient"}
    assert gradients == {"net.0.weight.grad", "net.0.bias.grad"}


def test_a_model_whose_forward_is_called_directly_has_full_names(tmp_path: Path) -> None:
    def program() -> object:
        model = Gpt()
        for _ in range(3):
            model.forward(torch.randn(ROWS, WIDTH)).sum().backward()  # type: ignore[no-untyped-call]
        return model

    rank = answered(tmp_path, program)
    assert {"blocks.0.0.weight", "blocks.1.0.bias"} <= parameters(rank)
    assert ran(rank)["blocks.0"][0] == 3


def test_a_wrapper_is_not_part_of_the_names(tmp_path: Path) -> None:
    class Averaged(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self._orig_mod = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self._orig_mod(x)
            return result

    def program() -> object:
        model = Gpt()
        wrapper = Averaged(model)
        model(torch.randn(ROWS, WIDTH))
        return wrapper

    rank = answered(tmp_path, program)
    assert "blocks.0.0.weight" in parameters(rank)
    assert set(ran(rank)) == {"Gpt"}


def test_a_part_that_was_replaced_is_its_own_model(tmp_path: Path) -> None:
    def program() -> object:
        task = Task()
        old, task.net = task.net, nn.Sequential(nn.Linear(WIDTH, WIDTH))
        old(torch.randn(ROWS, WIDTH))
        return task, old

    # Parameters of the new part, which is never called, have no name.
    assert parameters(answered(tmp_path, program)) == {"0.weight", "0.bias", None}
