//! The memory changes in a graph capture, which a tracker counts as a phase of the program.

use std::io::Read;

use ttmem_model::{Change, Error, Event, Result, Sink};

use super::Document;
use super::capture::Capture;
use crate::json::{self, Corruption};
use crate::tt_log::tables::Tables;

/// Reads the memory changes from a ttnn graph capture in JSON, in order. Accepts the list of nodes or the report around
/// it. The changes follow ttnn's own rules.
///
/// A capture that is corrupt or not in execution order is an error.
pub fn graph_changes(capture: impl Read) -> Result<Vec<Change>> {
    const NAME: &str = "the graph capture";
    let mut nowhere = Nowhere;
    let mut document = Document::new(Capture::with_changes(Tables::new(&mut nowhere)));
    let corruption = json::read(capture, |json| document.walk(json))?;
    if document.capture.known == 0 {
        return Err(document.nothing(NAME, corruption));
    }
    let corrupt = |message: String| Error::Corrupt { file: NAME.into(), message };
    if let Some(Corruption { line, why }) = corruption {
        return Err(corrupt(format!("corrupt at line {line} ({why})")));
    }
    document.capture.into_changes().map_err(corrupt)
}

/// Discards events.
struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: Event<'_>) -> Result<()> {
        Ok(())
    }
}
