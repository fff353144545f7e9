//! The texts of a comparison.

use ttmem_model::words::size;

use super::counted::compared;
use super::groups::{Facts, Group, Key};
use super::listed::Listed;
use super::out_of_memory::OutOfMemoryDiff;
use super::side::Shown;
use super::{ChangeRow, OperationsDiff, PoolDiff, TensorSide};
use crate::analyze::diff::{Both, ChangeKind};
use crate::groups::pattern;
use crate::words::{percent, shape};

/// The names of this many tensors are compared to find their pattern.
const NAMES: usize = 1000;
const NO_DIFFERENCES: &str = "No differences.";
/// What snapshots call an allocation without a stack, which is not a name.
const ALLOCATION: &str = "alloc";

/// Which tensors a group has.
pub(super) fn title(facts: &Facts<'_>, key: &Key<'_>, group: &Group) -> String {
    let count = group.tensors.len();
    called_alike(facts, key, group).map_or_else(|| tensors(count), |name| with_count(count, &name))
}

/// The common name of a group's tensors.
pub(super) fn called_alike(facts: &Facts<'_>, key: &Key<'_>, group: &Group) -> Option<String> {
    match key {
        Key::Part(_, _, part) => Some((*part).to_owned()),
        Key::Block(..) | Key::Scaled(..) => None,
        Key::Alike(..) => common_name(facts, group),
    }
}

/// Tensors in a sentence: `12 × cache.*`, `29 tensors in head`. `number` is that of several.
pub(super) fn in_sentence(name: Option<&str>, count: usize, number: &str) -> String {
    let part = name.and_then(|name| name.strip_prefix("(in ")?.strip_suffix(')'));
    match (name, part) {
        (_, Some(part)) if count == 1 => format!("1 tensor in {part}"),
        (_, Some(part)) => format!("{number} tensors in {part}"),
        (Some(name), None) if count == 1 => name.to_owned(),
        (Some(name), None) => format!("{number} × {name}"),
        (None, None) if count == 1 => "1 tensor".to_owned(),
        (None, None) => format!("{number} tensors"),
    }
}

fn with_count(count: usize, name: &str) -> String {
    if count == 1 { name.to_owned() } else { format!("{count} × {name}") }
}

fn tensors(count: usize) -> String {
    if count == 1 { "1 tensor".into() } else { format!("{count} tensors") }
}

/// What a tensor is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Called {
    Name,
    Module,
    Location,
    Operation,
}

impl Called {
    fn text(self, name: String) -> String {
        if self == Self::Module { format!("(in {name})") } else { name }
    }
}

/// The best name of a tensor: its own, the module or location that allocates it, or the operation.
fn called<'a>(side: &Shown<'a>) -> Option<(Called, &'a str)> {
    let is_name = |name: &&str| !name.starts_with('%');
    let names = [
        (Called::Name, side.name.filter(is_name)),
        (Called::Module, side.made_in),
        (Called::Location, side.loc()),
        (Called::Operation, side.op().filter(|op| *op != ALLOCATION)),
        (Called::Name, side.name),
    ];
    names.into_iter().find_map(|(called, name)| Some((called, name?)))
}

/// The name of a group's tensors, or the pattern that their names follow; the first name if they follow none.
fn common_name(facts: &Facts<'_>, group: &Group) -> Option<String> {
    let one = |tensors: &Both<_>| {
        let sides = facts.shown(*tensors);
        called(sides.after.as_ref().or(sides.before.as_ref())?)
    };
    let names: Option<Vec<(Called, &str)>> = group.tensors.iter().take(NAMES).map(one).collect();
    let names = names?;
    let (kind, first) = *names.first()?;
    let texts: Vec<&str> = names.iter().map(|(_, name)| name.trim_matches('"')).collect();
    let is_same_kind = names.iter().all(|(other, _)| *other == kind);
    let name = pattern(&texts).filter(|_| is_same_kind).unwrap_or_else(|| first.trim_matches('"').to_owned());
    Some(kind.text(name))
}

/// What a single tensor is called.
pub(super) fn name(side: &Shown<'_>) -> Option<String> {
    called(side).map(|(kind, name)| kind.text(name.trim_matches('"').to_owned()))
}

/// What is different.
pub(super) fn detail(key: &Key<'_>, row: &ChangeRow) -> String {
    let (before, after) = (row.before.as_ref(), row.after.as_ref());
    let either = after.or(before);
    match row.kind {
        ChangeKind::Appeared => format!("new{}", typed(either, key)),
        ChangeKind::Vanished => format!("gone{}", typed(either, key)),
        ChangeKind::Resized => resized(key, before, after),
        ChangeKind::Dtype => {
            let dtype = |side: Option<&TensorSide>| side.and_then(|side| side.dtype.clone());
            let shapes =
                (before.and_then(|side| side.shape.as_ref()), after.and_then(|side| side.shape.as_ref()));
            let also =
                if shapes.0 == shapes.1 { String::new() } else { format!(", {}", shapes_of(before, after)) };
            format!("{}{also}", arrow(dtype(before), dtype(after)))
        }
        ChangeKind::Layout => {
            let layout = |side: Option<&TensorSide>| side.and_then(|side| side.layout.clone());
            match (layout(before), layout(after)) {
                (a, b) if a == b => "another shard shape or tile".into(),
                (a, b) => arrow(a, b),
            }
        }
        ChangeKind::Pool => {
            let from = row.moved_from.as_ref().map(|from| from.pool.clone());
            format!("moved: {}", arrow(from, Some(row.pool.clone())))
        }
        ChangeKind::FreedLater | ChangeKind::FreedEarlier => freed(before, after),
        ChangeKind::AllocatedLater | ChangeKind::AllocatedEarlier | ChangeKind::Reordered => {
            let step = |side: Option<&TensorSide>| {
                side.and_then(|side| side.born_step).map(|step| format!("step {step}"))
            };
            format!("allocated at another place: {}", arrow(step(before), step(after)))
        }
    }
}

/// The type of a tensor, or the first of several operations.
fn typed(side: Option<&TensorSide>, key: &Key<'_>) -> String {
    let Some(side) = side else { return String::new() };
    match (key, &side.op, &side.shape) {
        (Key::Block(..), Some(op), _) => format!(", from {op} on"),
        (Key::Alike(..), _, Some(dims)) => {
            format!(": {} {}", shape(dims), side.dtype.as_deref().unwrap_or("")).trim_end().to_owned()
        }
        _ => String::new(),
    }
}

fn resized(key: &Key<'_>, before: Option<&TensorSide>, after: Option<&TensorSide>) -> String {
    let changed = || {
        let (a, b) = (before?.shape.as_ref()?, after?.shape.as_ref()?);
        a.iter().zip(b).find(|(a, b)| a != b).map(|(a, b)| (*a, *b))
    };
    match (key, changed()) {
        (Key::Scaled(..), Some((from, to))) => format!("a dimension of {from} became {to}"),
        _ => shapes_of(before, after),
    }
}

/// The shapes of both sides, or their sizes if the shapes are equal or unknown.
fn shapes_of(before: Option<&TensorSide>, after: Option<&TensorSide>) -> String {
    let text = |side: Option<&TensorSide>| side.and_then(|side| side.shape.as_ref()).map(|dims| shape(dims));
    let bytes = |side: Option<&TensorSide>| side.and_then(|side| side.per_bank).map(size);
    let (a, b) = (text(before), text(after));
    if a == b || a.is_none() || b.is_none() { arrow(bytes(before), bytes(after)) } else { arrow(a, b) }
}

fn freed(before: Option<&TensorSide>, after: Option<&TensorSide>) -> String {
    let freed = |side: Option<&TensorSide>| match side.and_then(|side| side.freed_before_step) {
        Some(position) => format!("freed before step {position}"),
        None => "never freed".into(),
    };
    arrow(Some(freed(before)), Some(freed(after)))
}

fn arrow(before: Option<String>, after: Option<String>) -> String {
    let text = |side: Option<String>| side.unwrap_or_else(|| "unknown".into());
    format!("{} → {}", text(before), text(after))
}

/// The pool whose peak has changed most.
pub(super) fn most_changed(pools: &[(String, PoolDiff)]) -> Option<&(String, PoolDiff)> {
    let is_other = |pool: &PoolDiff| pool.change_per_bank.is_some_and(|change| change != 0);
    let others = compared(pools).filter(|(_, pool)| is_other(pool));
    others.max_by_key(|(_, pool)| pool.change_per_bank.map(i64::unsigned_abs))
}

/// The out-of-memory errors, and a sentence about the most important difference.
pub(super) fn verdict(
    out_of_memory: &OutOfMemoryDiff,
    pools: &[(String, PoolDiff)],
    changes: &Listed<'_>,
    operations: OperationsDiff,
) -> String {
    let difference = difference(pools, changes, operations);
    match out_of_memory.sentence() {
        Some(error) if difference != NO_DIFFERENCES => format!("{error} {difference}"),
        Some(error) if out_of_memory.is_same() => format!("{difference} {error}"),
        Some(error) => error,
        None => difference,
    }
}

fn difference(pools: &[(String, PoolDiff)], changes: &Listed<'_>, operations: OperationsDiff) -> String {
    let Some((name, pool)) = most_changed(pools) else {
        return unchanged(pools, changes, operations);
    };
    let (change, before) = (pool.change_per_bank.unwrap_or(0), pool.before_per_bank.unwrap_or(0));
    let verb = if change > 0 { "grew" } else { "shrank" };
    let share =
        if before == 0 { String::new() } else { format!(" ({})", percent(change.unsigned_abs(), before)) };
    let per_bank = if pool.banks == Some(1) { "" } else { " per bank" };
    let mut text = format!("The peak of {name} {verb} by {}{per_bank}{share}", size(change.unsigned_abs()));
    if let Some(row) = changes.first_on(name, change.signum()) {
        text.push_str("; ");
        text.push_str(&largest(&row));
    }
    text + "."
}

fn unchanged(pools: &[(String, PoolDiff)], changes: &Listed<'_>, operations: OperationsDiff) -> String {
    let moved = operations.added + operations.removed + operations.reordered;
    let row = changes.rows(1).into_iter().next();
    if let Some((name, pool)) = compared(pools).find(|(_, pool)| pool.is_one_sided()) {
        let which = if pool.before_per_bank.is_none() { "BEFORE" } else { "AFTER" };
        let change = row.map_or_else(String::new, |row| format!("; {}", largest(&row)));
        return format!("{which} does not have the peak of {name}, so it cannot be compared{change}.");
    }
    match (row, moved) {
        (None, 0) => NO_DIFFERENCES.into(),
        (None, _) => "The peaks and all tensors are the same; only operations differ.".into(),
        (Some(row), _) => {
            format!("The peaks are the same; {}.", largest(&row))
        }
    }
}

fn largest(row: &ChangeRow) -> String {
    format!("the largest change is {}: {}", row.title, row.detail)
}
