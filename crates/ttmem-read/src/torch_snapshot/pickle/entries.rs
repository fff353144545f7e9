//! Reads the entries of traces without the stack of the machine.
//!
//! Nearly all of a snapshot are entries of the same form: a dictionary of known keys, which are references to memos,
//! with numbers, short texts and a list of references to source lines. Such an entry is read in one pass and goes
//! directly to its trace. Entries of any other form are left to the machine.
//!
//! Entries repeat: they have the keys of the entry before, which are compared as bytes and only interpreted if they differ.
//! Most entries need not even be read key by key, because they match an earlier one (`skeleton`), and nearly all of these
//! are expected (`forms`).

use rustc_hash::FxHashMap;

use super::super::heap::{Heap, TextId, Value, is_of_batches};
use super::super::keys::{self, Key};
use super::super::trace::{Fields, ParsedEntry};
use super::forms::{Forms, Sample};
use super::skeleton::{Skeletons, Span};
use super::{MAX_DEPTH, Machine, Memo, Memos};
use crate::history::snapshot::StackIndex;

/// The number of bytes that are in the buffer when an entry begins, unless the file ends before. If an entry is longer, the
/// machine may have to read it.
const MAX_ENTRY: usize = 16 << 10;
/// The maximum number of memos that such an entry defines.
const MAX_MEMOS: usize = 8;

/// What earlier entries had.
#[derive(Default)]
pub(super) struct Usual {
    keys: Vec<UsualKey>,
    lists: StackLists,
    skeletons: Skeletons,
    forms: Forms,
}

/// The stacks of lists of references to lines, with the opcode that ends the list.
#[derive(Default)]
pub(super) struct StackLists(FxHashMap<Box<[u8]>, StackIndex>);

/// A reference to a key, as the lowest bytes of a word.
#[derive(Clone, Copy)]
struct UsualKey {
    word: u64,
    len: usize,
    key: Key,
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
    pub(super) fn entries(&mut self) -> bool {
        let Some(trace) = self.open_trace() else { return false };
        loop {
            self.source.look_ahead(MAX_ENTRY);
            if !self.expected_entries(trace) && !self.matching_entry(trace) && !self.entry(trace) {
                return false;
            }
            if !self.source.take(b'}') {
                return true;
            }
        }
    }

    /// Reads entries of the expected forms, up to the last one that the buffer certainly has. The first one has begun.
    /// Returns `false` if the last one that has begun has another form.
    fn expected_entries(&mut self, trace: usize) -> bool {
        let Self { source, memo, heap, usual, .. } = self;
        let Some((trace, direct)) = heap.direct_to(trace) else { return false };
        let bytes = &source.buffer[..source.end];
        while let Some((entry, len)) = usual.forms.read(&bytes[source.next..], memo) {
            source.next += len;
            *direct += 1;
            trace.push_expected(entry, len);
            if source.end - source.next < MAX_ENTRY || bytes[source.next] != b'}' {
                return true;
            }
            source.next += 1;
        }
        false
    }

    /// Reads an entry that matches a skeleton.
    fn matching_entry(&mut self, trace: usize) -> bool {
        let Self { source, memo, heap, usual: Usual { lists, skeletons, forms, .. }, .. } = self;
        let bytes = &source.buffer[source.next..source.end];
        let Some((found, skeleton)) = skeletons.read(bytes, memo, lists, heap) else { return false };
        let parsed = heap.add_entry_of(trace, skeleton.shared(), &found.own, found.len);
        if let ParsedEntry::Memory(entry) = &parsed {
            forms.learn(Sample { bytes: &bytes[..found.len], skeleton, found: &found, entry });
        }
        skeleton.defined(&found).into_iter().for_each(|new| memo.push(new));
        source.next += found.len;
        true
    }

    /// Reads the rest of an entry. Returns whether it has the usual form; if not, nothing was read.
    fn entry(&mut self, trace: usize) -> bool {
        let Self { source, memo, heap, usual, .. } = self;
        let bytes = &source.buffer[source.next..source.end];
        let mut parser = Parser { cursor: Cursor::new(bytes), memo, heap, usual, spans: Vec::new() };
        let Some(found) = parser.entry() else { return false };
        let (spans, defined) = (parser.spans, &found.memos[..found.count]);
        usual.skeletons.learn(&bytes[..found.len], &spans, &found.fields, defined);
        source.next += found.len;
        for new in defined {
            memo.push(*new);
        }
        heap.add_entry(trace, &found.fields);
        true
    }

    /// The trace whose entries are being read.
    fn open_trace(&self) -> Option<usize> {
        let mark = *self.marks.last()?;
        // The machine needs two marks for an entry with a list.
        let is_open = self.stack.len() == mark && self.marks.len() + 2 <= MAX_DEPTH;
        self.heap.trace_of(*self.stack.get(mark.checked_sub(1)?)?).filter(|_| is_open)
    }

    /// Moves an entry to the trace whose entries are being read. It is the last value of the stack, if it is one.
    pub(super) fn move_entry(&mut self) {
        let Some(entry) = self.stack.pop_if(|value| self.heap.is_entry(*value)) else { return };
        match (self.open_trace(), self.stack.last().and_then(|list| list.object())) {
            (Some(_), Some(list)) => {
                self.heap.append(list, &[entry]);
            }
            _ => self.stack.push(entry),
        }
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
    ///
    /// Most numbers in traces have one to four bytes, in no order that a processor can predict. So the only branches are for
    /// numbers that are left to the machine: negative ones, and those of more than eight bytes.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bytes of the word")]
    pub fn int(&mut self, word: u64) -> Option<u64> {
        let (opcode, second) = (word as u8, (word >> 8) as u8);
        let is_long = opcode == 0x8a;
        let len = if is_long { second } else { INT_BYTES[usize::from(opcode)] };
        if !(1..=8).contains(&len) {
            return None;
        }
        let begin = self.at + 1 + usize::from(is_long);
        let bytes = u64::from_le_bytes(*self.bytes.get(begin..)?.first_chunk()?);
        let unused = 64 - 8 * u32::from(len);
        let highest = bytes << unused;
        let is_signed = is_long || opcode == b'J';
        if is_signed && highest >> 63 == 1 {
            return None;
        }
        self.at = begin + usize::from(len);
        Some(highest >> unused)
    }
}

/// The length of the number after each opcode that states it.
const INT_BYTES: [u8; 256] = {
    let mut lens = [0; 256];
    lens[b'K' as usize] = 1;
    lens[b'M' as usize] = 2;
    lens[b'J' as usize] = 4;
    lens
};

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
            _ if key == Key::Frames => {
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
    fn stack(&mut self, cursor: &mut Cursor<'_>, memos: &Memos, heap: &mut Heap) -> Option<StackIndex> {
        let references = references(cursor.rest())?;
        let stack = match self.0.get(references) {
            Some(known) => *known,
            None => self.new_stack(references, memos, heap)?,
        };
        cursor.at += references.len();
        Some(stack)
    }

    fn new_stack(&mut self, references: &[u8], memos: &Memos, heap: &mut Heap) -> Option<StackIndex> {
        let mut lines = Vec::new();
        let mut cursor = Cursor::new(references);
        while let Some((memo, len)) = first_reference(cursor.rest()) {
            lines.push(heap.line_of(memos.get(memo)?.value())?);
            cursor.at += len;
        }
        if is_of_batches(lines.len()) {
            // The list may be continued.
            return None;
        }
        let stack = heap.stacks.add(&lines)?;
        self.0.insert(references.into(), stack);
        Some(stack)
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
