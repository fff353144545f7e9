//! Passes: the repetitions of the sequence of programs, and the runs of the last one.

use crate::{ModuleId, Rank, Run, RunId, StrId};

/// The top-level runs of a rank, divided into passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passes {
    runs: Vec<RunId>,
    /// The number of runs per pass.
    period: usize,
}

impl Passes {
    /// The passes of a rank. The last one may be incomplete if the log was cut or the program crashed.
    pub fn of(rank: &Rank) -> Self {
        let (runs, rows): (Vec<RunId>, Vec<&Run>) = rank.top_level_runs().unzip();
        // A rank that was cut out as one pass is one pass, regardless of its runs.
        let period = if rank.cut_out.is_some() { runs.len() } else { period(&sequence(&rows)) };
        Self { runs, period: period.max(1) }
    }

    /// The number of passes.
    pub fn count(&self) -> usize {
        self.runs.len().div_ceil(self.period)
    }

    /// The first run of each pass.
    pub fn begins(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().copied().step_by(self.period)
    }

    /// The index of the last pass's first run among the top-level runs; `None` if there are none.
    pub fn last_begins(&self) -> Option<usize> {
        self.count().checked_sub(1).map(|before| before * self.period)
    }

    /// The runs of the last pass.
    pub fn last(&self) -> &[RunId] {
        self.last_begins().and_then(|first| self.runs.get(first..)).unwrap_or_default()
    }
}

/// Two runs are equal if this is equal.
type Kind = (StrId, Option<ModuleId>);

/// The programs that ran, in order.
///
/// A run that ended early may match several graphs, so its graph may be unknown. If it is the last run, it is assumed
/// to be the next one in the sequence.
fn sequence(runs: &[&Run]) -> Vec<Kind> {
    let mut sequence: Vec<Kind> = runs.iter().map(|run| (run.program, run.module)).collect();
    let broke_off = runs.last().is_some_and(|run| !run.finished && run.module.is_none());
    if let Some((last, before)) =
        sequence.split_last_mut().filter(|(_, before)| broke_off && !before.is_empty())
    {
        let turn = before[before.len() % period(before)];
        if turn.0 == last.0 {
            *last = turn;
        }
    }
    sequence
}

/// The length of the shortest prefix whose repetition gives the whole sequence.
fn period<T: PartialEq>(sequence: &[T]) -> usize {
    // The length of the longest border at each index (Knuth–Morris–Pratt).
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
    use super::*;
    use crate::{ByteRange, CutOut};

    #[test]
    fn the_shortest_period_is_found() {
        assert_eq!(period(b""), 0);
        assert_eq!(period(b"a"), 1);
        assert_eq!(period(b"aaaa"), 1);
        assert_eq!(period(b"pddpddp"), 3);
        assert_eq!(period(b"pdddd"), 5);
        assert_eq!(period(b"abcabd"), 6);
    }

    /// A rank with a run of the same program per letter; `?` is a run that ended early, with an unknown graph.
    fn rank(graphs: &str) -> Rank {
        let run = |graph: char| Run {
            program: StrId::new(0).unwrap(),
            parent: None,
            module: (graph != '?').then(|| ModuleId::new(graph as usize).unwrap()),
            const_eval: false,
            first: 0,
            end: 0,
            finished: graph != '?',
            source: ByteRange::default(),
        };
        Rank { runs: graphs.chars().map(run).collect(), ..Rank::default() }
    }

    fn passes(graphs: &str) -> (usize, usize) {
        let passes = Passes::of(&rank(graphs));
        (passes.count(), passes.last().len())
    }

    #[test]
    fn the_last_pass_is_the_last_time_through_in_whole_or_in_part() {
        assert_eq!(passes(""), (0, 0));
        assert_eq!(passes("a"), (1, 1));
        assert_eq!(passes("aaa"), (3, 1));
        assert_eq!(passes("pddpdd"), (2, 3));
        assert_eq!(passes("pddpddpd"), (3, 2));
        assert_eq!(passes("pdddd"), (1, 5));
    }

    #[test]
    fn a_run_that_broke_off_is_the_one_whose_turn_it_was() {
        assert_eq!(passes("?"), (1, 1));
        assert_eq!(passes("aa?"), (3, 1));
        assert_eq!(passes("pddpd?"), (2, 3));
        assert_eq!(passes("pddpdd?"), (3, 1));
        // Only the last one: an earlier run that ended early is a different run.
        assert_eq!(passes("pdd?dd"), (1, 6));
    }

    #[test]
    fn a_cut_out_is_one_pass() {
        let cut_out = Rank { cut_out: Some(CutOut { pass: 2, of: 2, first: 0 }), ..rank("aba") };
        assert_eq!((Passes::of(&cut_out).count(), Passes::of(&cut_out).last().len()), (1, 3));
    }
}
