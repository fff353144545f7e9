"""Runs a program for minutes with the tracker: the memory of the process, what is lost, and the longest iterations.

    python bench/torch_soak.py cuda 480
    python bench/torch_soak.py cpu 1200

On CUDA, a Llama model generates text, and an iteration is a token. On the CPU, a small transformer is trained.
A quarter of the time goes to the same program without the tracker, in a separate process: other programs on
the machine delay single iterations of both. A stall is an iteration that takes longer than the median of those at
the same place of a text, in the texts before and after it: the first token includes the prompt, and the speed of the
host changes over seconds. For each of the longest stalls, the output has the time that parts of the tracker, and the
garbage collector, have taken meanwhile.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as f
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = "64MB"
FIRST = 10
# A delay of this many milliseconds is noticed.
STALL = 20.0
# The number of stalls that are described; what runs for fewer seconds does not cause one.
LONGEST, SHORT = 24, 3e-4
# A text has this many tokens. An iteration is compared with those of this many texts before it, and after it.
TOKENS, TEXTS = 16, 8
# The tracker's ring buffer of CUDA allocations, at its start; an allocation has three entries.
RING, ENTRIES = 200_000, 3


def generates() -> Callable[[], object]:
    from torch_cuda import llama_generates

    step: Callable[[], object] = llama_generates()

    def token() -> None:
        step()
        torch.cuda.synchronize()

    return token


def trains() -> Callable[[], object]:
    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.Sequential(nn.Embedding(500, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 500))
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.randint(500, (4, 32))

    def step() -> None:
        f.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def resident() -> int:
    """Returns the memory of the process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Spans:
    """When parts of the tracker and the garbage collector ran for a while, in whichever thread."""

    def __init__(self) -> None:
        # Seconds, and names.
        self._spans: list[tuple[float, float, str]] = []
        self._collects = 0.0
        gc.callbacks.append(self._collection)

    def _add(self, began: float, name: str) -> None:
        now = time.perf_counter()
        # All of them would make the memory of the process grow.
        if now - began > SHORT:
            self._spans.append((began, now, name))

    def watch_tracker(self) -> None:
        from ttmem._torch.allocators import CachingAllocator
        from ttmem._torch.details import Details
        from ttmem._torch.modules import Modules

        self._time(ttmem.MemoryTracker, "_snapshot")
        self._time(CachingAllocator, "_drain_locked", "_read", "_record", "_take_some", "_sample", "_stats")
        self._time(Modules, "hook", "unhook", "learn", "gradients", "_look_again", "end_interrupted")
        self._time(Details, "begins", "look", "left_alone", "_resume", "_leave_out")

    def during(self, began: float, ended: float) -> str:
        """Returns what ran in this time. Parts may contain each other."""
        took: dict[str, float] = {}
        for first, last, name in self._spans:
            if (within := min(last, ended) - max(first, began)) > 0:
                took[name] = took.get(name, 0.0) + within * 1e3
        longest = sorted(took, key=lambda name: -took[name])
        return ", ".join(f"{name} {took[name]:.1f} ms" for name in longest[:6]) or "nothing"

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collects = time.perf_counter()
        else:
            self._add(self._collects, f"collection of generation {info['generation']}")

    def _time(self, kind: type, *names: str) -> None:
        for name in names:
            setattr(kind, name, self._timed(getattr(kind, name), name.strip("_")))

    def _timed(self, do: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(do)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return do(*args, **kwargs)
            finally:
                self._add(began, name)

        return timed


def run(device: str, seconds: float, tracker: ttmem.MemoryTracker | None) -> dict[str, Any]:
    """Runs iterations until the time is over."""
    step = generates() if device == "cuda" else trains()
    spans = Spans()
    if tracker is not None:
        spans.watch_tracker()
    times: list[float] = []
    # What this thread computes meanwhile, without waiting for other threads or the device.
    computes: list[float] = []
    starts: list[float] = []
    memory: list[int] = []
    # Whether the file of the recording changed during an iteration, and whether it was recorded with details.
    rotated: list[bool] = []
    detailed: list[bool] = []
    mode: Any = tracker._mode if tracker is not None else None
    end = time.perf_counter() + seconds
    next_sample = time.perf_counter() + seconds / 10
    while time.perf_counter() < end:
        rotations = mode.rotations if mode is not None else 0
        began, computed = time.perf_counter(), time.thread_time()
        step()
        now = time.perf_counter()
        times.append((now - began) * 1e3)
        computes.append((time.thread_time() - computed) * 1e3)
        starts.append(began)
        rotated.append(mode is not None and mode.rotations != rotations)
        detailed.append(mode is not None and mode.has_details)
        if now > next_sample:
            next_sample += seconds / 10
            gc.collect()
            memory.append(resident())
    later, around = times[FIRST:], TEXTS * TOKENS
    median = statistics.median(later)
    stalls = [
        FIRST + place
        for place, took in enumerate(later)
        if took > statistics.median(later[max(place % TOKENS, place - around) : place + around + 1 : TOKENS]) + STALL
    ]
    found: dict[str, Any] = {
        "iterations": len(times),
        "first": [round(took, 1) for took in times[:FIRST]],
        "median": round(median, 2),
        "median_computes": round(statistics.median(computes[FIRST:]), 2),
        "p99": round(statistics.quantiles(later, n=100)[98], 2),
        "longest": [
            [
                round(times[index], 1),
                round(computes[index], 1),
                index,
                (index - FIRST) % TOKENS,
                detailed[index],
                spans.during(starts[index], starts[index] + times[index] / 1e3),
            ]
            for index in sorted(stalls, key=lambda i: -times[i])[:LONGEST]
        ],
        "stalls": len(stalls),
        "detailed": sum(detailed),
        "rotations": sum(rotated),
        "forgotten": mode.forgotten if mode is not None else 0,
        "stalls_near_rotations": sum(any(rotated[max(0, index - 3) : index + 2]) for index in stalls),
        "memory_mib": [value >> 20 for value in memory],
    }
    if device == "cuda":
        found["real_peak"] = torch.cuda.max_memory_allocated()
        found["allocations"] = torch.cuda.memory_stats()["allocation.all.allocated"]
    return found


def tracked(device: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        tracker = ttmem.initialize_memory_tracker(folder, limit=LIMIT)
        found = run(device, seconds, tracker)
        ttmem.stop_memory_tracker()
        assert tracker.recording is not None
        found["recording_mib"] = sum(path.stat().st_size for path in Path(folder).glob("*.ttmem")) >> 20
        summary = ttmem.load(tracker.recording).summary()
    rank = summary["ranks"][0]
    pool = rank["pools"]["cuda:0" if device == "cuda" else "cpu"]
    found["reported_peak"] = pool["peak_total"]
    messages = [warning["message"] for warning in summary["source"]["warnings"]]
    found["lost"] = [message for message in messages if "overwritten" in message or "lost" in message]
    return found


def show(found: dict[str, Any], bare: dict[str, Any], device: str) -> None:
    for name, of in (("without the tracker", bare), ("with it", found)):
        print(f"{name}: {of['iterations']} iterations, median {of['median']} ms, p99 {of['p99']} ms")
        print(f"    the thread computes for {of['median_computes']} ms (median)")
        print(f"    the first {FIRST}: {of['first']} ms")
        stalls = f"{of['stalls']} iterations took over {STALL:g} ms more than usual"
        print(f"    {stalls}; {of['detailed']} iterations have details")
        for took, computes, index, place, has_details, meanwhile in of["longest"]:
            how = ", with details" if has_details else ""
            when = f"iteration {index}, place {place}{how}"
            print(f"        {took} ms, {computes} ms computing, {when}; meanwhile {meanwhile}")
        print(f"    memory of the process over time: {of['memory_mib']} MiB")
    changes = f"{found['rotations']} changes of the file ({found['forgotten']} without examples of iterations)"
    print(f"{changes}, {found['stalls_near_rotations']} stalls near them")
    print(f"recording: {found['recording_mib']} MiB; lost: {found['lost'] or 'nothing'}")
    if device == "cuda":
        turns = found["allocations"] * ENTRIES // RING
        same = "the allocator's" if found["reported_peak"] == found["real_peak"] else str(found["real_peak"])
        print(f"{found['allocations']} allocations, {turns} times the history; peak {found['reported_peak']} ({same})")


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    device, seconds, *rest = sys.argv[1:]
    if rest:
        found = tracked(device, float(seconds)) if rest == ["tracked"] else run(device, float(seconds), None)
        print(json.dumps(found))
        return
    results = []
    for kind, share in (("bare", 0.25), ("tracked", 0.75)):
        words = [sys.executable, __file__, device, str(float(seconds) * share), kind]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    bare, found = results
    show(found, bare, device)


if __name__ == "__main__":
    main()
