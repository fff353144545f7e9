"""Measures what the tracker costs on a CUDA device, in eight programs, most of them limited by the host.

    python bench/torch_cuda.py [PROGRAM ...]

Needs `transformers` and `torchvision`. Each program runs in its own process. It is first tracked from
its start, which shows the share of the peak without a class, what fell out of the allocator's history, and
whether the reported peak is that of the allocator. Then rounds of all variants alternate. In each round, the
median iteration of a variant is divided by that of the program without a tracker, right before or after it; the
result is the median of these ratios, with their quartiles. "First" are the ten first iterations with a tracker,
all others are "later"; an iteration is a training step or a generated token. Starting and stopping a tracker
is not measured. The output is a table in Markdown.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as f
from torch import nn
from torch.nn.modules import module as torch_module

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = int(os.environ.get("ROUNDS", "9"))
FIRST, LATER = 10, 20
# Iterations before those that are measured, in variants that learn nothing in their first ones.
WARM_UP = 3


def trained(model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor]) -> Callable[[], object]:
    """Returns a training step."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def language_model(config: Any, batch: int, length: int, *, dtype: torch.dtype = torch.float32) -> Any:
    """Returns a training step of a model of `transformers` that computes its own loss."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, dtype=dtype).cuda()
    words = torch.randint(config.vocab_size, (batch, length), device="cuda")
    return trained(model, lambda model: model(input_ids=words, labels=words).loss)


def gpt2_config(**sizes: int) -> Any:
    from transformers import GPT2Config

    return GPT2Config(**sizes)


def llama_config() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
    )


def gpt2() -> Any:
    return language_model(gpt2_config(), 4, 256)


def gpt2_compiled() -> Any:
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel(gpt2_config(n_layer=6, n_embd=384, n_head=6)).cuda()
    words = torch.randint(50257, (8, 256), device="cuda")
    compiled: Any = torch.compile(model)
    return trained(compiled, lambda model: model(input_ids=words, labels=words).loss)


def llama() -> Any:
    """The loss is computed outside the model."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(llama_config()).cuda().bfloat16()
    words = torch.randint(32000, (4, 1024), device="cuda")

    def loss_of(model: nn.Module) -> torch.Tensor:
        logits = model(input_ids=words, use_cache=False).logits.float()
        return f.cross_entropy(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())

    return trained(model, loss_of)


def llama_generates() -> Any:
    """An iteration is one token. After 16 tokens, the next text begins."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(llama_config()).cuda().bfloat16().eval()
    prompt = torch.randint(32000, (1, 32), device="cuda")

    @torch.no_grad()
    def tokens() -> Iterator[None]:
        while True:
            found = model(input_ids=prompt, use_cache=True)
            for _ in range(16):
                word = found.logits[:, -1:].argmax(-1)
                yield
                found = model(input_ids=word, past_key_values=found.past_key_values, use_cache=True)

    generated = tokens()
    return lambda: next(generated)


def bert() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig()).cuda()
    words = torch.randint(30000, (8, 128), device="cuda")
    return trained(model, lambda model: model(input_ids=words, labels=words).loss)


def convnext() -> Any:
    import torchvision

    model = torchvision.models.convnext_tiny().cuda()
    images, kinds = torch.randn(32, 3, 224, 224, device="cuda"), torch.randint(1000, (32,), device="cuda")

    def loss_of(model: nn.Module) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return f.cross_entropy(model(images), kinds)

    return trained(model, loss_of)


def mobilenet() -> Any:
    import torchvision

    model = torchvision.models.mobilenet_v3_large().cuda()
    images, kinds = torch.randn(16, 3, 224, 224, device="cuda"), torch.randint(1000, (16,), device="cuda")
    return trained(model, lambda model: f.cross_entropy(model(images), kinds))


def mixture() -> Any:
    from transformers import Qwen2MoeConfig

    config = Qwen2MoeConfig(
        hidden_size=256,
        intermediate_size=512,
        moe_intermediate_size=256,
        shared_expert_intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_experts=8,
        num_experts_per_tok=2,
        vocab_size=32000,
    )
    return language_model(config, 4, 256)


PROGRAMS: dict[str, Callable[[], Any]] = {
    "GPT-2 124M, 4x256": gpt2,
    "GPT-2 30M compiled, 8x256": gpt2_compiled,
    "Llama 200M, 4x1024": llama,
    "Llama 200M generates": llama_generates,
    "BERT base, 8x128": bert,
    "ConvNeXt tiny, autocast, 32": convnext,
    "MobileNetV3, 16": mobilenet,
    "Qwen2-MoE tiny, 4x256": mixture,
}


@contextlib.contextmanager
def bare() -> Iterator[None]:
    yield


@contextlib.contextmanager
def history(context: str | None) -> Iterator[None]:
    record = torch.cuda.memory._record_memory_history
    record("all", context=context, stacks="python", max_entries=200_000)
    yield
    record(None)


@contextlib.contextmanager
def hooks() -> Iterator[None]:
    handles = [
        torch_module.register_module_forward_pre_hook(lambda *_: None),
        torch_module.register_module_forward_hook(lambda *_: None, always_call=True),
    ]
    yield
    for handle in handles:
        handle.remove()


@contextlib.contextmanager
def profiler() -> Iterator[None]:
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]):
        yield


@contextlib.contextmanager
def mem_tracker() -> Iterator[None]:
    from torch.distributed._tools.mem_tracker import MemTracker

    with MemTracker():
        yield


@contextlib.contextmanager
def tracker(level: Any) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        ttmem.initialize_memory_tracker(folder, level=level)
        yield
        ttmem.stop_memory_tracker()


def attributed(make: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Returns a program that was tracked from its start, and what the recording says of its peak: the last columns."""
    with tempfile.TemporaryDirectory() as folder:
        tracker = ttmem.initialize_memory_tracker(folder)
        step = make()
        timed(step, FIRST + LATER)
        real = torch.cuda.max_memory_allocated()
        ttmem.stop_memory_tracker()
        assert tracker.recording is not None
        summary = ttmem.load(tracker.recording).summary()
    rank = summary["ranks"][0]
    peak = rank["pools"]["cuda:0"]["peak_total"]
    unknown = rank["peaks"]["cuda:0"]["by_class_per_bank"].get("unknown", 0) / peak
    warnings = [warning["message"] for warning in summary["source"]["warnings"]]
    lost = [warning for warning in warnings if "overwritten" in warning]
    return step, [str(peak), str(real), f"{unknown:.2%}", "; ".join(lost) or "nothing"]


def timed(step: Callable[[], object], count: int) -> list[float]:
    """Runs some iterations. Returns their times in milliseconds."""
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return times


class Ratios(NamedTuple):
    """What the iterations of a variant take, relative to the program without a tracker, in each round."""

    first: list[float]
    later: list[float]


def interleaved(
    step: Callable[[], object], ways: dict[str, Callable[[], Any]], *, is_compiled: bool
) -> tuple[dict[str, Ratios], float]:
    """Returns the ratios of all variants, and the median time of an iteration without a tracker."""

    def block(entered: Callable[[], Any], warm_up: int = WARM_UP) -> tuple[float, float]:
        gc.collect()
        with entered():
            if is_compiled:
                # A program that is compiled without hooks is compiled again with them.
                timed(step, 2)
            return statistics.median(timed(step, warm_up)), statistics.median(timed(step, LATER))

    ratios = {way: Ratios([], []) for way in ways}
    bases = []
    for turn in range(ROUNDS):
        base = block(bare)[1]
        bases.append(base)
        # In the other direction every second time, so that no variant always follows the same one.
        for way, entered in list(ways.items())[:: 1 if turn % 2 == 0 else -1]:
            first, later = block(entered, FIRST if way == "tensors" else WARM_UP)
            after = block(bare)[1]
            bases.append(after)
            around = statistics.mean((base, after))
            ratios[way].first.append(first / around)
            ratios[way].later.append(later / around)
            base = after
    return ratios, statistics.median(bases)


def shown(ratios: list[float]) -> str:
    """Returns a median with its quartiles."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.2f} to {high:.2f})"


def measure(name: str, make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    step, found = attributed(make)
    timed(step, FIRST)
    ways: dict[str, Callable[[], Any]] = {
        "history": lambda: history(None),
        "with stacks": lambda: history("alloc"),
        "hooks": hooks,
        "phases": lambda: tracker("phases"),
        "tensors": lambda: tracker("tensors"),
    }
    ratios, base = interleaved(step, ways, is_compiled="compiled" in name)
    columns = [name, f"{base:.1f} ms", *(shown(ratios[way].later) for way in ways), shown(ratios["tensors"].first)]
    # MemTracker refuses a second iteration.
    for entered, count in ((profiler, 3), (mem_tracker, 1)):
        with entered():
            columns.append(f"{statistics.median(timed(step, count)) / base:.1f}")
    print("| " + " | ".join([*columns, *found]) + " |", flush=True)


HEADER = (
    "program", "iteration", "history", "with stacks", "hooks", "`phases`", "`tensors`", "first ten", "profiler",
    "MemTracker", "reported peak", "real peak", "unknown", "lost",
)  # fmt: skip


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    chosen = sys.argv[1:]
    if len(chosen) == 1 and chosen[0] in PROGRAMS:
        torch._dynamo.config.recompile_limit = 100
        measure(chosen[0], PROGRAMS[chosen[0]])
        return
    versions = f"torch {torch.__version__}, Python {sys.version.split()[0]}"
    print(f"{versions}, {torch.cuda.get_device_name()}, {ROUNDS} rounds\n", flush=True)
    print("| " + " | ".join(HEADER) + " |\n|---" + "|---:" * (len(HEADER) - 1) + "|", flush=True)
    for name in PROGRAMS:
        if not chosen or any(part in name for part in chosen):
            # In its own process, which has nothing of another program in its memory.
            subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
