//! Everything about a rank that a summary leaves out, as rows for databases: all tensors with their lifetimes, the use of
//! each pool over time, and the call stacks.
//!
//! The numbers are those of [`summary`](super::summary): a tensor is alive at the peak if the summary lists it there.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{CurveKind, Moment, PoolId, Position, Profile, Rank, Result, StackId, TensorId};

use super::answer::LiveTensor;
use super::find::nth_rank;
use super::over_time::{PointOverTime, thinned};
use super::summary::{Request, View};
use crate::analyze::call_tree::{CallTree, stack_of};
use crate::analyze::{Account, Span, held, live, peak};

/// A rank, ready to be written as rows.
pub struct Lives<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    view: View<'a>,
    tree: CallTree,
}

/// A tensor, from its allocation to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// Its number in the rank.
    pub number: usize,
    /// Its pool.
    pub pool: String,
    /// The tensor, as in the summary.
    pub tensor: LiveTensor,
    /// Whether it is alive at the peak of its pool; `None` if that moment is unknown.
    pub at_peak: Option<bool>,
    /// The time of its allocation since the start of the recording.
    pub born_ns: Option<u64>,
    /// The time of its end; `None` if it was not freed.
    pub dies_ns: Option<u64>,
    /// The number of its call stack in the rank.
    pub stack: Option<u32>,
}

/// The use of a pool from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPoint {
    /// The position in the run.
    pub step: Position,
    /// The time since the start of the recording.
    pub time_ns: Option<u64>,
    /// The allocated bytes of a bank.
    pub per_bank: u64,
}

/// A call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLines {
    /// Its number in the rank.
    pub number: u32,
    /// The line that represents it.
    pub line: String,
    /// All lines, innermost first.
    pub lines: Vec<String>,
}

impl<'a> Lives<'a> {
    /// A rank, by its index in the summary's `ranks` for the same request.
    pub fn new(profiles: &'a [Profile], index: usize, request: &'a Request) -> Result<Self> {
        let (profile, rank) = nth_rank(profiles, index)?;
        let tensors = (0..rank.tensors.len()).filter_map(TensorId::new);
        let tree = CallTree::new(profile, tensors.filter_map(|id| stack_of(profile, rank, id)));
        Ok(Self { profile, rank, view: View::new(profile, rank, request)?, tree })
    }

    /// The start of the recording, in nanoseconds of Unix time.
    pub fn began(&self) -> Option<u64> {
        self.rank.began
    }

    /// All tensors: by pool, those that are alive at the peak of the pool first, largest first.
    pub fn each<E>(&self, mut row: impl FnMut(Life) -> Result<(), E>) -> Result<(), E> {
        let tensors = &self.rank.tensors;
        for (id, name) in self.pools() {
            let at_peak = self.at_peak(id);
            let of_pool = (0..tensors.len()).filter(|&index| tensors.pool[index] == id);
            let mut rows: Vec<(Option<bool>, usize)> =
                of_pool.map(|index| (at_peak.as_ref().map(|alive| alive.contains(&index)), index)).collect();
            rows.sort_by_key(|(alive, index)| {
                (Reverse(*alive), Reverse(tensors.per_bank[*index].get()), *index)
            });
            for (at_peak, index) in rows {
                let Some(tensor) = TensorId::new(index).and_then(|id| self.view.tensor(id)) else { continue };
                let dies = Some(tensors.dies[index]).filter(|dies| *dies != Moment::NEVER);
                row(Life {
                    number: index,
                    pool: name.to_owned(),
                    tensor,
                    at_peak,
                    born_ns: self.time_of(tensors.born[index]),
                    dies_ns: dies.and_then(|dies| self.time_of(dies)),
                    stack: self.stack(index),
                })?;
            }
        }
        Ok(())
    }

    /// The use of a pool over time, reduced to a number of columns as for a chart: the first, the lowest, the highest and
    /// the last value of each column.
    pub fn points(&self, pool: &str, columns: usize) -> Vec<PoolPoint> {
        let found = self.pools().find(|(_, name)| *name == pool);
        let Some(account) = found.and_then(|(id, _)| Account::new(self.rank, id)) else { return Vec::new() };
        if account.pool.curve(CurveKind::Allocated).is_none() {
            return Vec::new();
        }
        let curve = held::over_time(&account);
        let all: Vec<PointOverTime> =
            curve.changes().map(|(at, per_bank)| PointOverTime { moment: at.index(), per_bank }).collect();
        let start = all.first().map_or(0, |point| point.moment);
        let moments = all.last().map_or(0, |point| point.moment) - start + 1;
        let kept = thinned(&all, start, moments, columns);
        let point = |point: PointOverTime| {
            let at = Moment::from_index(point.moment)?;
            Some(PoolPoint { step: at.position(), time_ns: self.time_of(at), per_bank: point.per_bank })
        };
        kept.into_iter().filter_map(point).collect()
    }

    /// The distinct call stacks of the tensors.
    pub fn stacks(&self) -> Vec<StackLines> {
        let mut used: FxHashMap<u32, StackId> = FxHashMap::default();
        for index in 0..self.rank.tensors.len() {
            let stack = TensorId::new(index).and_then(|id| stack_of(self.profile, self.rank, id));
            if let Some((node, stack)) = stack.and_then(|stack| Some((self.tree.node_of(stack)?, stack))) {
                used.entry(node).or_insert(stack);
            }
        }
        let mut used: Vec<(u32, StackId)> = used.into_iter().collect();
        used.sort_unstable_by_key(|(node, _)| *node);
        let text = |frame: ttmem_model::Frame| {
            let (function, file) = (self.profile.text(frame.function), self.profile.text(frame.file));
            format!("{function} at {file}:{}", frame.line)
        };
        let row = |(node, stack): (u32, StackId)| {
            let line = self.tree.nodes.get(node as usize)?.line;
            Some(StackLines {
                number: node,
                line: text(*self.tree.frames.get(line as usize)?),
                lines: self.profile.stacks.lines(stack).map(text).collect(),
            })
        };
        used.into_iter().filter_map(row).collect()
    }

    fn pools(&self) -> impl Iterator<Item = (PoolId, &'a str)> + '_ {
        let name = |pool: &'a ttmem_model::Pool| self.profile.text(pool.name);
        self.rank
            .pools
            .iter()
            .enumerate()
            .filter_map(move |(index, pool)| Some((PoolId::new(index)?, name(pool))))
    }

    /// The tensors that the summary lists at the peak of a pool; `None` if it lists none because the moment is unknown.
    fn at_peak(&self, pool: PoolId) -> Option<FxHashSet<usize>> {
        let account = Account::new(self.rank, pool)?;
        let span = Span::recorded(self.rank);
        let peak = peak::peak(&account, span);
        let at = peak.filter(|_| peak::unseen(&account, span, peak).is_none())?.at;
        let alive = live::live_set(self.rank, pool, at)?;
        Some(alive.tensors.iter().map(|id| id.index()).collect())
    }

    fn stack(&self, index: usize) -> Option<u32> {
        let stack = stack_of(self.profile, self.rank, TensorId::new(index)?)?;
        self.tree.node_of(stack)
    }

    /// The time of a moment, if the input has times.
    fn time_of(&self, at: Moment) -> Option<u64> {
        self.rank.times.iter().next()?;
        self.rank.time_of(at)
    }
}
