//! Padding that another shape would not need.

use rustc_hash::FxHashMap;

use super::{Finding, PoolAtPeak, Situation, WORTH_SAYING, What};
use crate::analyze::{padding, tiles};
use crate::model::{TensorId, TypeId};

/// More padding than this share of the elements, in percent, is much.
const MUCH: u64 = 50;
/// Of so many shapes is said what they could be.
const SHAPES: usize = 3;

/// Tensors of one type that could have a better shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedShape {
    /// Their type.
    pub ty: TypeId,
    /// The largest of them that is alive at the peak, or the first of several.
    pub example: TensorId,
    /// How many are alive at the peak.
    pub count: usize,
    /// A shape of the same elements that needs less padding, or none.
    pub friendly: Vec<u64>,
}

fn is_much(padded: u64, logical: u64) -> bool {
    u128::from(padded.saturating_sub(logical)) * 100 > u128::from(logical) * u128::from(MUCH)
}

/// The padding of all that is alive at the peak, where it is much.
pub fn in_all(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let (profile, rank) = (situation.profile, situation.rank);
    let Some(found) = padding::padding(profile, rank, pool.account.id, pool.peak.at, 0) else {
        return Vec::new();
    };
    if !is_much(found.padded, found.logical) {
        return Vec::new();
    }
    let mut better = Better::new(situation, &pool);
    let savings: Vec<(TensorId, u64)> = situation
        .ever_in(&pool)
        .filter_map(|tensor| Some((tensor, better.of(rank.tensors.ty[tensor.index()]?, tensor)?.saves)))
        .collect();
    let what = What::Padding { padded: found.padded, logical: found.logical };
    vec![Finding { saves: situation.fall_of(&pool, savings.into_iter()), ..pool.finding(what) }]
}

/// The shapes alive at the peak with the most padding that could be saved.
pub fn of_shapes(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let mut better = Better::new(situation, &pool);
    let mut shapes: FxHashMap<TypeId, (TensorId, usize)> = FxHashMap::default();
    for tensor in pool.alive(situation.rank) {
        if let Some(ty) = situation.rank.tensors.ty[tensor.index()] {
            shapes.entry(ty).or_insert((tensor, 0)).1 += 1;
        }
    }
    let mut shapes: Vec<(TypeId, (TensorId, usize))> = shapes.into_iter().collect();
    shapes.sort_unstable_by_key(|(_, (example, _))| *example);
    let mut found: Vec<Finding> = shapes
        .into_iter()
        .filter_map(|(ty, (example, count))| {
            let friendly = better.of(ty, example).filter(|better| better.is_much)?;
            let at_peak = friendly.saves.saturating_mul(count as u64);
            if !pool.is_share(at_peak, WORTH_SAYING) {
                return None;
            }
            let of_type = situation
                .ever_in(&pool)
                .filter(|tensor| situation.rank.tensors.ty[tensor.index()] == Some(ty));
            let saves = situation.fall_of(&pool, of_type.map(|tensor| (tensor, friendly.saves)))?;
            let what =
                What::PaddedShape(PaddedShape { ty, example, count, friendly: friendly.shape.clone() });
            Some(Finding { step: situation.made_by(example), saves: Some(saves), ..pool.finding(what) })
        })
        .collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.saves));
    found.truncate(SHAPES);
    found
}

/// A better shape for a type.
#[derive(Clone, Debug)]
struct Friendly {
    shape: Vec<u64>,
    /// What it saves of each bank.
    saves: u64,
    /// Whether the type is padded much.
    is_much: bool,
}

/// Better shapes, looked for once for each type.
struct Better<'a, 'b> {
    situation: &'b Situation<'a>,
    pool: &'b PoolAtPeak<'a>,
    known: FxHashMap<TypeId, Option<Friendly>>,
}

impl<'a, 'b> Better<'a, 'b> {
    fn new(situation: &'b Situation<'a>, pool: &'b PoolAtPeak<'a>) -> Self {
        Self { situation, pool, known: FxHashMap::default() }
    }

    /// Of a type, as a tensor of it lies.
    fn of(&mut self, ty: TypeId, tensor: TensorId) -> Option<Friendly> {
        let (situation, pool) = (self.situation, self.pool);
        let look = || {
            let ty = situation.ty(tensor)?;
            let shape = tiles::same_elements(ty)?;
            let saves = situation.interleaved(pool, tensor)?.saved_as(ty, &shape)?;
            Some(Friendly { shape, saves, is_much: is_much(ty.padded.get()?, ty.logical.get()?) })
        };
        self.known.entry(ty).or_insert_with(look).clone()
    }
}
