//! A large part of the memory at the peak is padding.

use rustc_hash::FxHashMap;
use ttmem_model::{TensorId, TypeId};

use super::{Effect, Finding, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::reshaping::{Freedom, Reshaping};
use crate::analyze::simulation::Change;
use crate::analyze::{padding, tiles};
use crate::words::{percent, size};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "padding_over_50";

/// The ratio of padding to elements, in percent, above which a tensor has too much padding.
const MUCH: u64 = 50;

fn is_much(padded: u64, logical: u64) -> bool {
    u128::from(padded.saturating_sub(logical)) * 100 > u128::from(logical) * u128::from(MUCH)
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let (profile, rank) = (situation.profile, situation.rank);
    let found = padding::padding(profile, rank, pool.account.id, pool.peak.at, usize::MAX);
    let Some(found) = found.filter(|found| is_much(found.padded, found.logical)) else { return Vec::new() };
    let reshaping = Reshaping::new(profile, rank);
    let mut better = BetterShapes::new(situation, &pool);
    let changes: Vec<Change> = situation
        .ever_in(&pool)
        .filter(|tensor| reshaping.freedom(*tensor) == Freedom::Free)
        .filter_map(|tensor| {
            let saves = better.of(rank.tensors.ty[tensor.index()]?, tensor)?.saves;
            Some(Change::Smaller(tensor, saves))
        })
        .collect();
    let wasted = found.padded.saturating_sub(found.logical);
    let statement = Statement::new(format!(
        "Padding adds {} to the tensors live at the {} peak: {} of {} on the device.",
        percent(wasted, found.logical),
        pool.label.name,
        size(wasted),
        size(found.padded),
    ))
    .detail(
        "Tiles are 32x32: shapes whose last two dimensions are multiples of 32 need no padding.".to_owned(),
    );
    let effect = Effect::lowers("Reshaping to fewer tiles (same elements) lowers", changes);
    let padded = found.worst.into_iter().map(|(tensor, _)| tensor).collect();
    vec![pool.finding(NAME, statement).tensors(padded).effect(effect)]
}

/// A shape with the same elements that needs less padding.
#[derive(Clone, Debug)]
pub(super) struct BetterShape {
    pub shape: Vec<u64>,
    /// The bytes saved per bank.
    pub saves: u64,
    /// Whether the original type has too much padding.
    pub is_much: bool,
}

/// The better shapes of types, computed once for each type.
pub(super) struct BetterShapes<'a, 'b> {
    situation: &'b Situation<'a>,
    pool: &'b PoolAtPeak<'a>,
    known: FxHashMap<TypeId, Option<BetterShape>>,
}

impl<'a, 'b> BetterShapes<'a, 'b> {
    pub(super) fn new(situation: &'b Situation<'a>, pool: &'b PoolAtPeak<'a>) -> Self {
        Self { situation, pool, known: FxHashMap::default() }
    }

    /// The better shape of a type, from the layout of a tensor that has it.
    pub(super) fn of(&mut self, ty: TypeId, tensor: TensorId) -> Option<BetterShape> {
        let (situation, pool) = (self.situation, self.pool);
        let look = || {
            let ty = situation.ty(tensor)?;
            let shape = tiles::same_elements(ty)?;
            let saves = situation.interleaved(pool, tensor)?.saved_as(ty, &shape)?;
            Some(BetterShape { shape, saves, is_much: is_much(ty.padded.get()?, ty.logical.get()?) })
        };
        self.known.entry(ty).or_insert_with(look).clone()
    }
}
