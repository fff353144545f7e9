//! The fields of a truth, one function each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use ttmem::analyze::Account;
use ttmem::model::{Moment, Step, StepMarks};
use ttmem::query::{LiveTensor, PoolMoment, PoolSummary};

use super::{Answered, Dumped, Fields, LiveTruth, PoolTruth, QUANTUM, Shown, Truth};

/// The difference of two rounded states may be off by one step of rounding, and a difference is taken for none
/// up to another: what is smaller than both the device's numbers cannot show.
const HIDDEN: u64 = 2 * QUANTUM;

/// Residue is followed through rounded states: it comes out within a few roundings.
const FEW_QUANTA: u64 = 4 * QUANTUM;

pub fn check(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    counts(fields, answered, truth, shown);
    for (name, pool) in &truth.pools {
        match answered.summary.pools.get(name) {
            Some(found) => check_pool(fields, answered, (name, pool, found), truth, shown),
            None => fields.judge(name, false, &"a pool", &"none"),
        }
    }
    registry(fields, answered, truth, shown);
    weights(fields, answered, truth, shown);
    out_of_memory(fields, answered, truth, shown);
    if shown.texts && shown.before_operations {
        dram_peak(fields, answered, truth, shown);
        views(fields, answered, truth, shown);
        gaps(fields, answered, truth, shown);
    }
    states(fields, answered, truth, shown);
}

fn counts(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let counts = answered.summary.operations;
    let (total, reported) = match (shown.texts, shown.before_all_operations, shown.before_operations) {
        (true, ..) | (false, true, _) => (truth.total_ops, truth.reported_ops),
        (false, false, true) => (truth.reported_ops, truth.reported_ops),
        (false, false, false) => (0, 0),
    };
    fields.same("operations", &total, &counts.total);
    fields.same("operations reported", &reported, &counts.reported);
    if let (Some(runs), true) = (truth.runs, shown.texts) {
        fields.same("runs", &runs, &answered.summary.runs);
    }
}

fn check_pool(
    fields: &mut Fields,
    answered: &Answered<'_>,
    (name, truth_of_pool, found): (&str, &PoolTruth, &PoolSummary),
    truth: &Truth,
    shown: Shown,
) {
    fields.same(format!("{name} banks"), &Some(truth_of_pool.banks), &found.banks);
    let capacity = truth_of_pool.capacity_per_bank;
    fields.near(format!("{name} capacity"), capacity, found.capacity_per_bank, QUANTUM);
    let peak = truth_of_pool.printed_peak();
    fields.near(format!("{name} peak"), peak, found.peak_per_bank, QUANTUM);
    if shown.has_positions() && shown.before_operations {
        peak_position(fields, (name, truth_of_pool, found), truth, shown);
    }
    end(fields, answered, (name, truth_of_pool, found), truth, shown);
}

/// Where the peak is, and the step that caused it.
fn peak_position(
    fields: &mut Fields,
    (name, pool, found): (&str, &PoolTruth, &PoolSummary),
    truth: &Truth,
    shown: Shown,
) {
    let all_seen = shown.before_all_operations && pool.printed_peak() == pool.peak_per_bank;
    let told_apart = shown.explains_all() && truth.residue.is_empty();
    if all_seen && (told_apart || truth.states.is_none()) {
        let position = pool.peak_at_seq;
        // The step before the position is said to be the cause even where arguments that arrived between two
        // programs are: the contract defines it so.
        let cause = pool.caused_by_seq.or_else(|| position.and_then(|position| position.checked_sub(1)));
        fields.same(format!("{name} peak_step"), &position, &found.peak_step);
        fields.same(format!("{name} caused_by_step"), &cause, &found.caused_by_step);
    } else if let (Some(states), Some(position)) = (truth.states.as_ref(), found.peak_step) {
        // Rounding hides which of several nearly equal positions it is: one of them it must be.
        let there = states[name].get(position as usize).copied();
        let after_run = gap_at(truth, name, position);
        let high = |bytes: u64| bytes.abs_diff(pool.printed_peak()) <= QUANTUM;
        let holds = there.is_some_and(|there| high(there) || high(there.saturating_add_signed(-after_run)));
        fields.judge(format!("{name} peak_step"), holds, &pool.peak_at_seq, &found.peak_step);
    }
}

fn gap_at(truth: &Truth, pool: &str, position: u32) -> i64 {
    let is_it = |gap: &&super::GapTruth| gap.pool == pool && gap.position == position;
    truth.gaps.iter().flatten().filter(is_it).map(|gap| gap.effect).sum()
}

/// What the pool holds after the last operation.
fn end(
    fields: &mut Fields,
    answered: &Answered<'_>,
    (name, pool, found): (&str, &PoolTruth, &PoolSummary),
    truth: &Truth,
    shown: Shown,
) {
    let crashed = truth.oom.is_some();
    let Some(last) = pool.last else { return };
    if shown.around_submits && !crashed {
        fields.near(format!("{name} final"), last, found.final_per_bank, QUANTUM);
        fields.same(format!("{name} final_source"), &Some("measured"), &found.final_source);
    } else if shown.explains_all() && truth.residue.is_empty() {
        fields.near(format!("{name} final"), last, found.final_per_bank, QUANTUM);
        fields.same(format!("{name} final_source"), &Some("rebuilt"), &found.final_source);
    } else if !shown.texts && !shown.around_submits && answered.summary.operations.total > 0 {
        fields.unknown(format!("{name} final"), found.final_per_bank.as_ref());
    }
}

fn shape_text(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

fn registry(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let Some(registry) = &truth.registry else { return };
    let registry = if shown.modules == Dumped::None { &[][..] } else { registry };
    let (profile, rank) = (answered.profile, answered.rank);
    let mut found = Vec::new();
    let mut found_bytes = Vec::new();
    for argument in rank.modules.iter().flat_map(|module| &module.arguments) {
        let Some(ty) = argument.ty.and_then(|ty| profile.tensor_type(ty)) else { continue };
        let name = argument.name.map_or("", |name| profile.text(name));
        found.push((name, argument.kind.as_str(), shape_text(&ty.shape), profile.text(ty.dtype)));
        found_bytes.push((name, ty.declared.get()));
    }
    let expected: Vec<(&str, &str, String, &str)> = registry
        .iter()
        .map(|entry| (&*entry.name, &*entry.kind, entry.shape.clone(), &*entry.dtype))
        .collect();
    all_same(fields, "registry", &expected, &found);
    let expected: Vec<(&str, Option<u64>)> =
        registry.iter().map(|entry| (&*entry.name, Some(entry.bytes))).collect();
    all_same(fields, "registry bytes", &expected, &found_bytes);
}

/// Lists that are the same; if not, the first rows that differ.
fn all_same<T: PartialEq + Debug>(fields: &mut Fields, name: &str, expected: &[T], found: &[T]) {
    match expected.iter().zip(found).find(|(expected, found)| expected != found) {
        Some((expected, found)) => fields.same(name, expected, found),
        None => fields.same(name, &expected.len(), &found.len()),
    }
}

fn weights(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let found = answered.summary.weights.as_ref();
    if shown.modules == Dumped::None {
        fields.unknown("weights", found);
        fields.unknown("inputs", answered.summary.inputs.as_ref());
        return;
    }
    if let (Some(kept), true) = (truth.kept_twice_bytes, shown.explains_all()) {
        fields.same("kept twice", &Some(kept), &found.and_then(|found| found.kept_twice_bytes));
    }
    let Some(registry) = &truth.registry else { return };
    let names: BTreeSet<&str> = registry.iter().map(|entry| entry.name.as_str()).collect();
    if names.len() < registry.len() {
        // Which of them are one and the same weight is a question of their layouts, which the truth has not.
        return;
    }
    let declared = |kinds: &[&str]| {
        let of_kind = registry.iter().filter(|entry| kinds.contains(&entry.kind.as_str()));
        of_kind.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes))
    };
    let expected = declared(&["parameter", "constant"]);
    fields.same("weights", &Some(expected.0), &found.map(|found| found.count));
    fields.same("weights bytes", &Some(expected.1), &found.map(|found| found.bytes));
    let expected = declared(&["input", "default"]);
    let found = answered.summary.inputs;
    fields.same("inputs", &Some(expected.0), &found.map(|found| found.count));
    fields.same("inputs bytes", &Some(expected.1), &found.map(|found| found.bytes));
}

fn out_of_memory(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let found = answered.summary.oom.as_ref();
    let Some(oom) = &truth.oom else {
        fields.unknown("oom", found);
        fields.same("faults", &0, &answered.summary.faults.len());
        return;
    };
    let Some(found) = found else {
        fields.judge("oom", false, oom, &None::<()>);
        return;
    };
    fields.same("faults", &1, &answered.summary.faults.len());
    fields.same("oom pool", &Some(&*oom.pool), &found.pool.as_deref());
    fields.same("oom requested", &oom.requested, &found.requested_total);
    fields.same("oom per bank", &oom.per_bank, &found.requested_per_bank);
    fields.same("oom banks", &oom.banks, &found.banks);
    fields.same("oom overlap", &oom.overlap, &found.overlap_bytes);
    if shown.error_has_statistics {
        fields.same("oom free", &oom.free, &found.free_per_bank);
        fields.same("oom largest", &oom.largest, &found.largest_free_per_bank);
        fields.same("oom evidence", &"message", &found.evidence);
    } else if let (Some(free), Some(largest), true) = (oom.free, oom.largest, shown.before_all_operations) {
        fields.near("oom free", free, found.free_per_bank, QUANTUM);
        fields.near("oom largest", largest, found.largest_free_per_bank, QUANTUM);
        fields.same("oom evidence", &"state", &found.evidence);
    }
    if shown.error_has_statistics || shown.before_all_operations {
        fields.same("oom cause", &&*oom.cause, &found.cause);
    }
    if shown.has_positions() {
        let step = oom.seq.or(truth.total_ops.checked_sub(1));
        fields.same("oom step", &step, &found.step);
    }
}

/// What is alive at the peak of DRAM, and what it adds up to.
fn dram_peak(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let (Some(expected), Some(pool)) = (&truth.live_at_dram_peak, truth.pools.get("DRAM")) else { return };
    let Some(moment) = answered.summary.peaks.get("DRAM") else { return };
    if moment.step != pool.peak_at_seq {
        // Another position, if rounding allows it: then others are alive.
        return;
    }
    let hidden = hidden_views(answered, truth);
    let is_seen = |per_bank: Option<u64>| hidden == 0 || per_bank.is_none_or(|bytes| bytes > HIDDEN);
    let expected: Vec<&LiveTruth> = expected.iter().filter(|tensor| is_seen(Some(tensor.per_bank))).collect();
    let live =
        moment.live.as_ref().map(|live| live.iter().filter(|tensor| is_seen(tensor.per_bank)).collect());
    live_set(fields, truth, &expected, live, shown);
    if !shown.explains_all() {
        return;
    }
    let residue: u64 = truth.residue.values().sum();
    let tolerance = if residue == 0 { QUANTUM } else { FEW_QUANTA } + HIDDEN * hidden as u64;
    let missed = moment.unexplained_per_bank.map(|found| found.abs_diff(residue.cast_signed()));
    fields.near("unexplained", 0, missed, tolerance);
    by_class(fields, truth, moment);
    left_behind(fields, truth, moment, hidden);
}

fn live_set(
    fields: &mut Fields,
    truth: &Truth,
    expected: &[&LiveTruth],
    live: Option<Vec<&LiveTensor>>,
    shown: Shown,
) {
    let Some(live) = live else {
        fields.judge("live set", false, &expected.len(), &None::<usize>);
        return;
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let names = |live: &&LiveTensor| {
        (text(&live.ssa), text(&live.program), shape_text(live.shape.as_deref().unwrap_or_default()))
    };
    let mut found: Vec<Names> = live.iter().map(names).collect();
    let mut wanted: Vec<Names> = expected
        .iter()
        .map(|tensor| (tensor.ssa.clone(), tensor.program.clone(), tensor.shape.clone()))
        .collect();
    found.sort_unstable();
    wanted.sort_unstable();
    let (mut missing, mut excess) = (without(&wanted, &found), without(&found, &wanted));
    if shown.explains_all() {
        facts(fields, truth, expected, &live);
    } else if shown.before_all_operations {
        // Without the dump, arguments that no operation has named yet, or ever, are not known; and where two
        // graphs are called alike, nobody knows whose an argument is.
        let is_argument = |(ssa, ..): &Names| ssa.starts_with("%arg");
        missing.retain(|name| !is_argument(name));
        excess.retain(|name| !(is_argument(name) && shown.modules == Dumped::None));
    } else {
        return;
    }
    fields.judge("live set", missing.is_empty() && excess.is_empty(), &missing, &excess);
}

/// Name, program and shape of a tensor.
type Names = (String, String, String);

/// What is in `all` more often than in `known`; both are sorted.
fn without<T: Ord + Clone>(all: &[T], known: &[T]) -> Vec<T> {
    let mut known = known.iter().peekable();
    let mut rest = Vec::new();
    for item in all {
        while known.next_if(|known| *known < item).is_some() {}
        if known.next_if(|known| *known == item).is_none() {
            rest.push(item.clone());
        }
    }
    rest
}

/// Sizes, classes and origins of the tensors, and the names of arguments.
fn facts(fields: &mut Fields, truth: &Truth, expected: &[&LiveTruth], live: &[&LiveTensor]) {
    // Of several results of one operation, from several runs, nobody knows which ones were dropped between
    // the programs: then any of their births will do.
    let birth = |step: i64| if truth.gaps.as_ref().is_none_or(Vec::is_empty) { step } else { 0 };
    let from_truth = |tensor: &&'_ LiveTruth| -> Facts {
        let op = (!tensor.is_argument()).then(|| tensor.op.clone());
        let sizes = [Some(tensor.per_bank), Some(tensor.padded), Some(tensor.logical)];
        (tensor.ssa.clone(), tensor.dtype.clone(), birth(tensor.op_seq), op, tensor.cls.clone(), sizes)
    };
    let from_answer = |tensor: &&'_ LiveTensor| -> Facts {
        let (ssa, dtype) = (tensor.ssa.clone().unwrap_or_default(), tensor.dtype.clone().unwrap_or_default());
        let born = birth(tensor.born_step.map_or(-1, i64::from));
        let sizes = [tensor.per_bank, tensor.padded_bytes, tensor.logical_bytes];
        (ssa, dtype, born, tensor.op.clone(), tensor.class.as_str().to_owned(), sizes)
    };
    same_rows(fields, "live tensors", expected.iter().map(from_truth), live.iter().map(from_answer));
    let arguments = expected.iter().filter(|tensor| tensor.is_argument()).map(|tensor| tensor.loc.clone());
    let unmade = live.iter().filter(|tensor| tensor.op.is_none());
    same_rows(fields, "live arguments", arguments, unmade.filter_map(|tensor| tensor.name.clone()));
}

/// All that both sides say of a tensor.
type Facts = (String, String, i64, Option<String>, String, [Option<u64>; 3]);

/// Rows that are the same in any order; if not, those that only one side has.
fn same_rows<T: Ord + Clone + Debug>(
    fields: &mut Fields,
    name: &str,
    expected: impl Iterator<Item = T>,
    found: impl Iterator<Item = T>,
) {
    let (mut expected, mut found): (Vec<T>, Vec<T>) = (expected.collect(), found.collect());
    expected.sort_unstable();
    found.sort_unstable();
    let (missing, excess) = (without(&expected, &found), without(&found, &expected));
    fields.judge(name, missing.is_empty() && excess.is_empty(), &missing, &excess);
}

fn by_class(fields: &mut Fields, truth: &Truth, moment: &PoolMoment) {
    let (Some(expected), Some(found)) = (&truth.live_by_class, &moment.by_class_per_bank) else { return };
    let known = found.iter().map(|(class, _)| class);
    let classes: BTreeSet<&str> = expected.keys().map(String::as_str).chain(known).collect();
    for class in classes {
        let wanted = expected.get(class).copied().unwrap_or(0);
        let found = found.get(class).copied().unwrap_or(0);
        fields.near(format!("class {class}"), wanted, Some(found), QUANTUM);
    }
}

/// What operations left behind, by operation.
fn left_behind(fields: &mut Fields, truth: &Truth, moment: &PoolMoment, hidden: usize) {
    let rows = moment.residue.iter().flatten();
    let found: BTreeMap<&str, i64> =
        rows.filter_map(|row| Some((row.op.as_deref()?, row.per_bank))).collect();
    for (op, bytes) in &truth.residue {
        let found = found.get(op.as_str()).copied().unwrap_or(0);
        let tolerance = FEW_QUANTA.max(bytes / 100);
        fields.near(format!("residue {op}"), *bytes, u64::try_from(found).ok(), tolerance);
    }
    if truth.residue.is_empty() && hidden == 0 {
        fields.same("residue", &0, &moment.residue.as_ref().map_or(0, Vec::len));
    }
}

/// The results that share their operand's memory, told by the device's numbers alone.
fn views(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let (Some(views), true) = (&truth.views, shown.explains_all()) else { return };
    let marks = (0..).zip(&answered.rank.steps.marks);
    let found: BTreeSet<Step> =
        marks.filter(|(_, marks)| marks.has(StepMarks::VIEW)).map(|(step, _)| step).collect();
    let expected: BTreeSet<Step> = views.iter().map(|view| view.seq).collect();
    // Whether a result of a few bytes is a copy is below what the log shows.
    let missing: Vec<Step> =
        expected.difference(&found).copied().filter(|step| !is_tiny(answered, *step)).collect();
    let excess: Vec<Step> = found.difference(&expected).copied().collect();
    fields.judge("views", missing.is_empty() && excess.is_empty(), &missing, &excess);
}

/// How many views are of so few bytes that the device's numbers do not tell them from copies.
fn hidden_views(answered: &Answered<'_>, truth: &Truth) -> usize {
    truth.views.iter().flatten().filter(|view| is_tiny(answered, view.seq)).count()
}

/// Whether the result of a step takes no more of a bank than rounding can hide.
fn is_tiny(answered: &Answered<'_>, step: Step) -> bool {
    let Some(op) = answered.profile.op_of(answered.rank, step) else { return false };
    let banks = answered.summary.pools.get("DRAM").and_then(|pool| pool.banks).unwrap_or(1);
    let ty = op.result_types.first().copied().flatten().and_then(|ty| answered.profile.tensor_type(ty));
    let Some((layout, padded)) = ty.and_then(|ty| Some((ty.layout.as_ref()?, ty.padded.get()?))) else {
        return false;
    };
    // A page is a tile, or a row.
    let rows = if layout.tile.is_some() { layout.shard.len() } else { layout.shard.len().saturating_sub(1) };
    let pages = layout.shard[..rows].iter().product::<u64>().max(1);
    pages.div_ceil(u64::from(banks)) * (padded / pages) <= HIDDEN
}

/// Changes between two programs.
fn gaps(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let (Some(gaps), true) = (&truth.gaps, shown.explains_all()) else { return };
    let tolerance = if truth.residue.is_empty() { 2 * QUANTUM } else { FEW_QUANTA };
    let mut found: BTreeMap<(u32, &str), i64> = answered
        .summary
        .outside
        .iter()
        .map(|outside| ((outside.step, outside.pool.as_str()), outside.change_per_bank))
        .collect();
    let mut wrong = Vec::new();
    for gap in gaps {
        let found = found.remove(&(gap.position, &gap.pool)).unwrap_or(0);
        if found.abs_diff(gap.effect) > tolerance {
            wrong.push((gap.position, &gap.pool, gap.effect, found));
        }
    }
    found.retain(|_, change| change.unsigned_abs() > tolerance);
    fields.judge("outside", wrong.is_empty() && found.is_empty(), &wrong, &found);
}

/// What every pool holds at every position, and what its tensors come to.
fn states(fields: &mut Fields, answered: &Answered<'_>, truth: &Truth, shown: Shown) {
    let (Some(states), Some(tensors)) = (&truth.states, &truth.tensors) else { return };
    if !shown.has_positions() || !shown.before_operations {
        return;
    }
    for (name, states) in states {
        let Some((id, _)) = answered.rank.pool_named(answered.profile, name) else { continue };
        let Some(account) = Account::new(answered.rank, id) else { continue };
        allocated_everywhere(fields, answered, name, &account, states, shown);
        if shown.explains_all() {
            let explained = |at: usize| account.explained(late(at));
            let tolerance = HIDDEN * hidden_views(answered, truth) as u64;
            let is_right =
                |at: usize| explained(at).is_some_and(|found| found.abs_diff(tensors[name][at]) <= tolerance);
            let wrong = (0..states.len()).find(|&at| !is_right(at));
            let found = wrong.map(|at| (at, Some(tensors[name][at]), explained(at)));
            fields.unknown(format!("{name} tensors everywhere"), found.as_ref());
        }
    }
}

fn allocated_everywhere(
    fields: &mut Fields,
    answered: &Answered<'_>,
    name: &str,
    account: &Account<'_>,
    states: &[u64],
    shown: Shown,
) {
    let is_printed = |at: usize| {
        let reported =
            u32::try_from(at).map(|step| answered.profile.op_kind(answered.rank, step).is_reported());
        at + 1 < states.len() && (shown.before_all_operations || reported.unwrap_or(false))
    };
    let is_right = |at: usize| match account.held(late(at)) {
        Some(held) => held.measured && held.per_bank.abs_diff(states[at]) <= QUANTUM,
        None => false,
    };
    let wrong = (0..states.len()).filter(|at| is_printed(*at)).find(|at| !is_right(*at));
    let found = wrong.map(|at| (at, states[at], account.held(late(at))));
    fields.unknown(format!("{name} states everywhere"), found.as_ref());
}

fn late(position: usize) -> Moment {
    Moment::late(u32::try_from(position).expect("small logs"))
}
