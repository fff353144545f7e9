//! The traces of a snapshot: the actions of one device's allocator, and the annotations among them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::HistoryAction;

use super::heap::{TextId, Texts, Value};
use super::keys::{self, Key};
use crate::history::snapshot::{AddressKey, Entries, Entry, StackIndex, action_of};

/// The origin of an entry: the data that entries of the same code share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub stack: Option<StackIndex>,
    /// `user_metadata`: a label that the program has set.
    pub metadata: Option<TextId>,
    /// `compile_context`, if the code was compiled.
    pub context: Option<TextId>,
    /// The innermost line of `forward_frames`, for allocations of a backward pass.
    pub forward: Option<TextId>,
    pub stream: u64,
    /// `pool_id`: the private pool.
    pub pool: Option<(u64, u64)>,
}

/// An origin in [`Origins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OriginIndex(pub u32);

/// All distinct origins.
#[derive(Debug, Default)]
pub(super) struct Origins {
    pub all: Vec<Origin>,
    ids: FxHashMap<Origin, u32>,
    /// For each stack, the last origin with it. Most stacks have only one.
    by_stack: Vec<u32>,
}

impl Origins {
    /// The index of an origin.
    pub fn add(&mut self, origin: &Origin) -> OriginIndex {
        let stack = origin.stack.map_or(0, |stack| stack.index() + 1);
        if let Some(&last) = self.by_stack.get(stack)
            && self.all.get(last as usize) == Some(origin)
        {
            return OriginIndex(last);
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry(*origin).or_insert(next);
        if id == next {
            self.all.push(*origin);
        }
        if self.by_stack.len() <= stack {
            self.by_stack.resize(stack + 1, u32::MAX);
        }
        self.by_stack[stack] = id;
        OriginIndex(id)
    }
}

/// An entry of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) enum ParsedEntry {
    /// An action that concerns memory.
    Memory(Entry<OriginIndex>),
    /// `user_defined`: an annotation of PyTorch 2.4. The only frame of its stack has the stage as its function and the
    /// name as its file.
    UserDefined { stack: Option<StackIndex>, time_us: u64 },
    /// `annotate`: a label of the allocation at an address.
    Label { address: u64, text: TextId, time_us: u64 },
    /// A pair of events that restores the state of a CUDA graph's pool; the program allocated nothing.
    Internal,
    /// An action that does not concern memory or is unknown.
    Other(Option<TextId>),
}

/// The trace of a device.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub entries: Entries<OriginIndex>,
    pub user_defined: Vec<(Option<StackIndex>, u64)>,
    pub labels: Vec<(u64, TextId, u64)>,
    pub internal: u64,
    /// The number of entries with other actions.
    pub others: BTreeMap<Option<TextId>, u64>,
    /// The number of entries of each kind that a replay needs, before frees were joined.
    pub allocations: u64,
    pub requests: u64,
    pub completions: u64,
    /// All entries, as the snapshot counts them.
    pub len: u64,
    pub first_us: Option<u64>,
}

impl Trace {
    pub fn push(&mut self, entry: ParsedEntry) {
        self.len += 1;
        match entry {
            ParsedEntry::Memory(entry) => {
                match entry.action {
                    HistoryAction::Allocated => self.allocations += 1,
                    HistoryAction::FreeRequested => self.requests += 1,
                    HistoryAction::FreeCompleted => self.completions += 1,
                    _ => {}
                }
                self.first_us.get_or_insert(entry.time_us);
                self.entries.push(entry);
            }
            ParsedEntry::UserDefined { stack, time_us } => self.user_defined.push((stack, time_us)),
            ParsedEntry::Label { address, text, time_us } => self.labels.push((address, text, time_us)),
            ParsedEntry::Internal => self.internal += 1,
            ParsedEntry::Other(word) => *self.others.entry(word).or_default() += 1,
        }
    }
}

/// Turns dictionaries into entries.
#[derive(Debug, Default)]
pub(super) struct TraceParser {
    pub origins: Origins,
    /// The meanings of texts as actions, if they are known.
    actions: Vec<Option<Word>>,
}

/// The meaning of an action's word.
#[derive(Clone, Copy, Debug)]
enum Word {
    Memory(HistoryAction),
    UserDefined,
    Annotate,
    Other,
}

/// The fields of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    action: Option<TextId>,
    addr: u64,
    device_free: u64,
    size: u64,
    time_us: u64,
    is_internal: bool,
    origin: Origin,
}

impl Fields {
    /// Sets the value of a key that is not a list.
    pub fn set(&mut self, key: Key, value: Value) {
        // Nothing was recorded if these texts are empty.
        let said = || value.text().filter(|text| !Texts::is_nothing(*text));
        match key {
            Key::Action => self.action = value.text(),
            Key::Addr => self.addr = value.int().unwrap_or(0),
            Key::DeviceFree => self.device_free = value.int().unwrap_or(0),
            Key::Size => self.size = value.int().unwrap_or(0),
            Key::TimeUs => self.time_us = value.int().unwrap_or(0),
            Key::Stream => self.origin.stream = value.int().unwrap_or(0),
            Key::CompileContext => self.origin.context = said(),
            Key::UserMetadata => self.origin.metadata = said(),
            Key::InternalMetadata => self.is_internal = said().is_some(),
            _ => {}
        }
    }

    pub fn set_stack(&mut self, stack: Option<StackIndex>) {
        self.origin.stack = stack;
    }

    pub fn without_stack(mut self) -> Self {
        self.set_stack(None);
        self
    }

    pub fn has_action(&self) -> bool {
        self.action.is_some()
    }
}

impl TraceParser {
    /// Parses an entry. `stack_of` returns the stack of a list of frames, and `list_of` the values of other lists.
    pub fn parse<'h>(
        &mut self,
        pairs: impl Iterator<Item = (Value, Value)>,
        stack_of: impl Fn(Value) -> Option<StackIndex>,
        list_of: impl Fn(Value) -> &'h [Value],
        texts: &Texts,
    ) -> ParsedEntry {
        let mut fields = Fields::default();
        for (key, value) in pairs {
            match (key.text().and_then(keys::of), list_of(value)) {
                (Some(Key::Frames), _) => fields.set_stack(stack_of(value)),
                (Some(Key::ForwardFrames), list) => {
                    fields.origin.forward = list.first().and_then(|line| line.text());
                }
                (Some(Key::PoolId), [Value::Int(a), Value::Int(b)]) => fields.origin.pool = Some((*a, *b)),
                (Some(key), _) => fields.set(key, value),
                (None, _) => {}
            }
        }
        self.entry(&fields, texts)
    }

    #[cold]
    fn learn(&mut self, word: TextId, texts: &Texts) -> Word {
        let meaning = match texts.get(word) {
            "user_defined" => Word::UserDefined,
            "annotate" => Word::Annotate,
            word => action_of(word).map_or(Word::Other, Word::Memory),
        };
        let index = word.0 as usize;
        if self.actions.len() <= index {
            self.actions.resize(index + 1, None);
        }
        self.actions[index] = Some(meaning);
        meaning
    }

    /// The entry with these fields.
    pub fn entry(&mut self, fields: &Fields, texts: &Texts) -> ParsedEntry {
        let Some(word) = fields.action else { return ParsedEntry::Other(None) };
        let meaning = match self.actions.get(word.0 as usize) {
            Some(&Some(meaning)) => meaning,
            _ => self.learn(word, texts),
        };
        let time_us = fields.time_us;
        match meaning {
            Word::Memory(_) if fields.is_internal => ParsedEntry::Internal,
            Word::Memory(action) => {
                let address = match AddressKey::of(action) {
                    AddressKey::Addr => fields.addr,
                    AddressKey::DeviceFree => fields.device_free,
                };
                let origin = self.origins.add(&fields.origin);
                ParsedEntry::Memory(Entry { action, address, bytes: fields.size, time_us, origin })
            }
            Word::UserDefined => ParsedEntry::UserDefined { stack: fields.origin.stack, time_us },
            Word::Annotate => match fields.origin.metadata {
                Some(text) => ParsedEntry::Label { address: fields.addr, text, time_us },
                None => ParsedEntry::Other(Some(word)),
            },
            Word::Other => ParsedEntry::Other(Some(word)),
        }
    }
}
