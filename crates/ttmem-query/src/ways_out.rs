//! The ways out of a memory failure in the response of `ttmem summary`.

use serde::Serialize;
use ttmem_model::words::{by_count, counted};
use ttmem_model::{Moment, Rank, Step, StepNumber, TensorId};

use super::summary::View;
use super::words::{brief_line, shape, size};
use crate::analyze::oom::Verdict;
use crate::analyze::ways_out::{Change, Way, ways_out};

/// The maximum number of ways out.
const MAX_WAYS: usize = 5;
/// The maximum number of characters of a location in a sentence.
const MAX_LOCATION: usize = 60;
/// The maximum number of groups of tensors in a sentence.
const MAX_GROUPS: usize = 3;

/// A change after which the program does not fail at this point, verified by replaying its allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WayOut {
    /// `move_to_dram`, `allocate_in_dram`, `free_earlier`, `allocate_earlier`, `allocate_first`, `bfloat8_b` or
    /// `l1_small_size`.
    pub kind: &'static str,
    /// What to do, as a sentence.
    pub text: String,
    /// The tensors that it is about, the largest first.
    pub tensors: Vec<TensorFacts>,
    /// The step before which to free or allocate.
    pub before_step: Option<Step>,
    /// The new value of the setting, in bytes.
    pub value: Option<u64>,
    /// The bytes per bank that change.
    pub bytes_per_bank: u64,
    /// The bytes per bank to spare afterwards; null if unknown.
    pub margin_per_bank: Option<u64>,
}

/// A tensor that is involved in a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TensorFacts {
    /// Its name.
    pub name: Option<String>,
    /// Its shape.
    pub shape: Option<Vec<u64>>,
    /// Its element type.
    pub dtype: Option<String>,
    /// Its size per bank.
    pub bytes_per_bank: Option<u64>,
    /// Its address in each bank.
    pub address: Option<u64>,
    /// The step that allocated it.
    pub step: Option<Step>,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The location of that operation.
    pub loc: Option<String>,
    /// The last step that used it.
    pub last_use: Option<Step>,
}

/// What replaying a program says about its failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ReplaySummary {
    /// The number of allocations with a known address.
    pub allocations: usize,
    /// The number of them that get the same address when they are replayed.
    pub reproduced: usize,
    /// Whether the failure also happens in the replay; if it does not, there are no ways out.
    pub fails: bool,
}

impl View<'_> {
    /// How well the failure is reproduced, the ways out of it, and a sentence if changes were tried and none is enough.
    pub(super) fn ways_out(
        &self,
        verdict: &Verdict<'_>,
    ) -> (Option<ReplaySummary>, Vec<WayOut>, Option<String>) {
        let Some(found) = ways_out(self.profile, self.rank, verdict.fault) else {
            return (None, Vec::new(), None);
        };
        let replay = ReplaySummary {
            allocations: found.reproduction.allocations,
            reproduced: found.reproduction.reproduced,
            fails: found.is_reproduced,
        };
        let pool =
            verdict.fault.pool.and_then(|pool| self.rank.pool_named(self.profile, self.profile.text(pool)));
        let until = verdict.fault.step.map_or(Moment::NEVER, Moment::after);
        let live = pool.map_or(0, |(pool, _)| self.rank.live(pool, until).count());
        let name = verdict.fault.pool.map_or("", |pool| self.profile.text(pool));
        let per_bank = if name.starts_with("L1") { "per core" } else { "per bank" };
        let ways = found.ways.iter().take(MAX_WAYS).map(|way| self.way_out(way, live, per_bank)).collect();
        let none = (found.ways.is_empty() && !found.not_enough.is_empty())
            .then(|| no_way_out(verdict, &found.not_enough, per_bank));
        (Some(replay), ways, none)
    }

    fn way_out(&self, way: &Way, live: usize, per_bank: &str) -> WayOut {
        let room = if way.assumes_dram { ", if DRAM has room" } else { "" };
        let spare =
            way.margin.map_or_else(String::new, |margin| format!(": leaves {} to spare", size(margin)));
        let (kind, text, tensors, before_step, value) = match &way.change {
            Change::MoveToDram(tensors) => {
                let text = format!(
                    "Move {} of {} to DRAM ({} per core){room}{spare}.",
                    tensors.len(),
                    counted(live, "L1 tensor"),
                    size(way.bytes)
                );
                ("move_to_dram", text, &tensors[..], None, None)
            }
            Change::RequestToDram => (
                "allocate_in_dram",
                format!("Allocate the tensor in DRAM{room}{spare}."),
                &[][..],
                None,
                None,
            ),
            Change::FreeBefore(step, tensors) => {
                let text = format!(
                    "Free {} ({} {per_bank}) before {}, if nothing uses {} later ({}){spare}.",
                    counted(tensors.len(), "tensor"),
                    size(way.bytes),
                    self.step_with_location(*step),
                    by_count(tensors.len(), "it", "them"),
                    self.last_uses(tensors)
                );
                ("free_earlier", text, &tensors[..], Some(*step), None)
            }
            Change::Bfloat8(tensors) => {
                let text = format!(
                    "Store {} as bfloat8_b (saves {} {per_bank}){spare}.",
                    counted(tensors.len(), "tensor"),
                    size(way.bytes)
                );
                ("bfloat8_b", text, &tensors[..], None, None)
            }
            Change::AllocateBefore(step) => {
                let text = format!("Allocate the tensor before {}{spare}.", self.step_with_location(*step));
                ("allocate_earlier", text, &[][..], Some(*step), None)
            }
            Change::AllocateFirst(step, tensors) => {
                let text = format!(
                    "Allocate {} ({} {per_bank}) before {}, so that what is freed later is in larger blocks{spare}.",
                    counted(tensors.len(), "tensor"),
                    size(way.bytes),
                    self.step_with_location(*step)
                );
                ("allocate_first", text, &tensors[..], Some(*step), None)
            }
            Change::SmallRegion { from, to } => {
                let text = format!("Open the device with l1_small_size={to} instead of {from}{spare}.");
                ("l1_small_size", text, &[][..], None, Some(*to))
            }
        };
        let tensors: Vec<TensorFacts> =
            tensors.iter().filter_map(|tensor| self.tensor_facts(*tensor)).collect();
        WayOut {
            kind,
            text: text + &named(&tensors),
            tensors,
            before_step,
            value,
            bytes_per_bank: way.bytes,
            margin_per_bank: way.margin,
        }
    }

    /// `step 9 (ttnn.softmax, model.py:31)`.
    fn step_with_location(&self, step: Step) -> String {
        let op = self.profile.op_name(self.rank, step);
        let loc = self.profile.op_loc(self.rank, step);
        let parts: Vec<String> =
            [op, loc].into_iter().flatten().map(|text| brief_line(text, MAX_LOCATION)).collect();
        if parts.is_empty() { format!("step {step}") } else { format!("step {step} ({})", parts.join(", ")) }
    }

    /// When an operation last used one of the tensors.
    fn last_uses(&self, tensors: &[TensorId]) -> String {
        match tensors.iter().filter_map(|tensor| last_use(self.rank, *tensor)).max() {
            Some(step) => format!("last used at step {step}"),
            None => format!("no recorded operation has used {}", by_count(tensors.len(), "it", "them")),
        }
    }

    pub(super) fn tensor_facts(&self, id: TensorId) -> Option<TensorFacts> {
        let (profile, rank) = (self.profile, self.rank);
        let tensor = rank.tensors.get(id.index())?;
        let ty = tensor.ty.and_then(|ty| profile.tensor_type(ty));
        let made = profile.made(rank, id);
        Some(TensorFacts {
            name: tensor.name.or(tensor.ssa).map(|name| self.text(name)),
            shape: ty.map(|ty| ty.shape.clone()),
            dtype: ty.map(|ty| self.text(ty.dtype)),
            bytes_per_bank: tensor.per_bank.get(),
            address: rank.placements.of(id).map(|placement| placement.address),
            step: tensor.step.map(StepNumber::get),
            op: made.op.map(str::to_owned),
            loc: made.loc.map(str::to_owned),
            last_use: last_use(rank, id),
        })
    }
}

fn last_use(rank: &Rank, tensor: TensorId) -> Option<Step> {
    rank.usages.of(tensor)?.last_use.map(StepNumber::get)
}

/// A sentence that names tensors: those of the same type share an entry.
fn named(tensors: &[TensorFacts]) -> String {
    let mut groups: Vec<Vec<&TensorFacts>> = Vec::new();
    for tensor in tensors {
        let is_same = |group: &&mut Vec<&TensorFacts>| {
            (&group[0].shape, &group[0].dtype) == (&tensor.shape, &tensor.dtype)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(tensor),
            None => groups.push(vec![tensor]),
        }
    }
    let mut entries: Vec<String> = groups.iter().take(MAX_GROUPS).map(|group| entry(group)).collect();
    let more: usize = groups.iter().skip(MAX_GROUPS).map(Vec::len).sum();
    if more > 0 {
        entries.push(format!("{more} more"));
    }
    match entries.as_slice() {
        [] => String::new(),
        [only] => format!(" {} {only}.", by_count(tensors.len(), "It is", "They are")),
        [rest @ .., last] => format!(" They are {} and {last}.", rest.join(", ")),
    }
}

/// `6 × 1x1x2048x2048 bf16 from model.py:28`, or `tensor 7, 1x1x32x64 bf16 from model.py:9`.
fn entry(group: &[&TensorFacts]) -> String {
    let Some((tensor, others)) = group.split_first() else { return String::new() };
    let ty = tensor.shape.as_ref().zip(tensor.dtype.as_ref());
    let ty = ty.map(|(dims, dtype)| format!("{} {dtype}", shape(dims)));
    let name = tensor.name.as_ref().filter(|_| others.is_empty());
    let name = name.map(|name| brief_line(name, MAX_LOCATION));
    let what = [name, ty].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let what = if what.is_empty() { "unnamed".to_owned() } else { what };
    let mut places: Vec<&String> =
        group.iter().filter_map(|one| one.loc.as_ref().or(one.op.as_ref())).collect();
    places.sort_unstable();
    places.dedup();
    let brief = |place: &String| brief_line(place, MAX_LOCATION);
    let from = match places.as_slice() {
        [] => String::new(),
        [only] => format!(" from {}", brief(only)),
        [first, .., last] => format!(" from {} places ({} … {})", places.len(), brief(first), brief(last)),
    };
    if others.is_empty() { format!("{what}{from}") } else { format!("{} × {what}{from}", group.len()) }
}

/// The sentence for a failure that no change avoids.
fn no_way_out(verdict: &Verdict<'_>, not_enough: &[&str], per_bank: &str) -> String {
    let missing =
        verdict.lacks().map_or_else(String::new, |bytes| format!(": {} {per_bank} is missing", size(bytes)));
    format!("No way out was found{missing}. These changes are each not enough: {}.", not_enough.join(", "))
}
