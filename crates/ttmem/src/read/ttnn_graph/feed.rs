//! Tells a tracker what a graph capture says: a program that captures each of its phases need not record every buffer.

use std::io::Read;

use super::capture::Capture;
use super::{Document, Report};
use crate::error::{Error, Result};
use crate::model::{Change, Event, Sink};
use crate::read::json::Json;
use crate::read::tt_log::tables::Tables;
use crate::record::tracker::{MemoryUsageTracker, TrackerError};

impl MemoryUsageTracker {
    /// Takes down what a graph capture of ttnn says, as JSON: it belongs to the phase that runs. Outside of a capture
    /// nothing happens.
    ///
    /// Its figures are those of ttnn's own rules. A capture that is damaged, or not in the order of execution, is an
    /// error, and nothing of it is taken down.
    pub fn record_graph(&self, json: impl Read) -> Result<(), TrackerError> {
        if self.is_capturing() {
            self.record_changes(changes(json).map_err(TrackerError::Graph)?);
        }
        Ok(())
    }
}

/// What a capture does to memory, in order.
fn changes(json: impl Read) -> Result<Vec<Change>> {
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
