//! KV caches have room for more positions than the program fills.

use std::collections::BTreeMap;

use ttmem_model::{OpId, OpKind, Profile, StrId, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, MIN_SHARE, Rule, Situation, Statement, Urgency};
use crate::analyze::names::Names;
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "kv_cache_unused";

/// The rows of a tile.
const TILE: u64 = 32;

/// What a program writes into a cache.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    /// The positions of the longest prompt; `None` if none was written.
    prompt: Option<u64>,
    /// The number of positions that were appended, one at a time.
    appended: u64,
}

impl Filled {
    /// The positions up to the last one that is filled. Without a prompt, it is unknown where the first one was.
    fn positions(self) -> Option<u64> {
        self.prompt.map(|prompt| prompt.saturating_add(self.appended))
    }
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let mut unused: Vec<(TensorId, u64, u64, u64)> = Vec::new();
    for (tensor, filled) in filled(situation) {
        let look = || {
            let positions = filled.positions()?.checked_next_multiple_of(TILE)?;
            let ty = situation.ty(tensor)?;
            let (columns, outer) = ty.shape.split_last()?;
            let (rows, outer) = outer.split_last()?;
            let shape: Vec<u64> = outer.iter().copied().chain([positions, *columns]).collect();
            let saved =
                situation.interleaved(&pool, tensor).filter(|_| positions < *rows)?.saved_as(ty, &shape)?;
            Some((tensor, *rows, positions, saved))
        };
        let is_here = situation.rank.tensors.pool[tensor.index()] == pool.account.id;
        unused.extend(look().filter(|_| is_here));
    }
    unused.sort_unstable();
    let at_peak: Vec<TensorId> = situation.alive(&pool).collect();
    let tensors: Vec<TensorId> =
        unused.iter().map(|(tensor, ..)| *tensor).filter(|tensor| at_peak.contains(tensor)).collect();
    let per_bank = situation.sum(&tensors);
    let most = unused.iter().map(|(_, rows, positions, _)| (*positions, *rows)).max();
    let Some((positions, rows)) = most.filter(|_| pool.is_share(per_bank, MIN_SHARE)) else {
        return Vec::new();
    };
    let count = tensors.len();
    let statement = Statement::new(format!(
        "{count} KV {} {} and room for {rows} positions each; the program fills at most {positions}.",
        by_count(count, "cache takes", "caches take"),
        pool.share(per_bank),
    ))
    .detail("Sequences that are longer than in this input need more.".to_owned());
    let changes = unused.iter().map(|(tensor, _, _, saved)| Change::Smaller(*tensor, *saved)).collect();
    let how = format!("Allocating {} for only these positions lowers", by_count(count, "it", "them"));
    vec![pool.finding(NAME, statement).tensors(tensors).effect(Effect::lowers(how, changes))]
}

/// What each cache is filled with.
fn filled(situation: &Situation<'_>) -> BTreeMap<TensorId, Filled> {
    let (profile, rank) = (situation.profile, situation.rank);
    let writes: Vec<Option<Write>> =
        (0..profile.ops.len()).filter_map(OpId::new).map(|op| Write::of(profile, op)).collect();
    let mut filled: BTreeMap<TensorId, Filled> = BTreeMap::new();
    if writes.iter().flatten().all(|write| write.prompt.is_none()) {
        return filled;
    }
    let names = Names::of(profile, rank, &writes.iter().flatten().map(|write| write.cache).collect());
    for step in situation.span.first..situation.span.end {
        let write = rank.op_id(step).and_then(|op| writes.get(op.index())?.as_ref());
        let Some((write, cache)) = write.and_then(|write| Some((write, names.meant(step, write.cache)?)))
        else {
            continue;
        };
        let known = filled.entry(cache).or_default();
        match write.prompt {
            Some(rows) => known.prompt = known.prompt.max(Some(rows)),
            None => known.appended = known.appended.saturating_add(1),
        }
    }
    filled
}

/// An operation that writes into a cache.
struct Write {
    /// The name of the cache.
    cache: StrId,
    /// The positions of a prompt; `None` for one position.
    prompt: Option<u64>,
}

impl Write {
    fn of(profile: &Profile, id: OpId) -> Option<Self> {
        let name = profile.text(profile.ops.name(id)?);
        let (fills, appends) = (name.ends_with("fill_cache"), name.ends_with("update_cache"));
        let op = profile.ops.get(id).filter(|op| (fills || appends) && op.kind == OpKind::Compute)?;
        let cache = *op.operands.first()?;
        if appends {
            return Some(Self { cache, prompt: None });
        }
        let ty = profile.tensor_type((*op.operand_types.get(1)?)?)?;
        let rows = ty.shape.len().checked_sub(2).and_then(|row| ty.shape.get(row))?;
        Some(Self { cache, prompt: Some(*rows) })
    }
}
