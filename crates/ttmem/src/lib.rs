//! Where did the device memory go?
//!
//! `ttmem` reads what a run left behind, or watches a program, reconstructs what was in memory at every step, and
//! answers. This crate only re-exports the crates that do the work. Data moves one way through them, and Cargo enforces
//! the direction:
//!
//! ```text
//! evidence ─► read ──┐
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

/// Recordings: the recorders of running programs, and the file that they write.
pub mod record {
    pub use ttmem_model::frame;
    pub use ttmem_record::*;
}

/// Runs the example in the guide to the tracker.
#[cfg(doctest)]
#[doc = include_str!("../docs/tracker.md")]
struct TrackerGuide;
