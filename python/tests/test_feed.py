"""Actions that an allocator reports as they happen: that of a C++ library with PyTorch's interface."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "allocator.cpp"

# `act` tells the allocator what to report. `Ring` has the snapshots that PyTorch would return.
PROLOGUE = """
import ctypes, sys
import ttmem
from ttmem._native import History
from ttmem._torch.mode import Mode

library = ctypes.CDLL(sys.argv[1])
library.act.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t]
WORDS = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free"]
FRAMES = [{"name": "f", "filename": "p.py", "line": 7}]
START, now = 1_800_000_000_000_000, 0

class Ring:
    def __init__(self):
        self.entries, self.live, self.made = [], {}, 0
    def act(self, word, address, size, traced=True):
        global now
        now += 1
        if word == "alloc":
            self.live[address] = size
            self.made += 1
        elif word == "free_completed":
            del self.live[address]
        library.act(WORDS.index(word), 0, address, size)
        entry = {"action": word, "addr": address, "size": size, "stream": 0, "time_us": START + now}
        if traced:
            self.entries.append({**entry, "frames": FRAMES})
    def one(self, address, size, traced=True):
        self.act("alloc", address, size, traced)
        self.act("free_requested", address, size, traced)
        self.act("free_completed", address, size, traced)
    def drain(self):
        library.act(7, 0, 0, 0)
        blocks = [
            {"address": address, "size": size, "requested_size": size, "state": "active_allocated"}
            for address, size in sorted(self.live.items())
        ]
        # Blocks without gaps, as in a segment.
        filled, at = [], 0
        for block in blocks:
            if block["address"] > at:
                filled.append({"address": at, "size": block["address"] - at, "state": "inactive"})
            filled.append(block)
            at = block["address"] + block["size"]
        filled.append({"address": at, "size": (1 << 30) - at, "state": "inactive"})
        segment = {"device": 0, "address": 0, "total_size": 1 << 30, "blocks": filled}
        history.drain({"segments": [segment], "device_traces": [list(self.entries)]}, [self.made])
        if history.is_fed:
            self.entries.clear()

library.choose(1)
mode = Mode(sys.argv[2])
history = History(mode, "cuda")
assert history.follow(sys.argv[1]) is None, history.follow(sys.argv[1])
ring = Ring()
ring.drain()
assert history.is_following and not history.is_fed

def end():
    history.unfollow()
    mode.finish()
    summary = ttmem.open(sys.argv[2]).summary()
    return summary, summary["ranks"][0]["pools"]["cuda:0"]
"""


@pytest.fixture(scope="module", params=["new", "old"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "liballocator.so"
    options = ["-DBEFORE_2_11"] if request.param == "old" else []
    build = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    subprocess.run([*build, *options, SOURCE, "-o", path], check=True)
    return path


def run(library: Path, tmp_path: Path, program: str) -> None:
    command: list[str | Path] = [sys.executable, "-c", program, library, tmp_path / "h.ttmem"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_history_does_not_have_was_received(library: Path, tmp_path: Path) -> None:
    program = """
for at in range(8):
    ring.one(at * 4096, 512)
ring.act("alloc", 0, 2048)
ring.drain()
assert history.is_fed
# The history is off.
for at in range(1, 10_000):
    ring.one(at * 4096, 512, traced=False)
ring.act("alloc", 4096, 1024, traced=False)
ring.act("alloc", 8192, 102_400, traced=False)
ring.act("free_requested", 8192, 102_400, traced=False)
ring.act("free_completed", 8192, 102_400, traced=False)
assert history.received > 10_000
times = 1
while history.take(4096):
    times += 1
assert times > 1 and history.received == 0
# On again, with actions before and after.
ring.one(1 << 20, 512, traced=False)
ring.one(1 << 20, 512)
ring.drain()
assert history.is_fed
summary, pool = end()
assert pool["peak_total"] == 2048 + 1024 + 102_400, pool
assert pool["final_total"] == 2048 + 1024, pool
assert summary["source"]["warnings"] == [], summary["source"]["warnings"]
assert history.drained == 2 * (8 + 9_999 + 2) + 1 + 1 + 2, history.drained
"""
    run(library, tmp_path, PROLOGUE + program)


def test_what_the_ring_has_lost_was_received(library: Path, tmp_path: Path) -> None:
    program = """
for at in range(1000):
    ring.one(at * 4096, 512)
ring.act("alloc", 0, 2048)
# It begins in the middle of a free.
ring.entries = ring.entries[-2000:]
ring.drain()
assert history.is_fed
summary, pool = end()
assert pool["peak_total"] == pool["final_total"] == 2048, pool
assert summary["source"]["warnings"] == [], summary["source"]["warnings"]
assert history.drained == 2001, history.drained
"""
    run(library, tmp_path, PROLOGUE + program)


def test_actions_that_differ_from_the_history_are_not_used(library: Path, tmp_path: Path) -> None:
    program = """
for at in range(8):
    ring.one(at * 4096, 512)
ring.entries[4]["size"] = 1024
ring.act("alloc", 0, 2048)
ring.drain()
assert not history.is_fed and not history.is_following and not history.take(10)
summary, pool = end()
assert pool["peak_total"] == 2048, pool
"""
    run(library, tmp_path, PROLOGUE + program)


@pytest.mark.parametrize("which", [0, 2])
def test_other_allocators_are_left_alone(library: Path, tmp_path: Path, which: int) -> None:
    prologue = PROLOGUE[: PROLOGUE.index("library.choose(1)")]
    program = f"""
library.choose({which})
history = History(Mode(sys.argv[2]), "cuda")
assert history.follow(sys.argv[1]) is not None
assert not history.is_following and history.received == 0 and not history.take(1)
assert History(Mode(None), "xpu").follow() is not None
"""
    run(library, tmp_path, prologue + program)


def test_a_library_without_symbols_is_left_alone(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "liballocator.so"
    subprocess.run(["strip", library, "-o", stripped], check=True)  # noqa: S607
    prologue = PROLOGUE[: PROLOGUE.index("library.choose(1)")]
    program = """
library.choose(1)
why = History(Mode(sys.argv[2]), "cuda").follow(sys.argv[1])
assert why.endswith("has no symbols"), why
"""
    run(stripped, tmp_path, prologue + program)
