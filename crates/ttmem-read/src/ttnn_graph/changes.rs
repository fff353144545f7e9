//! The changes of memory in a graph capture: a tracker counts them as a phase of the program that captured it.

use std::io::Read;

use super::capture::Capture;
use super::{Document, Report};
use crate::json::Json;
use crate::tt_log::tables::Tables;
use ttmem_model::{Change, Event, Sink};
use ttmem_model::{Error, Result};

/// Reads the changes of memory from a graph capture of ttnn, as JSON, in order: the list of nodes, or the report around
/// it. They are counted by ttnn's own rules.
///
/// A capture that is damaged, or not in the order of execution, is an error.
pub fn graph_changes(json: impl Read) -> Result<Vec<Change>> {
    const NAME: &str = "the graph capture";
    let mut document = Document { json: Json::new(json), file: NAME, report: Report::default() };
    let mut nowhere = Nowhere;
    let mut capture = Capture::with_changes(Tables::new(&mut nowhere));
    let damage = document.walk(&mut capture)?.err().map(|trouble| (document.json.line(), trouble.words()));
    if capture.known == 0 {
        return Err(document.nothing(&capture, damage));
    }
    let damaged = |message: String| Error::Damaged { file: NAME.into(), message };
    if let Some((line, why)) = damage {
        return Err(damaged(format!("line {line}: {why}")));
    }
    capture.into_changes().map_err(damaged)
}

/// Takes events and forgets them.
struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _: Event<'_>) -> Result<()> {
        Ok(())
    }
}
