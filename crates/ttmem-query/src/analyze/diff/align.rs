//! Finds the steps of two ranks that correspond.
//!
//! A step is identified by its operation's name, location and enclosing module, but not by shapes, which change with the
//! batch size. Files of two checkouts have the same location. Deallocations are left out: they are the ends of tensors. Three passes find the corresponding steps:
//!
//! 1. those with equal texts, in order;
//! 2. between them, those with equal texts apart from digits, in order: inserting a line changes the line numbers after it;
//! 3. among the rest, those with equal texts in another order.
//!
//! Long parts without digits may have few distinct texts, and finding the most corresponding steps of unrelated parts takes
//! long. Such parts are recognized by the sequences of steps that they have in common, and compared piece by piece.

use std::cmp::Ordering;
use std::hash::Hasher;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, Token};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use ttmem_model::{OpId, ScopeId, Step, StrId};

use super::common::{common, table_words};
use super::locations::Locations;
use super::{Both, MANY_STEPS, Side};
use crate::threads::both;

/// The number of consecutive steps that unrelated parts rarely have in common.
const SEQUENCE: usize = 8;
/// If a longer part shares fewer of its sequences than one in this many, it is unrelated. A program with a change in every
/// fifth step still shares one in six.
const MIN_SHARED: usize = 16;
/// Parts with more words of a table are compared as a whole only if they are related.
const MAX_TABLE: usize = 1 << 20;
/// The steps of a piece of unrelated parts.
const PIECE: usize = 4096;

/// The steps of two ranks that correspond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Corresponding steps in the same order, as columns: the step of each side.
    pub pairs: Both<Vec<Step>>,
    /// Corresponding steps whose order has changed.
    pub reordered: Vec<Both<Step>>,
    /// The steps without a corresponding one.
    pub unmatched: Both<Vec<Step>>,
    /// The texts of locations.
    pub(super) locations: Both<Locations>,
}

impl Alignment {
    /// The alignment of two ranks.
    pub fn of(sides: &Both<Side<'_>>) -> Self {
        let is_large = sides.before.rank.steps.len() > MANY_STEPS;
        let locations = Locations::of(sides.map(|side| side.profile));
        let (before, after) = both(
            is_large,
            || Steps::of(sides.before, &locations.before),
            || Steps::of(sides.after, &locations.after),
        );
        let lists = Both { before, after };
        // The algorithm prefers the first side in ambiguous cases.
        let alignment = match lists.before.cmp(&lists.after) {
            Ordering::Greater => align(&lists.swapped()).swapped(),
            Ordering::Less | Ordering::Equal => align(&lists),
        };
        Self { locations, ..alignment }
    }

    fn swapped(self) -> Self {
        Self {
            pairs: self.pairs.swapped(),
            reordered: self.reordered.into_iter().map(Both::swapped).collect(),
            unmatched: self.unmatched.swapped(),
            locations: self.locations.swapped(),
        }
    }
}

/// The aligned steps of one rank. Longer lists are greater.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Steps {
    len: usize,
    /// The hash of each step's texts, with and without digits.
    exact: Vec<u64>,
    similar: Vec<u64>,
    step: Vec<Step>,
}

impl Steps {
    fn of(side: Side<'_>, locations: &Locations) -> Self {
        let mut steps = Self::default();
        let mut known: FxHashMap<(OpId, Option<ScopeId>), [u64; 2]> = FxHashMap::default();
        for (step, op) in (0..).zip(side.rank.steps.op.iter().copied()) {
            if !side.profile.ops.kind(op).is_reported() {
                continue;
            }
            let scope = scope_of(side, step);
            let [exact, similar] =
                *known.entry((op, scope)).or_insert_with(|| hashes(side, op, scope, locations));
            steps.exact.push(exact);
            steps.similar.push(similar);
            steps.step.push(step);
        }
        steps.len = steps.step.len();
        steps
    }
}

/// The module or other scope that a step runs in.
fn scope_of(side: Side<'_>, step: Step) -> Option<ScopeId> {
    let call = side.rank.named_call(side.rank.within.get(step)??)?;
    side.rank.calls.scope.get(call.index()).copied()
}

/// The hashes of the texts of an operation, with and without digits.
pub(super) fn hashes(side: Side<'_>, op: OpId, scope: Option<ScopeId>, locations: &Locations) -> [u64; 2] {
    let text = |id: StrId| side.profile.text(id);
    let scope = scope.and_then(|scope| side.rank.scopes.name.get(scope.index()));
    let (name, loc) = (side.profile.ops.name(op), side.profile.ops.loc(op));
    let name = name.map(|name| locations.name(side.profile, name, loc));
    let loc = loc.map(|loc| locations.text(side.profile, loc));
    let parts = [name, loc, scope.copied().map(text)];
    let parts = parts.map(Option::unwrap_or_default);
    [false, true].map(|without_digits| {
        let mut hasher = FxHasher::default();
        for part in parts {
            for byte in part.bytes().filter(|byte| !(without_digits && byte.is_ascii_digit())) {
                hasher.write_u8(byte);
            }
            hasher.write_u8(u8::MAX);
        }
        hasher.finish()
    })
}

fn align(lists: &Both<Steps>) -> Alignment {
    let all = lists.as_ref().map(|steps| 0..steps.len);
    let mut found = Found::default();
    let similar = lists.as_ref().map(|steps| &*steps.similar);
    let gaps = found.add(&all, lists.as_ref().map(|steps| &*steps.exact));
    for gap in gaps {
        if !is_long(&gap) {
            found.add_common(&gap, similar);
        } else if are_related(&gap, similar) {
            found.add(&gap, similar);
        } else {
            found.add_in_pieces(&gap, similar);
        }
    }
    found.pairs.sort_unstable_by_key(|pair| pair.before);
    let step = |pair: &Both<usize>| Both {
        before: lists.before.step[pair.before],
        after: lists.after.step[pair.after],
    };
    let pairs: Vec<Both<Step>> = found.pairs.iter().map(step).collect();
    let mut rest = Both { before: &lists.before, after: &lists.after }.map(|steps| vec![true; steps.len]);
    for pair in &found.pairs {
        rest.before[pair.before] = false;
        rest.after[pair.after] = false;
    }
    let mut rest = rest.map(|rest| (0..rest.len()).filter(|index| rest[*index]).collect::<Vec<usize>>());
    let mut reordered = Vec::new();
    for texts in [lists.as_ref().map(|steps| &*steps.exact), lists.as_ref().map(|steps| &*steps.similar)] {
        reordered.extend(same_texts(&mut rest, texts).iter().map(step));
    }
    reordered.sort_unstable_by_key(|pair| pair.before);
    Alignment {
        pairs: Both {
            before: pairs.iter().map(|pair| pair.before).collect(),
            after: pairs.iter().map(|pair| pair.after).collect(),
        },
        reordered,
        unmatched: Both {
            before: rest.before.iter().map(|index| lists.before.step[*index]).collect(),
            after: rest.after.iter().map(|index| lists.after.step[*index]).collect(),
        },
        locations: Both::default(),
    }
}

/// Corresponding steps, by their index among the aligned ones.
#[derive(Default)]
struct Found {
    pairs: Vec<Both<usize>>,
}

impl Found {
    /// Adds the steps with equal texts in a part of both lists; returns the parts between them that both sides have.
    fn add(&mut self, part: &Both<Range<usize>>, texts: Both<&[u64]>) -> Vec<Both<Range<usize>>> {
        let (tokens, count) = tokens(Both {
            before: &texts.before[part.before.clone()],
            after: &texts.after[part.after.clone()],
        });
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Myers, &tokens.before, &tokens.after, count);
        let (mut gaps, mut at) = (Vec::new(), Both { before: part.before.start, after: part.after.start });
        for hunk in diff.hunks() {
            let gap = Both {
                before: part.before.start + hunk.before.start as usize
                    ..part.before.start + hunk.before.end as usize,
                after: part.after.start + hunk.after.start as usize
                    ..part.after.start + hunk.after.end as usize,
            };
            self.equal(at.before..gap.before.start, at.after);
            at = Both { before: gap.before.end, after: gap.after.end };
            if !gap.before.is_empty() && !gap.after.is_empty() {
                gaps.push(gap);
            }
        }
        self.equal(at.before..part.before.end, at.after);
        gaps
    }

    /// Adds the steps with equal texts in a part, which is divided into pieces.
    fn add_in_pieces(&mut self, part: &Both<Range<usize>>, texts: Both<&[u64]>) {
        let count = part.before.len().max(part.after.len()).div_ceil(PIECE);
        let piece = |side: &Range<usize>, index: usize| {
            side.start + side.len() * index / count..side.start + side.len() * (index + 1) / count
        };
        for index in 0..count {
            self.add_common(&part.as_ref().map(|side| piece(side, index)), texts);
        }
    }

    /// Adds the steps with equal texts in a part that is not long.
    fn add_common(&mut self, part: &Both<Range<usize>>, texts: Both<&[u64]>) {
        let pairs = common(Both {
            before: &texts.before[part.before.clone()],
            after: &texts.after[part.after.clone()],
        });
        self.pairs.extend(pairs.iter().map(|pair| Both {
            before: part.before.start + pair.before,
            after: part.after.start + pair.after,
        }));
    }

    fn equal(&mut self, before: Range<usize>, after: usize) {
        self.pairs.extend(before.zip(after..).map(|(before, after)| Both { before, after }));
    }
}

/// Whether a table of the lengths of a part's common subsequences is large.
fn is_long(part: &Both<Range<usize>>) -> bool {
    table_words(part.as_ref().map(ExactSizeIterator::len)) > MAX_TABLE
}

/// Whether the sides of a part have many sequences of steps in common.
fn are_related(part: &Both<Range<usize>>, texts: Both<&[u64]>) -> bool {
    let before: FxHashSet<u64> = sequences(&texts.before[part.before.clone()]).collect();
    let (mut all, mut shared) = (0_usize, 0_usize);
    for sequence in sequences(&texts.after[part.after.clone()]) {
        all += 1;
        shared += usize::from(before.contains(&sequence));
    }
    shared * MIN_SHARED >= all
}

/// The hash of each sequence of steps.
fn sequences(texts: &[u64]) -> impl Iterator<Item = u64> {
    texts.windows(SEQUENCE).map(|sequence| {
        let mut hasher = FxHasher::default();
        for text in sequence {
            hasher.write_u64(*text);
        }
        hasher.finish()
    })
}

/// The texts of a part as small numbers, and how many there are.
fn tokens(texts: Both<&[u64]>) -> (Both<Vec<Token>>, u32) {
    let mut known: FxHashMap<u64, u32> = FxHashMap::default();
    let mut token = |text: &u64| {
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        Token(*known.entry(*text).or_insert(next))
    };
    let tokens = texts.map(|texts| texts.iter().map(&mut token).collect());
    (tokens, u32::try_from(known.len()).unwrap_or(u32::MAX))
}

/// Removes the steps of the rest that have equal texts, first come first served, and returns them.
fn same_texts(rest: &mut Both<Vec<usize>>, texts: Both<&[u64]>) -> Vec<Both<usize>> {
    let mut waiting: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for index in rest.before.iter().rev() {
        waiting.entry(texts.before[*index]).or_default().push(*index);
    }
    let mut found = Vec::new();
    rest.after.retain(|&after| {
        let before = waiting.get_mut(&texts.after[after]).and_then(Vec::pop);
        found.extend(before.map(|before| Both { before, after }));
        before.is_none()
    });
    let taken: FxHashSet<usize> = found.iter().map(|pair| pair.before).collect();
    rest.before.retain(|before| !taken.contains(before));
    found
}
