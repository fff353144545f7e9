//! A caching allocator: the segments that it reserved, the blocks in them, and how it cuts one out of the other.

mod contents;
mod tiling;

pub use contents::{Block, Contents};
pub use tiling::Tiling;
