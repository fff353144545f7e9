"""What the tests stand on: the corpus, and the commands of the environment that they run in."""

import contextlib
import functools
import gc
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from preloaded import Preloaded

with contextlib.suppress(ModuleNotFoundError):
    import tqdm

    # Progress of transformers would start a thread, which trackers of later tests would warn about.
    tqdm.tqdm.monitor_interval = 0

SWEEP = os.environ.get("TTMEM_SWEEP") == "all"
"""Whether repetitions are as many as in `make soak`."""
if not SWEEP:
    # Compiling for the vector instructions of the processor takes longer, and allocates the same buffers.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
    # Threads of one operation would wait for each other longer than they compute. PyTorch reads it when it is
    # imported; tests of such threads ask for them.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "corpus"
LOG = CORPUS / "tt_log" / "vae-decoder.log"
"""A log that is answered without a warning."""

SCRIPTS = Path(sysconfig.get_path("scripts"))
TTMEM = [str(SCRIPTS / "ttmem")]
PROFILER = [str(SCRIPTS / "tt-memory-profiler")]
MODULE = [sys.executable, "-m", "ttmem"]


# What a shell runs in the background ignores Ctrl-C, and so would the programs that tests end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have what uses a GPU come last: from then on, the tracker watches no tensors of the processor."""

    def uses_gpu(item: pytest.Item) -> bool:
        reasons = [str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif")]
        return any("GPU" in reason for reason in reasons)

    items.sort(key=uses_gpu)


def pytest_collection_finish() -> None:
    """Keep what was imported out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """End the interpreter that programs with PyTorch run in."""
    if preloaded.cache_info().currsize:
        preloaded().close()


@functools.cache
def preloaded() -> Preloaded:
    """Give an interpreter in which PyTorch is loaded, and which runs programs."""
    return Preloaded()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Give an environment with a home of its own, in which nothing is opened in a browser."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "CLICOLOR_FORCE", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"TTMEM_HOME": str(tmp_path / "home"), "COLUMNS": "100"}


def ran(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; what it printed, and its exit code."""
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]
