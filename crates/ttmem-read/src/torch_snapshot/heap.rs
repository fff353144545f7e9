//! The objects of a pickled snapshot.
//!
//! Entries of traces, source lines and stacks are converted as soon as they are complete, because there are millions of
//! them. Everything else (segments, settings, annotations) remains as dictionaries and lists, which `document`
//! interprets at the end.

use rustc_hash::FxHashMap;

use super::eager::Eager;
use super::keys::{self, Key};
use super::trace::{Fields, OwnFields, ParsedEntry, SharedFields, Trace, TraceParser};
use crate::history::snapshot::{Line, LineIndex, StackIndex, Stacks};

/// A text of a snapshot; equal texts have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TextId(pub u32);

/// A dictionary, list or tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectId(pub u32);

/// A value of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    /// A number as a bit pattern: addresses and streams may be signed.
    Int(u64),
    Float(f64),
    Text(TextId),
    /// A complete list of source lines.
    Stack(Option<StackIndex>),
    Object(ObjectId),
}

impl Value {
    #[allow(clippy::cast_sign_loss, reason = "only the bits matter")]
    pub fn from_signed(value: i64) -> Self {
        Self::Int(value as u64)
    }

    pub fn int(self) -> Option<u64> {
        match self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    pub fn text(self) -> Option<TextId> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn object(self) -> Option<ObjectId> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// An object, in eight bytes.
#[derive(Clone, Copy, Debug)]
enum Object {
    NewDict,
    NewList,
    Dict(u32),
    List(u32),
    /// A source line.
    Line(LineIndex),
    /// A list of source lines.
    Stack(Option<StackIndex>),
    /// An entry of a trace that is not in a list yet.
    Entry(u32),
    /// An entry that was added to a list.
    Taken,
    /// A list of entries.
    Trace(u32),
}

/// A list of values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Items<'h> {
    Values(&'h [Value]),
    /// A trace, by its index.
    Trace(usize),
}

/// The number of items that Python adds to a list at a time.
const BATCH: usize = 1000;
/// The number of lines after which no more are added to a stack.
const MAX_LINES: usize = 64 * BATCH;

/// Whether a list of this length may be continued.
pub(super) fn is_of_batches(len: usize) -> bool {
    len.is_multiple_of(BATCH)
}

/// The maximum number of values in lists and dictionaries (2 GiB), without those of traces and stacks.
const MAX_VALUES: usize = 1 << 27;
/// The maximum number of objects (2 GiB).
const MAX_OBJECTS: usize = 1 << 28;
/// The maximum total length of texts.
const MAX_TEXTS: usize = 1 << 30;
/// The number of keys of a dictionary that are searched. The dictionaries of snapshots have fewer than 20.
const MAX_KEYS: usize = 256;

/// All objects of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Heap {
    objects: Vec<Object>,
    dicts: Vec<Vec<(Value, Value)>>,
    lists: Vec<Vec<Value>>,
    /// The number of values in lists and dictionaries.
    values: usize,
    texts: Texts,
    lines: FxHashMap<(TextId, TextId, u32), LineIndex>,
    pub stacks: Stacks,
    pub parser: TraceParser,
    /// Entries that are not in a list yet.
    pending: Vec<ParsedEntry>,
    taken: usize,
    traces: Vec<Trace>,
    scratch: Vec<LineIndex>,
    /// An object that nothing refers to.
    unused: Option<ObjectId>,
    /// The number of entries that went directly to their trace.
    pub direct: u64,
    /// Whether the first trace is placed while it is being read.
    pub eager: Eager,
}

impl Heap {
    /// The trace that a list of entries became.
    pub fn trace_of(&self, list: Value) -> Option<usize> {
        match self.object(list.object()?) {
            Object::Trace(trace) => Some(trace as usize),
            _ => None,
        }
    }

    /// Whether an object is a list.
    pub fn is_list(&self, id: ObjectId) -> bool {
        let object = self.object(id);
        matches!(object, Object::NewList | Object::List(_) | Object::Stack(_) | Object::Trace(_))
    }

    /// Whether there are more values than any snapshot has.
    pub fn is_full(&self) -> bool {
        self.values > MAX_VALUES || self.objects.len() > MAX_OBJECTS
    }

    /// Whether a value is an entry that is not in a list yet.
    pub fn is_entry(&self, value: Value) -> bool {
        value.object().is_some_and(|id| matches!(self.object(id), Object::Entry(_)))
    }

    /// Adds an entry to a trace.
    pub fn add_entry(&mut self, trace: usize, fields: &Fields) {
        self.direct += 1;
        let entry = self.parser.entry(fields, &self.texts);
        if let Some(trace) = self.traces.get_mut(trace) {
            trace.push(entry);
        }
    }

    /// The same for an entry that shares fields with others, and has some bytes. Returns it.
    pub fn add_entry_of(
        &mut self,
        trace: usize,
        shared: &mut SharedFields,
        own: &OwnFields,
        bytes: usize,
    ) -> ParsedEntry {
        self.direct += 1;
        let entry = self.parser.entry_of(shared, own, &self.texts);
        if let Some(trace) = self.traces.get_mut(trace) {
            trace.eager.measure(bytes);
            trace.push(entry);
        }
        entry
    }

    /// A trace for entries that are added directly, and the number of these.
    pub fn direct_to(&mut self, trace: usize) -> Option<(&mut Trace, &mut u64)> {
        Some((self.traces.get_mut(trace)?, &mut self.direct))
    }

    /// An object that nothing refers to.
    pub fn unused(&mut self) -> ObjectId {
        match self.unused {
            Some(unused) => unused,
            None => {
                let unused = self.new_object(Object::Taken);
                self.unused = Some(unused);
                unused
            }
        }
    }

    /// The source line that a dictionary represents.
    pub fn line_of(&self, dict: Value) -> Option<LineIndex> {
        match self.object(dict.object()?) {
            Object::Line(line) => Some(line),
            _ => None,
        }
    }

    /// The id of a text that has occurred before.
    pub fn known_text(&mut self, bytes: &[u8]) -> Option<TextId> {
        self.texts.known(bytes)
    }

    pub fn new_dict(&mut self) -> ObjectId {
        self.new_object(Object::NewDict)
    }

    pub fn new_list(&mut self) -> ObjectId {
        self.new_object(Object::NewList)
    }

    fn new_object(&mut self, object: Object) -> ObjectId {
        let id = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        self.objects.push(object);
        ObjectId(id)
    }

    fn object(&self, id: ObjectId) -> Object {
        self.objects.get(id.0 as usize).copied().unwrap_or(Object::Taken)
    }

    /// The id of a text; `None` if there are too many.
    pub fn text(&mut self, bytes: &[u8]) -> Option<TextId> {
        self.texts.id(bytes)
    }

    /// The text of an id.
    pub fn text_of(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    /// Adds keys and values to a dictionary.
    pub fn set_items(&mut self, id: ObjectId, items: &[Value]) {
        let object = match self.object(id) {
            Object::NewDict => self.completed(items),
            Object::Dict(dict) => {
                self.dicts[dict as usize].extend(pairs(items));
                self.values += items.len();
                return;
            }
            // A snapshot has no dictionary of this kind with more than a thousand keys.
            other => other,
        };
        if let Some(slot) = self.objects.get_mut(id.0 as usize) {
            *slot = object;
        }
    }

    fn completed(&mut self, items: &[Value]) -> Object {
        let has = |key: Key| items.iter().step_by(2).any(|have| *have == Value::Text(key.text()));
        if has(Key::Action) {
            let entry = self.entry(items);
            let index = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
            self.pending.push(entry);
            return Object::Entry(index);
        }
        if has(Key::Filename)
            && let Some(line) = self.line(items)
        {
            return Object::Line(line);
        }
        let index = u32::try_from(self.dicts.len()).unwrap_or(u32::MAX);
        self.dicts.push(pairs(items).collect());
        self.values += items.len();
        Object::Dict(index)
    }

    fn entry(&mut self, items: &[Value]) -> ParsedEntry {
        let (objects, lists) = (&self.objects, &self.lists);
        let object = |value: Value| value.object().and_then(|id| objects.get(id.0 as usize).copied());
        let stack_of = |value: Value| match (value, object(value)) {
            (Value::Stack(stack), _) | (_, Some(Object::Stack(stack))) => stack,
            _ => None,
        };
        let list_of = |value: Value| match object(value) {
            Some(Object::List(list)) => lists[list as usize].as_slice(),
            _ => &[],
        };
        let entry = self.parser.parse(pairs(items), stack_of, list_of, &self.texts);
        let frames = pairs(items).filter(|(key, _)| *key == Value::Text(Key::Frames.text()));
        for id in frames.filter_map(|(_, list)| list.object()) {
            if let Some(list @ Object::NewList) = self.objects.get_mut(id.0 as usize) {
                *list = Object::Stack(None);
            }
        }
        entry
    }

    fn line(&mut self, items: &[Value]) -> Option<LineIndex> {
        let (mut name, mut file, mut number, mut node) = (None, None, 0, None);
        for (key, value) in pairs(items) {
            match key.text().and_then(keys::of) {
                Some(Key::Name) => name = value.text(),
                Some(Key::Filename) => file = value.text(),
                Some(Key::Line) => {
                    number = value.int().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
                }
                Some(Key::FxNodeName) => node = value.text(),
                _ => {}
            }
        }
        let (name, file) = (name?, file?);
        if node.is_none()
            && let Some(known) = self.lines.get(&(name, file, number))
        {
            return Some(*known);
        }
        let mut function = self.texts.get(name).to_owned();
        if let Some(node) = node.map(|node| self.texts.get(node)) {
            function = format!("{function} (node {node})");
        }
        let line = self.stacks.add_line(Line { function, file: self.texts.get(file).to_owned(), number })?;
        if node.is_none() {
            self.lines.insert((name, file, number), line);
        }
        Some(line)
    }

    /// Adds items to a list. Returns `false` if it is a list of source lines that is complete.
    pub fn append(&mut self, id: ObjectId, items: &[Value]) -> bool {
        let first = items.first().and_then(|item| item.object()).map(|id| self.object(id));
        let object = match (self.object(id), first) {
            (_, None) if items.is_empty() => return true,
            (Object::NewList, Some(Object::Line(_))) => self.stack(None, items),
            (Object::Stack(stack), _) if self.may_go_on(stack) => self.stack(stack, items),
            (Object::Stack(_), _) => return false,
            (Object::NewList, Some(Object::Entry(_))) => {
                let eager = std::mem::take(&mut self.eager);
                self.traces.push(Trace::placed_by(eager));
                let trace = self.traces.len() - 1;
                self.take_entries(trace, items);
                u32::try_from(trace).map_or(Object::Taken, Object::Trace)
            }
            (Object::Trace(trace), _) => {
                self.take_entries(trace as usize, items);
                Object::Trace(trace)
            }
            (Object::NewList, _) => {
                let index = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
                self.lists.push(items.to_vec());
                self.values += items.len();
                Object::List(index)
            }
            (Object::List(list), _) => {
                self.lists[list as usize].extend_from_slice(items);
                self.values += items.len();
                return true;
            }
            (other, _) => other,
        };
        if let Some(slot) = self.objects.get_mut(id.0 as usize) {
            *slot = object;
        }
        true
    }

    /// Whether the lines of a stack may be the first batches of a longer one. Each such part is kept as a stack, so the
    /// limit bounds their memory.
    fn may_go_on(&self, stack: Option<StackIndex>) -> bool {
        let lines = stack.map_or(0, |stack| self.stacks.indexes_of(stack).len());
        is_of_batches(lines) && (1..MAX_LINES).contains(&lines)
    }

    fn stack(&mut self, before: Option<StackIndex>, items: &[Value]) -> Object {
        self.scratch.clear();
        if let Some(before) = before {
            self.scratch.extend_from_slice(self.stacks.indexes_of(before));
        }
        let line = |item: &Value| match item.object().map(|id| self.objects.get(id.0 as usize)) {
            Some(Some(Object::Line(line))) => Some(*line),
            _ => None,
        };
        self.scratch.extend(items.iter().filter_map(line));
        Object::Stack(self.stacks.add(&self.scratch))
    }

    /// Moves entries to their trace.
    fn take_entries(&mut self, trace: usize, items: &[Value]) {
        for item in items {
            let Some(id) = item.object() else { continue };
            let Some(slot) = self.objects.get_mut(id.0 as usize) else { continue };
            if let Object::Entry(index) = *slot {
                *slot = Object::Taken;
                self.taken += 1;
                if let Some(entry) = self.pending.get(index as usize) {
                    self.traces[trace].push(*entry);
                }
            }
        }
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
        }
    }

    /// The value of a key in a dictionary.
    pub fn get(&self, dict: Value, key: Key) -> Option<Value> {
        let mut fields = self.fields(dict)?.iter().take(MAX_KEYS);
        fields.find(|(have, _)| *have == Value::Text(key.text())).map(|(_, value)| *value)
    }

    /// The keys and values of a dictionary; `None` if the value is not a dictionary.
    pub fn fields(&self, dict: Value) -> Option<&[(Value, Value)]> {
        match self.object(dict.object()?) {
            Object::Dict(dict) => self.dicts.get(dict as usize).map(Vec::as_slice),
            Object::NewDict => Some(&[]),
            _ => None,
        }
    }

    /// The items of a list; `None` if the value is not a list.
    pub fn items(&self, list: Value) -> Option<Items<'_>> {
        match self.object(list.object()?) {
            Object::List(list) => self.lists.get(list as usize).map(|items| Items::Values(items)),
            Object::Trace(trace) => Some(Items::Trace(trace as usize)),
            Object::NewList => Some(Items::Values(&[])),
            _ => None,
        }
    }

    /// The values of a list; empty if the value is not a list of values.
    pub fn values(&self, list: Value) -> &[Value] {
        match self.items(list) {
            Some(Items::Values(values)) => values,
            _ => &[],
        }
    }

    /// The stack that a list of frames represents.
    pub fn stack_of(&self, frames: Value) -> Option<StackIndex> {
        match frames {
            Value::Stack(stack) => stack,
            Value::Object(frames) => match self.object(frames) {
                Object::Stack(stack) => stack,
                _ => None,
            },
            _ => None,
        }
    }

    /// Takes a trace; a second time it is empty.
    pub fn take_trace(&mut self, trace: usize) -> Trace {
        self.traces.get_mut(trace).map(std::mem::take).unwrap_or_default()
    }

    /// Releases the memory of objects, which are no longer needed after the traces and segments were taken.
    pub fn release(&mut self) {
        (self.objects, self.dicts, self.lists, self.pending) = Default::default();
    }
}

fn pairs(items: &[Value]) -> impl Iterator<Item = (Value, Value)> + '_ {
    items.chunks_exact(2).map(|pair| (pair[0], pair[1]))
}

/// Interned texts. The first ones are the known keys.
#[derive(Debug)]
pub(super) struct Texts {
    all: Vec<std::sync::Arc<str>>,
    ids: FxHashMap<std::sync::Arc<str>, TextId>,
    /// The last text that was looked up.
    last: TextId,
    /// The total length of the texts.
    bytes: usize,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Self { all: Vec::new(), ids: FxHashMap::default(), last: TextId(0), bytes: 0 };
        for key in Key::ALL {
            texts.id(key.as_str().as_bytes());
        }
        for text in NOTHING {
            texts.id(text.as_bytes());
        }
        texts
    }
}

/// Texts that stand for nothing. Their ids follow those of the keys.
const NOTHING: [&str; 2] = ["", "N/A"];

impl Texts {
    /// Whether a text stands for nothing.
    pub fn is_nothing(text: TextId) -> bool {
        let first = Key::ALL.len();
        (first..first + NOTHING.len()).contains(&(text.0 as usize))
    }

    /// The id of a text that has occurred before. Entries repeat the same text again and again.
    fn known(&mut self, bytes: &[u8]) -> Option<TextId> {
        if self.all.get(self.last.0 as usize).is_some_and(|last| last.as_bytes() == bytes) {
            return Some(self.last);
        }
        let id = *self.ids.get(std::str::from_utf8(bytes).ok()?)?;
        self.last = id;
        Some(id)
    }

    fn id(&mut self, bytes: &[u8]) -> Option<TextId> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(id) = self.ids.get(text.as_ref()) {
            return Some(*id);
        }
        let id = TextId(u32::try_from(self.all.len()).ok()?);
        self.bytes += text.len();
        if self.bytes > MAX_TEXTS {
            return None;
        }
        let text: std::sync::Arc<str> = text.into();
        self.all.push(std::sync::Arc::clone(&text));
        self.ids.insert(text, id);
        Some(id)
    }

    /// The text of an id.
    pub fn get(&self, id: TextId) -> &str {
        self.all.get(id.0 as usize).map_or("", |text| text)
    }
}
