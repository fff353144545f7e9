"""Random programs that run out of memory, and the same programs with a change.

`any_failure.py FOLDER --first SEED --count PROGRAMS` runs programs until they fail, and leaves a report and
truth.json for each. `any_failure.py FOLDER --changes FILE` runs the programs of a list, each with a change,
and leaves results.json: the action that fails, or null.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import ttnn
from ledger import Ledger, arguments, interleaved, sharded

KINDS = ("l1", "fragmented", "clash", "small", "dram")
WIDTHS = (1024, 2048, 4096, 8192, 16384)
MAX_ACTIONS = 150


@dataclass(frozen=True)
class Make:
    """Allocates a tensor."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    pool: str
    # The cores of a height-sharded tensor, in x and y direction.
    cores: tuple[int, int] | None = None

    def do(self, program: Program) -> None:
        """Runs it."""
        memory = interleaved(self.pool)
        if self.cores:
            width, height = self.cores
            rows = self.shape[-2] // (width * height)
            memory = sharded("HEIGHT", self.pool, program.ledger.cores(width, height), [rows, self.shape[-1]])
        program.live[self.number] = program.ledger.tensor(list(self.shape), memory, self.dtype)


@dataclass(frozen=True)
class Free:
    """Frees a tensor."""

    number: int

    def do(self, program: Program) -> None:
        """Runs it."""
        ttnn.deallocate(program.live.pop(self.number))


@dataclass(frozen=True)
class Call:
    """Runs an operation whose program has buffers in L1; its result is in DRAM."""

    operation: str
    number: int

    def do(self, program: Program) -> None:
        """Runs it."""
        x = program.live[self.number]
        if self.operation == "softmax":
            ttnn.deallocate(ttnn.softmax(x, dim=-1))
        else:
            ttnn.deallocate(ttnn.layer_norm(x))


Action = Make | Free | Call


class Program:
    """Runs actions on a device."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.live: dict[int, Any] = {}

    def run(self, actions: list[Action]) -> tuple[int, str] | None:
        """Runs until an action fails; returns its index and the message."""
        for index, action in enumerate(actions):
            try:
                action.do(self)
            except RuntimeError as error:
                return index, str(error)
            self.ledger.mark(f"action {index}")
        return None

    def free_all(self) -> None:
        """Frees what is left."""
        for tensor in self.live.values():
            ttnn.deallocate(tensor)
        self.live.clear()


def draw(seed: int) -> list[Action]:
    """Draws a program that fails sooner or later."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    frees = random.uniform(0.05, 0.4)
    actions: list[Action] = []
    live: list[int] = []
    inputs: list[int] = []
    while len(actions) < MAX_ACTIONS:
        number = len(actions)
        if kind == "clash" and not inputs:
            actions.append(Make(number, (1, 1, 2048, random.choice(WIDTHS)), "bfloat16", "DRAM"))
            inputs.append(number)
        elif live and random.random() < frees:
            actions.append(Free(live.pop(random.randrange(len(live)))))
        elif kind == "clash" and len(live) > 3 and random.random() < 0.3:
            actions.append(Call(random.choice(("softmax", "layer_norm")), inputs[0]))
        else:
            actions.append(make(random, kind, number))
            live.append(number)
    return actions


def make(random: Random, kind: str, number: int) -> Make:
    """Draws a tensor in the pool that a kind of program fills."""
    dtype = random.choice(("bfloat16", "bfloat16", "bfloat8_b", "float32"))
    if kind == "dram":
        return Make(number, (1, 1, 32 * random.randint(1, 800), 32 * random.randint(1, 800)), dtype, "DRAM")
    if kind == "small":
        cores = (random.randint(1, 4), random.randint(1, 2))
        rows = 32 * cores[0] * cores[1]
        return Make(number, (1, 1, rows, 32 * random.randint(1, 2)), "bfloat16", "L1_SMALL", cores)
    if random.random() < 0.3:
        cores = (random.randint(1, 8), random.randint(1, 4))
        rows = 32 * cores[0] * cores[1]
        return Make(number, (1, 1, rows, 32 * random.randint(1, 40)), dtype, "L1", cores)
    largest = 100 if kind == "fragmented" and random.random() < 0.3 else 30
    tiles = random.randint(1, largest * 64)
    return Make(number, (1, 1, 32, 32 * tiles), dtype, "L1")


def changed(actions: list[Action], change: dict[str, Any]) -> list[Action]:
    """Returns a program with a change. Tensors are named by the number of their action."""
    failing = change["failing"]
    to_dram, bfloat8 = set(change.get("to_dram", [])), set(change.get("bfloat8_b", []))
    result: list[Action] = []
    for action in actions[: failing + 1]:
        new = action
        if isinstance(new, Make) and new.number in to_dram:
            new = replace(new, pool="DRAM", cores=None)
        if isinstance(new, Make) and new.number in bfloat8:
            new = replace(new, dtype="bfloat8_b")
        result.append(new)
    request = result[failing]
    if change.get("request_to_dram"):
        result[failing] = replace(request, pool="DRAM", cores=None)  # type: ignore[type-var]
    if "make_before" in change:
        result.insert(change["make_before"], result.pop(failing))
    first = [
        action for action in result if isinstance(action, Make) and action.number in change.get("first", [])
    ]
    if first:
        at = change["at"]
        before, after = result[:at], result[at:]
        return before + first + [action for action in after if action not in first]
    result[failing:failing] = [Free(number) for number in change.get("free", [])]
    return result


def place(tensor: Any) -> list[Any]:
    """Returns the pool and the address of a tensor."""
    return [tensor.memory_config().buffer_type.name, tensor.buffer_address()]


def record(options: argparse.Namespace, seed: int) -> None:
    """Runs a program until it fails, with a capture."""
    ledger = Ledger(options)
    program = Program(ledger)
    ledger.begin()
    failure = program.run(draw(seed))
    places = {number: place(tensor) for number, tensor in program.live.items()}
    folder = options.folder / str(seed)
    index, message = failure or (None, None)
    ledger.finish(folder, database=seed % 5 == 0, failing=index, error=message, places=places)
    program.free_all()
    ledger.close()


def repeat(options: argparse.Namespace) -> None:
    """Runs programs with changes, and records which of their actions fail."""
    results: list[Any] = []
    for change in json.loads(options.changes.read_text()):
        small = change.get("l1_small", options.l1_small)
        ledger = Ledger(argparse.Namespace(**(vars(options) | {"l1_small": small})))
        program = Program(ledger)
        ledger.mark = lambda *_: None  # type: ignore[method-assign]
        failure = program.run(changed(draw(change["seed"]), change))
        results.append(failure and [failure[0], failure[1][:2000]])
        program.free_all()
        ledger.close()
    (options.folder / "results.json").write_text(json.dumps(results))


def main() -> None:
    """Runs programs, or programs with changes."""
    parser = arguments()
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1, metavar="PROGRAMS")
    parser.add_argument("--changes", type=Path, metavar="FILE", help="a list of programs with changes")
    options = parser.parse_args()
    if options.changes:
        repeat(options)
        return
    for seed in range(options.first, options.first + options.count):
        record(options, seed)


main()
