//! Reads entries that differ from an earlier one only in some of their values.
//!
//! A program's entries have the same keys in the same order, and the values of most keys are always the same: the stream,
//! the annotations of the compiler, the metadata. A [`Skeleton`] is learned from one entry. It has the bytes that the next
//! entries are expected to repeat, and the places of the values that change with every entry. Most of these have the same
//! length in all entries, such as addresses and times, so an entry has few parts of unknown length: usually its size and
//! its stack. Everything between them is compared at once, without a decision for each key.
//!
//! Entries are usually predicted (`forms`), so that only those with an unexpected action or stack get here. An entry that
//! does not match is left to `entries`, which interprets every key and value, and whose result is learned.
//! Equal bytes have equal meanings as long as no memo is replaced; then all skeletons are dropped.

use std::ops::Range;

use super::super::heap::{Heap, Value};
use super::super::keys::Key;
use super::super::trace::{Fields, OwnFields, SharedFields};
use super::entries::{Cursor, StackLists};
use super::part::{Part, Place};
use super::{Memo, Memos};

/// The maximum number of skeletons: entries of a few kinds alternate.
const MAX_SKELETONS: usize = 4;
/// The maximum number of parts of an entry.
const MAX_PARTS: usize = 8;

/// A key and its value in an entry that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub key: Key,
    /// The position of the first byte of the value, and the position after its last one.
    pub from: usize,
    pub until: usize,
    /// The number of memos that the entry defined before the value and up to its end.
    pub memos: (usize, usize),
}

/// What follows a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The next part, or the end of the entry.
    Nothing,
    /// A number of any length.
    Number(Key),
    /// The frames of the stack.
    Frames,
}

/// The numbers that always have the same length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub addr: Option<Place>,
    pub device_free: Option<Place>,
    pub time_us: Option<Place>,
}

/// Whether the values of a key change with every entry.
fn changes(key: Key) -> bool {
    matches!(key, Key::Action | Key::Addr | Key::DeviceFree | Key::Size | Key::TimeUs | Key::Frames)
}

/// The length of the opcode, after which a number has the rest of the bytes. `None` if other entries may be longer or shorter.
fn opcode_len(key: Key, value: &[u8]) -> Option<usize> {
    match *value {
        // A reference.
        [b'h', _] | [b'j', _, _, _, _] if key == Key::Action => Some(1),
        // Sizes have any length.
        [0x8a, 1..=8, ..] if key != Key::Size => Some(2),
        _ => None,
    }
}

/// A skeleton among all that were learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkeletonId(u64);

/// The bytes that entries of one form share.
#[derive(Debug)]
pub(super) struct Skeleton {
    pub id: SkeletonId,
    pub parts: Vec<(Part, Then)>,
    /// The memo of the action.
    pub action: Place,
    pub places: Places,
    /// The fields of the values that entries share.
    shared: SharedFields,
    /// The memos that entries define before and after that of their stack, if they have one.
    before_stack: Vec<Memo>,
    after_stack: Vec<Memo>,
}

/// An entry that matched.
pub(super) struct Match {
    /// The number of bytes.
    pub len: usize,
    /// The positions of its parts, and the bytes of its stack.
    pub starts: [usize; MAX_PARTS],
    pub frames: Range<usize>,
    /// The fields that other entries do not share.
    pub own: OwnFields,
    /// The memo of its stack, if it defines one.
    stack_memo: Option<Memo>,
}

impl Match {
    /// Whether the entry refers to the stack of an earlier one.
    pub fn refers_to_stack(&self) -> bool {
        self.stack_memo.is_none() && !self.frames.is_empty()
    }
}

/// The skeletons of earlier entries.
#[derive(Debug, Default)]
pub(super) struct Skeletons {
    all: Vec<Skeleton>,
    /// The one that matched last, and the one that was learned last.
    matched: usize,
    learned: usize,
    /// The last id that was given.
    last_id: SkeletonId,
}

impl Skeletons {
    /// Matches the next entry, whose bytes follow its first opcode.
    pub fn read(
        &mut self,
        bytes: &[u8],
        memos: &Memos,
        lists: &mut StackLists,
        heap: &mut Heap,
    ) -> Option<(Match, &mut Skeleton)> {
        let found = match self.all.get(self.matched)?.read(bytes, memos, lists, heap) {
            Some(found) => found,
            None => self.read_with_others(bytes, memos, lists, heap)?,
        };
        Some((found, self.all.get_mut(self.matched)?))
    }

    fn read_with_others(
        &mut self,
        bytes: &[u8],
        memos: &Memos,
        lists: &mut StackLists,
        heap: &mut Heap,
    ) -> Option<Match> {
        let others = (0..self.all.len()).filter(|index| *index != self.matched);
        let mut others = others.map(|index| (index, self.all[index].read(bytes, memos, lists, heap)));
        let (index, found) = others.find_map(|(index, found)| Some((index, found?)))?;
        self.matched = index;
        Some(found)
    }

    /// Learns from an entry, whose bytes follow its first opcode. `defined` has its memos, and `spans` its values.
    #[cold]
    pub fn learn(&mut self, entry: &[u8], spans: &[Span], fields: &Fields, defined: &[Memo]) {
        let Some(mut skeleton) = Skeleton::of(entry, spans, fields, defined) else { return };
        self.last_id.0 += 1;
        skeleton.id = self.last_id;
        if self.all.len() < MAX_SKELETONS {
            self.learned = self.all.len();
            self.all.push(skeleton);
        } else {
            self.learned = (self.learned + 1) % MAX_SKELETONS;
            self.all[self.learned] = skeleton;
        }
        self.matched = self.learned;
    }
}

/// The parts of an entry.
struct Parts<'e> {
    entry: &'e [u8],
    /// For each byte, the bits that entries repeat.
    mask: Vec<u8>,
    all: Vec<(Part, Then)>,
    /// Where the next part begins.
    from: usize,
}

impl Parts<'_> {
    /// Adds the part up to a position.
    fn end(&mut self, until: usize, then: Then) -> Option<()> {
        while until - self.from > Part::MAX {
            self.add(self.from + Part::MAX, Then::Nothing)?;
        }
        self.add(until, then)
    }

    fn add(&mut self, until: usize, then: Then) -> Option<()> {
        let range = self.from..until;
        let part = Part::new(self.entry.get(range.clone())?, self.mask.get(range)?)?;
        self.all.push((part, then));
        self.from = until;
        (self.all.len() <= MAX_PARTS).then_some(())
    }

    /// Adds the part before a value of unknown length.
    fn skip(&mut self, span: &Span, then: Then) -> Option<()> {
        self.end(span.from, then)?;
        self.from = span.until;
        Some(())
    }

    /// Takes a number out of the bytes that entries repeat.
    fn open(&mut self, span: &Span, opcode_len: usize) -> Option<Place> {
        // A number is in one part.
        if span.until - self.from > Part::MAX {
            self.end(span.from, Then::Nothing)?;
        }
        let from = span.from + opcode_len;
        let bits = self.mask.get_mut(from..span.until)?;
        bits.fill(0);
        if span.key != Key::Action {
            // The sign: negative numbers are left to the machine.
            *bits.last_mut()? = 0x80;
        }
        Place::new(self.all.len(), from - self.from, span.until - from)
    }
}

impl Skeleton {
    fn of(entry: &[u8], spans: &[Span], fields: &Fields, defined: &[Memo]) -> Option<Self> {
        let mut parts = Parts { entry, mask: vec![u8::MAX; entry.len()], all: Vec::new(), from: 0 };
        let (mut action, mut places, mut seen) = (None, Places::default(), Vec::new());
        for span in spans.iter().filter(|span| changes(span.key)) {
            if seen.contains(&span.key) {
                return None;
            }
            // Another entry may have a number there, which defines no memo.
            if span.key != Key::Frames && span.memos.0 != span.memos.1 {
                return None;
            }
            seen.push(span.key);
            let opcode_len = opcode_len(span.key, entry.get(span.from..span.until)?);
            match (opcode_len, span.key) {
                (Some(len), Key::Action) => action = Some(parts.open(span, len)?),
                (Some(len), Key::Addr) => places.addr = Some(parts.open(span, len)?),
                (Some(len), Key::DeviceFree) => places.device_free = Some(parts.open(span, len)?),
                (Some(len), Key::TimeUs) => places.time_us = Some(parts.open(span, len)?),
                (_, Key::Frames) => parts.skip(span, Then::Frames)?,
                (_, key) => parts.skip(span, Then::Number(key))?,
            }
        }
        parts.end(entry.len(), Then::Nothing)?;
        let frames = spans.iter().find(|span| span.key == Key::Frames);
        let (before, after) = frames.map_or((defined.len(), defined.len()), |frames| frames.memos);
        Some(Self {
            id: SkeletonId::default(),
            parts: parts.all,
            action: action?,
            places,
            shared: SharedFields::new(*fields),
            before_stack: defined.get(..before)?.to_vec(),
            after_stack: defined.get(after..)?.to_vec(),
        })
    }

    /// The fields that entries share.
    pub fn shared(&mut self) -> &mut SharedFields {
        &mut self.shared
    }

    /// The memos that an entry that matched defines.
    pub fn defined(&self, found: &Match) -> Vec<Memo> {
        [self.before_stack.as_slice(), found.stack_memo.as_slice(), &self.after_stack].concat()
    }

    fn read(&self, bytes: &[u8], memos: &Memos, lists: &mut StackLists, heap: &mut Heap) -> Option<Match> {
        let mut cursor = Cursor::new(bytes);
        let mut starts = [0; MAX_PARTS];
        let (mut stack, mut memo, mut numbers) = (None, None, self.shared.numbers());
        let mut frames = None;
        for ((part, then), start) in self.parts.iter().zip(&mut starts) {
            *start = cursor.position();
            // Near the end of the file, there are not enough bytes to compare.
            if !part.is_next(cursor.next_bytes()?) {
                return None;
            }
            cursor.skip(part.len());
            match *then {
                Then::Nothing => {}
                Then::Number(key) => *numbers.of(key)? = cursor.int(cursor.word()?)?,
                Then::Frames => {
                    let from = cursor.position();
                    (stack, memo) = lists.value(cursor.word()?, &mut cursor, memos, heap)?;
                    frames = Some(from..cursor.position());
                }
            }
        }
        if let Some(place) = self.places.addr {
            numbers.addr = place.number(bytes, &starts)?;
        }
        if let Some(place) = self.places.device_free {
            numbers.device_free = place.number(bytes, &starts)?;
        }
        if let Some(place) = self.places.time_us {
            numbers.time_us = place.number(bytes, &starts)?;
        }
        let action = usize::try_from(self.action.number(bytes, &starts)?).ok()?;
        let Value::Text(action) = memos.get(action)?.value() else { return None };
        let own = OwnFields { action: Some(action), numbers, stack };
        let len = cursor.position();
        Some(Match { len, starts, frames: frames.unwrap_or(len..len), own, stack_memo: memo })
    }
}

#[cfg(test)]
mod tests;
