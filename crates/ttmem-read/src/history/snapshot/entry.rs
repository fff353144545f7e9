//! Entries of a trace: the actions of an allocator, in order.

use ttmem_model::HistoryAction;

use super::stacks::StackIndex;

/// An action of an allocator. `O` is the origin of the action, as far as the source of snapshots needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<O> {
    /// The kind of action: `action`.
    pub action: HistoryAction,
    /// The address: the number under the [`AddressKey`] of the action.
    pub address: u64,
    /// The requested bytes: `size`.
    pub bytes: u64,
    /// Unix time in microseconds: `time_us`.
    pub time_us: u64,
    /// Where in the program it happened.
    pub origin: O,
}

/// The origin of an action in a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOrigin {
    /// The stack of the program: `frames`.
    pub stack: Option<StackIndex>,
    /// The enclosing call: `user_metadata`.
    pub within: Within,
}

/// The action for a word; `None` for words that do not concern memory (snapshots, annotations) and for unknown ones.
pub fn action_of(word: &str) -> Option<HistoryAction> {
    Some(match word {
        "alloc" => HistoryAction::Allocated,
        "free_requested" => HistoryAction::FreeRequested,
        "free_completed" => HistoryAction::FreeCompleted,
        "segment_alloc" => HistoryAction::Reserved,
        "segment_free" => HistoryAction::Released,
        "segment_map" => HistoryAction::Mapped,
        "segment_unmap" => HistoryAction::Unmapped,
        "oom" => HistoryAction::OutOfMemory,
        _ => return None,
    })
}

/// The key of an entry's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKey {
    /// `addr`.
    Addr,
    /// `device_free`: a failed allocation has no address, but reports the free memory of the driver.
    DeviceFree,
}

impl AddressKey {
    /// The address key of entries with an action.
    pub fn of(action: HistoryAction) -> Self {
        if action == HistoryAction::OutOfMemory { Self::DeviceFree } else { Self::Addr }
    }
}

/// The call that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The call with this number.
    Call(u64),
    /// No call.
    NoCall,
    /// The entry does not contain this information.
    Unknown,
}

/// The prefix of the live tracker's metadata.
const PREFIX: &str = "ttmem:";

/// The metadata passed to an allocator for the call that runs in a thread: its number, and its name for other tools.
pub fn call_metadata(number: u64, name: &str) -> String {
    format!("{PREFIX}{number}:{name}")
}

impl Within {
    /// The call named by an entry's `user_metadata`. Threads that run Python have an empty text outside calls. Autograd
    /// engine threads always have an empty text, and no stack.
    pub fn new(user_metadata: Option<&str>, has_stack: bool) -> Self {
        let number = |text: &str| text.strip_prefix(PREFIX)?.split(':').next()?.parse().ok();
        match user_metadata {
            Some("") if has_stack => Self::NoCall,
            Some(text) => number(text).map_or(Self::Unknown, Self::Call),
            None => Self::Unknown,
        }
    }
}

/// The number of entries in a chunk.
const CHUNK: usize = if cfg!(test) { 64 } else { 1 << 12 };

/// Entries in order. A block that is freed and becomes available immediately is one entry ([`HistoryAction::Freed`]),
/// not two.
///
/// There are millions of entries, so they are kept in chunks, which are released one by one while rows are made of them.
#[derive(Clone, Debug)]
pub struct Entries<O> {
    full: Vec<Vec<Entry<O>>>,
    /// The last chunk, which is not full yet or just became full.
    open: Vec<Entry<O>>,
    /// An empty chunk, whose memory the next one uses.
    pub(crate) spare: Option<Vec<Entry<O>>>,
    len: usize,
    allocations: u64,
}

impl<O> Default for Entries<O> {
    fn default() -> Self {
        Self { full: Vec::new(), open: Vec::new(), spare: None, len: 0, allocations: 0 }
    }
}

impl<O> Entries<O> {
    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, entry: Entry<O>) {
        if entry.action == HistoryAction::FreeCompleted
            && let Some(last) = self.open.last_mut()
            && last.action == HistoryAction::FreeRequested
            && last.address == entry.address
        {
            last.action = HistoryAction::Freed;
            return;
        }
        self.allocations += u64::from(entry.action == HistoryAction::Allocated);
        self.len += 1;
        if self.open.len() == CHUNK {
            let next = self.spare.take().unwrap_or_else(|| Vec::with_capacity(CHUNK));
            let full = std::mem::replace(&mut self.open, next);
            self.full.push(full);
        }
        // The first chunk grows, because most traces are short.
        self.open.push(entry);
    }

    /// Takes the chunks that no later entry changes. They are still counted, and have to be put back unless the entries are
    /// not read again.
    pub(crate) fn take_full(&mut self) -> Vec<Vec<Entry<O>>> {
        std::mem::take(&mut self.full)
    }

    /// Whether there are chunks to take.
    #[inline]
    pub(crate) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Takes the last chunk as well.
    pub(crate) fn take_open(&mut self) -> Vec<Entry<O>> {
        std::mem::take(&mut self.open)
    }

    /// Puts back all chunks that were taken.
    pub(crate) fn put_back(&mut self, chunks: Vec<Vec<Entry<O>>>) {
        let later = std::mem::replace(&mut self.full, chunks);
        self.full.extend(later);
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry<O>> {
        self.full.iter().flatten().chain(&self.open)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of allocations among the entries.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

impl<O> IntoIterator for Entries<O> {
    type Item = Entry<O>;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<Entry<O>>>>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.full.push(self.open);
        self.full.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(word: &str, address: u64) -> Entry<()> {
        let action = action_of(word).unwrap();
        Entry { action, address, bytes: 64, time_us: 0, origin: () }
    }

    #[test]
    fn a_call_is_known_by_its_number() {
        assert_eq!(Within::new(Some(&call_metadata(17, "a:b")), true), Within::Call(17));
        assert_eq!(Within::new(Some(&call_metadata(0, "")), false), Within::Call(0));
        assert_eq!(Within::new(Some(""), true), Within::NoCall);
        assert_eq!(Within::new(Some(""), false), Within::Unknown);
        for text in ["ttmem:", "ttmem:x:y", "ttmem:-1:y", "mine", "ttmem:99999999999999999999:y"] {
            assert_eq!(Within::new(Some(text), true), Within::Unknown, "{text}");
        }
        assert_eq!(Within::new(None, true), Within::Unknown);
    }

    #[test]
    fn words_that_are_not_about_memory_are_no_actions() {
        for word in ["snapshot", "annotate", "user_defined", "", "ALLOC", "workspace_alloc"] {
            assert_eq!(action_of(word), None, "{word}");
        }
        assert_eq!(action_of("oom").map(AddressKey::of), Some(AddressKey::DeviceFree));
        assert_eq!(action_of("segment_unmap").map(AddressKey::of), Some(AddressKey::Addr));
    }

    #[test]
    fn a_free_that_waits_for_nothing_is_one_entry() {
        let mut entries = Entries::default();
        for (word, address) in [
            ("alloc", 1),
            ("alloc", 2),
            ("free_requested", 1),
            ("free_completed", 1),
            ("free_requested", 2),
            ("alloc", 1),
            ("free_completed", 2),
            ("free_completed", 3),
        ] {
            entries.push(entry(word, address));
        }
        let found: Vec<_> = entries.iter().map(|entry| (entry.action, entry.address)).collect();
        let wanted = [
            (HistoryAction::Allocated, 1),
            (HistoryAction::Allocated, 2),
            (HistoryAction::Freed, 1),
            (HistoryAction::FreeRequested, 2),
            (HistoryAction::Allocated, 1),
            (HistoryAction::FreeCompleted, 2),
            (HistoryAction::FreeCompleted, 3),
        ];
        assert_eq!((found.as_slice(), entries.allocations()), (wanted.as_slice(), 3));
    }

    /// There are millions of entries.
    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry<LiveOrigin>>() <= 56, "{}", size_of::<Entry<LiveOrigin>>());
        assert!(size_of::<Entry<u32>>() <= 32, "{}", size_of::<Entry<u32>>());
    }
}
