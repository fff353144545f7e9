//! The errors of a rank. They are reported at the end, when it is known whether they ended their programs.

use rustc_hash::FxHashSet;
use ttmem_model::{Fault, Step, StrId};

/// The errors so far, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pending: Vec<Pending>,
    by_step: FxHashSet<(Option<Step>, StrId)>,
    messages: FxHashSet<StrId>,
}

#[derive(Debug)]
struct Pending {
    fault: Fault,
    /// The number of programs that were running, nested ones included.
    depth: usize,
    /// The number of runs so far.
    runs: usize,
}

impl Faults {
    /// Adds an error, unless it is a duplicate: the logger and the exception both print it, and outside programs its
    /// handler may print it again, such as pytest at the end.
    pub fn add(&mut self, fault: Fault, depth: usize, runs: usize) {
        let is_known = self.by_step.contains(&(fault.step, fault.message));
        let is_repeated = fault.step.is_none() && self.messages.contains(&fault.message);
        if !is_known && !is_repeated {
            self.by_step.insert((fault.step, fault.message));
            self.messages.insert(fault.message);
            self.pending.push(Pending { fault, depth, runs });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The lines of all errors.
    pub fn lines(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|pending| pending.fault.line)
    }

    /// The step of the last error.
    pub fn last_step(&self) -> Option<Step> {
        self.pending.last().and_then(|pending| pending.fault.step)
    }

    /// Whether a program failed and none was started since.
    pub fn has_failed(&self, runs: usize) -> bool {
        self.pending.iter().any(|pending| pending.depth > 0 && pending.runs == runs)
    }

    /// Records that the program at a depth did not finish: its errors ended it.
    pub fn end_program(&mut self, depth: usize) {
        for pending in self.pending.iter_mut().filter(|pending| pending.depth > depth) {
            pending.fault.ended_program = true;
        }
    }

    /// All errors, at the end of the log. An error outside programs, with no program started after it, ended the
    /// process.
    pub fn close(&mut self, runs: usize) -> Vec<Fault> {
        let close = |Pending { mut fault, depth, runs: before }: Pending| {
            fault.ended_program |= depth == 0 && before == runs;
            fault
        };
        self.pending.drain(..).map(close).collect()
    }
}
