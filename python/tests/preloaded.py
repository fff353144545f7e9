"""Runs programs in interpreters with PyTorch already loaded.

Importing PyTorch takes two seconds of CPU time, longer than most of the programs that the tests run.
`Preloaded` starts one interpreter that imports it and forks for each program. The rest is as in a new
interpreter: arguments, environment, working directory, streams, `__main__`, the `.pth` file that starts the
tracker, `import torch` (which finds the loaded module), `atexit` functions, and exit codes.

Tests of the start itself run a new interpreter instead.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.util
import os
import runpy
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


# Not this file as a script: a program replaces `__main__`.
SERVER = "import sys; sys.path[0] = sys.argv[1]; import preloaded; preloaded.serve(int(sys.argv[2]))"


class Request(NamedTuple):
    """A program to run."""

    words: list[str]
    """Arguments of `python`: `-c PROGRAM`, `-m MODULE` or a script, and its arguments."""
    folder: str
    environment: dict[str, str]
    outputs: tuple[str, str]
    """The files for standard output and standard error."""


class Preloaded:
    """An interpreter with PyTorch loaded, which forks for each program."""

    def __init__(self) -> None:
        """Starts the interpreter."""
        self._outputs = tempfile.TemporaryDirectory()
        self._started = 0
        self._connection, theirs = Pipe()
        # The tracker must not start in the interpreter, only in its forks.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TTMEM_")}
        environment["TTMEM_HOME"] = self._outputs.name
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, os.path.dirname(__file__), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()

    def start(
        self, words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Program:
        """Starts a program. Its environment may differ from that of the tests in ttmem's variables."""
        environment = dict(os.environ if env is None else env)
        changed = {name for name, _ in environment.items() ^ os.environ.items()}
        if not all(name.startswith(("PYTEST_", "TTMEM_")) for name in changed):
            msg = f"not read by an interpreter that is already running: {sorted(changed)}"
            raise ValueError(msg)
        self._started += 1
        outputs = [os.path.join(self._outputs.name, f"{self._started}.{name}") for name in ("out", "err")]
        folder = str(cwd or Path.cwd())
        process = self._ask(Request([*words], folder, environment, (outputs[0], outputs[1])))
        return Program(self, [*words], process, [Path(path) for path in outputs])

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end."""
        done = self.start(words, cwd=cwd, env=env).wait()
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def exit_code(self, process: int, timeout: float) -> int | None:
        """Returns the exit code of a program; kills it after the timeout and returns `None`."""
        self._connection.send(process)
        in_time = self._connection.poll(timeout)
        if not in_time:
            # Each program leads a process group with its children. It may have ended by now.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(self._connection.recv())
        return code if in_time else None

    def close(self) -> None:
        """Ends the interpreter."""
        self._connection.close()
        self._process.wait()
        self._outputs.cleanup()

    def _ask(self, request: Request) -> int:
        self._connection.send(request)
        process: int = self._connection.recv()
        return process


class Program(NamedTuple):
    """A running program."""

    interpreter: Preloaded
    words: list[str]
    process: int
    outputs: list[Path]

    def wait(self, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Waits for the end of the program; returns its exit code and output."""
        code = self.interpreter.exit_code(self.process, timeout)
        out, err = (path.read_text(encoding="utf-8") for path in self.outputs)
        if code is None:
            raise subprocess.TimeoutExpired(self.words, timeout, out, err)
        return subprocess.CompletedProcess(self.words, code, out, err)


class LoadedTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `import torch` find the loaded module as if it were loaded only then."""

    def __init__(self) -> None:
        """Hides the module until it is imported."""
        self._module = sys.modules.pop("torch")
        self._spec, self._loader = self._module.__spec__, self._module.__loader__
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds PyTorch."""
        del path, target
        if name != "torch":
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._module.__file__, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the loaded module."""
        del spec
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leaves the module as it is."""
        sys.meta_path.remove(self)
        module.__spec__, module.__loader__ = self._spec, self._loader


def requested(connection: Connection) -> Request:
    """Forks for each request, and returns the request in the fork."""
    while True:
        try:
            request = connection.recv()
        except EOFError:
            sys.exit()
        if isinstance(request, int):
            connection.send(os.waitpid(request, 0)[1])
            continue
        process = os.fork()
        if process == 0:
            connection.close()
            os.setsid()
            return Request(*request)
        connection.send(process)


def prepare(request: Request) -> None:
    """Resets this process to the state of a new interpreter."""
    for stream, path in enumerate((os.devnull, *request.outputs)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, stream)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    LoadedTorch()
    site.addpackage(sysconfig.get_path("purelib"), "ttmem-start.pth", set())


def execute(words: list[str]) -> None:
    """Runs a program as `__main__`."""
    namespace = vars(sys.modules["__main__"])
    builtins = namespace["__builtins__"]
    namespace.clear()
    namespace |= {"__name__": "__main__", "__doc__": None, "__package__": None, "__spec__": None}
    namespace |= {"__builtins__": builtins, "__annotations__": {}}
    first, *others = words
    if first == "-m":
        sys.argv, sys.path[0] = ["-m", *others[1:]], os.getcwd()
        runpy._run_module_as_main(others[0])  # type: ignore[attr-defined]
        return
    if first == "-c":
        sys.argv, sys.path[0] = ["-c", *others[1:]], ""
        source, name = others[0].encode(), "<string>"
    else:
        name = os.path.abspath(first)
        sys.argv, sys.path[0] = [*words], os.path.dirname(os.path.realpath(first))
        source, namespace["__file__"] = Path(name).read_bytes(), name
    exec(compile(source, name, "exec"), namespace)  # noqa: S102 - the program is the tests'


def serve(descriptor: int) -> None:
    """Imports PyTorch, waits for requests, and runs the programs in forks."""
    import torch

    del torch
    # Forks share the memory of loaded objects until a garbage collection visits them.
    gc.collect()
    gc.freeze()
    request = requested(Connection(descriptor))
    prepare(request)
    execute(request.words)
