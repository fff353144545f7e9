//! Reads the entries of traces without the stack of the machine.
//!
//! Nearly all of a snapshot are entries of the same form: a dictionary of known keys, which are references to memos,
//! with numbers, short texts and a list of references to source lines. Such an entry is read in one pass and goes
//! directly to its trace. Entries of any other form are left to the machine.
//!
//! Entries repeat: they have the keys of the entry before, and the stack after a stack is usually the one that followed
//! it the last time. Both are compared as bytes, and only interpreted if they differ. Most entries need not even be read
//! key by key, because they match an earlier one (`skeleton`).

use rustc_hash::FxHashMap;

use super::super::heap::{Heap, TextId, Value};
use super::super::keys::{self, Key};
use super::super::trace::Fields;
use super::skeleton::{Skeletons, Span};
use super::{Machine, Memo, Memos, Step};
use crate::history::snapshot::StackIndex;

/// The maximum size of such an entry.
const MAX_ENTRY: usize = 16 << 10;
/// The maximum number of memos that such an entry defines.
const MAX_MEMOS: usize = 8;

/// What earlier entries had.
#[derive(Default)]
pub(super) struct Usual {
    keys: Vec<UsualKey>,
    lists: StackLists,
    skeletons: Skeletons,
}

/// The lists of references to lines, and the stacks that they are.
#[derive(Default)]
pub(super) struct StackLists {
    all: Vec<UsualList>,
    by_references: FxHashMap<Box<[u8]>, u32>,
    expected: Expected,
}

/// Predicts the next list from the last ones: a program that repeats itself has the same lists in the same order, but the
/// same list occurs in several places.
struct Expected {
    /// The last lists, [`Self::BITS`] of the number of each.
    context: u64,
    /// The lists that followed the contexts, by a hash.
    lists: Box<[u32]>,
}

impl Default for Expected {
    fn default() -> Self {
        Self { context: 0, lists: vec![0; 1 << Self::TABLE_BITS].into() }
    }
}

impl Expected {
    const BITS: u32 = 12;
    const TABLE_BITS: u32 = 12;

    #[inline]
    fn slot(&self) -> usize {
        // The multiplier of FxHash.
        let hash = self.context.wrapping_mul(0xf135_7aea_2e62_a9c5);
        usize::try_from(hash >> (64 - Self::TABLE_BITS)).unwrap_or(0)
    }

    /// The list that is expected next.
    #[inline]
    fn next(&self) -> usize {
        self.lists.get(self.slot()).map_or(0, |list| *list as usize)
    }

    /// Sets the list that came instead of the expected one.
    fn correct(&mut self, list: u32) {
        let slot = self.slot();
        self.lists[slot] = list;
    }

    /// Continues after a list.
    #[inline]
    fn advance(&mut self, list: usize) {
        self.context = self.context << Self::BITS ^ list as u64;
    }
}

/// A reference to a key, as the lowest bytes of a word.
#[derive(Clone, Copy)]
struct UsualKey {
    word: u64,
    len: usize,
    key: Key,
}

/// A list of references to lines.
struct UsualList {
    /// The references, with the opcode that ends the list.
    references: Box<[u8]>,
    stack: StackIndex,
}

/// An entry, and the memos that it defines.
struct Found {
    /// The number of bytes.
    len: usize,
    fields: Fields,
    memos: [Memo; MAX_MEMOS],
    count: usize,
}

impl Found {
    fn define(&mut self, memo: Option<Memo>) -> Option<()> {
        *self.memos.get_mut(self.count)? = memo?;
        self.count += 1;
        Some(())
    }
}

impl Machine<'_> {
    /// Reads the rest of a dictionary whose first opcode was read, and the dictionaries after it, as long as they are
    /// entries of the usual form. Returns `false` if the first opcode of another dictionary was read last.
    pub(super) fn entries(&mut self) -> Step<bool> {
        let Some(trace) = self.open_trace() else { return Ok(false) };
        loop {
            if !self.entry(trace)? {
                return Ok(false);
            }
            if !self.source.take(b'}') {
                return Ok(true);
            }
        }
    }

    /// Reads the rest of an entry. Returns whether it has the usual form; if not, nothing was read.
    fn entry(&mut self, trace: usize) -> Step<bool> {
        self.source.look_ahead(MAX_ENTRY)?;
        let Self { source, memo, heap, usual, .. } = self;
        let bytes = &source.buffer[source.next..source.end];
        let Usual { lists, skeletons, .. } = usual;
        if let Some((found, skeleton)) = skeletons.read(bytes, memo, lists, heap) {
            source.next += found.len;
            skeleton.define(&found, memo);
            heap.add_entry_of(trace, skeleton.shared(), &found.own, found.len);
            return Ok(true);
        }
        let mut parser = Parser { cursor: Cursor::new(bytes), memo, heap, usual, spans: Vec::new() };
        let Some(found) = parser.entry() else { return Ok(false) };
        let (spans, defined) = (parser.spans, &found.memos[..found.count]);
        usual.skeletons.learn(&bytes[..found.len], &spans, &found.fields, defined);
        source.next += found.len;
        for new in defined {
            memo.push(*new);
        }
        heap.add_entry(trace, &found.fields);
        Ok(true)
    }

    /// The trace whose entries are being read. Entries that the machine has read are added to it first.
    fn open_trace(&mut self) -> Option<usize> {
        let mark = *self.marks.last()?;
        let list = *self.stack.get(mark.checked_sub(1)?)?;
        let trace = self.heap.trace_of(list)?;
        if self.stack.len() > mark {
            // In a corrupt file, these may be the keys of a dictionary that is not complete.
            if !self.stack[mark..].iter().all(|item| self.heap.is_entry(*item)) {
                return None;
            }
            self.heap.append(list.object()?, &self.stack[mark..]);
            self.stack.truncate(mark);
        }
        Some(trace)
    }
}

/// A position in the bytes of an entry.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn skip(&mut self, len: usize) {
        self.at += len;
    }

    /// The next bytes, even if the entry is shorter. Near the end of the file, there are not enough.
    #[inline]
    pub fn next_bytes<const N: usize>(&self) -> Option<&'b [u8; N]> {
        self.bytes.get(self.at..)?.first_chunk()
    }

    /// The next eight bytes, the first of them as the lowest. Near the end of the file, entries are left to the machine.
    #[inline]
    pub fn word(&self) -> Option<u64> {
        self.next_bytes().map(|bytes| u64::from_le_bytes(*bytes))
    }

    #[inline]
    pub fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Skips some bytes if they are the next ones.
    #[inline]
    fn takes(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(bytes).then(|| self.at += bytes.len())
    }

    /// The number of a memo, and the length of the reference to it.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bytes of the word")]
    pub fn reference(word: u64) -> Option<(usize, usize)> {
        let index = (word >> 8) as u32;
        match word as u8 {
            b'h' => Some((usize::from(index as u8), 2)),
            b'j' => Some((index as usize, 5)),
            _ => None,
        }
    }

    /// A number, whose first bytes are `word`.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bytes of the word")]
    pub fn int(&mut self, word: u64) -> Option<u64> {
        let rest = word >> 8;
        let (value, len) = match word as u8 {
            b'K' => (rest & 0xff, 2),
            b'M' => (rest & 0xffff, 3),
            b'J' => (Value::from_signed((rest as u32).cast_signed().into()).int()?, 5),
            // Longer numbers, and negative ones, are left to the machine.
            0x8a if (1..=8).contains(&(rest as u8)) => {
                let len = rest as u8;
                let shift = 64 - 8 * u32::from(len);
                let bytes = self.bytes.get(self.at + 2..)?.first_chunk()?;
                let value = u64::from_le_bytes(*bytes) << shift;
                if value >> 63 == 1 {
                    return None;
                }
                (value >> shift, 2 + usize::from(len))
            }
            _ => return None,
        };
        self.at += len;
        Some(value)
    }
}

/// What follows in a dictionary.
enum Next {
    Key(Key),
    End,
}

/// Reads one entry.
struct Parser<'p, 'b> {
    cursor: Cursor<'b>,
    memo: &'p Memos,
    heap: &'p mut Heap,
    usual: &'p mut Usual,
    /// The values that were read.
    spans: Vec<Span>,
}

impl Parser<'_, '_> {
    fn entry(&mut self) -> Option<Found> {
        self.cursor.takes(b"\x94(")?;
        let memos = [Memo::new(Value::Object(self.heap.unused()))?; MAX_MEMOS];
        let mut found = Found { len: 0, fields: Fields::default(), memos, count: 1 };
        for index in 0.. {
            match self.key(index)? {
                Next::Key(key) => {
                    let (from, before) = (self.cursor.at, found.count);
                    self.value(key, &mut found)?;
                    self.spans.push(Span { key, from, until: self.cursor.at, memos: (before, found.count) });
                }
                Next::End => break,
            }
        }
        found.len = self.cursor.at;
        found.fields.has_action().then_some(found)
    }

    /// The key at an index.
    #[inline]
    fn key(&mut self, index: usize) -> Option<Next> {
        let word = self.cursor.word()?;
        if let Some(usual) = self.usual.keys.get(index)
            && word << (64 - 8 * usual.len) == usual.word << (64 - 8 * usual.len)
        {
            self.cursor.at += usual.len;
            return Some(Next::Key(usual.key));
        }
        if word & 0xff == u64::from(b'u') {
            self.cursor.at += 1;
            return Some(Next::End);
        }
        let (memo, len) = Cursor::reference(word)?;
        let Value::Text(key) = self.memo.get(memo)?.value() else { return None };
        let key = keys::of(key)?;
        self.usual.keys.truncate(index);
        self.usual.keys.push(UsualKey { word, len, key });
        self.cursor.at += len;
        Some(Next::Key(key))
    }

    #[inline]
    fn value(&mut self, key: Key, found: &mut Found) -> Option<()> {
        let word = self.cursor.word()?;
        match word.to_le_bytes() {
            [b'h' | b'j' | b']', ..] if key == Key::Frames => {
                let (stack, memo) = self.usual.lists.value(word, &mut self.cursor, self.memo, self.heap)?;
                found.fields.set_stack(stack);
                if memo.is_some() {
                    found.define(memo)?;
                }
            }
            [b'h' | b'j', ..] => {
                let (memo, len) = Cursor::reference(word)?;
                self.cursor.at += len;
                match self.memo.get(memo)?.value() {
                    Value::Object(_) | Value::Stack(_) => return None,
                    value => found.fields.set(key, value),
                }
            }
            [0x8c, len, ..] => {
                let text = self.text(len.into())?;
                found.define(Memo::new(Value::Text(text)))?;
                found.fields.set(key, Value::Text(text));
            }
            _ => {
                let value = self.cursor.int(word)?;
                found.fields.set(key, Value::Int(value));
            }
        }
        Some(())
    }

    /// A short text that has occurred before.
    fn text(&mut self, len: usize) -> Option<TextId> {
        let text = self.cursor.rest().get(2..2 + len)?;
        self.cursor.at += 2 + len;
        self.cursor.takes(b"\x94")?;
        self.heap.known_text(text)
    }
}

impl StackLists {
    /// A stack, which is a reference or a list, and the memo that a list defines. `word` has the first bytes of the value.
    #[inline]
    pub fn value(
        &mut self,
        word: u64,
        cursor: &mut Cursor<'_>,
        memos: &Memos,
        heap: &mut Heap,
    ) -> Option<(Option<StackIndex>, Option<Memo>)> {
        const EMPTY: u64 = u64::from_le_bytes([b']', 0x94, 0, 0, 0, 0, 0, 0]);
        const LIST: u64 = u64::from_le_bytes([b']', 0x94, b'(', 0, 0, 0, 0, 0]);
        match word & 0xff_ffff {
            LIST => {
                cursor.at += 3;
                let stack = Some(self.stack(cursor, memos, heap)?);
                Some((stack, Some(Memo::new(Value::Stack(stack))?)))
            }
            begin if begin & 0xffff == EMPTY => {
                cursor.at += 2;
                Some((None, Some(Memo::new(Value::Stack(None))?)))
            }
            _ => {
                let (memo, len) = Cursor::reference(word)?;
                cursor.at += len;
                match memos.get(memo)?.value() {
                    frames @ (Value::Object(_) | Value::Stack(_)) => Some((heap.stack_of(frames), None)),
                    _ => None,
                }
            }
        }
    }

    /// The stack of a list, after the opcode that begins its items.
    #[inline]
    fn stack(&mut self, cursor: &mut Cursor<'_>, memos: &Memos, heap: &mut Heap) -> Option<StackIndex> {
        let expected = self.expected.next();
        if let Some(list) = self.all.get(expected)
            && cursor.rest().starts_with(&list.references)
        {
            cursor.at += list.references.len();
            self.expected.advance(expected);
            return Some(list.stack);
        }
        self.unexpected_stack(cursor, memos, heap)
    }

    #[inline(never)]
    fn unexpected_stack(
        &mut self,
        cursor: &mut Cursor<'_>,
        memos: &Memos,
        heap: &mut Heap,
    ) -> Option<StackIndex> {
        let references = references(cursor.rest())?;
        let index = match self.by_references.get(references) {
            Some(known) => *known,
            None => self.new_list(references, memos, heap)?,
        };
        cursor.at += references.len();
        self.expected.correct(index);
        self.expected.advance(index as usize);
        self.all.get(index as usize).map(|list| list.stack)
    }

    fn new_list(&mut self, references: &[u8], memos: &Memos, heap: &mut Heap) -> Option<u32> {
        let mut lines = Vec::new();
        let mut cursor = Cursor::new(references);
        while let Some((memo, len)) = first_reference(cursor.rest()) {
            lines.push(heap.line_of(memos.get(memo)?.value())?);
            cursor.at += len;
        }
        let stack = heap.stacks.add(&lines)?;
        let index = u32::try_from(self.all.len()).ok()?;
        self.all.push(UsualList { references: references.into(), stack });
        self.by_references.insert(references.into(), index);
        Some(index)
    }
}

fn first_reference(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    Cursor::reference(u64::from_le_bytes(word))
}

/// The bytes of references up to the end of a list, with the opcode that ends it.
fn references(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        at += match bytes.get(at)? {
            b'j' => 5,
            b'h' => 2,
            b'e' => return bytes.get(..=at),
            _ => return None,
        };
    }
}
