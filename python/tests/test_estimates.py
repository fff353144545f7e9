"""NO_DISPATCH captures of real models: the numbers of a real run, or the lines where it may differ."""

from __future__ import annotations

import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from ttmem import MemoryUsageTracker, RunMode
from ttmem._torch import as_real, known
from ttmem.usage import MAX_WARNINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

WORDS, BATCH, LENGTH = 128, 2, 32
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": WORDS,
    "pad_token_id": 0,
}
# A model and its inputs.
Made = tuple[nn.Module, dict[str, torch.Tensor]]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    MemoryUsageTracker.clear()


def language_model(name: str, config: Any) -> Made:
    transformers = pytest.importorskip("transformers")
    model: nn.Module = getattr(transformers, name)(config).to(torch.bfloat16)
    words = torch.randint(1, WORDS, (BATCH, LENGTH))
    return model, {"input_ids": words, "labels": words}


def llama() -> Made:
    transformers = pytest.importorskip("transformers")
    return language_model("LlamaForCausalLM", transformers.LlamaConfig(**SIZES, num_key_value_heads=2))


def bert() -> Made:
    transformers = pytest.importorskip("transformers")
    return language_model("BertForMaskedLM", transformers.BertConfig(**SIZES, max_position_embeddings=LENGTH))


def mixtral(**options: Any) -> Made:
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4, **options)
    return language_model("MixtralForCausalLM", config)


def resnet() -> Made:
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.resnet18(num_classes=10).to(torch.bfloat16)
    return model, {"x": torch.randn(BATCH, 3, 32, 32, dtype=torch.bfloat16)}


def masked(make: Any, hidden: int) -> Any:
    """Returns the same with an attention mask that hides some tokens of the first row."""

    def made() -> Made:
        model, inputs = make()
        mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
        mask[0, LENGTH - hidden :] = 0
        return model, inputs | {"attention_mask": mask}

    return made


MODELS: dict[str, Any] = {"resnet": resnet}
for family in (llama, bert, mixtral):
    MODELS[family.__name__] = family
    MODELS[f"{family.__name__}-mask"] = masked(family, 0)
    MODELS[f"{family.__name__}-padding"] = masked(family, 5)


def train(model: nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """Trains for two steps, with a phase for each part."""
    optimizer = torch.optim.AdamW(model.train().parameters())
    for _ in range(2):
        out = model(**inputs)
        loss = out.loss if hasattr(out, "loss") else out.float().pow(2).mean()
        MemoryUsageTracker.snapshot("FORWARD")
        loss.backward()
        MemoryUsageTracker.snapshot("BACKWARD")
        optimizer.step()
        optimizer.zero_grad()
        MemoryUsageTracker.snapshot("STEP")


def infer(model: nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """Computes an output without gradients."""
    with torch.no_grad():
        out = model.eval()(**{name: value for name, value in inputs.items() if name != "labels"})
    MemoryUsageTracker.snapshot("INFERENCE")
    del out


def captured(mode: RunMode, make: Any, run: Callable[..., None], *, is_inside: bool) -> tuple[Any, str]:
    """Returns the phases of a program and their text. The model may be created inside the capture."""
    MemoryUsageTracker.clear()
    torch.manual_seed(0)
    made = None if is_inside else make()
    MemoryUsageTracker.begin_capture(mode, device="cpu").release()
    made = made or make()
    MemoryUsageTracker.snapshot("MODEL")
    run(*made)
    MemoryUsageTracker.end_capture()
    return MemoryUsageTracker.get_dram_usage_all(), MemoryUsageTracker.memory_usage_text()


class TestAgainstTheRealRun:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize(("run", "is_inside"), [(train, True), (infer, False)], ids=["train", "infer"])
    def test_models_in_bfloat16(self, name: str, run: Any, is_inside: bool) -> None:
        real, _ = captured(RunMode.NORMAL, MODELS[name], run, is_inside=is_inside)
        estimated, text = captured(RunMode.NO_DISPATCH, MODELS[name], run, is_inside=is_inside)
        assert estimated == real
        assert "not computed" not in text

    def test_a_batch_with_many_tokens(self) -> None:
        def make() -> Made:
            model, _ = llama()
            words = torch.ones(2 * known.MAX_ELEMENTS // 256, 256, dtype=torch.long)
            return model.get_submodule("model.layers.0.self_attn"), {"attention_mask": words}

        def skips_the_mask(attention: nn.Module, inputs: dict[str, torch.Tensor]) -> None:
            from transformers.masking_utils import create_causal_mask

            config: Any = attention.config
            hidden = torch.empty(*inputs["attention_mask"].shape, config.hidden_size)
            mask = create_causal_mask(config, hidden, past_key_values=None, **inputs)
            assert mask is None

        real, _ = captured(RunMode.NORMAL, make, skips_the_mask, is_inside=False)
        assert captured(RunMode.NO_DISPATCH, make, skips_the_mask, is_inside=False)[0] == real

    def test_a_module_frees_each_parameter_when_it_is_converted(self) -> None:
        def make() -> Made:
            layer = nn.Linear(300, 200)
            layer.extra = nn.Parameter(torch.zeros(100, 100))
            layer(torch.ones(1, 300)).sum().backward()
            return layer.to(torch.bfloat16), {}

        def only_made(*_: object) -> None:
            pass

        real, _ = captured(RunMode.NORMAL, make, only_made, is_inside=True)
        assert captured(RunMode.NO_DISPATCH, make, only_made, is_inside=True)[0] == real

    def test_experts_that_get_an_unknown_number_of_tokens_are_named(self) -> None:
        modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")

        def make() -> Any:
            return mixtral(experts_implementation="eager")

        real, _ = captured(RunMode.NORMAL, make, infer, is_inside=False)
        for is_inside in (True, False):
            estimated, text = captured(RunMode.NO_DISPATCH, make, infer, is_inside=is_inside)
            assert dict(estimated)["INFERENCE"].peak > dict(real)["INFERENCE"].peak
            source, first = inspect.getsourcelines(modeling.MixtralExperts.forward)
            (sized,) = [first + at for at, line in enumerate(source) if "torch.where(" in line]
            place = f"{modeling.__file__}:{sized} (called from {__file__}:"
            (line,) = [line for line in text.splitlines() if line.startswith(f"  {place}")]
            assert line.endswith("the maximum size is used for aten.nonzero; a real run may allocate less")


def line_of(function: Any, part: str) -> str:
    """Returns the file and line of a part of a function."""
    source, first = inspect.getsourcelines(function)
    (at,) = [at for at, line in enumerate(source) if part in line]
    return f"{__file__}:{first + at}"


def reads_unknown_values() -> None:
    x = torch.randn(8)
    for _ in range(2):
        if bool(x.sum() > 0):
            x = torch.cat([x, x])
    float(x.sum())
    x[x > 0].sum()


class TestWarnings:
    def test_each_line_is_named_once_with_its_effect(self) -> None:
        with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu"):
            assert MemoryUsageTracker.get_warnings() == []
            reads_unknown_values()
            found = MemoryUsageTracker.get_warnings()
            condition, value, size = found
            assert condition.startswith(
                f"{line_of(reads_unknown_values, 'if bool')}: a condition is taken as"
            )
            assert value.startswith(f"{line_of(reads_unknown_values, 'float')}: a value is read as NaN")
            assert size.startswith(f"{line_of(reads_unknown_values, 'x > 0')}: the maximum size is used for")
            MemoryUsageTracker.end_capture()
            text = MemoryUsageTracker.memory_usage_text()
            assert text.endswith("lines of the program:\n" + "".join(f"  {line}\n" for line in found))
        assert MemoryUsageTracker.get_warnings() == []

    def test_they_belong_to_the_phases(self) -> None:
        MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu").release()
        float(torch.randn(()))
        MemoryUsageTracker.end_capture("FIRST")
        MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu").release()
        bool(torch.randn(()) > 0)
        MemoryUsageTracker.end_capture("SECOND")
        assert len(MemoryUsageTracker.get_warnings()) == 2
        MemoryUsageTracker.clear()
        assert MemoryUsageTracker.get_warnings() == []

    def test_a_long_list_is_shortened(self) -> None:
        MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu").release()
        source = "\n".join(["float(x)"] * (MAX_WARNINGS + 3))
        exec(compile(source, "program.py", "exec"), {"x": torch.randn(())})  # noqa: S102 - made above
        MemoryUsageTracker.end_capture()
        lines = MemoryUsageTracker.memory_usage_text().splitlines()
        assert lines[-1] == "  and 3 more (get_warnings() returns all)"
        assert lines[-2].startswith(f"  program.py:{MAX_WARNINGS}: a value is read as NaN")
        assert len(MemoryUsageTracker.get_warnings()) == MAX_WARNINGS + 3

    def test_a_real_run_has_none(self) -> None:
        with MemoryUsageTracker.begin_capture(device="cpu"):
            reads_unknown_values()
            MemoryUsageTracker.end_capture()
            assert MemoryUsageTracker.get_warnings() == []


class TestChecksOfLibraries:
    def test_a_library_imported_inside_has_its_check_replaced_and_restored(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def is_fake_tensor(x: object) -> bool:
            return isinstance(x, torch._subclasses.FakeTensor)

        library: Any = types.ModuleType("library")
        monkeypatch.setattr(as_real, "CHECKS", (("library", "is_fake_tensor"),))
        with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu"):
            # While it is imported, a module is already listed.
            monkeypatch.setitem(sys.modules, "library", library)
            x = torch.ones(2)
            library.is_fake_tensor = is_fake_tensor
            y = x + 1
            assert not library.is_fake_tensor(y)
            with torch._subclasses.FakeTensorMode() as others:
                other = others.from_tensor(torch.empty(2, device="meta"))
            assert library.is_fake_tensor(other)
        assert library.is_fake_tensor is is_fake_tensor

    def test_what_the_program_replaces_stays(self) -> None:
        before = torch.utils.swap_tensors

        def ours(*_: object) -> None:
            pass

        try:
            with MemoryUsageTracker.begin_capture(RunMode.NO_DISPATCH, device="cpu"):
                assert torch.utils.swap_tensors is not before
                torch.utils.swap_tensors = ours
            assert torch.utils.swap_tensors is ours
        finally:
            torch.utils.swap_tensors = before
