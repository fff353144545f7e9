//! Reports: answers as text, JSON, Markdown and files.
//!
//! Everything here takes a response of `query` and writes it to a `Write` that it is given. No number is made
//! here; only units, words and layout are.

mod advice;
pub mod files;
mod markdown;
mod table;
mod text;
mod units;

use std::io::{self, Write};

pub use markdown::markdown;
pub use text::{Screen, text};

use crate::query::Summary;

/// Writes the summary as JSON, as the contract has it.
pub fn json(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, summary)?;
    writeln!(out)
}
