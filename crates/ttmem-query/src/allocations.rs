//! Allocations of a pool, grouped by what they have in common: by source line, call stack, class, size or module.
//!
//! The groups show what is live at a moment, and what the program has allocated over time. A [`Filter`] restricts both. A
//! summary has one grouping; the page has all of them.

use std::cmp::Reverse;
use std::str::FromStr;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;
use ttmem_model::{Moment, OpId, PoolId, Position, Profile, Rank, StackId, TensorId};

use crate::analyze::modules::{ModuleIndex, Modules};
use crate::analyze::reserved::{ReservedPool, reserved_pools};
use crate::analyze::{Account, Span, peak};
use crate::filter::Filter;
use crate::summary::RANKED;
use crate::threads::{MANY_STEPS, both};

/// What allocations are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// The source line of the user's program.
    #[default]
    Line,
    /// The call stack.
    Stack,
    /// The operation: the innermost function.
    Op,
    /// The module or named range; `forward` calls in call stacks if the input has no names of modules.
    Module,
    /// The class.
    Class,
    /// The size.
    Size,
}

impl GroupBy {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Line, Self::Stack, Self::Op, Self::Module, Self::Class, Self::Size];

    /// The name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Stack => "stack",
            Self::Op => "op",
            Self::Module => "module",
            Self::Class => "class",
            Self::Size => "size",
        }
    }
}

impl FromStr for GroupBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        let found = Self::ALL.into_iter().find(|by| by.as_str() == text);
        found.ok_or_else(|| format!("unknown grouping {text:?}; expected one of {}", names()))
    }
}

/// What modules are known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ModuleSource {
    /// The names that the program recorded.
    Names,
    /// The `forward` calls in call stacks.
    Stacks,
}

/// The allocations of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Allocations {
    /// The pool.
    pub pool: String,
    /// The position that live allocations are listed for: the peak, unless another one is requested.
    pub position: Position,
    /// The filter, as it was written.
    pub filter: Option<String>,
    /// What allocations are grouped by.
    pub by: GroupBy,
    /// What modules are known by; omitted if allocations are not grouped by module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_source: Option<ModuleSource>,
    /// The number of live allocations that pass the filter, and their bytes.
    pub live: Sum,
    /// All allocations that pass the filter, over the whole input.
    pub total: Sum,
    /// The groups with the most live bytes, largest first.
    pub groups: Vec<AllocationGroup>,
    /// The groups that allocated the most bytes over time, largest first.
    pub busiest: Vec<AllocationGroup>,
    /// The largest allocation that was freed again.
    pub largest_transient: Option<Transient>,
    /// The bytes lost to fragmentation when it was worst.
    pub waste: Option<Waste>,
    /// The reserved memory at the end, by private pool, stream and block size.
    pub reserved: Vec<ReservedPool>,
}

/// The allocations of a pool by one of their properties.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Grouping {
    /// What allocations are grouped by.
    pub by: GroupBy,
    /// What modules are known by; omitted if allocations are not grouped by module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_source: Option<ModuleSource>,
    /// The groups with the most live bytes, largest first.
    pub groups: Vec<AllocationGroup>,
    /// The groups that allocated the most bytes over time, largest first.
    pub busiest: Vec<AllocationGroup>,
}

/// A number of allocations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Sum {
    /// The number of allocations.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Allocations that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AllocationGroup {
    /// What they have in common: a line, an operation, a class, a size; null if it is unknown.
    pub key: Option<String>,
    /// The operation, if all have the same one.
    pub op: Option<String>,
    /// The call stack, innermost line first, if they are grouped by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// Those that are live at the position.
    pub live: Sum,
    /// Those that are live at the end of the input.
    pub at_end: Sum,
    /// All of them.
    pub total: Sum,
}

/// An allocation that was freed again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Transient {
    /// The bytes.
    pub bytes: u64,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The source line.
    pub line: Option<String>,
    /// The step that allocated it.
    pub step: Option<u32>,
    /// The step that freed it.
    pub freed_by: u32,
}

impl Transient {
    /// `allocated by step 12 and freed by step 15`. The allocating step is omitted if the history begins after it.
    pub fn lifetime(&self) -> String {
        let allocated = self.step.map_or_else(String::new, |step| format!("allocated by step {step} and "));
        format!("{allocated}freed by step {}", self.freed_by)
    }
}

/// Bytes lost to fragmentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Waste {
    /// The most bytes that blocks were larger than requested.
    pub internal: u64,
    /// The position of that moment.
    pub internal_position: Position,
    /// The most bytes that were reserved but not active.
    pub external: u64,
    /// The position of that moment.
    pub external_position: Position,
    /// The same in equal parts of the run, in order.
    pub over_time: Vec<WasteInPart>,
}

/// The most bytes lost to fragmentation in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WasteInPart {
    /// The last position of the part.
    pub last: Position,
    /// The most bytes that blocks were larger than requested.
    pub internal: u64,
    /// The most bytes that were reserved but not active.
    pub external: u64,
}

/// The parameters of [`allocations`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationsRequest<'a> {
    pub filter: Option<&'a Filter>,
    pub by: GroupBy,
    /// The moment whose live allocations are listed.
    pub at: Moment,
    pub top: usize,
}

/// The key of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Line(Option<ttmem_model::StrId>),
    Stack(Option<StackId>),
    Op(Option<ttmem_model::StrId>),
    Module(Option<ModuleIndex>),
    Class(&'static str),
    Size(u64),
}

#[derive(Clone, Copy, Default)]
struct Group {
    first: Option<OpId>,
    has_several_ops: bool,
    live: Sum,
    at_end: Sum,
    total: Sum,
}

/// The allocations of a pool; `None` if the input does not record individual allocations.
pub(crate) fn allocations(
    profile: &Profile,
    account: &Account<'_>,
    request: AllocationsRequest<'_>,
) -> Option<Allocations> {
    let rank = account.rank;
    if rank.tensors.is_empty() {
        return None;
    }
    let is_large = rank.steps.len() > MANY_STEPS;
    let waste = || crate::analyze::reserved::waste(account.pool, rank.end());
    let keys = Keys::new(profile, rank, request.by);
    let (waste, Grouped { all, live, total, transient }) =
        both(is_large, waste, || grouped(&keys, account, &request));
    let Grouping { groups, busiest, module_source, .. } = keys.ranked(all, request.top);
    Some(Allocations {
        pool: profile.text(account.pool.name).to_owned(),
        position: request.at.position(),
        filter: request.filter.map(ToString::to_string),
        by: request.by,
        module_source,
        live,
        total,
        groups,
        busiest,
        largest_transient: transient.map(|(bytes, tensor)| described_transient(profile, rank, bytes, tensor)),
        waste,
        reserved: reserved_pools(rank, account.id),
    })
}

/// The allocations in the summary of a whole rank, by each of their properties. Properties that no allocation has are
/// omitted: lines, for example, need call stacks.
pub fn groupings(profile: &Profile, rank: &Rank, found: &Allocations) -> Vec<Grouping> {
    let known = Grouping {
        by: found.by,
        module_source: found.module_source,
        groups: found.groups.clone(),
        busiest: found.busiest.clone(),
    };
    let is_pool =
        |id: &PoolId| rank.pools.get(id.index()).is_some_and(|pool| profile.text(pool.name) == found.pool);
    let pool = (0..rank.pools.len()).filter_map(PoolId::new).find(is_pool);
    let Some(account) = pool.and_then(|id| Account::new(rank, id)).filter(|_| found.filter.is_none()) else {
        return vec![known];
    };
    // The two sides of a position differ, and a summary only has the position.
    let peak = peak::peak(&account, Span::recorded(rank)).map(|peak| peak.at);
    let at = peak.filter(|at| at.position() == found.position).unwrap_or(Moment::late(found.position));
    let grouping = |by: GroupBy| {
        if by == found.by {
            return known.clone();
        }
        let request = AllocationsRequest { filter: None, by, at, top: RANKED };
        let keys = Keys::new(profile, rank, by);
        keys.ranked(grouped(&keys, &account, &request).all, RANKED)
    };
    let has_keys = |grouping: &Grouping| {
        grouping.groups.iter().chain(&grouping.busiest).any(|group| group.key.is_some())
    };
    GroupBy::ALL.into_par_iter().map(grouping).filter(has_keys).collect()
}

/// The groups of a pool's allocations, and their sums.
#[derive(Default)]
struct Grouped {
    all: Vec<(Key, Group)>,
    live: Sum,
    total: Sum,
    /// The largest of those that were freed.
    transient: Option<(u64, TensorId)>,
}

fn grouped(keys: &Keys<'_>, account: &Account<'_>, request: &AllocationsRequest<'_>) -> Grouped {
    let (rank, at) = (account.rank, request.at);
    let matcher = request.filter.map(|filter| filter.matcher(keys.profile, rank));
    let end = Moment::NEVER.earlier();
    let mut found = Grouped::default();
    let mut places = GroupPlaces::new(keys.profile, request.by);
    let tensors = &rank.tensors;
    for index in 0..tensors.len() {
        let Some(tensor) = TensorId::new(index).filter(|_| tensors.pool[index] == account.id) else {
            continue;
        };
        if matcher.as_ref().is_some_and(|matcher| !matcher.matches(tensor)) {
            continue;
        }
        let bytes = tensors.per_bank[index].or_zero();
        let (born, dies) = (tensors.born[index], tensors.dies[index]);
        let op = rank.made_by(tensor);
        let place = places.of(&mut found.all, op, || keys.of(tensor, op));
        let Some((_, group)) = found.all.get_mut(place) else { continue };
        group.has_several_ops |= group.total.count > 0 && group.first != op;
        group.first = op;
        found.total.add(bytes);
        group.total.add(bytes);
        if born <= at && at < dies {
            found.live.add(bytes);
            group.live.add(bytes);
        }
        if dies > end {
            group.at_end.add(bytes);
        } else if found.transient.is_none_or(|(most, _)| bytes > most) {
            found.transient = Some((bytes, tensor));
        }
    }
    found
}

/// The places of groups.
struct GroupPlaces {
    by_key: FxHashMap<Key, usize>,
    /// Those of operations, if they determine the group.
    by_op: Vec<Option<usize>>,
}

impl GroupPlaces {
    fn new(profile: &Profile, by: GroupBy) -> Self {
        let is_of_op = matches!(by, GroupBy::Line | GroupBy::Stack | GroupBy::Op);
        let ops = if is_of_op { profile.ops.len() } else { 0 };
        Self { by_key: FxHashMap::default(), by_op: vec![None; ops] }
    }

    /// The place of the group of a tensor, which becomes the last one if it is new.
    fn of(&mut self, all: &mut Vec<(Key, Group)>, op: Option<OpId>, key: impl FnOnce() -> Key) -> usize {
        let known = op.and_then(|op| self.by_op.get_mut(op.index()));
        if let Some(&mut Some(place)) = known {
            return place;
        }
        let key = key();
        let place = *self.by_key.entry(key).or_insert_with(|| {
            all.push((key, Group::default()));
            all.len() - 1
        });
        if let Some(known) = known {
            *known = Some(place);
        }
        place
    }
}

/// What the allocations of a rank are grouped by.
struct Keys<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    by: GroupBy,
    /// The modules, if allocations are grouped by them.
    modules: Option<Modules<'a>>,
}

impl<'a> Keys<'a> {
    fn new(profile: &'a Profile, rank: &'a Rank, by: GroupBy) -> Self {
        let modules = (by == GroupBy::Module).then(|| Modules::new(profile, rank));
        Self { profile, rank, by, modules }
    }

    fn of(&self, tensor: TensorId, op: Option<OpId>) -> Key {
        let Self { profile, rank, .. } = self;
        match self.by {
            GroupBy::Line => Key::Line(op.and_then(|op| profile.ops.loc(op))),
            GroupBy::Stack => Key::Stack(op.and_then(|op| profile.stacks.of_op(op))),
            GroupBy::Op => Key::Op(op.and_then(|op| profile.ops.name(op))),
            GroupBy::Module => Key::Module(self.modules.as_ref().and_then(|modules| modules.of(tensor, op))),
            GroupBy::Class => Key::Class(rank.tensors.class[tensor.index()].as_str()),
            GroupBy::Size => Key::Size(rank.tensors.per_bank[tensor.index()].or_zero()),
        }
    }

    fn module_source(&self) -> Option<ModuleSource> {
        let modules = self.modules.as_ref()?;
        Some(if modules.are_derived() { ModuleSource::Stacks } else { ModuleSource::Names })
    }

    /// The largest groups.
    fn ranked(&self, mut all: Vec<(Key, Group)>, top: usize) -> Grouping {
        let row = |(key, group): &(Key, Group)| self.described(*key, group);
        all.sort_unstable_by_key(|(key, group)| {
            (Reverse(group.live.bytes), Reverse(group.total.bytes), *key)
        });
        let groups = all.iter().filter(|(_, group)| group.live.count > 0).take(top).map(row).collect();
        all.sort_unstable_by_key(|(key, group)| (Reverse(group.total.bytes), *key));
        let busiest = all.iter().take(top).map(row).collect();
        Grouping { by: self.by, module_source: self.module_source(), groups, busiest }
    }

    fn described(&self, key: Key, group: &Group) -> AllocationGroup {
        let profile = self.profile;
        let text = |id: Option<ttmem_model::StrId>| id.map(|id| profile.text(id).to_owned());
        let op = group.first.filter(|_| !group.has_several_ops).and_then(|op| profile.ops.name(op));
        let mut stack = Vec::new();
        let key = match key {
            Key::Line(line) => text(line),
            Key::Op(op) => text(op),
            Key::Module(module) => module.zip(self.modules.as_ref()).and_then(|(id, all)| all.name(id)),
            Key::Class(class) => Some(class.to_owned()),
            Key::Size(bytes) => Some(ttmem_model::words::size(bytes)),
            Key::Stack(id) => {
                let lines = id.into_iter().flat_map(|id| profile.stacks.lines(id));
                stack.extend(lines.map(|frame| {
                    format!("{} at {}:{}", profile.text(frame.function), profile.text(frame.file), frame.line)
                }));
                group.first.and_then(|op| text(profile.ops.loc(op)))
            }
        };
        let Group { live, at_end, total, .. } = *group;
        AllocationGroup { key, op: text(op), stack, live, at_end, total }
    }
}

fn described_transient(profile: &Profile, rank: &Rank, bytes: u64, tensor: TensorId) -> Transient {
    let op = rank.made_by(tensor);
    let text = |id: Option<ttmem_model::StrId>| id.map(|id| profile.text(id).to_owned());
    Transient {
        bytes,
        op: text(op.and_then(|op| profile.ops.name(op))),
        line: text(op.and_then(|op| profile.ops.loc(op))),
        step: rank.tensors.step[tensor.index()].map(ttmem_model::StepNumber::get),
        freed_by: rank.tensors.dies[tensor.index()].position().saturating_sub(1),
    }
}
