//! The out-of-memory errors that ended the inputs.

use serde::Serialize;
use ttmem_model::Step;

use crate::analyze::diff::{Both, Side};
use crate::analyze::oom;

/// The out-of-memory error that ended each input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OutOfMemoryDiff {
    /// That of the first input; `None` if it did not run out of memory.
    pub before: Option<OutOfMemory>,
    /// That of the second input.
    pub after: Option<OutOfMemory>,
}

/// An out-of-memory error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OutOfMemory {
    /// The pool; `None` if it is unknown.
    pub pool: Option<String>,
    /// The step that failed; `None` if it is unknown.
    pub step: Option<Step>,
}

impl OutOfMemoryDiff {
    pub(super) fn of(sides: &Both<Side<'_>>) -> Self {
        let of = |side: Side<'_>| {
            let fault = oom::fatal(side.rank)?;
            let pool = fault.pool.map(|pool| side.profile.text(pool).to_owned());
            Some(OutOfMemory { pool, step: fault.step })
        };
        Self { before: of(sides.before), after: of(sides.after) }
    }

    /// Whether one input ran out of memory, and the other one did not.
    pub(super) fn is_of_one(&self) -> bool {
        self.before.is_some() != self.after.is_some()
    }

    /// Whether both ran out of memory in the same pool.
    pub(super) fn is_same(&self) -> bool {
        let pool = |error: &Option<OutOfMemory>| error.as_ref().map(|error| error.pool.clone());
        self.before.is_some() && pool(&self.before) == pool(&self.after)
    }

    /// Whether only the second input ran out of memory.
    pub fn is_new(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    /// The errors in one sentence; `None` if there are none.
    pub(super) fn sentence(&self) -> Option<String> {
        let place =
            |error: &OutOfMemory| error.pool.as_ref().map_or_else(String::new, |pool| format!(" in {pool}"));
        match (&self.before, &self.after) {
            (None, Some(after)) => Some(format!(
                "AFTER runs out of memory{}, and BEFORE does not: the peak of AFTER is a lower bound.",
                place(after)
            )),
            (Some(before), None) => Some(format!(
                "BEFORE runs out of memory{}, and AFTER does not: the peak of BEFORE is a lower bound.",
                place(before)
            )),
            (Some(before), Some(after)) if before.pool != after.pool => Some(format!(
                "BEFORE runs out of memory{}, and AFTER{}: the peaks are lower bounds.",
                place(before),
                if after.pool.is_some() { place(after) } else { " in an unknown pool".to_owned() }
            )),
            (Some(_), Some(error)) => {
                Some(format!("Both inputs run out of memory{}: the peaks are lower bounds.", place(error)))
            }
            (None, None) => None,
        }
    }
}
