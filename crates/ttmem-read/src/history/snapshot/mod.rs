//! Snapshots of a caching allocator of PyTorch (`torch.cuda.memory._snapshot()` and its files) in plain types.
//!
//! A snapshot has a trace of entries for each device, and the segments of memory with the blocks in them at that time. Whoever
//! has a snapshot, as Python objects or as a file, puts it into this vocabulary:
//!
//! | of the snapshot | here |
//! |---|---|
//! | `device_traces[device][i]` | an [`Entry`], of which `action` becomes an action ([`action_of`]), `user_metadata` a call ([`Within`]) |
//! | `frames` | [`Stacks`], each once |
//! | `segments`, `blocks` | [`Segment`] and [`SegmentBlock`], which [`Segments`] makes [`Contents`](ttmem_model::rules::allocator::Contents) of |
//!
//! [`HistoryCursor`] finds the new entries of a trace that is read repeatedly, and [`Update::rows`] turns them into rows of a
//! history.

mod cursor;
mod entry;
mod mark;
mod segments;
mod stacks;

pub use cursor::{ALLOCATION, HistoryCursor, OTHER, RowContext, Update, UpdateRow};
pub use entry::{AddressKey, Entries, Entry, Within, action_of, call_metadata};
pub use mark::{Fingerprint, Mark, Trace};
pub use segments::{BlockState, Segment, SegmentBlock, Segments};
pub use stacks::{Line, LineIndex, StackIndex, Stacks};
