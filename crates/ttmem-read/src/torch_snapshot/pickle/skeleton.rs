//! Reads entries that differ from an earlier one only in some of their values.
//!
//! A program's entries have the same keys in the same order, and the values of most keys are always the same: the stream,
//! the annotations of the compiler, the metadata. A [`Skeleton`] is learned from one entry: runs of bytes that the next
//! entries are expected to repeat, and between them the values that change with every entry. Matching an entry therefore
//! takes a few comparisons of whole runs, and no decision for each opcode.
//!
//! An entry that does not match is left to `entries`, which interprets every key and value, and whose result is learned.
//! Equal bytes have equal meanings as long as no memo is replaced; then all skeletons are dropped.

use super::super::heap::{Heap, Value};
use super::super::keys::Key;
use super::super::trace::{Fields, OwnFields, SharedFields};
use super::entries::{Cursor, StackLists};
use super::{Memo, Memos};

/// The maximum number of skeletons: entries of a few kinds alternate.
const MAX_SKELETONS: usize = 4;
/// The maximum number of changing values in an entry.
const MAX_GAPS: usize = 8;

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

/// A run of bytes that entries repeat.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The bytes, and the bits of them that belong to the run, eight bytes at a time.
    words: [(u64, u64); Self::WORDS],
    /// The number of words that have bytes of the run.
    count: usize,
    len: usize,
}

impl Run {
    const WORDS: usize = 6;
    const MAX: usize = 8 * Self::WORDS;

    /// `None` if there are too many bytes.
    fn new(bytes: &[u8]) -> Option<Self> {
        let (mut padded, mut mask) = ([0; Self::MAX], [0; Self::MAX]);
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        mask[..bytes.len()].fill(u8::MAX);
        let mut words = [(0, 0); Self::WORDS];
        let parts = padded.as_chunks().0.iter().zip(mask.as_chunks().0);
        for (word, (bytes, mask)) in words.iter_mut().zip(parts) {
            *word = (u64::from_le_bytes(*bytes), u64::from_le_bytes(*mask));
        }
        Some(Self { words, count: bytes.len().div_ceil(8), len: bytes.len() })
    }

    /// Skips the run if its bytes are the next ones. Near the end of the file, there are not enough to compare.
    #[inline]
    fn skip(&self, cursor: &mut Cursor<'_>) -> Option<()> {
        let next: &[u8; Self::MAX] = cursor.rest().first_chunk()?;
        let (next, _) = next.as_chunks();
        let (mut difference, mut at) = (0, 0);
        while at < self.count {
            let (word, mask) = self.words[at];
            difference |= (u64::from_le_bytes(next[at]) ^ word) & mask;
            at += 1;
        }
        (difference == 0).then(|| cursor.skip(self.len))
    }
}

/// A value that changes with every entry, and the run of bytes before it.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: Run,
    key: Key,
}

/// Whether the values of a key change with every entry.
fn changes(key: Key) -> bool {
    matches!(key, Key::Action | Key::Addr | Key::DeviceFree | Key::Size | Key::TimeUs | Key::Frames)
}

/// The bytes that entries of one form share.
#[derive(Debug)]
pub(super) struct Skeleton {
    gaps: Vec<Gap>,
    /// The bytes after the last gap.
    end: Run,
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
    /// The fields that other entries do not share.
    pub own: OwnFields,
    /// The memo of its stack, if it defines one.
    stack: Option<Memo>,
}

/// The skeletons of earlier entries.
#[derive(Debug, Default)]
pub(super) struct Skeletons {
    all: Vec<Skeleton>,
    /// The one that matched last, and the one that was learned last.
    matched: usize,
    learned: usize,
}

impl Skeletons {
    /// Matches the next entry, whose bytes follow its first opcode.
    #[inline]
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

    #[inline(never)]
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
        let Some(skeleton) = Skeleton::of(entry, spans, fields, defined) else { return };
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

impl Skeleton {
    fn of(entry: &[u8], spans: &[Span], fields: &Fields, defined: &[Memo]) -> Option<Self> {
        let mut gaps: Vec<Gap> = Vec::new();
        let mut from = 0;
        for span in spans.iter().filter(|span| changes(span.key)) {
            if gaps.len() == MAX_GAPS || gaps.iter().any(|gap| gap.key == span.key) {
                return None;
            }
            gaps.push(Gap { before: Run::new(entry.get(from..span.from)?)?, key: span.key });
            from = span.until;
        }
        let frames = spans.iter().find(|span| span.key == Key::Frames);
        let (before, after) = frames.map_or((defined.len(), defined.len()), |frames| frames.memos);
        Some(Self {
            gaps,
            end: Run::new(entry.get(from..)?)?,
            shared: SharedFields::new(*fields),
            before_stack: defined.get(..before)?.to_vec(),
            after_stack: defined.get(after..)?.to_vec(),
        })
    }

    /// The fields that entries share.
    pub fn shared(&mut self) -> &mut SharedFields {
        &mut self.shared
    }

    /// Defines the memos of an entry that matched.
    #[inline]
    pub fn define(&self, found: &Match, memos: &mut Memos) {
        memos.push_all(&self.before_stack);
        if let Some(stack) = found.stack {
            memos.push(stack);
        }
        memos.push_all(&self.after_stack);
    }

    #[inline]
    fn read(&self, bytes: &[u8], memos: &Memos, lists: &mut StackLists, heap: &mut Heap) -> Option<Match> {
        let mut cursor = Cursor::new(bytes);
        let (mut stack, mut memo) = (None, None);
        let (mut action, mut numbers) = (self.shared.action(), self.shared.numbers());
        for gap in &self.gaps {
            gap.before.skip(&mut cursor)?;
            let word = cursor.word()?;
            match gap.key {
                Key::Action => {
                    let (reference, len) = Cursor::reference(word)?;
                    cursor.skip(len);
                    let Value::Text(text) = memos.get(reference)?.value() else { return None };
                    action = Some(text);
                }
                Key::Frames => (stack, memo) = lists.value(word, &mut cursor, memos, heap)?,
                Key::Addr => numbers.addr = cursor.int(word)?,
                Key::DeviceFree => numbers.device_free = cursor.int(word)?,
                Key::Size => numbers.size = cursor.int(word)?,
                Key::TimeUs => numbers.time_us = cursor.int(word)?,
                _ => return None,
            }
        }
        self.end.skip(&mut cursor)?;
        Some(Match { len: cursor.position(), own: OwnFields { action, numbers, stack }, stack: memo })
    }
}

#[cfg(test)]
mod tests;
