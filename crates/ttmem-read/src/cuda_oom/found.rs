//! An out-of-memory error that was found in a text.

use ttmem_model::Amount;

use super::amount::Cursor;
use super::startup::Part;

/// The numbers of an error: see `ttmem_model::Ledger`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub requested: Option<Amount>,
    pub capacity: Option<Amount>,
    pub free: Option<Amount>,
    pub allowed: Option<Amount>,
    pub process: Option<Amount>,
    pub allocated: Option<Amount>,
    pub private_pools: Option<Amount>,
    pub unallocated: Option<Amount>,
    pub other: Option<Amount>,
    /// The largest free block of the allocator.
    pub largest_free: Option<Amount>,
}

impl Numbers {
    /// Whether anything is known.
    pub fn has_any(&self) -> bool {
        *self != Self::default()
    }
}

/// An error in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// What failed to allocate, as in `ttmem_model::Ledger`.
    pub source: &'static str,
    /// The platform, as in `ttmem_model::Ledger`.
    pub platform: &'static str,
    pub device: Option<u32>,
    pub numbers: Numbers,
    /// The processes that the message lists, with their IDs.
    pub processes: Vec<(u64, Amount)>,
    /// What the message says about parts of the memory.
    pub parts: Vec<Part>,
    /// The number of tokens that a KV cache must hold, and the number that it can hold.
    pub tokens: [Option<u64>; 2],
    /// Where the message begins in the text.
    pub start: usize,
    /// Where its known words end in the text.
    pub end: usize,
    /// The message as far as its words are known.
    pub message: String,
    /// Whether the message has all of its words.
    pub is_complete: bool,
    /// Whether the text ends inside the message, so that the next line may continue it.
    pub may_go_on: bool,
}

impl Found {
    pub fn new(source: &'static str, platform: &'static str, start: usize) -> Self {
        Self {
            source,
            platform,
            device: None,
            numbers: Numbers::default(),
            processes: Vec::new(),
            parts: Vec::new(),
            tokens: [None; 2],
            start,
            end: start,
            message: String::new(),
            is_complete: false,
            may_go_on: false,
        }
    }

    /// Whether the message has numbers.
    pub fn has_numbers(&self) -> bool {
        self.numbers.has_any() || self.tokens.iter().any(Option::is_some)
    }

    /// Sets the message, which ends where the cursor stands.
    pub fn ending(mut self, cursor: &Cursor<'_>, text: &[u8]) -> Self {
        self.may_go_on = !self.is_complete && cursor.is_cut;
        self.end = self.start + cursor.position();
        self.message = words(&text[self.start..self.end]);
        self
    }

    /// An error whose message is a part of the text.
    pub fn with_message(mut self, message: &[u8]) -> Self {
        self.message = words(message);
        self.end = self.start + message.len();
        self.is_complete = true;
        self
    }

    /// Uses exact numbers of a warning, if the rounded numbers of the message are the same.
    pub fn refine(&mut self, [requested, free, total]: [u64; 3]) {
        let numbers = &mut self.numbers;
        let pairs =
            [(&mut numbers.requested, requested), (&mut numbers.free, free), (&mut numbers.capacity, total)];
        let is_same = |(known, exact): &(&mut Option<Amount>, u64)| {
            known.is_some_and(|known| known.is_near(Amount::exact(*exact)))
        };
        if pairs.iter().all(is_same) {
            for (known, exact) in pairs {
                *known = Some(Amount::exact(exact));
            }
        }
    }
}

/// A text with single blanks.
fn words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}
