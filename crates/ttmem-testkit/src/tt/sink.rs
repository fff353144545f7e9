//! The output of lines: tags, interleaving of ranks, foreign lines and line endings.
//!
//! All ranks run the same programs, so the model runs once and every rank prints the same lines at its own pace. No
//! rank is ever more than [`LEAD`] lines ahead of another, which bounds memory use.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};

use super::log::Source;
use super::noise::write_foreign_line;
use super::options::Options;
use crate::random::Random;

/// The maximum number of lines that a rank may be ahead of another.
const LEAD: usize = 48;

/// Writes lines to the log.
pub struct Sink<'w> {
    out: BufWriter<&'w mut dyn Write>,
    random: Random,
    noise: u8,
    line_end: &'static [u8],
    prefix: Vec<u8>,
    split_streams: bool,
    foreign: Vec<u8>,
    ranks: Ranks,
}

/// Lines that not every rank has printed yet.
#[derive(Debug, Default)]
struct Ranks {
    pending: VecDeque<(Source, Vec<u8>)>,
    /// For every rank, the number of pending lines it has printed.
    printed: Vec<usize>,
    /// Buffers of printed lines, for reuse.
    spare: Vec<Vec<u8>>,
}

impl<'w> Sink<'w> {
    pub fn new(out: &'w mut dyn Write, options: &Options, random: Random) -> Self {
        Self {
            out: BufWriter::with_capacity(1 << 18, out),
            random,
            noise: options.noise,
            line_end: if options.crlf { b"\r\n" } else { b"\n" },
            prefix: options.prefix.clone().into_bytes(),
            split_streams: options.split_streams,
            foreign: Vec::new(),
            ranks: Ranks { printed: vec![0; options.ranks as usize], ..Ranks::default() },
        }
    }

    /// Writes the next line, without its line ending.
    pub fn line(&mut self, source: Source, line: &[u8]) -> io::Result<()> {
        if self.ranks.printed.is_empty() {
            return self.print(None, source, line);
        }
        let mut kept = self.ranks.spare.pop().unwrap_or_default();
        kept.extend_from_slice(line);
        self.ranks.pending.push_back((source, kept));
        while self.ranks.pending.len() > LEAD {
            self.take_turn()?;
        }
        Ok(())
    }

    /// Writes the remaining lines.
    pub fn finish(&mut self) -> io::Result<()> {
        while !self.ranks.pending.is_empty() {
            self.take_turn()?;
        }
        self.out.flush()
    }

    /// Lets one lagging rank print a few lines, and drops those that all ranks have printed.
    fn take_turn(&mut self) -> io::Result<()> {
        let end = self.ranks.pending.len();
        let behind: Vec<usize> =
            (0..self.ranks.printed.len()).filter(|&rank| self.ranks.printed[rank] < end).collect();
        let rank = self.random.pick(&behind);
        for _ in 0..self.random.between(1, 6) {
            let at = self.ranks.printed[rank];
            let Some((source, line)) = self.ranks.pending.get_mut(at) else { break };
            let (source, line) = (*source, std::mem::take(line));
            self.print(Some(rank), source, &line)?;
            self.ranks.pending[at].1 = line;
            self.ranks.printed[rank] += 1;
        }
        let by_all = self.ranks.printed.iter().copied().min().unwrap_or(0);
        for (_, mut line) in self.ranks.pending.drain(..by_all) {
            line.clear();
            self.ranks.spare.push(line);
        }
        for printed in &mut self.ranks.printed {
            *printed -= by_all;
        }
        Ok(())
    }

    fn print(&mut self, rank: Option<usize>, source: Source, line: &[u8]) -> io::Result<()> {
        self.tag(rank, source)?;
        self.out.write_all(line)?;
        self.out.write_all(self.line_end)?;
        // A module and an exception are written at once, so that no line is printed in between.
        if source == Source::Runtime && self.noise > 0 && self.random.chance(self.noise) {
            self.foreign.clear();
            write_foreign_line(&mut self.foreign, &mut self.random);
            // The launcher of the ranks also prints lines, without a tag.
            if self.random.chance(80) {
                self.tag(rank, source)?;
            }
            self.out.write_all(&self.foreign)?;
            self.out.write_all(self.line_end)?;
        }
        Ok(())
    }

    fn tag(&mut self, rank: Option<usize>, source: Source) -> io::Result<()> {
        if let Some(rank) = rank {
            let stream = if self.split_streams && source != Source::Runtime { "stderr" } else { "stdout" };
            write!(self.out, "[1,{rank}]<{stream}>:")?;
        }
        self.out.write_all(&self.prefix)
    }
}
