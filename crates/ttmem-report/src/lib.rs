//! Reports: answers as text, JSON, Markdown, charts, a page and files.
//!
//! All take a response of `query`. JSON and Markdown are written to a `Write`; text for a terminal is returned as styled
//! lines ([`Text`]), which front ends colour and print. Units and layout are decided here; numbers, verdicts and
//! suggestions come from `query` as they are shown. `files` writes the files of a report folder, the profile among them.

pub mod chart;
pub mod files;
mod line;
mod markdown;
mod page;
mod phases;
pub mod store;
mod styled;
mod table;
mod text;
mod threads;
mod units;

use std::io::{self, Write};

pub use line::{headline, live};
pub use markdown::{markdown, title_of};
pub use page::{gantt_page, is_gantt_page, page};
pub use phases::{phases, phases_json};
pub use store::{list, list_json};
pub use styled::{Line, Span, Style, Text};
pub use text::{Hints, Screen, text};
pub use units::{percent, size};

use ttmem_query::{Gantt, Summary};

/// Writes the summary as JSON, as the contract has it.
pub fn json(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, summary)?;
    writeln!(out)
}

/// Adds the types that pages read.
#[cfg(feature = "typescript")]
pub fn declare(declarations: &mut ttmem_query::typescript::Declarations) {
    declarations.add::<Gantt<'static>>();
    page::declare(declarations);
}

/// Writes what ran when as JSON.
pub fn gantt_json(answer: &Gantt<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)
}
