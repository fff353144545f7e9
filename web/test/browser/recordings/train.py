"""The program that recorded train.ttmem: PyTorch trains a small model for two steps.

To record it again, run `python train.py` in an empty folder, with PyTorch and ttmem installed.
"""

import torch
import ttmem

torch.manual_seed(0)
tracker = ttmem.initialize_memory_tracker(".", level="tensors")
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.AdamW(model.parameters())
for number in range(2):
    with tracker.track_operation("step"):
        model(torch.randn(64, 256)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    ttmem.memory_checkpoint(f"step {number}")
ttmem.stop_memory_tracker()
