//! The history of a caching allocator, as PyTorch has them for CUDA and XPU: what it says, and what follows from it.
//!
//! Such an allocator says afterwards what it did, in a ring that may have lost its beginning. `contents` finds what was
//! there before the first thing that it still knows; `tiling` knows how large the blocks are that it gives out, which it
//! does not say; `place` gives everything its place among the steps of a profile. `restored` finds the tensors of a peak in
//! another file of the same recording. [`snapshot`] turns what PyTorch says of such an allocator into rows of a history,
//! whether it comes from a running program or from a file.

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
