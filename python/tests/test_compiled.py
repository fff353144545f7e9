"""Compiled code: its buffers are tracked, and the tracker does not change its results."""

from __future__ import annotations

import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import ttmem
from conftest import TTMEM, preloaded, ran
from real_programs import highest
from ttmem._torch.compiled import compiles_beside_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Profiler clears events"),
    pytest.mark.skipif(not compiles_beside_modes(), reason="this PyTorch has no modes beside compiled code"),
]

WIDTH = 256


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    yield
    ttmem.stop_memory_tracker()
    torch.set_num_threads(threads)


class Model(nn.Module):
    """A function with buffers between its kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.down(torch.nn.functional.gelu(self.up(x)).softmax(-1))
        return found.sin().sum()


def trained(model: nn.Module) -> list[torch.Tensor]:
    """Returns the losses and final weights of a training run."""
    compiled, optimizer = torch.compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(3):
        loss = compiled(torch.arange(512 * WIDTH).reshape(512, WIDTH).sin() * step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.detach().clone())
    return [*found, *(weight.detach().clone() for weight in model.parameters())]


def model() -> Model:
    torch.manual_seed(0)
    return Model()


def test_the_peak_is_that_of_the_allocator_and_results_are_the_same(tmp_path: Path) -> None:
    # Generated kernels with their own threads.
    torch.set_num_threads(2)
    bare = trained(model())
    torch._dynamo.reset()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
        watched = trained(model())
        assert tracker.get_summary()["errors"] == 0
        ttmem.stop_memory_tracker()
    assert all(torch.equal(one, other) for one, other in zip(bare, watched, strict=True))
    assert tracker.recording is not None
    rank = ttmem.open(tracker.recording).summary()["ranks"][0]
    assert rank["pools"]["cpu"]["peak_total"] == highest(profiled)
    # The tensors of a compiled model have names and classes.
    assert {"parameter", "activation"} <= rank["peak"]["by_class_per_bank"].keys()
    assert [row["name"] for row in rank["ran"]] == ["Model", "backward", "SGD.step"]
    # Buffers are attributed to the program's lines, not to generated code.
    made = {row["loc"] for row in rank["peak"]["live"] if row["op"] == "inductor::empty_strided_cpu"}
    assert made
    assert all("test_compiled.py" in loc for loc in made)


def test_code_that_was_compiled_before_is_watched_and_left_as_it_was(tmp_path: Path) -> None:
    native = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
    compiled = torch.compile(lambda x: (x.sin() @ x.T).softmax(-1) @ x)
    x = torch.ones(256, 256)
    expected = compiled(x)
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    before = tracker.get_summary()["devices"]["cpu"]["peak_bytes"]
    assert torch.equal(compiled(x), expected)
    # The sine and the product are briefly live at the same time.
    assert tracker.get_summary()["devices"]["cpu"]["peak_bytes"] >= before + 2 * x.nbytes
    ttmem.stop_memory_tracker()
    from torch._inductor.codecache import PyCodeCache

    generated = [vars(module).get("empty_strided_cpu", native) for module in PyCodeCache.modules]
    assert all(function is native for function in generated)
    assert torch._C._dynamo.guards._empty_strided_cpu is native  # type: ignore[attr-defined]


def test_what_is_not_tracked_is_never_claimed_to_be_explained(tmp_path: Path) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    model()(torch.ones(8, WIDTH)).backward()
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    answer = ttmem.open(tracker.recording)
    (missing,) = answer.summary()["ranks"][0]["pools"]["cpu"]["not_watched"]
    screen = " ".join(ran([*TTMEM, "summary", tracker.recording]).stdout.split())
    assert f"The actual peak may be higher. Not tracked: {missing}" in screen
    assert "explained" not in screen
    assert "100.0" not in screen
    assert f"The actual peak may be higher. Not tracked: {missing}." in answer.markdown()


def test_buffers_that_cannot_be_seen_are_said_to_be_missing(tmp_path: Path) -> None:
    program = f"""
        import torch, ttmem
        from torch._inductor import config
        config.cpp_wrapper = True
        # Precompiled headers pay off with the second module.
        if hasattr(config, "cpp_cache_precompile_headers"):
            config.cpp_cache_precompile_headers = False
        tracker = ttmem.initialize_memory_tracker({str(tmp_path)!r}, interval=60.0)
        torch.compile(lambda x: x.sin() + 1)(torch.ones(64, 64))
        ttmem.stop_memory_tracker()
        print(tracker.recording)
    """
    done = preloaded().run(["-c", textwrap.dedent(program)], check=True)
    pool = ttmem.open(done.stdout.split()[-1]).summary()["ranks"][0]["pools"]["cpu"]
    assert any("cpp_wrapper" in missing for missing in pool["not_watched"])


@pytest.mark.parametrize("level", ["tensors", "ops"])
def test_threads_that_only_compile_are_not_reported(tmp_path: Path, level: Literal["tensors", "ops"]) -> None:
    from torch._inductor.async_compile import AsyncCompile

    with ThreadPoolExecutor(1, thread_name_prefix="theirs") as theirs:
        for pool in (AsyncCompile.pool(), theirs):
            pool.submit(int).result()
        tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level=level)
        model()(torch.ones(8, WIDTH)).backward()
        ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    (warning,) = ttmem.open(tracker.recording).summary()["source"]["warnings"]
    assert warning["message"].endswith(": theirs_0")
