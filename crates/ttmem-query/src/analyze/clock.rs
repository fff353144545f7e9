//! When things happened: the times of moments, and the stretch of time that a rank speaks of.

use ttmem_model::{CallEnd, Moment, Nanoseconds, Rank};

use super::Account;
use super::held;

/// The stretch of time that a rank speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// When the first thing happened.
    pub first: Nanoseconds,
    /// When the last one did.
    pub last: Nanoseconds,
}

impl Stretch {
    /// All of a rank, from its first call, step or snapshot to its last. `None` where nothing has a time.
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

    /// How long it is.
    pub fn length(self) -> Nanoseconds {
        self.last.saturating_sub(self.first)
    }

    /// Until when the call in a row ran, as far as that was seen: one that still runs has run until the last moment.
    /// `None` where only its time is known.
    pub fn until(self, rank: &Rank, call: usize) -> Option<Nanoseconds> {
        match rank.call_end(call) {
            CallEnd::At(end) => Some(end),
            CallEnd::Open => Some(self.last.max(*rank.calls.began.get(call)?)),
            CallEnd::Unknown => None,
        }
    }
}

/// A value in time, held as its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCurve {
    /// When it changed, in order; at most two changes have the same time: the highest, and the one that holds.
    pub at: Vec<Nanoseconds>,
    /// To what.
    pub value: Vec<u64>,
}

/// What each bank of a pool holds, in time. Empty where steps have no times.
///
/// A change is as late as its step. What was read between two steps is as late as the snapshot that it was read for; where
/// there was none, as the step before.
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
            // The first of the two is the highest.
            let first = self.value.len() - 2;
            self.value[first] = self.value[first].max(self.value[first + 1]);
            self.value[first + 1] = value;
        } else {
            self.at.push(at);
            self.value.push(value);
        }
    }
}

/// The time of the next snapshot at a moment; the last one's where there are fewer than readings.
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
    use super::*;

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
