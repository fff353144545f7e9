"""The program that recorded leak.ttmem: every step keeps a tensor, until memory runs out.

To record it again, run `ttmem track leak.py` in an empty folder, with PyTorch and ttmem installed.
"""

import torch

MIB = 1 << 20


def train(steps: int) -> None:
    """Keeps the predictions of every step."""
    model = torch.nn.Linear(64, 256)
    optimizer = torch.optim.AdamW(model.parameters())
    predictions = []
    for _ in range(steps):
        output = model(torch.ones(1024, 64))
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        predictions.append(output.detach())
    # More than any machine has.
    torch.empty(1 << 50, dtype=torch.uint8)


train(14)
