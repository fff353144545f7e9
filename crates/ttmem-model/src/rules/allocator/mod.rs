//! A caching allocator: its reserved segments, the blocks in them, and how blocks are cut from segments.

mod contents;
mod tiling;

pub use contents::{Block, Contents};
pub use tiling::Tiling;
