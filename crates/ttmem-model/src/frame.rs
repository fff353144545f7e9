//! The `.ttmem` file: events in order, framed, checksummed, compressed; append-only; survives `kill -9`.
//!
//! Here live the layout, the [`Writer`], [`read`] and [`append`]. What the events mean is no business of this
//! file: it neither builds a profile nor checks that ids name rows that are there.
//!
//! ```text
//! file     header, frame, frame, …                             all numbers are little-endian
//! header   magic (8) │ major u16 │ minor u16 │ crc u32         16 bytes, in every version
//! frame    length u32 │ crc u32 │ payload (length bytes)       length > 0
//! payload  0 │ events                                          stored as they are
//!          1 │ length of the events u32 │ zstd of the events
//! event    kind varint │ length varint │ postcard of the event's content
//! ```
//!
//! The checksum is a running one: that of a frame is the crc32 of all bytes of the file up to its end, the
//! checksums left out. So a frame that is damaged, left out, doubled, swapped or left over from another
//! recording is noticed, and a frame counts only as a whole. There is nothing to seek to and nothing to write
//! at the end: what was flushed before the program died is there. (Against a machine that dies, only `fsync`
//! would help; nothing here calls it.)
//!
//! A file is whole when its last event is [`Event::End`], or the mark that [`Writer::finish`] sets where the
//! evidence itself was cut short. Else whoever wrote it was killed or is still writing, and a reader says so.
//!
//! # Limits
//!
//! Nothing is allocated because a length field says so: frames grow as their bytes arrive, and these hold:
//!
//! | what | at most |
//! |---|---|
//! | the events of a frame, and any event that is not mainly text | [`MAX_EVENTS`], 4 MiB |
//! | an event that is mainly text, alone in its frame | [`MAX_TEXT`], 256 MiB |
//! | a compressed frame above 4 MiB, to the bytes it is stored in | [`MAX_RATIO`], 256 to 1 |
//!
//! # Versions
//!
//! A reader takes every minor of its major. What a newer minor may bring, because older readers pass it over:
//!
//! - a new kind of event, if it says something of rows that are there or defines rows of a new table. (Ids
//!   count rows: whoever passes over an event that defines a row of a known table misreads all that follows.)
//! - new data at the very end of a kind's content, not of a struct that is followed by more. The newer reader
//!   must say what an older file, which ends earlier, means.
//!
//! All else is a new major: a variant of an enum inside an event, a field in the middle, another order, a new
//! compression. The test `the_bytes_of_version_1_0` fails when one of these happens by accident. Who writes a
//! newer file back keeps what was understood, under the older version's number; nobody appends to a file of
//! another version.

mod small;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, Result};
use crate::{Event, RankEvent, RankId, Sink, Warning};
use small::Small;

/// The version of the format: files of another major cannot be read.
pub const MAJOR: u16 = 1;
/// The version of the format: files of another minor can be read.
pub const MINOR: u16 = 0;
/// The most bytes of events in a frame, and of an event that is not mainly text.
pub const MAX_EVENTS: usize = 4 << 20;
/// The most bytes of an event that is mainly text: a string, a text of the source, a warning.
pub const MAX_TEXT: usize = 256 << 20;
/// How many times its stored size a frame above [`MAX_EVENTS`] may be; beyond that it is not compressed.
pub const MAX_RATIO: usize = 256;

/// No text begins like this, and a transfer that changes line ends or the eighth bit destroys it.
const MAGIC: &[u8; 8] = b"\x89TTMEM\r\n";
const HEADER: usize = 16;
const FRAME_HEAD: usize = 8;
/// Kind and length of an event, and what a payload has in front, with room to spare.
const SLACK: usize = 64;
/// A frame is cut when it has this many bytes of events.
const FULL: usize = 256 << 10;
/// Less than this is not worth compressing.
const TOO_SMALL: usize = 64;
/// Higher levels are slower and, on events in frames of this size, no smaller.
const LEVEL: i32 = 1;
/// For who is waited for: larger by a little, and much sooner done.
const QUICK_LEVEL: i32 = -4;
const STORED: u8 = 0;
const ZSTD: u8 = 1;

/// Makes `encode` and `decode` from the one table of kinds. What stands in brackets is read both ways: as the
/// pattern that takes an event apart and as the expression that puts it together.
macro_rules! kinds {
    ($($kind:literal [$($event:tt)+] ($($field:ident),*);)*) => {
        /// Adds the content of an event to `out`, and says its kind.
        fn encode(event: &Event<'_>, out: Vec<u8>) -> postcard::Result<(u32, Vec<u8>)> {
            match event {
                $($($event)+ => Ok(($kind, postcard::to_extend(&($($field,)*), out)?)),)*
            }
        }

        /// The event of that kind and content; `None` where the kind is not known.
        #[allow(clippy::let_unit_value)]
        fn decode(kind: u32, content: &[u8], newer: bool) -> postcard::Result<Option<Event<'static>>> {
            Ok(Some(match kind {
                $($kind => {
                    let ($($field,)*) = content_of(content, newer)?;
                    $($event)+
                })*
                _ => return Ok(None),
            }))
        }
    };
}

// The kinds of events. NEVER REUSE a number, and never change what one means: files live long. A kind that is
// gone leaves its line here as a comment. 0 is no kind, so that zeros are never events.
kinds! {
    1 [Event::Source(source)] (source);
    2 [Event::Text(text)] (text);
    3 [Event::Type(ty)] (ty);
    4 [Event::Op(op)] (op);
    5 [Event::Rank { label }] (label);
    6 [Event::Warning(warning)] (warning);
    7 [Event::SkippedLines(lines)] (lines);
    8 [Event::SourceText(range, text)] (range, text);
    9 [Event::End] ();
    // 10 is CLOSED, below.
    11 [Event::Frame(frame)] (frame);
    12 [Event::Stack(stack)] (stack);
    13 [Event::OpStack(row)] (row);

    // What is said of a rank begins with the rank.
    32 [Event::Of(rank, RankEvent::Pool { name, banks, quantum })] (rank, name, banks, quantum);
    33 [Event::Of(rank, RankEvent::Module { name })] (rank, name);
    34 [Event::Of(rank, RankEvent::Stage(module, stage))] (rank, module, stage);
    35 [Event::Of(rank, RankEvent::Argument(module, argument))] (rank, module, argument);
    36 [Event::Of(rank, RankEvent::Run(run))] (rank, run);
    37 [Event::Of(rank, RankEvent::RunEnded { run, end, finished, source_end })]
        (rank, run, end, finished, source_end);
    38 [Event::Of(rank, RankEvent::RunModule(run, module))] (rank, run, module);
    39 [Event::Of(rank, RankEvent::Step(step))] (rank, step);
    40 [Event::Of(rank, RankEvent::Marks(step, marks))] (rank, step, marks);
    41 [Event::Of(rank, RankEvent::State(pool, at, reading))] (rank, pool, at, reading);
    42 [Event::Of(rank, RankEvent::Tensor(tensor))] (rank, tensor);
    43 [Event::Of(rank, RankEvent::Dies(tensor, at))] (rank, tensor, at);
    44 [Event::Of(rank, RankEvent::Classified(tensor, class, name))] (rank, tensor, class, name);
    45 [Event::Of(rank, RankEvent::Alias(alias))] (rank, alias);
    46 [Event::Of(rank, RankEvent::Derived(derivation))] (rank, derivation);
    // 47 was a phase without a session.
    48 [Event::Of(rank, RankEvent::Fault(fault))] (rank, fault);
    49 [Event::Of(rank, RankEvent::Unchanged(pool, at))] (rank, pool, at);
    50 [Event::Of(rank, RankEvent::Origin(origin))] (rank, origin);
    51 [Event::Of(rank, RankEvent::Banks(pool, banks))] (rank, pool, banks);
    52 [Event::Of(rank, RankEvent::Carried(carried))] (rank, carried);
    53 [Event::Of(rank, RankEvent::CutOut(cut_out))] (rank, cut_out);
    54 [Event::Of(rank, RankEvent::Session(session))] (rank, session);
    55 [Event::Of(rank, RankEvent::Phase(phase))] (rank, phase);
    56 [Event::Of(rank, RankEvent::SessionEnded(session, totals))] (rank, session, totals);
    57 [Event::Of(rank, RankEvent::PoolTotals(pool, totals))] (rank, pool, totals);
    58 [Event::Of(rank, RankEvent::Block(pool, at, block))] (rank, pool, at, block);
    59 [Event::Of(rank, RankEvent::Began(unix))] (rank, unix);
    60 [Event::Of(rank, RankEvent::Lane { name })] (rank, name);
    61 [Event::Of(rank, RankEvent::Scope(scope))] (rank, scope);
    62 [Event::Of(rank, RankEvent::Call(call))] (rank, call);
    63 [Event::Of(rank, RankEvent::Returned(call, outcome))] (rank, call, outcome);
    64 [Event::Of(rank, RankEvent::CallTotals(scope, totals))] (rank, scope, totals);
    65 [Event::Of(rank, RankEvent::Time(step, time))] (rank, step, time);
    66 [Event::Of(rank, RankEvent::Within(step, call))] (rank, step, call);
    67 [Event::Of(rank, RankEvent::Snapshot(snapshot))] (rank, snapshot);
    68 [Event::Of(rank, RankEvent::OpTotals(totals))] (rank, totals);
    69 [Event::Of(rank, RankEvent::Expected(expected))] (rank, expected);
    70 [Event::Of(rank, RankEvent::RequiresGrad(tensor, does))] (rank, tensor, does);
    71 [Event::Of(rank, RankEvent::Seen(call, seen))] (rank, call, seen);
    72 [Event::Of(rank, RankEvent::Thinned(thinned))] (rank, thinned);
    73 [Event::Of(rank, RankEvent::AllocationTotals(pool, totals))] (rank, pool, totals);
    74 [Event::Of(rank, RankEvent::StandsFor(tensor, count))] (rank, tensor, count);
    75 [Event::Of(rank, RankEvent::History(row))] (rank, row);
    76 [Event::Of(rank, RankEvent::Label(label))] (rank, label);
    77 [Event::Of(rank, RankEvent::NotWatched(pool, what))] (rank, pool, what);
    80 [Event::Of(rank, RankEvent::Process(number))] (rank, number);
    88 [Event::Of(rank, RankEvent::Sampled(pool, peak))] (rank, pool, peak);
    89 [Event::Of(rank, RankEvent::FaultEnded(fault))] (rank, fault);
    90 [Event::Of(rank, RankEvent::Restored(tensor, made))] (rank, tensor, made);
    91 [Event::Of(rank, RankEvent::CallsSince(time))] (rank, time);
}

/// The mark that a file was closed though its events have no `End`. It has no content and is no event.
const CLOSED: u32 = 10;

/// The most bytes that the content of a kind may have. Lists take up to eight times their stored size in
/// memory, so only what is mainly text may be large.
fn limit_of(kind: u32) -> usize {
    match kind {
        1 | 2 | 6 | 8 => MAX_TEXT,
        _ => MAX_EVENTS,
    }
}

/// The parts of an event's content. Only a newer version may have put something behind them.
fn content_of<T: DeserializeOwned>(content: &[u8], newer: bool) -> postcard::Result<T> {
    match postcard::take_from_bytes(content)? {
        (value, []) => Ok(value),
        (value, _) if newer => Ok(value),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}

/// Whether a file that begins like this is a `.ttmem` file.
pub fn is_ttmem(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    header[10..12].copy_from_slice(&MINOR.to_le_bytes());
    let crc = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The running checksum after a frame.
fn running(crc: u32, length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// Writes a `.ttmem` file: a [`Sink`] that ends in bytes.
///
/// Events are held until a frame is full, [`flush`](Self::flush) is called or the writer is finished; when it
/// is dropped, they are lost. The `End` event is the producer's to send, and the last that is taken.
pub struct Writer<W: Write> {
    out: W,
    path: PathBuf,
    crc: u32,
    /// How many bytes are out.
    written: u64,
    state: State,
    /// The events of the frame to come.
    events: Vec<u8>,
    /// The content of one event.
    content: Vec<u8>,
    /// A frame as it goes out.
    frame: Vec<u8>,
    compressor: Compressor<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// `End` was taken.
    Ended,
    /// A write failed: half a frame may be out, and nothing behind it could be read.
    Broken,
}

impl<W: Write> Writer<W> {
    /// A writer of a new file, which gets its header now. `path` is for messages only.
    pub fn create(out: W, path: impl Into<PathBuf>) -> Result<Self> {
        let header = header();
        let mut writer = Self::resume(out, path.into(), crc32fast::hash(&header[..12]))?;
        let written = writer.out.write_all(&header);
        writer.wrote(written)?;
        writer.written = HEADER as u64;
        Ok(writer)
    }

    /// A writer behind frames with that running checksum.
    fn resume(out: W, path: PathBuf, crc: u32) -> Result<Self> {
        let compressor = match Compressor::new(LEVEL) {
            Ok(compressor) => compressor,
            Err(source) => return Err(Error::Write { path, source }),
        };
        let (events, content, frame) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { out, path, crc, written: 0, state: State::Open, events, content, frame, compressor })
    }

    /// Packs less well from here on, in a fraction of the time: a program runs while this is written.
    pub fn quick(mut self) -> Result<Self> {
        let set = self.compressor.set_compression_level(QUICK_LEVEL);
        set.map_err(|source| Error::Write { path: self.path.clone(), source })?;
        Ok(self)
    }

    /// How long the file is when all that was taken is written: at most, as some of it is still to be packed.
    pub fn size_at_most(&self) -> u64 {
        self.written + (self.events.len() + FRAME_HEAD + SLACK) as u64
    }

    /// Writes what was taken so far: a program that is killed now leaves all of it behind.
    pub fn flush(&mut self) -> Result<()> {
        if self.state == State::Broken {
            return Err(self.refuse("an earlier write failed; nothing more can be written behind it"));
        }
        self.cut()?;
        let flushed = self.out.flush();
        self.wrote(flushed)
    }

    /// Writes what is left, and marks the file as closed if no `End` was taken.
    pub fn finish(mut self) -> Result<W> {
        if self.state == State::Open {
            self.content.clear();
            self.push(CLOSED)?;
        }
        self.flush()?;
        Ok(self.out)
    }

    /// Adds an event to the frame that can be encoded by hand, if the frame has room.
    #[inline]
    fn push_small(&mut self, rank: RankId, event: &RankEvent) -> bool {
        let start = self.events.len();
        if start + Small::MOST + SLACK > FULL {
            return false;
        }
        self.events.resize(start + Small::MOST, 0);
        let length = Small::encode(rank, event, &mut self.events[start..]);
        self.events.truncate(start + length.unwrap_or(0));
        length.is_some()
    }

    /// Adds an event of that kind with `self.content` to the frame.
    fn push(&mut self, kind: u32) -> Result<()> {
        let length = self.content.len();
        if length > limit_of(kind) {
            let limit = limit_of(kind) >> 20;
            return Err(self.refuse(&format!(
                "an event of {length} bytes is larger than the {limit} MiB that a .ttmem file can hold"
            )));
        }
        if self.events.len() + length + SLACK > FULL {
            self.cut()?;
        }
        let events = std::mem::take(&mut self.events);
        self.events = postcard::to_extend(&(kind, length), events).map_err(bug)?;
        self.events.extend_from_slice(&self.content);
        if self.events.len() > FULL { self.cut() } else { Ok(()) }
    }

    /// Makes a frame of the events and writes it, in one piece.
    fn cut(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.frame.clear();
        self.frame.resize(FRAME_HEAD, 0);
        self.add_payload()?;
        let length = u32::try_from(self.frame.len() - FRAME_HEAD).map_err(|_| bug("a frame is too long"))?;
        let length = length.to_le_bytes();
        self.crc = running(self.crc, length, &self.frame[FRAME_HEAD..]);
        self.frame[..4].copy_from_slice(&length);
        self.frame[4..FRAME_HEAD].copy_from_slice(&self.crc.to_le_bytes());
        self.events.clear();
        for buffer in [&mut self.events, &mut self.content] {
            buffer.shrink_to(MAX_EVENTS);
        }
        let written = self.out.write_all(&self.frame);
        self.written += self.frame.len() as u64;
        self.frame.shrink_to(MAX_EVENTS);
        self.wrote(written)
    }

    /// Adds the events to the frame, compressed if that is smaller.
    fn add_payload(&mut self) -> Result<()> {
        let length = self.events.len();
        if length >= TOO_SMALL {
            let compressed = self.compressor.compress(&self.events);
            let compressed = compressed.map_err(|source| Error::Write { path: self.path.clone(), source })?;
            let stated = u32::try_from(length).map_err(|_| bug("a frame is too long"))?;
            if compressed.len() + 4 < length && plausible(length, compressed.len()) {
                self.frame.push(ZSTD);
                self.frame.extend_from_slice(&stated.to_le_bytes());
                self.frame.extend_from_slice(&compressed);
                return Ok(());
            }
        }
        self.frame.push(STORED);
        self.frame.extend_from_slice(&self.events);
        Ok(())
    }

    /// Nothing may follow a write that failed.
    fn wrote(&mut self, result: io::Result<()>) -> Result<()> {
        result.map_err(|source| {
            self.state = State::Broken;
            Error::Write { path: self.path.clone(), source }
        })
    }

    fn refuse(&self, why: &str) -> Error {
        refused(&self.path, why)
    }
}

impl<W: Write> Sink for Writer<W> {
    /// Takes one event. One that is too large is refused, and the writer can go on without it.
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        match self.state {
            State::Open => {}
            State::Ended => return Err(bug("an event came after the end of a recording")),
            State::Broken => return self.flush(),
        }
        if let Event::Of(rank, event) = &event
            && self.push_small(*rank, event)
        {
            return Ok(());
        }
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let (kind, content) = encode(&event, content).map_err(bug)?;
        self.content = content;
        self.push(kind)?;
        if let Event::End = event {
            self.state = State::Ended;
        }
        Ok(())
    }
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Write { path: path.to_owned(), source: io::Error::new(io::ErrorKind::InvalidInput, why) }
}

fn bug(what: impl fmt::Display) -> Error {
    Error::Bug(format!("writing a .ttmem file: {what}"))
}

/// Whether events of that length may be stored in so few bytes: a few bytes cannot ask for much memory.
fn plausible(events: usize, stored: usize) -> bool {
    events <= MAX_EVENTS || events <= MAX_TEXT + SLACK && events <= stored.saturating_mul(MAX_RATIO)
}

/// Reads a `.ttmem` file and sends its events to `sink`.
///
/// A file that is cut off or damaged is read up to there, and a warning says so. An error is only what cannot
/// be read at all (an empty file, another format, another major) and what the system or the sink refuses.
pub fn read(source: &mut dyn Read, label: &str, sink: &mut dyn Sink) -> Result<()> {
    let scan = scan(source, label, sink)?;
    if scan.unknown > 0 {
        warn(sink, scan.unknown_message(label))?;
    }
    if let Some(message) = scan.stop_message(label) {
        warn(sink, message)?;
    }
    match scan.stop {
        Stop::Ended { complete: true, .. } => sink.take(Event::End),
        _ => Ok(()),
    }
}

/// Continues a file whose writer was killed, opened for reading and writing.
///
/// The events that are there go to `sink`, so that the producer knows which rows there are; ids go on from
/// them. **What is behind the last whole frame is cut off the file**: half a frame, as a rule, but if the file
/// is damaged further up, all from there on. A warning that the recording was interrupted goes into the file
/// and to the sink. That nobody else is still writing is the caller's to know.
///
/// A file that was finished, is of another version, or holds events that cannot be read is left as it is: an
/// error.
pub fn append(mut file: File, path: impl Into<PathBuf>, sink: &mut dyn Sink) -> Result<Writer<File>> {
    let path = path.into();
    let label = path.display().to_string();
    let length = rewind(&mut file).map_err(|source| Error::Read { path: path.clone(), source })?;
    if length == 0 {
        return Writer::create(file, path);
    }
    let scan = scan(&mut file, &label, sink)?;
    let why = match scan.stop {
        Stop::Ended { .. } => "the recording is finished".to_owned(),
        Stop::BadHeader => "its header is damaged".to_owned(),
        Stop::Undecodable(what) => what.to_owned(),
        Stop::Cut | Stop::Torn | Stop::Damaged(_) if scan.minor != MINOR => {
            format!("it is of format {MAJOR}.{}, and this ttmem writes {MAJOR}.{MINOR}", scan.minor)
        }
        Stop::Cut | Stop::Torn | Stop::Damaged(_) if scan.unknown > 0 => {
            "it holds events that this ttmem does not know".to_owned()
        }
        Stop::Cut | Stop::Torn | Stop::Damaged(_) => return continue_at(file, path, length, &scan, sink),
    };
    Err(refused(&path, &format!("{why}; begin a new recording beside it")))
}

fn rewind(file: &mut File) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    Ok(file.metadata()?.len())
}

/// Cuts off what is behind the last whole frame, and says so in the file.
fn continue_at(
    mut file: File,
    path: PathBuf,
    length: u64,
    scan: &Scan,
    sink: &mut dyn Sink,
) -> Result<Writer<File>> {
    let keep = scan.at;
    let cut = file.set_len(keep).and_then(|()| file.seek(SeekFrom::Start(keep)));
    if let Err(source) = cut {
        return Err(Error::Write { path, source });
    }
    if keep == 0 {
        return Writer::create(file, path);
    }
    let message = format!(
        "the recording was interrupted after {} events, at byte {keep}, and continued later: what happened \
         in between is missing ({} bytes that could not be read were cut off)",
        scan.events,
        length.saturating_sub(keep)
    );
    let mut writer = Writer::resume(file, path, scan.crc)?;
    writer.written = keep;
    warn(&mut writer, message.clone())?;
    writer.flush()?;
    warn(sink, message)?;
    Ok(writer)
}

fn warn(sink: &mut dyn Sink, message: String) -> Result<()> {
    sink.take(Event::Warning(Warning { line: None, message }))
}

/// How far a file could be read.
struct Scan {
    minor: u16,
    /// How many events were sent on.
    events: u64,
    /// How many were passed over, because their kind is not known.
    unknown: u64,
    /// Where the last whole frame ends; without a header, 0 or where it is damaged.
    at: u64,
    /// The running checksum up to there.
    crc: u32,
    stop: Stop,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// At `End`, which is not sent on yet, or at the mark of a file that was closed without.
    Ended { complete: bool, more: bool },
    /// The bytes end, between two frames.
    Cut,
    /// The bytes end, inside a frame or the header.
    Torn,
    /// A frame is not as it was written.
    Damaged(&'static str),
    /// The checksum of the header does not hold.
    BadHeader,
    /// A frame is as it was written, but no writer of ours writes such a frame.
    Undecodable(&'static str),
}

impl Scan {
    fn unknown_message(&self, label: &str) -> String {
        let Self { unknown, minor, .. } = self;
        let writer = if *minor > MINOR { "by a newer ttmem" } else { "by something that is not ttmem" };
        format!(
            "{label}: {unknown} events are of kinds that this ttmem does not know and were passed over; the \
             file was written {writer} (format {MAJOR}.{minor}, known here: {MAJOR}.{MINOR})"
        )
    }

    /// What people should know about the place where reading stopped.
    fn stop_message(&self, label: &str) -> Option<String> {
        let Self { at, events, .. } = self;
        let damaged = |what: &str| {
            format!(
                "{label} is damaged at byte {at} ({what}): the {events} events before it were read and are \
                 answered, what follows is lost"
            )
        };
        match self.stop {
            Stop::Ended { more: false, .. } => None,
            Stop::Ended { more: true, .. } => {
                Some(format!("{label}: there is data behind the end of the recording; it was left out"))
            }
            Stop::Cut => Some(format!(
                "{label} ends at byte {at} without the end of the recording: whoever wrote it was killed or \
                 is still writing. The {events} events up to there were read and are answered"
            )),
            Stop::Torn => Some(format!(
                "{label} breaks off inside the part that begins at byte {at}: whoever wrote it was killed or \
                 is still writing, or the file was cut. The {events} events before were read and are answered"
            )),
            Stop::BadHeader => Some(damaged("the checksum of the header does not hold")),
            Stop::Damaged(what) | Stop::Undecodable(what) => Some(damaged(what)),
        }
    }
}

/// Sends all events on that can be read, except `End`.
fn scan(source: &mut dyn Read, label: &str, sink: &mut dyn Sink) -> Result<Scan> {
    let failed = |source| Error::Read { path: label.into(), source };
    let mut frames = Frames::new(source).map_err(failed)?;
    let mut scan = Scan { minor: MINOR, events: 0, unknown: 0, at: 0, crc: 0, stop: Stop::Cut };
    match frames.header().map_err(failed)? {
        Header::Version(MAJOR, minor) => scan.minor = minor,
        Header::Version(major, minor) => return Err(other_major(label, major, minor)),
        Header::Empty => return Err(Error::Empty { file: label.to_owned() }),
        Header::Foreign => {
            return Err(Error::UnknownFormat {
                file: label.to_owned(),
                what: "it is no .ttmem file".to_owned(),
            });
        }
        Header::Stop(stop) => {
            (scan.at, scan.stop) = (frames.at, stop);
            return Ok(scan);
        }
    }
    loop {
        // `at` and `crc` move on only when the events of the frame are sent: a frame counts as a whole.
        (scan.at, scan.crc) = (frames.at, frames.crc);
        let stop = match frames.next().map_err(failed)? {
            None => scan.send(&frames.events, sink)?,
            stop => stop,
        };
        if let Some(mut stop) = stop {
            if let Stop::Ended { more, .. } = &mut stop {
                *more = *more || frames.more().map_err(failed)?;
            }
            scan.stop = stop;
            return Ok(scan);
        }
    }
}

fn other_major(label: &str, major: u16, minor: u16) -> Error {
    let (age, advice) = if major > MAJOR {
        ("a newer", "update ttmem, or have the one that wrote the file convert it")
    } else {
        ("an older", "convert it with the ttmem that wrote it")
    };
    let what = format!(
        ".ttmem format {major}.{minor}, written by {age} ttmem; this one knows {MAJOR}.{MINOR}: {advice}"
    );
    Error::UnknownFormat { file: label.to_owned(), what }
}

impl Scan {
    /// Sends the events of a frame on.
    fn send(&mut self, mut events: &[u8], sink: &mut dyn Sink) -> Result<Option<Stop>> {
        const NO_EVENT: Stop = Stop::Undecodable("an event cannot be decoded");
        while !events.is_empty() {
            let Some((kind, content, rest)) = split(events) else { return Ok(Some(NO_EVENT)) };
            events = rest;
            let ended = |complete| Ok(Some(Stop::Ended { complete, more: !rest.is_empty() }));
            match decode(kind, content, self.minor > MINOR) {
                Ok(Some(Event::End)) => return ended(true),
                Ok(Some(event)) => {
                    sink.take(event)?;
                    self.events += 1;
                }
                Ok(None) if kind == CLOSED => return ended(false),
                Ok(None) => self.unknown += 1,
                Err(_) => return Ok(Some(NO_EVENT)),
            }
        }
        Ok(None)
    }
}

/// Takes the first event off: its kind, its content, and what follows.
fn split(events: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let ((kind, length), rest): ((u32, u32), _) = postcard::take_from_bytes(events).ok()?;
    let (content, rest) = rest.split_at_checked(length as usize)?;
    (content.len() <= limit_of(kind)).then_some((kind, content, rest))
}

/// The frames of a file, one after the other.
struct Frames<'a> {
    source: BufReader<&'a mut dyn Read>,
    /// Where the next frame begins.
    at: u64,
    /// The running checksum up to there.
    crc: u32,
    /// Bytes as they are in the file.
    bytes: Vec<u8>,
    /// The events of the frame read last.
    events: Vec<u8>,
    decompressor: Decompressor<'static>,
}

enum Header {
    Version(u16, u16),
    Empty,
    Foreign,
    Stop(Stop),
}

impl<'a> Frames<'a> {
    fn new(source: &'a mut dyn Read) -> io::Result<Self> {
        let (source, decompressor) = (BufReader::with_capacity(FULL, source), Decompressor::new()?);
        Ok(Self { source, at: 0, crc: 0, bytes: Vec::new(), events: Vec::new(), decompressor })
    }

    fn header(&mut self) -> io::Result<Header> {
        self.fill(HEADER)?;
        let found = &self.bytes;
        self.at = found.len() as u64;
        let magic = found.len().min(MAGIC.len());
        if found.is_empty() {
            return Ok(Header::Empty);
        }
        if found[..magic] != MAGIC[..magic] {
            return Ok(Header::Foreign);
        }
        let (Some(major), Some(minor), Some(crc)) = (u16_at(found, 8), u16_at(found, 10), u32_at(found, 12))
        else {
            self.at = 0;
            return Ok(Header::Stop(Stop::Torn));
        };
        self.crc = crc32fast::hash(&found[..12]);
        if crc != self.crc {
            self.at = MAGIC.len() as u64;
            return Ok(Header::Stop(Stop::BadHeader));
        }
        Ok(Header::Version(major, minor))
    }

    /// Reads a frame, so that its events lie in `events`; or says why there is none.
    fn next(&mut self) -> io::Result<Option<Stop>> {
        self.fill(FRAME_HEAD)?;
        if self.bytes.is_empty() {
            return Ok(Some(Stop::Cut));
        }
        let (Some(length), Some(crc)) = (u32_at(&self.bytes, 0), u32_at(&self.bytes, 4)) else {
            return Ok(Some(Stop::Torn));
        };
        if length == 0 || length as usize > MAX_TEXT + SLACK {
            return Ok(Some(Stop::Damaged("a frame has an impossible length")));
        }
        self.fill(length as usize)?;
        if self.bytes.len() < length as usize {
            return Ok(Some(Stop::Torn));
        }
        let crc_here = running(self.crc, length.to_le_bytes(), &self.bytes);
        if crc_here != crc {
            return Ok(Some(Stop::Damaged("the checksum of a frame does not hold")));
        }
        if self.unpack().is_none() {
            return Ok(Some(Stop::Undecodable("a frame cannot be decompressed")));
        }
        self.crc = crc;
        self.at += FRAME_HEAD as u64 + u64::from(length);
        Ok(None)
    }

    /// Makes `events` of the payload in `bytes`.
    fn unpack(&mut self) -> Option<()> {
        self.events.clear();
        self.events.shrink_to(MAX_EVENTS);
        let (codec, stored) = self.bytes.split_first()?;
        match *codec {
            STORED => self.events.extend_from_slice(stored),
            ZSTD => {
                let length = u32_at(stored, 0)? as usize;
                let stored = &stored[4..];
                if !plausible(length, stored.len()) {
                    return None;
                }
                self.events.reserve_exact(length);
                let unpacked = self.decompressor.decompress_to_buffer(stored, &mut self.events).ok()?;
                return (unpacked == length).then_some(());
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether there is anything more in the file.
    fn more(&mut self) -> io::Result<bool> {
        self.fill(1)?;
        Ok(!self.bytes.is_empty())
    }

    /// Reads that many bytes, or as many as there are. Memory grows with what arrives.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.shrink_to(MAX_EVENTS);
        match self.source.by_ref().take(length as u64).read_to_end(&mut self.bytes) {
            Ok(_) => Ok(()),
            // What decompressors say of a file that was cut or damaged: for us, it ends there.
            Err(error) if is_damage(error.kind()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}
