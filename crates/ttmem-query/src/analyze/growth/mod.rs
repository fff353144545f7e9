//! Growth from iteration to iteration: memory that every iteration leaves behind.
//!
//! Growth is decided for each origin of tensors (an operation at a line) separately. The bytes of an origin that are live
//! when each iteration begins are its levels. They grow if they keep rising until the end. What the first iterations
//! allocate and keep is warm-up, and what is freed again and again is a cycle; neither is growth.

mod iterations;
mod levels;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Moment, OpId, Profile, StrId, TensorId};

use super::Account;
pub use iterations::{Iterations, MIN_ITERATIONS, Unit, candidates};
use levels::Rise;

/// What grows in a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The origins that grow, largest first.
    pub origins: Vec<Grown>,
    /// The bytes per bank that iterations add together.
    pub per_iteration: u64,
    /// What the first iterations allocated and kept.
    pub warm_up: WarmUp,
}

/// Memory that the first iterations allocate and keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// The number of iterations until all of it is allocated.
    pub iterations: usize,
    /// The bytes per bank.
    pub per_bank: u64,
}

/// An origin that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The origin.
    pub origin: Origin,
    /// How it grows.
    pub kind: Kind,
    /// The bytes per bank that an iteration adds.
    pub per_iteration: u64,
    /// The bytes per bank that were added during the measured iterations.
    pub per_bank: u64,
    /// The bytes per bank of the origin's tensors when each iteration begins, and when the last one ends.
    pub levels: Vec<u64>,
    /// The first measured iteration and the number of measured iterations.
    pub measured: (usize, usize),
    /// The first iteration that leaves something behind.
    pub since: usize,
    /// The number of tensors that were added, or are replaced by larger ones; `None` for memory without tensors.
    pub count: Option<usize>,
    /// The tensors that the measured iterations added.
    pub tensors: Vec<TensorId>,
    /// The classes of these tensors, if they are all the same.
    pub class: Option<Class>,
    /// Whether the program freed all of these tensors after the last iteration.
    pub freed_later: bool,
}

/// How memory grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Iterations leave tensors behind.
    Kept,
    /// Larger tensors replace smaller ones.
    Replaced,
    /// The tensors are a KV cache.
    KvCache,
    /// The memory does not belong to tensors that the input knows.
    Unexplained,
}

/// Where tensors come from: users identify an operation by its name and line, regardless of the call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// An operation, by name and location, with one of its ids.
    Operation(Option<StrId>, Option<StrId>),
    /// An argument with this name.
    Argument(StrId),
    /// Unknown.
    Unknown,
}

impl Growth {
    /// The kind that most of the growth is of; `None` if nothing grows.
    pub fn kind(&self) -> Option<Kind> {
        let mut sums: Vec<(Kind, u64)> = Vec::new();
        for grown in &self.origins {
            match sums.iter_mut().find(|(kind, _)| *kind == grown.kind) {
                Some((_, sum)) => *sum = sum.saturating_add(grown.per_iteration),
                None => sums.push((grown.kind, grown.per_iteration)),
            }
        }
        // The first of several equal ones.
        sums.into_iter().rev().max_by_key(|(_, sum)| *sum).map(|(kind, _)| kind)
    }
}

/// What grows in a pool from iteration to iteration.
pub fn growth(profile: &Profile, account: &Account<'_>, iterations: &Iterations) -> Growth {
    let mut origins: Vec<Grown> = of_tensors(profile, account, iterations);
    origins.extend(unexplained(account, iterations));
    origins.sort_by_key(|grown| (Reverse(grown.per_iteration), grown.origin));
    Growth {
        per_iteration: origins.iter().map(|grown| grown.per_iteration).fold(0, u64::saturating_add),
        warm_up: warm_up(account, iterations, &origins),
        origins,
    }
}

/// The changes of an origin's live tensors.
#[derive(Default)]
struct Changes {
    rows: Vec<Change>,
    tensors: Vec<TensorId>,
}

/// A tensor becomes or is no longer live, at an index of the iterations' moments. There may be millions.
#[derive(Clone, Copy)]
struct Change {
    at: u32,
    is_gone: bool,
    per_bank: u64,
}

impl Change {
    fn new(at: usize, is_gone: bool, per_bank: u64) -> Self {
        Self { at: u32::try_from(at).unwrap_or(u32::MAX), is_gone, per_bank }
    }

    fn bytes(self) -> i128 {
        let bytes = i128::from(self.per_bank);
        if self.is_gone { -bytes } else { bytes }
    }
}

fn of_tensors(profile: &Profile, account: &Account<'_>, iterations: &Iterations) -> Vec<Grown> {
    let rank = account.rank;
    let tensors = &rank.tensors;
    let moments = iterations.moments();
    let index_of = |at: Moment| moments.partition_point(|moment| *moment < at);
    let mut found: FxHashMap<Origin, Changes> = FxHashMap::default();
    let mut first = 0;
    for index in (0..tensors.len()).filter(|&index| tensors.pool[index] == account.id) {
        let (born, dies) = (tensors.born[index], tensors.dies[index]);
        // Most tensors are allocated in the same iteration as the one before, and freed in it as well.
        let is_same = moments.get(first).is_none_or(|next| born <= *next)
            && first.checked_sub(1).is_none_or(|last| moments[last] < born);
        if !is_same {
            first = index_of(born);
        }
        if moments.get(first).is_none_or(|next| dies <= *next) {
            continue;
        }
        let end = index_of(dies);
        let (Some(bytes), Some(id)) = (tensors.per_bank[index].get(), TensorId::new(index)) else {
            continue;
        };
        let changes = found.entry(Origin::of(profile, account, id)).or_default();
        changes.rows.extend([Change::new(first, false, bytes), Change::new(end, true, bytes)]);
        changes.tensors.push(id);
    }
    let grown = |(origin, changes): (Origin, Changes)| {
        changes.is_higher_later(iterations).then(|| changes.grown(account, iterations, origin))?
    };
    found.into_iter().filter_map(grown).collect()
}

impl Origin {
    fn of(profile: &Profile, account: &Account<'_>, tensor: TensorId) -> Self {
        let rank = account.rank;
        let of_op = |op: OpId| Self::Operation(profile.ops.name(op), profile.ops.loc(op));
        let name = || rank.tensors.name.get(tensor.index()).copied().flatten().map(Self::Argument);
        rank.made_by(tensor).map(of_op).or_else(name).unwrap_or(Self::Unknown)
    }
}

impl Changes {
    /// Whether more is live when the last iteration begins than when the measured iterations begin. Most origins are
    /// not, and need no further work.
    fn is_higher_later(&self, iterations: &Iterations) -> bool {
        let (first, last) = (levels::first_measured(iterations.count()), iterations.count() - 1);
        let between = self.rows.iter().filter(|row| (first + 1..=last).contains(&(row.at as usize)));
        between.map(|row| row.bytes()).sum::<i128>() > 0
    }

    fn grown(self, account: &Account<'_>, iterations: &Iterations, origin: Origin) -> Option<Grown> {
        let (mut bytes, mut counts) =
            (vec![0_i128; iterations.count() + 1], vec![0_i64; iterations.count() + 1]);
        for row in &self.rows {
            let at = row.at as usize;
            if let (Some(of_bytes), Some(of_counts)) = (bytes.get_mut(at), counts.get_mut(at)) {
                *of_bytes += row.bytes();
                *of_counts += if row.is_gone { -1 } else { 1 };
            }
        }
        for at in 1..bytes.len() {
            bytes[at] += bytes[at - 1];
            counts[at] += counts[at - 1];
        }
        let levels: Vec<u64> =
            bytes.into_iter().map(|bytes| u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)).collect();
        let rise = levels::rise(&levels, 0)?;
        let grown = self.explained(account, iterations, origin, &rise, &counts);
        // Batches of different lengths may happen to grow for a while.
        let is_growth = grown.kind != Kind::Replaced || levels::never_falls(&levels);
        is_growth.then_some(Grown { levels, ..grown })
    }

    /// The growth with its tensors, its kind and its class.
    fn explained(
        self,
        account: &Account<'_>,
        iterations: &Iterations,
        origin: Origin,
        rise: &Rise,
        counts: &[i64],
    ) -> Grown {
        let tensors = &account.rank.tensors;
        let moments = iterations.moments();
        let (from, until) = (moments[rise.first], moments[rise.last]);
        let live = |id: &&TensorId| tensors.born[id.index()] <= until && until < tensors.dies[id.index()];
        let per_bank = |id: &TensorId| tensors.per_bank[id.index()].or_zero();
        let is_cache = |id: &&TensorId| tensors.class[id.index()] == Class::KvCache;
        let sum = |ids: &mut dyn Iterator<Item = &TensorId>| ids.map(per_bank).fold(0, u64::saturating_add);
        let cached = sum(&mut self.tensors.iter().filter(live).filter(is_cache));
        let all = sum(&mut self.tensors.iter().filter(live));
        let more = usize::try_from(counts[rise.last] - counts[rise.first]).unwrap_or(0);
        let lasting = self.tensors.iter().filter(live).count();
        let (kind, count) = match more {
            _ if cached > all / 2 => {
                (Kind::KvCache, self.tensors.iter().filter(live).filter(is_cache).count())
            }
            0 => (Kind::Replaced, lasting),
            more => (Kind::Kept, more),
        };
        let new: Vec<TensorId> =
            self.tensors.iter().filter(live).filter(|id| tensors.born[id.index()] > from).copied().collect();
        let class = new.first().map(|id| tensors.class[id.index()]);
        Grown {
            origin,
            kind,
            per_iteration: rise.per_iteration(),
            per_bank: rise.bytes,
            measured: (rise.first, rise.last - rise.first),
            since: rise.since,
            count: Some(count),
            class: class.filter(|class| new.iter().all(|id| tensors.class[id.index()] == *class)),
            freed_later: !new.is_empty() && new.iter().all(|id| tensors.dies[id.index()] < Moment::NEVER),
            tensors: new,
            levels: Vec::new(),
        }
    }
}

impl Grown {
    fn unexplained(rise: &Rise) -> Self {
        Self {
            origin: Origin::Unknown,
            kind: Kind::Unexplained,
            per_iteration: rise.per_iteration(),
            per_bank: rise.bytes,
            measured: (rise.first, rise.last - rise.first),
            since: rise.since,
            count: None,
            tensors: Vec::new(),
            levels: Vec::new(),
            class: None,
            freed_later: false,
        }
    }
}

/// The growth of memory outside the known tensors, from the first iteration with a known level.
fn unexplained(account: &Account<'_>, iterations: &Iterations) -> Option<Grown> {
    if account.is_all_explained() {
        return None;
    }
    let level = |at: &Moment| {
        // Without tensors, changes between two programs are unknown.
        let before = || account.held(Moment::early(at.position()));
        let held = account.held(*at).or_else(before)?.per_bank;
        Some(held.saturating_sub(account.explained(*at).unwrap_or(0)))
    };
    let levels: Vec<Option<u64>> = iterations.moments().iter().map(level).collect();
    let unknown = levels.iter().take_while(|level| level.is_none()).count();
    let levels: Vec<u64> = levels.into_iter().skip(unknown).collect::<Option<_>>()?;
    let rise = levels::rise(&levels, account.pool.quantum)?;
    Some(Grown::unexplained(&Rise {
        first: rise.first + unknown,
        last: rise.last + unknown,
        since: rise.since + unknown,
        ..rise
    }))
}

/// What the first iterations allocated and kept: the tensors of origins that do not grow.
fn warm_up(account: &Account<'_>, iterations: &Iterations, grown: &[Grown]) -> WarmUp {
    let begins = iterations.begins();
    let mut growing = vec![0_u64; begins.len()];
    for grown in grown {
        for (level, more) in growing.iter_mut().zip(&grown.levels) {
            *level = level.saturating_add(*more);
        }
    }
    let others = |(at, growing): (&Moment, &u64)| Some(account.explained(*at)?.saturating_sub(*growing));
    let Some(levels) = begins.iter().zip(&growing).map(others).collect::<Option<Vec<u64>>>() else {
        return WarmUp::default();
    };
    let kept = levels.get(levels::first_measured(levels.len())..).unwrap_or_default().iter().min();
    let (Some(&kept), Some(&start)) = (kept, levels.first()) else { return WarmUp::default() };
    let iterations = levels.iter().position(|level| *level >= kept).unwrap_or(0);
    WarmUp { iterations, per_bank: kept.saturating_sub(start) }
}
