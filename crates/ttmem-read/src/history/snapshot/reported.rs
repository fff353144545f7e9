//! Compares what an allocator has reported while it happened with its trace.
//!
//! Both have the same actions in the same order. The trace also has stacks, but it is a ring buffer, which loses its
//! oldest entries; reports lose nothing.

use std::collections::VecDeque;

use ttmem_model::HistoryAction;

use super::entry::{Entries, Entry, LiveOrigin, Within};

/// The number of equal entries after which reports are trusted.
const ENOUGH: usize = 8;

/// Reported actions that were not recorded yet, in order.
#[derive(Debug, Default)]
pub struct Reported {
    entries: VecDeque<Entry<LiveOrigin>>,
    /// The number of first entries that happened before the last snapshot.
    before_snapshot: usize,
    /// The number of entries that were equal to those of traces, by [`kind_of`].
    equal: [usize; 2],
}

impl Reported {
    /// Adds an action.
    pub fn push(&mut self, entry: Entry<LiveOrigin>) {
        match self.entries.back_mut() {
            Some(last)
                if last.action == HistoryAction::FreeRequested
                    && entry.action == HistoryAction::FreeCompleted
                    && last.address == entry.address =>
            {
                last.action = HistoryAction::Freed;
            }
            _ => self.entries.push_back(entry),
        }
    }

    /// Notes that a snapshot was taken now.
    pub fn snapshot(&mut self) {
        self.before_snapshot = self.entries.len();
    }

    /// Whether reports may be used without a trace: enough of them, of both kinds, were compared with one.
    pub fn is_proven(&self) -> bool {
        self.equal.iter().all(|count| *count > 0) && self.equal.iter().sum::<usize>() >= ENOUGH
    }

    /// Whether there are no reported actions.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the actions up to the end of a trace and returns them, with the stacks of the trace. The first of them may
    /// be missing in the trace, which had lost them or had not begun. `None` if the trace has actions that were not
    /// reported like that.
    pub fn join(&mut self, trace: Entries<LiveOrigin>) -> Option<Entries<LiveOrigin>> {
        let first = if trace.is_empty() { Some(self.before_snapshot) } else { self.place_of(&trace) }?;
        let len = trace.len();
        let mut joined = self.take(first);
        self.before_snapshot = self.before_snapshot.saturating_sub(len);
        for (traced, reported) in trace.into_iter().zip(self.entries.drain(..len)) {
            self.equal[kind_of(traced.action)] += 1;
            let within = match reported.origin.within {
                // A trace has the call only if its text was passed on.
                Within::Unknown => traced.origin.within,
                known => known,
            };
            let origin = LiveOrigin { within, ..traced.origin };
            joined.push(Entry { action: reported.action, origin, ..traced });
        }
        Some(joined)
    }

    /// Removes the first actions and returns them.
    pub fn take(&mut self, count: usize) -> Entries<LiveOrigin> {
        let count = count.min(self.entries.len());
        self.before_snapshot = self.before_snapshot.saturating_sub(count);
        let mut taken = Entries::default();
        for entry in self.entries.drain(..count) {
            taken.push(entry);
        }
        taken
    }

    /// The place of the first action of a trace.
    fn place_of(&self, trace: &Entries<LiveOrigin>) -> Option<usize> {
        // A trace has everything up to the snapshot. Equal actions may be repeated.
        let first = self.before_snapshot.saturating_sub(trace.len());
        let places = first..=self.entries.len().checked_sub(trace.len())?;
        places.into_iter().find(|&place| {
            trace.iter().zip(self.entries.range(place..)).all(|(one, other)| is_same(one, other))
        })
    }
}

/// Whether a trace and a report have the same action. A trace that has lost the request of a free has its completion.
fn is_same(traced: &Entry<LiveOrigin>, reported: &Entry<LiveOrigin>) -> bool {
    let is_same_action = traced.action == reported.action
        || (traced.action == HistoryAction::FreeCompleted && reported.action == HistoryAction::Freed);
    is_same_action && (traced.address, traced.bytes) == (reported.address, reported.bytes)
}

/// 0 for allocations, 1 for everything else.
fn kind_of(action: HistoryAction) -> usize {
    usize::from(action != HistoryAction::Allocated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(action: HistoryAction, address: u64) -> Entry<LiveOrigin> {
        let origin = LiveOrigin { stack: None, within: Within::Unknown };
        Entry { action, address, bytes: 512, time_us: 0, origin }
    }

    /// Allocations and frees of a program, as the allocator reports them.
    fn actions() -> impl Strategy<Value = Vec<Entry<LiveOrigin>>> {
        let pair = |address: u64, is_freed: bool| {
            let mut made = vec![entry(HistoryAction::Allocated, address)];
            if is_freed {
                made.push(entry(HistoryAction::FreeRequested, address));
                made.push(entry(HistoryAction::FreeCompleted, address));
            }
            made
        };
        let calls = proptest::collection::vec((0_u64..1000, any::<bool>()), 0..60);
        calls.prop_map(move |calls| {
            calls.into_iter().enumerate().flat_map(|(at, (_, is_freed))| pair(at as u64, is_freed)).collect()
        })
    }

    fn merged(actions: &[Entry<LiveOrigin>]) -> Entries<LiveOrigin> {
        let mut entries = Entries::default();
        for action in actions {
            entries.push(*action);
        }
        entries
    }

    fn reported(actions: &[Entry<LiveOrigin>]) -> Reported {
        let mut reported = Reported::default();
        for action in actions {
            reported.push(*action);
        }
        reported
    }

    proptest! {
        /// Whatever a trace has lost at its beginning, and whatever was reported after it, each action is returned once.
        #[test]
        fn nothing_is_lost_or_returned_twice(all in actions(), lost in 0_usize..60, later in 0_usize..60) {
            let end = all.len().saturating_sub(later);
            // A free is in a trace completely or not at all, because the allocator is locked meanwhile.
            let end = (end..=all.len())
                .find(|&end| end == all.len() || all[end].action == HistoryAction::Allocated)
                .unwrap_or(all.len());
            let start = lost.min(end);
            let mut feed = reported(&all[..end]);
            feed.snapshot();
            for action in &all[end..] {
                feed.push(*action);
            }
            let joined = feed.join(merged(&all[start..end]));
            prop_assert!(joined.is_some());
            let after = feed.take(usize::MAX);
            let found = joined.iter().flat_map(Entries::iter).chain(after.iter());
            let whole = merged(&all);
            prop_assert_eq!(found.collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
        }

        /// A trace with an action that was not reported is noticed.
        #[test]
        fn a_different_trace_is_noticed(all in actions(), at in 0_usize..60) {
            let mut trace = all.clone();
            prop_assume!(!trace.is_empty());
            let at = at % trace.len();
            // The completion of a free has no size of its own.
            prop_assume!(trace[at].action != HistoryAction::FreeCompleted);
            trace[at].bytes += 1;
            prop_assert!(reported(&all).join(merged(&trace)).is_none());
        }
    }

    #[test]
    fn reports_are_trusted_after_enough_comparisons() {
        let allocations: Vec<_> = (0..20).map(|at| entry(HistoryAction::Allocated, at)).collect();
        let mut feed = reported(&allocations);
        assert!(feed.join(merged(&allocations)).is_some());
        assert!(!feed.is_proven(), "no free was compared");
        let free = [entry(HistoryAction::FreeRequested, 3), entry(HistoryAction::FreeCompleted, 3)];
        for action in free {
            feed.push(action);
        }
        assert!(feed.join(merged(&free)).is_some());
        assert!(feed.is_proven() && feed.is_empty());
    }

    #[test]
    fn of_equal_actions_the_last_are_those_of_the_trace() {
        let one = [HistoryAction::Allocated, HistoryAction::FreeRequested, HistoryAction::FreeCompleted];
        let one = one.map(|action| entry(action, 1));
        let mut feed = reported(&[one, one, one].concat());
        feed.snapshot();
        assert_eq!(feed.join(merged(&one)).map(|entries| entries.len()), Some(6));
        assert!(feed.is_empty());
    }

    #[test]
    fn without_a_trace_everything_before_the_snapshot_is_returned() {
        let mut feed = reported(&[entry(HistoryAction::Allocated, 1)]);
        feed.snapshot();
        feed.push(entry(HistoryAction::Allocated, 2));
        assert_eq!(feed.join(Entries::default()).map(|entries| entries.len()), Some(1));
        assert_eq!(feed.take(usize::MAX).len(), 1);
    }
}
