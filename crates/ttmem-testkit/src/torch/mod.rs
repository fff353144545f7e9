//! PyTorch's caching allocator for CUDA, and the snapshots that it writes.
//!
//! [`Allocator`] follows the rules of the real one and keeps its counters after every event; [`Snapshot`] writes what it
//! recorded as a pickle of any protocol, of any version of PyTorch.

mod allocator;
mod pickle;
mod snapshot;

pub use allocator::{Action, Allocator, Event, Levels, Settings};
pub use pickle::{Py, dict, dump, list, stream, text};
pub use snapshot::{Options, Snapshot, frames, generation};
