//! The history of PyTorch's caching allocators (CUDA, XPU).
//!
//! Such an allocator keeps its last actions in a ring buffer that may have lost its beginning.
//! `ttmem_model::rules::allocator` derives the contents of memory before the first action, and the block sizes, which
//! the ring buffer lacks. `learned` completes iterations that were recorded without details, `known` has what labels say
//! about tensors, `place` assigns each action to a step of a profile, and `restored` finds the tensors live at a peak in
//! another file of the same recording. [`snapshot`] turns allocator snapshots into history rows, for running programs and
//! for the reader `torch_snapshot`.

mod ahead;
mod device;
mod eager;
mod known;
mod late_calls;
mod learned;
mod notes;
mod open_calls;
mod place;
mod placed;
mod restored;
pub mod snapshot;

pub(crate) use eager::{Expected, PlacedAlone, PlacingAlone, place_alone};
pub use place::place;
pub use restored::{Shared, lacks_peak, restore_peak};
pub use ttmem_model::rules::allocator::{Block, Contents};
