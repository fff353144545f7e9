//! A pickle machine that executes nothing.
//!
//! A snapshot consists of dictionaries, lists, tuples, texts and numbers. The machine knows the opcodes for these and
//! refuses all others, among them those that call functions. [`Heap`] gets the objects as they are completed.

mod entries;
mod forms;
mod part;
mod skeleton;

use std::io::{self, Read};

use self::entries::Usual;
use super::heap::{Heap, ObjectId, TextId, Value};
use crate::ahead::{Block, Blocks, ROOM};
use crate::history::snapshot::StackIndex;

/// The maximum number of nested marks. Snapshots nest eight levels deep.
const MAX_DEPTH: usize = 1000;
/// The maximum number of values on the stack (1 GiB). A few bytes of a compressed file can be millions of values.
const MAX_STACK: usize = 1 << 26;
/// The maximum length of a text.
const MAX_TEXT: u64 = 64 << 20;

/// The first opcode of protocols 2 and later.
pub(super) const PROTO: u8 = 0x80;

/// Why a pickle could not be read, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PickleError {
    /// The position in the decompressed file.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

/// The result of running a pickle.
type Step<T> = Result<T, Problem>;

/// A problem whose position is not known yet.
#[derive(Debug)]
enum Problem {
    /// The file ends inside the pickle.
    Truncated,
    Io(io::Error),
    Invalid(String),
}

fn invalid<T>(what: impl Into<String>) -> Step<T> {
    Err(Problem::Invalid(what.into()))
}

/// Runs a pickle and returns its value. Bytes after its end are ignored.
pub(super) fn run(stream: impl Read + Send + 'static, heap: &mut Heap) -> Result<Value, PickleError> {
    run_machine(stream, heap, true)
}

fn run_machine(
    stream: impl Read + Send + 'static,
    heap: &mut Heap,
    has_fast_path: bool,
) -> Result<Value, PickleError> {
    let source = Source {
        blocks: Blocks::new(stream),
        buffer: vec![0; ROOM],
        next: ROOM,
        end: ROOM,
        received: 0,
        failed: None,
    };
    let mut machine = Machine {
        source,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memos::default(),
        usual: Usual::default(),
        has_fast_path,
        heap,
    };
    machine.run().map_err(|problem| {
        let what = match problem {
            Problem::Truncated => "the file ends inside the pickle; write the snapshot again".to_owned(),
            Problem::Io(error) => error.to_string(),
            Problem::Invalid(what) => what,
        };
        PickleError { offset: machine.source.offset(), what }
    })
}

/// Bytes of a stream.
struct Source {
    blocks: Blocks,
    buffer: Vec<u8>,
    next: usize,
    end: usize,
    /// The bytes up to the end of the buffer.
    received: u64,
    /// An error that was met while looking ahead. It counts when the bytes before it are read.
    failed: Option<io::Error>,
}

impl Source {
    fn offset(&self) -> u64 {
        self.received - (self.end - self.next) as u64
    }

    #[inline]
    fn byte(&mut self) -> Step<u8> {
        if self.next == self.end {
            self.fill()?;
        }
        let byte = self.buffer[self.next];
        self.next += 1;
        Ok(byte)
    }

    /// Skips a byte if it is the next one.
    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.next < self.end && self.buffer[self.next] == byte;
        self.next += usize::from(is_next);
        is_next
    }

    #[cold]
    fn fill(&mut self) -> Step<()> {
        match self.more() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Problem::Truncated),
            Err(error) => Err(Problem::Io(error)),
        }
    }

    /// Puts the rest of the buffer, which the room is large enough for, in front of the next block. Returns `false` at the
    /// end of the file.
    fn more(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(Block { mut buffer, end }) = self.blocks.next()? else {
            return Ok(false);
        };
        let start = ROOM - (self.end - self.next);
        buffer[start..ROOM].copy_from_slice(&self.buffer[self.next..self.end]);
        self.blocks.give_back(std::mem::replace(&mut self.buffer, buffer));
        (self.next, self.end) = (start, end);
        self.received += (end - ROOM) as u64;
        Ok(true)
    }

    /// Has the next bytes in the buffer, unless the file ends before. There must not be more of them than room.
    #[inline]
    fn look_ahead(&mut self, len: usize) {
        while self.end - self.next < len && self.failed.is_none() {
            match self.more() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Step<[u8; N]> {
        let mut bytes = [0; N];
        if let Some(available) = self.buffer[..self.end].get(self.next..self.next + N) {
            bytes.copy_from_slice(available);
            self.next += N;
            return Ok(bytes);
        }
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// Passes the next bytes to a function, without a copy if the buffer has them.
    fn text<T>(&mut self, len: u64, of: impl FnOnce(&[u8]) -> T) -> Step<T> {
        if len > MAX_TEXT {
            return invalid(format!("a text of {len} bytes is too long for a snapshot"));
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(available) = self.buffer[..self.end].get(self.next..self.next.saturating_add(len)) {
            self.next += len;
            return Ok(of(available));
        }
        let mut text = Vec::new();
        while text.len() < len {
            if self.next == self.end {
                self.fill()?;
            }
            let available = &self.buffer[self.next..self.end];
            let part = &available[..available.len().min(len - text.len())];
            text.extend_from_slice(part);
            self.next += part.len();
        }
        Ok(of(&text))
    }
}

struct Machine<'h> {
    source: Source,
    stack: Vec<Value>,
    /// The positions of marks in the stack.
    marks: Vec<usize>,
    memo: Memos,
    usual: Usual,
    /// Whether entries are read without the stack if they have the usual form. The result is the same; tests compare both.
    has_fast_path: bool,
    heap: &'h mut Heap,
}

/// A remembered text, object or stack, in four bytes: a snapshot of a million events remembers millions of them.
#[derive(Clone, Copy, Debug)]
struct Memo(u32);

impl Memo {
    /// The kind, in the two highest bits.
    const TEXT: u32 = 1 << 31;
    const STACK: u32 = 1 << 30;
    const KIND: u32 = Self::TEXT | Self::STACK;

    fn new(value: Value) -> Option<Self> {
        let (id, kind) = match value {
            Value::Text(text) => (text.0, Self::TEXT),
            Value::Stack(None) => (0, Self::STACK),
            Value::Stack(Some(stack)) => (u32::try_from(stack.index() + 1).ok()?, Self::STACK),
            Value::Object(object) => (object.0, 0),
            _ => return None,
        };
        (id & Self::KIND == 0).then_some(Self(id | kind))
    }

    #[inline]
    fn value(self) -> Value {
        let id = self.0 & !Self::KIND;
        match self.0 & Self::KIND {
            Self::TEXT => Value::Text(TextId(id)),
            Self::STACK => Value::Stack((id as usize).checked_sub(1).and_then(StackIndex::new)),
            _ => Value::Object(ObjectId(id)),
        }
    }
}

/// The memos that an entry defines.
#[derive(Clone, Copy, Debug)]
struct EntryMemos {
    memos: [Memo; Self::MAX],
    len: usize,
}

impl EntryMemos {
    const MAX: usize = 4;

    /// `None` if there are too many.
    fn new(all: &[Memo]) -> Option<Self> {
        let mut memos = [Memo(0); Self::MAX];
        memos.get_mut(..all.len())?.copy_from_slice(all);
        Some(Self { memos, len: all.len() })
    }
}

/// The memos, by number. They are kept in chunks, which need not be copied when there are more of them.
#[derive(Default)]
struct Memos {
    chunks: Vec<Vec<Memo>>,
    len: usize,
}

impl Memos {
    const CHUNK: usize = 1 << 16;

    #[inline]
    fn get(&self, index: usize) -> Option<Memo> {
        self.chunks.get(index / Self::CHUNK)?.get(index % Self::CHUNK).copied()
    }

    #[inline]
    fn push(&mut self, memo: Memo) {
        if self.len.is_multiple_of(Self::CHUNK) {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(memo);
            self.len += 1;
        }
    }

    /// Adds a few memos.
    #[inline]
    fn push_some(&mut self, new: EntryMemos) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() + EntryMemos::MAX <= Self::CHUNK => {
                // A constant number of memos is copied without a loop.
                let len = chunk.len() + new.len;
                chunk.extend_from_slice(&new.memos);
                chunk.truncate(len);
                self.len += new.len;
            }
            _ => new.memos.iter().take(new.len).for_each(|memo| self.push(*memo)),
        }
    }

    /// Replaces a memo. Returns `false` if it does not exist.
    fn replace(&mut self, index: usize, memo: Memo) -> bool {
        let chunk = self.chunks.get_mut(index / Self::CHUNK);
        let slot = chunk.and_then(|chunk| chunk.get_mut(index % Self::CHUNK));
        slot.map(|slot| *slot = memo).is_some()
    }
}

impl Machine<'_> {
    fn run(&mut self) -> Step<Value> {
        loop {
            match self.source.byte()? {
                b'.' => return self.result(),
                b'(' => self.mark()?,
                b'h' => {
                    let index = self.source.byte()?;
                    self.recall(index.into())?;
                }
                b'j' => {
                    let index = self.u32()?;
                    self.recall(index)?;
                }
                b'K' => {
                    let value = self.source.byte()?;
                    self.push(Value::Int(value.into()))?;
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.source.bytes()?);
                    self.push(Value::Int(value.into()))?;
                }
                b'J' => {
                    let value = i32::from_le_bytes(self.source.bytes()?);
                    self.push(Value::from_signed(value.into()))?;
                }
                0x8a => self.long()?,
                0x94 => self.memoize(self.memo.len)?,
                b'q' => {
                    let index = self.source.byte()?;
                    self.memoize(index.into())?;
                }
                b'r' => {
                    let index = self.u32()?;
                    self.memoize(index as usize)?;
                }
                0x8c => {
                    let len = self.source.byte()?;
                    self.text(len.into())?;
                }
                b'X' => {
                    let len = self.u32()?;
                    self.text(len.into())?;
                }
                0x8d => {
                    let len = u64::from_le_bytes(self.source.bytes()?);
                    self.text(len)?;
                }
                b'}' if self.has_fast_path && self.entries() => {}
                b'}' => self.push_new(Heap::new_dict)?,
                b']' => self.push_new(Heap::new_list)?,
                b'u' => self.set_items()?,
                b'e' => self.append_items()?,
                opcode => self.rare(opcode)?,
            }
        }
    }

    /// Opcodes that snapshots use seldom.
    fn rare(&mut self, opcode: u8) -> Step<()> {
        match opcode {
            PROTO => match self.source.byte()? {
                2..=5 => Ok(()),
                version => invalid(format!("pickle protocol {version} is not supported")),
            },
            // The length of a frame.
            0x95 => self.source.bytes::<8>().map(|_| ()),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'G' => {
                let value = f64::from_be_bytes(self.source.bytes()?);
                self.push(Value::Float(value))
            }
            b'a' => self.append_from(self.stack.len().saturating_sub(1)),
            b's' => self.set_from(self.stack.len().saturating_sub(2)),
            b')' => self.tuple(self.stack.len()),
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                match self.stack.len().checked_sub(count) {
                    Some(first) => self.tuple(first),
                    None => invalid("a tuple has too few values"),
                }
            }
            b't' | b'l' => {
                let first = self.unmark()?;
                self.tuple(first)
            }
            b'd' => {
                let first = self.unmark()?;
                let dict = self.heap.new_dict();
                self.stack.insert(first, Value::Object(dict));
                self.set_from(first + 1)
            }
            _ => invalid(refusal(opcode)),
        }
    }

    fn result(&mut self) -> Step<Value> {
        match (self.stack.as_slice(), self.marks.is_empty()) {
            ([value], true) => Ok(*value),
            _ => invalid("the pickle ends without a single value"),
        }
    }

    fn u32(&mut self) -> Step<u32> {
        self.source.bytes().map(u32::from_le_bytes)
    }

    #[inline]
    fn push(&mut self, value: Value) -> Step<()> {
        if self.stack.len() >= MAX_STACK {
            return invalid("too many values");
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_new(&mut self, new: fn(&mut Heap) -> ObjectId) -> Step<()> {
        let object = new(self.heap);
        self.push(Value::Object(object))
    }

    fn mark(&mut self) -> Step<()> {
        if self.marks.len() >= MAX_DEPTH {
            return invalid("too deeply nested for a snapshot");
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn unmark(&mut self) -> Step<usize> {
        match self.marks.pop().filter(|mark| *mark <= self.stack.len()) {
            Some(mark) => Ok(mark),
            None => invalid("values without a mark"),
        }
    }

    #[inline]
    fn recall(&mut self, index: u32) -> Step<()> {
        match self.memo.get(index as usize) {
            Some(memo) => self.push(memo.value()),
            None => invalid(format!("memo {index} does not exist")),
        }
    }

    fn memoize(&mut self, index: usize) -> Step<()> {
        let Some(memo) = self.stack.last().copied().and_then(Memo::new) else {
            return invalid("a value that cannot be memoized");
        };
        // Writers number memos consecutively, some from 1. Any other number would reserve memory that the file does not
        // justify.
        let len = self.memo.len;
        if index > len + 1 {
            return invalid(format!("memo {index} is out of order"));
        }
        if index > len {
            self.memo.push(memo);
        }
        if self.memo.replace(index, memo) {
            // The bytes of references have another meaning now.
            self.usual = Usual::default();
        } else {
            self.memo.push(memo);
        }
        Ok(())
    }

    fn long(&mut self) -> Step<()> {
        let len = self.source.byte()?;
        if len > 9 {
            return invalid(format!("a number of {len} bytes"));
        }
        let mut bytes = [0; 9];
        let mut is_negative = false;
        for byte in bytes.iter_mut().take(len.into()) {
            *byte = self.source.byte()?;
            is_negative = *byte >= 0x80;
        }
        if is_negative {
            bytes[usize::from(len)..].fill(0xff);
        }
        // Addresses and streams are bit patterns, so the ninth byte is only the sign.
        let [low @ .., _] = bytes;
        self.push(Value::Int(u64::from_le_bytes(low)))
    }

    fn text(&mut self, len: u64) -> Step<()> {
        let heap = &mut *self.heap;
        let text = self.source.text(len, |bytes| heap.text(bytes))?;
        match text {
            Some(text) => self.push(Value::Text(text)),
            None => invalid("too many texts"),
        }
    }

    fn tuple(&mut self, first: usize) -> Step<()> {
        let list = self.heap.new_list();
        self.heap.append(list, &self.stack[first..]);
        self.stack.truncate(first);
        self.push(Value::Object(list))
    }

    fn set_items(&mut self) -> Step<()> {
        let first = self.unmark()?;
        self.set_from(first)
    }

    /// Adds the keys and values from a position of the stack to the dictionary before them.
    fn set_from(&mut self, first: usize) -> Step<()> {
        match first.checked_sub(1).and_then(|before| self.stack.get(before)) {
            Some(&Value::Object(object))
                if (self.stack.len() - first).is_multiple_of(2) && !self.heap.is_list(object) =>
            {
                self.heap.set_items(object, &self.stack[first..]);
                self.stack.truncate(first);
                self.move_entry();
                self.check_room()
            }
            _ => invalid("keys without a dictionary"),
        }
    }

    fn check_room(&self) -> Step<()> {
        if self.heap.is_full() { invalid("too many values") } else { Ok(()) }
    }

    fn append_items(&mut self) -> Step<()> {
        let first = self.unmark()?;
        self.append_from(first)
    }

    fn append_from(&mut self, first: usize) -> Step<()> {
        match first.checked_sub(1).and_then(|before| self.stack.get(before)) {
            Some(&Value::Object(object)) if self.heap.append(object, &self.stack[first..]) => {
                self.stack.truncate(first);
                self.check_room()
            }
            Some(Value::Stack(_)) if first == self.stack.len() => Ok(()),
            Some(Value::Object(_) | Value::Stack(_)) => {
                invalid("a list of source lines that is continued; snapshots have complete ones")
            }
            _ => invalid("items without a list"),
        }
    }
}

/// Describes an opcode that snapshots never contain.
fn refusal(opcode: u8) -> String {
    let runs_code =
        matches!(opcode, b'c' | b'R' | b'b' | b'i' | b'o' | b'P' | b'Q' | 0x81..=0x84 | 0x92 | 0x93);
    let what = if opcode.is_ascii_graphic() {
        format!("opcode {:?}", char::from(opcode))
    } else {
        format!("opcode 0x{opcode:02x}")
    };
    if runs_code {
        format!("{what} makes Python call code; a memory snapshot never contains it, so the file is refused")
    } else {
        format!("{what} does not occur in memory snapshots")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn memos_are_found_by_their_number() {
        let mut memos = Memos::default();
        let memo = |index: usize| Memo(u32::try_from(index).unwrap());
        let count = 2 * Memos::CHUNK + 3;
        (0..count).for_each(|index| memos.push(memo(index)));
        for index in [0, 1, Memos::CHUNK - 1, Memos::CHUNK, 2 * Memos::CHUNK, count - 1] {
            assert_eq!(memos.get(index).map(|memo| memo.0 as usize), Some(index));
        }
        assert!(memos.get(count).is_none() && !memos.replace(count, memo(0)));
        assert!(memos.replace(Memos::CHUNK, memo(7)));
        assert_eq!(memos.get(Memos::CHUNK).map(|memo| memo.0), Some(7));
    }

    /// The fast path does not keep entries on the stack, so the number of items above a mark says nothing.
    #[test]
    fn lists_have_no_keys() {
        for items in [&b""[..], b"K\x01K\x02", b"}(K\x01K\x02uK\x03"] {
            let bytes = [b"\x80\x04](", items, b"u."].concat();
            let error = run(io::Cursor::new(bytes), &mut Heap::default()).unwrap_err();
            assert_eq!(error.what, "keys without a dictionary");
        }
    }

    /// Whether entries have the usual form decides how long reading takes.
    #[test]
    fn nearly_all_entries_of_real_snapshots_go_directly_to_their_trace() {
        for name in ["train_gpt2_30m", "oom_gpt2_124m", "cpp_stacks_gpt2_30m"] {
            let file = format!("{}/../../corpus/torch_snapshot/{name}.pickle.gz", env!("CARGO_MANIFEST_DIR"));
            let mut heap = Heap::default();
            run(GzDecoder::new(File::open(file).unwrap()), &mut heap).unwrap();
            let (direct, all) = (heap.direct, heap.take_trace(0).len);
            // The first thousand entries are read before their list is known to be a trace.
            assert!(direct + 1100 >= all && direct > 0, "{name}: {direct} of {all}");
        }
    }
}
