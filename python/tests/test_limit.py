"""A recording with a size limit: its size, its warnings, and what happens when it cannot be written."""

from __future__ import annotations

import json
import logging
import os
import re
from typing import TYPE_CHECKING

import pytest
import torch

import ttmem
from conftest import SWEEP, preloaded
from ttmem._native import memory_size

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def churn(tracker: ttmem.MemoryTracker, rounds: int) -> None:
    """Allocates and frees, in operations."""
    for number in range(rounds):
        with tracker.track_operation("request"):
            parts = [torch.empty(number % 7 + 1, 64) for _ in range(50)]
        del parts


def test_sizes_are_those_of_the_commands() -> None:
    assert memory_size("200MB") == 200 * MIB
    with pytest.raises(ValueError, match="unknown unit"):
        memory_size("2 parsecs")


@pytest.mark.parametrize("limit", ["2 parsecs", "10KB", 0, -5])
def test_a_limit_that_cannot_be_is_said(limit: int | str) -> None:
    with pytest.raises(ValueError, match="limit is"):
        ttmem.MemoryTracker(limit=limit)


def test_none_is_no_limit() -> None:
    assert ttmem.MemoryTracker(limit=None).limit is None
    assert ttmem.MemoryTracker(limit="none").limit is None
    assert ttmem.MemoryTracker().limit == 256 * MIB


def test_the_files_stay_within_the_limit_and_totals_are_of_all(tmp_path: Path) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, limit="1MB")
    held = torch.empty(1000, 1000)
    # A file is full after about 220 rounds.
    rounds = 4000 if SWEEP else 1500
    churn(tracker, rounds)
    assert sum(entry.stat().st_size for entry in os.scandir(tmp_path)) <= MIB
    found = ttmem.get_memory_summary()
    assert (found["errors"], found["failure"]) == (0, None)
    allocations = found["devices"]["cpu"]["allocations"]
    path = ttmem.stop_memory_tracker()
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    assert profile["metadata"]["detail_since_ns"] > 0
    assert profile["operation_summary"]["request"]["invocation_count"] == rounds
    totals = profile["device_totals"]["cpu"]
    assert totals["allocations"] == allocations
    assert totals["peak_bytes"] == found["devices"]["cpu"]["peak_bytes"]
    assert sum("has reached its limit" in warning for warning in profile["metadata"]["warnings"]) == 1
    # Tensors allocated at the start still have their details.
    largest = profile["snapshots"][-1]["device_breakdown"]["cpu"]["tensors"][0]
    assert largest["shape"] == [1000, 1000]
    assert "test_limit.py" in largest["location"]
    del held


def test_a_recording_that_cannot_go_on_is_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, limit="1MB")
    assert tracker.recording is not None
    # The path of the next file is a folder, which cannot be replaced.
    os.mkdir(tracker.recording.removesuffix(".ttmem") + ".next.ttmem")
    rounds = 3000 if SWEEP else 1000
    with caplog.at_level(logging.WARNING, logger="ttmem"):
        churn(tracker, rounds)
        tracker.save()
        first, second = ttmem.get_memory_summary(), ttmem.get_memory_summary()
        assert first["errors"] == second["errors"] == 1
        assert "the recording stopped" in first["failure"]
        assert first["devices"]["cpu"]["allocations"] >= 50 * rounds
        assert caplog.text.count("get_memory_summary() stays up to date") == 1
        assert ttmem.stop_memory_tracker()
    assert caplog.text.count("get_memory_summary() stays up to date") == 1


def test_the_limit_is_an_option_and_a_variable(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch, ttmem\nprint(ttmem.get_memory_tracker().limit)\n")
    track = ["-m", "ttmem", "track", "--output-dir", str(tmp_path)]
    ran = preloaded().run([*track, "--limit", "200MB", str(script)], check=True)
    assert ran.stdout.split() == [str(200 * MIB)]
    ran = preloaded().run([*track, "--limit", "much", str(script)])
    assert ran.returncode == 2
    assert "limit is 'much'" in ran.stderr
    environment = os.environ | {
        "TTMEM_TRACK": "1",
        "TTMEM_TRACK_LIMIT": "30MB",
        "TTMEM_TRACK_DIR": str(tmp_path),
    }
    # Python does this at startup if the package is installed, not only on the path.
    start = f"import runpy, ttmem._start; runpy.run_path({str(script)!r})"
    ran = preloaded().run(["-c", start], check=True, env=environment)
    assert ran.stdout.split() == [str(30 * MIB)]


def test_the_answer_is_that_of_a_recording_without_a_limit(tmp_path: Path) -> None:
    answers = []
    for limit in ("1MB", None):
        tracker = ttmem.initialize_memory_tracker(tmp_path / str(limit), interval=60.0, limit=limit)
        kept = []
        for number in range(80 if SWEEP else 40):
            with tracker.track_operation("iteration"):
                parts = [torch.empty(256) for _ in range(3000 if number == 20 else 800)]
                kept.append(torch.empty(5000))
                del parts
        recording = tracker.recording
        ttmem.stop_memory_tracker()
        del kept
        assert recording is not None
        answers.append(ttmem.open(recording).summary(top=100_000)["ranks"][0])
    assert len(list((tmp_path / "1MB").glob("*.peak.ttmem"))) == 1
    found = []
    for answer in answers:
        peak = answer["peak"]
        rows = sorted((row["per_bank"], row["op"], row["loc"], row["made_in"]) for row in peak["live"])
        grows = [said["message"] for said in answer["suggestions"] if said["rule"] == "grows"]
        # The rest of the process is larger when the second program runs.
        grows = [re.sub(r"after \d+ more", "after N more", message) for message in grows]
        found.append((peak["allocated_per_bank"], peak["explained_per_bank"], rows, grows))
    assert found[0] == found[1]
    assert len(found[0][3]) == 1
    assert found[0][0] == 3000 * 1024 + 21 * 20_000
