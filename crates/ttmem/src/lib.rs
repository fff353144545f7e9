//! A memory profiler for ML accelerators.
//!
//! `ttmem` reads a run's logs, or tracks a running program, reconstructs the memory contents at every step, and reports
//! what used the memory. This crate only re-exports the crates that do the work. Data flows one way through them, and
//! Cargo enforces the direction:
//!
//! ```text
//! files ───► read ───┐
//! program ─► record ─┴─► events ─► model::Profile ─► analyze ─► query ─► report
//!                           ▲
//!             name.ttmem ◄──┘ (model::frame)
//! ```
//!
//! The library prints nothing.

pub use ttmem_model as model;
pub use ttmem_model::{Error, Result, config};
pub use ttmem_query as query;
pub use ttmem_query::analyze;
pub use ttmem_read as read;
pub use ttmem_read::history;
pub use ttmem_report as report;
pub use ttmem_report::store;

/// Recordings: recorders for running programs, and the file format they write.
pub mod record {
    pub use ttmem_model::frame;
    pub use ttmem_record::*;
}

/// Runs the example in the tracker guide.
#[cfg(doctest)]
#[doc = include_str!("../docs/tracker.md")]
struct TrackerGuide;
