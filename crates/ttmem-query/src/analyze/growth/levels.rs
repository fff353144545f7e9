//! Whether levels keep rising.

use super::MIN_ITERATIONS;

/// The number of parts that the measured iterations are divided into.
const PARTS: usize = 4;
/// The fewest measured iterations that are divided. Fewer have to rise one by one.
const MIN_DIVIDED: usize = 2 * PARTS;

/// Levels that keep rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rise {
    /// The index of the first low point.
    pub first: usize,
    /// The index of the last low point.
    pub last: usize,
    /// The difference between the two.
    pub bytes: u64,
    /// The first iteration that leaves something behind.
    pub since: usize,
}

impl Rise {
    /// The mean rise per iteration.
    pub fn per_iteration(&self) -> u64 {
        self.bytes / u64::try_from(self.last - self.first).unwrap_or(u64::MAX).max(1)
    }
}

/// The first of `count` iterations that shows whether memory grows. In the first half, a program allocates memory that it
/// keeps for the whole run.
pub(super) fn first_measured(count: usize) -> usize {
    (count / 2).min(count.saturating_sub(PARTS))
}

/// The rise of levels: one for the start of each iteration, and one for the end. `None` if they do not keep rising.
///
/// `quantum` is the rounding of levels.
pub(super) fn rise(levels: &[u64], quantum: u64) -> Option<Rise> {
    let (&at_end, begins) = levels.split_last()?;
    if begins.len() < MIN_ITERATIONS {
        return None;
    }
    let start = first_measured(begins.len());
    let low = low_points(&begins[start..]);
    let (&(first, lowest), &(last, highest)) = (low.first()?, low.last()?);
    let bytes = highest.checked_sub(lowest)?;
    let rises = low.is_sorted_by(|(_, before), (_, after)| before < after);
    let is_exact = bytes > quantum.saturating_mul(2);
    let stays = at_end >= lowest.saturating_add(bytes / 2);
    let (first, last) = (start + first, start + last);
    // The last part also rises, unless it is a single iteration.
    let continues = last + 1 == begins.len() || begins[last..].iter().any(|level| *level > highest);
    (rises && is_exact && stays && continues && !is_cycle(begins, bytes)).then(|| Rise {
        first,
        last,
        bytes,
        since: since(begins),
    })
}

/// Whether no measured level is lower than the one before. Of few iterations, all but the first count.
pub(super) fn never_falls(levels: &[u64]) -> bool {
    let begins = levels.split_last().map_or(levels, |(_, begins)| begins);
    let start = if begins.len() < 2 * MIN_DIVIDED { 1 } else { first_measured(begins.len()) };
    begins.get(start..).is_some_and(<[u64]>::is_sorted)
}

/// The lowest level in each part, with its index. In a nested loop the level goes up and down; if memory grows, each low
/// point is higher than the one before.
fn low_points(levels: &[u64]) -> Vec<(usize, u64)> {
    let len = if levels.len() < MIN_DIVIDED { 1 } else { levels.len().div_ceil(PARTS) };
    let part = |(number, part): (usize, &[u64])| {
        let (at, level) = part.iter().enumerate().min_by_key(|(_, level)| **level)?;
        Some((number * len + at, *level))
    };
    levels.chunks(len).enumerate().filter_map(part).collect()
}

/// Whether memory was released before, after it had grown for at least half as long as it does now: the cache of a
/// request, or a buffer that is flushed.
fn is_cycle(levels: &[u64], rise: u64) -> bool {
    let is_release = |at: &usize| {
        let (before, after) = (levels[at - 1], levels[*at]);
        after < before / 2 && before - after >= rise / 2
    };
    let mut since = 0;
    let mut longest = 0;
    for release in (1..levels.len()).filter(is_release) {
        longest = longest.max(release - since);
        since = release;
    }
    longest > 0 && levels.len() - since <= longest.saturating_mul(2)
}

/// The first iteration that leaves something behind for good. Iteration `i` begins at `levels[i]`.
fn since(levels: &[u64]) -> usize {
    let mut lowest: Vec<u64> = levels.to_vec();
    for at in (1..lowest.len()).rev() {
        lowest[at - 1] = lowest[at - 1].min(lowest[at]);
    }
    lowest.windows(2).position(|pair| pair[0] < pair[1]).unwrap_or(0)
}
