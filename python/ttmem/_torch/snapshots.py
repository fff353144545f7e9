"""An identity function that ends phases in the forward and backward pass."""

from __future__ import annotations

from typing import Any

import torch

from ttmem.usage import MemoryUsageTracker, snapshot_if_capturing


def snapshotted(x: torch.Tensor, forward: str, backward: str) -> torch.Tensor:
    """Returns the tensor; ends a phase here, and another when its gradient reaches this point."""
    if torch.compiler.is_compiling() or not MemoryUsageTracker.is_capturing():
        return x
    if not (x.requires_grad and torch.is_grad_enabled()):
        snapshot_if_capturing(forward)
        return x
    passed: torch.Tensor = _Snapshots.apply(x, forward, backward)
    return passed


class _Snapshots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: str, backward: str) -> torch.Tensor:
        ctx.backward_label = backward
        snapshot_if_capturing(forward)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        snapshot_if_capturing(ctx.backward_label)
        return grad, None, None
