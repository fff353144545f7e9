//! Copies the lines of the last pass and of all module dumps, unchanged.

use std::io::{self, Read, Write};
use std::path::Path;

use ttmem_model::{Error, Result};

use super::super::line::{Message, Prefixes, Tag, Text, split_tag};
use super::super::module::{is_end, stage_header};
use super::super::streams::before_preamble;
use super::{Begin, Part};
use crate::lines::{Line, Lines, is_corruption};
use crate::tt_metal::Failure;

/// Decides for each line whether it is copied.
pub(super) struct Cutter<'a> {
    parts: &'a [Part],
    out: &'a mut dyn Write,
    /// The path of `out`, for error messages.
    path: &'a Path,
    /// The lines of writers without a pass.
    common: Region,
    streams: Vec<Stream>,
    prefixes: Prefixes,
    /// The number of passes that have not begun yet.
    waiting: usize,
}

/// The lines of a pass, by their offsets.
#[derive(Clone, Copy)]
struct Region {
    /// The first line of the runtime.
    runtime: u64,
    /// The first line of other writers.
    others: u64,
    end: u64,
}

impl Region {
    fn of(part: &Part) -> Self {
        let begin = |place: fn(Begin) -> u64| part.begin.map_or(0, place);
        Self {
            runtime: begin(|begin| begin.run.offset),
            others: begin(|begin| begin.others.offset),
            end: part.end.map_or(u64::MAX, |end| end.next),
        }
    }
}

/// One stream of one rank.
struct Stream {
    /// The rank and the stream's name, from the tag of its lines.
    tag: Option<(Vec<u8>, Vec<u8>)>,
    /// The index of the pass that its lines belong to.
    part: Option<usize>,
    /// The prefix of each line, inside a module dump.
    dump: Option<Vec<u8>>,
}

/// A line that is copied piece by piece.
struct LongLine {
    /// Set at the first piece.
    is_kept: Option<bool>,
    written: io::Result<()>,
}

impl Default for LongLine {
    fn default() -> Self {
        Self { is_kept: None, written: Ok(()) }
    }
}

impl<'a> Cutter<'a> {
    pub fn new(parts: &'a [Part], out: &'a mut dyn Write, path: &'a Path) -> Self {
        let regions = || parts.iter().map(Region::of);
        let from = regions().map(|region| region.others).min().unwrap_or(0);
        let end = regions().map(|region| region.end).max().unwrap_or(u64::MAX);
        Self {
            parts,
            out,
            path,
            common: Region { runtime: from, others: from, end },
            streams: Vec::new(),
            prefixes: Prefixes::default(),
            waiting: parts.iter().filter(|part| part.begin.is_some()).count(),
        }
    }

    /// Copies the selected lines of a log.
    pub fn cut(mut self, stream: Box<dyn Read + Send>, name: &str) -> Result<()> {
        let mut lines = Lines::new(stream);
        loop {
            let mut long = LongLine::default();
            match lines.next_with(|line, piece| self.copy_piece(&mut long, line, piece)) {
                Ok(Some(line)) if line.cut => long.written.map_err(|source| self.failed(source))?,
                Ok(Some(line)) => self.line(&line)?,
                Ok(None) => break,
                // The first reading has already warned about it.
                Err(error) if is_corruption(&error) => break,
                Err(source) => return Err(Error::Read { path: name.into(), source }),
            }
        }
        if self.waiting > 0 {
            return Err(Error::NotFound(format!("{name} changed while it was being read; try again")));
        }
        Ok(())
    }

    fn line(&mut self, line: &Line<'_>) -> Result<()> {
        if self.is_selected(line) { self.copy(line) } else { Ok(()) }
    }

    /// Copies a piece of a line that is too long to keep in memory, if the line is selected. Its beginning decides.
    fn copy_piece(&mut self, long: &mut LongLine, line: &Line<'_>, piece: &[u8]) {
        let is_kept = *long.is_kept.get_or_insert_with(|| self.is_selected(line));
        if is_kept && long.written.is_ok() {
            long.written = self.out.write_all(piece);
        }
    }

    /// Whether a line is copied.
    fn is_selected(&mut self, line: &Line<'_>) -> bool {
        let (tag, text) = split_tag(line.bytes);
        let stream = self.stream(tag);
        let begin = self.streams[stream].part.and_then(|part| self.parts[part].begin);
        self.waiting -= usize::from(begin.is_some_and(|begin| begin.run.offset == line.offset));
        self.is_kept(stream, text, line)
    }

    fn stream(&mut self, tag: Option<Tag<'_>>) -> usize {
        let is_it = |stream: &Stream| match (tag, &stream.tag) {
            (Some(tag), Some((rank, name))) => rank == tag.rank && name == tag.stream,
            (tag, known) => tag.is_none() && known.is_none(),
        };
        if let Some(known) = self.streams.iter().position(is_it) {
            return known;
        }
        let label = tag.map(|tag| tag.label());
        let part = self.parts.iter().position(|part| part.label == label);
        let tag = tag.map(|tag| (tag.rank.to_vec(), tag.stream.to_vec()));
        self.streams.push(Stream { tag, part, dump: None });
        self.streams.len() - 1
    }

    fn is_kept(&mut self, stream: usize, text: &[u8], line: &Line<'_>) -> bool {
        let Stream { part, dump, .. } = &mut self.streams[stream];
        let part = part.map(|part| &self.parts[part]);
        let region = part.map_or(self.common, Region::of);
        let is_in_pass = |begin: u64| (begin..region.end).contains(&line.offset);
        if is_in_pass(region.runtime.max(region.others)) {
            return true;
        }
        match self.prefixes.split(text) {
            Text::Runtime(_) => false,
            Text::Foreign(text) => {
                let from = part.map_or(0, |part| part.from);
                is_of_dump(dump, text) && line.offset >= from || is_in_pass(region.others)
            }
        }
    }

    /// Copies a line unchanged.
    fn copy(&mut self, line: &Line<'_>) -> Result<()> {
        let end: &[u8] = match line.next - line.offset - line.bytes.len() as u64 {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        };
        let written = self.out.write_all(line.bytes).and_then(|()| self.out.write_all(end));
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.into(), source }
    }
}

/// Whether a line belongs to a module dump, including its header and end.
fn is_of_dump(dump: &mut Option<Vec<u8>>, text: &[u8]) -> bool {
    let text = dump.as_ref().and_then(|prefix| text.strip_prefix(prefix.as_slice())).unwrap_or(text);
    if stage_header(text).is_some() {
        *dump = Some(before_preamble(text).to_vec());
        return true;
    }
    if is_end(text) {
        return dump.take().is_some();
    }
    // Other writers may print in between.
    let is_state = || matches!(Message::of(text), Message::State { .. });
    dump.is_some() && !is_state() && Failure::find(text).is_none()
}
