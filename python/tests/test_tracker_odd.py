"""Unusual programs: the tracker must neither fail nor change what they do."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import json
import os
import signal
import sys
import textwrap
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem
from conftest import SWEEP, preloaded, ran

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncGenerator, Generator, Iterator
    from pathlib import Path


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[ttmem.MemoryTracker]:
    yield ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    ttmem.stop_memory_tracker()


def live(tracker: ttmem.MemoryTracker) -> list[dict[str, Any]]:
    """Returns the memory in use at the end."""
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    opened = ttmem.open(tracker.recording)
    end = opened.summary()["ranks"][0]["operations"]["total"]
    rows: list[dict[str, Any]] = opened.summary(at=end, top=1000)["ranks"][0]["at"]["pools"]["cpu"]["live"]
    return rows


def classes(tracker: ttmem.MemoryTracker) -> dict[str, str]:
    return {row["name"]: row["class"] for row in live(tracker) if row["name"] is not None}


def run(program: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in its own process, because it may crash."""
    return preloaded().run(["-c", textwrap.dedent(program), *args], cwd=folder)


@pytest.mark.parametrize(
    ("threads", "interval", "model", "passes"),
    [
        # More switches between threads in fewer passes.
        (2, 1e-5, "Sequential(Linear(8, 8), ReLU(), Linear(8, 1))", 2000 if SWEEP else 500),
        # Each backward pass takes the thread off the list of those that run models.
        (16, 1e-6, "Linear(8, 1)", 200 if SWEEP else 50),
    ],
    ids=["few threads", "many threads"],
)
def test_threads_that_train_models_of_their_own(
    tmp_path: Path, threads: int, interval: float, model: str, passes: int
) -> None:
    done = run(
        f"""
        import sys, threading, torch, ttmem
        from torch.nn import Linear, ReLU, Sequential
        tracker = ttmem.initialize_memory_tracker()
        sys.setswitchinterval({interval})

        def train():
            model = {model}
            for _ in range({passes}):
                model(torch.randn(4, 8)).sum().backward()
                model.zero_grad()

        threads = [threading.Thread(target=train) for _ in range({threads})]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(tracker.get_summary()["errors"])
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_one_operation_that_many_threads_enter(tmp_path: Path) -> None:
    done = run(
        """
        import sys, threading, ttmem
        tracker = ttmem.initialize_memory_tracker()
        sys.setswitchinterval(1e-6)
        operation, mode, ended = tracker.track_operation("shared"), tracker._mode, []
        end = mode.end
        mode.end = lambda call: (ended.append(call), end(call))

        def enter():
            for _ in range(500):
                with operation:
                    pass

        threads = [threading.Thread(target=enter) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(set(map(id, ended))), operation._calls, tracker.get_summary()["errors"])
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "4000 [] 0\n"), done.stderr


def test_passes_of_several_threads_end_each_for_itself(tracker: ttmem.MemoryTracker) -> None:
    mode = tracker._mode
    assert mode is not None
    inside, over = threading.Event(), threading.Event()

    def wait(gradient: torch.Tensor) -> torch.Tensor:
        inside.set()
        over.wait(10)
        return gradient

    def other() -> None:
        x = torch.ones(4, requires_grad=True)
        x.register_hook(wait)  # type: ignore[no-untyped-call]
        x.sum().backward()  # type: ignore[no-untyped-call]

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    torch.ones(4, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    assert mode.backward is None
    over.set()
    thread.join()
    assert mode.errors == 0


def test_processes_that_begin_in_the_same_second(tmp_path: Path) -> None:
    program = (
        "import torch, ttmem; t = ttmem.initialize_memory_tracker(); torch.ones(1000); print(t.recording)"
    )
    programs = [preloaded().start(["-c", program], cwd=tmp_path) for _ in range(4)]
    names = {program.wait().stdout.strip() for program in programs}
    assert len(names) == 4
    for name in names:
        assert ttmem.open(name).summary()["ranks"][0]["pools"]["cpu"]["peak_total"] >= 4000


def test_a_program_that_goes_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    ttmem.initialize_memory_tracker("profiles")
    monkeypatch.chdir(tmp_path / "other")
    assert os.path.exists(ttmem.stop_memory_tracker())
    assert sorted(path.suffix for path in (tmp_path / "profiles").iterdir()) == [".json", ".ttmem"]


def test_a_model_that_was_there_before(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32))
    tracker = ttmem.initialize_memory_tracker(tmp_path)
    model(torch.ones(4, 32))
    found = classes(tracker)
    assert found["0.weight"] == "parameter"
    assert found["1.running_mean"] == "buffer"


def test_gradients_that_are_sparse(tracker: ttmem.MemoryTracker) -> None:
    model = nn.Embedding(100, 16, sparse=True)
    model(torch.tensor([1, 2])).sum().backward()
    assert classes(tracker)["weight.grad"] == "gradient"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_script_beside_another_model(tracker: ttmem.MemoryTracker) -> None:
    script, model = torch.jit.script(nn.Linear(8, 8)), nn.Linear(16, 16)
    script(torch.ones(2, 8)).sum().backward()
    model(torch.ones(2, 16)).sum().backward()
    gradients = [row for row in live(tracker) if row["class"] == "gradient"]
    assert sorted(row["per_bank"] for row in gradients) == [32, 64, 256, 1024]


def test_an_operation_that_threads_share(tracker: ttmem.MemoryTracker) -> None:
    operation = tracker.track_operation("work")
    first, second = threading.Event(), threading.Event()
    kept = []

    def begin_first() -> None:
        with operation:
            first.set()
            second.wait(10)
            kept.append(torch.ones(1000))

    def begin_second() -> None:
        first.wait(10)
        with operation:
            second.set()
            threads[0].join()
            kept.append(torch.ones(2000))

    threads = [threading.Thread(target=begin_first), threading.Thread(target=begin_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(ttmem.stop_memory_tracker()) as file:
        (node,) = json.load(file)["operation_tree"]
    assert node["invocation_count"] == 2
    # Each call has the tensors of its own thread.
    assert node["max_memory_delta_mb"] == 8000 / (1 << 20)
    assert node["total_memory_delta_mb"] == 12000 / (1 << 20)


def test_trackers_that_are_stopped_in_another_thread_leave_no_pile(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for _ in range(5):
        ttmem.initialize_memory_tracker(tmp_path)
        thread = threading.Thread(target=ttmem.stop_memory_tracker)
        thread.start()
        thread.join()
        assert torch._C._len_torch_dispatch_stack() <= 1
        handler = signal.getsignal(signal.SIGTERM)
        assert handler.__self__.before is before  # type: ignore[union-attr]
    ttmem.initialize_memory_tracker(tmp_path)
    ttmem.stop_memory_tracker()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_compiler_that_another_thread_imports(
    tracker: ttmem.MemoryTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", types.ModuleType("torch._dynamo.utils"))
    assert os.path.exists(tracker.stop())


def test_parts_that_fail_to_end_lose_no_profile(tracker: ttmem.MemoryTracker) -> None:
    class Broken:
        def close(self) -> None:
            raise RuntimeError

    tracker._parts.insert(0, Broken())
    assert os.path.exists(tracker.stop())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not available")
def test_a_child_can_be_ended(tmp_path: Path) -> None:
    done = run(
        """
        import os, signal, torch, ttmem
        ttmem.initialize_memory_tracker()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            os.write(writing, b"ready")
            while True:
                signal.pause()
        os.close(writing)
        assert os.read(reading, 5) == b"ready"
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        tmp_path,
    )
    assert done.stdout.split() == [str(-signal.SIGTERM)], done.stderr


def test_ctrl_c_is_the_programs(tracker: ttmem.MemoryTracker) -> None:
    mode = tracker._mode
    assert mode is not None

    class Model(nn.Linear):
        def named_modules(self, *args: Any, **kwargs: Any) -> Any:
            if not self.__dict__.get("was_asked"):
                self.__dict__["was_asked"] = True
                raise KeyboardInterrupt
            return super().named_modules(*args, **kwargs)

    model = Model(4, 4)
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(1, 4))
    assert mode.errors == 0
    model(torch.ones(1, 4))
    del model
    gc.collect()


def test_an_optimizer_that_is_odd(tracker: ttmem.MemoryTracker) -> None:
    class Odd(torch.optim.SGD):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return self is other

    model = nn.Linear(4, 4)
    optimizer = Odd(model.parameters(), lr=0.1)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert tracker.get_summary()["errors"] > 0


@pytest.mark.parametrize("change", ["to", "assign", "replace"])
def test_parameters_that_are_others_later(tracker: ttmem.MemoryTracker, change: str) -> None:
    model = nn.Sequential(nn.Linear(32, 32))
    model(torch.ones(1, 32))
    if change == "to":
        model.to(torch.float64)
    elif change == "assign":
        model.load_state_dict(
            {name: torch.ones_like(p) for name, p in model.state_dict().items()}, assign=True
        )
    else:
        model[0].weight = nn.Parameter(torch.ones(32, 32))
    model(torch.ones(1, 32, dtype=model[0].weight.dtype))  # type: ignore[arg-type]
    rows = [row for row in live(tracker) if row["class"] == "parameter"]
    assert {row["name"] for row in rows} == {"0.weight", "0.bias"}
    assert len(rows) == 2


def test_parameters_that_are_made_by_the_first_pass(tracker: ttmem.MemoryTracker) -> None:
    model = nn.LazyLinear(16)
    model(torch.ones(1, 8))
    model(torch.ones(1, 8))
    assert classes(tracker)["weight"] == "parameter"


def test_the_state_of_an_optimizer_that_is_loaded(tracker: ttmem.MemoryTracker) -> None:
    model = nn.Linear(8, 8, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    rows = [row for row in live(tracker) if row["class"] == "optimizer"]
    assert {"exp_avg", "exp_avg_sq"} <= {row["name"] for row in rows}


def test_inputs_that_are_given_by_name(tracker: ttmem.MemoryTracker) -> None:
    class Model(nn.Module):
        def forward(self, *, words: torch.Tensor) -> torch.Tensor:
            return words * 2

    batch = {"words": torch.ones(64, 64)}
    Model()(**batch)
    (row,) = [row for row in live(tracker) if row["per_bank"] == 64 * 64 * 4]
    assert row["class"] == "input"


def test_a_script_runs_as_it_does_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import atexit, inspect, os, pickle, sys, threading
            import torch

            class Thing:
                pass

            def late():
                # The script is over when the interpreter waits for its threads.
                threading.main_thread().join()
                kept.append(torch.ones(500_000))
                print("late", type(pickle.loads(pickle.dumps(Thing()))) is Thing)

            kept = []
            os.chdir("other")
            print(os.path.isabs(__file__), inspect.getsource(Thing).split()[0], sys.argv)
            print(late.__annotations__, __name__, sys.modules["__main__"].kept is kept)
            atexit.register(lambda: print("over", pickle.loads(pickle.dumps(Thing())).__class__.__name__))
            threading.Thread(target=late).start()
            """
        )
    )

    alone = ran([sys.executable, "script.py", "1"], cwd=tmp_path)
    track = ["-m", "ttmem", "track", "--output-dir", "profiles", "script.py", "1"]
    tracked = preloaded().run(track, cwd=tmp_path, check=True)
    assert (tracked.returncode, tracked.stdout) == (alone.returncode, alone.stdout)
    assert "late True" in alone.stdout
    (recording,) = (tmp_path / "profiles").glob("*.ttmem")
    assert ttmem.open(recording).summary()["ranks"][0]["pools"]["cpu"]["peak_total"] >= 2_000_000


def test_checkpoints_with_names_that_are_none(tracker: ttmem.MemoryTracker) -> None:
    class Nameless:
        def __str__(self) -> str:
            raise RuntimeError

    with ttmem.memory_checkpoint("\ud800"):
        ttmem.memory_checkpoint(Nameless())  # type: ignore[arg-type]
    assert tracker.get_summary()["errors"] == 3


def test_modules_that_are_added_later(tracker: ttmem.MemoryTracker) -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    model(torch.ones(1, 8))
    model.append(nn.Linear(8, 16))
    model(torch.ones(1, 8))
    assert classes(tracker)["1.weight"] == "parameter"


def test_parts_of_a_model_that_are_called_alone(tracker: ttmem.MemoryTracker) -> None:
    model, other = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), nn.Linear(4, 4)
    model(torch.ones(1, 8))
    model[1](torch.ones(1, 8)).sum().backward()
    other(torch.ones(1, 4)).sum().backward()
    found = classes(tracker)
    assert found["1.weight.grad"] == found["weight.grad"] == "gradient"
    assert "0.weight.grad" not in found


def test_weights_that_are_tied(tracker: ttmem.MemoryTracker) -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    model(torch.ones(1, 8)).sum().backward()
    assert set(classes(tracker)) == {"0.weight", "0.weight.grad"}


class Late(Exception):
    """Raised by signal handlers in these tests."""


class Signaled(nn.Linear):
    """A model that gets a signal while the tracker registers it."""

    def named_modules(self, *args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return super().named_modules(*args, **kwargs)


@pytest.mark.parametrize("how", ["function", "method", "partial", "object"])
def test_what_a_signal_handler_raises_is_the_programs(tracker: ttmem.MemoryTracker, how: str) -> None:
    mode = tracker._mode
    assert mode is not None

    class Handler:
        def raises(self, *_: object) -> None:
            raise Late

        __call__ = raises

    def raises(*_: object) -> None:
        raise Late

    handlers: dict[str, Any] = {
        "function": raises,
        "method": Handler().raises,
        "partial": functools.partial(raises, None),
        "object": Handler(),
    }

    before = signal.signal(signal.SIGUSR1, handlers[how])
    try:
        with pytest.raises(Late):
            Signaled(4, 4)(torch.ones(1, 4))
        # Without a signal handler, the same error is the tracker's.
        mode.failed(Late())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert mode.errors == 1


def test_a_signal_while_the_tracker_stops(tmp_path: Path) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path)

    def handler(*_: object) -> None:
        raise Late

    class Part:
        def close(self) -> None:
            signal.raise_signal(signal.SIGUSR1)

    tracker._parts.insert(0, Part())
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Late):
            ttmem.stop_memory_tracker()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".ttmem"]
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_program_that_goes_on_when_it_is_told_to_end(tmp_path: Path) -> None:
    done = run(
        """
        import glob, json, os, signal, torch, ttmem
        signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
        ttmem.initialize_memory_tracker()
        first = torch.ones(1000)
        os.kill(os.getpid(), signal.SIGTERM)
        (saved,) = glob.glob("*.json")
        print(json.load(open(saved))["device_totals"]["cpu"]["peak_bytes"])
        second = torch.ones(2000)
        print(ttmem.get_memory_summary()["total_bytes"])
        """,
        tmp_path,
    )
    assert done.stdout.split() == ["asked", "4000", "12000"], done.stderr
    (saved,) = tmp_path.glob("*.json")
    assert json.loads(saved.read_text())["device_totals"]["cpu"]["peak_bytes"] == 12000


def test_what_the_tracker_does_is_not_told_to_the_program(tmp_path: Path) -> None:
    class Counted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(str(func))
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]

    class Counting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(str(func))
            return func(*args, **(kwargs or {}))

    def train() -> list[str]:
        told.clear()
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        optimizer = torch.optim.Adam(model.parameters())
        with Counting():
            for _ in range(2):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
        model(torch.ones(2, 4).as_subclass(Counted)).sum()
        return [name.partition(" at ")[0] for name in told]

    told: list[str] = []
    alone = train()
    tracker = ttmem.initialize_memory_tracker(tmp_path)
    tracked = train()
    assert tracker.get_summary()["errors"] == 0
    ttmem.stop_memory_tracker()
    assert tracked == alone


def tree(path: str) -> dict[str, Any]:
    with open(path) as file:
        return {node["name"]: node for node in json.load(file)["operation_tree"]}


@pytest.mark.usefixtures("tracker")
def test_a_forward_pass_that_ctrl_c_ends() -> None:
    class Interrupted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.is_interrupted = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.is_interrupted:
                raise KeyboardInterrupt
            inner: torch.Tensor = self.inner(x)
            return inner

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Interrupted()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # Not a submodule, but a model inside a model.
            part: torch.Tensor = self.part(other[0](x))
            return part

    model, other = Outer(), [nn.Linear(4, 4)]
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            model(torch.ones(1, 4))
    nn.Linear(4, 4)(torch.ones(1, 4)).sum().backward()
    model.part.is_interrupted = False
    model(torch.ones(1, 4)).sum().backward()
    found = tree(ttmem.stop_memory_tracker())
    assert {name: node["invocation_count"] for name, node in found.items()} == {
        "Outer": 4,
        "Linear (2)": 1,
        "backward": 2,
    }
    inside = {node["name"]: node["invocation_count"] for node in found["Outer"]["children"]}
    assert inside == {"Linear": 4, "part": 4}


def test_gradients_that_are_made_by_hand(tracker: ttmem.MemoryTracker) -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters())
    gradients = torch.autograd.grad(model(torch.ones(1, 8)).sum(), [*model.parameters()])
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    found = classes(tracker)
    assert found["weight.grad"] == found["bias.grad"] == "gradient"


def test_generators_are_operations_while_they_run(tracker: ttmem.MemoryTracker) -> None:
    kept = []

    @tracker.track_operation("tokens")
    def tokens(count: int) -> Generator[int, int | None, str]:
        for at in range(count):
            kept.append(torch.ones(1000))
            try:
                got = yield at
            except Late:
                kept.append(torch.ones(5000))
                got = None
            if got is not None:
                kept.append(torch.ones(got))
        return "over"

    generator = tokens(3)
    assert inspect.isgeneratorfunction(tokens)
    assert next(generator) == 0
    kept.append(torch.ones(70_000))
    assert generator.send(2000) == 1
    assert generator.throw(Late()) == 2
    with pytest.raises(StopIteration, match="over"):
        next(generator)
    assert [*tokens(2)] == [0, 1]
    closed = tokens(1)
    next(closed)
    closed.close()
    node = tree(ttmem.stop_memory_tracker())["tokens"]
    assert node["invocation_count"] == 4 + 3 + 2
    made = 3 * 1000 + 2000 + 5000 + 2 * 1000 + 1000
    assert node["total_memory_delta_mb"] == made * 4 / (1 << 20)


def test_generators_of_tasks_are_operations_while_they_run(tracker: ttmem.MemoryTracker) -> None:
    kept = []

    @tracker.track_operation("tokens")
    async def tokens(count: int) -> AsyncGenerator[int, None]:
        for at in range(count):
            await asyncio.sleep(0)
            kept.append(torch.ones(1000))
            yield at

    async def serve(name: str) -> list[int]:
        with tracker.track_operation(name):
            found = [at async for at in tokens(3)]
            kept.append(torch.ones(10))
            return found

    async def both() -> list[list[int]]:
        return [*await asyncio.gather(serve("a"), serve("b"))]

    assert inspect.isasyncgenfunction(tokens)
    assert asyncio.run(both()) == [[0, 1, 2], [0, 1, 2]]
    found = tree(ttmem.stop_memory_tracker())
    for name in "ab":
        (node,) = found[name]["children"]
        assert (node["name"], node["invocation_count"]) == ("tokens", 4)
        assert node["total_memory_delta_mb"] == 12_000 / (1 << 20)
        assert found[name]["total_memory_delta_mb"] == 12_040 / (1 << 20)


def test_objects_that_cannot_be_looked_into(tracker: ttmem.MemoryTracker) -> None:
    class Odd:
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    tracker.label(Odd(), "kv_cache")
    assert tracker.get_summary()["errors"] == 1
    with pytest.raises(ValueError, match='invalid class "cache"'):
        tracker.label(Odd(), "cache")


def test_a_thread_that_refuses_another_run(tracker: ttmem.MemoryTracker) -> None:
    class Fixed(threading.Thread):
        @property
        def run(self) -> Any:
            return lambda: has_run.append(True)

    has_run: list[bool] = []
    thread = Fixed()
    thread.start()
    thread.join()
    assert has_run == [True]
    assert tracker.get_summary()["errors"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /dev/full here")
def test_a_profile_that_cannot_be_written_leaves_nothing_behind(
    tracker: ttmem.MemoryTracker, tmp_path: Path
) -> None:
    assert tracker.recording is not None
    unfinished = tracker.recording.removesuffix("ttmem") + "json.part"
    os.symlink("/dev/full", unfinished)
    assert ttmem.stop_memory_tracker() == ""
    assert [path.suffix for path in tmp_path.iterdir()] == [".ttmem"]


@pytest.mark.parametrize("how", ["resets", "inherited", "wrapped", "odd"])
def test_signal_handlers_are_known_by_what_they_are_told(tracker: ttmem.MemoryTracker, how: str) -> None:
    mode = tracker._mode
    assert mode is not None

    def resets(*_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise Late

    class Base:
        def __call__(self, number: int, frame: object) -> None:
            del number
            raise Late(type(frame).__name__)

    class Inherits(Base):
        pass

    class Odd(Base):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    handlers: dict[str, Any] = {
        "resets": resets,
        "inherited": Inherits(),
        "wrapped": functools.lru_cache(Base()),
        "odd": Odd(),
    }

    before = signal.signal(signal.SIGUSR1, handlers[how])
    try:
        with pytest.raises(Late):
            Signaled(4, 4)(torch.ones(1, 4))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert mode.errors == 0


@pytest.mark.parametrize("where", ["forward", "step"])
def test_operations_after_ctrl_c_are_what_they_are(tracker: ttmem.MemoryTracker, where: str) -> None:
    class Interrupted(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if where == "forward" and interrupts:
                raise interrupts.pop()
            return super().forward(x)

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            if where == "step" and interrupts:
                raise interrupts.pop()
            return super().step(closure)

    interrupts: list[BaseException] = [KeyboardInterrupt()]
    model = Interrupted(4, 4)
    optimizer = Optimizer(model.parameters())

    def train() -> None:
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()

    with pytest.raises(KeyboardInterrupt):
        train()
    with tracker.track_operation("training"):
        for _ in range(3):
            with tracker.track_operation("iteration"):
                train()
        kept = torch.ones(1000)
    found = tree(ttmem.stop_memory_tracker())
    del kept
    assert found["training"]["invocation_count"] == 1
    (iteration,) = found["training"]["children"]
    assert (iteration["name"], iteration["invocation_count"]) == ("iteration", 3)
    names = {node["name"]: node["invocation_count"] for node in iteration["children"]}
    assert names == {"Interrupted": 3, "backward": 3, "Optimizer.step": 3}


def test_generators_hold_nothing_that_they_gave(tracker: ttmem.MemoryTracker) -> None:
    @tracker.track_operation("batches")
    def batches() -> Generator[torch.Tensor, None, None]:
        for _ in range(2):
            yield torch.ones(1000)

    batch: torch.Tensor | None
    for batch in batches():
        given = weakref.ref(batch)
        del batch
        assert given() is None


def test_coroutines_that_are_generators(tracker: ttmem.MemoryTracker) -> None:
    @tracker.track_operation("old")
    @types.coroutine
    def old() -> Generator[None, None, int]:
        yield from asyncio.sleep(0).__await__()
        return 7

    async def main() -> int:
        found: int = await old()
        return found

    assert asyncio.run(main()) == 7
