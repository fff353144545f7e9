//! Snapshots of PyTorch's caching allocators (`torch.cuda.memory._snapshot()` and its files) in plain types.
//!
//! A snapshot has a trace of entries for each device, and the memory segments with their blocks at that time. A source
//! of snapshots (Python objects or a file) converts them to these types:
//!
//! | in the snapshot | here |
//! |---|---|
//! | `device_traces[device][i]` | an [`Entry`]; [`action_of`] parses `action`, [`Within`] parses `user_metadata` |
//! | `frames` | [`Stacks`], each stored once |
//! | `segments`, `blocks` | [`Segment`] and [`SegmentBlock`]; [`Segments`] collects them |
//!
//! [`Reported`] has what an allocator reports while it happens. [`HistoryCursor`] finds the new entries of a trace that is read repeatedly, and [`Update::into_rows`] turns them into
//! history rows.

mod cursor;
mod entry;
mod mark;
mod reported;
mod segments;
mod stacks;

pub use cursor::{ALLOCATION, HistoryCursor, OTHER, RowContext, Update, UpdateRow};
pub use entry::{AddressKey, Entries, Entry, LiveOrigin, Within, action_of, call_metadata};
pub use mark::{Fingerprint, Mark, Trace};
pub use reported::Reported;
pub use segments::{BlockState, Segment, SegmentBlock, Segments};
pub use stacks::{Line, LineIndex, StackIndex, Stacks};
