//! Tensors of one shape are mainly padding, and another shape would need less.
//!
//! A shape is proposed only for tensors that can be reshaped freely. For others the suggestion names the operations
//! that would have to change, without a saving, because the memory that the changed operations need is unknown.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Bytes, Profile, StrId, TensorId, TensorType, TypeId};

use super::padding::{BetterShape, BetterShapes};
use super::phrases::brief;
use super::{Effect, Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::reshaping::{Freedom, Reshaping};
use crate::analyze::simulation::Change;
use crate::words::{percent, shape};

pub(super) const RULE: Rule = Rule { max: MAX_SHAPES, ..Rule::new(&[NAME], Urgency::Change, find) };

const NAME: &str = "tensor_padding_over_50";

/// Maximum number of shapes to report.
const MAX_SHAPES: usize = 3;
/// Maximum number of operations to name in a sentence.
const MAX_OPERATIONS: usize = 4;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let mut better = BetterShapes::new(situation, &pool);
    let mut much: Vec<(Alike, BetterShape)> = alive_by_shape(situation, &pool)
        .into_iter()
        .filter_map(|alike| {
            let better = better.of(alike.ty, *alike.tensors.first()?).filter(|better| better.is_much)?;
            let at_peak = better.saves.saturating_mul(alike.tensors.len() as u64);
            pool.is_share(at_peak, MIN_SHARE).then_some((alike, better))
        })
        .collect();
    if much.is_empty() {
        return Vec::new();
    }
    much.sort_by_key(|(alike, better)| Reverse(better.saves.saturating_mul(alike.tensors.len() as u64)));
    let reshaping = Reshaping::new(situation.profile, situation.rank);
    much.iter()
        .flat_map(|(alike, better)| {
            let proposed = proposed(situation, &pool, &reshaping, alike, better);
            proposed.into_iter().chain(hindered(situation, &pool, &reshaping, alike))
        })
        .collect()
}

/// Tensors of one shape and element type that are live at the peak.
struct Alike {
    /// A type of that shape.
    ty: TypeId,
    tensors: Vec<TensorId>,
}

/// Proposes a better shape for those tensors that can be reshaped freely.
fn proposed(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    reshaping: &Reshaping<'_>,
    alike: &Alike,
    better: &BetterShape,
) -> Option<Finding> {
    let is_free = |tensor: &TensorId| reshaping.freedom(*tensor) == Freedom::Free;
    let free: Vec<TensorId> = alike.tensors.iter().copied().filter(is_free).collect();
    let example = *free.first()?;
    let types = types_that_look_like(situation.profile, alike.ty);
    let is_alike =
        |tensor: &TensorId| situation.rank.tensors.ty[tensor.index()].is_some_and(|ty| types.contains(&ty));
    let of_shape = situation.ever_in(pool).filter(is_alike).filter(is_free);
    let changes = of_shape.map(|tensor| Change::Smaller(tensor, better.saves)).collect();
    let it = if free.len() == 1 { "it" } else { "them" };
    let how = format!("Reshaping {it} to {} (same elements) lowers", brief(&shape(&better.shape)));
    let effect = Effect::lowers(how, changes).then(format!("Only element-wise operations use {it}."));
    let statement = Statement::new(padded_by(situation, alike.ty, &free)?);
    let finding = pool.finding(NAME, statement).steps(situation.made_by(example));
    Some(finding.tensors(free).effect(effect))
}

/// Names the operations that would have to change for those tensors that cannot be reshaped freely.
fn hindered(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    reshaping: &Reshaping<'_>,
    alike: &Alike,
) -> Option<Finding> {
    let (mut tied, mut changing, mut is_returned) = (Vec::new(), Vec::new(), false);
    for tensor in &alike.tensors {
        match reshaping.freedom(*tensor) {
            Freedom::Free | Freedom::Fixed | Freedom::Unknown => continue,
            Freedom::Returned => is_returned = true,
            Freedom::Tied(ops) => {
                for op in ops {
                    if !changing.contains(&op) {
                        changing.push(op);
                    }
                }
            }
        }
        tied.push(*tensor);
    }
    let example = *tied.first()?;
    let why = if changing.is_empty() && is_returned {
        let it = if tied.len() == 1 { "it" } else { "them" };
        format!("the program returns {it}, so the code that uses the result would need to change too")
    } else {
        would_change(situation, &changing)
    };
    let statement = Statement::new(padded_by(situation, alike.ty, &tied)?)
        .advice(format!("A shape with less padding needs changes in the model: {why}."));
    Some(pool.finding(NAME, statement).steps(situation.made_by(example)).tensors(tied))
}

/// `2 tensors of shape 3x21x8192 (bf16) (%0, …) are padded by 52.4%.`
fn padded_by(situation: &Situation<'_>, ty: TypeId, tensors: &[TensorId]) -> Option<String> {
    let ty = situation.profile.tensor_type(ty)?;
    let (padded, logical) = (ty.padded.or_zero(), ty.logical.or_zero());
    let (name, typed) = (situation.name(*tensors.first()?), situation.typed(ty));
    let who = match tensors.len() {
        1 => format!("{name}, {typed}, is"),
        count => format!("{count} tensors of shape {typed} ({name}, …) are"),
    };
    Some(format!("{who} padded by {}.", percent(padded.saturating_sub(logical), logical)))
}

/// `ttnn.mean and ttnn.reshape would need to change too`.
fn would_change(situation: &Situation<'_>, ops: &[StrId]) -> String {
    let mut names: Vec<String> = ops.iter().map(|op| situation.op(*op)).collect();
    if names.len() > MAX_OPERATIONS + 1 {
        let more = names.split_off(MAX_OPERATIONS).len();
        names.push(format!("{more} more operations"));
    }
    let listed = match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => "other operations".into(),
    };
    format!("{listed} would need to change too")
}

/// The visible properties of a type. Types that share them may still differ in their texts.
fn looks(ty: &TensorType) -> (&[u64], StrId, Bytes) {
    (&ty.shape, ty.dtype, ty.padded)
}

fn types_that_look_like(profile: &Profile, ty: TypeId) -> FxHashSet<TypeId> {
    let wanted = profile.tensor_type(ty).map(looks);
    let types = (0..profile.types.len()).filter_map(TypeId::new);
    types.filter(|ty| profile.tensor_type(*ty).map(looks) == wanted).collect()
}

fn alive_by_shape(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<Alike> {
    let mut places: FxHashMap<(&[u64], StrId, u64), usize> = FxHashMap::default();
    let mut shapes: Vec<Alike> = Vec::new();
    for tensor in situation.alive(pool) {
        let Some(ty) = situation.rank.tensors.ty[tensor.index()] else { continue };
        let Some((shape, dtype, padded)) = situation.ty(tensor).map(looks) else { continue };
        let place = *places.entry((shape, dtype, padded.or_zero())).or_insert(shapes.len());
        match shapes.get_mut(place) {
            Some(alike) => alike.tensors.push(tensor),
            None => shapes.push(Alike { ty, tensors: vec![tensor] }),
        }
    }
    shapes
}
