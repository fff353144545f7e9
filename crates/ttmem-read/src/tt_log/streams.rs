//! The streams of a log: the rank of each line, and the context it appears in.
//!
//! Standard output and standard error of each rank have separate state machines, because modules and operations are
//! printed on different streams. Both belong to the same rank.

mod corrupt_lines;
mod groups;
mod opening;

use std::io::Read;

use rustc_hash::FxHashMap;
use ttmem_model::{ByteRange, Error, Result, Sink, StepMarks, Warning};
use xxhash_rust::xxh3::Xxh3;

use self::corrupt_lines::Tally;
use self::groups::{Group, KnownState, POOLS};
use self::opening::Boundary;
use super::line::{Header, Message, Prefixes, Tag, Text, split_tag};
use super::module::{Dump, is_end, stage_header};
use super::processes::{Clock, EndedDump, HeldLine, Opening, is_device_opened};
use super::rank::{At, Began, RankState};
use super::tables::Tables;
use crate::cuda_oom::{self, CUDA_OOM};
use crate::document::Document;
use crate::lines::{Line, MAX_LINE, each_line};
use crate::tt_metal::{Exception, Failure, Sightings};
use crate::{Input, Sniff};

/// The prefix of lines that `ttmem last-run` up to 0.1.0 added to logs.
const ADDED: &[u8] = b"ttmem | ";
/// The text after the prefix in the line before a copied const-eval program of an earlier pass.
const COPIED_CONST_EVAL: &[u8] = b"const-eval of an earlier pass";

/// Reads a whole log, as the given format. If the log turns out to have the other one, its profile gets that name.
pub(super) fn read(input: Input<'_>, format: &'static str, sink: &mut dyn Sink) -> Result<()> {
    let Input { name, stream, rereadable, allow_interleaved, is_requested, sniff, .. } = input;
    let mut log = Log::new(name, !rereadable, sink);
    log.allow_interleaved = allow_interleaved;
    log.format = format;
    log.has_only_failures = is_requested && format == TT_METAL_LOG;
    log.of_gpu = (sniff == Sniff::Maybe).then(cuda_oom::Log::default);
    log.read(stream, |_, _| Ok(()))
}

/// The maximum number of warnings about truncated error messages.
const MAX_CUT_FAILURES: usize = 100;

/// The names of the two formats that this module reads.
pub(super) const TT_LOG: &str = "tt_log";
pub(crate) const TT_METAL_LOG: &str = "tt_metal_log";

/// A log that is being read.
#[allow(clippy::struct_excessive_bools, reason = "independent facts about a log and how to read it")]
pub(super) struct Log<'s, 'n> {
    file: &'n str,
    /// Errors of a GPU, in a text that may not be a log of the runtime: it is read once, and the errors are at its end.
    of_gpu: Option<cuda_oom::Log>,
    /// The format that the profile has so far.
    format: &'static str,
    /// Whether to read nothing but errors.
    has_only_failures: bool,
    /// Whether a line that is not blank was read.
    has_lines: bool,
    document: Document,
    /// The lines of truncated error messages, whether each has a line ending, and whether it still has all numbers.
    cut_failures: Vec<(u64, bool, bool)>,
    /// Whether to keep module texts, because the source cannot be read again.
    keep_texts: bool,
    /// Whether to read lines that look interleaved as lines of one process.
    allow_interleaved: bool,
    tables: Tables<'s>,
    /// The ranks, in order of appearance. A process that follows another is a separate rank.
    pub ranks: Vec<RankLog>,
    /// The starts of the processes after the first.
    processes: Vec<Boundary>,
    streams: Vec<Stream>,
    streams_by_tag: FxHashMap<OwnedTag, usize>,
    last_stream: usize,
    signs: Signs,
    /// The number of times that lines looked interleaved.
    suspects: u32,
    skipped: Tally,
    /// Lines that repeat the previous line.
    repeated: Tally,
    /// State groups without a header.
    headless: Tally,
    /// Lines of module dumps outside a dump.
    stray_modules: Tally,
    /// States without the runtime's prefix.
    snapshots: Tally,
    /// Lines that `ttmem last-run` 0.1.0 added.
    added: Tally,
    /// Lines of const-eval programs that it copied from earlier passes.
    copied: Tally,
}

/// A rank of one process that is being read.
pub(super) struct RankLog {
    /// The label of its lines, if they are tagged.
    pub label: Option<Vec<u8>>,
    /// The number of its process, from 1.
    pub process: u32,
    /// The offset where the lines of the process begin.
    pub from: u64,
    pub state: RankState,
    opening: Opening,
    /// The times in the compiler's last log line.
    clock: Option<Clock>,
    /// Another process has followed.
    ended: bool,
    /// The log ends inside one of its programs.
    was_running: bool,
}

/// The kinds of lines in the log, to determine what is missing.
#[allow(clippy::struct_excessive_bools, reason = "one flag per kind of line")]
#[derive(Debug, Default)]
struct Signs {
    runtime: bool,
    debug: bool,
    modules: bool,
    unsafe_allocation: bool,
    interleaved: bool,
    torn: bool,
    /// Messages of errors, which may be part of a text about errors.
    failures: bool,
    cut_failures: bool,
}

/// A rank's label and the stream's name; `None` if lines are not tagged.
type OwnedTag = Option<(Vec<u8>, Vec<u8>)>;

/// One stream of one rank.
struct Stream {
    /// The tag of its lines, such as `1,0` and `stdout`.
    tag: OwnedTag,
    /// The rank; set when the stream first reports memory.
    rank: Option<usize>,
    group: Option<Group>,
    /// The last states, by their position in a group.
    known: [Option<KnownState>; POOLS],
    /// Whether any group had all pools.
    has_whole_groups: bool,
    /// Groups that lack a pool.
    partial: Tally,
    dump: Option<OpenDump>,
    /// The following lines are copies of const-eval programs that ran before the pass: see [`ADDED`].
    is_copy: bool,
    sightings: Sightings,
}

struct OpenDump {
    dump: Dump,
    stage: String,
    /// A prefix that every line has.
    prefix: Vec<u8>,
    begins: u64,
    start: u64,
    line: u64,
    text: Vec<u8>,
    hash: Xxh3,
}

impl<'s, 'n> Log<'s, 'n> {
    /// A log without any lines yet.
    pub fn new(file: &'n str, keep_texts: bool, sink: &'s mut dyn Sink) -> Self {
        Self {
            file,
            of_gpu: None,
            format: TT_LOG,
            has_only_failures: false,
            has_lines: false,
            document: Document::default(),
            cut_failures: Vec::new(),
            keep_texts,
            allow_interleaved: false,
            tables: Tables::new(sink),
            ranks: Vec::new(),
            processes: Vec::new(),
            streams: Vec::new(),
            streams_by_tag: FxHashMap::default(),
            last_stream: 0,
            signs: Signs::default(),
            suspects: 0,
            skipped: Tally::default(),
            repeated: Tally::default(),
            headless: Tally::default(),
            stray_modules: Tally::default(),
            snapshots: Tally::default(),
            added: Tally::default(),
            copied: Tally::default(),
        }
    }

    /// Reads the whole log. Calls the callback with every line after it was processed.
    pub fn read(
        &mut self,
        stream: impl Read + Send + 'static,
        mut follow: impl FnMut(&mut Self, &Line<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut prefixes = Prefixes::default();
        let mut end = At { line: 0, offset: 0, next: 0 };
        let warning = each_line(stream, self.file, |line| {
            end = At { line: line.number, offset: line.offset, next: line.next };
            self.line(line, &mut prefixes)?;
            follow(self, line)
        })?;
        if let Some(Warning { line, message }) = warning {
            self.tables.warn(line, message)?;
        }
        self.finish(end)
    }

    /// Processes the next line.
    pub fn line(&mut self, line: &Line<'_>, prefixes: &mut Prefixes) -> Result<()> {
        // Some tools pad lines with blanks; no runtime line ends in one.
        let line = &Line { bytes: line.bytes.trim_ascii_end(), ..*line };
        if self.repeats(line)? {
            return Ok(());
        }
        if let Some(of_gpu) = &mut self.of_gpu {
            of_gpu.line(line.bytes, line.number);
        }
        let replaced = self.tables.replaced;
        self.understand(line, prefixes)?;
        // One warning is enough: invalid bytes usually occur repeatedly.
        if replaced == 0 && self.tables.replaced > 0 {
            let message = "text on this line is not UTF-8; invalid bytes are shown as �";
            self.tables.warn(Some(line.number), message)?;
        }
        Ok(())
    }

    fn understand(&mut self, line: &Line<'_>, prefixes: &mut Prefixes) -> Result<()> {
        let at = At { line: line.number, offset: line.offset, next: line.next };
        if line.cut {
            let message = format!(
                "this line exceeds {} MiB and was skipped; operations in it are missing (keep large \
                 constants out of the log)",
                MAX_LINE >> 20
            );
            self.tables.warn(Some(line.number), message)?;
            self.skipped.count += 1;
            return Ok(());
        }
        let (tag, rest) = split_tag(line.bytes);
        let stream = self.stream(tag);
        let is_first = !self.has_lines;
        self.has_lines |= !rest.is_empty();
        match prefixes.split(rest) {
            Text::Runtime(message) if self.has_only_failures => {
                let prefix = before(rest, message);
                self.fault(stream, prefix, message, line.ended, is_first, at)
            }
            Text::Foreign(text) if self.has_only_failures => {
                self.document.line(text);
                self.fault(stream, b"", text, line.ended, is_first, at)
            }
            Text::Runtime(message) => {
                self.signs.runtime = true;
                self.of_gpu = None;
                if !line.ended && is_torn(message) {
                    self.skipped.count += 1;
                    return self.warn_of_torn_line(at);
                }
                self.message(stream, line, message, is_first, at)
            }
            Text::Foreign(text) => self.foreign(stream, text, line.ended, is_first, at),
        }
    }

    fn warn_of_torn_line(&mut self, at: At) -> Result<()> {
        self.signs.torn = true;
        let message = "the log ends inside this line; only its complete values are used";
        self.tables.warn(Some(at.line), message)
    }

    /// Whether a line is identical to the previous state at this position in the group.
    ///
    /// Three of the four states in most groups are, and need no parsing.
    fn repeats(&mut self, line: &Line<'_>) -> Result<bool> {
        let Some(stream) = self.streams.get_mut(self.last_stream) else { return Ok(false) };
        let (Some(group), Some(rank)) = (&mut stream.group, stream.rank) else { return Ok(false) };
        let Some(Some(known)) = stream.known.get(group.count) else { return Ok(false) };
        if group.interrupted || known.line != line.bytes {
            return Ok(false);
        }
        group.add(known.mark);
        group.line = line.number;
        self.ranks[rank].state.same_state(known.pool, group.at, &mut self.tables)?;
        Ok(true)
    }

    /// Caches the line of the last recorded state by its position in the group.
    fn remember(&mut self, stream: usize, line: &[u8]) {
        let stream = &mut self.streams[stream];
        let (Some(rank), Some(group)) = (stream.rank, stream.group) else { return };
        let Some(place) = group.count.checked_sub(1) else { return };
        let (Some(pool), Some(slot)) = (self.ranks[rank].state.last_pool(), stream.known.get_mut(place))
        else {
            return;
        };
        let known = slot.get_or_insert_with(|| KnownState { line: Vec::new(), pool, mark: 0 });
        known.line.clear();
        known.line.extend_from_slice(line);
        (known.pool, known.mark) = (pool, group.marks[place]);
    }

    /// The stream of a line, usually that of the previous line.
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
                    has_whole_groups: false,
                    partial: Tally::default(),
                    dump: None,
                    is_copy: false,
                    sightings: Sightings::default(),
                });
                self.streams.len() - 1
            }
        };
        self.last_stream
    }

    /// The rank of a stream, created when the stream first reports memory.
    fn rank(&mut self, stream: usize) -> Result<usize> {
        if let Some(rank) = self.streams[stream].rank {
            return Ok(rank);
        }
        let tag = self.streams[stream].tag.as_ref();
        let label: Option<Vec<u8>> =
            tag.map(|(rank, _)| rank.iter().copied().filter(|byte| *byte != b' ').collect());
        let rank = match self.ranks.iter().rposition(|known| known.label == label) {
            Some(rank) => rank,
            None => self.add_rank(label, 1, 0)?,
        };
        self.streams[stream].rank = Some(rank);
        Ok(rank)
    }

    fn add_rank(&mut self, label: Option<Vec<u8>>, process: u32, from: u64) -> Result<usize> {
        let state = RankState::new(self.tables.rank(label.as_deref())?);
        self.ranks.push(RankLog {
            label,
            process,
            from,
            state,
            opening: Opening::default(),
            clock: None,
            ended: false,
            was_running: false,
        });
        Ok(self.ranks.len() - 1)
    }

    /// Handles a message of the runtime's logger.
    fn message(&mut self, stream: usize, line: &Line<'_>, text: &[u8], is_first: bool, at: At) -> Result<()> {
        let message = Message::of(text);
        if message == Message::Other {
            return self.fault(stream, before(line.bytes, text), text, line.ended, is_first, at);
        }
        if self.streams[stream].is_copy {
            self.copied.add(at.line);
            return Ok(());
        }
        let rank = self.rank(stream)?;
        if self.hold(rank, &message, at)? {
            let held = HeldLine { stream, line: line.bytes.to_vec(), message: text.to_vec(), at };
            return self.held(rank, held, &message);
        }
        self.flush_opening(rank)?;
        if self.take(stream, message, at)? {
            self.remember(stream, line.bytes);
        }
        Ok(())
    }

    /// Processes a message. Returns whether it was a state that was recorded.
    fn take(&mut self, stream: usize, message: Message<'_>, at: At) -> Result<bool> {
        let index = self.rank(stream)?;
        let (rank, tables) = (&mut self.ranks[index].state, &mut self.tables);
        match message {
            Message::StateHeader(header) => self.header(stream, index, header, at)?,
            Message::State { pool, view } => return self.state(stream, index, pool, view, at),
            Message::Executing(text) => {
                self.signs.debug = true;
                let began = if is_whole_operation(text) {
                    rank.executing(text, at, tables)?
                } else {
                    rank.skip_operation()
                };
                match began {
                    Began::Yes => {}
                    Began::Repeated => self.repeated.add(at.line),
                    Began::Unreadable => self.skipped.add(at.line),
                }
            }
            Message::Starting(name) => {
                self.signs.debug = true;
                if !rank.starting(name, at, tables)? {
                    self.repeated.add(at.line);
                }
            }
            Message::Finished(name) => {
                if !rank.finished(name, at, tables)? {
                    let name = String::from_utf8_lossy(name);
                    tables.warn(
                        Some(at.line),
                        format!(
                            "program {name} ends here, but its start is not in the log; its earlier operations are \
                             missing from the report"
                        ),
                    )?;
                }
            }
            Message::CacheKey(hash) => rank.cache_key(hash, tables)?,
            Message::CacheHit => rank.mark(StepMarks::CACHE_HIT),
            Message::CacheMiss => rank.mark(StepMarks::CACHE_MISS),
            Message::Retained => rank.mark(StepMarks::RETAINED),
            Message::Other => {}
        }
        Ok(false)
    }

    /// Handles a line of another writer.
    fn foreign(&mut self, stream: usize, text: &[u8], ended: bool, is_first: bool, at: At) -> Result<()> {
        if let Some(added) = text.strip_prefix(ADDED) {
            self.added.add(at.line);
            // Lines about pools and tensors follow the last copy.
            self.streams[stream].is_copy = added.starts_with(COPIED_CONST_EVAL);
            return Ok(());
        }
        // A writer that prefixes every line also prefixed the dump's header.
        let prefix = self.streams[stream].dump.as_ref().map_or(&b""[..], |open| &open.prefix);
        let text = text.strip_prefix(prefix).unwrap_or(text);
        if let Some(stage) = stage_header(text) {
            self.signs.modules = true;
            let stage = String::from_utf8_lossy(stage).into_owned();
            let open = self.streams[stream].dump.as_ref();
            if open.is_some_and(|open| open.line == at.line && open.stage == stage) {
                self.repeated.add(at.line);
                return Ok(());
            }
            let rank = self.rank(stream)?;
            self.release(rank)?;
            self.see_clock(stream, text)?;
            self.warn_of_open_dump(stream)?;
            self.end_dump(stream, at.offset)?;
            let dump = Dump::new(stage == "ttnn");
            self.streams[stream].dump = Some(OpenDump {
                dump,
                stage,
                prefix: before_preamble(text).to_vec(),
                begins: at.offset,
                start: at.next,
                line: at.line + 1,
                text: Vec::new(),
                hash: Xxh3::new(),
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
            open.hash.update(text);
            if open.dump.line(text) {
                return Ok(());
            }
        } else if is_module_text(text) {
            self.stray_modules.add(at.line);
        }
        if let Message::State { pool, view } = Message::of(text) {
            return self.snapshot(stream, pool, view, ended, at);
        }
        if is_device_opened(text) {
            let rank = self.rank(stream)?;
            self.release(rank)?;
            let rank = self.rank(stream)?;
            let RankLog { state, opening, .. } = &mut self.ranks[rank];
            opening.device_opened |= state.has_states();
            return Ok(());
        }
        self.document.line(text);
        self.fault(stream, b"", text, ended, is_first, at)
    }

    /// Handles a line that may contain an error; `prefix` is the logger's prefix if it was removed.
    fn fault(
        &mut self,
        stream: usize,
        prefix: &[u8],
        text: &[u8],
        ended: bool,
        is_first: bool,
        at: At,
    ) -> Result<()> {
        let sighted = self.streams[stream].sightings.line(prefix, text, at.line);
        if let Some(exception) = sighted.exception {
            self.exception(stream, &exception, at)?;
        }
        let Some(failure) = sighted.failure else {
            return if is_unsafe_allocation(text) { self.unsafe_allocation(at) } else { Ok(()) };
        };
        let has_end = ended || failure.has_its_end();
        let failure = if has_end { failure } else { failure.without_last_number() };
        if (failure.is_cut() || !has_end) && self.cut_failures.len() < MAX_CUT_FAILURES {
            self.cut_failures.push((at.line, ended, failure.is_complete()));
        }
        // The input may be nothing but the message.
        let is_framed = sighted.is_framed || is_first && failure.is_alone_in(text);
        self.streams[stream].sightings.failed(false);
        self.add_fault(stream, &failure, is_framed, None, at)
    }

    /// Warns about error messages that are truncated. Without memory states, only complete messages are used.
    fn warn_of_cut_failures(&mut self, has_states: bool) -> Result<()> {
        for (line, ended, is_complete) in std::mem::take(&mut self.cut_failures) {
            let what = if ended {
                "this error message is truncated"
            } else {
                "the log ends inside this error message"
            };
            let is_used = has_states || is_complete;
            let then = if is_used { "the verdict uses only its complete numbers" } else { "it is not used" };
            self.tables.warn(Some(line), format!("{what}; {then}"))?;
        }
        Ok(())
    }

    /// Handles an exception whose text is complete. Its message was handled before, except that of an operation's check.
    fn exception(&mut self, stream: usize, exception: &Exception, at: At) -> Result<()> {
        let Some(failure) = exception.failure() else { return Ok(()) };
        self.streams[stream].sightings.failed(exception.has_continued);
        self.add_fault(stream, &failure, true, exception.loc(), At { line: exception.line, ..at })
    }

    /// Ends the exceptions of a rank whose messages precede a line: its process ends there.
    fn end_exceptions(&mut self, rank: usize, at: At) -> Result<()> {
        for stream in self.streams.iter_mut().filter(|stream| stream.rank == Some(rank)) {
            let Some(exception) = stream.sightings.end_before(at.line) else { continue };
            let Some(failure) = exception.failure() else { continue };
            let at = At { line: exception.line, ..at };
            self.ranks[rank].state.fault(&failure, true, exception.loc(), at, &mut self.tables)?;
        }
        Ok(())
    }

    fn add_fault(
        &mut self,
        stream: usize,
        failure: &Failure<'_>,
        is_framed: bool,
        loc: Option<&str>,
        at: At,
    ) -> Result<()> {
        self.signs.failures = true;
        self.signs.cut_failures |= is_framed && !failure.is_complete();
        let rank = self.rank(stream)?;
        self.release(rank)?;
        let mut rank = self.rank(stream)?;
        if self.ranks[rank].opening.clock_restarted {
            // The process failed before its first program.
            rank = self.begin_pending(rank, at)?;
        }
        self.ranks[rank].state.fault(failure, is_framed, loc, at, &mut self.tables)
    }

    /// The runtime repeats this warning in every thread; one is enough.
    fn unsafe_allocation(&mut self, at: At) -> Result<()> {
        if std::mem::replace(&mut self.signs.unsafe_allocation, true) {
            return Ok(());
        }
        let message =
            "buffers were allocated while a trace is active; the trace may overwrite them when it runs";
        self.tables.warn(Some(at.line), message)
    }

    fn warn_of_open_dump(&mut self, stream: usize) -> Result<()> {
        let Some(open) = &self.streams[stream].dump else { return Ok(()) };
        let message = format!(
            "the dump of module {} that begins here has no end; argument names may be unknown",
            open.stage
        );
        self.tables.warn(Some(open.line), message)
    }

    fn end_dump(&mut self, stream: usize, end: u64) -> Result<()> {
        let Some(open) = self.streams[stream].dump.take() else { return Ok(()) };
        let rank = self.rank(stream)?;
        let source = ByteRange { start: open.start, end };
        if self.keep_texts {
            self.tables.source_text(source, String::from_utf8_lossy(&open.text))?;
        }
        let OpenDump { dump, stage, begins, line, hash, .. } = open;
        let dump = EndedDump { dump, stage, begins, source, line, hash: hash.digest() };
        if !self.ranks[rank].state.has_states() {
            return self.add_dump(rank, dump);
        }
        // It may be the first graph of another process.
        self.ranks[rank].opening.dumps.push(dump);
        Ok(())
    }

    fn add_dump(&mut self, rank: usize, ended: EndedDump) -> Result<()> {
        let rank = &mut self.ranks[rank].state;
        for defect in ended.dump.defects() {
            let message = format!("the dump of module {} that begins here {defect}", ended.stage);
            self.tables.warn(Some(ended.line), message)?;
        }
        rank.add_dump(ended, &mut self.tables)
    }

    /// The end of the log.
    fn finish(&mut self, end: At) -> Result<()> {
        for stream in 0..self.streams.len() {
            if let Some(exception) = self.streams[stream].sightings.end() {
                self.exception(stream, &exception, end)?;
            }
            self.warn_of_open_dump(stream)?;
            self.end_dump(stream, end.next)?;
        }
        for rank in 0..self.ranks.len() {
            self.release(rank)?;
        }
        for rank in 0..self.ranks.len() {
            for dump in std::mem::take(&mut self.ranks[rank].opening.dumps) {
                self.add_dump(rank, dump)?;
            }
        }
        let has_states = self.ranks.iter().any(|rank| rank.state.has_states());
        self.warn_of_cut_failures(has_states)?;
        if !has_states {
            return self.finish_with_faults(end);
        }
        let tagged = self.ranks.iter().any(|rank| rank.label.is_some() && rank.state.has_states());
        if tagged && self.ranks.iter().any(|rank| rank.label.is_none() && rank.state.has_states()) {
            let message = "some lines have a rank tag and some do not; lines without one are reported as a separate \
                           rank";
            self.tables.warn(None, message)?;
        }
        for rank in self.ranks.iter_mut().filter(|rank| !rank.ended) {
            if rank.label.is_none() && tagged && !rank.state.has_states() {
                rank.state.warn_of_faults(&mut self.tables)?;
            }
            rank.was_running = rank.state.in_program();
            rank.state.close(end, &mut self.tables)?;
        }
        self.warn_of_processes()?;
        self.warn_of_corrupt_lines(end)?;
        self.set_format(TT_LOG)?;
        self.tables.end()
    }

    /// The end of a log without memory states: its errors are all that it says about memory.
    fn finish_with_faults(&mut self, end: At) -> Result<()> {
        let is_document = self.document.is_one();
        let has_faults = self
            .ranks
            .iter_mut()
            .map(|rank| rank.state.keep_printed_faults(is_document))
            .fold(false, |any, has| any | has);
        if !has_faults {
            return self.finish_with_gpu();
        }
        let has_steps = self.ranks.iter().any(|rank| rank.state.has_steps());
        for (index, rank) in self.ranks.iter_mut().enumerate().filter(|(_, rank)| !rank.ended) {
            if has_steps {
                rank.was_running = rank.state.in_program();
                rank.state.close(end, &mut self.tables)?;
                continue;
            }
            let mut streams = self.streams.iter().filter(|stream| stream.rank == Some(index));
            let has_continued = streams.any(|stream| stream.sightings.has_continued());
            rank.state.close_with_faults(has_continued, &mut self.tables)?;
        }
        if has_steps || self.signs.modules {
            let message = format!("only errors are reported; the log has {}", self.missing());
            self.tables.warn(None, message)?;
        }
        self.set_format(if has_steps { TT_LOG } else { TT_METAL_LOG })?;
        self.tables.end()
    }

    /// The end of a log without a line of the runtime: it may have an error of a GPU.
    fn finish_with_gpu(&mut self) -> Result<()> {
        let of_gpu = self.of_gpu.take().filter(|_| !self.signs.failures && !self.signs.modules);
        let Some(of_gpu) = of_gpu else { return Err(self.no_memory_data()) };
        if !of_gpu.has_failure() {
            return Err(of_gpu.no_memory_data(self.file).unwrap_or_else(|| self.no_memory_data()));
        }
        self.set_format(CUDA_OOM)?;
        of_gpu.emit(&mut self.tables)?;
        self.tables.end()
    }

    /// Corrects the name of the format, which is certain only at the end.
    fn set_format(&mut self, format: &'static str) -> Result<()> {
        if std::mem::replace(&mut self.format, format) == format {
            return Ok(());
        }
        self.tables.source(format, self.file)
    }

    /// The error for a log without memory data, naming the missing setting if it can be determined.
    fn no_memory_data(&self) -> Error {
        let signs = &self.signs;
        let file = self.file.to_owned();
        let is_of_runtime = signs.runtime || signs.modules;
        if signs.failures && (!is_of_runtime || self.document.is_one()) {
            let message = if signs.cut_failures {
                "no memory data; the tt-metal error in this text lacks some of its numbers; pass the complete output of \
                 the program that failed"
            } else {
                "no memory data; the text quotes a tt-metal error, but contains no log of it; pass the output of the \
                 program that failed"
            };
            return Error::NoMemoryData { file, message: message.to_owned() };
        }
        if !is_of_runtime {
            let what = "text without an out-of-memory error of PyTorch, CUDA, NCCL, JAX, vLLM or SGLang, and without \
                        lines of the Tenstorrent runtime"
                .to_owned();
            return Error::UnknownFormat { file, what };
        }
        Error::NoMemoryData { file, message: format!("no memory data; the log has {}", self.missing()) }
    }

    /// What the log has and lacks, and the setting that is missing.
    fn missing(&self) -> &'static str {
        let signs = &self.signs;
        let steps = self.ranks.iter().any(|rank| rank.state.has_steps());
        if steps || signs.debug {
            "operations but no memory states; set TT_RUNTIME_MEMORY_LOG_LEVEL=operation. tt-mlir without tt-xla \
             ignores it: call tt::runtime::setMemoryLogLevel(tt::runtime::MemoryLogLevel::Operation) \
             before the first submit instead"
        } else if signs.runtime {
            "runtime lines but no operations and no memory states; set \
             TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG and TT_RUNTIME_MEMORY_LOG_LEVEL=operation. If they are set, the \
             runtime is not a debug build (-DCMAKE_BUILD_TYPE=Debug -DTT_RUNTIME_DEBUG=ON)"
        } else {
            "compiled modules but no runtime lines; the runtime prints to standard output, so capture both streams \
             (`> run.log 2>&1`), with a debug build (-DTT_RUNTIME_DEBUG=ON), TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG \
             and TT_RUNTIME_MEMORY_LOG_LEVEL=operation"
        }
    }
}

/// The part of a line before its message.
fn before<'a>(line: &'a [u8], message: &[u8]) -> &'a [u8] {
    &line[..line.len().saturating_sub(message.len())]
}

/// Whether a message without a line ending is truncated. Only long messages can be checked.
pub(super) fn is_torn(message: &[u8]) -> bool {
    match Message::of(message) {
        Message::Executing(text) => !text.ends_with(b")"),
        Message::State { view, .. } => !view.ends_with(b"}"),
        Message::StateHeader(Header::BeforeOperation(op_type)) => !is_op_type(op_type),
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

/// The text before the compiler's preamble, which begins with the date, or before the header itself if there is no
/// preamble.
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

/// Whether an operation type is complete: all type names end in `Op`.
fn is_op_type(name: &[u8]) -> bool {
    name.ends_with(b"Op")
}

/// Whether the text of an operation is complete: it ends with a location.
fn is_whole_operation(text: &[u8]) -> bool {
    text.ends_with(b")") && memchr::memmem::rfind(text, b" loc(").is_some()
}

/// Whether a line can only be part of a module's text.
fn is_module_text(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"func.func ") || text.starts_with(b"module @")
}
