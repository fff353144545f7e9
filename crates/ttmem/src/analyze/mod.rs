//! The questions: one file each, pure functions over a profile.
//!
//! Everything here answers with ids and whole bytes. Names, shares and units are for `query` and `report`.

pub mod account;
pub mod caches;
pub mod chain;
pub mod clock;
pub mod contents;
pub mod effects;
pub mod expected;
pub mod findings;
pub mod fragmentation;
pub mod held;
pub mod hot_paths;
pub mod interleaved;
pub mod lanes;
pub mod live;
pub mod lowered;
pub mod main_pool;
pub mod names;
pub mod oom;
pub mod outcomes;
pub mod outside;
pub mod over_time;
pub mod overlaps;
pub mod padding;
pub mod passes;
pub mod peak;
pub mod phases;
pub mod reshaping;
pub mod residue;
pub mod scopes;
pub mod span;
pub mod tiles;
pub mod traced;
pub mod weights;

pub use account::Account;
pub use span::Span;
