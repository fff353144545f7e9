//! Looks over a log while it is being written: how many operations ran, and how full DRAM is.
//!
//! A light companion of the reader, for a line on a terminal. It takes lines apart by the same rules and counts by
//! the same rules, so its numbers are those that the reader comes to; but it keeps two numbers of a rank where the
//! reader rebuilds what was in memory. It is fed bytes as they come, cut anywhere, and never fails.

use std::mem;

use memchr::memchr;
use rustc_hash::FxHashMap;

use super::line::{Header, Message, Prefixes, Text, split_tag};
use super::operation::ParsedOp;
use super::streams::is_torn;
use super::view::View;
use crate::lines::LONGEST_LINE;

/// What a log has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The operations that were begun, deallocations included; of several ranks, of the one with the most.
    pub operations: u64,
    /// DRAM; `None` until its state was printed.
    pub dram: Option<SeenPool>,
}

/// How full a pool is; of several ranks, that of the one that uses or used the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPool {
    /// The last state of a bank.
    pub current_per_bank: u64,
    /// The highest.
    pub peak_per_bank: u64,
    /// The size of a bank.
    pub capacity_per_bank: u64,
}

/// Looks over a log while it is being written.
#[derive(Debug, Default)]
pub struct Watch {
    prefixes: Prefixes,
    /// Whose number in `ranks`, by the label of its tag.
    by_label: FxHashMap<Option<Vec<u8>>, usize>,
    ranks: Vec<RankWatch>,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// That line is longer than any that is read.
    too_long: bool,
}

impl Watch {
    /// Takes the next bytes of the log.
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

    /// Takes the end of the log: its last line may have no end of its own.
    pub fn finish(&mut self) {
        self.end_line(false);
    }

    /// What was seen so far.
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
        self.too_long |= self.begun.len() + bytes.len() > LONGEST_LINE;
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

    /// Takes a line; `ended` if it has its end.
    fn line(&mut self, line: &[u8], ended: bool) {
        let line = line.strip_suffix(b"\r").filter(|_| ended).unwrap_or(line);
        let (tag, rest) = split_tag(line);
        let message = match self.prefixes.split(rest) {
            Text::Runtime(text) if !ended && is_torn(text) => return,
            Text::Runtime(text) => Message::of(text),
            // A snapshot's states have no logger in front of them.
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

/// What is known of one rank.
#[derive(Debug, Default)]
struct RankWatch {
    operations: u64,
    dram: Option<SeenPool>,
    /// The states before the last operation have yet to come.
    waiting: bool,
    /// Whether operations have texts; a log without has only their types, before their states.
    has_texts: bool,
    /// The last text was no operation's: the type before its states is all that is known of it.
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
