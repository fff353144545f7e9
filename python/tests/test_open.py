"""`ttmem.load`: names, folders, errors, threads and interruptions."""

import errno
import gzip
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ttmem
from conftest import CORPUS, LOG, TTMEM, ran


def test_a_profile_says_what_it_is() -> None:
    profile = ttmem.load(str(LOG))
    assert profile.format == "tt_log"
    assert profile.warnings == []
    assert repr(profile) == f"<ttmem.Profile {str(LOG)!r}, tt_log>"


def test_paths_are_texts_and_paths() -> None:
    assert ttmem.load(LOG).summary() == ttmem.open(str(LOG)).summary()
    for wrong in (None, 3, b"x", LOG.open):
        with pytest.raises(TypeError):
            ttmem.load(wrong)  # type: ignore[arg-type]


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "packed.log.gz"
    packed.write_bytes(gzip.compress(LOG.read_bytes()))
    assert ttmem.load(packed).summary()["ranks"][0]["pools"] == ttmem.open(LOG).summary()["ranks"][0]["pools"]


def test_warnings_are_in_the_profile_and_nowhere_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Truncated in the middle of a line.
    cut = tmp_path / "cut.log.gz"
    whole = gzip.compress(LOG.read_bytes())
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    profile = ttmem.load(cut)
    assert [warning["file"] for warning in profile.warnings] == [str(cut)] * len(profile.warnings)
    assert profile.warnings
    assert all(warning["message"] and warning["line"] != 0 for warning in profile.warnings)
    assert "warning" in repr(profile)
    assert capfd.readouterr() == ("", "")


def test_the_format_can_be_named() -> None:
    assert ttmem.load(LOG, format="tt_log").format == "tt_log"
    with pytest.raises(ttmem.UnknownFormat, match='unknown format "nothing"') as raised:
        ttmem.load(LOG, format="nothing")
    assert raised.value.exit_code == 2


def test_errors_have_classes_of_their_own(tmp_path: Path) -> None:
    assert issubclass(ttmem.UnknownFormat, ttmem.Error)
    assert issubclass(ttmem.NoMemoryData, ttmem.Error)
    assert (ttmem.Error.__module__, ttmem.Error.exit_code, ttmem.NoMemoryData.exit_code) == ("ttmem", 2, 4)
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(ttmem.UnknownFormat, match="unknown format"):
        ttmem.load(binary)
    log = tmp_path / "quiet.log"
    log.write_text("RuntimeTTNN |    DEBUG | Executing operation: nothing of ours\n" * 3)
    command = ran([*TTMEM, "summary", str(log)])
    assert command.returncode == 4
    with pytest.raises(ttmem.NoMemoryData) as raised:
        ttmem.load(log)
    assert (raised.value.exit_code, f"ttmem: {raised.value}\n") == (4, command.stderr)


def test_files_that_cannot_be_read_are_errors_of_the_system(tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    with pytest.raises(FileNotFoundError) as raised:
        ttmem.load(missing)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(missing))
    assert str(raised.value) == f"[Errno 2] No such file or directory: {raised.value.filename!r}"
    with pytest.raises(NotADirectoryError):
        ttmem.load(LOG / "more")
    looped = tmp_path / "loop"
    looped.symlink_to(looped)
    with pytest.raises(OSError, match="symbolic links") as odd:
        ttmem.load(looped)
    assert odd.value.errno == errno.ELOOP


def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    private = tmp_path / "private.log"
    private.touch(mode=0)
    program = "import sys, ttmem\ntry: ttmem.load(sys.argv[1])\nexcept PermissionError: sys.exit(13)"
    # Root can read every file unless it lacks these capabilities.
    rights = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    assert subprocess.run([*rights, sys.executable, "-c", program, private], check=False).returncode == 13


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log")
    with pytest.raises(ValueError, match="not valid UTF-8; rename the file"):
        ttmem.load(name)


def test_a_report_is_written_and_opened_again(tmp_path: Path) -> None:
    profile = ttmem.load(LOG)
    folder = tmp_path / "out"
    page = profile.report(folder)
    assert page == folder / "vae-decoder_report.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    again = ttmem.load(folder)
    assert again.summary()["ranks"][0]["peak"] == profile.summary()["ranks"][0]["peak"]
    assert again.markdown().partition("\n")[0] == profile.markdown().partition("\n")[0]
    with pytest.raises(FileExistsError, match="pass force=True to replace it"):
        profile.report(folder)
    assert profile.report(str(folder), force=True) == page
    assert profile.report(folder, "a/b_c") == folder / "a-b-c_report.html"
    # Two reports are ambiguous.
    with pytest.raises(ttmem.Error):
        ttmem.load(folder)


def test_a_report_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        ttmem.load(LOG).report(tmp_path / "file" / "folder")


def test_the_report_is_the_commands(tmp_path: Path) -> None:
    page = ttmem.load(LOG).report(tmp_path / "ours")
    command = ran([*TTMEM, "report", str(LOG), "-o", str(tmp_path / "theirs")])
    assert Path(command.stdout.strip()).name == page.name
    names = [sorted(path.name for path in (tmp_path / folder).iterdir()) for folder in ("ours", "theirs")]
    assert names[0] == names[1]
    for name in names[0]:
        if name.endswith((".md", "_memory.json", "_operations.json")):
            assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize("log", ["vae-decoder", "oom-fragmentation", "two-ranks-info-only"])
def test_markdown_is_the_commands(log: str) -> None:
    path = CORPUS / "tt_log" / f"{log}.log"
    assert ttmem.load(path).markdown() == ran([*TTMEM, "summary", "--markdown", str(path)]).stdout


def test_threads_read_and_ask_at_the_same_time() -> None:
    logs = sorted((CORPUS / "tt_log").glob("*.log"))
    alone = [ttmem.load(log).summary() for log in logs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda log: ttmem.load(log).summary(), logs * 4)) == alone * 4
        one = ttmem.load(LOG)
        answers = pool.map(lambda _: one.summary(), range(16))
        assert all(answer == one.summary() for answer in answers)


def test_a_report_and_questions_do_not_wait_for_each_other_forever(tmp_path: Path) -> None:
    profile = ttmem.load(LOG)
    with ThreadPoolExecutor(8) as pool:
        pages = [pool.submit(profile.report, tmp_path / str(number)) for number in range(4)]
        answers = [pool.submit(profile.summary) for _ in range(16)]
        names = {page.result().name for page in pages}
        assert names == {"vae-decoder_report.html"}
        assert all(answer.result()["ranks"] for answer in answers)


def test_other_threads_go_on_while_something_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened: list[ttmem.Profile] = []
    reading = threading.Thread(target=lambda: opened.append(ttmem.load(pipe)))
    reading.start()
    # The reader waits for this thread, which needs the interpreter.
    pipe.write_bytes(LOG.read_bytes())
    reading.join()
    assert opened[0].summary()["ranks"][0]["pools"] == ttmem.load(LOG).summary()["ranks"][0]["pools"]


def test_ctrl_c_ends_a_reading_that_would_not_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"""
import ttmem
try:
    ttmem.load({str(pipe)!r})
except KeyboardInterrupt:
    print("interrupted")
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    # Opening blocks until the reader has opened the pipe.
    with pipe.open("wb"):
        child.send_signal(signal.SIGINT)
        assert child.communicate()[0] == "interrupted\n"
    assert child.returncode == 0


def test_standard_input_is_a_dash() -> None:
    program = "import ttmem; print(ttmem.load('-').summary()['source']['files'], ttmem.load.__name__)"
    with LOG.open("rb") as log:
        assert ran([sys.executable, "-c", program], stdin=log).stdout == "['-'] load\n"


def test_a_process_that_was_forked_can_go_on(tmp_path: Path) -> None:
    """PyTorch's data loaders fork: threads that wait in the parent do not exist in the child."""
    program = f"""
import os, sys, warnings, ttmem
warnings.simplefilter("ignore")
profile = ttmem.load({str(LOG)!r})
profile.report({str(tmp_path / "parent")!r})
child = os.fork()
if child == 0:
    profile.summary()
    ttmem.load({str(LOG)!r}).report({str(tmp_path / "child")!r})
    os._exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert ran([sys.executable, "-c", program], timeout=60).returncode == 3
