"""Summaries of recordings: live tensors and their operations, calls, and suggestions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import ttmem
from conftest import TTMEM, ran

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH, LAYERS = 64, 6


class Layer(nn.Module):
    """A simplified transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return out


class Model(nn.Module):
    """A model with several layers."""

    def __init__(self, *, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.is_checkpointed = is_checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.is_checkpointed else layer(x)
        return x


def train(model: nn.Module, rounds: int = 2) -> None:
    tracker = ttmem.get_memory_tracker()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(rounds):
        with tracker.track_operation("iteration"):
            with tracker.track_operation("forward"):
                loss = model(torch.randn(256, WIDTH)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


def recorded(folder: Path, program: Callable[[], object]) -> str:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    program()
    ttmem.memory_checkpoint("over")
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    return tracker.recording


def answer(path: str) -> dict[str, Any]:
    rank: dict[str, Any] = ttmem.open(path).summary()["ranks"][0]
    return rank


def advice(rank: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in rank["suggestions"]}


def test_who_made_what_is_alive(tmp_path: Path) -> None:
    peak = answer(recorded(tmp_path, lambda: train(Model())))["peak"]
    rows = {row["name"]: row for row in peak["made_in"]}
    classes = peak["by_class_per_bank"]
    made = sum(classes.get(name, 0) for name in ("activation", "temporary", "unknown"))
    assert sum(row["per_bank"] for row in rows.values()) == made
    # The output of `up`, and the activation computed from it, in each layer.
    wide = 256 * 4 * WIDTH * 4
    assert rows["layers.*.up"]["scopes"] == LAYERS
    assert rows["layers.*.up"]["per_bank"] == LAYERS * wide
    assert rows["layers.*"]["per_bank"] >= LAYERS * wide
    named = {tensor["made_in"] for tensor in peak["live"] if tensor["class"] == "activation"}
    assert {"layers.0.up", "layers.5", "layers.3.norm"} <= named
    assert all("made_in" not in tensor for tensor in peak["live"] if tensor["class"] == "parameter")


def test_what_ran_is_what_the_tree_says(tmp_path: Path) -> None:
    path = recorded(tmp_path, lambda: train(Model(), rounds=3))
    rank = answer(path)
    found = [(row["depth"], row["name"], row["kind"], row["calls"]) for row in rank["ran"]]
    assert found == [
        (0, "iteration", "operation", 3),
        (1, "forward", "operation", 3),
        (2, "Model", "forward", 3),
        (1, "backward", "backward", 3),
        (1, "AdamW.step", "optimizer", 3),
    ]
    with open(path.removesuffix("ttmem") + "json") as file:
        (node,) = json.load(file)["operation_tree"]
    for row in rank["ran"][:3]:
        assert row["peak_bytes"] == node["peak_mb"] * (1 << 20)
        assert row["kept_bytes"] == node["kept_mb"] * (1 << 20)
        assert row["change_bytes"] == node["total_memory_delta_mb"] * (1 << 20)
        assert row["time_ns"] == pytest.approx(node["total_time_ms"] * 1e6)
        node = node["children"][0]
    assert [row["name"] for row in rank["checkpoints"]] == ["over"]
    assert rank["checkpoints"][0]["pools"]["cpu"] == rank["pools"]["cpu"]["final_total"]


def test_a_call_that_has_not_ended_runs(tmp_path: Path) -> None:
    def program() -> None:
        tracker.track_operation("served").__enter__()

    tracker = ttmem.initialize_memory_tracker(tmp_path)
    with tracker.track_operation("served"):
        torch.ones(10)
    program()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    (row,) = answer(tracker.recording)["ran"]
    assert (row["calls"], row["running"]) == (1, 1)


def test_the_screen_and_markdown_say_it(tmp_path: Path) -> None:
    path = recorded(tmp_path, lambda: train(Model()))
    screen = ran([*TTMEM, "summary", path]).stdout
    assert "layers.*.up (6 modules)" in screen
    assert "      Model " in screen
    assert "(in layers." in screen
    text = ran([*TTMEM, "summary", "--markdown", path]).stdout
    for line in (
        "## Top 10 Padding Overhead\n\nNone: PyTorch tensors have no tiles.",
        "| layers.*.up | 6 | 1.500 |",
        "| - - Model | forward | 2 |",
        "| over |",
    ):
        assert line in text
    assert "unknown" not in text.split("## Live at Peak")[0]
    assert "bank" not in text
    assert "| host |" in text
    assert len(text) <= 8000


def test_counters_alone_name_nobody(tmp_path: Path) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path, level="phases")
    ttmem.memory_checkpoint("loaded")
    ttmem.stop_memory_tracker()
    screen = ran([*TTMEM, "summary", str(tracker.recording)]).stdout
    assert "level phases" in screen
    assert "TTMLIR" not in screen
    assert "loaded" in screen


def test_a_counter_that_is_read_now_and_then_has_no_cause(tmp_path: Path) -> None:
    rank = answer(recorded(tmp_path, lambda: train(Model())))
    assert rank["pools"]["host"]["caused_by_step"] is None
    assert rank["peaks"]["host"]["caused_by"] is None
    assert rank["pools"]["cpu"]["caused_by_step"] is not None


def test_what_checkpoints_would_save_is_what_they_save(tmp_path: Path) -> None:
    found = answer(recorded(tmp_path, lambda: train(Model())))
    said = advice(found)["activations_of_layers"]
    assert "6 layers (layers.*)" in said["message"]
    saved = answer(recorded(tmp_path, lambda: train(Model(is_checkpointed=True))))
    saves = found["peak"]["allocated_per_bank"] - saved["peak"]["allocated_per_bank"]
    assert 0.95 * saves <= said["saves_bytes"] <= saves
    # With checkpointing, there is nothing left to save that way.
    assert "activations_of_layers" not in advice(saved)


def test_a_program_that_does_not_train_has_nothing_to_compute_again(tmp_path: Path) -> None:
    def infer() -> None:
        model = Model()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(256, WIDTH))

    assert "activations_of_layers" not in advice(answer(recorded(tmp_path, infer)))


def test_what_grows_is_said_with_who_makes_it(tmp_path: Path) -> None:
    kept = []

    def leak() -> None:
        tracker, model = ttmem.get_memory_tracker(), nn.Linear(64, 64)
        for _ in range(20):
            with tracker.track_operation("round"):
                kept.append(model(torch.ones(16, 64)).relu())

    message = advice(answer(recorded(tmp_path, leak)))["grows"]["message"]
    assert message.startswith("Each call to round adds 8.0 KiB to cpu on average: ")
    assert "test_answers.py" in message


def test_what_does_not_grow_is_not_said_to(tmp_path: Path) -> None:
    assert "grows" not in advice(answer(recorded(tmp_path, lambda: train(Model(), rounds=12))))


def test_loops_inside_of_loops_do_not_grow(tmp_path: Path) -> None:
    def unrolled() -> None:
        cell = nn.LSTMCell(16, 16)
        optimizer = torch.optim.SGD(cell.parameters())
        for _ in range(10):
            h, c, total = torch.zeros(4, 16), torch.zeros(4, 16), torch.zeros(())
            for _ in range(20):
                h, c = cell(torch.randn(4, 16), (h, c))
                total = total + h.sum()
            total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()

    def layered() -> None:
        layers = [nn.Linear(32, 32) for _ in range(12)]
        for _ in range(5):
            x = torch.randn(16, 32)
            for layer in layers:
                x = layer(x).relu()
            x.sum().backward()  # type: ignore[no-untyped-call]

    for program in (unrolled, layered):
        assert "grows" not in advice(answer(recorded(tmp_path, program)))


def test_what_is_kept_for_something_else_is_not_computed_again(tmp_path: Path) -> None:
    def infer() -> None:
        model, caches = Model(), []
        for layer in model.layers:
            layer.register_forward_hook(lambda *given: caches.append(given[-1] * 2))
        with torch.no_grad():
            model(torch.randn(256, WIDTH))
            model(torch.randn(256, WIDTH))

    assert "activations_of_layers" not in advice(answer(recorded(tmp_path, infer)))


def test_layers_are_counted_once_whoever_calls_them(tmp_path: Path) -> None:
    def both() -> None:
        tracker, model = ttmem.get_memory_tracker(), Model()
        for _ in range(2):
            results = []
            for name in ("query", "document"):
                with tracker.track_operation(name):
                    results.append(model(torch.randn(256, WIDTH)).sum())
            torch.stack(results).sum().backward()  # type: ignore[no-untyped-call]

    found = answer(recorded(tmp_path, both))
    assert f"{LAYERS} layers (layers.*)" in advice(found)["activations_of_layers"]["message"]
    assert {row["scopes"] for row in found["peak"]["made_in"] if row["name"] == "layers.*.up"} == {LAYERS}


def test_operations_inside_of_models_are_told(tmp_path: Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with ttmem.get_memory_tracker().track_operation("attention"):
                inner: torch.Tensor = self.inner(x)
                return inner

    rank = answer(recorded(tmp_path, lambda: Named()(torch.ones(1, 4))))
    assert [(row["depth"], row["name"]) for row in rank["ran"]] == [
        (0, "Named"),
        (1, "attention"),
        (2, "inner"),
    ]


def test_programs_that_name_nothing_are_told_which_steps_added_most(tmp_path: Path) -> None:
    path = recorded(tmp_path, lambda: torch.ones(1000).add(1))
    assert "largest increases in cpu" in ran([*TTMEM, "summary", path]).stdout
