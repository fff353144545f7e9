//! The tensors that changed ones overlap at the peak of one input only.

use serde::Serialize;
use ttmem_model::words::{by_count, counted, size};

use super::groups::{Facts, Group};
use super::sentences;
use crate::analyze::diff::{Both, Others, Overlap};
use crate::words::brief;

/// Characters of a name in a sentence.
const MAX_NAME: usize = 60;

/// Tensors that are live at the same time as those of a row in one input only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OverlapRow {
    /// One sentence.
    pub sentence: String,
    /// The number of tensors of the row that the sentence is about.
    pub tensors: usize,
    /// Whether the tensors of the row overlap each other.
    pub each_other: bool,
    /// Tensors that the other input frees before it allocates one of the row; `None` if there are none.
    pub freed_before: Option<OverlappedTensors>,
    /// Tensors that the other input allocates after it frees one of the row.
    pub allocated_after: Option<OverlappedTensors>,
}

/// Tensors that both inputs have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OverlappedTensors {
    /// Their number.
    pub tensors: usize,
    /// Their size at the compared peak.
    pub per_bank: u64,
    /// The largest of them, at most three.
    pub largest: Vec<OverlappedTensor>,
}

/// A tensor that another one overlaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OverlappedTensor {
    /// Its name, or the module, location or operation that allocates it.
    pub name: Option<String>,
    /// Its size in the input where they overlap.
    pub per_bank: Option<u64>,
}

/// The input with the overlaps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Before,
    After,
}

/// The overlaps of a row: those of the second input are new. `name` is the common name of its tensors.
pub(super) fn overlaps(facts: &Facts<'_>, group: &Group, name: Option<&str>) -> Both<Option<OverlapRow>> {
    let found = facts.overlaps(group);
    let row = |overlap: Option<Overlap>, input: In| {
        let overlap = overlap?;
        let tensors = |others: Option<&Others>| others.map(|others| overlapped(facts, others, input));
        let mut row = OverlapRow {
            sentence: String::new(),
            tensors: overlap.tensors,
            each_other: overlap.each_other,
            freed_before: tensors(overlap.freed_before.as_ref()),
            allocated_after: tensors(overlap.allocated_after.as_ref()),
        };
        let all = group.tensors.len();
        let bytes = if input == In::After { group.size.after } else { group.size.before };
        let unnamed = name.is_none() && all == 1 && bytes > 0;
        let subject = unnamed.then(|| of_size(1, bytes));
        row.sentence = sentence(&row, (name, subject), all, input);
        Some(row)
    };
    Both { before: row(found.before, In::Before), after: row(found.after, In::After) }
}

fn overlapped(facts: &Facts<'_>, others: &Others, input: In) -> OverlappedTensors {
    let tensor = |tensors: &Both<_>| {
        let sides = facts.shown(tensors.map(Some));
        let side = if input == In::After { sides.after } else { sides.before };
        OverlappedTensor {
            name: side.as_ref().and_then(sentences::name),
            per_bank: side.and_then(|side| side.per_bank),
        }
    };
    OverlappedTensors {
        tensors: others.count,
        per_bank: others.per_bank,
        largest: others.largest.iter().map(tensor).collect(),
    }
}

/// `12 × cache.* are now live at the same time as add.5, which was allocated after some of them were freed.`
fn sentence(
    row: &OverlapRow,
    (name, subject): (Option<&str>, Option<String>),
    all: usize,
    input: In,
) -> String {
    let tensors = row.tensors;
    let number = if tensors == all { all.to_string() } else { format!("{tensors} of {all}") };
    let subject = subject.unwrap_or_else(|| sentences::in_sentence(name, all, &number));
    let (are, it) = (by_count(tensors, "is", "are"), by_count(tensors, "it", "some of them"));
    // The tense of the other input.
    let was = |count: usize| match input {
        In::After => by_count(count, "was", "were"),
        In::Before => by_count(count, "is", "are"),
    };
    let (change, now) = if input == In::After { ("now", "") } else { ("no longer", " now") };
    let others = |others: Option<&OverlappedTensors>, when: &str, what: &str| {
        let others = others?;
        let (they_were, it_was) = (was(others.tensors), was(tensors));
        Some(format!("{}, which {they_were}{now} {when} {it} {it_was} {what}", names(others)))
    };
    let parts = [
        others(row.allocated_after.as_ref(), "allocated after", "freed"),
        others(row.freed_before.as_ref(), "freed before", "allocated"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    // If tensors pile up, their other overlaps are less important.
    let who = if row.each_other { "each other".to_owned() } else { parts.join(", and as ") };
    format!("{subject} {are} {change} live at the same time as {who}.")
}

/// `add.5`, `2 × add.* and 10 others`, `4 tensors of 20.0 MiB`, `4 tensors`.
fn names(others: &OverlappedTensors) -> String {
    names_of(&others.largest, others.tensors)
}

fn names_of(largest: &[OverlappedTensor], tensors: usize) -> String {
    let mut alike: Vec<(&OverlappedTensor, usize)> = Vec::new();
    let is_known = |tensor: &&OverlappedTensor| tensor.name.is_some() || tensor.per_bank.is_some();
    for tensor in largest.iter().filter(is_known) {
        let is_same = |other: &OverlappedTensor| {
            other.name == tensor.name && (tensor.name.is_some() || other.per_bank == tensor.per_bank)
        };
        match alike.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, count)) => *count += 1,
            None => alike.push((tensor, 1)),
        }
    }
    let rest = tensors - alike.iter().map(|(_, count)| count).sum::<usize>();
    if alike.is_empty() {
        return counted(rest, "tensor");
    }
    let name = |(tensor, count): (&OverlappedTensor, usize)| match (&tensor.name, tensor.per_bank) {
        (None, Some(bytes)) => of_size(count, bytes),
        (name, _) => {
            let name = name.as_deref().map(|name| brief(name, MAX_NAME));
            sentences::in_sentence(name.as_deref(), count, &count.to_string())
        }
    };
    let mut names: Vec<String> = alike.into_iter().map(name).collect();
    if rest > 0 {
        names.push(counted(rest, "other"));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// `4 tensors of 20.0 MiB`.
fn of_size(count: usize, bytes: u64) -> String {
    format!("{} of {}", counted(count, "tensor"), size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[(Option<&str>, u64)], tensors: usize) -> String {
        let tensor = |(name, bytes): &(Option<&str>, u64)| OverlappedTensor {
            name: name.map(str::to_owned),
            per_bank: Some(bytes << 20),
        };
        names_of(&names.iter().map(tensor).collect::<Vec<_>>(), tensors)
    }

    #[test]
    fn tensors_without_a_name_have_their_size() {
        assert_eq!(named(&[(None, 20), (None, 20), (None, 20)], 3), "3 tensors of 20.0 MiB");
        assert_eq!(
            named(&[(None, 20), (None, 8)], 4),
            "1 tensor of 20.0 MiB, 1 tensor of 8.0 MiB and 2 others"
        );
        assert_eq!(
            named(&[(Some("add.5"), 20), (Some("add.5"), 8), (None, 8)], 3),
            "2 × add.5 and 1 tensor of 8.0 MiB"
        );
        assert_eq!(named(&[], 4), "4 tensors");
    }
}
