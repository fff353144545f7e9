//! Writes pickles.

use std::collections::HashMap;

/// A Python object.
#[derive(Clone, Debug, PartialEq)]
pub enum Py {
    /// `None`.
    None,
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i128),
    /// A `float`.
    Float(f64),
    /// A `str`.
    Text(String),
    /// A `list`.
    List(Vec<Py>),
    /// A `tuple`.
    Tuple(Vec<Py>),
    /// A `dict`.
    Dict(Vec<(Py, Py)>),
    /// An object that occurs several times, by its number in the table that is passed to [`dump`].
    Shared(usize),
}

/// A text.
pub fn text(text: &str) -> Py {
    Py::Text(text.into())
}

/// A dictionary with texts as keys.
pub fn dict<const N: usize>(items: [(&str, Py); N]) -> Py {
    Py::Dict(items.into_iter().map(|(key, value)| (text(key), value)).collect())
}

/// A list.
pub fn list(items: impl IntoIterator<Item = Py>) -> Py {
    Py::List(items.into_iter().collect())
}

/// Pickles an object as CPython (protocols 3 to 5) or the pickler of PyTorch's C++ code (protocol 2) does.
pub fn dump(object: &Py, shared: &[Py], protocol: u8) -> Vec<u8> {
    let mut writer = Writer::new(shared, protocol);
    writer.object(object);
    writer.out.push(b'.');
    writer.out
}

/// Writes a snapshot whose only trace is too long to keep in memory.
///
/// # Errors
///
/// If the output cannot be written.
pub fn stream(
    mut out: impl std::io::Write,
    segments: &Py,
    settings: &Py,
    shared: &[Py],
    events: impl Iterator<Item = Py>,
) -> std::io::Result<()> {
    let mut writer = Writer::new(shared, 4);
    writer.out.push(b'}');
    writer.memoize();
    writer.out.push(b'(');
    writer.text("segments");
    writer.object(segments);
    writer.text("device_traces");
    for _ in 0..2 {
        writer.out.push(b']');
        writer.memoize();
    }
    writer.out.push(b'(');
    for (index, event) in events.enumerate() {
        if index > 0 && index % BATCH == 0 {
            writer.out.extend(b"e(");
            out.write_all(&writer.out)?;
            writer.out.clear();
        }
        writer.object(&event);
    }
    writer.out.extend(b"ea");
    writer.text("allocator_settings");
    writer.object(settings);
    writer.out.extend(b"u.");
    out.write_all(&writer.out)
}

struct Writer<'a> {
    out: Vec<u8>,
    protocol: u8,
    memos: u32,
    texts: HashMap<String, u32>,
    shared: &'a [Py],
    seen: HashMap<usize, u32>,
}

/// The number of items that CPython writes at a time.
const BATCH: usize = 1000;

impl<'a> Writer<'a> {
    fn new(shared: &'a [Py], protocol: u8) -> Self {
        let (texts, seen) = (HashMap::new(), HashMap::new());
        Self { out: vec![0x80, protocol], protocol, memos: 0, texts, shared, seen }
    }

    fn object(&mut self, object: &Py) {
        match object {
            Py::None => self.out.push(b'N'),
            Py::Bool(value) => self.out.push(if *value { 0x88 } else { 0x89 }),
            Py::Int(value) => self.int(*value),
            Py::Float(value) => {
                self.out.push(b'G');
                self.out.extend(value.to_be_bytes());
            }
            Py::Text(text) => self.text(text),
            Py::Tuple(items) => self.tuple(items),
            Py::List(items) => {
                self.out.push(b']');
                self.memoize();
                self.batches(items.len(), *b"ae", |writer, index| writer.object(&items[index]));
            }
            Py::Dict(items) => {
                self.out.push(b'}');
                self.memoize();
                self.batches(items.len(), *b"su", |writer, index| {
                    writer.object(&items[index].0);
                    writer.object(&items[index].1);
                });
            }
            Py::Shared(index) => match self.seen.get(index) {
                Some(memo) => self.recall(*memo),
                None => {
                    let first = self.memos;
                    let shared = self.shared;
                    self.object(&shared[*index]);
                    self.seen.insert(*index, first);
                }
            },
        }
    }

    /// Writes items. `codes` are the opcodes for one item and for several.
    fn batches(&mut self, len: usize, codes: [u8; 2], mut write: impl FnMut(&mut Self, usize)) {
        let batch = if self.protocol == 2 { len.max(1) } else { BATCH };
        for first in (0..len).step_by(batch) {
            let last = len.min(first + batch);
            if last - first == 1 && self.protocol > 2 {
                write(self, first);
                self.out.push(codes[0]);
                continue;
            }
            self.out.push(b'(');
            for index in first..last {
                write(self, index);
            }
            self.out.push(codes[1]);
        }
    }

    fn tuple(&mut self, items: &[Py]) {
        let code = match items.len() {
            0 => b')',
            count @ 1..=3 => 0x84 + u8::try_from(count).unwrap_or(0),
            _ => {
                self.out.push(b'(');
                b't'
            }
        };
        for item in items {
            self.object(item);
        }
        self.out.push(code);
        if code != b')' {
            self.memoize();
        }
    }

    fn int(&mut self, value: i128) {
        if let Ok(value) = u8::try_from(value) {
            self.out.extend([b'K', value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.out.push(b'M');
            self.out.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.out.push(b'J');
            self.out.extend(value.to_le_bytes());
        } else {
            let bytes = value.to_le_bytes();
            let is_enough = |len: &usize| {
                let mut short = [if bytes[*len - 1] >= 0x80 { 0xff } else { 0 }; 16];
                short[..*len].copy_from_slice(&bytes[..*len]);
                short == bytes
            };
            let len = if self.protocol == 2 { 8 } else { (1..=16).find(is_enough).unwrap_or(16) };
            self.out.extend([0x8a, u8::try_from(len).unwrap_or(0)]);
            self.out.extend(&bytes[..len]);
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(memo) = self.texts.get(text) {
            return self.recall(*memo);
        }
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        match u8::try_from(len) {
            Ok(len) if self.protocol >= 4 => self.out.extend([0x8c, len]),
            _ => {
                self.out.push(b'X');
                self.out.extend(len.to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
        self.texts.insert(text.to_owned(), self.memos);
        self.memoize();
    }

    fn memoize(&mut self) {
        let memo = self.memos;
        self.memos += 1;
        match (self.protocol, u8::try_from(memo)) {
            (4.., _) => self.out.push(0x94),
            (_, Ok(memo)) => self.out.extend([b'q', memo]),
            (_, Err(_)) => {
                self.out.push(b'r');
                self.out.extend(memo.to_le_bytes());
            }
        }
    }

    fn recall(&mut self, memo: u32) {
        match u8::try_from(memo) {
            Ok(memo) => self.out.extend([b'h', memo]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(memo.to_le_bytes());
            }
        }
    }
}
