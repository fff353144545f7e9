"""The memory tracker on real programs. The numbers 1 to 23 are those of known defects to avoid."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ttmem
from conftest import preloaded, ran
from ttmem._torch.compiled import compiles_beside_modes
from ttmem.tracker import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1 << 20


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[ttmem.MemoryTracker]:
    tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path, interval=60.0)
    yield tracker
    ttmem.stop_memory_tracker()


def cpu() -> dict[str, Any]:
    found: dict[str, Any] = ttmem.get_memory_summary()["devices"]["cpu"]
    return found


def now() -> int:
    return int(cpu()["total_bytes"])


def stopped() -> dict[str, Any]:
    path = ttmem.stop_memory_tracker()
    profile: dict[str, Any] = json.loads(Path(path).read_text())
    return profile


def run(program: str, *args: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    return preloaded().run(["-c", textwrap.dedent(program), *args], cwd=cwd, check=check)


@pytest.mark.usefixtures("tracker")
class TestBytes:
    def test_03_views_are_one_storage(self) -> None:
        x = torch.zeros(16 * MIB)
        views = [x.view(-1, 1024), x.detach(), x[:], x.reshape(1024, -1)]
        assert now() == 64 * MIB
        del x
        assert now() == 64 * MIB
        views.clear()
        assert now() == 0

    def test_04_a_slice_holds_the_whole(self) -> None:
        with torch.inference_mode():
            x = torch.zeros(16 * MIB)
            y = x[:1]
            del x
            assert now() == 64 * MIB
        del y
        assert now() == 0

    def test_05_expanded_is_what_it_was(self) -> None:
        expanded = torch.zeros(1).expand(16 * MIB)
        assert now() == 4
        del expanded

    def test_06_meta_and_fake_take_nothing(self) -> None:
        from torch._subclasses import FakeTensorMode

        meta = torch.empty(10**12, device="meta")
        with FakeTensorMode():
            fake = torch.empty(10**9)
        assert now() == 0
        del meta, fake

    def test_07_sparse_is_its_parts(self) -> None:
        dense = torch.zeros(8192, 8192)
        dense[3, 4] = 1.0
        before = now()
        sparse = dense.to_sparse()
        parts = sparse._indices().untyped_storage().nbytes() + sparse._values().untyped_storage().nbytes()
        assert now() - before == parts == 20
        del sparse, dense
        assert now() == 0

    def test_08_what_autograd_holds_is_there(self) -> None:
        w = torch.zeros(4 * MIB, requires_grad=True)
        h = (w * 2).exp()
        total = h.sum()
        del h
        assert now() - 16 * MIB - 4 == 16 * MIB
        total.backward()  # type: ignore[no-untyped-call]
        del total
        assert now() == 32 * MIB  # the weight and its gradient

    def test_09_addresses_are_used_again(self) -> None:
        for _ in range(200):
            large = torch.zeros(MIB)
            del large
            small = torch.zeros(1)
            assert now() == 4
            del small

    def test_resizing_is_seen(self) -> None:
        x = torch.empty(0)
        x.resize_(MIB)
        assert now() == 4 * MIB
        x.untyped_storage().resize_(0)
        assert now() == 0
        out = torch.empty(0)
        torch.add(torch.ones(1024), 1.0, out=out)
        assert now() == 4096

    @pytest.mark.filterwarnings("ignore:.*quantize.*")
    def test_quantized_and_sharing(self) -> None:
        q = torch.quantize_per_tensor(torch.zeros(1024), 0.1, 0, torch.qint8)
        assert now() == 1024
        shared = torch.zeros(MIB)
        other = torch.tensor([]).set_(shared.untyped_storage())
        assert now() == 1024 + 4 * MIB
        del q, shared, other
        assert now() == 0


class TestOperations:
    def test_10_peaks_between_snapshots_are_known(self, tracker: ttmem.MemoryTracker) -> None:
        with tracker.track_operation("spike"):
            t = torch.zeros(8 * MIB)
            del t
        spike = stopped()["operation_summary"]["spike"]
        assert (spike["peak_mb"], spike["total_memory_delta_mb"]) == (32.0, 0.0)

    def test_12_an_operation_owns_what_it_makes(self, tracker: ttmem.MemoryTracker) -> None:
        with tracker.track_operation("fwd"):
            z = torch.zeros(MIB)
        ttmem.memory_checkpoint("after")
        tensors = stopped()["snapshots"][-2]["device_breakdown"]["cpu"]["tensors"]
        assert [(row["operation"], row["size_mb"]) for row in tensors] == [("fwd", 4.0)]
        del z

    def test_13_and_14_what_is_freed_is_freed_once(self, tracker: ttmem.MemoryTracker) -> None:
        keep = [torch.zeros(MIB) for _ in range(10)]
        with tracker.track_operation("freeit"):
            keep.clear()
        for _ in range(20):
            ttmem.memory_checkpoint("again")
        path = tracker.recording
        freed = stopped()["operation_allocations"]["freeit"][0]
        assert (freed["memory_delta_mb"], freed["tensor_delta"], freed["freed_mb"]) == (-40.0, -10, 40.0)
        assert path is not None
        summary = ttmem.open(path).summary()
        assert summary["ranks"][0]["operations"]["total"] == 20

    def test_15_an_empty_operation_did_nothing(self, tracker: ttmem.MemoryTracker) -> None:
        keep = torch.zeros(MIB)
        with tracker.track_operation("noop"):
            pass
        noop = stopped()["operation_allocations"]["noop"][0]
        assert (noop["memory_delta_mb"], noop["tensor_delta"], noop["allocated_mb"]) == (0.0, 0, 0.0)
        assert noop["pre_total_mb"] == noop["post_total_mb"] == 4.0
        del keep

    def test_16_threads_have_stacks_of_their_own(self, tracker: ttmem.MemoryTracker) -> None:
        barrier = threading.Barrier(4)
        sizes = {}

        def work(number: int) -> None:
            barrier.wait()
            for _ in range(20):
                with tracker.track_operation(f"outer{number}"):
                    kept = torch.zeros(1024 * (number + 1))
                    with tracker.track_operation("inner"):
                        x = torch.zeros(1024)
                        del x
            sizes[number] = kept.numel()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tree = stopped()["operation_tree"]
        assert sorted(node["name"] for node in tree) == [f"outer{n}" for n in range(4)]
        for node in tree:
            number = int(node["name"][-1])
            assert node["invocation_count"] == 20
            assert [child["name"] for child in node["children"]] == ["inner"]
            inner = node["children"][0]
            assert (inner["invocation_count"], inner["allocated_mb"]) == (20, 20 * 4096 / MIB)
            assert node["allocated_mb"] == pytest.approx(20 * (4096 + 4096 * (number + 1)) / MIB)

    def test_tasks_have_trees_of_their_own(self, tracker: ttmem.MemoryTracker) -> None:
        @tracker.track_operation("decorated")
        async def decorated() -> None:
            await asyncio.sleep(0)

        async def request(number: int) -> None:
            with tracker.track_operation(f"request{number}"):
                await asyncio.sleep(0)
                x = torch.zeros(1024 * (number + 1))
                await asyncio.sleep(0)
                with tracker.track_operation("step"):
                    await decorated()
                    y = torch.zeros(256)
                    await asyncio.sleep(0)
                    del y
                del x

        async def server() -> None:
            await asyncio.gather(*(request(number % 8) for number in range(64)))

        asyncio.run(server())
        tree = stopped()["operation_tree"]
        assert sorted(node["name"] for node in tree) == [f"request{n}" for n in range(8)]
        for node in tree:
            size = 4096 * (int(node["name"][-1]) + 1)
            assert node["peak_mb"] == pytest.approx((size + 1024) / MIB)
            assert node["total_memory_delta_mb"] == 0.0
            (step,) = node["children"]
            assert (step["name"], step["invocation_count"], step["peak_mb"]) == ("step", 8, 1024 / MIB)
            assert [child["name"] for child in step["children"]] == ["decorated"]

    def test_an_exception_ends_the_operation(self, tracker: ttmem.MemoryTracker) -> None:
        with pytest.raises(ZeroDivisionError), tracker.track_operation("fails"):
            _ = 1 / 0
        with tracker.track_operation("next"):
            pass
        tree = stopped()["operation_tree"]
        assert sorted(node["name"] for node in tree) == ["fails", "next"]

    def test_17_snapshots_and_exports_at_once(self, tracker: ttmem.MemoryTracker) -> None:
        failed: list[BaseException] = []

        def again(do: Callable[[], object]) -> None:
            try:
                for _ in range(40):
                    do()
            except BaseException as error:
                failed.append(error)
                raise

        def capture() -> None:
            with tracker.track_operation("capture"):
                ttmem.memory_checkpoint("again")
                torch.zeros(1000)

        does: list[Callable[[], object]] = [capture, capture, ttmem.save_memory_profile]
        threads = [threading.Thread(target=again, args=(do,)) for do in does]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert tracker.get_summary()["errors"] == 0
        assert stopped()["operation_summary"]["capture"]["invocation_count"] == 80

    def test_23_times_never_go_back(self, tracker: ttmem.MemoryTracker) -> None:
        for _ in range(50):
            with tracker.track_operation("tick"):
                torch.zeros(1)
        ticks = stopped()["operation_allocations"]["tick"]
        starts = [tick["start_ns"] for tick in ticks]
        assert starts == sorted(starts)
        assert all(tick["duration_ns"] >= 0 for tick in ticks)


class TestClasses:
    def test_18_what_tensors_are(self, tracker: ttmem.MemoryTracker) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 8))
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.randn(20, 64)
        activation = model(x)
        activation.sum().backward()
        optimizer.step()
        ttmem.memory_checkpoint("look")
        path = tracker.recording
        assert path is not None
        ttmem.stop_memory_tracker()
        live = ttmem.open(path).summary(at=None)["ranks"][0]["peaks"]["cpu"]["live"]
        named = {row["name"]: row["class"] for row in live if row["name"]}
        assert named["0.weight"] == "parameter"
        assert named["0.weight.grad"] == "gradient"
        assert named["1.running_mean"] == "buffer"
        assert named["exp_avg"] == "optimizer"
        assert {"input", "activation"} <= {row["class"] for row in live}
        del activation, x

    def test_19_all_modules_have_their_scopes(self, tracker: ttmem.MemoryTracker) -> None:
        class Block(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.proj = torch.nn.Linear(16, 16)

            def forward(self, *, x: torch.Tensor) -> dict[str, torch.Tensor]:
                y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
                return {"out": self.proj(y) + x}

        block = Block()
        with tracker.track_operation("step"):
            out = block(x=torch.randn(1, 2, 8, 16))["out"]
        (step,) = stopped()["operation_tree"]
        (forward,) = [node for node in step["children"] if node["kind"] == "forward"]
        assert (forward["name"], [child["name"] for child in forward["children"]]) == ("Block", ["proj"])
        assert forward["kept_mb"] > 0
        del out


class TestFiles:
    def test_20_short_runs_are_saved(self, tracker: ttmem.MemoryTracker) -> None:
        with tracker.track_operation("only"):
            pass
        path = ttmem.stop_memory_tracker()
        assert Path(path).name.startswith("memory_profile_")
        assert json.loads(Path(path).read_text())["operation_summary"]["only"]["invocation_count"] == 1

    def test_21_the_largest_ten_are_listed(self, tracker: ttmem.MemoryTracker) -> None:
        many = [torch.zeros(4) for _ in range(5000)]
        for _ in range(5):
            ttmem.memory_checkpoint("look")
        del tracker
        path = ttmem.stop_memory_tracker()
        assert os.path.getsize(path) < 100_000
        last = json.loads(Path(path).read_text())["snapshots"][-1]
        assert (last["tensor_count"], len(last["device_breakdown"]["cpu"]["tensors"])) == (5000, 10)
        assert last["total_bytes"] == last["device_breakdown"]["cpu"]["total_bytes"] == 5000 * 16
        del many

    def test_22_the_documented_call_works(self, tmp_path: Path) -> None:
        ttmem.initialize_memory_tracker(output_dir=str(tmp_path), enabled=True, interval=5.0)
        assert ttmem.stop_memory_tracker()
        ttmem.initialize_memory_tracker(output_dir=".", enabled=False)
        assert ttmem.stop_memory_tracker() == ""

    def test_after_kill_9_it_is_there(self, tmp_path: Path) -> None:
        done = run(
            """
            import glob, os, signal, time, torch, ttmem
            tracker = ttmem.initialize_memory_tracker(output_dir=".")
            with tracker.track_operation("step"):
                keep = [torch.zeros(1024) for _ in range(100)]

            def written():
                try:
                    ranks = ttmem.open(tracker.recording).summary()["ranks"]
                except ttmem.Error:
                    # Nothing is written yet.
                    return None
                return ranks[0]["pools"].get("cpu", {}).get("final_total") if ranks else None

            while written() != 409_600:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        (recording,) = tmp_path.glob("*.ttmem")
        profile = ttmem.open(recording)
        assert profile.summary()["ranks"][0]["pools"]["cpu"]["final_total"] == 409_600
        assert any("killed" in warning["message"] for warning in profile.summary()["source"]["warnings"])

    def test_at_the_end_of_the_program_it_is_saved(self, tmp_path: Path) -> None:
        run("import ttmem; ttmem.initialize_memory_tracker(output_dir='.')", cwd=tmp_path)
        assert len(list(tmp_path.glob("memory_profile_*.json"))) == 1


class TestTheProgram:
    def test_01_and_02_nothing_walks_all_objects(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: object) -> None:
            msg = "all objects were asked for"
            raise AssertionError(msg)

        for name in ("get_objects", "get_referrers", "get_referents"):
            monkeypatch.setattr(gc, name, refused)
        tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path, interval=0.01)
        sampled = threading.Semaphore(0)
        sample = tracker._sample

        def sample_and_tell() -> None:
            sample()
            sampled.release()

        monkeypatch.setattr(tracker, "_sample", sample_and_tell)
        with tracker.track_operation("step"):
            keep = torch.zeros(1024)
            for _ in range(3):
                assert sampled.acquire(timeout=60)
        ttmem.memory_checkpoint("look")
        profile = stopped()
        assert (profile["snapshots"][-1]["total_bytes"], profile["metadata"]["num_snapshots"] > 3) == (
            4096,
            True,
        )
        del keep

    @pytest.mark.usefixtures("tracker")
    @pytest.mark.filterwarnings("ignore:Guards may run slower on Python")
    def test_compiling_is_as_without(self) -> None:
        def count() -> tuple[int, int]:
            torch._dynamo.reset()
            graphs, calls = [], []

            def backend(graph: Any, inputs: object) -> Any:
                del inputs
                graphs.append(graph)

                def called(*args: object) -> object:
                    calls.append(1)
                    return graph(*args)

                return called

            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
            compiled = torch.compile(model, backend=backend)
            for _ in range(3):
                compiled(torch.randn(4, 8)).sum().backward()
            return len(graphs), len(calls)

        watched = count()
        ttmem.stop_memory_tracker()
        assert watched == count() == (1, 3)

    def test_a_fork_leaves_the_recording_to_its_parent(self, tmp_path: Path) -> None:
        run(
            """
            import os, torch, ttmem
            ttmem.initialize_memory_tracker(output_dir=".")
            keep = torch.zeros(1024)
            child = os.fork()
            if child == 0:
                more = torch.zeros(4096)
                assert not ttmem.get_memory_summary()["enabled"]
                assert torch._C._len_torch_dispatch_stack() == 0
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            again = torch.zeros(2048)
            """,
            cwd=tmp_path,
        )
        (recording,) = tmp_path.glob("*.ttmem")
        assert ttmem.open(recording).summary()["ranks"][0]["pools"]["cpu"]["peak_total"] == 4096 + 8192

    def test_workers_of_a_loader_work(self, tmp_path: Path) -> None:
        run(
            """
            import torch, ttmem
            from torch.utils.data import DataLoader, TensorDataset
            ttmem.initialize_memory_tracker(output_dir=".")
            data = TensorDataset(torch.arange(64.0))
            total = sum(batch.sum() for (batch,) in DataLoader(data, batch_size=8, num_workers=2))
            assert total == sum(range(64)), total
            """,
            cwd=tmp_path,
        )

    def test_errors_of_the_tracker_stay_with_it(self, tracker: ttmem.MemoryTracker) -> None:
        assert tracker._mode is not None
        tracker._mode.failed(ValueError("ours"))
        tracker._mode.failed(ValueError("ours"))
        assert ttmem.get_memory_summary()["errors"] == 2
        with pytest.raises(RuntimeError, match="shape"):
            torch.zeros(2).view(3)

    def test_nothing_is_left_behind(self, tmp_path: Path) -> None:
        before = (threading.Thread.start, torch.autograd.backward, torch.UntypedStorage.resize_)
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        ttmem.stop_memory_tracker()
        assert (threading.Thread.start, torch.autograd.backward, torch.UntypedStorage.resize_) == before
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_threads_from_before_are_named(self, tmp_path: Path) -> None:
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait, name="elder")
        thread.start()
        try:
            ttmem.initialize_memory_tracker(output_dir=tmp_path)
            warnings = stopped()["metadata"]["warnings"]
        finally:
            ended.set()
            thread.join()
        assert any("elder" in warning for warning in warnings)


class TestWhatWentWrongElsewhere:
    """Regressions found in a review of the tracker."""

    @pytest.mark.parametrize("many", [2, 5])
    def test_generators_that_wait_in_an_operation(self, tracker: ttmem.MemoryTracker, many: int) -> None:
        def wait(name: str) -> Iterator[None]:
            while True:
                with tracker.track_operation(name):
                    yield

        waiting = [wait(f"wait {number}") for number in range(many)]
        before = sys.getallocatedblocks()
        for _ in range(6000):
            for generator in waiting:
                next(generator)
        # Ended calls are not kept.
        assert sys.getallocatedblocks() - before < 3000
        totals = stopped()["operation_summary"]
        assert totals["wait 0"]["invocation_count"] >= 5999

    def test_a_call_inside_of_many_that_are_over(self, tmp_path: Path) -> None:
        run(
            """
            import contextvars, ttmem
            tracker = ttmem.initialize_memory_tracker(output_dir=".")

            def wait():
                with tracker.track_operation("wait"):
                    yield

            def begin():
                waiting = [wait() for _ in range(50_000)]
                for generator in waiting:
                    next(generator)
                return waiting

            # They end in another context than the one that they began in.
            # Each holds the one around it until the last ends.
            for generator in contextvars.copy_context().run(begin):
                generator.close()
            """,
            cwd=tmp_path,
        )

    def test_a_task_that_begins_the_next(self, tracker: ttmem.MemoryTracker) -> None:
        async def server() -> None:
            loop = asyncio.get_running_loop()
            done = loop.create_future()
            count = 0

            def tick() -> None:
                nonlocal count
                count += 1
                with tracker.track_operation("tick"):
                    if count < 20_000:
                        loop.call_soon(tick)
                    else:
                        done.set_result(None)

            loop.call_soon(tick)
            await done

        asyncio.run(server())
        (tick,) = stopped()["operation_tree"]
        assert (tick["invocation_count"], tick["children"]) == (20_000, [])

    def test_inside_of_another_mode(self, tmp_path: Path) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False):
            ttmem.initialize_memory_tracker(output_dir=tmp_path)
        keep = torch.zeros(MIB)
        assert now() == 4 * MIB
        ttmem.stop_memory_tracker()
        assert torch._C._len_torch_dispatch_stack() == 0
        del keep

    def test_a_step_that_fails_is_over(self, tracker: ttmem.MemoryTracker) -> None:
        embedding = torch.nn.Embedding(4, 4, sparse=True)
        optimizer = torch.optim.Adam(embedding.parameters())
        for _ in range(3):
            with tracker.track_operation("train"):
                embedding(torch.zeros(1, dtype=torch.long)).sum().backward()
                with pytest.raises(RuntimeError, match="sparse"):
                    optimizer.step()
        with tracker.track_operation("later"):
            pass
        assert sorted(node["name"] for node in stopped()["operation_tree"]) == ["later", "train"]

    def test_operations_in_compiled_code_are_none(self, tracker: ttmem.MemoryTracker) -> None:
        @torch.compile(backend="eager", fullgraph=True)
        def f(x: torch.Tensor) -> torch.Tensor:
            with tracker.track_operation("inside"):
                y = x.sin()
            return y + 1

        assert f(torch.zeros(2)).tolist() == [1.0, 1.0]
        profile = stopped()
        assert "inside" not in profile["operation_summary"]
        # If compiled code runs under a mode, nothing is missing.
        says = any("compiled code" in warning for warning in profile["metadata"]["warnings"])
        assert says != compiles_beside_modes()

    @pytest.mark.usefixtures("tracker")
    def test_tensors_made_of_tensors(self) -> None:
        from torch.testing._internal.two_tensor import TwoTensor

        two = TwoTensor(torch.zeros(1024), torch.zeros(1024)) + 1
        assert now() == 8192
        del two
        jagged = torch.nested.nested_tensor([torch.zeros(3), torch.zeros(5)], layout=torch.jagged)
        assert now() < 200
        del jagged

    def test_what_was_there_is_nobodys(self, tmp_path: Path) -> None:
        old = torch.zeros(MIB)
        model = torch.nn.Linear(64, 64)
        tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path)
        with tracker.track_operation("view"):
            view = old[:1]
        with tracker.track_operation("forward"):
            out = model(torch.zeros(1, 64))
        summary = stopped()["operation_summary"]
        assert summary["view"]["allocated_mb"] == 0.0
        assert summary["forward"]["allocated_mb"] == 2 * 256 / MIB
        del view, out

    def test_threads_that_see_the_same_first(self, tmp_path: Path) -> None:
        old = [torch.zeros(64) for _ in range(500)]
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=lambda: [w.view(-1) for w in old]) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert now() == 500 * 256
        old.clear()
        assert now() == 0
        ttmem.stop_memory_tracker()

    def test_a_folder_that_is_no_text(self, tmp_path: Path) -> None:
        folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
        os.mkdir(folder)
        script = os.path.join(folder, b"script.py")
        Path(os.fsdecode(script)).write_text(
            "import torch, ttmem\n"
            "ttmem.initialize_memory_tracker(output_dir='.')\n"
            "keep = torch.zeros(1024)\n"
            "assert ttmem.get_memory_summary()['total_bytes'] == 4096\n"
        )
        preloaded().run([os.fsdecode(script)], cwd=tmp_path, check=True)

    def test_a_tracker_that_was_stopped_is_given_back(self, tmp_path: Path) -> None:
        tracker = ttmem.initialize_memory_tracker(output_dir=tmp_path)
        keep = torch.zeros(1024)
        mode = weakref.ref(tracker._mode)
        ttmem.stop_memory_tracker()
        del tracker
        gc.collect()
        assert mode() is None
        del keep

    def test_names_may_be_anything(self, tracker: ttmem.MemoryTracker) -> None:
        for name in (5, None, "\ud800"):
            with tracker.track_operation(name):  # type: ignore[arg-type]
                pass

    def test_saving_goes_on(self, tracker: ttmem.MemoryTracker) -> None:
        keep = torch.zeros(1024)
        path = ttmem.save_memory_profile()
        assert json.loads(Path(path).read_text())["metadata"]["warnings"] == []
        assert ttmem.get_memory_tracker() is tracker
        del keep

    def test_a_decorator_from_before(self, tmp_path: Path) -> None:
        @ttmem.get_memory_tracker().track_operation("early")
        def work() -> None:
            pass

        work()
        ttmem.initialize_memory_tracker(output_dir=tmp_path)
        work()
        assert stopped()["operation_summary"]["early"]["invocation_count"] == 1

    def test_an_operation_inside_of_itself(self, tracker: ttmem.MemoryTracker) -> None:
        operation = tracker.track_operation("again")
        with operation, operation:
            pass
        assert stopped()["operation_summary"]["again"]["invocation_count"] == 2


class TestDisabled:
    def test_everything_is_nothing(self) -> None:
        tracker = ttmem.get_memory_tracker()
        assert ttmem.memory_checkpoint("x") is NOTHING
        with tracker.track_operation("x"), ttmem.memory_checkpoint("y"):
            pass
        assert ttmem.get_memory_summary() == {"enabled": False}
        assert ttmem.save_memory_profile() == ttmem.stop_memory_tracker() == ""

    def test_without_torch_it_says_so(self, tmp_path: Path) -> None:
        program = """
            import sys
            sys.modules["torch"] = None
            import ttmem
            try:
                ttmem.initialize_memory_tracker(output_dir=".")
            except ModuleNotFoundError as error:
                assert "pip install torch" in str(error), error
        """
        done = ran([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("interval", "level"), [(0.0, "tensors"), (1.0, "everything")])
def test_wrong_arguments_are_said(interval: float, level: Any) -> None:
    with pytest.raises(ValueError, match=r"interval|level"):
        ttmem.initialize_memory_tracker(interval=interval, level=level)


def test_ctrl_c_ends_it_as_before(tmp_path: Path) -> None:
    done = run(
        """
        import os, signal, ttmem
        ttmem.initialize_memory_tracker(output_dir=".")
        os.kill(os.getpid(), signal.SIGINT)
        """,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode in (-signal.SIGINT, 130, 1)
    assert len(list(tmp_path.glob("memory_profile_*.json"))) == 1


@pytest.mark.parametrize("handler", ["none", "own"])
def test_being_told_to_end_saves_first(tmp_path: Path, handler: str) -> None:
    done = run(
        """
        import os, signal, sys, ttmem
        if sys.argv[1] == "own":
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
        ttmem.initialize_memory_tracker(output_dir=".")
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        handler,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == (7 if handler == "own" else -signal.SIGTERM)
    assert len(list(tmp_path.glob("memory_profile_*.json"))) == 1


SCRIPT = """
import sys
import torch
keep = torch.zeros(int(sys.argv[1]))
print(__name__, sys.argv)
sys.exit(5)
"""


def test_a_script_is_watched_without_a_change(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "ttmem", "track", "--output-dir", "out", "script.py", "1024", "--x"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (5, "__main__ ['script.py', '1024', '--x']\n")
    (path,) = (tmp_path / "out").glob("*.json")
    assert path.with_suffix(".ttmem").name in done.stderr
    assert json.loads(path.read_text())["snapshots"][-1]["total_bytes"] == 4096


def test_the_environment_starts_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "TTMEM_TRACK": "1", "TTMEM_TRACK_DIR": "out"}
    command = [sys.executable, "script.py", "1024"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120, env=environment
    )
    assert (done.returncode, done.stdout) == (5, "__main__ ['script.py', '1024']\n")
    assert len(list((tmp_path / "out").glob("*.json"))) == 1
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print('ttmem' in sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert plain.stdout == "False\n"


class TestMore:
    def test_operations_of_pytorch(self, tracker: ttmem.MemoryTracker) -> None:
        model = torch.nn.Linear(32, 16)
        with contextlib.suppress(ZeroDivisionError), tracker.track_pytorch_ops():
            for _ in range(3):
                model(torch.zeros(4, 32))
            _ = 1 / 0
        rows = {row["op_name"]: row for row in stopped()["pytorch_operations"]}
        assert rows["aten::linear"]["count"] == 3
        assert rows["aten::linear"]["input_shapes"] == [[4, 32], [16, 32], [16]]
        assert rows["aten::linear"]["cpu_time_us"] > 0
        assert rows["aten::linear"]["cuda_time_us"] is None

    def test_what_people_say_of_tensors(self, tracker: ttmem.MemoryTracker) -> None:
        cache = {"layers": [(torch.zeros(1024), torch.zeros(1024)) for _ in range(2)]}
        tracker.label(cache, "kv_cache", "cache")
        with pytest.raises(ValueError, match="kv_cache"):
            tracker.label(cache, "nothing")
        tensors = stopped()["snapshots"][-1]["device_breakdown"]["cpu"]["tensors"]
        assert {row["class"] for row in tensors} == {"kv_cache"}
        assert "cache.layers.1.0" in {row["name"] for row in tensors}
