//! Follows a log while it is being written: the number of operations, and DRAM usage.
//!
//! It is a lightweight version of the reader for a status line. It parses and counts by the same rules, so its numbers
//! match the reader's, but it does not reconstruct the tensors. It accepts bytes in arbitrary pieces and never fails.

use std::mem;

use memchr::memchr;
use rustc_hash::FxHashMap;

use super::line::{Header, Message, Prefixes, Text, split_tag};
use super::operation::ParsedOp;
use super::streams::is_torn;
use super::view::View;
use crate::lines::MAX_LINE;

/// What a log contains so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of started operations, including deallocations; the maximum over all ranks.
    pub operations: u64,
    /// DRAM; `None` until a state was printed.
    pub dram: Option<SeenPool>,
}

/// The usage of a pool; the maximum over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPool {
    /// The last usage of a bank.
    pub current_per_bank: u64,
    /// The highest usage of a bank.
    pub peak_per_bank: u64,
    /// The size of a bank.
    pub capacity_per_bank: u64,
}

/// Follows a log while it is being written.
#[derive(Debug, Default)]
pub struct Watch {
    prefixes: Prefixes,
    /// The indexes in `ranks`, by the label of their tag.
    by_label: FxHashMap<Option<Vec<u8>>, usize>,
    ranks: Vec<RankWatch>,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
    /// That line exceeds the maximum length.
    too_long: bool,
}

impl Watch {
    /// Processes the next bytes of the log.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.begun.is_empty() && !self.too_long {
                self.line(line, true);
            } else {
                self.gather(line);
                self.end_line(true);
            }
            bytes = rest;
        }
        self.gather(bytes);
    }

    /// Processes the end of the log: its last line may have no line ending.
    pub fn finish(&mut self) {
        self.end_line(false);
    }

    /// The results so far.
    pub fn seen(&self) -> Seen {
        let dram = self.ranks.iter().filter_map(|rank| rank.dram);
        Seen {
            operations: self.ranks.iter().map(|rank| rank.operations).max().unwrap_or(0),
            dram: dram.reduce(|one, other| SeenPool {
                current_per_bank: one.current_per_bank.max(other.current_per_bank),
                peak_per_bank: one.peak_per_bank.max(other.peak_per_bank),
                capacity_per_bank: one.capacity_per_bank.max(other.capacity_per_bank),
            }),
        }
    }

    fn gather(&mut self, bytes: &[u8]) {
        self.too_long |= self.begun.len() + bytes.len() > MAX_LINE;
        if self.too_long {
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, ended: bool) {
        let mut line = mem::take(&mut self.begun);
        if !mem::take(&mut self.too_long) && !line.is_empty() {
            self.line(&line, ended);
        }
        line.clear();
        self.begun = line;
    }

    /// Processes a line; `ended` if it has a line ending.
    fn line(&mut self, line: &[u8], ended: bool) {
        let line = line.strip_suffix(b"\r").filter(|_| ended).unwrap_or(line);
        let (tag, rest) = split_tag(line);
        let message = match self.prefixes.split(rest) {
            Text::Runtime(text) if !ended && is_torn(text) => return,
            Text::Runtime(text) => Message::of(text),
            // The states of a snapshot have no logger prefix.
            Text::Foreign(text) => match Message::of(text) {
                state @ Message::State { .. } => state,
                _ => return,
            },
        };
        if !matches!(message, Message::Executing(_) | Message::StateHeader(_) | Message::State { .. }) {
            return;
        }
        let label = tag.map(|tag| tag.rank.iter().copied().filter(|byte| *byte != b' ').collect());
        let rank = *self.by_label.entry(label).or_insert_with(|| {
            self.ranks.push(RankWatch::default());
            self.ranks.len() - 1
        });
        self.ranks[rank].message(message);
    }
}

/// The state of one rank.
#[derive(Debug, Default)]
struct RankWatch {
    operations: u64,
    dram: Option<SeenPool>,
    /// The states before the last operation are still expected.
    waiting: bool,
    /// Whether operations have texts. Without texts, only their types are printed, before their states.
    has_texts: bool,
    /// The last text was not an operation, so only the type before its states is known.
    skipped: bool,
}

impl RankWatch {
    fn message(&mut self, message: Message<'_>) {
        match message {
            Message::Executing(text) => self.executing(text),
            Message::StateHeader(Header::BeforeOperation(_)) => self.before_operation(),
            Message::State { pool: b"DRAM", view } => self.dram(view),
            _ => {}
        }
    }

    fn executing(&mut self, text: &[u8]) {
        self.skipped = !ParsedOp::is_operation(text);
        if !self.skipped {
            self.operations += 1;
            (self.waiting, self.has_texts) = (true, true);
        }
    }

    fn before_operation(&mut self) {
        if mem::take(&mut self.waiting) {
            return;
        }
        if mem::take(&mut self.skipped) || !self.has_texts {
            self.operations += 1;
        }
    }

    fn dram(&mut self, view: &[u8]) {
        let Some(view) = View::parse(view) else { return };
        let current = view.allocated.bytes();
        self.dram = Some(SeenPool {
            current_per_bank: current,
            peak_per_bank: self.dram.map_or(current, |dram| dram.peak_per_bank.max(current)),
            capacity_per_bank: view.total.bytes(),
        });
    }
}
