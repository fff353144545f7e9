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

/// Emits annotations that are ordered by time.
pub(super) fn emit(
    annotations: &[Annotation],
    began: u64,
    heap: &Heap,
    definitions: &mut Definitions<'_>,
) -> Result<()> {
    let (mut open, mut calls, mut unmatched): (Vec<Open>, usize, u64) = (Vec::new(), 0, 0);
    for annotation in annotations {
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
    if unmatched > 0 {
        let ends = ttmem_model::words::counted(unmatched, "annotation");
        definitions.warn(
            None,
            format!(
                "{ends} began before the history and {} skipped",
                ttmem_model::words::by_count(unmatched, "was", "were")
            ),
        )?;
    }
    Ok(())
}
