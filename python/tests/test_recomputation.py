"""The saving by recomputed activations, compared with programs that recompute them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from test_advice import advice, peak, ranked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LAYERS, WIDTH = 6, 64


class Stack(nn.Module):
    """Layers between a first and a last module."""

    def __init__(
        self, layer: Callable[[], nn.Module], *, first: nn.Module | None = None, last: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.first, self.last = first or nn.Identity(), last or nn.Identity()
        self.layers = nn.ModuleList(layer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, *, is_checkpointed: bool) -> torch.Tensor:
        x = self.first(x)
        others = []
        for layer in self.layers:
            found = checkpoint(layer, x, use_reentrant=False) if is_checkpointed else layer(x)
            if isinstance(found, dict):
                found = tuple(found.values())
            x, *more = found if isinstance(found, tuple) else (found,)
            more = more[0].tensors if more and isinstance(more[0], Holder) else more
            others += [one for one in more if one is not None]
        out: torch.Tensor = self.last(x)
        # The graph of these results keeps the outputs of all layers.
        return out + sum(one.square().mean() for one in others) if others else out


class PreNorm(nn.Module):
    """Normalizes first, and adds to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return out


class PostNorm(PreNorm):
    """Normalizes last, and keeps everything in variables."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = self.up(x)
        active = functional.gelu(up)
        down = functional.dropout(self.down(active), 0.1)
        out: torch.Tensor = self.norm(x + down)
        return out


class Norm(nn.Module):
    """A root mean square norm in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Llama(nn.Module):
    """A layer of Llama, with rotated queries and keys and a gated MLP."""

    HEADS = 4

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        hidden = self.before(x)
        q, k, v = (
            part(hidden).view(batch, tokens, self.HEADS, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        angles = torch.ones(tokens, width // self.HEADS)
        q, k = self.rotated(q, angles), self.rotated(k, angles)
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(attention.transpose(1, 2).reshape(batch, tokens, width))
        hidden = self.between(x)
        out: torch.Tensor = x + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))
        return out

    @staticmethod
    def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * angles + torch.cat((-second, first), -1) * angles


class Mlp(nn.Module):
    """A layer whose last operation saves its result."""

    def __init__(self, last: Callable[[torch.Tensor], torch.Tensor] = torch.tanh) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.down(torch.relu(self.up(x))))


class Gated(nn.Module):
    """A layer whose last operation saves its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.gate(x)) * torch.relu(self.up(x))


class Residual(nn.Module):
    """A layer of a convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norms[0](self.convolutions[0](x)))
        return torch.relu(x + self.norms[1](self.convolutions[1](hidden)))


class Shifted(nn.Module):
    """A layer that does not need its input for the backward pass, unless it is recomputed."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.shift
        out: torch.Tensor = x * 0.5 + self.down(functional.silu(self.up(x)))
        return out


class Temporary(nn.Module):
    """A layer with large temporaries, which recomputation needs again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(x)
        wide = torch.cat([hidden] * 8, dim=1) + 1
        return x + torch.sigmoid(wide.mean(1, keepdim=True)) * functional.gelu(hidden)


class Holder(NamedTuple):
    """A container that a layer returns next to its result."""

    tensors: list[torch.Tensor]


class Returning(PreNorm):
    """A layer that returns its result in a container, alone or with others."""

    def __init__(self, contained: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
        super().__init__()
        self.contained = contained

    def forward(self, x: torch.Tensor) -> Any:
        hidden = functional.gelu(self.up(self.norm(x)))
        return self.contained(x + self.down(hidden), hidden)


def encoder(*, norm_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(
        WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=norm_first
    )


def image_model() -> Stack:
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return Stack(Residual, first=nn.Conv2d(3, 16, 3, padding=1), last=head)


def between(layer: Callable[[], nn.Module], size: int = WIDTH) -> Stack:
    return Stack(layer, first=nn.Linear(WIDTH, WIDTH), last=nn.Linear(WIDTH, size))


Program = tuple["Callable[[], Stack]", tuple[int, ...]]

TOKENS = (8, 128, WIDTH)
PROGRAMS: dict[str, Program] = {
    "pre-norm": (lambda: Stack(PreNorm), (256, WIDTH)),
    "post-norm": (lambda: Stack(PostNorm), (1024, WIDTH)),
    "encoder": (lambda: Stack(lambda: encoder(norm_first=False)), (8, 64, WIDTH)),
    "encoder, norm first": (lambda: Stack(lambda: encoder(norm_first=True)), TOKENS),
    "Llama": (lambda: Stack(Llama), TOKENS),
    "Llama with a vocabulary": (lambda: between(Llama, 4096), TOKENS),
    "Llama with autocast": (lambda: between(Llama), TOKENS),
    "MLP": (lambda: between(Mlp), (4096, WIDTH)),
    "MLP without a head": (lambda: Stack(Mlp), (4096, WIDTH)),
    "MLP that ends with relu": (lambda: Stack(lambda: Mlp(torch.relu)), (4096, WIDTH)),
    "MLP that ends with softmax": (lambda: Stack(lambda: Mlp(lambda x: x.softmax(-1))), (4096, WIDTH)),
    "gated, without a head": (lambda: Stack(Gated), (4096, WIDTH)),
    "autocast": (lambda: Stack(PreNorm), (512, WIDTH)),
    "images": (image_model, (8, 3, 48, 48)),
    "shifted": (lambda: between(Shifted), (2048, WIDTH)),
    "temporaries": (lambda: between(Temporary), (2048, WIDTH)),
    "a tuple of one": (lambda: Stack(lambda: Returning(lambda out, _: (out, None))), (256, WIDTH)),
}
SEVERAL: dict[str, Program] = {
    "a tuple": (lambda: Stack(lambda: Returning(lambda *both: both)), (256, WIDTH)),
    "a dictionary": (lambda: Stack(lambda: Returning(lambda *both: dict(enumerate(both)))), (256, WIDTH)),
    "nested": (lambda: Stack(lambda: Returning(lambda out, other: (out, Holder([other])))), (256, WIDTH)),
}


def train(
    name: str, optimizer: type[torch.optim.Optimizer], *, is_checkpointed: bool, keeps_output: bool = False
) -> None:
    program, shape = (PROGRAMS | SEVERAL)[name]
    model = program()
    steps = optimizer(model.parameters(), lr=0.01)  # type: ignore[call-arg]
    for _ in range(3):
        loss, out = loss_of(name, model, torch.randn(shape), is_checkpointed=is_checkpointed)
        if not keeps_output:
            del out
        loss.backward()  # type: ignore[no-untyped-call]
        steps.step()
        steps.zero_grad()


def loss_of(
    name: str, model: Stack, data: torch.Tensor, *, is_checkpointed: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the loss and the output of the model."""
    with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in name):
        out: torch.Tensor = model(data, is_checkpointed=is_checkpointed)
    if "vocabulary" in name:
        return functional.cross_entropy(out.flatten(0, 1), torch.zeros(8 * 128, dtype=torch.long)), out
    return out.float().pow(2).mean(), out


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("name", PROGRAMS)
def test_recomputation_saves_what_it_promises(
    name: str, optimizer: type[torch.optim.Optimizer], tmp_path: Path
) -> None:
    before = ranked(tmp_path / "before", lambda: train(name, optimizer, is_checkpointed=False))
    after = ranked(tmp_path / "after", lambda: train(name, optimizer, is_checkpointed=True))
    saves = peak(before) - peak(after)
    said = advice(before)["activations_of_layers"]
    assert 0.95 * saves <= said["saves_bytes"] <= saves
    assert "This assumes" not in said["message"]
    assert "activations_of_layers" not in advice(after)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "gated, without a head"])
def test_an_output_in_a_variable_does_not_matter(name: str, tmp_path: Path) -> None:
    def program(*, is_checkpointed: bool) -> None:
        train(name, torch.optim.SGD, is_checkpointed=is_checkpointed, keeps_output=True)

    before = ranked(tmp_path / "before", lambda: program(is_checkpointed=False))
    after = ranked(tmp_path / "after", lambda: program(is_checkpointed=True))
    saves = peak(before) - peak(after)
    assert 0.95 * saves <= advice(before)["activations_of_layers"]["saves_bytes"] <= saves


def test_an_uncertain_saving_is_not_suggested(tmp_path: Path) -> None:
    def program() -> None:
        train("gated, without a head", torch.optim.SGD, is_checkpointed=False, keeps_output=True)

    assert "activations_of_layers" not in advice(ranked(tmp_path, program))


@pytest.mark.parametrize("name", SEVERAL)
def test_layers_that_return_several_tensors_have_no_estimate(name: str, tmp_path: Path) -> None:
    rank = ranked(tmp_path, lambda: train(name, torch.optim.SGD, is_checkpointed=False))
    assert "activations_of_layers" not in advice(rank)
