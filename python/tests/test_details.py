"""Which iterations are recorded with details, in a program with given numbers of allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from torch import nn

from ttmem._torch.details import ITERATIONS_PER_DETAILED, MAX_WAITING, STEADY, Details

if TYPE_CHECKING:
    from collections.abc import Iterable

# Allocations of the first token of a text, which includes the prompt, of the last one, and of all others.
FIRST, LAST, OTHER = 900, 540, 560


class Program:
    """A model with given numbers of allocations, in place of the mode, the hooks and the allocator."""

    def __init__(self) -> None:
        self.has_details, self.labels_all, self.is_on, self.forgotten = True, False, True, 0
        self.made = 0
        self.model = nn.Identity()
        parts: Any = self
        self.details = Details(parts, parts, parts)

    def allocations(self) -> int:
        return self.made

    def record_stacks(self, *, wanted: bool) -> None:
        pass

    def hook(self) -> None:
        pass

    def run(self, numbers: Iterable[int]) -> list[int]:
        """Runs iterations. Returns the numbers of allocations of those that had details."""
        found = []
        for number in numbers:
            self.details.begins(self.model)
            if self.has_details:
                found.append(number)
            self.made += number
        return found


def text(tokens: int) -> list[int]:
    return [FIRST, *[OTHER] * (tokens - 2), LAST]


@pytest.mark.parametrize("tokens", [2, 3, 8, 16, 60])
def test_every_token_of_a_text_is_learned_once(tokens: int) -> None:
    program = Program()
    learning = program.run(text(tokens) * (2000 // tokens))
    assert {FIRST, LAST} <= set(learning)
    # Without the first iterations, which are not counted, and one wait.
    assert len(learning) <= 2000 // ITERATIONS_PER_DETAILED + STEADY + MAX_WAITING
    assert program.run(text(tokens) * 20) == []


def test_the_end_of_a_text_is_soon_usual() -> None:
    program = Program()
    program.run(text(16) * 3)
    assert program.run(text(16) * 6) == []


def test_long_texts_are_not_waited_for() -> None:
    program = Program()
    found = program.run(text(1000) * 10)
    assert len(found) < 10 + 2 * MAX_WAITING
    assert program.run(text(1000) * 5) == []


def test_numbers_that_never_repeat_are_not_waited_for() -> None:
    program = Program()
    program.run([OTHER] * 10)
    found = program.run(number for other in range(100) for number in (1000 + other, *[OTHER] * 9))
    # That after each of them, until there are too many to remember, and no others.
    assert len(found) <= 100


def test_a_new_file_has_everything_once() -> None:
    program = Program()
    program.run(text(16) * 100)
    program.forgotten += 1
    found = program.run(text(16) * 100)
    assert {FIRST, OTHER, LAST} <= set(found)
    assert program.run(text(16) * 20) == []
