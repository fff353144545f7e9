//! The history of a caching allocator of PyTorch (CUDA, XPU).
//!
//! Such an allocator keeps its last actions in a ring that may have lost its beginning. `ttmem_model::rules::allocator`
//! finds the contents of memory before the first action, and the sizes of blocks, which the ring lacks. Here, `place` assigns
//! each action to a step of a profile, and `restored` finds the tensors of a peak in another file of the same recording.
//! [`snapshot`] turns snapshots of the allocator into rows of a history; only a running program uses it so far, no reader.

mod device;
mod late_calls;
mod notes;
mod open_calls;
mod place;
mod placed;
mod restored;
pub mod snapshot;

pub use place::place;
pub use restored::{lacks_peak, restore_peak};
pub use ttmem_model::rules::allocator::{Block, Contents};
