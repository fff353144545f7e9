//! The number of cases that a test tries. `make test` uses a sample; `make soak` sets `TTMEM_SWEEP=all` to try all.

use std::ops::Range;

/// Whether all cases are tried.
pub fn is_whole() -> bool {
    std::env::var("TTMEM_SWEEP").is_ok_and(|sweep| sweep == "all")
}

/// The number of cases: `sample`, or `whole` if all cases are tried.
pub fn cases<T>(sample: T, whole: T) -> T {
    if is_whole() { whole } else { sample }
}

/// Positions in a range: all, or about `sample` at equal distances, including the first and the last.
pub fn positions(range: Range<usize>, sample: usize) -> impl Iterator<Item = usize> {
    let step = cases(range.len().div_ceil(sample.max(1)), 1).max(1);
    let last = range.clone().next_back();
    range.step_by(step).chain(last.filter(move |_| step > 1))
}

/// Pairs of two lists: all, or each item of the first with two of the second, in turn.
pub fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    let each = cases(2.min(second.len()), second.len());
    first.iter().enumerate().flat_map(move |(row, one)| {
        let others = second.iter().cycle().skip(row * each % second.len().max(1)).take(each);
        others.map(move |other| (one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_positions_has_the_first_and_the_last() {
        if is_whole() {
            assert_eq!(positions(3..103, 5).collect::<Vec<_>>(), (3..103).collect::<Vec<_>>());
        } else {
            assert_eq!(positions(3..103, 5).collect::<Vec<_>>(), [3, 23, 43, 63, 83, 102]);
        }
        assert_eq!(positions(0..0, 5).count(), 0);
        assert_eq!(positions(7..9, 5).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn a_sample_of_pairs_has_all_of_both_kinds() {
        let found: Vec<_> = pairs(&['a', 'b', 'c'], &[1, 2, 3]).collect();
        if is_whole() {
            assert_eq!(found.len(), 9);
        } else {
            let sample = [('a', 1), ('a', 2), ('b', 3), ('b', 1), ('c', 2), ('c', 3)];
            assert!(found.into_iter().map(|(one, other)| (*one, *other)).eq(sample));
        }
        assert_eq!(pairs(&['a'], &[0; 0]).count(), 0);
        assert_eq!(pairs(&['a'], &[7]).count(), 1);
    }
}
