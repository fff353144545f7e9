//! Emits annotations as calls: named ranges of the program.

use ttmem_model::{Call, CallId, Outcome, RankEvent, Result, ScopeId};

use super::document::Annotation;
use super::heap::{Heap, TextId};
use crate::definitions::{Definitions, row};

/// The lane of annotations; snapshots do not name threads.
const LANE: &str = "annotations";
/// The maximum depth of open annotations. Deeper ones were never ended.
const MAX_OPEN: usize = 256;

struct Open {
    name: TextId,
    call: CallId,
    scope: ScopeId,
}

/// Emits annotations that are ordered by time. Nothing is known about the memory of those that ended before `history`,
/// the time of the first event, so they are left out.
pub(super) fn emit(
    annotations: &[Annotation],
    began: u64,
    history: Option<u64>,
    heap: &Heap,
    definitions: &mut Definitions<'_>,
) -> Result<()> {
    let (mut open, mut calls, mut unmatched): (Vec<Open>, usize, usize) = (Vec::new(), 0, 0);
    let early = ended_before(annotations, history.unwrap_or(0));
    warn(definitions, early.iter().filter(|is_early| **is_early).count() / 2, "ended")?;
    for (annotation, _) in annotations.iter().zip(&early).filter(|(_, is_early)| !**is_early) {
        let time = annotation.time_us.saturating_mul(1000).saturating_add(500).saturating_sub(began);
        if annotation.is_start {
            let parent = open.last();
            let (outer, parent) = (parent.map(|parent| parent.scope), parent.map(|parent| parent.call));
            let scope = definitions.scope(outer, heap.text_of(annotation.name))?;
            let (lane, call) = (definitions.lane(LANE)?, row(CallId::new(calls))?);
            definitions.say(RankEvent::Call(Call {
                scope,
                lane,
                parent,
                op: None,
                began: time,
                first: 0,
                outcome: None,
            }))?;
            calls += 1;
            if open.len() < MAX_OPEN {
                open.push(Open { name: annotation.name, call, scope });
            }
            continue;
        }
        match open.iter().rposition(|open| open.name == annotation.name) {
            // Ranges of other threads may still be open inside it.
            Some(index) => {
                let ended = open.remove(index);
                let outcome = Outcome { ended: time, ..Outcome::default() };
                definitions.say(RankEvent::Returned(ended.call, outcome))?;
            }
            None => unmatched += 1,
        }
    }
    warn(definitions, unmatched, "began")
}

/// For each annotation, whether it is the start or the end of a range that ended before a time.
fn ended_before(annotations: &[Annotation], time_us: u64) -> Vec<bool> {
    let mut early = vec![false; annotations.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, annotation) in annotations.iter().enumerate().take_while(|(_, one)| one.time_us < time_us) {
        if annotation.is_start {
            open.push(index);
        } else if let Some(start) = open.iter().rposition(|start| annotations[*start].name == annotation.name)
        {
            (early[index], early[open.remove(start)]) = (true, true);
        }
    }
    early
}

fn warn(definitions: &mut Definitions<'_>, count: usize, what: &str) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let ranges = ttmem_model::words::counted(count as u64, "annotated range");
    let were = ttmem_model::words::by_count(count as u64, "was", "were");
    definitions.warn(None, format!("{ranges} {what} before the history and {were} skipped"))
}
