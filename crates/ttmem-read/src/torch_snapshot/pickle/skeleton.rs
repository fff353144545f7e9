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
use super::super::trace::Fields;
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
    words: [u64; Self::WORDS],
    /// The bits of the words that belong to the run.
    mask: [u64; Self::WORDS],
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
        Some(Self { words: words(&padded), mask: words(&mask), len: bytes.len() })
    }

    /// Skips the run if its bytes are the next ones.
    #[inline]
    #[allow(clippy::needless_range_loop, reason = "three arrays of the same length")]
    fn skip(&self, cursor: &mut Cursor<'_>) -> Option<()> {
        let next: &[u8; Self::MAX] = cursor.next_bytes()?;
        let (next, _) = next.as_chunks();
        let mut difference = 0;
        for at in 0..Self::WORDS {
            difference |= (u64::from_le_bytes(next[at]) ^ self.words[at]) & self.mask[at];
        }
        (difference == 0).then(|| cursor.skip(self.len))
    }
}

fn words(bytes: &[u8; Run::MAX]) -> [u64; Run::WORDS] {
    let mut words = [0; Run::WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
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
struct Skeleton {
    gaps: Vec<Gap>,
    /// The bytes after the last gap.
    end: Run,
    /// The fields of the values that entries share.
    fields: Fields,
    /// The memos that entries define before and after that of their stack, if they have one.
    before_stack: Vec<Memo>,
    after_stack: Vec<Memo>,
}

/// An entry that matched.
pub(super) struct Match {
    /// The number of bytes.
    pub len: usize,
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
    /// Matches the next entry, whose bytes follow its first opcode, and sets its fields.
    #[inline]
    pub fn read(
        &mut self,
        bytes: &[u8],
        memos: &Memos,
        lists: &mut StackLists,
        heap: &mut Heap,
        fields: &mut Fields,
    ) -> Option<Match> {
        let last = self.all.get(self.matched)?;
        if let Some(found) = last.read(bytes, memos, lists, heap, fields) {
            return Some(found);
        }
        let others = (0..self.all.len()).filter(|index| *index != self.matched);
        let mut others = others.map(|index| (index, self.all[index].read(bytes, memos, lists, heap, fields)));
        let (index, found) = others.find_map(|(index, found)| Some((index, found?)))?;
        self.matched = index;
        Some(found)
    }

    /// Defines the memos of the entry that matched last.
    #[inline]
    pub fn define(&self, found: &Match, memos: &mut Memos) {
        let Some(skeleton) = self.all.get(self.matched) else { return };
        for memo in &skeleton.before_stack {
            memos.push(*memo);
        }
        if let Some(stack) = found.stack {
            memos.push(stack);
        }
        for memo in &skeleton.after_stack {
            memos.push(*memo);
        }
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
            fields: fields.without_stack(),
            before_stack: defined.get(..before)?.to_vec(),
            after_stack: defined.get(after..)?.to_vec(),
        })
    }

    /// Not inlined, so that the fields stay where they are.
    #[inline(never)]
    fn read(
        &self,
        bytes: &[u8],
        memos: &Memos,
        lists: &mut StackLists,
        heap: &mut Heap,
        fields: &mut Fields,
    ) -> Option<Match> {
        let mut cursor = Cursor::new(bytes);
        let mut stack = None;
        *fields = self.fields;
        for gap in &self.gaps {
            gap.before.skip(&mut cursor)?;
            let word = cursor.word()?;
            match gap.key {
                Key::Action => {
                    let (memo, len) = Cursor::reference(word)?;
                    cursor.skip(len);
                    let Value::Text(action) = memos.get(memo)?.value() else { return None };
                    fields.set(Key::Action, Value::Text(action));
                }
                Key::Frames => {
                    let (of_list, memo) = lists.value(word, &mut cursor, memos, heap)?;
                    fields.set_stack(of_list);
                    stack = memo;
                }
                key => fields.set(key, Value::Int(cursor.int(word)?)),
            }
        }
        self.end.skip(&mut cursor)?;
        Some(Match { len: cursor.position(), stack })
    }
}

#[cfg(test)]
mod tests;
