"""Memory use of phases, measured and estimated."""

from __future__ import annotations

import gc
import io
import json
import logging
import math
import os
import random
import re
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

import ttmem
from conftest import CORPUS, MODULE, preloaded, ran
from ttmem import DRAMUsage, MemoryUsageTracker, RunMode, memory_snapshot
from ttmem._sizes import size_text
from ttmem._torch.phases import Counters, PhaseUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1 << 20
LOGGER = "ttmem"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    MemoryUsageTracker.clear()
    ttmem.stop_memory_tracker()
    gc.collect()
    # The remaining objects were imported, such as PyTorch's compiler. Later collections can skip them.
    gc.freeze()


def capture(mode: RunMode = RunMode.NORMAL) -> ttmem.ScopeGuard:
    return MemoryUsageTracker.begin_capture(mode, device="cpu")


def phases() -> dict[str, DRAMUsage]:
    return dict(MemoryUsageTracker.get_dram_usage_all())


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + functional.dropout(self.down(functional.gelu(self.up(self.last(x)))), 0.1)


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, 64), nn.Embedding(32, 64)
        self.blocks = nn.Sequential(Block(64), Block(64))
        self.head = nn.Linear(64, 128, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.blocks(self.tokens(x) + self.places(torch.arange(x.shape[1])))
        logits = self.head(h)
        return functional.cross_entropy(logits.view(-1, 128), x.reshape(-1))


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.layers(x), torch.zeros(len(x), dtype=torch.long))


def tokens() -> torch.Tensor:
    return torch.randint(0, 128, (4, 32))


def pictures() -> torch.Tensor:
    return torch.randn(4, 3, 32, 32)


MODELS = {"gpt": (Gpt, tokens), "conv": (Conv, pictures)}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw_foreach": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}


def trained(
    mode: RunMode, model: str, optimizer: str, *, outside: bool = False
) -> list[tuple[str, DRAMUsage]]:
    """Runs two training steps in phases. The model may have been created before."""
    make, batch = MODELS[model]
    torch.manual_seed(0)
    network = make() if outside else None
    with capture(mode):
        if network is None:
            network = make()
        MemoryUsageTracker.snapshot("MODEL_CREATION")
        steps = OPTIMIZERS[optimizer](network.parameters())
        best = math.inf
        for number in range(2):
            loss = network(batch())
            MemoryUsageTracker.snapshot(f"FORWARD_PASS_{number}")
            loss.backward()
            MemoryUsageTracker.snapshot(f"BACKWARD_PASS_{number}")
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            steps.step()
            MemoryUsageTracker.snapshot(f"STEP_{number}")
            steps.zero_grad()
            best = min(best, loss.item())
        del loss, steps, network
        gc.collect()
        MemoryUsageTracker.end_capture("END")
        return MemoryUsageTracker.get_dram_usage_all()


class TestPhases:
    def test_a_phase_is_what_happened_in_it(self) -> None:
        guard = capture()
        kept = torch.zeros(4 * MIB)
        MemoryUsageTracker.snapshot("MODEL_CREATION")
        for _ in range(3):
            torch.zeros(MIB)
        del kept
        MemoryUsageTracker.end_capture("FORWARD_PASS")
        assert phases() == {
            "MODEL_CREATION": DRAMUsage(16 * MIB, 16 * MIB, 0),
            "FORWARD_PASS": DRAMUsage(4 * MIB, 12 * MIB, 28 * MIB),
        }
        assert MemoryUsageTracker.get_trace_names() == ["MODEL_CREATION", "FORWARD_PASS"]
        guard.release()

    def test_it_is_printed_with_the_device_and_units(self, capsys: pytest.CaptureFixture[str]) -> None:
        MemoryUsageTracker.print_memory_usage()
        assert capsys.readouterr().out == "WARNING: No traces captured\n"
        guard = capture()
        model = torch.zeros(12 * MIB)
        MemoryUsageTracker.snapshot("MODEL_CREATION")
        scratch = torch.zeros(3 * MIB // 2)
        del scratch
        MemoryUsageTracker.end_capture("FORWARD_PASS")
        MemoryUsageTracker.print_memory_usage()
        assert capsys.readouterr().out == textwrap.dedent("""\
            === Memory Usage Summary ===

            --- MODEL_CREATION ---
              cpu: Segment Peak 48.00 MiB, Allocations 48.00 MiB, Deallocations 0.00 MiB, Segment Change +48.00 MiB
              cpu: Cumulative Peak 48.00 MiB, Cumulative Current 48.00 MiB
            --- FORWARD_PASS ---
              cpu: Segment Peak 6.00 MiB, Allocations 6.00 MiB, Deallocations 6.00 MiB, Segment Change +0.00 MiB
              cpu: Cumulative Peak 54.00 MiB, Cumulative Current 48.00 MiB

            === Final Totals ===
            Overall cpu Peak: 54.00 MiB, Final cpu Usage: 48.00 MiB

        """)
        out = io.StringIO()
        MemoryUsageTracker.print_memory_usage(out)
        assert out.getvalue() == MemoryUsageTracker.memory_usage_text()
        assert MemoryUsageTracker.get_l1_usage("FORWARD_PASS") == (0, 0, 0)
        guard.release()
        del model

    def test_what_is_printed_is_read(self, tmp_path: Path) -> None:
        for mode in RunMode:
            trained(mode, "gpt", "sgd")
            with capture(mode):
                torch.zeros(MIB)
                MemoryUsageTracker.end_capture("MODEL_CREATION")
                (tmp_path / "train.log").write_text(MemoryUsageTracker.memory_usage_text())
            profile = ttmem.open(tmp_path / "train.log")
            (phase,) = profile.summary()["ranks"][0]["phases"]
            assert (phase["name"], phase["segment_peak_bytes"]) == ("MODEL_CREATION", 4 * MIB)
            assert phase["l1_peak_total_bytes"] is None
            assert profile.warnings == []

    def test_large_sizes_are_printed_in_gib_and_read(self, tmp_path: Path) -> None:
        log = tmp_path / "train.log"
        with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cuda"):
            model = torch.empty(1_000_003, 4001, device="cuda")
            MemoryUsageTracker.snapshot("MODEL_CREATION")
            batch = torch.empty(1000, 1001, device="cuda")
            MemoryUsageTracker.end_capture("FORWARD_PASS")
            size, more = (dram.peak for dram in phases().values())
            log.write_text(MemoryUsageTracker.memory_usage_text())
            del model, batch
        assert f"cuda:0: Segment Peak {size / 2**30:.3f} GiB" in log.read_text()
        assert f"cuda:0: Segment Peak {more / 2**20:.2f} MiB" in log.read_text()
        for words in (["summary"], ["phases"], ["summary", "--markdown"]):
            done = ran([*MODULE, *words, str(log)])
            assert (done.returncode, done.stderr) == (0, "")
            assert "L1 Peak" not in done.stdout
            assert "cuda:0" in done.stdout
        profile = ttmem.load(log)
        assert profile.warnings == []
        (rank,) = profile.summary()["ranks"]
        first, second = rank["phases"]
        assert first["segment_peak_bytes"] == pytest.approx(size, abs=2**20)
        assert second["cumulative_peak_bytes"] == pytest.approx(size + more, abs=2**20)
        assert second["segment_peak_bytes"] == pytest.approx(more, abs=10_486)

    def test_no_size_above_1_gib_is_in_mib(self) -> None:
        with capture(RunMode.NO_DISPATCH):
            model = torch.empty(120, 1 << 28)
            MemoryUsageTracker.snapshot("MODEL_CREATION")
            batch = torch.empty(MIB)
            del model
            MemoryUsageTracker.end_capture("FORWARD_PASS")
            text = MemoryUsageTracker.memory_usage_text()
            del batch
        assert "cpu: Segment Peak 120.000 GiB, Allocations 120.000 GiB, Deallocations 0.00 MiB" in text
        assert "Segment Change -119.996 GiB" in text
        assert "Overall cpu Peak: 120.004 GiB, Final cpu Usage: 4.00 MiB" in text
        assert all(abs(float(size)) < 1024 for size in re.findall(r"([-+]?[\d.]+) MiB", text))

    def test_sizes_in_warnings_have_the_largest_unit(self) -> None:
        sizes = [100, 4096, 512 * MIB, 1024 * MIB, 120 << 30]
        texts = ["100 B", "4.0 KiB", "512.0 MiB", "1.00 GiB", "120.00 GiB"]
        assert [size_text(size) for size in sizes] == texts

    def test_phases_of_several_devices_are_not_added_up(self) -> None:
        capture().release()
        MemoryUsageTracker.end_capture("CPU")
        with pytest.raises(RuntimeError, match=r"captured on cpu, so meta is not possible; call clear\(\)"):
            MemoryUsageTracker.begin_capture(device="meta")
        MemoryUsageTracker.clear()
        with MemoryUsageTracker.begin_capture(device="meta"):
            pass

    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_figures_follow_from_each_other(self, model: str, optimizer: str) -> None:
        level = 0
        for _, phase in trained(RunMode.NORMAL, model, optimizer):
            change = phase.total_allocations - phase.total_deallocations
            assert max(0, change) <= phase.peak <= phase.total_allocations
            level += change
        assert level == 0

    def test_what_was_there_before_is_not_allocated(self) -> None:
        model = nn.Linear(1024, 1024, bias=False)
        x = torch.ones(1, 1024)
        with capture():
            y = model(x)
            MemoryUsageTracker.snapshot("FORWARD_PASS")
            del model
            gc.collect()
            del y
            MemoryUsageTracker.end_capture("GONE")
            assert phases()["FORWARD_PASS"] == (4096, 4096, 0)
            # Its free was tracked.
            assert phases()["GONE"] == (0, 0, 4 * MIB + 4096)

    def test_what_is_loaded_is_allocated(self, tmp_path: Path) -> None:
        torch.save(torch.ones(MIB), tmp_path / "weights.pt")
        with capture():
            weights = torch.load(tmp_path / "weights.pt", weights_only=True)
            numbers = torch.tensor([1.0, 2.0])
            MemoryUsageTracker.end_capture("LOADED")
            assert (
                phases()["LOADED"].total_allocations - phases()["LOADED"].total_deallocations == 4 * MIB + 8
            )
        del weights, numbers

    def test_threads_that_begin_meanwhile_count(self) -> None:
        with capture():
            made: list[torch.Tensor] = []
            thread = threading.Thread(target=lambda: made.append(torch.zeros(MIB)))
            thread.start()
            thread.join()
            MemoryUsageTracker.end_capture("THREAD")
            assert phases()["THREAD"] == (4 * MIB, 4 * MIB, 0)

    @pytest.mark.filterwarnings("ignore")
    def test_a_compiled_step_is_compiled_once(self) -> None:
        graphs: list[Any] = []

        def backend(graph: Any, inputs: object) -> Any:
            del inputs
            graphs.append(graph)
            return graph

        torch._dynamo.reset()
        model = torch.compile(nn.Linear(8, 8), backend=backend)
        with capture():
            for _ in range(3):
                model(torch.ones(4, 8)).sum().backward()
            kept = torch.zeros(MIB)
            MemoryUsageTracker.end_capture("ALL")
            assert phases()["ALL"].peak >= 4 * MIB
        assert len(graphs) == 1
        assert torch._C._len_torch_dispatch_stack() == 0
        del kept

    def test_names_repeat(self) -> None:
        with capture():
            for _ in range(2):
                torch.zeros(MIB)
                MemoryUsageTracker.snapshot("FORWARD_PASS")
            MemoryUsageTracker.end_capture()
            assert MemoryUsageTracker.get_trace_names() == ["FORWARD_PASS", "FORWARD_PASS", "END_TRACE"]
            with pytest.raises(LookupError, match="get_dram_usage_all"):
                MemoryUsageTracker.get_dram_usage("FORWARD_PASS")
            with pytest.raises(LookupError, match="the phases are FORWARD_PASS, END_TRACE"):
                MemoryUsageTracker.get_l1_usage("BACKWARD_PASS")

    def test_a_recording_has_the_phases(self, tmp_path: Path) -> None:
        path = tmp_path / "train.ttmem"
        MemoryUsageTracker.record_to(path)
        with capture():
            model = torch.zeros(MIB)
            MemoryUsageTracker.snapshot("MODEL_CREATION")
            MemoryUsageTracker.end_capture("END")
        MemoryUsageTracker.finish()
        rank = ttmem.open(path).summary()["ranks"][0]
        assert [phase["segment_peak_bytes"] for phase in rank["phases"]] == [4 * MIB, 0]
        assert rank["pools"]["cpu"]["peak_total"] == 4 * MIB
        assert [*rank["pools"]] == ["cpu"]
        assert {phase["l1_peak_total_bytes"] for phase in rank["phases"]} == {None}
        del model

    def test_a_recording_of_several_devices(self, tmp_path: Path) -> None:
        path = tmp_path / "train.ttmem"
        MemoryUsageTracker.record_to(path)
        for device in ("cpu", "cuda", "cpu"):
            with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device=device):
                model = torch.zeros(MIB, device=device)
                MemoryUsageTracker.end_capture("MODEL_CREATION")
                del model
        MemoryUsageTracker.finish()
        (rank,) = ttmem.load(path).summary()["ranks"]
        assert {name: pool["peak_total"] for name, pool in rank["pools"].items()} == {
            "cpu": 4 * MIB,
            "cuda:0": 4 * MIB,
        }
        assert [session["name"] for session in rank["sessions"]] == ["cpu", "cuda:0", "cpu"]

    def test_another_device_than_the_one_that_is_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cuda"):
            x = torch.zeros(MIB)
            with caplog.at_level(logging.WARNING, LOGGER):
                MemoryUsageTracker.end_capture("ALL")
        assert "no tensors were allocated on cuda:0, the measured device, but 4.0 MiB on cpu" in caplog.text
        assert "device='cpu'" in caplog.text
        del x


class TestGuard:
    def test_it_ends_and_clears_when_it_goes(self) -> None:
        guard = capture()
        MemoryUsageTracker.snapshot("A")
        assert MemoryUsageTracker.is_capturing()
        del guard
        assert not MemoryUsageTracker.is_capturing()
        assert MemoryUsageTracker.get_trace_names() == []
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_released_it_does_nothing(self) -> None:
        guard = capture()
        MemoryUsageTracker.snapshot("A")
        guard.release()
        guard.release()
        del guard
        assert MemoryUsageTracker.is_capturing()
        MemoryUsageTracker.end_capture("B")
        assert MemoryUsageTracker.get_trace_names() == ["A", "B"]

    def test_blocks_of_one_guard_may_nest(self) -> None:
        with capture() as guard:
            with guard:
                MemoryUsageTracker.snapshot("A")
            assert MemoryUsageTracker.get_trace_names() == ["A"]
        assert MemoryUsageTracker.get_trace_names() == []

    def test_released_in_its_block(self) -> None:
        with capture() as guard:
            MemoryUsageTracker.end_capture("A")
            guard.release()
        assert MemoryUsageTracker.get_trace_names() == ["A"]

    def test_an_exception_ends_it(self) -> None:
        with pytest.raises(ZeroDivisionError), capture(RunMode.NO_DISPATCH):
            raise ZeroDivisionError
        assert not MemoryUsageTracker.is_capturing()
        assert type(torch.zeros(1)) is torch.Tensor

    def test_it_leaves_the_next_capture_alone(self) -> None:
        first = capture()
        MemoryUsageTracker.end_capture("A")
        second = capture()
        del first
        assert MemoryUsageTracker.is_capturing()
        MemoryUsageTracker.end_capture("B")
        assert MemoryUsageTracker.get_trace_names() == ["A", "B"]
        del second

    def test_captures_do_not_nest(self) -> None:
        guard = capture()
        with pytest.raises(RuntimeError, match="a capture is already running; end it with end_capture"):
            capture()
        assert MemoryUsageTracker.is_capturing()
        guard.release()

    def test_outside_of_a_capture_it_is_said_what_to_do(self) -> None:
        for call in (MemoryUsageTracker.snapshot, MemoryUsageTracker.end_capture):
            with pytest.raises(RuntimeError, match="outside a capture; call begin_capture first"):
                call("A")
        MemoryUsageTracker.clear()

    def test_estimates_and_measurements_are_not_mixed(self) -> None:
        guard = capture()
        MemoryUsageTracker.end_capture("A")
        with pytest.raises(RuntimeError, match=r"mode NORMAL.*NO_DISPATCH.*clear\(\)"):
            capture(RunMode.NO_DISPATCH)
        assert type(torch.zeros(1)) is torch.Tensor
        guard.release()

    def test_modes_and_sources_that_there_are_not(self) -> None:
        with pytest.raises(ValueError, match=r"expected RunMode\.NORMAL"):
            MemoryUsageTracker.begin_capture("SOMETIMES")
        with pytest.raises(ValueError, match="expected 'torch' or 'ttnn'"):
            MemoryUsageTracker.begin_capture(source="jax")  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="Expected one of cpu"):
            MemoryUsageTracker.begin_capture(device="moon")
        assert not MemoryUsageTracker.is_capturing()


class TestTracker:
    def test_one_watcher_is_enough(self, tmp_path: Path) -> None:
        alone = trained(RunMode.NORMAL, "gpt", "adam")
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        with capture():
            assert torch._C._len_torch_dispatch_stack() == 1
        assert trained(RunMode.NORMAL, "gpt", "adam") == alone
        assert torch._C._len_torch_dispatch_stack() == 1
        assert ttmem.get_memory_summary()["errors"] == 0

    def test_the_tracker_may_stop_first(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        with capture():
            kept = [torch.zeros(MIB)]
            with caplog.at_level(logging.WARNING, LOGGER):
                profile = json.loads(Path(ttmem.stop_memory_tracker()).read_text())
            kept.append(torch.zeros(MIB))
            MemoryUsageTracker.end_capture("ALL")
            assert phases()["ALL"] == (8 * MIB, 8 * MIB, 0)
        assert "stopped during a capture" in caplog.text
        assert profile["metadata"]
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_the_tracker_may_start_later(self, tmp_path: Path) -> None:
        with capture():
            kept = [torch.zeros(MIB)]
            ttmem.initialize_memory_tracker(output_dir=tmp_path)
            kept.append(torch.zeros(MIB))
            MemoryUsageTracker.end_capture("ALL")
            assert phases()["ALL"] == (8 * MIB, 8 * MIB, 0)
        assert ttmem.get_memory_summary()["total_bytes"] == 4 * MIB

    def test_what_is_not_there_is_not_tracked(self, tmp_path: Path) -> None:
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        with capture(RunMode.NO_DISPATCH):
            x = torch.zeros(1 << 40)
            MemoryUsageTracker.end_capture("ALL")
            assert phases()["ALL"] == (4 << 40, 4 << 40, 0)
            assert ttmem.get_memory_summary()["total_bytes"] == 0
        assert ttmem.get_memory_summary()["errors"] == 0
        del x


class TestMemorySnapshot:
    def test_it_ends_phases_in_both_passes(self) -> None:
        with capture():
            x = torch.zeros(MIB, requires_grad=True)
            h = memory_snapshot(x * 2, "HALF_FWD", "HALF_BWD")
            h.exp().sum().backward()  # type: ignore[no-untyped-call]
            MemoryUsageTracker.end_capture("END")
            assert MemoryUsageTracker.get_trace_names() == ["HALF_FWD", "HALF_BWD", "END"]
            assert phases()["HALF_FWD"] == (8 * MIB, 8 * MIB, 0)
        assert x.grad is not None
        assert torch.equal(x.grad, torch.full((MIB,), 2.0))

    def test_it_is_an_identity(self) -> None:
        x = torch.ones(3, requires_grad=True)
        assert memory_snapshot(x, "A", "B") is x
        with capture():
            assert memory_snapshot(x, "A", "B").data_ptr() == x.data_ptr()
            with torch.no_grad():
                assert memory_snapshot(x, "C", "D") is x
            y = torch.ones(3)
            assert memory_snapshot(y, "E", "F") is y
            assert MemoryUsageTracker.get_trace_names() == ["A", "C", "E"]

    def test_without_a_capture_in_the_backward_pass(self) -> None:
        x = torch.ones(3, requires_grad=True)
        with capture():
            y = memory_snapshot(x, "A", "B").sum()
        y.backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None


class TestNoDispatch:
    @pytest.mark.parametrize("outside", [False, True])
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_estimates_are_what_is_measured(self, model: str, optimizer: str, outside: bool) -> None:
        measured = trained(RunMode.NORMAL, model, optimizer, outside=outside)
        assert trained(RunMode.NO_DISPATCH, model, optimizer, outside=outside) == measured

    def test_estimates_of_data_that_is_loaded(self) -> None:
        found = []
        data = torch.utils.data.TensorDataset(torch.randn(16, 8), torch.arange(16))
        for mode in RunMode:
            with capture(mode):
                for x, y in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
                    h = x.view(-1)[:4] + y
                    MemoryUsageTracker.snapshot("BATCH")
                del x, y, h
                MemoryUsageTracker.end_capture("END")
                found.append(MemoryUsageTracker.get_dram_usage_all())
        assert len(found[0]) == 5
        assert found[0] == found[1]

    def test_nothing_is_allocated(self, tmp_path: Path) -> None:
        program = """
            import resource, torch
            from ttmem import MemoryUsageTracker, RunMode

            def resident():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

            torch.ones(8).sum()
            with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu"):
                torch.nn.Linear(4, 4)(torch.ones(1, 4)).sum().backward()
                before = resident()
                layers = [torch.nn.Linear(65536, 65536) for _ in range(16)]
                model = torch.nn.Sequential(*layers)
                optimizer = torch.optim.AdamW(model.parameters())
                model(torch.randn(1024, 65536)).mean().backward()
                optimizer.step()
                MemoryUsageTracker.end_capture("ALL")
                print(resident() - before, MemoryUsageTracker.get_dram_usage("ALL").peak)
        """
        out = preloaded().run(["-c", textwrap.dedent(program)], cwd=tmp_path, check=True).stdout
        taken, peak = map(int, out.split())
        assert taken < 100 * 1024  # KiB
        assert peak > 1 << 40

    def test_values_are_nan_and_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        with capture(RunMode.NO_DISPATCH), caplog.at_level(logging.WARNING, LOGGER):
            loss = torch.randn(8).mean()
            assert math.isnan(loss.item())
            assert math.isnan(float(loss))
            assert f"{loss:.2f}" == "nan"
            assert not loss.item() < math.inf
            assert not bool(loss < 3)
            assert not bool(torch.isnan(loss))
            assert not torch.equal(loss, loss)
            assert not torch.allclose(loss, loss)
            assert math.isnan(torch.randint(5, (3,)).sum().item())
            assert list(range(torch.randint(5, (3,)).sum())) == []
            assert [math.isnan(value) for value in torch.randn(2).tolist()] == [True, True]
            assert loss.detach().cpu().numpy().shape == ()
            assert torch.tensor(3.5).item() == 3.5
        assert len(caplog.records) == 1
        assert "NaN" in caplog.text

    def test_real_values_are_known(self) -> None:
        length = torch.tensor(7)
        with capture(RunMode.NO_DISPATCH):
            assert length.item() == 7

    def test_sizes_that_depend_on_values_are_the_largest(self, caplog: pytest.LogCaptureFixture) -> None:
        with capture(RunMode.NO_DISPATCH), caplog.at_level(logging.WARNING, LOGGER):
            x = torch.randn(4, 8)
            assert x[x > 0].shape == (32,)
            assert x.masked_select(x > 0).shape == (32,)
            assert torch.nonzero(x).shape == (32, 2)
            values, counts = torch.unique(x, return_counts=True)
            assert values.shape == counts.shape == (32,)
        assert "the maximum size is used" in caplog.text

    def test_what_is_made_inside_stays_without_values(self, caplog: pytest.LogCaptureFixture) -> None:
        with capture(RunMode.NO_DISPATCH):
            model = nn.Linear(4, 4)
            x = torch.ones(2, 4)
        with caplog.at_level(logging.WARNING, LOGGER):
            y = model(torch.ones(2, 4))
            model(torch.ones(2, 4))
        assert "FakeTensor" in repr(y)
        assert len(caplog.records) == 1
        assert "created in a NO_DISPATCH capture is used after the capture" in caplog.text
        with pytest.raises(RuntimeError, match="in a NO_DISPATCH capture: it has a shape but no values"):
            x.sum().item()

    def test_a_real_model_stays_as_it_is(self) -> None:
        model = Conv()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        generator = torch.get_rng_state()
        with capture(RunMode.NO_DISPATCH):
            optimizer = torch.optim.Adam(model.parameters())
            model(pictures()).backward()
            optimizer.step()
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
        assert torch.equal(generator, torch.get_rng_state())
        # Its gradients were created inside the capture.
        model.zero_grad()
        model(pictures()).backward()
        assert all(type(parameter.grad) is torch.Tensor for parameter in model.parameters())

    def test_the_text_says_so(self) -> None:
        with capture(RunMode.NO_DISPATCH):
            assert "estimates" not in MemoryUsageTracker.memory_usage_text()
            MemoryUsageTracker.end_capture("ALL")
            assert MemoryUsageTracker.memory_usage_text().endswith(
                "These numbers are estimates: nothing was allocated (NO_DISPATCH).\n"
            )

    def test_another_device_need_not_be_there(self) -> None:
        try:
            with FakeTensorMode():
                torch.ones(1).to("cuda")
        except RuntimeError as error:
            pytest.skip(f"PyTorch cannot do that itself: {error}")
        with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cuda"):
            x = torch.zeros(1000, device="cuda")
            with torch.no_grad():
                y = nn.Linear(1000, 10, bias=False).to("cuda")(x)
            MemoryUsageTracker.end_capture("FORWARD_PASS")
            # Rounded like the device's allocator.
            assert phases()["FORWARD_PASS"].total_allocations == 4096 + 40448 + 512
            del y

    @pytest.mark.filterwarnings("ignore")
    def test_what_is_compiled_runs_as_written(self) -> None:
        calls: list[int] = []

        def backend(graph: Any, inputs: object) -> Any:
            del inputs

            def called(*args: object) -> object:
                calls.append(1)
                return graph(*args)

            return called

        model = torch.compile(nn.Linear(8, 8), backend=backend)
        model(torch.ones(1, 8))
        with capture(RunMode.NO_DISPATCH):
            assert "FakeTensor" in repr(model(torch.ones(1, 8)))
            assert len(calls) == 1
        assert model(torch.ones(1, 8)).shape == (1, 8)
        assert len(calls) == 2

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_activations_that_are_computed_again(self) -> None:
        from torch.utils.checkpoint import checkpoint

        found = []
        for mode in RunMode:
            with capture(mode):
                block, x = Block(64), torch.ones(2, 8, 64, requires_grad=True)
                checkpoint(block, x, use_reentrant=False).sum().backward()
                MemoryUsageTracker.end_capture("ALL")
                found.append(phases())
                del block, x
        assert found[0] == found[1]

    def test_it_ends_where_it_began(self) -> None:
        guard = capture(RunMode.NO_DISPATCH)
        said: list[str] = []

        def ends() -> None:
            try:
                MemoryUsageTracker.end_capture("A")
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=ends)
        thread.start()
        thread.join()
        assert "must end in the thread that began it" in said[0]
        MemoryUsageTracker.end_capture("A")
        guard.release()
        assert type(torch.zeros(1)) is torch.Tensor

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_child_runs_for_real(self) -> None:
        with capture(RunMode.NO_DISPATCH):
            child = os.fork()
            if child == 0:
                is_real = type(torch.zeros(1)) is torch.Tensor and not MemoryUsageTracker.is_capturing()
                os._exit(0 if is_real else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert MemoryUsageTracker.is_capturing()


class StandInGraph:
    """A replacement for `ttnn.graph` that returns captures from files: one per phase, then empty ones."""

    class RunMode:
        """Like ttnn's: only the names are used."""

        NORMAL = "NORMAL"
        NO_DISPATCH = "NO_DISPATCH"

    def __init__(self, captures: list[Any]) -> None:
        self.captures = captures
        self.begun: list[str] = []
        self.is_open = False

    def begin_graph_capture(self, run_mode: str) -> None:
        assert not self.is_open
        self.is_open = True
        self.begun.append(run_mode)

    def end_graph_capture(self) -> Any:
        assert self.is_open
        self.is_open = False
        if self.captures:
            return self.captures.pop(0)
        empty: dict[str, Any] = {
            "params": None,
            "arguments": [],
            "connections": [],
            "input_tensors": [],
            "stacking_level": 0,
        }
        return [
            {"counter": 0, "node_type": "capture_start", **empty, "connections": [1]},
            {"counter": 1, "node_type": "capture_end", **empty},
        ]


class TestTtnn:
    @pytest.fixture
    def graph(self, monkeypatch: pytest.MonkeyPatch) -> StandInGraph:
        import types

        captured = json.loads((CORPUS / "ttnn_graph" / "linear.json").read_text())
        graph = StandInGraph([captured, json.loads((CORPUS / "ttnn_graph" / "linear-old.json").read_text())])
        ttnn = types.ModuleType("ttnn")
        ttnn.graph = graph  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "ttnn", ttnn)
        return graph

    def test_phases_are_graph_captures(self, graph: StandInGraph) -> None:
        expected = ttmem.open(CORPUS / "ttnn_graph" / "linear.json").summary()["ranks"][0]["phases"][0]
        with MemoryUsageTracker.begin_capture():
            MemoryUsageTracker.snapshot("FORWARD_PASS")
            MemoryUsageTracker.snapshot("OLD")
            MemoryUsageTracker.end_capture("END")
            for name in ("FORWARD_PASS", "OLD"):
                dram = MemoryUsageTracker.get_dram_usage(name)
                assert dram.peak == expected["segment_peak_bytes"] > 0
                assert dram.total_allocations == expected["allocations_bytes"]
                assert dram.total_deallocations == expected["deallocations_bytes"]
            l1 = MemoryUsageTracker.get_l1_usage("FORWARD_PASS")
            assert l1.peak_total == expected["l1_peak_total_bytes"] > 0
            assert MemoryUsageTracker.get_dram_usage("END") == (0, 0, 0)
        assert not graph.is_open
        assert set(graph.begun) == {"NORMAL"}

    def test_it_is_printed_as_tt_train_prints_it(
        self, graph: StandInGraph, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with MemoryUsageTracker.begin_capture():
            MemoryUsageTracker.end_capture("FORWARD_PASS")
            MemoryUsageTracker.print_memory_usage()
        assert not graph.is_open
        printed = [re.sub(r"\d+\.\d\d", "N", line) for line in capsys.readouterr().out.splitlines()]
        # The format is that of the Rust, C and C++ programs in docs/tracker.md.
        page = (CORPUS.parent / "docs" / "tracker.md").read_text(encoding="utf-8")
        lines = {re.sub(r"\d+\.\d\d", "N", line) for line in page.splitlines()}
        assert set(printed) <= lines
        assert len(printed) == 10

    def test_not_dispatching_is_left_to_ttnn(self, graph: StandInGraph) -> None:
        with MemoryUsageTracker.begin_capture(graph.RunMode.NO_DISPATCH):
            assert type(torch.zeros(1)) is torch.Tensor
            MemoryUsageTracker.end_capture("END")
            assert "estimates" in MemoryUsageTracker.memory_usage_text()
        assert set(graph.begun) == {"NO_DISPATCH"}

    def test_a_capture_that_is_damaged_is_said(self, graph: StandInGraph) -> None:
        graph.captures.insert(0, '{"devices": []}')
        with MemoryUsageTracker.begin_capture():
            with pytest.raises(ttmem.Error, match="the graph capture"):
                MemoryUsageTracker.snapshot("A")
            MemoryUsageTracker.snapshot("B")
            MemoryUsageTracker.end_capture("C")
            assert [dram.peak > 0 for _, dram in MemoryUsageTracker.get_dram_usage_all()] == [
                False,
                True,
                True,
            ]

    def test_pytorch_can_be_asked_for(self, graph: StandInGraph) -> None:
        with MemoryUsageTracker.begin_capture(source="torch"):
            assert graph.begun == []
        with pytest.raises(ValueError, match="device is only supported for PyTorch"):
            MemoryUsageTracker.begin_capture(source="ttnn", device="cpu")


class Allocator:
    """The counters of a device's allocator, updated like PyTorch's."""

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def take(self, size: int) -> None:
        self.current += size
        self.allocated += max(size, 0)
        self.freed += max(-size, 0)
        self.peak = max(self.peak, self.current)

    def stats(self) -> dict[str, Any]:
        return {f"allocated_bytes.all.{key}": value for key, value in vars(self).items()}


@pytest.mark.parametrize("seed", range(50))
def test_counters_of_an_allocator(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    allocator = Allocator()
    allocator.take(chance.randrange(1000))
    counters = Counters(allocator.stats)
    for _ in range(20):
        start, before, highest = allocator.current, allocator.peak, 0
        allocated, freed = allocator.allocated, allocator.freed
        was_reset = chance.random() < 0.2
        for _ in range(chance.randrange(10)):
            allocator.take(chance.randint(-allocator.current, 1000))
            highest = max(highest, allocator.current - start)
            if was_reset and chance.random() < 0.3:
                allocator.peak = allocator.current
        # Tracked tensors are less, because scratch memory is not included.
        seen = PhaseUsage(chance.randint(0, highest), 0, 0)
        peak, *others = counters.next(seen)
        assert others == [allocator.allocated - allocated, allocator.freed - freed]
        assert max(0, allocator.current - start, seen.peak) <= peak <= highest
        if allocator.peak > before and not was_reset:
            assert peak == highest


def test_counters_that_are_reset() -> None:
    allocator = Allocator()
    allocator.take(100)
    counters = Counters(allocator.stats)
    allocator.take(50)
    allocator.allocated = allocator.freed = 0
    allocator.take(-30)
    assert counters.next(PhaseUsage(50, 50, 30)) == (50, 50, 30)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
class TestCuda:
    def test_bytes_are_the_allocators(self) -> None:
        torch.zeros(1, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        with MemoryUsageTracker.begin_capture():
            start = torch.cuda.memory_allocated()
            model = Gpt().to("cuda")
            MemoryUsageTracker.snapshot("MODEL_CREATION")
            made = torch.cuda.memory_allocated()
            x = torch.randn(8, 64, 64, device="cuda")
            h = model.blocks(x)
            MemoryUsageTracker.snapshot("FORWARD_PASS")
            top = torch.cuda.max_memory_allocated()
            h.sum().backward()
            MemoryUsageTracker.end_capture("BACKWARD_PASS")
            found = phases()
            highest = torch.cuda.max_memory_allocated()
        model_phase = found["MODEL_CREATION"]
        assert model_phase.total_allocations - model_phase.total_deallocations == made - start
        assert found["FORWARD_PASS"].peak == top - made
        levels, level = [], start
        for phase in found.values():
            levels.append(level + phase.peak)
            level += phase.total_allocations - phase.total_deallocations
        assert level == torch.cuda.memory_allocated()
        assert max(levels) == highest

    def test_a_phase_below_an_earlier_peak(self) -> None:
        high = torch.zeros(64 * MIB, device="cuda")
        del high
        before = torch.cuda.max_memory_allocated()
        with MemoryUsageTracker.begin_capture():
            low = torch.zeros(4 * MIB, device="cuda")
            del low
            MemoryUsageTracker.end_capture("LOW")
            assert phases()["LOW"] == (16 * MIB, 16 * MIB, 16 * MIB)
        assert torch.cuda.max_memory_allocated() == before

    def test_estimates_are_what_is_measured(self) -> None:
        found = []
        for mode in RunMode:
            with MemoryUsageTracker.begin_capture(mode):
                model = Conv().to("cuda").layers[:8]
                y = model(torch.ones(4, 3, 32, 32, device="cuda"))
                MemoryUsageTracker.end_capture("FORWARD_PASS")
                phase = phases()["FORWARD_PASS"]
                found.append(phase.total_allocations - phase.total_deallocations)
                del model, y
        assert found[0] == pytest.approx(found[1], rel=0.01)
