//! The errors of a rank. They are reported at the end, when it is known whether they ended their programs.

use rustc_hash::FxHashSet;
use ttmem_model::{Fault, FaultDetail, Step, StrId};

/// The maximum number of errors that are kept. A server may print one per request.
const MAX_FAULTS: usize = 10_000;

/// The errors so far, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pending: Vec<Pending>,
    by_step: FxHashSet<(Option<Step>, StrId)>,
    messages: FxHashSet<StrId>,
}

/// An error as one line or exception prints it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    pub fault: Fault,
    pub detail: FaultDetail,
    /// Its message has all numbers.
    pub is_complete: bool,
    /// A logger or an exception printed it.
    pub is_framed: bool,
    /// A backtrace with complete frames follows it.
    pub has_frames: bool,
}

#[derive(Debug)]
struct Pending {
    printed: Printed,
    /// The number of programs that were running, nested ones included.
    depth: usize,
    /// The number of runs so far.
    runs: usize,
}

impl Faults {
    /// Adds an error, unless it is a duplicate: the logger and the exception both print it, and outside programs its
    /// handler may print it again, such as pytest at the end. A duplicate may have details that the first one lacks.
    pub fn add(&mut self, printed: &Printed, depth: usize, runs: usize) {
        let Fault { step, message, .. } = printed.fault;
        let is_known = self.by_step.contains(&(step, message));
        let is_repeated = step.is_none() && self.messages.contains(&message);
        if is_known || is_repeated {
            let is_same = |pending: &&mut Pending| pending.printed.fault.message == message;
            if let Some(same) = self.pending.iter_mut().rfind(is_same) {
                same.printed.add(printed);
            }
            return;
        }
        self.by_step.insert((step, message));
        self.messages.insert(message);
        if self.pending.len() == MAX_FAULTS {
            // The last one matters most.
            self.pending.pop();
        }
        self.pending.push(Pending { printed: *printed, depth, runs });
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The lines of all errors.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|pending| pending.printed.fault.line)
    }

    /// The step of the last error.
    pub fn last_step(&self) -> Option<Step> {
        self.pending.last().and_then(|pending| pending.printed.fault.step)
    }

    /// Whether a program failed and none was started since.
    pub fn has_failed(&self, runs: usize) -> bool {
        self.pending.iter().any(|pending| pending.depth > 0 && pending.runs == runs)
    }

    /// Records that the program at a depth did not finish: its errors ended it.
    pub fn end_program(&mut self, depth: usize) {
        for pending in self.pending.iter_mut().filter(|pending| pending.depth > depth) {
            pending.printed.fault.ended_program = true;
        }
    }

    /// Drops all errors: they belong to no rank.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Drops everything that may be a text about an error. In a document, only a backtrace shows that a program printed
    /// an error.
    pub fn keep_printed(&mut self, is_document: bool) {
        self.pending.retain(|Pending { printed, .. }| {
            printed.is_complete && printed.is_framed && (printed.has_frames || !is_document)
        });
    }

    /// All errors of a log without programs, at its end. The last one ended the program, unless the program printed more
    /// than the lines of its end.
    pub fn close_without_programs(&mut self, has_continued: bool) -> Vec<(Fault, FaultDetail)> {
        let mut faults: Vec<_> =
            self.pending.drain(..).map(|Pending { printed, .. }| (printed.fault, printed.detail)).collect();
        if let Some((fault, _)) = faults.last_mut() {
            fault.ended_program = !has_continued;
        }
        faults
    }

    /// All errors, at the end of the log. An error outside programs, with no program started after it, ended the
    /// process.
    pub fn close(&mut self, runs: usize) -> Vec<(Fault, FaultDetail)> {
        let close = |Pending { mut printed, depth, runs: before }: Pending| {
            printed.fault.ended_program |= depth == 0 && before == runs;
            (printed.fault, printed.detail)
        };
        self.pending.drain(..).map(close).collect()
    }
}

impl Printed {
    /// Adds what a duplicate has in addition.
    fn add(&mut self, other: &Self) {
        self.is_framed |= other.is_framed;
        self.has_frames |= other.has_frames;
        self.detail.op = self.detail.op.or(other.detail.op);
        self.detail.loc = self.detail.loc.or(other.detail.loc);
    }
}
