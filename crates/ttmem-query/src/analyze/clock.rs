//! Times of moments, and the time range of a rank.

use ttmem_model::{CallEnd, Moment, Nanoseconds, Rank};

use super::Account;
use super::held;

/// The time range of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The time of the first event.
    pub first: Nanoseconds,
    /// The time of the last event.
    pub last: Nanoseconds,
}

impl Stretch {
    /// The range from a rank's first call, step or snapshot to its last. `None` if nothing has a time.
    pub fn of(rank: &Rank) -> Option<Self> {
        let ends = (0..rank.calls.len()).filter_map(|call| match rank.call_end(call) {
            CallEnd::At(end) => Some(end),
            CallEnd::Open | CallEnd::Unknown => None,
        });
        let times = rank.calls.began.iter().chain(&rank.times.value).copied();
        let all = times.chain(rank.snapshots.iter().map(|snapshot| snapshot.time)).chain(ends);
        all.fold(None, |so_far, time| {
            let Self { first, last } = so_far.unwrap_or(Self { first: time, last: time });
            Some(Self { first: first.min(time), last: last.max(time) })
        })
    }

    /// The length of the range.
    pub fn length(self) -> Nanoseconds {
        self.last.saturating_sub(self.first)
    }

    /// The end of a call, which for a call that was still running is the end of the range. `None` if only the call's
    /// start is known.
    pub fn until(self, rank: &Rank, call: usize) -> Option<Nanoseconds> {
        match rank.call_end(call) {
            CallEnd::At(end) => Some(end),
            CallEnd::Open => Some(self.last.max(*rank.calls.began.get(call)?)),
            CallEnd::Unknown => None,
        }
    }
}

/// A value over time, stored as its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCurve {
    /// The times of the changes, in order. At most two changes have the same time: the highest and the last value.
    pub at: Vec<Nanoseconds>,
    /// The values after the changes.
    pub value: Vec<u64>,
}

/// The memory held by each bank of a pool over time. Empty if steps have no times.
///
/// A change has the time of its step. A reading between two steps has the time of its snapshot, or of the preceding
/// step if there was no snapshot.
pub fn held_in_time(account: &Account<'_>) -> TimeCurve {
    let (rank, held) = (account.rank, held::over_time(account));
    let mut curve = TimeCurve::default();
    if rank.times.is_empty() && rank.snapshots.is_empty() {
        return curve;
    }
    let is_added_up = rank.tensors.pool.contains(&account.id);
    let mut next_snapshot = 0;
    let mut latest = 0;
    for (at, value) in held.changes() {
        let step = rank.time_of(at);
        let snapshot = if is_added_up { None } else { snapshot_at(rank, at, &mut next_snapshot) };
        let Some(time) = snapshot.or(step) else { continue };
        latest = time.max(latest);
        curve.push(latest, value);
    }
    curve
}

impl TimeCurve {
    fn push(&mut self, at: Nanoseconds, value: u64) {
        let same = self.at.iter().rev().take(2).filter(|time| **time == at).count();
        if same == 2 {
            // The first of the two values is the highest.
            let first = self.value.len() - 2;
            self.value[first] = self.value[first].max(self.value[first + 1]);
            self.value[first + 1] = value;
        } else {
            self.at.push(at);
            self.value.push(value);
        }
    }
}

/// The time of the next snapshot at a moment, or of the last one if there are fewer snapshots than readings.
fn snapshot_at(rank: &Rank, at: Moment, next: &mut usize) -> Option<Nanoseconds> {
    while rank.snapshots.get(*next).is_some_and(|snapshot| snapshot.at < at) {
        *next += 1;
    }
    match rank.snapshots.get(*next).filter(|snapshot| snapshot.at == at) {
        Some(snapshot) => {
            *next += 1;
            Some(snapshot.time)
        }
        None => {
            let last = rank.snapshots.get(next.checked_sub(1)?)?;
            (last.at == at).then_some(last.time)
        }
    }
}

#[cfg(test)]
mod tests {
    use ttmem_model::{CallId, RankEvent, Seen};

    use super::*;
    use crate::analyze::tests::{Evidence, NEVER, START, account, after, before, first, tensor};

    #[test]
    fn a_stretch_spans_calls_steps_and_snapshots() {
        let stretch = |say: fn(&mut Evidence)| {
            let mut evidence = Evidence::new();
            evidence.step("aten::mm");
            say(&mut evidence);
            Stretch::of(first(&evidence.finish()))
        };
        let call = |evidence: &mut Evidence| {
            let (scope, lane) = (evidence.scope("a"), evidence.lane("main"));
            evidence.call(scope, lane, None, (5, 60));
            evidence.open_call(scope, lane, None, 8);
        };
        assert_eq!(stretch(|_| ()), None);
        assert_eq!(stretch(|it| it.say(RankEvent::Time(0, 40))), Some(Stretch { first: 40, last: 40 }));
        assert_eq!(stretch(|it| it.snapshot(after(0), 7)), Some(Stretch { first: 7, last: 7 }));
        let calls = stretch(call).unwrap();
        assert_eq!((calls, calls.length()), (Stretch { first: 5, last: 60 }, 55));
    }

    #[test]
    fn open_calls_last_until_the_end_of_the_stretch() {
        let mut evidence = Evidence::new();
        let (scope, lane) = (evidence.scope("a"), evidence.lane("main"));
        let ended = evidence.call(scope, lane, None, (5, 60));
        let open = evidence.open_call(scope, lane, None, 8);
        let [seen, unknown] = [Some(9), None].map(|ended| {
            let call = evidence.open_call(scope, lane, None, 8);
            evidence.say(RankEvent::Seen(call, Seen { ended, change: None }));
            call
        });
        let profile = evidence.finish();
        let stretch = Stretch::of(first(&profile)).unwrap();
        let until = |call: CallId| stretch.until(first(&profile), call.index());
        assert_eq!([ended, open, seen, unknown].map(until), [Some(60), Some(60), Some(9), None]);
        assert_eq!(stretch.until(first(&profile), 99), None);
        // A call may begin after the stretch.
        assert_eq!(Stretch::default().until(first(&profile), open.index()), Some(8));
    }

    #[test]
    fn changes_of_tensors_have_the_time_of_their_step() {
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        for (step, time) in (0..).zip([10, 20, 30]) {
            evidence.step("aten::mm");
            evidence.say(RankEvent::Time(step, time));
        }
        evidence.state(dram, START, 90);
        evidence.state(dram, before(0), 100);
        evidence.tensor(tensor(dram, 30, after(0), NEVER));
        evidence.tensor(tensor(dram, 5, before(1), NEVER));
        // Snapshots don't affect the time of tensors.
        evidence.snapshot(before(2), 999);
        evidence.state(dram, before(2), 200);
        let profile = evidence.finish();
        let curve = held_in_time(&account(&profile, dram));
        assert_eq!(curve.at, [0, 10, 10, 20, 30]);
        assert_eq!(curve.value, [90, 100, 130, 135, 200]);
    }

    #[test]
    fn readings_between_steps_have_the_time_of_their_snapshot() {
        let mut evidence = Evidence::new();
        let (host, step) = (evidence.pool("host"), evidence.step("aten::mm"));
        evidence.say(RankEvent::Time(step, 10));
        for (at, time) in [(START, 1), (before(0), 3), (after(0), 15), (after(0), 18)] {
            evidence.snapshot(at, time);
        }
        // The last two readings have no snapshot. Time doesn't go back to that of the step.
        for (at, held) in [(before(0), 5), (after(0), 7), (after(0), 9), (after(0), 8), (before(1), 4)] {
            evidence.state(host, at, held);
        }
        let profile = evidence.finish();
        let curve = held_in_time(&account(&profile, host));
        assert_eq!(curve.at, [3, 15, 18, 18]);
        assert_eq!(curve.value, [5, 7, 9, 4]);
        // The same without step times.
        let mut evidence = Evidence::new();
        let host = evidence.pool("host");
        evidence.step("aten::mm");
        evidence.snapshot(after(0), 15);
        for (at, held) in [(after(0), 7), (after(0), 9), (before(1), 4)] {
            evidence.state(host, at, held);
        }
        let profile = evidence.finish();
        let curve = held_in_time(&account(&profile, host));
        assert_eq!((curve.at, curve.value), (vec![15, 15], vec![7, 9]));
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        evidence.state(dram, START, 5);
        assert_eq!(held_in_time(&account(&evidence.finish(), dram)), TimeCurve::default());
    }

    #[test]
    fn changes_at_one_time_keep_the_highest_and_the_last() {
        let mut curve = TimeCurve::default();
        for (at, value) in [(0, 5), (7, 9), (7, 30), (7, 2), (7, 20), (7, 3), (9, 1)] {
            curve.push(at, value);
        }
        assert_eq!(curve.at, [0, 7, 7, 9]);
        assert_eq!(curve.value, [5, 30, 3, 1]);
    }
}
