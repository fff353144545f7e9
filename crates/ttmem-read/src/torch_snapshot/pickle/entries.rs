//! Reads the entries of traces without the stack of the machine.
//!
//! Nearly all of a snapshot are entries of the same form: a dictionary of known keys, which are references to memos,
//! with numbers, short texts and a list of references to source lines. Such an entry is read in one pass and goes
//! directly to its trace. Entries of any other form are left to the machine.
//!
//! Entries repeat: they have the keys of the entry before, and the stack after a stack is usually the one that followed
//! it the last time. Both are compared as bytes, and only interpreted if they differ.

use std::io::Read;

use rustc_hash::FxHashMap;

use super::super::heap::{Heap, TextId, Value};
use super::super::keys::{self, Key};
use super::super::trace::Fields;
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
    lists: Vec<UsualList>,
    by_references: FxHashMap<Box<[u8]>, usize>,
    /// The list of the last entry that had one.
    last: usize,
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
    /// The list that followed this one the last time.
    next: usize,
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

impl<R: Read> Machine<'_, R> {
    /// Reads the rest of an entry whose first opcode was read. Returns whether it has the usual form; if not, nothing was
    /// read.
    pub(super) fn entry(&mut self) -> Step<bool> {
        let Some(trace) = self.open_trace() else { return Ok(false) };
        self.source.look_ahead(MAX_ENTRY)?;
        let Self { source, memo, heap, usual, .. } = self;
        let cursor = Cursor { bytes: &source.buffer[source.next..source.end], at: 0 };
        let Some(found) = (Parser { cursor, memo, heap, usual }).entry() else { return Ok(false) };
        source.next += found.len;
        found.memos[..found.count].iter().for_each(|new| memo.push(*new));
        heap.add_entry(trace, &found.fields);
        Ok(true)
    }

    /// The trace whose entries are being read. Entries that the machine has read are added to it first.
    fn open_trace(&mut self) -> Option<usize> {
        let mark = *self.marks.last()?;
        let list = *self.stack.get(mark.checked_sub(1)?)?;
        let trace = self.heap.trace_of(list)?;
        if self.stack.len() > mark {
            self.heap.append(list.object()?, &self.stack[mark..]);
            self.stack.truncate(mark);
        }
        Some(trace)
    }
}

/// A position in the bytes of an entry.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    /// The next eight bytes, the first of them as the lowest. Near the end of the file, entries are left to the machine.
    #[inline]
    fn word(&self) -> Option<u64> {
        self.bytes.get(self.at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Skips some bytes if they are the next ones.
    #[inline]
    fn takes(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(bytes).then(|| self.at += bytes.len())
    }

    /// The number of a memo, and the length of the reference to it.
    #[inline]
    fn reference(word: u64) -> Option<(usize, usize)> {
        match word.to_le_bytes() {
            [b'h', index, ..] => Some((index.into(), 2)),
            [b'j', a, b, c, d, ..] => Some((u32::from_le_bytes([a, b, c, d]) as usize, 5)),
            _ => None,
        }
    }

    /// A number, whose first bytes are `word`.
    #[inline]
    fn int(&mut self, word: u64) -> Option<u64> {
        let (value, len) = match word.to_le_bytes() {
            [b'K', value, ..] => (value.into(), 2),
            [b'M', low, high, ..] => (u16::from_le_bytes([low, high]).into(), 3),
            [b'J', a, b, c, d, ..] => (Value::from_signed(i32::from_le_bytes([a, b, c, d]).into()).int()?, 5),
            // Longer numbers, and negative ones, are left to the machine.
            [0x8a, len @ 1..=8, ..] => {
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
}

impl Parser<'_, '_> {
    fn entry(&mut self) -> Option<Found> {
        self.cursor.takes(b"\x94(")?;
        let memos = [Memo::new(Value::Object(self.heap.unused()))?; MAX_MEMOS];
        let mut found = Found { len: 0, fields: Fields::default(), memos, count: 1 };
        for index in 0.. {
            match self.key(index)? {
                Next::Key(key) => self.value(key, &mut found)?,
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
        if word.to_le_bytes()[0] == b'u' {
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
            [b'h' | b'j', ..] => {
                let (memo, len) = Cursor::reference(word)?;
                self.cursor.at += len;
                match self.memo.get(memo)?.value() {
                    Value::Object(_) | Value::Stack(_) if key != Key::Frames => return None,
                    frames @ (Value::Object(_) | Value::Stack(_)) => {
                        found.fields.set_stack(self.heap.stack_of(frames));
                    }
                    value => found.fields.set(key, value),
                }
            }
            [0x8c, len, ..] => {
                let text = self.text(len.into())?;
                found.define(Memo::new(Value::Text(text)))?;
                found.fields.set(key, Value::Text(text));
            }
            [b']', 0x94, b'(', ..] if key == Key::Frames => {
                self.cursor.at += 3;
                let stack = Some(self.stack()?);
                found.define(Memo::new(Value::Stack(stack)))?;
                found.fields.set_stack(stack);
            }
            [b']', 0x94, ..] if key == Key::Frames => {
                self.cursor.at += 2;
                found.define(Memo::new(Value::Stack(None)))?;
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

    /// The stack of a list, after the opcode that begins its items.
    #[inline]
    fn stack(&mut self) -> Option<StackIndex> {
        let expected = self.usual.lists.get(self.usual.last).map(|last| last.next);
        if let Some((expected, list)) = expected.and_then(|next| Some((next, self.usual.lists.get(next)?)))
            && self.cursor.rest().starts_with(&list.references)
        {
            self.cursor.at += list.references.len();
            self.usual.last = expected;
            return Some(list.stack);
        }
        self.unexpected_stack()
    }

    fn unexpected_stack(&mut self) -> Option<StackIndex> {
        let references = references(self.cursor.rest())?;
        let index = match self.usual.by_references.get(references) {
            Some(known) => *known,
            None => self.new_list(references)?,
        };
        self.cursor.at += references.len();
        if let Some(last) = self.usual.lists.get_mut(self.usual.last) {
            last.next = index;
        }
        self.usual.last = index;
        self.usual.lists.get(index).map(|list| list.stack)
    }

    fn new_list(&mut self, references: &[u8]) -> Option<usize> {
        let mut lines = Vec::new();
        let mut cursor = Cursor { bytes: references, at: 0 };
        while let Some((memo, len)) = first_reference(cursor.rest()) {
            lines.push(self.heap.line_of(self.memo.get(memo)?.value())?);
            cursor.at += len;
        }
        let stack = self.heap.stacks.add(&lines)?;
        let index = self.usual.lists.len();
        self.usual.lists.push(UsualList { references: references.into(), stack, next: index });
        self.usual.by_references.insert(references.into(), index);
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
