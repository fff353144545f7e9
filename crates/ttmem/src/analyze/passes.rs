//! Passes: how often the sequence of programs repeats.

use crate::model::{ModuleId, Run, StrId};

/// How many times the sequence of top-level programs runs through, the last time perhaps in part.
pub fn passes<'a>(runs: impl Iterator<Item = &'a Run>) -> usize {
    let sequence: Vec<(StrId, Option<ModuleId>)> = runs.map(|run| (run.program, run.module)).collect();
    if sequence.is_empty() {
        return 0;
    }
    sequence.len().div_ceil(period(&sequence))
}

/// The length of the shortest beginning that, repeated, gives the whole.
fn period<T: PartialEq>(sequence: &[T]) -> usize {
    // How much of the beginning ends at each place (as in Knuth, Morris and Pratt).
    let mut borders = vec![0usize; sequence.len()];
    for at in 1..sequence.len() {
        let mut border = borders[at - 1];
        while border > 0 && sequence[at] != sequence[border] {
            border = borders[border - 1];
        }
        borders[at] = border + usize::from(sequence[at] == sequence[border]);
    }
    sequence.len() - borders.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn the_shortest_period_is_found() {
        assert_eq!(period(b"a"), 1);
        assert_eq!(period(b"aaaa"), 1);
        assert_eq!(period(b"pddpddp"), 3);
        assert_eq!(period(b"pdddd"), 5);
        assert_eq!(period(b"abcabd"), 6);
    }
}
