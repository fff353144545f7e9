//! The analyses: one file each, pure functions over a profile.
//!
//! Results are ids and bytes. Names, shares and units are added by the rest of the crate and by `ttmem-report`.

pub mod allocator;
pub mod caches;
pub mod call_tree;
pub mod chain;
pub mod clock;
pub mod contents;
pub mod diff;
pub mod effects;
pub mod expected;
pub mod fragmentation;
pub mod growth;
pub mod held;
pub mod hot_paths;
pub mod interleaved;
pub mod l1;
pub mod lanes;
pub mod ledger;
pub mod main_pool;
pub mod modules;
pub mod names;
pub mod oom;
pub mod outside;
pub mod over_time;
pub mod overlaps;
pub mod padding;
pub mod phases;
pub mod replay;
pub mod reserved;
pub mod reshaping;
pub mod residue;
pub mod scopes;
pub mod simulation;
pub mod survivors;
#[cfg(test)]
mod tests;
pub mod tiles;
pub mod traced;
pub mod uses;
pub mod ways_out;
pub mod weights;

// Analyses that the readers also need.
pub use ttmem_model::rules::{Account, Span, live, outcomes, passes, peak, span};
