//! Reads the entries of traces without the stack of the machine.
//!
//! Nearly all of a snapshot are entries of the same form: a dictionary of known keys, which are references to memos,
//! with numbers, short texts and a list of references to source lines. Such an entry is read in one pass and goes
//! directly to its trace. Entries of any other form are left to the machine.

use std::io::Read;

use super::super::heap::{Heap, ObjectId, TextId, Value};
use super::super::keys::{self, Key};
use super::super::trace::Fields;
use super::{Machine, Memo, Step};
use crate::history::snapshot::StackIndex;

/// The maximum size of such an entry.
const MAX_ENTRY: usize = 16 << 10;
/// The maximum number of memos that such an entry defines.
const MAX_MEMOS: usize = 8;

/// An entry, and the memos that it defines.
struct Found {
    /// The number of bytes.
    len: usize,
    fields: Fields,
    memos: [New; MAX_MEMOS],
    count: usize,
}

/// A new memo.
#[derive(Clone, Copy)]
enum New {
    /// An object that nothing refers to.
    Unused,
    Text(TextId),
    Stack(Option<StackIndex>),
}

impl<R: Read> Machine<'_, R> {
    /// Reads the rest of an entry whose first opcode was read. Returns whether it has the usual form; if not, nothing was
    /// read.
    pub(super) fn entry(&mut self) -> Step<bool> {
        let Some(trace) = self.open_trace() else { return Ok(false) };
        self.source.look_ahead(MAX_ENTRY)?;
        let Self { source, memo, heap, .. } = self;
        let Some(found) = read(&source.buffer[source.next..source.end], memo, heap) else { return Ok(false) };
        source.next += found.len;
        for new in &found.memos[..found.count] {
            let value = match *new {
                New::Unused => Value::Object(heap.unused()),
                New::Text(text) => Value::Text(text),
                New::Stack(stack) => Value::Object(heap.new_stack(stack)),
            };
            memo.extend(Memo::new(value));
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
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(taken)
    }

    fn takes(&mut self, byte: u8) -> Option<()> {
        (self.take::<1>()? == [byte]).then_some(())
    }

    /// The number of a memo, if a reference to one follows.
    fn reference(&mut self) -> Option<usize> {
        match self.peek()? {
            b'h' => self.take::<2>().map(|[_, index]| index.into()),
            b'j' => self.take::<5>().map(|[_, a, b, c, d]| u32::from_le_bytes([a, b, c, d]) as usize),
            _ => None,
        }
    }

    fn int(&mut self) -> Option<u64> {
        match self.peek()? {
            b'K' => self.take::<2>().map(|[_, value]| value.into()),
            b'M' => self.take::<3>().map(|[_, low, high]| u16::from_le_bytes([low, high]).into()),
            b'J' => {
                let [_, a, b, c, d] = self.take::<5>()?;
                Value::from_signed(i32::from_le_bytes([a, b, c, d]).into()).int()
            }
            0x8a => {
                let [_, len] = self.take::<2>()?;
                // Longer numbers, and their signs, are left to the machine.
                let mut value = [0; 8];
                let len = usize::from(len);
                let bytes = self.bytes.get(self.at..self.at + len)?;
                if bytes.last().is_some_and(|last| *last >= 0x80) {
                    return None;
                }
                value.get_mut(..len)?.copy_from_slice(bytes);
                self.at += len;
                Some(u64::from_le_bytes(value))
            }
            _ => None,
        }
    }

    /// The bytes of references up to the end of a list.
    fn references(&mut self) -> Option<&'b [u8]> {
        let first = self.at;
        loop {
            self.at += match self.peek()? {
                b'j' => 5,
                b'h' => 2,
                b'e' => break,
                _ => return None,
            };
        }
        let references = self.bytes.get(first..self.at)?;
        self.at += 1;
        Some(references)
    }
}

fn read(bytes: &[u8], memo: &[Memo], heap: &mut Heap) -> Option<Found> {
    let mut cursor = Cursor { bytes, at: 0 };
    cursor.takes(0x94)?;
    cursor.takes(b'(')?;
    let mut found = Found { len: 0, fields: Fields::default(), memos: [New::Unused; MAX_MEMOS], count: 1 };
    while let Some(key) = cursor.reference() {
        let Value::Text(key) = memo.get(key)?.value() else { return None };
        let key = keys::of(key)?;
        read_value(&mut cursor, key, memo, heap, &mut found)?;
    }
    cursor.takes(b'u')?;
    found.len = cursor.at;
    found.fields.has_action().then_some(found)
}

fn read_value(
    cursor: &mut Cursor<'_>,
    key: Key,
    memo: &[Memo],
    heap: &mut Heap,
    found: &mut Found,
) -> Option<()> {
    let define = |found: &mut Found, new: New| {
        *found.memos.get_mut(found.count)? = new;
        found.count += 1;
        Some(())
    };
    match cursor.peek()? {
        b'h' | b'j' => {
            let value = memo.get(cursor.reference()?)?.value();
            match value {
                Value::Object(_) if key == Key::Frames => found.fields.set_stack(heap.stack_of(value)),
                Value::Object(_) => return None,
                _ => found.fields.set(key, value),
            }
        }
        0x8c => {
            let [_, len] = cursor.take::<2>()?;
            let text = cursor.bytes.get(cursor.at..cursor.at + usize::from(len))?;
            cursor.at += text.len();
            cursor.takes(0x94)?;
            let text = heap.known_text(text)?;
            define(found, New::Text(text))?;
            found.fields.set(key, Value::Text(text));
        }
        b']' if key == Key::Frames => {
            cursor.take::<1>()?;
            cursor.takes(0x94)?;
            let stack = if cursor.peek()? == b'(' {
                cursor.take::<1>()?;
                let references = cursor.references()?;
                let stack =
                    heap.stack_by_references(references, |reference| memo_of_reference(reference, memo));
                Some(stack?)
            } else {
                None
            };
            define(found, New::Stack(stack))?;
            found.fields.set_stack(stack);
        }
        _ => found.fields.set(key, Value::Int(cursor.int()?)),
    }
    Some(())
}

/// The object of a reference at the beginning of some bytes, and the rest of them.
fn memo_of_reference<'b>(bytes: &'b [u8], memo: &[Memo]) -> Option<(ObjectId, &'b [u8])> {
    let mut cursor = Cursor { bytes, at: 0 };
    let object = memo.get(cursor.reference()?)?.value().object()?;
    Some((object, &bytes[cursor.at..]))
}
