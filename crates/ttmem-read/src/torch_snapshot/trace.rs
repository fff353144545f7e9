//! The traces of a snapshot: the actions of one device's allocator, and the annotations among them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::HistoryAction;

use super::eager::Eager;
use super::heap::{TextId, Texts, Value};
use super::keys::{self, Key};
use super::packed::Packed;
use crate::history::snapshot::{AddressKey, Entries, Entry, StackIndex, action_of};
use crate::history::{Expected, PlacedAlone};

/// The largest possible memory: more than any device has, and little enough to be added up.
pub(super) const MAX_BYTES: u64 = 1 << 48;
/// The largest possible request. PyTorch refuses more before it records anything.
const MAX_REQUEST: u64 = 1 << 60;

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
    /// An action with an impossible size or address, or without one.
    Invalid,
    /// A pair of events that restores the state of a CUDA graph's pool; the program allocated nothing.
    Internal,
    /// An action that does not concern memory or is unknown.
    Other(Option<TextId>),
}

/// The trace of a device.
#[derive(Debug, Default)]
pub(super) struct Trace {
    entries: Entries<OriginIndex>,
    /// The entries before these, if they were placed while they were read.
    packed: Vec<Packed>,
    pub user_defined: Vec<(Option<StackIndex>, u64)>,
    pub labels: Vec<(u64, TextId, u64)>,
    pub internal: u64,
    /// The number of entries with an impossible size or address.
    pub invalid: u64,
    /// The number of entries with other actions.
    pub others: BTreeMap<Option<TextId>, u64>,
    /// The number of entries with each action, before frees were joined.
    counts: [u64; Self::ACTIONS],
    /// All entries, as the snapshot counts them.
    pub len: u64,
    pub first_us: Option<u64>,
    pub eager: Eager,
}

impl Trace {
    const ACTIONS: usize = HistoryAction::Highest as usize + 1;

    /// A trace that may be placed while it is read.
    pub fn placed_by(eager: Eager) -> Self {
        Self { eager, ..Self::default() }
    }

    /// The number of entries with an action, before frees were joined.
    pub fn count(&self, action: HistoryAction) -> u64 {
        self.counts[action as usize]
    }

    pub fn push(&mut self, entry: ParsedEntry) {
        self.len += 1;
        match entry {
            ParsedEntry::Memory(entry) => self.push_memory(entry),
            ParsedEntry::UserDefined { stack, time_us } => self.user_defined.push((stack, time_us)),
            ParsedEntry::Label { address, text, time_us } => self.labels.push((address, text, time_us)),
            ParsedEntry::Invalid => self.invalid += 1,
            ParsedEntry::Internal => self.internal += 1,
            ParsedEntry::Other(word) => *self.others.entry(word).or_default() += 1,
        }
    }

    /// Adds an entry of the usual kind, which has some bytes.
    #[inline]
    pub fn push_expected(&mut self, entry: Entry<OriginIndex>, bytes: usize) {
        self.len += 1;
        self.eager.measure(bytes);
        self.push_memory(entry);
    }

    #[inline]
    fn push_memory(&mut self, entry: Entry<OriginIndex>) {
        self.counts[entry.action as usize] += 1;
        self.first_us.get_or_insert(entry.time_us);
        self.entries.push(entry);
        if self.entries.has_full() && self.eager.is_wanted() {
            self.pass_on();
        }
    }

    #[cold]
    fn pass_on(&mut self) {
        let full = self.entries.take_full();
        let mut eager = std::mem::take(&mut self.eager);
        let rest = eager.send(full, |entries| self.expected(entries));
        self.entries.spare = eager.used();
        self.eager = eager;
        self.entries.put_back(rest);
    }

    /// What to expect of a number of entries if they are like those so far. Reserving too little costs a copy, and reserving
    /// too much costs memory at the ends of columns.
    fn expected(&self, entries: u64) -> Expected {
        let share = |value: u64| {
            let share = u128::from(entries) * u128::from(value) / u128::from(self.len.max(1));
            usize::try_from(share + share / 64).unwrap_or(0)
        };
        Expected { rows: share(self.entries.len() as u64), allocations: share(self.entries.allocations()) }
    }

    /// Waits until the trace is placed, if it was placed while it was read. Then the entries are complete.
    pub fn placed(&mut self) -> Option<PlacedAlone> {
        if let Eager::Placing(_) = self.eager {
            let mut last = self.entries.take_full();
            last.push(self.entries.take_open());
            let rest = self.eager.send(last, |_| Expected::default());
            debug_assert!(rest.is_empty(), "the thread is running");
        }
        let (placed, packed) = std::mem::take(&mut self.eager).finish();
        self.packed = packed;
        placed
    }

    /// All entries.
    pub fn into_entries(mut self) -> Entries<OriginIndex> {
        self.entries.put_back(self.packed.iter().map(Packed::unpack).collect());
        self.entries
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
    numbers: Numbers,
    is_internal: bool,
    origin: Origin,
}

/// The numbers that change with every entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub addr: u64,
    pub device_free: u64,
    pub size: u64,
    pub time_us: u64,
}

impl Default for Numbers {
    /// Not every version of PyTorch has times.
    fn default() -> Self {
        Self { addr: Self::INVALID, device_free: Self::INVALID, size: Self::INVALID, time_us: 0 }
    }
}

impl Numbers {
    /// Stands for an address or a size that is missing or not a number.
    const INVALID: u64 = u64::MAX;

    /// The number of a key.
    #[inline]
    pub fn of(&mut self, key: Key) -> Option<&mut u64> {
        Some(match key {
            Key::Addr => &mut self.addr,
            Key::DeviceFree => &mut self.device_free,
            Key::Size => &mut self.size,
            Key::TimeUs => &mut self.time_us,
            _ => return None,
        })
    }
}

/// The fields that entries of one form share, and the origins that follow from them and from the stack.
#[derive(Debug)]
pub(super) struct SharedFields {
    fields: Fields,
    origins: StackOrigins,
}

impl SharedFields {
    pub fn new(mut fields: Fields) -> Self {
        fields.set_stack(None);
        Self { fields, origins: StackOrigins::default() }
    }

    pub fn numbers(&self) -> Numbers {
        self.fields.numbers
    }
}

/// The known origins of entries that differ only in their stack.
///
/// They are kept in pages: there may be many of these tables, and each has only a few of the stacks.
#[derive(Debug, Default)]
pub(super) struct StackOrigins {
    pages: Vec<Option<Box<[Option<OriginIndex>; Self::PAGE]>>>,
}

impl StackOrigins {
    const PAGE: usize = 1 << 8;

    /// The number of a stack; entries without one have the first number.
    #[inline]
    fn number(stack: Option<StackIndex>) -> usize {
        stack.map_or(0, |stack| stack.index() + 1)
    }

    /// The origin of entries with a stack, if it is known.
    #[inline]
    pub fn get(&self, stack: Option<StackIndex>) -> Option<OriginIndex> {
        let number = Self::number(stack);
        self.pages.get(number / Self::PAGE)?.as_ref()?[number % Self::PAGE]
    }

    pub fn set(&mut self, stack: Option<StackIndex>, origin: OriginIndex) {
        let number = Self::number(stack);
        let page = number / Self::PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([None; Self::PAGE]))[number % Self::PAGE] =
            Some(origin);
    }
}

/// What an entry has in addition to the fields that it shares with others.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnFields {
    pub action: Option<TextId>,
    pub numbers: Numbers,
    pub stack: Option<StackIndex>,
}

impl Fields {
    /// Sets the value of a key that is not a list.
    pub fn set(&mut self, key: Key, value: Value) {
        // Nothing was recorded if these texts are empty.
        let said = || value.text().filter(|text| !Texts::is_nothing(*text));
        if let Some(number) = self.numbers.of(key) {
            *number = value.int().unwrap_or(if key == Key::TimeUs { 0 } else { Numbers::INVALID });
        }
        match key {
            Key::Action => self.action = value.text(),
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

    #[inline]
    fn meaning(&mut self, word: TextId, texts: &Texts) -> Word {
        match self.actions.get(word.0 as usize) {
            Some(&Some(meaning)) => meaning,
            _ => self.learn(word, texts),
        }
    }

    /// The same as [`TraceParser::entry`] for the fields that an entry shares with others together with its own. Their
    /// origin is looked up only once for each stack.
    #[inline]
    pub fn entry_of(&mut self, shared: &mut SharedFields, own: &OwnFields, texts: &Texts) -> ParsedEntry {
        let meaning = own.action.map(|word| self.meaning(word, texts));
        if let (Some(Word::Memory(action)), false) = (meaning, shared.fields.is_internal) {
            let origin = match shared.origins.get(own.stack) {
                Some(known) => known,
                None => self.learn_origin(shared, own.stack),
            };
            return memory_entry(action, &own.numbers, origin);
        }
        let mut fields = Fields { action: own.action, numbers: own.numbers, ..shared.fields };
        fields.set_stack(own.stack);
        self.entry(&fields, texts)
    }

    #[cold]
    fn learn_origin(&mut self, shared: &mut SharedFields, stack: Option<StackIndex>) -> OriginIndex {
        let origin = self.origins.add(&Origin { stack, ..shared.fields.origin });
        shared.origins.set(stack, origin);
        origin
    }

    /// The entry with these fields.
    pub fn entry(&mut self, fields: &Fields, texts: &Texts) -> ParsedEntry {
        let Some(word) = fields.action else { return ParsedEntry::Other(None) };
        let Numbers { addr, time_us, .. } = fields.numbers;
        match self.meaning(word, texts) {
            Word::Memory(_) if fields.is_internal => ParsedEntry::Internal,
            Word::Memory(action) => {
                let origin = self.origins.add(&fields.origin);
                memory_entry(action, &fields.numbers, origin)
            }
            Word::UserDefined => ParsedEntry::UserDefined { stack: fields.origin.stack, time_us },
            Word::Annotate => match fields.origin.metadata {
                Some(text) => ParsedEntry::Label { address: addr, text, time_us },
                None => ParsedEntry::Other(Some(word)),
            },
            Word::Other => ParsedEntry::Other(Some(word)),
        }
    }
}

#[inline]
fn memory_entry(action: HistoryAction, numbers: &Numbers, origin: OriginIndex) -> ParsedEntry {
    let Numbers { addr, device_free, size: bytes, time_us } = *numbers;
    let address = match AddressKey::of(action) {
        AddressKey::Addr => addr,
        AddressKey::DeviceFree => device_free,
    };
    let entry = Entry { action, address, bytes, time_us, origin };
    if is_possible(&entry) { ParsedEntry::Memory(entry) } else { ParsedEntry::Invalid }
}

/// Whether the memory of an entry can exist.
#[inline]
pub(super) fn is_possible(entry: &Entry<OriginIndex>) -> bool {
    let Entry { action, address, bytes, .. } = *entry;
    match AddressKey::of(action) {
        AddressKey::Addr => {
            bytes <= MAX_BYTES && address.checked_add(bytes).is_some_and(|end| end != Numbers::INVALID)
        }
        AddressKey::DeviceFree => bytes <= MAX_REQUEST && address <= MAX_BYTES,
    }
}
