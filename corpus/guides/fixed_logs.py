"""Writes the logs of the fixed models in the guide "My model runs out of DRAM", from the logs in corpus/tt_log.

    python fixed_logs.py

`capacity-bf16.log`: the caches of `oom-capacity.log` as bf16 instead of f32. `fragmentation-ordered.log`: the
tensors of `oom-fragmentation.log`, the ones that stay allocated first. Both end with deallocations instead of the error.
The memory states come from a first-fit allocator, which is checked against the states in the original logs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
BANK, BANKS = 1073741792, 12
BYTES = {"f32": 4, "bf16": 2}
STATE = re.compile(r"(Device DRAM memory state: MemoryView\{numBanks: 12, totalBytesPerBank: 1024.000 MB, ).*(\})")
RESULT = re.compile(r"Executing operation: %(\d+) = .* -> tensor<(\d+)x(\d+)x(\w+),")
DECLARED = re.compile(r'^    %(\d+) = "ttnn')
FREED = re.compile(r'"ttnn.deallocate"\(%(\d+)\)')


class Allocator:
    """A bank in which buffers take the first free block that is large enough."""

    def __init__(self) -> None:
        self.buffers: dict[str, tuple[int, int]] = {"input": (0, 2048)}

    def holes(self) -> list[tuple[int, int]]:
        """The free blocks: start and size."""
        found, at = [], 0
        for start, size in sorted(self.buffers.values()):
            found.append((at, start - at))
            at = start + size
        return [*found, (at, BANK - at)]

    def allocate(self, name: str, size: int) -> None:
        self.buffers[name] = (next(start for start, free in self.holes() if free >= size), size)

    def state(self) -> str:
        allocated = sum(size for _, size in self.buffers.values())
        largest = max(size for _, size in self.holes())
        figures = {
            "totalBytesAllocated": allocated,
            "totalBytesFree": BANK - allocated,
            "largestContiguousBytesFree": largest,
        }
        return ", ".join(f"{name}PerBank: {size / 2**20:.3f} MB" for name, size in figures.items())


def with_states(lines: list[str]) -> list[str]:
    """The lines with the states that the allocator has."""
    allocator, effect, result = Allocator(), None, []
    for line in lines:
        if STATE.search(line):
            line = STATE.sub(lambda match: match[1] + allocator.state() + match[2], line)
            if effect:
                effect()
        elif found := RESULT.search(line):
            size = int(found[2]) * int(found[3]) * BYTES[found[4]] // BANKS
            effect = (lambda name, size: lambda: allocator.allocate(name, size))(found[1], size)
        elif "Executing" in line and (found := FREED.search(line)):
            effect = (lambda name: lambda: allocator.buffers.pop(name))(found[1])
        result.append(line)
    return result


def write(source: str, target: str, change: Callable[[str], str]) -> None:
    lines = (HERE.parent / "tt_log" / source).read_text(encoding="utf-8").splitlines()
    error = next(index for index, line in enumerate(lines) if "Out of Memory" in line)
    run = lines[:error]
    # The last allocation fails in the original: it has no effect there.
    last = max(index for index, line in enumerate(run) if RESULT.search(line))
    assert with_states(run[:last]) == run[:last]
    changed = [change(line) for line in run]
    module = next(index for index, line in enumerate(changed) if "MLIR Module ttnn:" in line)
    returns = next(index for index in range(module, last) if changed[index].startswith("    return "))
    declared = deallocations(changed[module:returns], DECLARED, 0)
    executed = deallocations(changed[returns:], RESULT, 5)
    fixed = with_states([*changed[:returns], *declared, *changed[returns:], *executed])
    finished = run[last].split("Executing")[0] + "Finished execution of program: main"
    (HERE / target).write_text("\n".join([*fixed, finished]) + "\n", encoding="utf-8")


def deallocations(lines: list[str], pattern: re.Pattern[str], states: int) -> list[str]:
    """Operations that free the tensors that are left at the end, each with its memory states."""
    freed = {found[1] for line in lines if (found := FREED.search(line))}
    result = []
    for index, line in enumerate(lines):
        if (found := pattern.search(line)) and found[1] not in freed:
            start, rest = line.split(f"%{found[1]} = ")
            tensor, loc = rest.split(" -> ", 1)[1].rsplit(" loc(", 1)
            result.append(f'{start}"ttnn.deallocate"(%{found[1]}) <{{force = false}}> : ({tensor}) -> () loc({loc}')
            state = lines[index + 1 : index + 1 + states]
            result += [re.sub("before operation .*", "before operation DeallocateOp", line) for line in state]
    return result


def as_bf16(line: str) -> str:
    line = line.replace("115200x1024xf32", "115200x1024xbf16")
    return line.replace("3600x32x!ttcore.tile<32x32, f32>", "3600x32x!ttcore.tile<32x32, bf16>")


def ordered(line: str) -> str:
    """Frees the tensors 30 to 59 instead of every other one."""
    return re.sub(r'("ttnn.deallocate"\(%)(\d+)\)', lambda match: f"{match[1]}{30 + int(match[2]) // 2})", line)


write("oom-capacity.log", "capacity-bf16.log", as_bf16)
write("oom-fragmentation.log", "fragmentation-ordered.log", ordered)
