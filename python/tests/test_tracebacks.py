"""Tracebacks of tracked programs contain none of ttmem's frames, and SIGTERM prints the recording's path."""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys
import textwrap
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest

import ttmem
from conftest import preloaded, ran
from ttmem import _frames
from ttmem._decorated import decorated

FILE = re.compile(r'^ *(?:\| *)?File "(.*)", line \d+', re.MULTILINE)
OURS = os.path.join(os.path.dirname(ttmem.__file__), "")
RUNPY = runpy.__file__, "<frozen runpy>"
TRACK = ["-m", "ttmem", "track", "--output-dir", "profiles"]
needs_311 = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 restores the traceback that `except` has changed"
)


def files(text: str) -> list[str]:
    """Returns the file of each frame in printed tracebacks, checking that none is ours."""
    found = FILE.findall(text)
    assert not [file for file in found if file.startswith(OURS) or "ttmem/" in file or file in RUNPY], text
    return found


def written(folder: Path, program: str) -> Path:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    return path


EXCEPTIONS = """
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        code: int

    class Immutable(Exception):
        def __setattr__(self, name, value):
            raise TypeError("immutable")

    class Slotted(Exception):
        __slots__ = ("code",)
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    class Overridden(Exception):
        @property
        def __traceback__(self):
            raise RuntimeError("read")
        @__traceback__.setter
        def __traceback__(self, trace):
            raise RuntimeError("assigned")
        def with_traceback(self, trace):
            raise RuntimeError("called")
"""
ENDS = {
    "a function": """
        def work():
            raise ValueError("no data")
        work()
    """,
    "a cause": """
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("no data") from error
    """,
    "a syntax error": "x = = 3\n",
    "an import": "import nothing_of_that_name\n",
    "an excepthook of the program": """
        import sys, traceback
        sys.excepthook = lambda kind, error, trace: traceback.print_exception(kind, error, trace)
        raise ValueError("no data")
    """,
    "exceptions that forbid assignment": textwrap.dedent(EXCEPTIONS)
    + textwrap.dedent("""
        def work(kinds):
            try:
                if kinds:
                    work(kinds[1:])
            finally:
                raise (kinds or [ValueError])[0](3)
        work([Frozen, Immutable, Slotted, Overridden])
    """),
    "Ctrl-C": """
        import os, signal, time
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    """,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_as_it_does_alone(tmp_path: Path, end: str) -> None:
    script = written(tmp_path, ENDS[end])
    alone = ran([sys.executable, script.name], cwd=tmp_path)
    tracked = ran([sys.executable, *TRACK, script.name], cwd=tmp_path)
    assert alone.returncode != 0
    assert tracked.returncode == alone.returncode
    *text, path = tracked.stderr.splitlines()
    assert text == alone.stderr.splitlines()
    assert path.startswith("ttmem: ")
    files(tracked.stderr)


@pytest.mark.parametrize("how", ["module", "zip file"])
def test_a_module_and_a_zip_file(tmp_path: Path, how: str) -> None:
    program = "def work():\n    raise ValueError('no data')\nwork()\n"
    if how == "module":
        (tmp_path / "work.py").write_text(program)
        words = ["-m", "work"]
    else:
        with zipfile.ZipFile(tmp_path / "work.zip", "w") as file:
            file.writestr("__main__.py", program)
        words = ["work.zip"]
    done = preloaded().run([*TRACK, *words], cwd=tmp_path)
    assert done.returncode == 1
    assert [Path(file).name for file in files(done.stderr)] == [
        "work.py" if how == "module" else "__main__.py"
    ] * 2
    assert "ValueError: no data" in done.stderr


@pytest.mark.parametrize("words", [["myrunpy.py"], ["runpy.py"], ["-m", "pkg.runpy"], ["-m", "pkg.myrunpy"]])
def test_programs_with_the_name_of_runpy(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "pkg").mkdir()
    script = tmp_path / (words[0] if len(words) == 1 else words[1].replace(".", "/") + ".py")
    script.write_text("def work():\n    raise ValueError('no data')\nwork()\n")
    done = preloaded().run([*TRACK, *words], cwd=tmp_path)
    assert done.returncode == 1
    assert files(done.stderr) == [str(script)] * 2
    assert "ValueError: no data" in done.stderr


def test_a_module_that_does_not_exist(tmp_path: Path) -> None:
    done = preloaded().run([*TRACK, "-m", "nothing_of_that_name"], cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("ImportError: No module named nothing_of_that_name\n")


@pytest.mark.parametrize("error", [ValueError("failed"), SyntaxError("failed")])
def test_errors_of_the_runner_keep_their_frames(error: Exception) -> None:
    with pytest.raises(type(error)):
        exec(compile("raise error", _frames.RUNNER, "exec"), {"error": error})  # noqa: S102
    trace = error.__traceback__
    assert trace is not None
    error.__traceback__ = trace.tb_next
    _frames.without_ours(error)
    assert error.__traceback__ is (None if isinstance(error, SyntaxError) else trace.tb_next)


CATCHES = """
    import asyncio, threading, traceback
    import torch, ttmem

    tracker = ttmem.get_memory_tracker()

    class Layer(torch.nn.Module):
        def forward(self, x):
            raise ValueError("failed")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer()
        def forward(self, x):
            return self.layer(x)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("failed")

    class Optimizer(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("failed")

    def hooked(*_):
        raise ValueError("failed")

    def forward():
        Model()(torch.ones(3))

    def hook():
        layer = torch.nn.Identity()
        layer.register_forward_hook(hooked)
        layer(torch.ones(3))

    def hook_of_a_part():
        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(3, 3)))
        model[0][0].register_forward_hook(hooked, with_kwargs=True)
        model(torch.ones(3))

    def pre_hook():
        layer = torch.nn.Identity()
        layer.register_forward_pre_hook(hooked)
        layer(torch.ones(3))

    def backward_hook():
        layer = torch.nn.Linear(3, 3)
        layer.register_full_backward_hook(hooked)
        layer(torch.ones(2, 3)).sum().backward()

    def step_hook():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
        optimizer.register_step_post_hook(hooked)
        optimizer.step()

    def closure():
        torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))]).step(hooked)

    def gradient_hook():
        x = torch.ones(3, requires_grad=True)
        x.register_hook(hooked)
        (x * 2).sum().backward()

    def backward():
        Double.apply(torch.ones(3, requires_grad=True)).sum().backward()

    def step():
        Optimizer([torch.nn.Parameter(torch.ones(3))], lr=0.1).step()

    def operation():
        with tracker.track_operation("work"), ttmem.memory_checkpoint("before"):
            raise ValueError("failed")

    def profiled():
        with tracker.track_pytorch_ops():
            raise ValueError("failed")

    def shapes():
        torch.ones(3) @ torch.ones(4)

    def allocation():
        torch.empty(1 << 50)

    def storage():
        torch.UntypedStorage(4).resize_(-5)

    @tracker.track_operation("function")
    def function():
        raise ValueError("failed")

    @tracker.track_operation("generator")
    def generator():
        yield 1
        raise ValueError("failed")

    @tracker.track_operation("coroutine")
    async def coroutine():
        raise ValueError("failed")

    @tracker.track_operation("tokens")
    async def tokens():
        yield 1
        raise ValueError("failed")

    def generated():
        list(generator())

    def thrown():
        running = generator()
        next(running)
        running.throw(ValueError("failed"))

    class Methods:
        @tracker.track_operation("method")
        def method(self):
            function()

    def method():
        Methods().method()

    def delegated():
        def outer():
            yield from generator()
        list(outer())

    def called_wrong():
        function(3)

    async def all_tokens():
        async for _ in tokens():
            pass

    def task():
        asyncio.run(coroutine())

    def tasks():
        asyncio.run(all_tokens())

    async def thrown_into_tokens():
        running = tokens()
        await anext(running)
        await running.athrow(ValueError("failed"))

    def task_throws():
        asyncio.run(thrown_into_tokens())

    @tracker.track_operation("slow")
    async def slow():
        await asyncio.sleep(60)

    def late():
        asyncio.run(asyncio.wait_for(slow(), 0.01))

    def thread():
        errors = []
        threading.excepthook = lambda about: errors.append(about.exc_value)
        running = threading.Thread(target=function)
        running.start()
        running.join()
        raise errors[0]

    def captured():
        with ttmem.MemoryUsageTracker.begin_capture(device="cpu"):
            x = torch.ones(3, requires_grad=True)
            x.register_hook(hooked)
            ttmem.memory_snapshot(x, "FORWARD", "BACKWARD").sum().backward()

    def estimated():
        with ttmem.MemoryUsageTracker.begin_capture(ttmem.RunMode.NO_DISPATCH, device="cpu"):
            torch.ones(3) @ torch.ones(4)
"""
NAMES = re.findall(r"^    def (\w+)\(\):", CATCHES, re.MULTILINE)
NAMES = [name for name in NAMES if name not in ("generator", "tokens")]


@pytest.mark.parametrize("level", ["phases", "tensors", "ops"])
@needs_311
def test_exceptions_that_the_program_catches(tmp_path: Path, level: str) -> None:
    assert len(NAMES) >= 25
    show = f"""
        for one in ({", ".join(NAMES)}):
            try:
                one()
            except Exception:
                print("-----", one.__name__)
                print(traceback.format_exc())
    """
    script = written(tmp_path, textwrap.dedent(CATCHES) + textwrap.dedent(show))
    done = preloaded().run([*TRACK, "--level", level, script.name], cwd=tmp_path, check=True)
    parts = dict(part.split("\n", 1) for part in done.stdout.split("----- ")[1:])
    assert [*parts] == NAMES
    for name, text in parts.items():
        program = [file for file in files(text) if file == str(script)]
        # The line that calls it, and the line in it.
        assert len(program) >= (1 if name == "called_wrong" else 2), text


PLACES = """
    import asyncio, sys, traceback
    import torch, ttmem

    tracker = ttmem.get_memory_tracker()

    def fail(*_):
        raise expected

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, gradient):
            fail()

    function = tracker.track_operation("function")(fail)

    @tracker.track_operation("generator")
    def generator():
        yield 1
        fail()

    @tracker.track_operation("coroutine")
    async def coroutine():
        fail()

    @tracker.track_operation("tokens")
    async def tokens():
        yield 1
        fail()

    def hook():
        layer = torch.nn.Identity()
        layer.register_forward_hook(fail)
        layer(torch.ones(3))

    def module():
        layer = torch.nn.Identity()
        layer.forward = fail
        torch.nn.Sequential(layer)(torch.ones(3))

    def backward():
        Double.apply(torch.ones(3, requires_grad=True)).sum().backward()

    def closure():
        torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1).step(fail)

    def operation():
        with tracker.track_operation("work"), ttmem.memory_checkpoint("before"):
            fail()

    def generated():
        list(generator())

    def thrown():
        running = generator()
        next(running)
        running.throw(expected)

    def task():
        asyncio.run(coroutine())

    async def all_tokens():
        async for _ in tokens():
            pass

    def tasks():
        asyncio.run(all_tokens())

    for kind in (Frozen, Immutable, Slotted, Overridden):
        for place in (function, hook, module, backward, closure, operation, generated, thrown, task, tasks):
            expected = kind(3)
            try:
                place()
            except BaseException as error:
                assert error is expected, (kind, place, error)
                print("-----", kind.__name__, place.__name__)
                print(*traceback.format_tb(sys.exc_info()[2]))
"""


@pytest.mark.parametrize("level", ["not tracked", "phases", "tensors", "ops"])
def test_exceptions_that_forbid_assignment(tmp_path: Path, level: str) -> None:
    script = written(tmp_path, textwrap.dedent(EXCEPTIONS) + textwrap.dedent(PLACES))
    track = [] if level == "not tracked" else [*TRACK, "--level", level]
    done = preloaded().run([*track, script.name], cwd=tmp_path, check=True)
    parts = done.stdout.split("----- ")[1:]
    assert len(parts) == 4 * 10
    for part in parts:
        assert "raise expected" in part or "thrown" in part
        if sys.version_info >= (3, 11):
            assert str(script) in files(part), part


def test_an_exception_at_the_recursion_limit() -> None:
    error, reached = ValueError("failed"), False

    def work() -> NoReturn:
        nonlocal reached
        reached = True
        raise error

    work = decorated(work, nullcontext)

    def dive(depth: int) -> None:
        work() if depth == 0 else dive(depth - 1)

    ends = set()
    for depth in range(sys.getrecursionlimit()):
        reached = False
        with pytest.raises((ValueError, RecursionError)) as raised:
            dive(depth)
        ends.add((reached, raised.value is error))
        error.__traceback__ = None
    assert ends == {(True, True), (False, False)}


HOOKS = {
    "an audit hook raises": ("raise RuntimeError('forbidden')", "ValueError failed"),
    "a signal handler raises": ("os.kill(os.getpid(), signal.SIGUSR1)", "TimeoutError late"),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_exceptions_while_frames_are_removed(tmp_path: Path, hook: str) -> None:
    does, expected = HOOKS[hook]
    program = f"""
        import os, signal, sys, ttmem

        def late(number, frame):
            raise TimeoutError("late")

        signal.signal(signal.SIGUSR1, late)

        @ttmem.get_memory_tracker().track_operation("function")
        def function():
            global is_on
            is_on = True
            raise ValueError("failed")

        def hook(event, args):
            global is_on
            if is_on and event == "sys._getframe":
                {does}

        is_on = False
        sys.addaudithook(hook)
        try:
            function()
        except Exception as error:
            is_on = False
            print(type(error).__name__, error)
    """
    done = preloaded().run([written(tmp_path, program).name], cwd=tmp_path, check=True)
    assert done.stdout == expected + "\n"


@pytest.mark.parametrize("how", ["function()", "raise ExceptionGroup('several', [failure(function)])"])
@needs_311
def test_exceptions_of_the_tracker_that_a_program_starts(tmp_path: Path, how: str) -> None:
    program = f"""
        import torch, ttmem
        tracker = ttmem.initialize_memory_tracker("profiles")

        @tracker.track_operation("function")
        def function():
            raise ValueError("failed")

        def failure(of):
            try:
                of()
            except ValueError as error:
                return error

        {how}
    """
    script = written(tmp_path, program)
    done = preloaded().run([script.name], cwd=tmp_path)
    assert done.returncode == 1
    assert str(script) in files(done.stderr)
    assert "ValueError: failed" in done.stderr


def test_errors_of_ttmem_keep_their_frames(tmp_path: Path) -> None:
    script = written(tmp_path, "import ttmem\nttmem.get_memory_tracker().label((), 'nothing')\n")
    done = preloaded().run([*TRACK, script.name], cwd=tmp_path)
    first, *others = FILE.findall(done.stderr)
    assert first == str(script)
    assert others
    assert all(file.startswith(OURS) for file in others)


@needs_311
def test_signal_handlers_of_the_program(tmp_path: Path) -> None:
    program = """
        import os, signal, sys, ttmem
        def ended(number, frame):
            raise TimeoutError("asked to end")
        signal.signal(signal.SIGTERM, ended)
        ttmem.initialize_memory_tracker("profiles")
        os.kill(os.getpid(), signal.SIGTERM)
    """
    script = written(tmp_path, program)
    done = preloaded().run([script.name], cwd=tmp_path)
    assert files(done.stderr)[-2:] == [str(script)] * 2
    assert "TimeoutError: asked to end" in done.stderr


HANDLERS = {"none": "", "own": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"}


@pytest.mark.parametrize("handler", HANDLERS)
def test_sigterm_prints_the_path(tmp_path: Path, handler: str) -> None:
    program = f"""
        import os, signal, sys, time
        import torch
        {HANDLERS[handler]}
        kept = torch.ones(1 << 20)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    """
    done = preloaded().run([*TRACK, written(tmp_path, program).name], cwd=tmp_path)
    assert done.returncode == (7 if handler == "own" else -signal.SIGTERM)
    (recording,) = (tmp_path / "profiles").glob("*.ttmem")
    assert done.stderr.splitlines() == [f"ttmem: {recording}"]
    assert recording.with_suffix(".json").exists()
    assert ttmem.load(recording).summary()["ranks"][0]["pools"]["cpu"]["peak_total"] == 4 << 20


def test_sigterm_prints_nothing_if_the_program_starts_the_tracker(tmp_path: Path) -> None:
    program = """
        import os, signal, ttmem
        ttmem.initialize_memory_tracker("profiles")
        os.kill(os.getpid(), signal.SIGTERM)
    """
    done = preloaded().run([written(tmp_path, program).name], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
