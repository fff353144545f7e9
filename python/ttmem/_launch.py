"""The process that is tracked: its arguments, its rank, its host and the versions it uses."""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttmem._native import Watch

MAX_ARGUMENTS, MAX_LENGTH = 256, 4096
"""Longer command lines are cut: some programs get a whole configuration as an argument."""
MAX_NUMBER = (1 << 32) - 1


def rank() -> int | None:
    """Returns the rank of this process if the program has several, as `torchrun` sets it."""
    number, count = _number("RANK"), _number("WORLD_SIZE")
    return number if number is not None and count is not None and count > 1 else None


def record(watch: Watch, torch: Any) -> None:
    """Records the process. Reads only variables and small files: no device is initialized."""
    argv = [_text(word) for word in getattr(sys, "argv", [])[:MAX_ARGUMENTS]]
    runtime, driver = _runtime(torch)
    watch.launch(
        argv,
        pid=os.getpid(),
        rank=_number("RANK"),
        local_rank=_number("LOCAL_RANK"),
        world_size=_number("WORLD_SIZE"),
        host=_text(socket.gethostname()) or None,
        versions=(platform.python_version(), str(torch.__version__), runtime, driver),
    )


def _number(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= MAX_NUMBER else None


def _text(word: object) -> str:
    text = str(word)
    # Arguments that are not UTF-8 contain surrogates.
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "…"


def _runtime(torch: Any) -> tuple[str | None, str | None]:
    """Returns the runtime that PyTorch was built for, and the version of the driver that is loaded."""
    for key, name, driver in (("cuda", "CUDA", "nvidia"), ("hip", "ROCm", "amdgpu"), ("xpu", "oneAPI", "xe")):
        version = getattr(torch.version, key, None)
        if version:
            return f"{name} {version}", _driver(driver)
    return None, None


def _driver(name: str) -> str | None:
    try:
        with open(f"/sys/module/{name}/version", encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        pass
    try:
        with open(f"/proc/driver/{name}/version", encoding="ascii", errors="replace") as file:
            found = re.search(r"\b\d+\.\d+(\.\d+)*\b", file.readline())
    except OSError:
        return None
    return found.group() if found else None
