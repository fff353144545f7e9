//! The `.ttmem` file: events in order, in checksummed, compressed frames. It is append-only and survives `kill -9`.
//!
//! This module contains the file layout, the [`Writer`], [`read`] and [`append`]. It does not interpret events: it
//! neither builds a profile nor checks that ids refer to existing rows.
//!
//! ```text
//! file     header, frame, frame, …                             all numbers are little-endian
//! header   magic (8) │ major u16 │ minor u16 │ crc u32         16 bytes, in every version
//! frame    length u32 │ crc u32 │ payload (length bytes)       length > 0
//! payload  0 │ events                                          uncompressed
//!          1 │ length of the events u32 │ zstd of the events
//! event    kind varint │ length varint │ postcard of the event's content
//! ```
//!
//! Checksums are cumulative: a frame's checksum is the crc32 of all bytes of the file up to its end, except the
//! checksums. So frames that are corrupt, missing, duplicated, reordered or left over from another recording are
//! detected, and a frame is either valid as a whole or not at all. There is no index and no trailer: everything that
//! was flushed before the program died can be read. (Protection against a system crash would need `fsync`, which is not
//! called.)
//!
//! A file is complete if its last event is [`Event::End`], or the mark that [`Writer::finish`] writes if the input
//! itself was cut short. Otherwise its writer was killed or is still running, and a reader reports that.
//!
//! # Limits
//!
//! Memory is never allocated based on a length field alone: buffers grow as bytes arrive, within these limits:
//!
//! | what | maximum |
//! |---|---|
//! | the events of a frame, and any event that is not mainly text | [`MAX_EVENTS`], 4 MiB |
//! | an event that is mainly text, alone in its frame | [`MAX_TEXT`], 256 MiB |
//! | the compression ratio of a frame above 4 MiB | [`MAX_RATIO`], 256 to 1 |
//!
//! # Versions
//!
//! A reader accepts every minor version of its major version. A newer minor version may add the following, which older
//! readers skip:
//!
//! - a new kind of event that adds information to existing rows or defines rows of a new table. (Ids count rows: a
//!   reader that skips an event which defines a row of a known table misreads everything after it.)
//! - new data at the very end of a kind's content, not in a struct that is followed by more. The newer reader must
//!   define what its absence in an older file means.
//!
//! Everything else needs a new major version: a new variant of an enum inside an event, a field in the middle, another
//! order, a new compression. The test `the_bytes_of_version_1_0` fails if one of these happens by accident. A tool that
//! rewrites a newer file keeps what it understood, under its own version; files of another version are never appended
//! to.

mod small;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use zstd::bulk::{Compressor, Decompressor};

use crate::error::{Error, Result};
use crate::words::{counted, counted_as};
use crate::{Event, RankEvent, RankId, Sink, Warning};
use small::Small;

/// The major version of the format. Files with another one cannot be read.
pub const MAJOR: u16 = 1;
/// The minor version of the format. Files with another one can be read.
pub const MINOR: u16 = 1;
/// The maximum number of bytes of events in a frame, and of an event that is not mainly text.
pub const MAX_EVENTS: usize = 4 << 20;
/// The maximum number of bytes of an event that is mainly text: a string, a source text, a warning.
pub const MAX_TEXT: usize = 256 << 20;
/// The maximum compression ratio of a frame above [`MAX_EVENTS`]; above it, the frame is stored uncompressed.
pub const MAX_RATIO: usize = 256;

/// No text file starts like this, and a transfer that changes line endings or strips the eighth bit destroys it.
const MAGIC: &[u8; 8] = b"\x89TTMEM\r\n";
const HEADER: usize = 16;
const FRAME_HEAD: usize = 8;
/// Room for an event's kind and length and the payload's header.
const SLACK: usize = 64;
/// A frame is written when it has this many bytes of events.
const FULL: usize = 256 << 10;
/// Smaller payloads are not worth compressing.
const TOO_SMALL: usize = 64;
/// Higher levels are slower and, for frames of this size, not smaller.
const LEVEL: i32 = 1;
/// For running programs: slightly larger, and much faster.
const QUICK_LEVEL: i32 = -4;
const STORED: u8 = 0;
const ZSTD: u8 = 1;

/// Generates `encode` and `decode` from one table of kinds. The part in brackets is used both as a pattern to
/// destructure an event and as an expression to build it.
macro_rules! kinds {
    ($($kind:literal [$($event:tt)+] ($($field:ident),*);)*) => {
        /// Appends the content of an event to `out`, and returns its kind.
        fn encode(event: &Event<'_>, out: Vec<u8>) -> postcard::Result<(u32, Vec<u8>)> {
            match event {
                $($($event)+ => Ok(($kind, postcard::to_extend(&($($field,)*), out)?)),)*
            }
        }

        /// Decodes an event; `None` if the kind is unknown.
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

// The kinds of events. NEVER REUSE a number or change its meaning: files live long. A removed kind stays here as a
// comment. 0 is not a kind, so that zeros are never events.
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

    // Events about a rank start with the rank.
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
    // Since version 1.1.
    92 [Event::Of(rank, RankEvent::CoreMemory(memory))] (rank, memory);
    93 [Event::Of(rank, RankEvent::Placed(placement))] (rank, placement);
    94 [Event::Of(rank, RankEvent::ProgramBuffer(buffer))] (rank, buffer);
    95 [Event::Of(rank, RankEvent::FaultDetail(fault, detail))] (rank, fault, detail);
    96 [Event::Of(rank, RankEvent::TtnnPeaks(peaks))] (rank, peaks);
    97 [Event::Of(rank, RankEvent::Used(usage))] (rank, usage);
    98 [Event::Of(rank, RankEvent::BankLayout(pool, layout))] (rank, pool, layout);
    99 [Event::Of(rank, RankEvent::Ledger(fault, ledger))] (rank, fault, ledger);
    100 [Event::Of(rank, RankEvent::ProcessUse(fault, process))] (rank, fault, process);
    101 [Event::Of(rank, RankEvent::ReportedPart(fault, part))] (rank, fault, part);
    102 [Event::Of(rank, RankEvent::MemorySetting(fault, setting))] (rank, fault, setting);
    103 [Event::Of(rank, RankEvent::AllocatorRules(pool, rules))] (rank, pool, rules);
    104 [Event::Of(rank, RankEvent::Reserved(segment))] (rank, segment);
    105 [Event::Of(rank, RankEvent::FailureContext(fault, context))] (rank, fault, context);
    106 [Event::Of(rank, RankEvent::Launch(launch))] (rank, launch);
    107 [Event::Of(rank, RankEvent::LaunchArgument(argument))] (rank, argument);
    108 [Event::Of(rank, RankEvent::HeldBy(tensor, holder))] (rank, tensor, holder);
    109 [Event::Of(rank, RankEvent::AddressHeldBy(pool, address, holder))] (rank, pool, address, holder);
    110 [Event::Of(rank, RankEvent::SeveralOutputs(scope))] (rank, scope);
    111 [Event::Example(rank)] (rank);
}

/// Marks a file as closed although its events have no `End`. It has no content and is not an event.
const CLOSED: u32 = 10;

/// The maximum size of a kind's content. Lists take up to eight times their stored size in memory, so only kinds that
/// are mainly text may be large.
fn limit_of(kind: u32) -> usize {
    match kind {
        1 | 2 | 6 | 8 => MAX_TEXT,
        _ => MAX_EVENTS,
    }
}

/// Decodes an event's content. Only a newer version may have data after it.
fn content_of<T: DeserializeOwned>(content: &[u8], newer: bool) -> postcard::Result<T> {
    match postcard::take_from_bytes(content)? {
        (value, []) => Ok(value),
        (value, _) if newer => Ok(value),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}

/// Whether a file with this beginning is a `.ttmem` file.
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

/// The cumulative checksum after a frame.
fn running(crc: u32, length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// Writes a `.ttmem` file.
///
/// Events are buffered until a frame is full, [`flush`](Self::flush) is called or the writer is finished; dropping the
/// writer discards them. The producer sends the `End` event, which must be the last one.
pub struct Writer<W: Write> {
    out: W,
    path: PathBuf,
    crc: u32,
    /// The number of bytes written.
    written: u64,
    state: State,
    /// The events of the next frame.
    events: Vec<u8>,
    /// The content of one event.
    content: Vec<u8>,
    /// An encoded frame.
    frame: Vec<u8>,
    compressor: Compressor<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// `End` was received.
    Ended,
    /// A write failed: a partial frame may have been written, and nothing after it could be read.
    Broken,
}

impl<W: Write> Writer<W> {
    /// Creates a file and writes its header. `path` is only used in messages.
    pub fn create(out: W, path: impl Into<PathBuf>) -> Result<Self> {
        let header = header();
        let mut writer = Self::resume(out, path.into(), crc32fast::hash(&header[..12]))?;
        let written = writer.out.write_all(&header);
        writer.wrote(written)?;
        writer.written = HEADER as u64;
        Ok(writer)
    }

    /// A writer that continues after frames with this cumulative checksum.
    fn resume(out: W, path: PathBuf, crc: u32) -> Result<Self> {
        let compressor = match Compressor::new(LEVEL) {
            Ok(compressor) => compressor,
            Err(source) => return Err(Error::Write { path, source }),
        };
        let (events, content, frame) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { out, path, crc, written: 0, state: State::Open, events, content, frame, compressor })
    }

    /// Switches to faster, slightly weaker compression, for writing while a program runs.
    pub fn quick(mut self) -> Result<Self> {
        let set = self.compressor.set_compression_level(QUICK_LEVEL);
        set.map_err(|source| Error::Write { path: self.path.clone(), source })?;
        Ok(self)
    }

    /// The maximum size of the file once everything is written; some events may still be uncompressed.
    pub fn size_at_most(&self) -> u64 {
        self.written + (self.events.len() + FRAME_HEAD + SLACK) as u64
    }

    /// Writes all buffered events. If the program is killed now, they are in the file.
    pub fn flush(&mut self) -> Result<()> {
        if self.state == State::Broken {
            return Err(self.refuse("an earlier write failed; nothing more can be written"));
        }
        self.cut()?;
        let flushed = self.out.flush();
        self.wrote(flushed)
    }

    /// Writes all buffered events, and marks the file as closed if there was no `End`.
    pub fn finish(mut self) -> Result<W> {
        if self.state == State::Open {
            self.content.clear();
            self.push(CLOSED)?;
        }
        self.flush()?;
        Ok(self.out)
    }

    /// Adds an event with a hand-written encoding to the frame, if there is room.
    #[inline]
    fn push_small(&mut self, rank: RankId, event: &RankEvent) -> bool {
        let start = self.events.len();
        if start + Small::MAX_SIZE + SLACK > FULL {
            return false;
        }
        self.events.resize(start + Small::MAX_SIZE, 0);
        let length = Small::encode(rank, event, &mut self.events[start..]);
        self.events.truncate(start + length.unwrap_or(0));
        length.is_some()
    }

    /// Adds an event with this kind and `self.content` to the frame.
    fn push(&mut self, kind: u32) -> Result<()> {
        let length = self.content.len();
        if length > limit_of(kind) {
            let limit = limit_of(kind) >> 20;
            return Err(
                self.refuse(&format!("an event of {length} bytes exceeds the .ttmem limit of {limit} MiB"))
            );
        }
        if self.events.len() + length + SLACK > FULL {
            self.cut()?;
        }
        let events = std::mem::take(&mut self.events);
        self.events = postcard::to_extend(&(kind, length), events).map_err(bug)?;
        self.events.extend_from_slice(&self.content);
        if self.events.len() > FULL { self.cut() } else { Ok(()) }
    }

    /// Encodes the events as a frame and writes it at once.
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

    /// Marks the writer as broken if a write failed.
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
    /// Adds an event. An event that is too large is refused, and the writer stays usable.
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
    Error::Bug(format!("cannot write a .ttmem file: {what}"))
}

/// Whether the compression ratio is allowed: a few bytes must not demand much memory.
fn plausible(events: usize, stored: usize) -> bool {
    events <= MAX_EVENTS || events <= MAX_TEXT + SLACK && events <= stored.saturating_mul(MAX_RATIO)
}

/// Reads a `.ttmem` file and sends its events to `sink`.
///
/// A truncated or corrupt file is read up to that point, with a warning. Fails only if nothing can be read (an empty
/// file, another format, another major version), or if the system or the sink returns an error.
pub fn read(source: &mut dyn Read, label: &str, sink: &mut dyn Sink) -> Result<()> {
    let scan = scan(source, label, sink)?;
    if scan.unknown > 0 {
        warn(sink, scan.unknown_message())?;
    }
    if let Some(message) = scan.stop_message() {
        warn(sink, message)?;
    }
    match scan.stop {
        Stop::Ended { complete: true, .. } => sink.take(Event::End),
        _ => Ok(()),
    }
}

/// Continues a file whose writer was killed, opened for reading and writing.
///
/// The existing events are sent to `sink`, so that the producer knows the existing rows; new ids continue after them.
/// **Everything after the last valid frame is removed from the file**: usually a partial frame, but everything from
/// there on if the file is corrupt further up. A warning about the interruption is added to the file and sent to the
/// sink. The caller must ensure that no other process is writing.
///
/// Fails, and leaves the file unchanged, if it is finished, of another version, or contains events that cannot be read.
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
        Stop::BadHeader => "its header is corrupt".to_owned(),
        Stop::Undecodable(what) => what.to_owned(),
        Stop::Cut | Stop::Torn | Stop::Corrupt(_) if scan.minor != MINOR => {
            format!("its format is {MAJOR}.{}, but this version of ttmem writes {MAJOR}.{MINOR}", scan.minor)
        }
        Stop::Cut | Stop::Torn | Stop::Corrupt(_) if scan.unknown > 0 => {
            "it contains events unknown to this version of ttmem".to_owned()
        }
        Stop::Cut | Stop::Torn | Stop::Corrupt(_) => return continue_at(file, path, length, &scan, sink),
    };
    Err(refused(&path, &format!("{why}; start a new recording in another file")))
}

fn rewind(file: &mut File) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    Ok(file.metadata()?.len())
}

/// Removes everything after the last valid frame, and adds a warning to the file.
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
        "the recording was interrupted after {}, at byte {keep}, and continued later; events in between are missing \
         ({} removed)",
        counted(scan.events, "event"),
        counted_as(length.saturating_sub(keep), "unreadable byte was", "unreadable bytes were")
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

/// The result of scanning a file.
struct Scan {
    minor: u16,
    /// The number of events sent.
    events: u64,
    /// The number of events skipped because their kind is unknown.
    unknown: u64,
    /// The end of the last valid frame; without a valid header, 0 or the position of the error.
    at: u64,
    /// The cumulative checksum up to there.
    crc: u32,
    stop: Stop,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// At `End`, which has not been sent yet, or at the mark of a file that was closed without it.
    Ended { complete: bool, more: bool },
    /// The file ends between two frames.
    Cut,
    /// The file ends inside a frame or the header.
    Torn,
    /// A frame is corrupt.
    Corrupt(&'static str),
    /// The checksum of the header does not match.
    BadHeader,
    /// A frame has a valid checksum, but invalid contents.
    Undecodable(&'static str),
}

impl Scan {
    fn unknown_message(&self) -> String {
        let Self { unknown, minor, .. } = self;
        let writer = if *minor > MINOR { "a newer ttmem" } else { "another program" };
        format!(
            "{} skipped, so data may be missing; {writer} wrote the file (format {MAJOR}.{minor}, supported is \
             {MAJOR}.{MINOR})",
            counted_as(*unknown, "event of an unknown kind was", "events of unknown kinds were")
        )
    }

    /// The warning about the place where reading stopped.
    fn stop_message(&self) -> Option<String> {
        let at = self.at;
        let covered = match self.events {
            0 => "it has no readable events".to_owned(),
            1 => "the report covers only its first event".to_owned(),
            events => format!("the report covers only its first {events} events"),
        };
        let corrupt = |what: &str| format!("the recording is corrupt at byte {at} ({what}); {covered}");
        match self.stop {
            Stop::Ended { more: false, .. } => None,
            Stop::Ended { more: true, .. } => {
                Some("data after the end of the recording was ignored".to_owned())
            }
            Stop::Cut => Some(format!(
                "the recording is incomplete because the program was killed or is still running; {covered}"
            )),
            Stop::Torn => Some(format!(
                "the recording is truncated in the frame at byte {at}, because the program was killed or is still \
                 running, or the file was cut; {covered}"
            )),
            Stop::BadHeader => Some(corrupt("the header's checksum does not match")),
            Stop::Corrupt(what) | Stop::Undecodable(what) => Some(corrupt(what)),
        }
    }
}

/// Sends all readable events except `End`.
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
                what: "not a .ttmem file".to_owned(),
            });
        }
        Header::Stop(stop) => {
            (scan.at, scan.stop) = (frames.at, stop);
            return Ok(scan);
        }
    }
    loop {
        // `at` and `crc` advance only after the frame's events are sent, so that a frame counts as a whole.
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
        ("a newer", "update ttmem, or convert the file with the version that wrote it")
    } else {
        ("an older", "convert the file with the version that wrote it")
    };
    let what = format!(
        ".ttmem format {major}.{minor}, written by {age} ttmem; this version supports {MAJOR}.{MINOR}; {advice}"
    );
    Error::UnknownFormat { file: label.to_owned(), what }
}

impl Scan {
    /// Sends the events of a frame.
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

/// Splits off the first event: its kind, its content, and the rest.
fn split(events: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let ((kind, length), rest): ((u32, u32), _) = postcard::take_from_bytes(events).ok()?;
    let (content, rest) = rest.split_at_checked(length as usize)?;
    (content.len() <= limit_of(kind)).then_some((kind, content, rest))
}

/// The frames of a file, in order.
struct Frames<'a> {
    source: BufReader<&'a mut dyn Read>,
    /// The start of the next frame.
    at: u64,
    /// The cumulative checksum up to there.
    crc: u32,
    /// Raw bytes of the file.
    bytes: Vec<u8>,
    /// The events of the last frame.
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

    /// Reads the next frame's events into `events`, or returns why there is none.
    fn next(&mut self) -> io::Result<Option<Stop>> {
        self.fill(FRAME_HEAD)?;
        if self.bytes.is_empty() {
            return Ok(Some(Stop::Cut));
        }
        let (Some(length), Some(crc)) = (u32_at(&self.bytes, 0), u32_at(&self.bytes, 4)) else {
            return Ok(Some(Stop::Torn));
        };
        if length == 0 || length as usize > MAX_TEXT + SLACK {
            return Ok(Some(Stop::Corrupt("a frame has an impossible length")));
        }
        self.fill(length as usize)?;
        if self.bytes.len() < length as usize {
            return Ok(Some(Stop::Torn));
        }
        let crc_here = running(self.crc, length.to_le_bytes(), &self.bytes);
        if crc_here != crc {
            return Ok(Some(Stop::Corrupt("a frame's checksum does not match")));
        }
        if self.unpack().is_none() {
            return Ok(Some(Stop::Undecodable("a frame cannot be decompressed")));
        }
        self.crc = crc;
        self.at += FRAME_HEAD as u64 + u64::from(length);
        Ok(None)
    }

    /// Decodes the payload in `bytes` into `events`.
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

    /// Whether the file has more data.
    fn more(&mut self) -> io::Result<bool> {
        self.fill(1)?;
        Ok(!self.bytes.is_empty())
    }

    /// Reads up to `length` bytes. Memory grows with the bytes that arrive.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.shrink_to(MAX_EVENTS);
        match self.source.by_ref().take(length as u64).read_to_end(&mut self.bytes) {
            Ok(_) => Ok(()),
            // The errors that decompressors return for truncated or corrupt files: here, the file ends.
            Err(error) if is_corruption(error.kind()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn is_corruption(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}
