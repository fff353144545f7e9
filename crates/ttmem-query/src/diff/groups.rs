//! Similar changes as one row.
//!
//! First, changes with equal ids are collected: a program has millions of tensors, but few operations and types. The rest
//! works with texts.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    Class, Moment, OpId, PoolId, Rank, ScopeId, Step, StepNumber, StrId, TensorId, TypeId, difference,
};

use super::sentences::{detail, title};
use super::{ChangeRow, MovedFrom, TensorSide};
use crate::analyze::diff::{Both, Change, ChangeKind, Compared, Side};

/// At least this many operations in one place are an insertion; fewer are single operations.
const MIN_BLOCK: usize = 3;
/// At least this many tensors whose dimensions have changed by the same factor are one change.
const MIN_SCALED: usize = 2;

/// The changes as rows, the largest effect first.
pub(super) fn rows(sides: &Both<Side<'_>>, compared: &Compared) -> Vec<ChangeRow> {
    let mut facts =
        Facts { sides: *sides, compared, prefixes: sides.map(prefixes), part_at: FxHashMap::default() };
    let groups = equal_ids(sides, &compared.changes);
    facts.part_at = facts.parts_by_place(&groups);
    let mut merged: FxHashMap<Key, Group> = FxHashMap::default();
    let mut order: Vec<Key> = Vec::new();
    for group in groups {
        let key = facts.key(&group);
        merged
            .entry(key.clone())
            .or_insert_with(|| {
                order.push(key);
                Group::empty(&group)
            })
            .add(group);
    }
    let groups = order.into_iter().filter_map(|key| merged.remove(&key).map(|group| (key, group)));
    let groups = scaled_alone_are_single(groups.collect(), &facts);
    let mut rows: Vec<ChangeRow> = groups.iter().map(|(key, group)| facts.row(key, group)).collect();
    let size = |row: &ChangeRow| row.before_per_bank.max(row.after_per_bank);
    rows.sort_by(|a, b| {
        let effect = |row: &ChangeRow| row.effect_per_bank.unsigned_abs();
        effect(b).cmp(&effect(a)).then(size(b).cmp(&size(a))).then(a.kind.cmp(&b.kind))
    });
    rows
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
    fn empty(of: &Self) -> Self {
        Self { kind: of.kind, tensors: Vec::new(), at_peak: Both::default(), size: Both::default() }
    }

    /// The tensors that stand for the others.
    pub fn first(&self) -> Both<Option<TensorId>> {
        self.tensors.first().copied().unwrap_or_default()
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// They belong to a part of the program that the other input does not have.
    Part(ChangeKind, String, String),
    /// They are allocated by operations that were added or removed in one place.
    Block(ChangeKind, String, usize),
    /// Their dimensions have changed by the same factor.
    Scaled(String, u64, u64),
    /// They have similar names and equal types.
    Alike(ChangeKind, String, Box<Alike>),
}

/// The texts of similar tensors, without digits in names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    what: Both<Option<String>>,
    shape: Both<Option<Vec<u64>>>,
    dtype: Both<Option<String>>,
    class: Option<Class>,
    /// Tensors without any type are alike only if they have the same size.
    bytes: Both<Option<u64>>,
}

/// The names of a rank's tensors, operations and modules, with all their dotted beginnings.
fn prefixes(side: Side<'_>) -> FxHashSet<String> {
    let scopes = side.rank.scopes.name.iter().copied();
    let names: BTreeSet<StrId> = side.rank.tensors.name.iter().flatten().copied().chain(scopes).collect();
    let mut all = FxHashSet::default();
    for name in names {
        let name = side.profile.text(name);
        all.extend(name.match_indices('.').map(|(end, _)| name[..end].to_owned()));
        all.insert(name.to_owned());
    }
    all
}

pub(super) struct Facts<'a> {
    pub sides: Both<Side<'a>>,
    compared: &'a Compared,
    prefixes: Both<FxHashSet<String>>,
    /// The new part of the program at a place where operations were added or removed.
    part_at: FxHashMap<(ChangeKind, usize), String>,
}

impl Facts<'_> {
    fn parts_by_place(&self, groups: &[Group]) -> FxHashMap<(ChangeKind, usize), String> {
        let mut parts = FxHashMap::default();
        for group in groups.iter().filter(|group| group.kind.is_one_sided()) {
            let part = self.new_part(&self.shown(group.first()));
            if let Some((part, place)) = part.zip(self.block(group, 1)) {
                parts.entry((group.kind, place)).or_insert(part);
            }
        }
        parts
    }

    fn key(&self, group: &Group) -> Key {
        let (sides, pool) = (self.shown(group.first()), self.pool(group.first()));
        match group.kind {
            ChangeKind::Appeared | ChangeKind::Vanished => {
                // Operations next to those of a new layer, such as its activation function, belong to it.
                let next_to = || self.part_at.get(&(group.kind, self.block(group, 1)?)).cloned();
                let part = self.new_part(&sides).or_else(next_to);
                let part = part.map(|part| Key::Part(group.kind, pool.clone(), part));
                let block = || Some(Key::Block(group.kind, pool.clone(), self.block(group, MIN_BLOCK)?));
                part.or_else(block).unwrap_or_else(|| self.alike(group, pool, &sides))
            }
            ChangeKind::Resized => match scale(&sides) {
                Some((from, to)) => Key::Scaled(pool, from, to),
                None => self.alike(group, pool, &sides),
            },
            _ => self.alike(group, pool, &sides),
        }
    }

    fn alike(&self, group: &Group, pool: String, sides: &Both<Option<TensorSide>>) -> Key {
        let what = |side: &Option<TensorSide>| {
            let side = side.as_ref()?;
            let text =
                side.made_in.as_ref().or(side.name.as_ref()).or(side.loc.as_ref()).or(side.op.as_ref())?;
            Some(text.chars().filter(|letter| !letter.is_ascii_digit()).collect())
        };
        let alike = Alike {
            what: sides.as_ref().map(what),
            shape: sides.as_ref().map(|side| side.as_ref()?.shape.clone()),
            dtype: sides.as_ref().map(|side| side.as_ref()?.dtype.clone()),
            class: self.class(group.first()),
            bytes: sides
                .as_ref()
                .map(|side| side.as_ref().filter(|side| side.shape.is_none()).and_then(|side| side.per_bank)),
        };
        Key::Alike(group.kind, pool, Box::new(alike))
    }

    /// The shortest beginning of the tensor's name or module that the other input does not have, if it is more than the
    /// name itself.
    fn new_part(&self, sides: &Both<Option<TensorSide>>) -> Option<String> {
        let (side, others) = match sides {
            Both { after: Some(side), .. } => (side, &self.prefixes.before),
            Both { before: Some(side), .. } => (side, &self.prefixes.after),
            Both { before: None, after: None } => return None,
        };
        let name = side.made_in.as_ref().or(side.name.as_ref())?;
        let ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
        let part = ends.map(|end| &name[..end]).find(|part| !others.contains(*part))?;
        (part.len() < name.len() || side.made_in.is_some()).then(|| part.to_owned())
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
    fn pool(&self, tensors: Both<Option<TensorId>>) -> String {
        let name = |side: Side<'_>, tensor: Option<TensorId>| {
            let pool = side.rank.tensors.pool.get(tensor?.index())?;
            side.rank.pools.get(pool.index()).map(|pool| side.profile.text(pool.name).to_owned())
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
    pub fn shown(&self, tensors: Both<Option<TensorId>>) -> Both<Option<TensorSide>> {
        Both {
            before: tensors.before.and_then(|tensor| tensor_side(self.sides.before, tensor)),
            after: tensors.after.and_then(|tensor| tensor_side(self.sides.after, tensor)),
        }
    }

    fn row(&self, key: &Key, group: &Group) -> ChangeRow {
        let sides = self.shown(group.first());
        let effect = difference(group.at_peak.after, group.at_peak.before);
        let is_moved = group.kind == ChangeKind::Pool;
        let moved_from = is_moved.then(|| MovedFrom {
            pool: self.pool(Both { after: None, ..group.first() }),
            effect_per_bank: difference(0, group.at_peak.before),
        });
        let mut row = ChangeRow {
            kind: group.kind,
            tensors: group.tensors.len(),
            title: title(self, key, group),
            detail: String::new(),
            pool: self.pool(group.first()),
            moved_from,
            class: self.class(group.first()).unwrap_or(Class::Unknown),
            effect_per_bank: if is_moved { difference(group.at_peak.after, 0) } else { effect },
            before_per_bank: group.size.before,
            after_per_bank: group.size.after,
            before: sides.before,
            after: sides.after,
        };
        row.detail = detail(key, &row);
        row
    }
}

/// The factor that all changed dimensions have in common, as the first changed dimension of both sides in lowest terms.
fn scale(sides: &Both<Option<TensorSide>>) -> Option<(u64, u64)> {
    let shapes = (sides.before.as_ref()?.shape.as_ref()?, sides.after.as_ref()?.shape.as_ref()?);
    if shapes.0.len() != shapes.1.len() {
        return None;
    }
    let mut changed = shapes.0.iter().zip(shapes.1).filter(|(a, b)| a != b).map(|(a, b)| reduced(*a, *b));
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

/// A single tensor with another shape is a row with a name, not a factor.
fn scaled_alone_are_single(groups: Vec<(Key, Group)>, facts: &Facts<'_>) -> Vec<(Key, Group)> {
    let single = |(key, group): (Key, Group)| match &key {
        Key::Scaled(pool, ..) if group.tensors.len() < MIN_SCALED => {
            let sides = facts.shown(group.first());
            (facts.alike(&group, pool.clone(), &sides), group)
        }
        _ => (key, group),
    };
    groups.into_iter().map(single).collect()
}

fn born_step(rank: &Rank, tensor: TensorId) -> Option<Step> {
    rank.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)
}

fn tensor_side(side: Side<'_>, id: TensorId) -> Option<TensorSide> {
    let tensor = side.rank.tensors.get(id.index())?;
    let text = |id: StrId| side.profile.text(id).to_owned();
    let ty = tensor.ty.and_then(|ty| side.profile.tensor_type(ty));
    let made = side.profile.made(side.rank, id);
    let scope = side.rank.made_in(id).and_then(|scope| side.rank.scopes.name.get(scope.index()));
    let layout = ty.and_then(|ty| ty.layout.as_ref());
    Some(TensorSide {
        name: tensor.name.or(tensor.ssa).map(text),
        op: made.op.map(str::to_owned),
        loc: made.loc.map(str::to_owned),
        made_in: scope.map(|scope| text(*scope)),
        shape: ty.map(|ty| ty.shape.clone()),
        dtype: ty.map(|ty| text(layout.map_or(ty.dtype, |layout| layout.stored_dtype))),
        layout: layout.map(|layout| {
            let spread = layout.spread.map_or_else(String::new, |spread| format!(", {}", text(spread)));
            format!("{}{spread}", text(layout.buffer))
        }),
        per_bank: tensor.per_bank.get(),
        born_step: tensor.step.map(StepNumber::get),
        freed_before_step: (tensor.dies != Moment::NEVER).then(|| tensor.dies.position()),
    })
}
