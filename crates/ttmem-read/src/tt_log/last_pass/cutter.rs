//! Writes a cut-out while the log goes by.
//!
//! Which lines stay is decided line by line: those of the pass, those of module dumps, and of the const-eval runs
//! that the pass relies on all but their memory states. Up to where the pass begins the log is understood besides,
//! because there it must be said what is remembered.

use std::io::{self, Read, Write};
use std::path::Path;

use super::super::carried::{self, MARK};
use super::super::fault::ParsedFault;
use super::super::line::{Message, Prefixes, Tag, Text, split_tag};
use super::super::module::{is_end, stage_header};
use super::super::rank::handover::Retold;
use super::super::streams::{Log, RankLog, before_preamble};
use super::{Begin, Part};
use crate::lines::{Line, Lines, is_damage};
use ttmem_model::Profile;
use ttmem_model::{Error, Result};

/// A log, being cut.
pub(super) struct Cutter<'a> {
    profile: &'a Profile,
    log: Log<'a, 'a>,
    out: &'a mut dyn Write,
    /// Where it is written to, for messages.
    path: &'a Path,
    parts: Vec<Piece<'a>>,
    /// Which lines stay that are of no rank that has passes.
    common: Region,
    streams: Vec<Stream>,
    prefixes: Prefixes,
    /// The prefixes by which the log is understood.
    log_prefixes: Prefixes,
    /// How many passes have not begun yet.
    waiting: usize,
}

/// The last pass of one rank, being cut out.
struct Piece<'a> {
    part: &'a Part,
    region: Region,
    /// How many of its const-eval runs are done.
    done: usize,
    retold: Retold,
}

/// Which lines belong to a pass, by where they begin.
#[derive(Clone, Copy)]
struct Region {
    /// Lines of the runtime.
    runtime: u64,
    /// Lines of others.
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
    /// The rank and the stream's name, as its lines are tagged.
    tag: Option<(Vec<u8>, Vec<u8>)>,
    /// The piece that its lines belong to.
    piece: Option<usize>,
    /// Inside a module dump: what somebody puts in front of every line.
    dump: Option<Vec<u8>>,
}

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Goes,
    Stays,
    /// It is of a const-eval run of an earlier pass.
    Retold,
}

impl<'a> Cutter<'a> {
    pub fn new(
        profile: &'a Profile,
        parts: &'a [Part],
        log: Log<'a, 'a>,
        out: &'a mut dyn Write,
        path: &'a Path,
    ) -> Self {
        let pieces: Vec<Piece<'a>> = parts
            .iter()
            .map(|part| Piece { part, region: Region::of(part), done: 0, retold: Retold::default() })
            .collect();
        let from = pieces.iter().map(|piece| piece.region.others).min().unwrap_or(0);
        let end = pieces.iter().map(|piece| piece.region.end).max().unwrap_or(u64::MAX);
        Self {
            profile,
            log,
            out,
            path,
            waiting: parts.iter().filter(|part| part.begin.is_some()).count(),
            parts: pieces,
            common: Region { runtime: from, others: from, end },
            streams: Vec::new(),
            prefixes: Prefixes::default(),
            log_prefixes: Prefixes::default(),
        }
    }

    /// Cuts the log.
    pub fn cut(mut self, stream: Box<dyn Read + Send>, name: &str) -> Result<()> {
        let mut lines = Lines::new(stream);
        loop {
            match lines.next() {
                Ok(Some(line)) => self.line(&line)?,
                Ok(None) => break,
                // Said when it was read for the first time.
                Err(error) if is_damage(&error) => break,
                Err(source) => return Err(Error::Read { path: name.into(), source }),
            }
        }
        if self.waiting > 0 {
            return Err(Error::NotThere(format!("{name} was changed while it was read; try again")));
        }
        Ok(())
    }

    fn line(&mut self, line: &Line<'_>) -> Result<()> {
        let (tag, text) = split_tag(line.bytes);
        let stream = self.stream(tag);
        let front = &line.bytes[..line.bytes.len() - text.len()];
        let piece = self.streams[stream].piece;
        if let Some(piece) = piece {
            self.begin(piece, line, front)?;
        }
        let fate = self.fate(stream, text, line);
        let steps = self.understand(piece, line)?;
        if fate == Fate::Retold
            && let Some(piece) = piece
        {
            self.retell(piece, line, front, steps)?;
        }
        if fate != Fate::Goes {
            self.write(line)?;
        }
        Ok(())
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
        let piece = self.parts.iter().position(|piece| piece.part.label == label);
        let tag = tag.map(|tag| (tag.rank.to_vec(), tag.stream.to_vec()));
        self.streams.push(Stream { tag, piece, dump: None });
        self.streams.len() - 1
    }

    /// Says what is remembered, if a pass begins with this line.
    fn begin(&mut self, piece: usize, line: &Line<'_>, front: &[u8]) -> Result<()> {
        let Piece { part, retold, .. } = &self.parts[piece];
        if part.begin.is_none_or(|begin| begin.run.offset != line.offset) {
            return Ok(());
        }
        self.waiting -= 1;
        let rank = self.profile.ranks.get(part.rank).zip(self.log.ranks.get(part.rank));
        let Some((rank, RankLog { state, .. })) = rank else { return Ok(()) };
        let of = u32::try_from(part.of).unwrap_or(u32::MAX);
        let mut lines = state.hand_over(self.profile, rank, retold);
        lines.push(carried::Line::LastPass(carried::LastPass { pass: of, of }));
        for said in lines {
            said.write(front, self.out).map_err(|source| failed(self.path, source))?;
        }
        Ok(())
    }

    fn fate(&mut self, stream: usize, text: &[u8], line: &Line<'_>) -> Fate {
        let Stream { piece, dump, .. } = &mut self.streams[stream];
        let piece = piece.map(|piece| &mut self.parts[piece]);
        let region = piece.as_ref().map_or(self.common, |piece| piece.region);
        let is_of_pass = |begin: u64| (begin..region.end).contains(&line.offset);
        if is_of_pass(region.runtime.max(region.others)) {
            return Fate::Stays;
        }
        let from = piece.as_ref().map_or(0, |piece| piece.part.from);
        let relied_on = piece.is_some_and(|piece| piece.relies_on(line.offset));
        let stays = match self.prefixes.split(text) {
            Text::Runtime(message) if relied_on && is_retold(message) => return Fate::Retold,
            Text::Runtime(_) => false,
            Text::Foreign(text) if text.starts_with(MARK) => false,
            Text::Foreign(text) => is_of_dump(dump, text) && line.offset >= from || is_of_pass(region.others),
        };
        if stays { Fate::Stays } else { Fate::Goes }
    }

    /// Reads a line as the reader does, as long as anybody asks; how many steps its rank had before.
    fn understand(&mut self, piece: Option<usize>, line: &Line<'_>) -> Result<u32> {
        if self.waiting == 0 {
            return Ok(0);
        }
        let steps = piece.map_or(0, |piece| self.steps(piece));
        self.log.line(line, &mut self.log_prefixes)?;
        Ok(steps)
    }

    fn steps(&self, piece: usize) -> u32 {
        self.log.ranks.get(self.parts[piece].part.rank).map_or(0, |rank| rank.state.steps())
    }

    /// Numbers what is told again, and says in front of a const-eval run what it is.
    fn retell(&mut self, piece: usize, line: &Line<'_>, front: &[u8], steps: u32) -> Result<()> {
        let now = self.steps(piece);
        let Piece { part, done, retold, .. } = &mut self.parts[piece];
        if now > steps {
            let number = u32::try_from(retold.steps.len()).unwrap_or(u32::MAX);
            retold.steps.insert(steps, number);
        }
        let Some((run, _)) = part.const_evals.get(*done).filter(|(_, place)| place.start == line.offset)
        else {
            return Ok(());
        };
        retold.runs.insert(*run, *done);
        carried::Line::ConstEval.write(front, self.out).map_err(|source| failed(self.path, source))
    }

    /// Writes a line as it stands in the log.
    fn write(&mut self, line: &Line<'_>) -> Result<()> {
        let written = if line.cut {
            // Longer than anything that is understood; nobody holds it.
            let length = line.next - line.offset;
            writeln!(self.out, "{}a line of {length} bytes stood here", String::from_utf8_lossy(MARK))
        } else {
            let end: &[u8] = match line.next - line.offset - line.bytes.len() as u64 {
                0 => b"",
                1 => b"\n",
                _ => b"\r\n",
            };
            self.out.write_all(line.bytes).and_then(|()| self.out.write_all(end))
        };
        written.map_err(|source| failed(self.path, source))
    }
}

impl Piece<'_> {
    /// Whether a line is inside of a const-eval run that the pass relies on.
    fn relies_on(&mut self, offset: u64) -> bool {
        let is_behind = |piece: &Self| {
            piece.part.const_evals.get(piece.done).is_some_and(|(_, place)| place.end <= offset)
        };
        while is_behind(self) {
            self.done += 1;
        }
        self.part.const_evals.get(self.done).is_some_and(|(_, place)| place.contains(&offset))
    }
}

/// Whether a message of a const-eval run is told again: its programs and steps, not what the memory was.
fn is_retold(message: &[u8]) -> bool {
    !matches!(Message::of(message), Message::State { .. } | Message::StateHeader(_) | Message::Other)
}

/// Whether a line is of a module dump, its header and its end included.
fn is_of_dump(dump: &mut Option<Vec<u8>>, text: &[u8]) -> bool {
    let text = dump.as_ref().and_then(|prefix| text.strip_prefix(prefix.as_slice())).unwrap_or(text);
    if stage_header(text).is_some() {
        *dump = Some(before_preamble(text).to_vec());
        return true;
    }
    if is_end(text) {
        return dump.take().is_some();
    }
    // Nobody keeps others from writing in between.
    let is_state = || matches!(Message::of(text), Message::State { .. });
    dump.is_some() && !is_state() && ParsedFault::find(text).is_none()
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.into(), source }
}
