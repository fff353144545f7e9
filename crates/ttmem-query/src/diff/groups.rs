//! Similar changes as one row.
//!
//! First, changes with equal ids are collected: a program has millions of tensors, but few operations and types. The rest
//! works with texts.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use ttmem_model::{
    Class, OpId, PoolId, Rank, ScopeId, Step, StepNumber, StrId, TensorId, TypeId, difference,
};

use super::overlaps::overlaps;
use super::sentences::{called_alike, detail, title};
use super::side::Shown;
use super::{ChangeRow, MovedFrom};
use crate::analyze::diff::{Both, Change, ChangeKind, Compared, Overlap, Side};

/// At least this many operations in one place are an insertion; fewer are single operations.
const MIN_BLOCK: usize = 3;
/// At least this many tensors whose dimensions have changed by the same factor are one change.
const MIN_SCALED: usize = 2;

/// The changes of a rank, similar ones together, the largest effect on a peak first.
pub(super) struct Changes<'a> {
    facts: Facts<'a>,
    groups: Vec<(Key<'a>, Group)>,
}

impl<'a> Changes<'a> {
    pub fn of(sides: &Both<Side<'a>>, compared: &'a Compared) -> Self {
        let mut facts =
            Facts { sides: *sides, compared, prefixes: sides.map(prefixes), part_at: FxHashMap::default() };
        let equal = equal_ids(sides, &compared.changes);
        facts.part_at = facts.parts_by_place(&equal);
        let mut groups = facts.merged(equal);
        let size = |group: &Group| group.size.before.max(group.size.after);
        groups.sort_by(|(_, a), (_, b)| {
            let effect = |group: &Group| group.effect().unsigned_abs();
            effect(b).cmp(&effect(a)).then(size(b).cmp(&size(a))).then(a.kind.cmp(&b.kind))
        });
        Self { facts, groups }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// The first rows.
    pub fn rows(&self, max: usize) -> Vec<ChangeRow> {
        self.groups.iter().take(max).map(|(key, group)| self.facts.row(key, group)).collect()
    }

    /// The tensors of each row.
    pub fn tensors(&self) -> impl Iterator<Item = &[Both<Option<TensorId>>]> {
        self.groups.iter().map(|(_, group)| group.tensors.as_slice())
    }

    /// The first row with an effect on a pool in one direction.
    pub fn first_on(&self, pool: &str, sign: i64) -> Option<ChangeRow> {
        let is_it = |(_, group): &&(Key<'_>, Group)| {
            group.effect().signum() == sign && self.facts.pool(group.first()) == pool
        };
        self.groups.iter().find(is_it).map(|(key, group)| self.facts.row(key, group))
    }

    /// The sum of all effects on the compared peak of a pool.
    pub fn effect_on(&self, pool: &str) -> i64 {
        let effect = |(_, group): &(Key<'_>, Group)| {
            let here = if self.facts.pool(group.first()) == pool { group.effect() } else { 0 };
            let left = self.facts.moved_from(group).filter(|from| from.pool == pool);
            here.saturating_add(left.map_or(0, |from| from.effect_per_bank))
        };
        self.groups.iter().map(effect).fold(0, i64::saturating_add)
    }
}

/// Changes of the same kind.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub kind: ChangeKind,
    pub tensors: Vec<Both<Option<TensorId>>>,
    pub at_peak: Both<u64>,
    pub size: Both<u64>,
}

impl Group {
    /// The tensors that stand for the others.
    pub fn first(&self) -> Both<Option<TensorId>> {
        self.tensors.first().copied().unwrap_or_default()
    }

    /// The effect on the compared peak of the pool; that of the second input, if they differ.
    fn effect(&self) -> i64 {
        let before = if self.kind == ChangeKind::Pool { 0 } else { self.at_peak.before };
        difference(self.at_peak.after, before)
    }

    fn add(&mut self, other: Self) {
        self.tensors.extend(other.tensors);
        let add = |a: Both<u64>, b: Both<u64>| Both {
            before: a.before.saturating_add(b.before),
            after: a.after.saturating_add(b.after),
        };
        self.at_peak = add(self.at_peak, other.at_peak);
        self.size = add(self.size, other.size);
    }
}

/// The ids that tensors with equal texts share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ids {
    op: Option<OpId>,
    scope: Option<ScopeId>,
    ty: Option<TypeId>,
    name: Option<StrId>,
    pool: Option<PoolId>,
    class: Option<Class>,
    bytes: Option<u64>,
}

impl Ids {
    fn of(side: Side<'_>, tensor: Option<TensorId>) -> Option<Self> {
        let id = tensor?;
        let (tensors, index) = (&side.rank.tensors, id.index());
        Some(Self {
            op: side.rank.made_by(id),
            scope: side.rank.made_in(id),
            ty: tensors.ty.get(index).copied().flatten(),
            name: tensors.name.get(index).copied().flatten(),
            pool: tensors.pool.get(index).copied(),
            class: tensors.class.get(index).copied(),
            bytes: tensors.per_bank.get(index).and_then(|bytes| bytes.get()),
        })
    }
}

/// Changes whose tensors have equal ids, in order.
fn equal_ids(sides: &Both<Side<'_>>, changes: &[Change]) -> Vec<Group> {
    let mut known: FxHashMap<(ChangeKind, Option<Ids>, Option<Ids>), usize> = FxHashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    for change in changes {
        let before = Ids::of(sides.before, change.tensors.before);
        let after = Ids::of(sides.after, change.tensors.after);
        let size = |ids: Option<Ids>| ids.and_then(|ids| ids.bytes).unwrap_or(0);
        let group = Group {
            kind: change.kind,
            tensors: vec![change.tensors],
            at_peak: change.at_peak,
            size: Both { before: size(before), after: size(after) },
        };
        // Steps with the same ids may be in different places; only those in loops are many.
        match known.get(&(change.kind, before, after)) {
            Some(index) => groups[*index].add(group),
            None => {
                known.insert((change.kind, before, after), groups.len());
                groups.push(group);
            }
        }
    }
    groups
}

/// What the tensors of a row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'a> {
    /// They belong to a part of the program that the other input does not have.
    Part(ChangeKind, &'a str, &'a str),
    /// They are allocated by operations that were added or removed in one place.
    Block(ChangeKind, &'a str, usize),
    /// Their dimensions have changed by the same factor.
    Scaled(&'a str, u64, u64),
    /// They have similar names and equal types.
    Alike(ChangeKind, &'a str, Alike<'a>),
}

/// What similar tensors have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Alike<'a> {
    /// The hash of the name, module, location or operation, without digits.
    what: Both<Option<u64>>,
    shape: Both<Option<&'a [u64]>>,
    dtype: Both<Option<&'a str>>,
    class: Option<Class>,
    /// Tensors without any type are alike only if they have the same size.
    bytes: Both<Option<u64>>,
}

fn without_digits(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| hasher.write_u8(byte));
    hasher.finish()
}

/// The names of a rank's tensors, operations and modules, with all their dotted beginnings.
fn prefixes(side: Side<'_>) -> FxHashSet<&str> {
    let scopes = side.rank.scopes.name.iter().copied();
    let names = side.rank.tensors.name.iter().flatten().copied().chain(scopes);
    let (mut known, mut all) = (FxHashSet::<StrId>::default(), FxHashSet::default());
    for name in names.filter(|name| known.insert(*name)) {
        let name = side.profile.text(name);
        all.extend(name.match_indices('.').map(|(end, _)| &name[..end]));
        all.insert(name);
    }
    all
}

pub(super) struct Facts<'a> {
    pub sides: Both<Side<'a>>,
    compared: &'a Compared,
    prefixes: Both<FxHashSet<&'a str>>,
    /// The new part of the program at a place where operations were added or removed.
    part_at: FxHashMap<(ChangeKind, usize), &'a str>,
}

impl<'a> Facts<'a> {
    /// Similar groups as one, in the order of their first changes.
    fn merged(&self, groups: Vec<Group>) -> Vec<(Key<'a>, Group)> {
        let mut known: FxHashMap<Key<'a>, usize> = FxHashMap::default();
        let mut merged: Vec<(Key<'a>, Group)> = Vec::new();
        for group in groups {
            let key = self.key(&group);
            match known.get(&key) {
                Some(index) => merged[*index].1.add(group),
                None => {
                    known.insert(key, merged.len());
                    merged.push((key, group));
                }
            }
        }
        let single = |(key, group): (Key<'a>, Group)| match key {
            // A single tensor with another shape is a row with a name, not a factor.
            Key::Scaled(pool, ..) if group.tensors.len() < MIN_SCALED => {
                (self.alike(&group, pool, &self.shown(group.first())), group)
            }
            _ => (key, group),
        };
        merged.into_iter().map(single).collect()
    }

    fn parts_by_place(&self, groups: &[Group]) -> FxHashMap<(ChangeKind, usize), &'a str> {
        let mut parts = FxHashMap::default();
        for group in groups.iter().filter(|group| group.kind.is_one_sided()) {
            let part = self.new_part(&self.shown(group.first()));
            if let Some((part, place)) = part.zip(self.block(group, 1)) {
                parts.entry((group.kind, place)).or_insert(part);
            }
        }
        parts
    }

    fn key(&self, group: &Group) -> Key<'a> {
        let (sides, pool) = (self.shown(group.first()), self.pool(group.first()));
        match group.kind {
            ChangeKind::Appeared | ChangeKind::Vanished => {
                // Operations next to those of a new layer, such as its activation function, belong to it.
                let next_to = || self.part_at.get(&(group.kind, self.block(group, 1)?)).copied();
                let part = self.new_part(&sides).or_else(next_to);
                let part = part.map(|part| Key::Part(group.kind, pool, part));
                let block = || Some(Key::Block(group.kind, pool, self.block(group, MIN_BLOCK)?));
                part.or_else(block).unwrap_or_else(|| self.alike(group, pool, &sides))
            }
            ChangeKind::Resized => match scale(&sides) {
                Some((from, to)) => Key::Scaled(pool, from, to),
                None => self.alike(group, pool, &sides),
            },
            _ => self.alike(group, pool, &sides),
        }
    }

    fn alike(&self, group: &Group, pool: &'a str, sides: &Both<Option<Shown<'a>>>) -> Key<'a> {
        let what = |side: Option<Shown<'_>>| {
            let side = side?;
            let named = side.made_in.or(side.name);
            named.or_else(|| side.loc()).or_else(|| side.op()).map(without_digits)
        };
        let alike = Alike {
            what: sides.map(what),
            shape: sides.map(|side| side?.shape),
            dtype: sides.map(|side| side?.dtype),
            class: self.class(group.first()),
            bytes: sides.map(|side| side.filter(|side| side.shape.is_none())?.per_bank),
        };
        Key::Alike(group.kind, pool, alike)
    }

    /// The shortest beginning of the tensor's name or module that the other input does not have, if it is more than the
    /// name itself.
    fn new_part(&self, sides: &Both<Option<Shown<'a>>>) -> Option<&'a str> {
        let (side, others) = match sides {
            Both { after: Some(side), .. } => (side, &self.prefixes.before),
            Both { before: Some(side), .. } => (side, &self.prefixes.after),
            Both { before: None, after: None } => return None,
        };
        let name = side.made_in.or(side.name)?;
        let ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
        let part = ends.map(|end| &name[..end]).find(|part| !others.contains(*part))?;
        (part.len() < name.len() || side.made_in.is_some()).then_some(part)
    }

    /// The place of the operations that were added or removed together with the one that allocates the tensor.
    /// There must be at least `min` of them.
    fn block(&self, group: &Group, min: usize) -> Option<usize> {
        let alignment = &self.compared.alignment;
        let (rank, tensor, paired, unmatched) = match group.first() {
            Both { after: Some(tensor), .. } => {
                (self.sides.after.rank, tensor, &alignment.pairs.after, &alignment.unmatched.after)
            }
            Both { before, .. } => {
                (self.sides.before.rank, before?, &alignment.pairs.before, &alignment.unmatched.before)
            }
        };
        let step = born_step(rank, tensor)?;
        let place = paired.partition_point(|paired| *paired < step);
        let start = place.checked_sub(1).map_or(0, |last| paired[last]);
        let end = paired.get(place).copied().unwrap_or(Step::MAX);
        let first = unmatched.partition_point(|unmatched| *unmatched < start);
        let count = unmatched[first..].iter().take(min).take_while(|unmatched| **unmatched < end).count();
        (count >= min).then_some(place)
    }

    /// The pool of the tensors; that of the second input, if they differ.
    fn pool(&self, tensors: Both<Option<TensorId>>) -> &'a str {
        let name = |side: Side<'a>, tensor: Option<TensorId>| {
            let pool = side.rank.tensors.pool.get(tensor?.index())?;
            side.rank.pools.get(pool.index()).map(|pool| side.profile.text(pool.name))
        };
        let after = name(self.sides.after, tensors.after);
        after.or_else(|| name(self.sides.before, tensors.before)).unwrap_or_default()
    }

    fn class(&self, tensors: Both<Option<TensorId>>) -> Option<Class> {
        let class =
            |side: Side<'_>, tensor: Option<TensorId>| side.rank.tensors.class.get(tensor?.index()).copied();
        class(self.sides.after, tensors.after).or_else(|| class(self.sides.before, tensors.before))
    }

    /// The tensors as they are shown.
    pub fn shown(&self, tensors: Both<Option<TensorId>>) -> Both<Option<Shown<'a>>> {
        Both {
            before: tensors.before.and_then(|tensor| Shown::of(self.sides.before, tensor)),
            after: tensors.after.and_then(|tensor| Shown::of(self.sides.after, tensor)),
        }
    }

    fn moved_from(&self, group: &Group) -> Option<MovedFrom> {
        (group.kind == ChangeKind::Pool).then(|| MovedFrom {
            pool: self.pool(Both { after: None, ..group.first() }).to_owned(),
            effect_per_bank: difference(0, group.at_peak.before),
        })
    }

    /// What the tensors overlap in one input only.
    pub fn overlaps(&self, group: &Group) -> Both<Option<Overlap>> {
        self.compared.overlaps.of_changed(&self.sides, &self.compared.pools, &group.tensors)
    }

    fn row(&self, key: &Key<'_>, group: &Group) -> ChangeRow {
        let sides = self.shown(group.first()).map(|side| side.map(|side| side.tensor()));
        let title = title(self, key, group);
        let overlaps = overlaps(self, group, called_alike(self, key, group).as_deref());
        let mut row = ChangeRow {
            kind: group.kind,
            tensors: group.tensors.len(),
            title,
            detail: String::new(),
            pool: self.pool(group.first()).to_owned(),
            moved_from: self.moved_from(group),
            class: self.class(group.first()).unwrap_or(Class::Unknown),
            effect_per_bank: group.effect(),
            before_per_bank: group.size.before,
            after_per_bank: group.size.after,
            now_overlaps: overlaps.after,
            no_longer_overlaps: overlaps.before,
            before: sides.before,
            after: sides.after,
        };
        row.detail = detail(key, &row);
        row
    }
}

/// The factor that all changed dimensions have in common, as the first changed dimension of both sides in lowest terms.
fn scale(sides: &Both<Option<Shown<'_>>>) -> Option<(u64, u64)> {
    let (before, after) = (sides.before?.shape?, sides.after?.shape?);
    if before.len() != after.len() {
        return None;
    }
    let mut changed = before.iter().zip(after).filter(|(a, b)| a != b).map(|(a, b)| reduced(*a, *b));
    let first = changed.next()?;
    changed.all(|other| other == first).then_some(first)
}

fn reduced(a: u64, b: u64) -> (u64, u64) {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let divisor = x.max(1);
    (a / divisor, b / divisor)
}

fn born_step(rank: &Rank, tensor: TensorId) -> Option<Step> {
    rank.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)
}
