"""Small versions of the programs in `bench/torch_cuda.py`, which run with and without the tracker.

`python eight_programs.py DEVICE NAME…` compares the results in a process of its own: a GPU is only
deterministic if an environment variable is set before it is first used.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as f
from torch import nn

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STEPS = 20
WORDS, BATCH, LENGTH = 64, 2, 16
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": WORDS,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


class Program(NamedTuple):
    """A model, and a step whose results are compared: losses, or tokens and logits."""

    model: nn.Module
    step: Callable[[], list[torch.Tensor]]


def trained(model: nn.Module, loss_of: Callable[[], torch.Tensor]) -> Program:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step() -> list[torch.Tensor]:
        loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return [loss.detach()]

    return Program(model, step)


def language_model(model: nn.Module, device: str) -> Program:
    """Trains a model of transformers that computes its own loss."""
    model = model.to(device)
    words = torch.randint(1, WORDS, (STEPS, BATCH, LENGTH), device=device)
    batches = iter(words)

    def loss_of() -> torch.Tensor:
        batch = next(batches)
        loss: torch.Tensor = model(input_ids=batch, labels=batch).loss
        return loss

    return trained(model, loss_of)


def gpt2_model(layers: int = 2) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": layers, "n_embd": 32, "n_head": 4, "vocab_size": WORDS, "n_positions": LENGTH}
    tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    model: Any = GPT2LMHeadModel(GPT2Config(**sizes, **tokens, use_cache=False))
    # Without it, transformers logs a message, which Dynamo cannot compile.
    model.loss_type = "ForCausalLM"
    found: nn.Module = model
    return found


def gpt2(device: str) -> Program:
    return language_model(gpt2_model(), device)


def gpt2_compiled(device: str) -> Program:
    torch._dynamo.reset()
    compiled: Any = torch.compile(gpt2_model(layers=1))
    return language_model(compiled, device)


def llama_model(device: str) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    model: nn.Module = LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2))
    return model.to(device).bfloat16()


def llama(device: str) -> Program:
    """The loss is computed outside the model."""
    model = llama_model(device)
    words = torch.randint(1, WORDS, (BATCH, LENGTH), device=device)

    def loss_of() -> torch.Tensor:
        logits = model(input_ids=words, use_cache=False).logits.float()
        return f.cross_entropy(logits[:, :-1].flatten(0, 1), words[:, 1:].flatten())

    return trained(model, loss_of)


def llama_generates(device: str) -> Program:
    """A step is one token. After 8 tokens, the next text begins."""
    model = llama_model(device).eval()

    @torch.no_grad()
    def tokens() -> Iterator[list[torch.Tensor]]:
        while True:
            found = model(input_ids=torch.randint(1, WORDS, (BATCH, LENGTH), device=device), use_cache=True)
            for _ in range(8):
                word = torch.multinomial(found.logits[:, -1].float().softmax(-1), 1)
                yield [word, found.logits]
                found = model(input_ids=word, past_key_values=found.past_key_values, use_cache=True)

    generated = tokens()
    return Program(model, lambda: next(generated))


def bert(device: str) -> Program:
    from transformers import BertConfig, BertForMaskedLM

    return language_model(BertForMaskedLM(BertConfig(**SIZES, max_position_embeddings=LENGTH)), device)


def mixture(device: str) -> Program:
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    experts = {"num_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 4}
    experts |= {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
    return language_model(Qwen2MoeForCausalLM(Qwen2MoeConfig(**SIZES, **experts)), device)


def image_model(model: nn.Module, device: str, *, autocast: bool) -> Program:
    model = model.to(device)
    images = torch.randn(STEPS, 4, 3, 32, 32, device=device)
    batches, kinds = iter(images), torch.randint(10, (4,), device=device)

    def loss_of() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            return f.cross_entropy(model(next(batches)), kinds)

    return trained(model, loss_of)


def convnext(device: str) -> Program:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    model = ConvNeXt(
        [CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], stochastic_depth_prob=0.2, num_classes=10
    )
    return image_model(model, device, autocast=True)


def mobilenet(device: str) -> Program:
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    blocks = [
        InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 1.0),
        InvertedResidualConfig(16, 3, 48, 24, False, "HS", 2, 1, 1.0),
        InvertedResidualConfig(24, 5, 72, 24, True, "HS", 1, 1, 1.0),
    ]
    return image_model(MobileNetV3(blocks, last_channel=64, num_classes=10), device, autocast=False)


PROGRAMS: dict[str, Callable[[str], Program]] = {
    program.__name__: program
    for program in (
        gpt2,
        gpt2_compiled,
        llama,
        llama_generates,
        bert,
        convnext,
        mobilenet,
        mixture,
    )
}


def results(name: str, device: str) -> dict[str, torch.Tensor]:
    """Runs a program. Returns all results of its steps, and its weights and buffers at the end."""
    torch.manual_seed(0)
    program = PROGRAMS[name](device)
    found: dict[str, torch.Tensor] = {}
    for step in range(STEPS):
        found |= {f"step {step}, {at}": result.cpu() for at, result in enumerate(program.step())}
    return found | {key: value.detach().cpu() for key, value in program.model.state_dict().items()}


def tracked(name: str, device: str, folder: str) -> dict[str, torch.Tensor]:
    """Does the same with the tracker, which must have no errors and know what is in memory at the peak."""
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0, level="tensors")
    try:
        found = results(name, device)
        summary = ttmem.get_memory_summary()
    finally:
        ttmem.stop_memory_tracker()
    assert summary["errors"] == 0
    assert tracker.recording is not None
    rank = ttmem.load(tracker.recording).summary()["ranks"][0]
    (pool,) = (pool for pool, had in rank["pools"].items() if pool.startswith(device) and had["peak_total"])
    unknown = rank["peaks"][pool]["by_class_per_bank"].get("unknown", 0)
    # On a GPU, most of the memory of programs this small are workspaces of a size that the environment sets.
    if device == "cpu":
        assert unknown <= rank["pools"][pool]["peak_total"] * (0.05 if "compiled" in name else 0.01)
    return found


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def differences(name: str, device: str, folder: str) -> list[str]:
    """Returns the results that are not the same bit by bit with and without the tracker."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        without, with_tracker = results(name, device), tracked(name, device, folder)
    finally:
        torch.use_deterministic_algorithms(before)
    assert list(without) == list(with_tracker)
    assert len(without) > STEPS
    return [key for key, value in without.items() if bits(value) != bits(with_tracker[key])]


def main(device: str, *names: str) -> None:
    """Compares some programs; prints what differs."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {differences(name, device, folder)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
