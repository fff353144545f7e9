//! Where did the device memory go?
//!
//! `ttmem` takes what a run left behind (a Tenstorrent runtime log, for now), rebuilds what was in memory at
//! every moment, and answers. Data moves one way:
//!
//! ```text
//! evidence ─► read ─► events ─► model::Profile ─► analyze ─► query ─► report
//!                        │
//!                        └─► name.ttmem (record)
//! ```
//!
//! The library prints nothing.

pub mod analyze;
pub mod config;
pub mod error;
pub mod history;
mod home;
pub mod model;
pub mod query;
pub mod read;
pub mod record;
pub mod report;
pub mod store;

pub use error::{Error, Result};
