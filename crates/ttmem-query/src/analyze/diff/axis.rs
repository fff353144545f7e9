//! One axis for the steps of two ranks. Corresponding steps have the same place. Each of the other steps, including those whose
//! order has changed, has its own place.
//!
//! Between corresponding steps, the steps of the first rank come first. Deallocations are not aligned: those between the same
//! corresponding steps share a place if they have equal texts, in order.

use std::ops::Range;

use ttmem_model::{Moment, Step};

use super::align::{Alignment, hashes};
use super::locations::Locations;
use super::{Both, Side};

/// A deallocation is looked for among this many of the other rank.
const MAX_DISTANCE: usize = 64;

/// The axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// The places in order, those of the same kind together.
    pub stretches: Vec<Stretch>,
    /// The place of each step of each rank.
    pub places: Both<Vec<u32>>,
    /// The number of places.
    pub len: u32,
}

/// Consecutive places of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which rank has steps there.
    pub kind: StretchKind,
    /// The number of places.
    pub len: u32,
}

/// Which rank has a step at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StretchKind {
    /// Both: the steps correspond.
    Both,
    /// The first one; the second has no such step.
    Before,
    /// The second one; the first has no such step.
    After,
    /// The first one; the second has the step at another place.
    MovedBefore,
    /// The second one; the first has the step at another place.
    MovedAfter,
}

impl StretchKind {
    /// The kind if the ranks are exchanged.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Both => Self::Both,
            Self::Before => Self::After,
            Self::After => Self::Before,
            Self::MovedBefore => Self::MovedAfter,
            Self::MovedAfter => Self::MovedBefore,
        }
    }
}

impl Axis {
    /// The axis of two ranks.
    pub fn of(sides: &Both<Side<'_>>, alignment: &Alignment) -> Self {
        let ends = sides.map(|side| side.rank.end());
        let sorted = |mut steps: Vec<Step>| {
            steps.sort_unstable();
            steps
        };
        let moved = Both {
            before: sorted(alignment.reordered.iter().map(|pair| pair.before).collect()),
            after: sorted(alignment.reordered.iter().map(|pair| pair.after).collect()),
        };
        let locations = alignment.locations.as_ref();
        let mut builder =
            Builder { sides: *sides, locations, moved, next: Both::default(), axis: Self::default() };
        builder.axis.places.before.reserve_exact(ends.before as usize);
        builder.axis.places.after.reserve_exact(ends.after as usize);
        for (before, after) in alignment.pairs.before.iter().zip(&alignment.pairs.after) {
            builder.gap(Both { before: *before, after: *after });
            builder.pair();
        }
        builder.gap(ends);
        builder.axis
    }

    /// The moment of the axis for a moment of a rank. Its positions are places. `places` are those of the rank.
    pub fn moment(&self, places: &[u32], at: Moment) -> Moment {
        let position = at.position() as usize;
        // A rank without steps has a single state, which is shown from the start.
        if at == Moment::NEVER || places.is_empty() {
            return at;
        }
        let end = places.last().map_or(0, |last| last + 1);
        if at == Moment::late(at.position()) {
            return Moment::late(places.get(position).copied().unwrap_or(end));
        }
        match position.checked_sub(1) {
            None => Moment::START,
            Some(last) => places.get(last).map_or(Moment::early(end), |place| Moment::after(*place)),
        }
    }

    /// The first moment of the axis after the end of a rank; `None` if the other rank does not continue.
    pub fn end_of(&self, places: &[u32]) -> Option<Moment> {
        let last = places.last()?;
        (last + 1 < self.len).then(|| Moment::after(last + 1))
    }
}

struct Builder<'a> {
    sides: Both<Side<'a>>,
    locations: Both<&'a Locations>,
    /// The steps with another place, in order.
    moved: Both<Vec<Step>>,
    /// The first step of each rank that has no place yet.
    next: Both<Step>,
    axis: Axis,
}

impl Builder<'_> {
    /// Adds all steps up to two corresponding ones.
    fn gap(&mut self, end: Both<Step>) {
        let before = unaligned(self.sides.before, self.next.before..end.before, self.locations.before);
        let after = unaligned(self.sides.after, self.next.after..end.after, self.locations.after);
        for pair in in_order(&before, &after) {
            self.alone(pair);
            self.pair();
        }
        self.alone(end);
    }

    /// Adds a step of each rank at the same place.
    fn pair(&mut self) {
        self.axis.places.before.push(self.axis.len);
        self.axis.places.after.push(self.axis.len);
        self.add(StretchKind::Both);
        self.next = Both { before: self.next.before + 1, after: self.next.after + 1 };
    }

    /// Adds the steps up to two others, first those of the first rank.
    fn alone(&mut self, end: Both<Step>) {
        for step in self.next.before..end.before {
            let is_moved = self.moved.before.binary_search(&step).is_ok();
            self.axis.places.before.push(self.axis.len);
            self.add(if is_moved { StretchKind::MovedBefore } else { StretchKind::Before });
        }
        for step in self.next.after..end.after {
            let is_moved = self.moved.after.binary_search(&step).is_ok();
            self.axis.places.after.push(self.axis.len);
            self.add(if is_moved { StretchKind::MovedAfter } else { StretchKind::After });
        }
        self.next = end;
    }

    fn add(&mut self, kind: StretchKind) {
        self.axis.len += 1;
        match self.axis.stretches.last_mut().filter(|last| last.kind == kind) {
            Some(last) => last.len += 1,
            None => self.axis.stretches.push(Stretch { kind, len: 1 }),
        }
    }
}

/// A step that is not aligned by the texts of operations, such as a deallocation.
#[derive(Clone, Copy, Debug)]
struct Unaligned {
    step: Step,
    /// The hash of its texts, with and without digits.
    exact: u64,
    similar: u64,
}

fn unaligned(side: Side<'_>, steps: Range<Step>, locations: &Locations) -> Vec<Unaligned> {
    let of = |step: Step| {
        let op = side.rank.op_id(step).filter(|op| !side.profile.ops.kind(*op).is_reported())?;
        let [exact, similar] = hashes(side, op, None, locations);
        Some(Unaligned { step, exact, similar })
    };
    steps.filter_map(of).collect()
}

/// Steps with equal texts, in order. If both sides have further ones, the nearest is used. Without equal texts, texts that
/// differ in digits are equal.
fn in_order(before: &[Unaligned], after: &[Unaligned]) -> Vec<Both<Step>> {
    let (mut pairs, mut rest) = (Vec::new(), Both { before, after });
    while let (Some((first, before)), Some((second, after))) =
        (rest.before.split_first(), rest.after.split_first())
    {
        let distance = |steps: &[Unaligned], text: u64| {
            steps.iter().take(MAX_DISTANCE).position(|step| step.exact == text)
        };
        let skipped = (distance(rest.before, second.exact), distance(rest.after, first.exact));
        let is_pair = match skipped {
            (Some(0), _) => true,
            (None, None) => first.similar == second.similar,
            _ => false,
        };
        if is_pair {
            pairs.push(Both { before: first.step, after: second.step });
        }
        rest = match skipped {
            (Some(few), many) if few > 0 && many.is_none_or(|many| few < many) => {
                Both { before: &rest.before[few..], ..rest }
            }
            (many, Some(few)) if few > 0 && many.is_none_or(|many| few < many) => {
                Both { after: &rest.after[few..], ..rest }
            }
            _ => Both { before, after },
        };
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of steps whose texts are letters; a capital letter has the same text apart from digits.
    fn pairs(before: &str, after: &str) -> Vec<(Step, Step)> {
        let steps = |texts: &str| -> Vec<Unaligned> {
            let similar = |text: char| u64::from(text.to_ascii_lowercase());
            let steps = (0..).zip(texts.chars());
            steps.map(|(step, text)| Unaligned { step, exact: text.into(), similar: similar(text) }).collect()
        };
        in_order(&steps(before), &steps(after)).iter().map(|pair| (pair.before, pair.after)).collect()
    }

    #[test]
    fn steps_with_equal_texts_are_pairs() {
        assert_eq!(pairs("abc", "abc"), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(pairs("abc", "bc"), [(1, 0), (2, 1)]);
        assert_eq!(pairs("bc", "abxc"), [(0, 1), (1, 3)]);
        assert_eq!(pairs("aBc", "abc"), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(pairs("aa", "aaa"), [(0, 0), (1, 1)]);
        assert_eq!(pairs("ab", "xy"), []);
        assert_eq!(pairs("", "ab"), []);
    }

    /// Of two steps that changed places, neither is more important.
    #[test]
    fn pairs_do_not_depend_on_the_direction() {
        for (a, b) in [("abcd", "badc"), ("abca", "cab"), ("aXbY", "xbya"), ("abcdef", "fedcba")] {
            let mirrored: Vec<(Step, Step)> = pairs(b, a).into_iter().map(|(b, a)| (a, b)).collect();
            assert_eq!(pairs(a, b), mirrored, "{a} {b}");
        }
    }
}
