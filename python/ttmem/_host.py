"""The memory of the host: what this process uses, and how much it may use."""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def resident_bytes() -> int | None:
    """Returns the resident memory of the process; `None` if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def capacity() -> int | None:
    """Returns the RAM, or the limit of the process's cgroup if that is lower; `None` if neither is known."""
    return min((size for size in (_ram(), cgroup_limit()) if size), default=None)


def _ram() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def cgroup_limit(own: Path = OWN_CGROUPS, cgroups: Path = CGROUPS) -> int | None:
    """Returns the lowest limit of the process's cgroup and those that contain it; `None` if there is none."""
    try:
        lines = own.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, is_complete, path = rest.partition(":")
        if not is_complete:
            continue
        if not controllers:
            limits += _limits(cgroups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(cgroups / "memory", path, "memory.limit_in_bytes")
    return min(limits, default=None)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """Returns the limits from a cgroup up to the root. A container may see only the root, not its path."""
    inner = root / path.strip("/")
    folders = [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root)]
    return [limit for folder in folders if (limit := _limit(folder / name)) is not None]


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text("utf-8", "replace").strip()
    except OSError:
        return None
    # A cgroup without a limit contains `max`.
    return int(text) if text.isascii() and text.isdigit() else None
