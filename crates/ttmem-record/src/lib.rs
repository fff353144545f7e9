//! Records the memory of a running program into a `.ttmem` file.
//!
//! [`tracker`] is for programs that report every buffer themselves, in phases. [`live`] is for framework bindings, with
//! calls, source lines and times. They record different data, but write it in the same way:
//!
//! ```text
//! recorder ──► Recording ──► queue ──► writer thread ──► RecordSink ──► EventFile ──► ttmem_model::frame
//! ```
//!
//! `recording` has the handle that a recorder puts records into, and the thread that takes them out of the `queue`. The
//! recorder's narrator, a `RecordSink`, turns records into events; `event_file` numbers the rows that events define,
//! `texts` numbers the texts, and `level` decides which states of a pool are written.

mod event_file;
mod level;
pub mod live;
mod queue;
mod recording;
mod replace;
mod texts;
pub mod tracker;
