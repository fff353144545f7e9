//! Padding that another shape would not need.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Finding, PoolAtPeak, Situation, WORTH_SAYING, What};
use crate::analyze::reshaping::{Freedom, Reshaping};
use crate::analyze::{padding, tiles};
use ttmem_model::{Bytes, Profile, StrId, TensorId, TensorType, TypeId};

/// More padding than this share of the elements, in percent, is much.
const MUCH: u64 = 50;
/// Of so many shapes is said what they could be.
const SHAPES: usize = 3;

/// Tensors of one shape and element that could have a better shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedShape {
    /// Their type, or one that looks the same.
    pub ty: TypeId,
    /// The first of them that is alive at the peak.
    pub example: TensorId,
    /// How many are alive at the peak.
    pub count: usize,
    /// What they could be instead.
    pub instead: Instead,
}

/// What a tensor with much padding could be instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// A shape of the same elements that needs less padding. No operation that uses the tensor cares about the difference.
    Shape(Vec<u64>),
    /// There is such a shape, but these operations would have to change, too.
    Changing(Vec<StrId>),
    /// There is such a shape, but the program returns the tensor.
    Returned,
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
    let reshaping = Reshaping::new(profile, rank);
    let mut better = Better::new(situation, &pool);
    let savings: Vec<(TensorId, u64)> = situation
        .ever_in(&pool)
        .filter(|tensor| reshaping.freedom(*tensor) == Freedom::Free)
        .filter_map(|tensor| Some((tensor, better.of(rank.tensors.ty[tensor.index()]?, tensor)?.saves)))
        .collect();
    let what = What::Padding { padded: found.padded, logical: found.logical };
    vec![Finding { saves: situation.fall_of(&pool, savings.into_iter()), ..pool.finding(what) }]
}

/// The shapes alive at the peak with the most padding that could be saved.
///
/// A shape is proposed only for tensors that may have it. For others the finding names what stands in the way, without a saving: what
/// the changed operations would need is unknown.
pub fn of_shapes(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let mut better = Better::new(situation, &pool);
    let mut much: Vec<(TypeId, Vec<TensorId>, Friendly)> = alive_by_shape(situation, &pool)
        .into_iter()
        .filter_map(|(ty, alive)| {
            let friendly = better.of(ty, *alive.first()?).filter(|better| better.is_much)?;
            let at_peak = friendly.saves.saturating_mul(alive.len() as u64);
            pool.is_share(at_peak, WORTH_SAYING).then_some((ty, alive, friendly))
        })
        .collect();
    if much.is_empty() {
        return Vec::new();
    }
    much.sort_by_key(|(_, alive, friendly)| {
        std::cmp::Reverse(friendly.saves.saturating_mul(alive.len() as u64))
    });
    let reshaping = Reshaping::new(situation.profile, situation.rank);
    let mut found: Vec<Finding> = much
        .iter()
        .flat_map(|(ty, alive, friendly)| {
            let proposed = proposed(situation, &pool, &reshaping, (*ty, alive), friendly);
            proposed.into_iter().chain(hindered(situation, &pool, &reshaping, (*ty, alive)))
        })
        .collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.saves));
    found.truncate(SHAPES);
    found
}

/// A better shape for those of some tensors that may have it.
fn proposed(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    reshaping: &Reshaping<'_>,
    (ty, alive): (TypeId, &[TensorId]),
    friendly: &Friendly,
) -> Option<Finding> {
    let is_free = |tensor: &TensorId| reshaping.freedom(*tensor) == Freedom::Free;
    let free: Vec<TensorId> = alive.iter().copied().filter(is_free).collect();
    let example = *free.first()?;
    let types = alike(situation.profile, ty);
    let is_alike =
        |tensor: &TensorId| situation.rank.tensors.ty[tensor.index()].is_some_and(|ty| types.contains(&ty));
    let of_shape = situation.ever_in(pool).filter(is_alike).filter(is_free);
    let saves = situation.fall_of(pool, of_shape.map(|tensor| (tensor, friendly.saves)))?;
    let instead = Instead::Shape(friendly.shape.clone());
    let what = What::PaddedShape(PaddedShape { ty, example, count: free.len(), instead });
    Some(Finding { step: situation.made_by(example), saves: Some(saves), ..pool.finding(what) })
}

/// What stands in the way of a better shape for those of some tensors that may not have it.
fn hindered(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    reshaping: &Reshaping<'_>,
    (ty, alive): (TypeId, &[TensorId]),
) -> Option<Finding> {
    let (mut example, mut count, mut changing, mut is_returned) = (None, 0, Vec::new(), false);
    for tensor in alive {
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
        example = example.or(Some(*tensor));
        count += 1;
    }
    let example = example?;
    let instead =
        if changing.is_empty() && is_returned { Instead::Returned } else { Instead::Changing(changing) };
    let what = What::PaddedShape(PaddedShape { ty, example, count, instead });
    Some(Finding { step: situation.made_by(example), ..pool.finding(what) })
}

/// What makes tensors the same to people: types may differ in their texts alone.
fn looks(ty: &TensorType) -> (&[u64], StrId, Bytes) {
    (&ty.shape, ty.dtype, ty.padded)
}

/// The types that look as one does.
fn alike(profile: &Profile, ty: TypeId) -> FxHashSet<TypeId> {
    let wanted = profile.tensor_type(ty).map(looks);
    let types = (0..profile.types.len()).filter_map(TypeId::new);
    types.filter(|ty| profile.tensor_type(*ty).map(looks) == wanted).collect()
}

/// What is alive at the peak, by shape: a type of that shape, and the tensors.
fn alive_by_shape(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<(TypeId, Vec<TensorId>)> {
    let mut places: FxHashMap<(&[u64], StrId, u64), usize> = FxHashMap::default();
    let mut shapes: Vec<(TypeId, Vec<TensorId>)> = Vec::new();
    for tensor in pool.alive(situation.rank) {
        let Some(id) = situation.rank.tensors.ty[tensor.index()] else { continue };
        let Some((shape, dtype, padded)) = situation.ty(tensor).map(looks) else { continue };
        let place = *places.entry((shape, dtype, padded.or_zero())).or_insert(shapes.len());
        match shapes.get_mut(place) {
            Some((_, alive)) => alive.push(tensor),
            None => shapes.push((id, vec![tensor])),
        }
    }
    shapes
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
