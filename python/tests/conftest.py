"""Shared fixtures: the corpus, and the installed commands."""

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

    # The progress bars of transformers start a thread, and trackers of later tests would warn about it.
    tqdm.tqdm.monitor_interval = 0

SWEEP = os.environ.get("TTMEM_SWEEP") == "all"
"""Whether to repeat tests as often as `make soak` does."""
if not SWEEP:
    # Compiling for the CPU's vector instructions takes longer, and allocates the same buffers.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
    # Threads of one operation would wait for each other longer than they compute. PyTorch reads this when it
    # is imported; tests of such threads set it themselves.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "corpus"
LOG = CORPUS / "tt_log" / "vae-decoder.log"
"""A log without warnings."""

SCRIPTS = Path(sysconfig.get_path("scripts"))
TTMEM = [str(SCRIPTS / "ttmem")]
PROFILER = [str(SCRIPTS / "tt-memory-profiler")]
MODULE = [sys.executable, "-m", "ttmem"]


# Background jobs of a shell ignore Ctrl-C, and the programs that tests interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs GPU tests last: after the first use of CUDA, the tracker does not track CPU tensors."""

    def uses_gpu(item: pytest.Item) -> bool:
        reasons = [str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif")]
        return any("GPU" in reason for reason in reasons)

    items.sort(key=uses_gpu)


def pytest_collection_finish() -> None:
    """Excludes imported objects from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Ends the interpreter with PyTorch loaded."""
    if preloaded.cache_info().currsize:
        preloaded().close()


@functools.cache
def preloaded() -> Preloaded:
    """Returns an interpreter with PyTorch loaded, which runs programs."""
    return Preloaded()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Returns an environment with an empty home directory and no browser."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "CLICOLOR_FORCE", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"TTMEM_HOME": str(tmp_path / "home"), "COLUMNS": "100"}


def ran(words: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; returns its output and exit code."""
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]
