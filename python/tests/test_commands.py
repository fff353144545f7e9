"""The package's commands behave like the binaries: exit codes, streams, signals, child processes."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ttmem
from conftest import LOG, MODULE, PROFILER, ROOT, TTMEM, ran
from ttmem import __main__ as commands


@pytest.mark.parametrize("words", [TTMEM, MODULE], ids=["ttmem", "python -m ttmem"])
def test_the_version_is_the_packages(words: list[str]) -> None:
    command = ran([*words, "--version"])
    assert (command.returncode, command.stdout, command.stderr) == (0, f"ttmem {ttmem.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "name"), [(TTMEM, "ttmem"), (MODULE, "python -m ttmem")], ids=["ttmem", "python -m ttmem"]
)
def test_usage_names_the_command_that_was_run(words: list[str], name: str) -> None:
    for arguments, usage in [
        (["--help"], f"Usage: {name} [OPTIONS]"),
        (["summary", "--help"], f"Usage: {name} summary [OPTIONS]"),
        (["config", "update", "--help"], f"Usage: {name} config update [OPTIONS]"),
        (["track", "--help"], f"usage: {name} track [-h]"),
        (["summary", "--nothing"], f"Usage: {name} summary [OPTIONS]"),
        (["track"], f"usage: {name} track [-h]"),
    ]:
        command = ran([*words, *arguments])
        lines = (command.stdout + command.stderr).splitlines()
        assert any(line.startswith(usage) for line in lines), arguments
        assert "__main__" not in command.stdout + command.stderr


def test_the_older_command_is_there() -> None:
    command = ran([*PROFILER, "--version"])
    assert (command.returncode, command.stdout) == (0, f"tt-memory-profiler {ttmem.__version__}\n")
    assert ran(PROFILER).returncode == 2


@pytest.mark.parametrize("words", [TTMEM, MODULE], ids=["ttmem", "python -m ttmem"])
def test_exit_codes_are_those_that_are_promised(words: list[str], tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.log"
    quiet.write_text("RuntimeTTNN |    DEBUG | Executing operation: nothing of ours\n" * 3)
    for arguments, code in [
        (["summary", str(LOG)], 0),
        (["formats"], 0),
        (["--help"], 0),
        (["summary"], 2),
        (["nothing"], 2),
        (["summary", "missing.log"], 2),
        ([], 2),
        (["summary", str(quiet)], 4),
    ]:
        command = ran([*words, *arguments], stdin=subprocess.DEVNULL)
        assert command.returncode == code, arguments
        assert bool(command.stdout) == (code == 0), arguments
        assert bool(command.stderr) == (code != 0), arguments
        assert "Traceback" not in command.stderr


def test_words_are_those_of_the_interpreter_whatever_they_are() -> None:
    command = ran([*TTMEM, "summary", "naïve \N{SNOWMAN}.log"])
    assert command.stderr.startswith("ttmem: cannot read naïve \N{SNOWMAN}.log: ")
    odd = subprocess.run([*TTMEM, "run", "--", b"\xff"], capture_output=True, check=False)
    assert odd.returncode == 2
    assert b"cannot start" in odd.stderr


def test_whoever_has_seen_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = subprocess.run([*TTMEM, "summary", LOG], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (command.returncode, command.stderr) == (0, b"")


def on_terminal(
    words: list[str], environment: dict[str, str], *keys: tuple[bytes, bytes]
) -> tuple[int, bytes]:
    """Runs a command on a terminal, presses keys when a word is drawn; returns its exit code and output."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execve(words[0], words, environment | {"TERM": "xterm-256color"})  # noqa: S606
    drawn, seen, left = b"", 0, list(keys)
    while select.select([terminal], [], [], 30)[0]:
        try:
            drawn += os.read(terminal, 1 << 16)
        except OSError:
            # The command has closed the terminal.
            break
        if left and left[0][0] in drawn[seen:]:
            os.write(terminal, left.pop(0)[1])
            seen = len(drawn)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        waited_for = f"{left[0][0]!r} was not drawn" if left else "the command did not end"
        pytest.fail(f"{waited_for}: {drawn[seen:]!r}")
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not left, f"{left[0][0]!r} was not drawn: {drawn[seen:]!r}"
    return code, drawn


with_terminal = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@with_terminal
def test_on_a_terminal_there_are_colors_unless_nobody_wants_them(environment: dict[str, str]) -> None:
    words = [*TTMEM, "summary", str(LOG)]
    code, drawn = on_terminal(words, environment)
    assert (code, b"\x1b[" in drawn) == (0, True)
    code, drawn = on_terminal(words, environment | {"NO_COLOR": "1"})
    assert (code, b"\x1b[" in drawn) == (0, False)


@with_terminal
@pytest.mark.parametrize("words", [TTMEM, MODULE], ids=["ttmem", "python -m ttmem"])
def test_on_a_terminal_it_asks_and_starts_its_server_again(
    words: list[str], environment: dict[str, str]
) -> None:
    # The server's screen mentions a browser, too. Escape and a key that are read together are another key.
    keys = [(b"browser", b"s"), (b"http://localhost:", b"\x1b"), (b"Quit", b"q")]
    code, drawn = on_terminal(words, environment, *keys)
    assert code == 0
    assert b"\x1b[?1049h" in drawn
    assert b"\x1b[?1049l" in drawn


@with_terminal
def test_a_bug_is_said_and_has_its_exit_code(environment: dict[str, str]) -> None:
    """A debug build has a key that panics."""
    code, drawn = on_terminal(TTMEM, environment, (b"browser", b"\x1c"))
    assert code == 70
    assert b"this is a bug in ttmem" in drawn


@contextmanager
def serving(environment: dict[str, str], *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts a server; returns its process and address."""
    command = [*words, "serve", "--port", "0", "--no-token"]
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout
    try:
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_server_stops_when_it_is_told(number: signal.Signals, environment: dict[str, str]) -> None:
    with serving(environment, *TTMEM) as (child, address):
        assert address.startswith("http://localhost:")
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "Press Ctrl-C to stop." in said
    assert "Traceback" not in said


def ask(address: str, data: bytes | None = None) -> dict[str, object]:
    """Sends a request to a server."""
    with urllib.request.urlopen(address, data) as answer:  # noqa: S310
        found: dict[str, object] = json.load(answer)
    return found


def uploaded(address: str, name: str, content: bytes) -> dict[str, object]:
    """Uploads a file to a server; returns the result."""
    job = ask(f"{address}api/upload?name={name}", content)
    while job["state"] not in ("done", "failed"):
        time.sleep(0.02)
        job = ask(f"{address}api/jobs/{job['id']}")
    return job


@pytest.mark.parametrize("words", [TTMEM, MODULE], ids=["ttmem", "python -m ttmem"])
@pytest.mark.parametrize("path", [None, "", ":"], ids=["no path", "empty path", "path with this folder"])
def test_a_server_reads_uploads_and_runs_none(
    words: list[str], path: str | None, environment: dict[str, str], tmp_path: Path
) -> None:
    """Python started in the folder of an upload must not import the upload."""
    if path is not None:
        environment["PYTHONPATH"] = path
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')\n".encode()
    with serving(environment, *words) as (_, address):
        assert uploaded(address, "model.log", LOG.read_bytes())["state"] == "done"
        for name in ("ttmem.py", "os.py", "sitecustomize.py", "usercustomize.py", "encodings.py"):
            assert uploaded(address, name, LOG.read_bytes())["state"] == "done", name
            job = uploaded(address, name, code)
            assert isinstance(job["error"], dict), name
            assert job["error"]["kind"] == "unreadable", name
    assert not mark.exists()


def test_a_run_passes_signals_on_and_reports(environment: dict[str, str], tmp_path: Path) -> None:
    script = "echo ready; exec sleep 60"
    child = subprocess.Popen(
        [*TTMEM, "run", "--log-only", "--", "sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr
    assert any("ready" in line for line in child.stderr)
    child.send_signal(signal.SIGINT)
    out, said = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    assert "was killed by signal 2 (SIGINT)" in said
    assert (tmp_path / out.strip()).read_text() == "ready\n"


def test_a_run_has_the_exit_code_and_the_signals_of_its_command(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = ran([*TTMEM, "run", "--log-only", "--", "sh", "-c", "exit 7"], cwd=tmp_path, env=environment)
    assert command.returncode == 7
    status = ["grep", "SigIgn", "/proc/self/status"]
    under = ran([*TTMEM, "run", "--log-only", "--", *status], cwd=tmp_path, env=environment)
    # Signals above 31 are used by the C library.
    ignored = [int(text.split()[-1], 16) & 0x7FFFFFFF for text in (under.stderr, ran(status).stdout)]
    assert ignored[0] == ignored[1]


PYTORCH_PROGRAM = """\
import sys, torch

linear = torch.nn.Linear(512, 512)
kept = [linear(torch.ones(256, 512)) for _ in range(4)]
print(*sys.argv[1:])
for log in sys.argv[2:]:
    print(open(log).read())
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def in_environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Returns the activated environment of the package; the working folder has a PyTorch program."""
    (tmp_path / "train.py").write_text(PYTORCH_PROGRAM)
    return environment | {"PATH": f"{Path(TTMEM[0]).parent}{os.pathsep}{environment['PATH']}"}


def test_a_run_of_a_pytorch_program_reports_what_the_tracker_recorded(
    in_environment: dict[str, str], tmp_path: Path
) -> None:
    command = ran([*TTMEM, "run", "train.py", "3"], cwd=tmp_path, env=in_environment)
    said = command.stderr
    assert command.returncode == 3, said
    page = tmp_path / command.stdout.strip()
    (recording,) = page.parent.glob("memory_profile_*.ttmem")
    assert (page.parent / "train_profile.log").read_text() == "3\n"
    # The summary is that of the recording, and nothing asks for a Tenstorrent runtime.
    name = str(recording.relative_to(tmp_path))
    summary = ran([*TTMEM, "summary", name], cwd=tmp_path, env=in_environment).stdout
    assert "(in Linear)" in summary
    assert f"\n{summary}\nttmem show train_" in said
    assert "Tenstorrent" not in said
    assert "TT_RUNTIME_DEBUG" not in said
    assert page.is_file()
    shown = ran([*TTMEM, "show", page.parent.name], cwd=tmp_path, env=in_environment)
    assert shown.stdout == summary


def test_a_run_on_a_tenstorrent_device_reports_the_log_of_the_runtime(
    in_environment: dict[str, str], tmp_path: Path
) -> None:
    """Models are PyTorch programs there, too."""
    command = ran([*TTMEM, "run", "train.py", "0", str(LOG)], cwd=tmp_path, env=in_environment)
    assert command.returncode == 0, command.stderr
    (log,) = tmp_path.glob("logs/*/train_profile.log")
    assert list(log.parent.glob("memory_profile_*.ttmem"))
    summary = ran([*TTMEM, "summary", str(log.relative_to(tmp_path))], cwd=tmp_path, env=in_environment)
    assert "Tenstorrent runtime log, 2 runs" in summary.stdout
    # A run has no options for its summary.
    said = re.sub(r"`ttmem show (--\w+)`", r"\1", command.stderr)
    assert f"\n{summary.stdout}\nttmem show train_" in said


def test_a_run_without_any_data_says_what_both_need(environment: dict[str, str], tmp_path: Path) -> None:
    command = ran([*TTMEM, "run", "--", "true"], cwd=tmp_path, env=environment)
    assert command.returncode == 2
    assert "for Tenstorrent, use a debug build" in command.stderr
    assert "for PyTorch, run `pip install ttmem`" in command.stderr


@pytest.mark.parametrize("words", [["track"], ["-q", "track"]], ids=["Python", "native"])
def test_a_tracked_script_gets_its_arguments_and_has_its_exit_code(
    words: list[str], in_environment: dict[str, str], tmp_path: Path
) -> None:
    """With an option before the verb, the native command starts Python."""
    command = ran([*TTMEM, *words, "train.py", "5"], cwd=tmp_path, env=in_environment)
    assert (command.returncode, command.stdout) == (5, "5\n"), command.stderr
    (recording,) = tmp_path.glob("memory_profile_*.ttmem")
    assert command.stderr == f"ttmem: {recording}\n"


def waiting(*, ignoring: bool) -> subprocess.Popen[bytes]:
    """Starts a command that waits for its standard input."""
    before = (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignoring else None
    child = subprocess.Popen(
        [*TTMEM, "summary", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,  # noqa: PLW1509
    )
    # Once the command reads its input, the interpreter's handler is no longer installed.
    status = Path(f"/proc/{child.pid}/status")
    while not re.search(r"SigCgt:\s+0*[02-9a-f]*[0145689cdef]$", status.read_text(), re.MULTILINE):
        time.sleep(0.01)
    return child


def test_ctrl_c_ends_a_command_as_it_ends_a_program() -> None:
    child = waiting(ignoring=False)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[1] == b""
    assert child.returncode == -signal.SIGINT


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    child = waiting(ignoring=True)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[1] == b"ttmem: -: empty file; capture the output again\n"
    assert child.returncode == 2


def test_verbs_of_python_are_found_by_their_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a_verb.py").write_text("def main(words): return len(words)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(commands.VERBS, "count", "a_verb")
    monkeypatch.setattr(sys, "argv", ["ttmem", "count", "one", "--two"])
    assert commands.ttmem() == 2


def test_the_shims_find_the_commands(environment: dict[str, str]) -> None:
    """The earliest versions start `ttmem` by its name."""
    scripts = Path(TTMEM[0]).parent
    environment["PATH"] = f"{scripts}{os.pathsep}{environment['PATH']}"
    shim = ran([sys.executable, str(ROOT / "memory_profiler/run_profiled.py"), "--version"], env=environment)
    assert shim.stdout == f"tt-memory-profiler {ttmem.__version__}\n"
