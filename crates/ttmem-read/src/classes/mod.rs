//! The classes of PyTorch's allocations, as far as the code shows them that allocates and frees.
//!
//! A snapshot has no classes, but its stacks show what most memory is for: the code of PyTorch that creates parameters,
//! optimizer states and workspaces is known, a tensor that `zero_grad` frees was a gradient, and one that Python code
//! allocates and the autograd engine frees was kept for the backward pass. A recording has classes, and the same rules
//! complete them. Everything else remains unknown.

mod names;
mod of_recording;
mod of_snapshot;
mod passes;
mod roles;
mod workspaces;

use ttmem_model::{Moment, OpId, Rank, Step, TensorId};

pub(crate) use of_recording::complete;
pub(crate) use of_snapshot::classify;

/// The operation that made an allocation.
fn made_by(rank: &Rank, tensor: usize) -> Option<OpId> {
    TensorId::new(tensor).and_then(|tensor| rank.made_by(tensor))
}

/// The step that freed an allocation.
fn freed_at(rank: &Rank, tensor: usize) -> Option<Step> {
    rank.tensors.dies[tensor].position().checked_sub(1).filter(|_| rank.tensors.dies[tensor] != Moment::NEVER)
}
