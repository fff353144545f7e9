"""Compares expected with measured sizes: weights and a KV cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem
from conftest import MODULE, ran

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAYERS, HEADS, HEAD_DIM, PAGES, PAGE_SIZE = 3, 4, 16, 32, 8
CACHE = {
    "kv_pages": PAGES,
    "page_size": PAGE_SIZE,
    "layers": LAYERS,
    "kv_heads": HEADS,
    "head_dim": HEAD_DIM,
}
CACHE_BYTES = LAYERS * PAGES * 2 * PAGE_SIZE * HEADS * HEAD_DIM * 2


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[ttmem.MemoryTracker]:
    yield ttmem.initialize_memory_tracker(output_dir=tmp_path, interval=60.0)
    ttmem.stop_memory_tracker()


def served(tracker: ttmem.MemoryTracker, *, labeled: bool = True) -> int:
    """Serves a small model with a paged cache; returns the number of parameters."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)).to(torch.bfloat16)
    cache = [torch.zeros(PAGES, 2, PAGE_SIZE, HEADS, HEAD_DIM, dtype=torch.float16) for _ in range(LAYERS)]
    if labeled:
        tracker.label(cache, "kv_cache")
    with torch.inference_mode():
        model(torch.zeros(8, 64, dtype=torch.bfloat16))
    return sum(parameter.numel() for parameter in model.parameters())


def stopped(tracker: ttmem.MemoryTracker) -> str:
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    return tracker.recording


def expected(recording: str, **expect: Any) -> dict[str, dict[str, Any]]:
    rank = ttmem.open(recording).summary(expect=expect or None)["ranks"][0]
    return {row["class"]: row for row in rank["expected"]}


def test_weights_and_cache_are_what_was_expected(tracker: ttmem.MemoryTracker) -> None:
    params = served(tracker)
    tracker.expect(params=params, dtype=torch.bfloat16, **CACHE, kv_dtype="float16")
    rows = expected(stopped(tracker))
    assert set(rows) == {"parameter", "kv_cache"}
    for row, wanted in ((rows["parameter"], 2 * params), (rows["kv_cache"], CACHE_BYTES)):
        assert (row["expected_bytes"], row["measured_bytes"]) == (wanted, wanted)
        assert (row["difference_bytes"], row["difference_pct"]) == (0, 0.0)
        assert row["measured_by_pool"] == {"cpu": wanted}
        assert (row["from"], row["note"]) == ("recording", None)
    assert rows["parameter"]["how"] == f"{params} parameters of bfloat16"


def test_a_conversion_between_two_calls_does_not_count_twice(tracker: ttmem.MemoryTracker) -> None:
    torch.nn.Softmax(-1)(torch.ones(3))
    params = served(tracker)
    tracker.expect(params=params, dtype=torch.bfloat16)
    assert expected(stopped(tracker))["parameter"]["difference_bytes"] == 0


def test_a_difference_has_a_sign(tracker: ttmem.MemoryTracker) -> None:
    params = served(tracker)
    tracker.expect(params=params, dtype="float32", kv_cache=CACHE_BYTES // 2)
    rows = expected(stopped(tracker))
    assert (rows["parameter"]["difference_bytes"], rows["parameter"]["difference_pct"]) == (
        -2 * params,
        -50.0,
    )
    assert (rows["kv_cache"]["difference_bytes"], rows["kv_cache"]["difference_pct"]) == (
        CACHE_BYTES // 2,
        100.0,
    )


def test_what_was_not_measured_is_unknown(tracker: ttmem.MemoryTracker) -> None:
    served(tracker, labeled=False)
    tracker.expect(dtype="float16", params=1e9, **CACHE)  # type: ignore[arg-type]
    row = expected(stopped(tracker))["kv_cache"]
    unknown = ("measured_bytes", "measured_step", "measured_by_pool", "difference_bytes", "difference_pct")
    assert [row[key] for key in unknown] == [None] * 5
    assert "tracker.label(cache" in row["note"]


def test_training_has_gradients_and_an_optimizer(tracker: ttmem.MemoryTracker) -> None:
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    params = sum(parameter.numel() for parameter in model.parameters())
    tracker.expect(params=params, dtype=torch.float32, gradient=4 * params, optimizer=8 * params + 8)
    model(torch.zeros(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    rows = expected(stopped(tracker))
    # Gradients are measured although they are freed before the end.
    assert {name: row["difference_bytes"] for name, row in rows.items()} == {
        "parameter": 0,
        "gradient": 0,
        "optimizer": 0,
    }


def test_the_last_word_on_a_class_counts_and_who_asks_goes_first(tracker: ttmem.MemoryTracker) -> None:
    params = served(tracker)
    tracker.expect(parameter="1GiB")
    tracker.expect(parameter=2 * params)
    recording = stopped(tracker)
    assert expected(recording)["parameter"]["difference_bytes"] == 0
    row = expected(recording, params=1e3, dtype=torch.int8)["parameter"]
    assert (row["from"], row["expected_bytes"]) == ("request", 1000)


def test_wrong_words_are_refused(tracker: ttmem.MemoryTracker) -> None:
    for words, said in (
        ({"params": 5}, "add dtype=bf16"),
        ({"params": 5, "dtype": "brain"}, "unknown element type"),
        ({"kv_pages": 5, "page_size": 16, "dtype": "bf16"}, "also depends on layers, kv_heads, head_dim"),
        ({"kv_cash": 5}, "unknown key"),
        ({"gradient": -5}, "cannot be negative"),
    ):
        with pytest.raises(ValueError, match=said):
            tracker.expect(**words)
    recording = stopped(tracker)
    with pytest.raises(ttmem.Error, match="no expectations"):
        ttmem.open(recording).summary(expect={})
    with pytest.raises(ValueError, match="unknown element type"):
        ttmem.open(recording).summary(expect={"params": 5, "dtype": "brain"})


def test_disabled_it_does_nothing() -> None:
    ttmem.get_memory_tracker().expect(params=1, dtype="nothing")


def test_the_command_shows_it_in_every_form(tracker: ttmem.MemoryTracker) -> None:
    params = served(tracker)
    tracker.expect(params=params, dtype=torch.bfloat16)
    recording = stopped(tracker)
    screen = ran([*MODULE, "summary", "--expect", recording])
    assert screen.returncode == 0, screen.stderr
    assert f"{params} parameters of bfloat16" in screen.stdout
    markdown = ran([*MODULE, "summary", "--markdown", recording, "--expect", "kv_cache=1GiB"]).stdout
    assert "## Expected and Measured" in markdown
    said = ran([*MODULE, "summary", "--json", recording, "--expect", f"params={params},dtype=fp16"]).stdout
    (row,) = json.loads(said)["ranks"][0]["expected"]
    assert (row["from"], row["difference_bytes"]) == ("request", 0)
