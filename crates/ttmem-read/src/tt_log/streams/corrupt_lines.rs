//! Counts and reports missing, repeated and unreadable lines.

use ttmem_model::Result;
use ttmem_model::words::counted_as;

use super::super::rank::At;
use super::{Log, POOLS};

/// The number of occurrences of a problem, and the first line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub count: u64,
    pub first: Option<u64>,
}

impl Tally {
    pub fn add(&mut self, line: u64) {
        self.add_all(Self { count: 1, first: Some(line) });
    }

    pub fn add_all(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

impl Log<'_, '_> {
    /// Warns about missing, repeated or unreadable lines, and the consequences.
    pub(super) fn warn_of_corrupt_lines(&mut self, end: At) -> Result<()> {
        self.tables.skipped(self.skipped.count + self.added.count + self.copied.count)?;
        if let Some(line) = self.skipped.first {
            let message = match self.skipped.count {
                1 => "this line could not be parsed and was skipped".to_owned(),
                count => format!("{count} lines could not be parsed and were skipped; this is the first"),
            };
            self.tables.warn(Some(line), message)?;
        }
        if let Some(line) = self.added.first {
            let added = self.added.count + self.copied.count;
            let lines = counted_as(added, "line that it added was", "lines that it added were");
            let copies = match self.copied.count {
                0 => "",
                _ => "copies of const-eval programs of earlier passes are not counted, and ",
            };
            let message = format!(
                "`ttmem last-run` 0.1.0 or earlier cut this log, and {lines} skipped; {copies}memory allocated \
                 before the last pass is not attributed to operations; if you have the complete log, run `ttmem \
                 last-run --profile` on it"
            );
            self.tables.warn(Some(line), message)?;
        }
        let has_steps = self.ranks.iter().any(|rank| rank.state.has_steps());
        if let Some(line) = self.snapshots.first.filter(|_| has_steps || self.snapshots.count > POOLS as u64)
        {
            let message =
                "this log contains a memory snapshot; its states are placed by their position in the file";
            self.tables.warn(Some(line), message)?;
        }
        // A log that ends inside a group is reported elsewhere.
        let is_cut = self.signs.torn || self.ranks.iter().any(|rank| rank.was_running);
        let mut incomplete = Tally::default();
        for stream in self.streams.iter_mut().filter(|stream| stream.has_whole_groups) {
            if let Some(group) = stream.group.filter(|group| group.count < POOLS)
                && !(is_cut && group.line + 1 >= end.line)
            {
                stream.partial.add(group.line);
            }
            incomplete.add_all(stream.partial);
        }
        let problems = [
            (
                self.repeated,
                "this line repeats the previous line and was ignored",
                "lines repeat the previous line and were ignored",
            ),
            (
                self.headless,
                "a group of memory states lacks its header; it is assigned to the preceding operation",
                "groups of memory states lack their header; each is assigned to the preceding operation",
            ),
            (
                incomplete,
                "a group of memory states lacks a pool; that pool keeps its last state",
                "groups of memory states lack a pool; that pool keeps its last state",
            ),
            (
                self.stray_modules,
                "this line belongs to a module dump without a header; argument names may be unknown",
                "lines belong to a module dump without a header; argument names may be unknown",
            ),
        ];
        for (tally, one, several) in problems {
            let Some(line) = tally.first else { continue };
            let message = match tally.count {
                1 => one.to_owned(),
                count => format!("{count} {several}; this is the first"),
            };
            self.tables.warn(Some(line), message)?;
        }
        Ok(())
    }
}
