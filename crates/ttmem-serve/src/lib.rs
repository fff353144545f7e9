//! Stored reports over HTTP: a list with upload, the page of each report, and the answers of `query` as JSON.
//!
//! The server is thin: it hands out files that are there, and lets a second process do what takes memory.
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
//! | `listen` | the addresses and the port |
//! | `connections` | who is connected, for how long, and how all of that ends; `stall` ends those who do not read |
//! | `headers`, `host`, `origin`, `token` | what every request goes through |
//! | `reports`, `pages`, `files` | what is read |
//! | `upload`, `space`, `jobs` | what is sent, where it lies meanwhile, what becomes of it |
//! | `worker` | the second process: both of its ends |
//! | `refusal` | what is answered to everything else |
//!
//! Nothing here computes a number, and nothing joins a part of a request to a path.

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

/// Adds the types that pages read, those of reports included.
#[cfg(feature = "typescript")]
pub fn declare(declarations: &mut ttmem::query::typescript::Declarations) {
    declarations.add::<app::ServerInfo>();
    declarations.add::<jobs::Shown>();
    declarations.add::<reports::Row>();
    ttmem::report::declare(declarations);
}
