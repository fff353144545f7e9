//! Reports: responses as text, JSON, Markdown, charts, a page and files.
//!
//! All functions take a response from `query`. JSON and Markdown are written to a `Write`; text for a terminal is
//! returned as styled lines ([`Text`]), which front ends color and print. Units and layout are decided here; numbers,
//! verdicts and suggestions come from `query` and are shown unchanged. `files` writes a report folder, including the
//! profile.

pub mod chart;
mod check;
mod diff;
pub mod files;
mod flame;
mod line;
mod markdown;
mod marker;
mod page;
mod phases;
pub mod store;
mod styled;
mod table;
mod text;
mod threads;
mod units;

use std::io::{self, Write};

pub use check::{check, check_github, check_json, check_junit, check_markdown};
pub use diff::{MAX_CHANGES as MAX_DIFF_CHANGES, diff, diff_json, diff_markdown};
pub use flame::{flame_folded, flame_svg};
pub use line::{headline, live};
pub use markdown::{MarkdownSize, main_rank, markdown, title_of};
pub use marker::{MARKER, has_marker};
pub use page::{diff_page, gantt_page, page};
pub use phases::{phases, phases_json};
pub use store::{list, list_json};
pub use styled::{Line, Span, Style, Text};
pub use text::{Hints, Screen, text};
pub use units::{percent, size};

use ttmem_query::{Gantt, Summary};

/// Writes the summary as JSON in its documented format.
pub fn json(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, summary)?;
    writeln!(out)
}

/// The name of an input file in a text; `-` is standard input.
pub fn name_of_file(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}

/// Adds the types that the pages read.
#[cfg(feature = "typescript")]
pub fn declare(declarations: &mut ttmem_query::typescript::Declarations) {
    declarations.add::<Gantt<'static>>();
    page::declare(declarations);
}

/// Writes a Gantt response as JSON.
pub fn gantt_json(answer: &Gantt<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)
}
