//! A loss over a large vocabulary keeps several tensors as large as the logits.
//!
//! The logits, a float32 copy of them, the result of the softmax and the gradients all have a value for each token and each
//! entry of the vocabulary. If the loss is computed for one part of the tokens after the other, only those of one part are
//! live.

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Moment, TensorId};

use super::{Effect, Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;
use crate::device::is_torch;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "logits";

/// The number of parts that the tokens are divided into.
const PARTS: u64 = 8;
/// Minimum number of tokens.
const MIN_TOKENS: u64 = 64;
/// Minimum size of the vocabulary. Smaller numbers of classes are not worth it.
const MIN_VOCABULARY: u64 = 1024;

/// The sizes of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Logits {
    tokens: u64,
    vocabulary: u64,
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let pool = situation.main_with_tensors().filter(|pool| is_torch(pool.label.name));
    pool.and_then(|pool| look(situation, &pool)).into_iter().collect()
}

fn look(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Finding> {
    let mut alive: FxHashMap<Logits, Vec<TensorId>> = FxHashMap::default();
    for tensor in situation.alive(pool) {
        if let Some(sizes) = sizes(situation, tensor) {
            alive.entry(sizes).or_default().push(tensor);
        }
    }
    let candidates = alive.into_iter().map(|(sizes, tensors)| (situation.sum(&tensors), sizes, tensors));
    let (per_bank, sizes, tensors) = candidates.max_by_key(|(per_bank, sizes, _)| (*per_bank, *sizes))?;
    let count = tensors.len();
    if count < 2 || !pool.is_share(per_bank, LARGE_SHARE) {
        return None;
    }
    let all: Vec<TensorId> =
        situation.ever_in(pool).filter(|tensor| self::sizes(situation, *tensor) == Some(sizes)).collect();
    // Only a loss computes this.
    let is_loss = |tensor: &TensorId| {
        situation.profile.made(situation.rank, *tensor).op.is_some_and(|op| op.contains("log_softmax"))
    };
    if !all.iter().any(is_loss) {
        return None;
    }
    let needed = needed_by_parts(situation, pool, sizes)?;
    let mut changes: Vec<Change> = Vec::new();
    for tensor in &all {
        let bytes = situation.per_bank(*tensor);
        changes.push(Change::Smaller(*tensor, bytes.saturating_sub(bytes.div_ceil(PARTS))));
    }
    let periods = periods(situation, &all);
    changes.extend(periods.into_iter().map(|(from, until)| Change::Added(from, until, needed)));
    let statement = Statement::new(format!(
        "{count} tensors as large as the logits, {} tokens by a vocabulary of {}, take {}.",
        sizes.tokens,
        sizes.vocabulary,
        pool.share(per_bank)
    ))
    .detail("They are the logits, copies of them, and the softmax and its gradient.".to_owned());
    let how = format!(
        "Computing the loss for {PARTS} parts of the tokens, one after the other, or with a fused linear cross entropy, \
         lowers"
    );
    Some(pool.finding(NAME, statement).tensors(tensors).effect(Effect::lowers(how, changes).about()))
}

/// The sizes of a tensor that may be logits or of the same size.
fn sizes(situation: &Situation<'_>, tensor: TensorId) -> Option<Logits> {
    let class = *situation.rank.tensors.class.get(tensor.index())?;
    let is_kept = matches!(class, Class::Parameter | Class::Optimizer | Class::Buffer | Class::KvCache);
    let (vocabulary, outer) = situation.ty(tensor).filter(|_| !is_kept)?.shape.split_last()?;
    let tokens = outer.iter().try_fold(1_u64, |all, side| all.checked_mul(*side))?;
    let is_large = tokens >= MIN_TOKENS && *vocabulary >= MIN_VOCABULARY;
    is_large.then_some(Logits { tokens, vocabulary: *vocabulary })
}

/// The memory that computing the loss in parts needs: the gradients of the hidden states and of the weight are summed up
/// while logits are live, and each part adds its own.
fn needed_by_parts(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, sizes: Logits) -> Option<u64> {
    let is_weight = |tensor: &TensorId| {
        let is_parameter = situation.rank.tensors.class[tensor.index()] == Class::Parameter;
        is_parameter
            && situation.ty(*tensor).is_some_and(|ty| ty.shape.len() == 2 && ty.shape[0] == sizes.vocabulary)
    };
    let weight = situation.alive(pool).filter(is_weight).max_by_key(|tensor| situation.per_bank(*tensor))?;
    let bytes = situation.per_bank(weight);
    let of_token = bytes.checked_div(sizes.vocabulary)?;
    let hidden = of_token.checked_mul(sizes.tokens)?;
    bytes.checked_add(hidden)?.checked_mul(2)
}

/// The periods when at least one of the tensors is live.
fn periods(situation: &Situation<'_>, tensors: &[TensorId]) -> Vec<(Moment, Moment)> {
    let life = |tensor: &TensorId| {
        (situation.rank.tensors.born[tensor.index()], situation.rank.tensors.dies[tensor.index()])
    };
    let mut lives: Vec<(Moment, Moment)> = tensors.iter().map(life).collect();
    lives.sort_unstable();
    let mut periods: Vec<(Moment, Moment)> = Vec::new();
    for (born, dies) in lives {
        match periods.last_mut() {
            Some((_, until)) if born <= *until => *until = dies.max(*until),
            _ => periods.push((born, dies)),
        }
    }
    periods
}
