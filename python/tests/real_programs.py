"""Small versions of real programs, with random weights and data.

Each is measured twice in one run: by PyTorch's profiler, which reports every allocation of the CPU allocator
in its thread, and by the tracker. `torchrun real_programs.py FOLDER NAME` does that in each
rank, and writes `FOLDER/NAME.RANK.json`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as f
from torch import nn
from torch.profiler import ProfilerActivity, profile

import ttmem

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS, WIDTH, LENGTH, BATCH = 512, 128, 64, 4


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        more: torch.Tensor = self.mlp(self.norms[1](x))
        return x + more


class Gpt(nn.Module):
    """A small language model that returns its loss."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.words(words) + self.places(torch.arange(words.shape[1]))))
        return f.cross_entropy(logits.flatten(0, 1), words.flatten())


def train(model: nn.Module, steps: int = 2) -> None:
    """Trains a model that returns its loss."""
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randint(0, WORDS, (BATCH, LENGTH))).backward()
        optimizer.step()
        optimizer.zero_grad()


def trainer(*, checkpointing: bool) -> None:
    """`transformers.Trainer` on a small GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(
        n_layer=3,
        n_embd=WIDTH,
        n_head=4,
        vocab_size=WORDS,
        n_positions=LENGTH,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    rows = [{"input_ids": words, "labels": words} for words in torch.randint(0, WORDS, (16, LENGTH))]
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=2,
        per_device_train_batch_size=BATCH,
        gradient_checkpointing=checkpointing,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=rows).train()


def trainer_plain() -> None:
    """Without checkpointing."""
    trainer(checkpointing=False)


def trainer_checkpointing() -> None:
    """With gradient checkpointing."""
    trainer(checkpointing=True)


def generate() -> None:
    """`generate` of a small Llama, greedily, with its KV cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    model.generate(torch.randint(1, WORDS, (2, 32)), max_new_tokens=24, do_sample=False)


def resnet_autocast() -> None:
    """A ResNet of torchvision in bfloat16, with autocast."""
    from torchvision.models import resnet18

    model = resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = f.cross_entropy(model(torch.randn(4, 3, 64, 64)), torch.randint(0, 10, (4,)))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def compiled_gpt() -> None:
    """A language model, compiled."""
    torch._dynamo.reset()
    model = Gpt(1)
    train(torch.compile(model))  # type: ignore[arg-type]


class Convolutions(nn.Module):
    """A generator or a discriminator, by its layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found


def gan() -> None:
    """A small DCGAN; both of its models are of one class."""
    generator = Convolutions(
        nn.ConvTranspose2d(32, 64, 4),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 3, 4, 2, 1),
        nn.Tanh(),
    )
    discriminator = Convolutions(
        nn.Conv2d(3, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 4),
        nn.Flatten(),
    )
    optimizers = [torch.optim.Adam(model.parameters(), lr=2e-4) for model in (generator, discriminator)]
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    for _ in range(2):
        real, fake = torch.randn(16, 3, 16, 16), generator(torch.randn(16, 32, 1, 1))
        optimizers[1].zero_grad()
        loss = f.binary_cross_entropy_with_logits(discriminator(real), ones)
        (loss + f.binary_cross_entropy_with_logits(discriminator(fake.detach()), zeros)).backward()  # type: ignore[no-untyped-call]
        optimizers[1].step()
        optimizers[0].zero_grad()
        f.binary_cross_entropy_with_logits(discriminator(fake), ones).backward()  # type: ignore[no-untyped-call]
        optimizers[0].step()


def ddp() -> None:
    """One rank of data-parallel training."""
    train(nn.parallel.DistributedDataParallel(Gpt()))


def fsdp() -> None:
    """One rank of fully sharded training (FSDP2)."""
    from torch.distributed.fsdp import fully_shard

    model = Gpt()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    train(model)


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program
    for program in (
        trainer_plain,
        trainer_checkpointing,
        generate,
        resnet_autocast,
        compiled_gpt,
        ddp,
        fsdp,
        gan,
    )
}


class Changes:
    """The CPU allocator's actions while a profiler ran, as the profiler reports them."""

    def __init__(self, profiled: Any) -> None:
        """Reads the allocations and frees, in order."""
        found: list[tuple[int, int, int]] = []
        waiting = [*profiled.profiler.kineto_results.experimental_event_tree()]
        while waiting:
            event = waiting.pop()
            waiting += event.children
            fields = event.extra_fields
            if event.tag == torch._C._profiler._EventType.Allocation and fields.device.type == "cpu":
                found.append((event.start_time_ns, fields.ptr or 0, fields.alloc_size))
        self._changes = [(address, change) for _, address, change in sorted(found)]

    def peak(self, without: frozenset[int] = frozenset()) -> int:
        """Returns the peak; `without` excludes some of the allocations."""
        level, peak = 0, 0
        for number, (_, change) in enumerate(self._changes):
            if number not in without:
                level += change
                peak = max(peak, level)
        return peak

    def never_freed(self) -> frozenset[int]:
        """Returns the allocations without a free: the profiler does not report frees of other threads."""
        alive: dict[int, int] = {}
        lost: set[int] = set()
        for number, (address, change) in enumerate(self._changes):
            if change > 0:
                # The earlier allocation at this address was freed.
                lost |= {alive[address]} if address in alive else set()
                alive[address] = number
            else:
                alive.pop(address, None)
        return frozenset(lost | set(alive.values()))


def highest(profiled: Any) -> int:
    """Returns the CPU peak that the profiler reports."""
    return Changes(profiled).peak()


def measured(name: str, folder: str) -> dict[str, Any]:
    """Returns a program's peak by PyTorch's profiler and by the tracker, and the tracker's warnings."""
    torch.manual_seed(0)
    # On machines with few cores, threads wait for each other longer than these programs compute.
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        tracker = ttmem.initialize_memory_tracker(output_dir=folder, interval=60.0)
        PROGRAMS[name]()
        gc.collect()
        errors = tracker.get_summary()["errors"]
        ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    summary = ttmem.open(tracker.recording).summary()
    pool, changes = summary["ranks"][0]["pools"]["cpu"], Changes(profiled)
    return {
        "theirs": changes.peak(),
        "theirs_freed": changes.peak(without=changes.never_freed()),
        "ours": pool["peak_total"],
        "missing": pool.get("not_watched", []),
        "warnings": [warning["message"] for warning in summary["source"]["warnings"]],
        "errors": errors,
        "recording": tracker.recording,
    }


def main(folder: str, *names: str) -> None:
    """Runs one rank of the given programs."""
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for name in names:
        found = measured(name, os.path.join(folder, str(rank)))
        with open(os.path.join(folder, f"{name}.{rank}.json"), "w") as file:
            json.dump(found, file)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
