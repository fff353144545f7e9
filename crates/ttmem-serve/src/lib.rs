//! Stored reports over HTTP: a list with upload, the page of each report, and summaries as JSON.
//!
//! The server itself only serves existing files. Everything that needs much memory runs in a second process.
//!
//! ```text
//! connections ─► headers ─► host ─► token ─► origin ─► routes ─┬─► reports   files, streamed from disk
//!                                                              ├─► pages     the list, signing in
//!                                                              ├─► upload ─► jobs ─► worker (a process)
//!                                                              └─► summary ────────► worker (a process)
//! ```
//!
//! | module | job |
//! |---|---|
//! | `listen` | addresses and port |
//! | `connections` | connection limits, timeouts and shutdown; `stall` closes connections that stop reading |
//! | `headers`, `host`, `origin`, `token` | middleware for every request |
//! | `reports`, `pages`, `files` | reading stored reports |
//! | `upload`, `space`, `jobs` | receiving uploads, temporary storage, processing |
//! | `worker` | the second process: both ends of its protocol |
//! | `refusal` | error responses |
//!
//! No numbers are computed here, and no part of a request ever becomes part of a path.

mod app;
mod connections;
mod files;
mod headers;
mod host;
mod jobs;
mod limits;
mod listen;
mod origin;
mod pages;
mod random;
mod refusal;
mod reports;
mod server;
mod space;
mod stall;
mod token;
mod upload;
mod worker;

pub use limits::Limits;
pub use server::{Config, Server};
pub use worker::{Worker, work};

/// Adds the types that the pages read, including those of reports.
#[cfg(feature = "typescript")]
pub fn declare(declarations: &mut ttmem::query::typescript::Declarations) {
    declarations.add::<app::ServerInfo>();
    declarations.add::<jobs::Shown>();
    declarations.add::<reports::Row>();
    ttmem::report::declare(declarations);
}
