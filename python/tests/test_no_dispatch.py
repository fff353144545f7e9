"""Values in a NO_DISPATCH capture: those that follow from constants are known."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ttmem import MemoryUsageTracker, RunMode
from ttmem._torch import asked, known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOGGER = "ttmem"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    MemoryUsageTracker.clear()


def capture() -> Any:
    return MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu")


def language_model() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


# Each returns a tensor that follows from Python values.
PROGRAMS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.tensor([[3, 1], [2, 5]]) - 1,
    lambda: torch.tensor([1.5, -2.0]).to(torch.float64) * 2,
    lambda: torch.full((2, 3), 7) - torch.ones(3, dtype=torch.long),
    lambda: torch.arange(10).view(2, 5)[:, 1::2].T.contiguous() * 3,
    lambda: torch.arange(6).cumsum(0).flip(0)[torch.tensor([0, 2])],
    lambda: torch.zeros(4).add_(2).mul_(torch.arange(4)),
    lambda: torch.empty(3).fill_(4.0),
    lambda: torch.zeros(2, 3, dtype=torch.long).index_fill_(1, torch.tensor([1]), 9),
    lambda: torch.cat([torch.eye(2), torch.ones(1, 2)]).max(dim=0).values,
    lambda: torch.nonzero(torch.tensor([0, 4, 0, 5])),
    lambda: torch.arange(9)[torch.arange(9) % 2 == 0],
    lambda: torch.unique(torch.tensor([3, 3, 1])),
    lambda: torch.where(torch.arange(4) > 1, torch.tensor(1), torch.tensor(0)),
    lambda: torch.linspace(0, 1, 5).expand(2, 5) @ torch.ones(5),
    lambda: torch.zeros_like(torch.randn(3)) + torch.randn(2).new_full((3,), 2.5),
]


def written_through_a_view() -> torch.Tensor:
    x = torch.zeros(2, 3)
    row = x[1]
    row += 5
    x[0, 2] = 8
    return x


def with_a_shape_changed_in_place() -> torch.Tensor:
    x = torch.arange(6).view(2, 3).clone()
    x.t_()
    return x + torch.tensor([10, 20])


PROGRAMS += [written_through_a_view, with_a_shape_changed_in_place]


class TestKnownValues:
    @pytest.mark.parametrize("program", PROGRAMS)
    def test_what_follows_from_constants_is_as_computed(self, program: Callable[[], torch.Tensor]) -> None:
        truth = program()
        values = truth.reshape(-1).tolist()
        with capture():
            found = program()
            assert found.shape == truth.shape
            assert found.tolist() == truth.tolist()
            assert [value.item() for value in found.reshape(-1)] == values

    def test_random_values_and_what_is_not_written_are_unknown(self) -> None:
        generator = torch.get_rng_state()
        with capture():
            ones = torch.ones(3)
            unknown = [
                torch.randn(3),
                torch.empty(3),
                torch.empty_like(ones),
                torch.rand_like(ones),
                torch.bernoulli(ones / 2),
                torch.nn.functional.dropout(ones),
                ones + torch.randn(3),
                torch.randperm(3).float(),
            ]
            assert all(math.isnan(x[0].item()) for x in unknown)
        assert torch.equal(generator, torch.get_rng_state())

    def test_what_is_overwritten_with_unknown_values_is_unknown(self) -> None:
        with capture():
            x, y, z = torch.zeros(4), torch.zeros(4), torch.zeros(2, 2)
            view = x[1:]
            view += torch.randn(3)
            assert math.isnan(x[0].item())
            y.copy_(torch.randn(4))
            assert math.isnan(y[0].item())
            z.uniform_()
            assert math.isnan(z[0, 0].item())
            y.zero_()
            assert y.tolist() == [0.0] * 4

    def test_what_is_at_an_unknown_position_is_unknown(self) -> None:
        weights, lengths = torch.ones(4, 3), torch.tensor([7, 8, 9])
        with capture():
            unknown = torch.randint(3, ())
            table = torch.arange(3)
            for part in (table[unknown], lengths[unknown], table.view(3, 1)[unknown].view(1)[0]):
                assert math.isnan((part + 1).item())
            assert table.tolist() == [0, 1, 2]
            assert (lengths + 0).tolist() == [7, 8, 9]
            assert weights[unknown].shape == (3,)
            assert weights[unknown, 1:].shape == (2,)
            table[unknown] = 5
            assert math.isnan(table[0].item())
            view = torch.zeros(2, 2)
            view[unknown] += 1
            assert math.isnan(view[1, 1].item())
        assert lengths.tolist() == [7, 8, 9]

    def test_one_operand_may_decide(self) -> None:
        with capture():
            unknown = torch.randn(3) > 0
            assert (unknown | torch.ones(3, dtype=torch.bool)).tolist() == [True] * 3
            assert (torch.zeros(3, dtype=torch.long) & unknown).tolist() == [0] * 3
            assert torch.logical_and(unknown, torch.zeros(3)).any().item() is False
            unknown |= torch.ones(1, dtype=torch.bool)
            assert bool(unknown.all())
            # A number with all bits set is not `True`.
            assert math.isnan(((torch.randn(3) > 0).long() | torch.ones(3, dtype=torch.long))[0].item())

    def test_real_integers_are_known_and_stay_as_they_are(self) -> None:
        lengths, weights = torch.tensor([3, 5]), torch.tensor([1.0, 2.0])
        with capture():
            assert (lengths + 1).tolist() == [4, 6]
            assert math.isnan((weights + 1)[0].item())
            lengths.add_(1)
            assert (lengths * 1).tolist() == [4, 6]
        assert lengths.tolist() == [3, 5]

    def test_a_loop_over_a_real_counter_ends(self) -> None:
        for counter in (torch.tensor(0), torch.tensor(0.0)):
            with capture():
                while counter.item() < 3:
                    counter.add_(1)
            assert counter.item() == 0

    def test_a_real_number_that_gets_an_unknown_value_is_unknown(self) -> None:
        scale = torch.tensor(2.0)
        with capture():
            assert scale.item() == 2.0
            scale.copy_(torch.randn(()))
            assert math.isnan(scale.item())
        with capture():
            assert scale.item() == 2.0

    def test_known_values_take_no_more_memory_than_small_tensors_do(self) -> None:
        with capture():
            large = torch.zeros(known.MAX_ELEMENTS + 1)
            assert math.isnan(large[0].item())
            column = torch.ones(known.MAX_ELEMENTS, 1)
            outer = column * torch.ones(known.MAX_ELEMENTS)
            assert outer.shape == (known.MAX_ELEMENTS,) * 2
            assert math.isnan(outer[0, 0].item())
            assert math.isnan(torch.ones(1).expand(1 << 40).sum().item())

    def test_a_loop_over_a_position_ends(self) -> None:
        with capture():
            position, steps = torch.zeros((), dtype=torch.long), 0
            while position < 12:
                position += 3
                steps += 1
            assert steps == 4


@pytest.mark.filterwarnings("ignore")
class TestGenerate:
    @pytest.mark.parametrize(
        "options",
        [{}, {"do_sample": True}, {"num_beams": 3}, {"cache_implementation": "static"}, {"use_cache": False}],
        ids=lambda options: "-".join(options) or "greedy",
    )
    @pytest.mark.parametrize("is_inside", [True, False], ids=["inside", "outside"])
    def test_it_ends_at_its_length(self, options: dict[str, Any], is_inside: bool) -> None:
        # Random weights may make a sequence end early. This is the maximum length.
        model, prompt = (
            (None, None) if is_inside else (language_model(), torch.tensor([[5, 6, 7], [0, 0, 8]]))
        )
        with capture():
            model = model or language_model()
            prompt = torch.tensor([[5, 6, 7], [0, 0, 8]]) if prompt is None else prompt
            mask = (prompt != 0).long()
            out = model.generate(prompt, attention_mask=mask, max_new_tokens=6, **options)
            assert out.shape == (2, 9)

    def test_the_figures_are_those_of_a_generation_that_is_as_long(self) -> None:
        found = []
        for mode in RunMode:
            model = language_model()
            with MemoryUsageTracker.begin_capture(mode, device="cpu"):
                prompt = torch.tensor([[5, 6, 7]])
                out = model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False)
                assert out.shape == (1, 9)
                del out, prompt
                MemoryUsageTracker.end_capture("GENERATE")
                found.append(MemoryUsageTracker.get_dram_usage("GENERATE"))
        assert found[0] == found[1]

    def test_one_without_an_end_says_where(self, monkeypatch: pytest.MonkeyPatch) -> None:
        transformers = pytest.importorskip("transformers")
        monkeypatch.setattr(asked, "MAX_ASKED", 8)
        never = transformers.StoppingCriteriaList([lambda *_, **__: torch.randn(1) > 0])
        model = language_model()
        with capture(), pytest.raises(RuntimeError) as raised:
            model.generate(
                torch.tensor([[5]]), max_length=None, max_new_tokens=1 << 20, stopping_criteria=never
            )
        assert "utils.py:" in str(raised.value)
        assert f"called from {__file__}:" in str(raised.value)


def wait_for_a_value(rounds: list[int]) -> None:
    while not bool(torch.randn(()) > 3):
        rounds.append(1)


class TestAskedTooOften:
    def test_an_endless_loop_is_an_error_that_names_its_line(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(asked, "MAX_ASKED", 100)
        monkeypatch.setattr(asked, "ASKED_OFTEN", 10)
        rounds: list[int] = []
        with capture(), caplog.at_level(logging.WARNING, LOGGER), pytest.raises(RuntimeError) as raised:
            wait_for_a_value(rounds)
        line = wait_for_a_value.__code__.co_firstlineno + 1
        assert len(rounds) == asked.MAX_ASKED
        assert f"{__file__}:{line}: read an unknown value {asked.MAX_ASKED + 1} times" in str(raised.value)
        assert "RunMode.NORMAL" in str(raised.value)
        assert f"{__file__}:{line}: read an unknown value {asked.ASKED_OFTEN} times" in caplog.text

    def test_each_capture_counts_anew_and_each_line_for_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asked, "MAX_ASKED", 5)
        for _ in range(3):
            with capture():
                x = torch.randn(())
                for _ in range(5):
                    float(x)
                for _ in range(5):
                    float(x)
                for _ in range(50):
                    torch.tensor(1.0).item()
