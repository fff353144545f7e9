//! The streams of a log: which rank a line belongs to, and what it is in the middle of.
//!
//! Standard output and standard error of each rank have a state machine of their own (modules come on one,
//! operations on the other); both lead to the same rank.

use std::io::Read;

use rustc_hash::FxHashMap;

use super::carried;
use super::fault::ParsedFault;
use super::line::{Header, Message, Prefixes, Tag, Text, split_tag};
use super::module::{Dump, is_end, stage_header};
use super::rank::{At, RankState};
use super::tables::Tables;
use crate::error::{Error, Result};
use crate::model::{ByteRange, Moment, Sink};
use crate::read::Input;
use crate::read::lines::{LONGEST_LINE, Line, Lines, is_damage};

/// Reads a whole log.
pub(super) fn read(input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
    let Input { name, stream, rereadable, .. } = input;
    let mut log = Log::new(name, !rereadable, sink);
    log.read(stream, |_, _| Ok(()))
}

/// A log, being read.
pub(super) struct Log<'s, 'n> {
    file: &'n str,
    /// Whether module texts must be taken along, because the source cannot be read again.
    keep_texts: bool,
    tables: Tables<'s>,
    /// The ranks with their labels, in the order they appeared.
    pub ranks: Vec<(Option<Vec<u8>>, RankState)>,
    streams: Vec<Stream>,
    streams_by_tag: FxHashMap<OwnedTag, usize>,
    last_stream: usize,
    signs: Signs,
    skipped: u64,
    first_skipped: Option<u64>,
}

/// What the log contains, to tell what is missing in it.
#[allow(clippy::struct_excessive_bools, reason = "each is a kind of line that was or was not seen")]
#[derive(Debug, Default)]
struct Signs {
    runtime: bool,
    debug: bool,
    modules: bool,
    unsafe_allocation: bool,
}

/// A rank's label and the stream's name; none where lines are not tagged.
type OwnedTag = Option<(Vec<u8>, Vec<u8>)>;

/// One stream of one rank.
struct Stream {
    /// `1,0` and `stdout`, as its lines are tagged.
    tag: OwnedTag,
    /// The rank, once the stream has said something of its memory.
    rank: Option<usize>,
    group: Option<Group>,
    /// The last states, by their place in a group.
    known: [Option<KnownState>; POOLS],
    dump: Option<OpenDump>,
}

/// A group of states that is being printed.
#[derive(Clone, Copy)]
struct Group {
    at: Moment,
    /// The pools that it had.
    marks: [u8; POOLS],
    count: usize,
    /// The group before was not whole when this one began.
    interrupted: bool,
}

impl Group {
    fn add(&mut self, mark: u8) {
        if let Some(slot) = self.marks.get_mut(self.count) {
            *slot = mark;
        }
        self.count += 1;
    }

    fn has(&self, mark: u8) -> bool {
        self.marks[..self.count.min(POOLS)].contains(&mark)
    }
}

/// The line of a state as it was last seen.
struct KnownState {
    line: Vec<u8>,
    pool: usize,
    mark: u8,
}

struct OpenDump {
    dump: Dump,
    stage: String,
    /// What somebody puts in front of every line.
    prefix: Vec<u8>,
    start: u64,
    line: u64,
    text: Vec<u8>,
}

impl<'s, 'n> Log<'s, 'n> {
    /// A log of which nothing was read yet.
    pub fn new(file: &'n str, keep_texts: bool, sink: &'s mut dyn Sink) -> Self {
        Self {
            file,
            keep_texts,
            tables: Tables::new(sink),
            ranks: Vec::new(),
            streams: Vec::new(),
            streams_by_tag: FxHashMap::default(),
            last_stream: 0,
            signs: Signs::default(),
            skipped: 0,
            first_skipped: None,
        }
    }

    /// Reads all of it. Who follows is shown every line when it was understood.
    pub fn read(
        &mut self,
        stream: impl Read + Send + 'static,
        mut follow: impl FnMut(&mut Self, &Line<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut prefixes = Prefixes::default();
        let mut end = At { line: 0, offset: 0, next: 0 };
        let mut lines = Lines::new(stream);
        loop {
            match lines.next() {
                Ok(Some(line)) => {
                    end = At { line: line.number, offset: line.offset, next: line.next };
                    self.line(&line, &mut prefixes)?;
                    follow(self, &line)?;
                }
                Ok(None) => break,
                // A packed log that was cut: a run that crashed is the normal case.
                Err(error) if is_damage(&error) && end.line > 0 => {
                    let message = format!(
                        "the packed file is damaged behind this line ({error}); everything before is answered"
                    );
                    self.tables.warn(Some(end.line), message)?;
                    break;
                }
                Err(source) => return Err(Error::Read { path: self.file.into(), source }),
            }
        }
        self.finish(end)
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &Line<'_>, prefixes: &mut Prefixes) -> Result<()> {
        if self.repeats(line)? {
            return Ok(());
        }
        let replaced = self.tables.replaced;
        self.understand(line, prefixes)?;
        // Said once: where one text is broken, many are.
        if replaced == 0 && self.tables.replaced > 0 {
            let message = "a text here is no UTF-8; what cannot be read of it is shown as �";
            self.tables.warn(Some(line.number), message)?;
        }
        Ok(())
    }

    fn understand(&mut self, line: &Line<'_>, prefixes: &mut Prefixes) -> Result<()> {
        let at = At { line: line.number, offset: line.offset, next: line.next };
        if line.cut {
            let message = format!(
                "a line longer than {} MiB was passed over; if it holds operations, keep large constants out of the log",
                LONGEST_LINE >> 20
            );
            self.tables.warn(Some(line.number), message)?;
            self.skipped += 1;
            return Ok(());
        }
        let (tag, rest) = split_tag(line.bytes);
        let stream = self.stream(tag);
        match prefixes.split(rest) {
            Text::Runtime(message) => {
                self.signs.runtime = true;
                if !line.ended && is_torn(message) {
                    self.tables.warn(Some(line.number), "the log ends in the middle of this line")?;
                    self.skipped += 1;
                    return Ok(());
                }
                if self.message(stream, message, at)? {
                    self.remember(stream, line.bytes);
                }
                Ok(())
            }
            Text::Foreign(text) => self.foreign(stream, text, at),
        }
    }

    /// Whether a line is, to the byte, the state that stood in this place of the group before.
    ///
    /// Three of the four states of most groups are: they are looked at no further.
    fn repeats(&mut self, line: &Line<'_>) -> Result<bool> {
        let Some(stream) = self.streams.get_mut(self.last_stream) else { return Ok(false) };
        let (Some(group), Some(rank)) = (&mut stream.group, stream.rank) else { return Ok(false) };
        let Some(Some(known)) = stream.known.get(group.count) else { return Ok(false) };
        if group.interrupted || known.line != line.bytes {
            return Ok(false);
        }
        group.add(known.mark);
        self.ranks[rank].1.same_state(known.pool, group.at, &mut self.tables)?;
        Ok(true)
    }

    /// Remembers the line of the state that was taken down last, by its place in the group.
    fn remember(&mut self, stream: usize, line: &[u8]) {
        let stream = &mut self.streams[stream];
        let (Some(rank), Some(group)) = (stream.rank, stream.group) else { return };
        let Some(place) = group.count.checked_sub(1) else { return };
        let (Some(pool), Some(slot)) = (self.ranks[rank].1.last_pool(), stream.known.get_mut(place)) else {
            return;
        };
        let known = slot.get_or_insert_with(|| KnownState { line: Vec::new(), pool, mark: 0 });
        known.line.clear();
        known.line.extend_from_slice(line);
        (known.pool, known.mark) = (pool, group.marks[place]);
    }

    /// The stream that a line belongs to. Most lines belong to the stream of the line before.
    fn stream(&mut self, tag: Option<Tag<'_>>) -> usize {
        let is_it = |stream: &Stream| match (tag, &stream.tag) {
            (Some(tag), Some((rank, name))) => rank == tag.rank && name == tag.stream,
            (tag, known) => tag.is_none() && known.is_none(),
        };
        if self.streams.get(self.last_stream).is_some_and(is_it) {
            return self.last_stream;
        }
        let key = tag.map(|tag| (tag.rank.to_vec(), tag.stream.to_vec()));
        self.last_stream = match self.streams_by_tag.get(&key) {
            Some(index) => *index,
            None => {
                self.streams_by_tag.insert(key.clone(), self.streams.len());
                let tag = key;
                self.streams.push(Stream {
                    tag,
                    rank: None,
                    group: None,
                    known: [const { None }; POOLS],
                    dump: None,
                });
                self.streams.len() - 1
            }
        };
        self.last_stream
    }

    /// The rank of a stream, which begins with the first thing it says of its memory.
    fn rank(&mut self, stream: usize) -> Result<usize> {
        if let Some(rank) = self.streams[stream].rank {
            return Ok(rank);
        }
        let tag = self.streams[stream].tag.as_ref();
        let label: Option<Vec<u8>> =
            tag.map(|(rank, _)| rank.iter().copied().filter(|byte| *byte != b' ').collect());
        let rank = match self.ranks.iter().position(|(known, _)| *known == label) {
            Some(rank) => rank,
            None => {
                let id = self.tables.rank(label.as_deref())?;
                self.ranks.push((label, RankState::new(id)));
                self.ranks.len() - 1
            }
        };
        self.streams[stream].rank = Some(rank);
        Ok(rank)
    }

    /// A message of the runtime's logger. Says whether it was a state that was taken down.
    fn message(&mut self, stream: usize, text: &[u8], at: At) -> Result<bool> {
        let message = Message::of(text);
        if message == Message::Other {
            return self.fault(stream, text, at).map(|()| false);
        }
        let index = self.rank(stream)?;
        let (rank, tables) = (&mut self.ranks[index].1, &mut self.tables);
        match message {
            Message::StateHeader(header) => self.header(stream, index, header, at)?,
            Message::State { pool, view } => return self.state(stream, index, pool, view, at),
            Message::Executing(text) => {
                self.signs.debug = true;
                if !rank.executing(text, at, tables)? {
                    self.skip(at);
                }
            }
            Message::Starting(name) => {
                self.signs.debug = true;
                rank.starting(name, at, tables)?;
            }
            Message::Finished(name) => {
                if !rank.finished(name, at, tables)? {
                    let name = String::from_utf8_lossy(name);
                    tables.warn(
                        Some(at.line),
                        format!("program {name} ends here, but its start is not in the log"),
                    )?;
                }
            }
            Message::CacheKey(hash) => rank.cache_key(hash, tables)?,
            Message::CacheHit => rank.cache_hit(),
            Message::CacheMiss => rank.cache_miss(),
            Message::Retained => rank.retained(),
            Message::Other => {}
        }
        Ok(false)
    }

    fn skip(&mut self, at: At) {
        self.skipped += 1;
        self.first_skipped.get_or_insert(at.line);
    }

    fn header(&mut self, stream: usize, rank: usize, header: Header<'_>, at: At) -> Result<()> {
        let state = &mut self.ranks[rank].1;
        let moment = match header {
            Header::BeforeOperation(op_type) => state.state_header(op_type, at, &mut self.tables)?,
            Header::BeforeSubmit => Some(state.before_submit(at)),
            Header::AfterSubmit => Some(state.after_submit(&mut self.tables)?),
        };
        let Some(moment) = moment else { return Err(self.mixed(at)) };
        let whole = |group: Group| group.count >= POOLS;
        let interrupted = self.streams[stream].group.is_some_and(|group| !whole(group));
        self.streams[stream].group = Some(Group { at: moment, marks: [0; POOLS], count: 0, interrupted });
        Ok(())
    }

    /// Takes a state down; `false` when it cannot be read.
    fn state(&mut self, stream: usize, rank: usize, pool: &[u8], view: &[u8], at: At) -> Result<bool> {
        let state = &mut self.ranks[rank].1;
        let moment = match &mut self.streams[stream].group {
            Some(group) => {
                let mark = mark_of(pool);
                if group.interrupted && group.has(mark) {
                    return Err(self.mixed(at));
                }
                group.add(mark);
                group.at
            }
            None => state.now(),
        };
        let read = state.state(pool, view, moment, at, &mut self.tables)?;
        if !read {
            self.skip(at);
        }
        Ok(read)
    }

    fn mixed(&self, at: At) -> Error {
        Error::MixedRanks {
            file: self.file.to_owned(),
            line: at.line,
            message: "the lines of two processes are mixed here and nothing tells them apart; run with \
                      `mpirun --tag-output` (tt-run does), or give each process a log of its own"
                .to_owned(),
        }
    }

    /// A line that the runtime's logger did not write.
    fn foreign(&mut self, stream: usize, text: &[u8], at: At) -> Result<()> {
        if let Some(text) = text.strip_prefix(carried::MARK) {
            return self.carried(stream, text, at);
        }
        // Whoever writes in front of every line wrote in front of the dump's header, too.
        let prefix = self.streams[stream].dump.as_ref().map_or(&b""[..], |open| &open.prefix);
        let text = text.strip_prefix(prefix).unwrap_or(text);
        if let Some(stage) = stage_header(text) {
            self.signs.modules = true;
            let stage = String::from_utf8_lossy(stage).into_owned();
            self.end_dump(stream, at.offset)?;
            let dump = Dump::new(stage == "ttnn");
            self.streams[stream].dump = Some(OpenDump {
                dump,
                stage,
                prefix: before_preamble(text).to_vec(),
                start: at.next,
                line: at.line + 1,
                text: Vec::new(),
            });
            return Ok(());
        }
        if is_end(text) {
            return self.end_dump(stream, at.offset);
        }
        if let Some(open) = &mut self.streams[stream].dump {
            if self.keep_texts {
                open.text.extend_from_slice(text);
                open.text.push(b'\n');
            }
            if open.dump.line(text) {
                return Ok(());
            }
        }
        if let Message::State { pool, view } = Message::of(text) {
            let rank = self.rank(stream)?;
            return self.state(stream, rank, pool, view, at).map(|_| ());
        }
        self.fault(stream, text, at)
    }

    /// A line that `ttmem last-run` wrote.
    fn carried(&mut self, stream: usize, text: &[u8], at: At) -> Result<()> {
        let taken_up = match carried::Line::parse(text) {
            None => return Ok(()),
            Some(Ok(line)) => {
                let rank = self.rank(stream)?;
                self.ranks[rank].1.take_up(&line, &mut self.tables)?
            }
            Some(Err(carried::Malformed)) => false,
        };
        if !taken_up {
            self.skip(at);
        }
        Ok(())
    }

    fn fault(&mut self, stream: usize, text: &[u8], at: At) -> Result<()> {
        let Some(parsed) = ParsedFault::find(text) else {
            return if is_unsafe_allocation(text) { self.unsafe_allocation(at) } else { Ok(()) };
        };
        let rank = self.rank(stream)?;
        self.ranks[rank].1.fault(&parsed, at, &mut self.tables)
    }

    /// The device warns of it with every thread; once is enough.
    fn unsafe_allocation(&mut self, at: At) -> Result<()> {
        if std::mem::replace(&mut self.signs.unsafe_allocation, true) {
            return Ok(());
        }
        let message =
            "buffers were allocated while a trace is active; the trace may overwrite them when it runs";
        self.tables.warn(Some(at.line), message)
    }

    fn end_dump(&mut self, stream: usize, end: u64) -> Result<()> {
        let Some(open) = self.streams[stream].dump.take() else { return Ok(()) };
        let index = self.rank(stream)?;
        let source = ByteRange { start: open.start, end };
        if self.keep_texts {
            self.tables.source_text(source, String::from_utf8_lossy(&open.text))?;
        }
        let rank = &mut self.ranks[index].1;
        let id = rank.id();
        rank.graphs.add(open.dump, &open.stage, (source, open.line), id, &mut self.tables)
    }

    /// The end of the log.
    fn finish(&mut self, end: At) -> Result<()> {
        for stream in 0..self.streams.len() {
            if let Some(open) = &self.streams[stream].dump {
                let message = format!("the dump of module {} that begins here has no end", open.stage);
                self.tables.warn(Some(open.line), message)?;
                self.end_dump(stream, end.next)?;
            }
        }
        let tagged = self.ranks.iter().any(|(label, rank)| label.is_some() && rank.has_states());
        for (label, rank) in &mut self.ranks {
            if label.is_none() && tagged && !rank.has_states() {
                rank.warn_of_faults(&mut self.tables)?;
            }
            rank.close(end, &mut self.tables)?;
        }
        if self.skipped > 0 {
            self.tables.skipped(self.skipped)?;
            if let Some(line) = self.first_skipped {
                let message = match self.skipped {
                    1 => "this line could not be understood".to_owned(),
                    skipped => format!("{skipped} lines could not be understood; this is the first"),
                };
                self.tables.warn(Some(line), message)?;
            }
        }
        if !self.ranks.iter().any(|(_, rank)| rank.has_states()) {
            return Err(self.no_memory_data());
        }
        self.tables.end()
    }

    /// Which setting is missing, as far as the log tells.
    fn no_memory_data(&self) -> Error {
        let signs = &self.signs;
        let file = self.file.to_owned();
        if !signs.runtime && !signs.modules {
            let what = "text without a line of the Tenstorrent runtime".to_owned();
            return Error::UnknownFormat { file, what };
        }
        let steps = self.ranks.iter().any(|(_, rank)| rank.has_steps());
        let missing = if steps || signs.debug {
            "operations, but no memory states: set TT_RUNTIME_MEMORY_LOG_LEVEL=operation. tt-mlir without tt-xla \
             does not read it: there, call tt::runtime::setMemoryLogLevel(tt::runtime::MemoryLogLevel::Operation) \
             before the first submit"
        } else if signs.runtime {
            "lines of the runtime, but neither operations nor memory states: set \
             TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG and TT_RUNTIME_MEMORY_LOG_LEVEL=operation; if they are set, the \
             runtime is no debug build (-DCMAKE_BUILD_TYPE=Debug -DTT_RUNTIME_DEBUG=ON)"
        } else {
            "compiled modules, but no line of the runtime: it prints to standard output, so capture both \
             (`> run.log 2>&1`), with a debug build (-DTT_RUNTIME_DEBUG=ON), TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG \
             and TT_RUNTIME_MEMORY_LOG_LEVEL=operation"
        };
        Error::NoMemoryData {
            file,
            message: format!("there is no memory data in this log. It has {missing}"),
        }
    }
}

/// Whether a message without an end of line is not all there. Only long ones can be told.
pub(super) fn is_torn(message: &[u8]) -> bool {
    match Message::of(message) {
        Message::Executing(text) => !text.ends_with(b")"),
        Message::State { view, .. } => !view.ends_with(b"}"),
        // The name of an operation's type always ends so.
        Message::StateHeader(Header::BeforeOperation(op_type)) => !op_type.ends_with(b"Op"),
        _ => false,
    }
}

/// `Allocating device buffers is potentially unsafe due to the existence of an active trace. …`
fn is_unsafe_allocation(text: &[u8]) -> bool {
    memchr::memchr(b'A', text).is_some_and(|at| {
        text.len() < 1024
            && memchr::memmem::find(&text[at..], b"Allocating device buffers is potentially unsafe").is_some()
    })
}

/// What stands in front of the compiler's own words: its preamble begins with the date; without one, all that is
/// in front of the header itself.
pub(super) fn before_preamble(header: &[u8]) -> &[u8] {
    let is_date = |window: &[u8]| {
        window.iter().zip(b"0000-00-00 ").all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
    };
    let date = header.windows(11).position(is_date);
    let end = date.or_else(|| memchr::memmem::find(header, b"MLIR Module ")).unwrap_or(0);
    &header[..end]
}

/// The runtime prints four pools in every group.
const POOLS: usize = 4;

/// Tells the pools of a group apart.
fn mark_of(pool: &[u8]) -> u8 {
    pool.iter().fold(pool.len().to_le_bytes()[0], |mark, byte| mark.wrapping_mul(31).wrapping_add(*byte)) | 1
}
