"""Programs that train with accelerate, with the `Trainer` of transformers, and with wrapped models."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import nn

import ttmem
from eight_programs import bits, gpt2_model
from real_programs import BATCH, LENGTH, WORDS, Gpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS, ACCUMULATED = 2, 2


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    ttmem.stop_memory_tracker()


class Trained(NamedTuple):
    """A trained model and its losses."""

    model: nn.Module
    losses: list[float]

    def is_same(self, other: Trained) -> bool:
        """Whether losses and weights are the same bit by bit."""
        ours, theirs = self.model.state_dict(), other.model.state_dict()
        is_equal = all(bits(ours[name]) == bits(theirs[name]) for name in ours)
        return self.losses == other.losses and ours.keys() == theirs.keys() and is_equal

    def size(self) -> int:
        return sum(weights.nbytes for weights in self.model.parameters())


def with_accelerate() -> Trained:
    """Trains in bfloat16 with gradient accumulation."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    # Earlier trainers of the process have set other options.
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=ACCUMULATED)
    rows: Any = torch.randint(0, WORDS, (STEPS * ACCUMULATED * BATCH, LENGTH))
    model: Any = Gpt(2)
    optimizer = torch.optim.AdamW(model.parameters())
    loader: Any = torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for words in loader:
        with accelerator.accumulate(model):
            loss = model(words)
            accelerator.backward(loss)
            losses.append(loss.item())
            optimizer.step()
            optimizer.zero_grad()
    return Trained(accelerator.unwrap_model(model), losses)


def with_trainer(folder: Path) -> Trained:
    """Trains a small GPT-2 in bfloat16 with gradient accumulation."""
    from accelerate.state import AcceleratorState, GradientState
    from transformers import Trainer, TrainingArguments

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    torch.manual_seed(0)
    rows = [{"input_ids": words, "labels": words} for words in torch.randint(1, 64, (16, 16))]
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATED,
        bf16=True,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=gpt2_model(), args=arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return Trained(trainer.model, losses)


def tracked(folder: Path, program: Callable[[], Trained]) -> tuple[Trained, dict[str, Any]]:
    """Runs a program with the tracker. Returns also the summary of its rank."""
    gc.collect()
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    found = program()
    assert ttmem.get_memory_summary()["errors"] == 0
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    rank: dict[str, Any] = ttmem.load(tracker.recording).summary()["ranks"][0]
    return found, rank


def ran(rank: dict[str, Any]) -> dict[str, int]:
    return {row["name"]: row["calls"] for row in rank["ran"] if row["depth"] == 0}


def names(rank: dict[str, Any], class_: str) -> set[str]:
    return {row["name"] for row in rank["peak"]["live"] if row["class"] == class_}


def check_classes(rank: dict[str, Any], found: Trained) -> None:
    """At the peak, all parameters, gradients and optimizer state have their classes and names."""
    classes = rank["peaks"]["cpu"]["by_class_per_bank"]
    weights = {name for name, _ in found.model.named_parameters()}
    steps = 4 * len(weights)
    assert names(rank, "parameter") == weights
    assert names(rank, "gradient") == {f"{name}.grad" for name in weights}
    assert (classes["parameter"], classes["gradient"]) == (found.size(), found.size())
    assert classes["optimizer"] == 2 * found.size() + steps
    assert classes.get("unknown", 0) < 0.01 * rank["pools"]["cpu"]["peak_total"]


def test_accelerate(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    without = with_accelerate()
    found, rank = tracked(tmp_path, with_accelerate)
    assert found.is_same(without)
    assert len(found.losses) == STEPS * ACCUMULATED
    passes = STEPS * ACCUMULATED
    assert ran(rank) == {"Gpt": passes, "backward": passes, "AdamW.step": STEPS}
    check_classes(rank, found)
    made = {row["name"] for row in rank["peak"]["made_in"]}
    assert {"Gpt", "blocks.*.qkv", "blocks.*.mlp.0", "head"} <= made


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    without = with_trainer(tmp_path)
    found, rank = tracked(tmp_path, lambda: with_trainer(tmp_path))
    assert found.is_same(without)
    assert len(found.losses) == STEPS
    passes = STEPS * ACCUMULATED
    assert ran(rank) == {"GPT2LMHeadModel": passes, "backward": passes, "AdamW.step": STEPS}
    check_classes(rank, found)
    made = {row["name"] for row in rank["peak"]["made_in"]}
    assert {"transformer.h.*.attn", "transformer.h.*.mlp.c_fc", "transformer.h.*.ln_1"} <= made


def trained(model: nn.Module, wrapper: nn.Module) -> Trained:
    optimizer, losses = torch.optim.AdamW(model.parameters()), []
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            loss = wrapper(torch.randint(0, WORDS, (BATCH, LENGTH)))
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return Trained(model, losses)


def data_parallel() -> Trained:
    model = Gpt(2)
    return trained(model, nn.DataParallel(model))


def checkpointed() -> Trained:
    """Each block is inside a wrapper that recomputes it."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = Gpt(2)
    for at, block in enumerate(model.blocks):
        model.blocks[at] = checkpoint_wrapper(block)
    return trained(model, model)


def distributed() -> Trained:
    """The only rank of data-parallel training."""
    group: Any = torch.distributed
    group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
    try:
        model = Gpt(2)
        return trained(model, nn.parallel.DistributedDataParallel(model))
    finally:
        group.destroy_process_group()


@pytest.mark.parametrize("program", [data_parallel, checkpointed, distributed])
def test_wrappers_are_not_part_of_names(program: Callable[[], Trained], tmp_path: Path) -> None:
    torch.manual_seed(0)
    without = program()
    torch.manual_seed(0)
    found, rank = tracked(tmp_path, program)
    assert found.is_same(without)
    weights = {name for name, _ in Gpt(2).named_parameters()}
    assert names(rank, "parameter") == weights
    assert names(rank, "gradient") <= {f"{name}.grad" for name in weights}
    made = {row["name"] for row in rank["peak"]["made_in"]}
    assert {"Gpt", "blocks.*.qkv", "blocks.*.mlp.0"} <= made
    assert not [name for name in made if name and ("module" in name or "_orig" in name)]


def test_two_wrapped_models_are_told_apart(tmp_path: Path) -> None:
    def program() -> Trained:
        models = [Gpt(1), Gpt(1)]
        for model in models:
            found = trained(model, nn.DataParallel(model))
        return found

    _, rank = tracked(tmp_path, program)
    weights = {name for name, _ in Gpt(1).named_parameters()}
    assert names(rank, "parameter") == weights | {f"Gpt (2).{name}" for name in weights}
    assert {row["name"] for row in rank["ran"]} >= {"DataParallel", "DataParallel (2)"}
