"""Growth with every call: how much, and whether it is a leak or a cache."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1 << 20


def suggestions(folder: Path, program: Callable[[ttmem.MemoryTracker], object]) -> dict[str, str]:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    held = program(tracker)
    ttmem.stop_memory_tracker()
    del held
    assert tracker.recording is not None
    found = ttmem.open(tracker.recording).summary()["ranks"][0]["suggestions"]
    return {one["rule"]: one["message"] for one in found}


@pytest.mark.parametrize("rounds", [16, 17, 30, 40, 101])
@pytest.mark.parametrize("size", [MIB, 300 * 1024])
def test_the_rate_is_what_every_round_leaves(tmp_path: Path, rounds: int, size: int) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept = []
        for _ in range(rounds):
            with tracker.track_operation("round"):
                kept.append(torch.ones(size, dtype=torch.uint8))
        return kept

    message = suggestions(tmp_path, leak)["grows"]
    said = {MIB: "1.0 MiB", 300 * 1024: "300.0 KiB"}[size]
    assert message.startswith(f"Each call to round adds {said} to cpu on average: ")
    total, over = re.findall(r"average: ([\d.]+ [KMG]iB) over (\d+) calls", message)[0]
    unit = {"KiB": 1024, "MiB": MIB}[total.split()[1]]
    assert float(total.split()[0]) * unit == pytest.approx(int(over) * size, abs=0.06 * unit)
    # One tensor remains per round.
    assert f"The largest part is {over} tensors from aten::ones at" in message
    assert "loss.item()" in message


def test_growth_is_found_if_the_program_frees_it_at_its_end(tmp_path: Path) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept = []
        for _ in range(32):
            with tracker.track_operation("round"):
                kept.append(torch.ones(MIB, dtype=torch.uint8))
        kept.clear()
        return None

    assert suggestions(tmp_path, leak)["grows"].startswith(
        "Each call to round adds 1.0 MiB to cpu on average: "
    )


def test_the_rate_of_a_loop_that_goes_up_and_down_is_that_of_its_low_points(tmp_path: Path) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept, held = [], []
        for step in range(64):
            with tracker.track_operation("round"):
                kept.append(torch.ones(MIB, dtype=torch.uint8))
                held.append(torch.ones(4 * MIB, dtype=torch.uint8))
                if step % 4 == 3:
                    held.clear()
        return kept

    message = suggestions(tmp_path, leak)["grows"]
    assert message.startswith("Each call to round adds 1.0 MiB to cpu on average: ")


class Attention(nn.Module):
    """Attention with a cache that grows by `torch.cat`."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(
        self, x: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        return nn.functional.scaled_dot_product_attention(q, k, v), (k, v)


def test_a_cache_that_grows_is_not_called_a_leak(tmp_path: Path) -> None:
    def decode(tracker: ttmem.MemoryTracker) -> object:
        del tracker
        model, cache, x = Attention(), None, torch.ones(8, 1, 64)
        with torch.no_grad():
            for _ in range(40):
                x, cache = model(x, cache)
        return model, cache

    found = suggestions(tmp_path, decode)
    assert "grows" not in found
    message = found["tensors_grow"]
    assert message.startswith("Each call to Attention adds 4.0 KiB to cpu on average: ")
    assert "2 tensors from aten::cat at" in message
    assert "A KV cache grows like this" in message
    assert "loss.item()" not in message


def test_the_cache_of_transformers_is_known_to_be_one(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")

    def decode(tracker: ttmem.MemoryTracker) -> Any:
        del tracker
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
        )
        model = transformers.LlamaForCausalLM(config).eval()
        words, cache = torch.ones(4, 1, dtype=torch.long), None
        with torch.no_grad():
            for _ in range(40):
                given = model(words, past_key_values=cache, use_cache=True)
                words, cache = given.logits[:, -1:].argmax(-1), given.past_key_values
        return model, cache

    found = suggestions(tmp_path, decode)
    message = found["kv_cache_grows"]
    # Keys and values of two layers, four sequences and 64 elements of 4 bytes.
    assert message.startswith("Each call to LlamaForCausalLM adds 4.0 KiB to cpu on average: ")
    # Keys and values may be concatenated in one line or in two.
    assert re.search(r"Most of it is the KV cache \([24] tensors from aten::cat", message), message
    assert not {"grows", "tensors_grow"} & found.keys()
    (recording,) = tmp_path.glob("*.ttmem")
    live = ttmem.open(recording).summary()["ranks"][0]["peak"]["live"]
    named = {row["class"] for row in live if (row["name"] or "").startswith("past_key_values")}
    assert named == {"kv_cache"}
