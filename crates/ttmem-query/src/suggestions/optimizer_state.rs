//! The optimizer state could be stored in 8 bits.

use ttmem_model::{Class, TensorId};

use super::{Effect, Finding, LARGE_SHARE, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "optimizer_state";

/// Minimum number of elements of a tensor whose state an 8-bit optimizer quantizes.
const MIN_ELEMENTS: u64 = 4096;
/// An 8-bit optimizer stores a 32-bit factor for each block of this many elements.
const ELEMENTS_PER_FACTOR: u64 = 256;
/// The values that 8 bits stand for, in 32 bits each: torchao stores them for each tensor, bitsandbytes once.
const CODES: u64 = 256 * 4;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_state = |tensor: &TensorId| situation.rank.tensors.class[tensor.index()] == Class::Optimizer;
    let alive: Vec<TensorId> = situation.alive(&pool).filter(is_state).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return Vec::new();
    }
    let narrower = |tensor: TensorId| {
        let ty = situation.ty(tensor)?;
        let elements = ty.shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side))?;
        let is_wide = situation.profile.text(ty.dtype) == "torch.float32" && elements >= MIN_ELEMENTS;
        // torchao leaves other tensors as they are.
        let has_blocks = elements.is_multiple_of(ELEMENTS_PER_FACTOR);
        let factors = (elements / ELEMENTS_PER_FACTOR).saturating_mul(4);
        let narrow = elements.saturating_add(factors).saturating_add(CODES);
        (is_wide && has_blocks)
            .then(|| Change::Smaller(tensor, situation.per_bank(tensor).saturating_sub(narrow)))
    };
    let changes: Vec<Change> = situation.ever_in(&pool).filter(is_state).filter_map(narrower).collect();
    if changes.is_empty() {
        return Vec::new();
    }
    let effect = Effect::lowers("An 8-bit optimizer (from bitsandbytes or torchao) lowers", changes).about();
    let statement = Statement::new(format!("The optimizer state takes {}.", pool.share(per_bank)));
    vec![pool.finding(NAME, statement).tensors(alive).effect(effect)]
}
