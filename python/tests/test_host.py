"""The memory that the process may use: the RAM of the host, or the limit of a cgroup."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import ttmem
from ttmem import _host

if TYPE_CHECKING:
    from pathlib import Path

    from ttmem.tracker import Level

GIB = 1 << 30
RAM = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limit(folder: Path, own: str, files: dict[str, str]) -> int | None:
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / "cgroups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return _host.cgroup_limit(folder / "own", folder / "cgroups")


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/job/step\n", {"job/step/memory.max": f"{GIB}\n"}, GIB),
        ("0::/job/step\n", {"job/step/memory.max": "max\n"}, None),
        # The limit of a cgroup applies to those in it.
        ("0::/job/step\n", {"job/step/memory.max": f"{2 * GIB}\n", "job/memory.max": f"{GIB}\n"}, GIB),
        # A container sees its own cgroup as the root, but may see its path from outside.
        ("0::/docker/1234\n", {"memory.max": f"{GIB}\n"}, GIB),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, GIB),
        ("0::/../..\n", {"memory.max": f"{GIB}\n"}, GIB),
        # Version 1.
        (
            "5:cpu,cpuacct:/a\n4:memory:/job\n0::/\n",
            {"memory/job/memory.limit_in_bytes": f"{GIB}\n"},
            GIB,
        ),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 9223372036854771712),
        ("4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": f"{GIB}\n"}, None),
        ("0::/job\n", {"job/memory.max": "-1\n"}, None),
        ("unreadable\n\n0::/job\n", {"job/memory.max": f"{2 * GIB}\n", "memory.max": "max\n"}, 2 * GIB),
        ("0::/job\n", {}, None),
    ],
)
def test_the_lowest_limit_counts(
    tmp_path: Path, own: str, files: dict[str, str], expected: int | None
) -> None:
    assert limit(tmp_path, own, files) == expected


def test_without_cgroups_there_is_no_limit(tmp_path: Path) -> None:
    assert _host.cgroup_limit(tmp_path / "missing", tmp_path) is None


@pytest.mark.parametrize(
    ("cgroup", "expected"), [(None, RAM), (GIB // 4, GIB // 4), (9223372036854771712, RAM)]
)
def test_the_capacity_is_the_ram_unless_the_limit_is_lower(
    monkeypatch: pytest.MonkeyPatch, cgroup: int | None, expected: int
) -> None:
    monkeypatch.setattr(_host, "cgroup_limit", lambda: cgroup)
    assert _host.capacity() == expected


@pytest.mark.parametrize("level", ["tensors", "ops", "phases"])
def test_the_recording_has_the_capacity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    # Not the memory of the machine that reads the recording.
    for capacity in (1234 * GIB, None):
        with monkeypatch.context() as patch:
            patch.setattr(_host, "capacity", lambda capacity=capacity: capacity)
            tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0, level=level)
            ttmem.stop_memory_tracker()
        assert tracker.recording is not None
        pools = ttmem.open(tracker.recording).summary()["ranks"][0]["pools"]
        assert pools.keys() == ({"host"} if level == "phases" else {"cpu", "host"})
        assert {pool["capacity_per_bank"] for pool in pools.values()} == {capacity}
