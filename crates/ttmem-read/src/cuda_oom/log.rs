//! A log with out-of-memory errors: its streams, and the events that they become.

use memchr::memmem;
use rustc_hash::FxHashMap;
use ttmem_model::{
    Amount, Error, FailureContext, Fault, FaultDetail, FaultKind, Ledger, MemorySetting, ProcessUse,
    RankEvent, RankId, ReportedPart, Result,
};

use super::cache;
use super::found::Found;
use super::label::{Hosts, Label};
use super::server::Capturing;
use super::startup::{Part, Setting};
use super::stream::{Aftermath, Failure, Stream};
use crate::document::Document;
use crate::tt_log::tables::Tables;
use crate::wrapping::strip_colors;

/// A log that is being read. Nothing is emitted before its end: only then is it known which errors count.
#[derive(Debug, Default)]
pub(crate) struct Log {
    streams: Vec<Stream>,
    by_label: FxHashMap<Label, usize>,
    hosts: Hosts,
    document: Document,
    plain: Vec<u8>,
    /// The label of a record whose further lines have none.
    record: Option<Label>,
    has_lines: bool,
    /// Whether the text mentions an error.
    has_mention: bool,
    /// Whether the text has an error of TensorFlow, which is not supported.
    has_tensorflow: bool,
    capturing: Capturing,
    /// The stream whose message the next line may continue, even without its label.
    open: Option<usize>,
}

/// The maximum number of streams. More labels than that are not ranks.
const MAX_STREAMS: usize = 1 << 14;

impl Log {
    /// Takes the next line.
    pub fn line(&mut self, bytes: &[u8], number: u64) {
        let mut plain = std::mem::take(&mut self.plain);
        strip_colors(bytes, &mut plain);
        let mut line = self.hosts.split(plain.trim_ascii_end());
        if line.has_prefix {
            self.record = Some(line.label.clone()).filter(|label| label.is_of_record);
        } else if let Some(label) = &self.record {
            line.label = label.clone();
        }
        self.document.line(line.text);
        self.capturing.line(line.text);
        let is_first = !self.has_lines;
        self.has_lines |= !line.text.is_empty();
        let is_continued = |at: &usize| !line.has_prefix && self.streams[*at].goes_on(line.text);
        if let Some(at) = self.open.take().filter(is_continued) {
            self.open = self.streams[at].is_open().then_some(at);
        } else {
            let at = self.stream(&line.label);
            let stream = &mut self.streams[at];
            let is_mention = stream.line(&line, number, is_first, self.capturing);
            self.open = stream.is_open().then_some(at);
            self.has_mention |= is_mention;
            self.has_tensorflow |= is_mention && is_of_tensorflow(line.text);
        }
        self.plain = plain;
    }

    fn stream(&mut self, label: &Label) -> usize {
        if let Some(index) = self.by_label.get(label) {
            return *index;
        }
        if self.streams.len() >= MAX_STREAMS {
            return 0;
        }
        self.by_label.insert(label.clone(), self.streams.len());
        self.streams.push(Stream::new(label.clone()));
        self.streams.len() - 1
    }

    /// Whether a program certainly ran out of memory.
    pub fn has_failure(&self) -> bool {
        let is_document = self.document.is_one();
        let mut failures = self.streams.iter().flat_map(|stream| &stream.failures);
        failures.any(|failure| failure.is_certain(is_document))
    }

    /// The error for a log without an error that counts; `None` if the text is not about memory.
    pub fn no_memory_data(&self, file: &str) -> Option<Error> {
        let has_warning = self.streams.iter().any(|stream| stream.has_warning);
        let message = if self.has_tensorflow {
            "no memory data; the log has an out-of-memory error of TensorFlow, which is not supported; supported are \
             PyTorch, CUDA, NCCL, JAX, vLLM and SGLang"
        } else if has_warning {
            "no memory data; PyTorch warned that an allocation failed and tried again, but the log has no out-of-memory \
             error"
        } else if self.has_mention {
            "no memory data; the text mentions an out-of-memory error, but does not contain the complete message of a \
             program; pass the output of the program that failed"
        } else {
            return None;
        };
        Some(Error::NoMemoryData { file: file.to_owned(), message: message.to_owned() })
    }

    /// Emits the errors, one rank for each stream that failed, in the order of the failures.
    pub fn emit(mut self, tables: &mut Tables<'_>) -> Result<()> {
        let is_document = self.document.is_one();
        for stream in &mut self.streams {
            stream.failures.retain(|failure| failure.is_certain(is_document));
            // A library may fail after the allocator did. Its error has no numbers.
            if stream.failures.iter().any(|failure| failure.found.has_numbers()) {
                stream.failures.retain(|failure| failure.found.has_numbers());
            }
        }
        for stream in self.streams.iter_mut().filter(|stream| !stream.label.is_rank) {
            assign_devices(&mut stream.failures);
        }
        drop_repetitions(&mut self.streams);
        self.split_by_device();
        let mut order: Vec<usize> =
            (0..self.streams.len()).filter(|&at| !self.streams[at].failures.is_empty()).collect();
        order.sort_by_key(|&at| self.streams[at].failures.last().map(|failure| failure.line));
        for at in order {
            self.emit_rank(at, tables)?;
        }
        Ok(())
    }

    /// Separates ranks without labels by their devices: the ranks of one program usually have one device each.
    fn split_by_device(&mut self) {
        for at in 0..self.streams.len() {
            let stream = &mut self.streams[at];
            let first = stream.failures.first().and_then(|failure| failure.found.device);
            if stream.label.is_rank || stream.failures.iter().all(|failure| failure.found.device == first) {
                continue;
            }
            let (parts, settings, server) = (stream.parts.clone(), stream.settings.clone(), stream.server);
            let mut split: Vec<Stream> = Vec::new();
            for failure in std::mem::take(&mut stream.failures) {
                let label = Label { name: pool_name(&failure.found), is_rank: true, ..Label::default() };
                match split.iter_mut().find(|one| one.label == label) {
                    Some(known) => known.failures.push(failure),
                    None => {
                        let mut one = Stream::new(label);
                        one.failures.push(failure);
                        (one.parts, one.settings, one.server) = (parts.clone(), settings.clone(), server);
                        split.push(one);
                    }
                }
            }
            self.streams.extend(split);
        }
    }

    fn emit_rank(&self, at: usize, tables: &mut Tables<'_>) -> Result<()> {
        let stream = &self.streams[at];
        let name = Some(stream.label.name.as_bytes()).filter(|name| !name.is_empty());
        let rank = tables.rank(name)?;
        let (parts, settings) = (self.parts_of(at), self.settings_of(at));
        let count = stream.failures.len();
        for (index, failure) in (0..).zip(&stream.failures) {
            let is_last = index as usize + 1 == count;
            let ended_program = is_last && failure.aftermath == Aftermath::End;
            emit_fault(rank, index, failure, ended_program, tables)?;
            emit_ledger(rank, index, failure, tables)?;
            self.emit_context(rank, index, at, failure, tables)?;
            let before =
                parts.iter().map(|(part, line)| (part, *line)).filter(|(_, line)| *line < failure.line);
            let stated = failure.found.parts.iter().map(|part| (part, failure.line));
            for (part, line) in before.chain(stated) {
                emit_part(rank, index, part, line, tables)?;
            }
            for (name, value) in &settings {
                let (name, value) = (tables.text(name.as_bytes())?, tables.text(value.as_bytes())?);
                tables.say(rank, RankEvent::MemorySetting(index, MemorySetting { name, value }))?;
            }
            if !failure.found.is_complete {
                let message = "this error message is incomplete; the missing numbers are unknown";
                tables.warn(Some(failure.line), message)?;
            }
        }
        Ok(())
    }

    fn emit_context(
        &self,
        rank: RankId,
        index: u32,
        at: usize,
        failure: &Failure,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let server = self.server_of(at, failure);
        let activity = server.and(failure.activity);
        let text = |name: Option<&str>, tables: &mut Tables<'_>| {
            name.map(|name| tables.text(name.as_bytes())).transpose()
        };
        let [needed_tokens, possible_tokens] = failure.found.tokens;
        let context = FailureContext {
            server: text(server, tables)?,
            activity: text(activity, tables)?,
            repeated: failure.repeated,
            has_continued: failure.aftermath == Aftermath::Continued,
            needed_tokens,
            possible_tokens,
        };
        if context == FailureContext::default() {
            return Ok(());
        }
        tables.say(rank, RankEvent::FailureContext(index, context))
    }

    /// The inference server that failed: by its message, its traceback, the name of its process, or its lines. A traceback
    /// without a server is of another program, such as a trainer next to the server.
    fn server_of(&self, at: usize, failure: &Failure) -> Option<&'static str> {
        let certain = cache::server(&failure.found).or(failure.server);
        if certain.is_some() || failure.has_traceback || failure.loc.is_some() {
            return certain;
        }
        let mut servers = self.streams.iter().filter_map(|stream| stream.server);
        let own = self.streams[at].server;
        own.or_else(|| servers.next().filter(|first| servers.all(|other| other == *first)))
    }

    /// The parts that a stream reported, and those that other streams reported in the same words.
    fn parts_of(&self, at: usize) -> Vec<(Part, u64)> {
        let mut found = self.streams[at].parts.clone();
        let others = self.streams.iter().enumerate().filter(|(index, _)| *index != at);
        for (part, line) in others.flat_map(|(_, stream)| &stream.parts) {
            let known = |(known, _): &&(Part, u64)| known.name == part.name;
            if found.iter().any(|pair| known(&pair)) {
                continue;
            }
            let mut same = self.streams.iter().flat_map(|stream| &stream.parts).filter(known);
            if same.all(|(other, _)| other.amount == part.amount) {
                found.push((part.clone(), *line));
            }
        }
        found.sort_by_key(|(_, line)| *line);
        found
    }

    /// The settings of a stream, and those of others if they agree.
    fn settings_of(&self, at: usize) -> Vec<Setting> {
        let mut found = self.streams[at].settings.clone();
        for setting in self.streams.iter().flat_map(|stream| &stream.settings) {
            let mut same =
                self.streams.iter().flat_map(|stream| &stream.settings).filter(|other| other.0 == setting.0);
            let is_known = found.iter().any(|known| known.0 == setting.0);
            if !is_known && same.all(|other| other.1 == setting.1) {
                found.push(setting.clone());
            }
        }
        found
    }
}

/// Assigns the errors of NCCL that PyTorch quotes to the device in NCCL's own lines. If there are several devices, the quotes
/// repeat these lines.
fn assign_devices(failures: &mut Vec<Failure>) {
    let is_of_nccl = |failure: &Failure| failure.found.source == "nccl";
    let mut devices =
        failures.iter().filter(|failure| is_of_nccl(failure)).filter_map(|failure| failure.found.device);
    let Some(device) = devices.next() else { return };
    if devices.all(|other| other == device) {
        let quotes = failures.iter_mut().filter(|failure| is_of_nccl(failure));
        quotes.for_each(|failure| failure.found.device = Some(device));
    } else {
        failures.retain(|failure| !is_of_nccl(failure) || failure.found.device.is_some());
    }
}

/// Drops errors that a process repeats from its workers: the same message, printed by something that is not a rank.
fn drop_repetitions(streams: &mut [Stream]) {
    let of_ranks: Vec<String> = streams
        .iter()
        .filter(|stream| stream.label.is_rank)
        .flat_map(|stream| stream.failures.iter().map(|failure| failure.found.message.clone()))
        .collect();
    let mut seen: Vec<String> = Vec::new();
    for stream in streams.iter_mut().filter(|stream| !stream.label.is_rank) {
        let has_numbers = |failure: &Failure| failure.found.has_numbers();
        stream.failures.retain(|failure| {
            let message = &failure.found.message;
            let is_repeated = of_ranks.contains(message) || seen.contains(message);
            // Without numbers, the parent of a worker that failed cannot be distinguished from another failure.
            !is_repeated && (has_numbers(failure) || of_ranks.is_empty())
        });
        seen.extend(stream.failures.iter().map(|failure| failure.found.message.clone()));
    }
}

/// Whether a line has an error of TensorFlow.
fn is_of_tensorflow(text: &[u8]) -> bool {
    memmem::find(text, b"OOM when allocating tensor with shape").is_some()
}

/// The name of a device: `cuda:0`, `hip:0`, `xpu:0`.
fn pool_name(found: &Found) -> String {
    let kind = found.platform;
    found.device.map_or_else(|| kind.to_owned(), |index| format!("{kind}:{index}"))
}

fn bytes(amount: Option<Amount>) -> Option<u64> {
    amount.map(|amount| amount.bytes)
}

fn emit_fault(
    rank: RankId,
    index: u32,
    failure: &Failure,
    ended_program: bool,
    tables: &mut Tables<'_>,
) -> Result<()> {
    let Failure { found, line, loc, .. } = failure;
    let numbers = &found.numbers;
    let fault = Fault {
        kind: FaultKind::OutOfMemory,
        pool: Some(tables.text(pool_name(found).as_bytes())?),
        step: None,
        requested_total: bytes(numbers.requested),
        requested_per_bank: bytes(numbers.requested),
        banks: Some(1),
        bank_size: bytes(numbers.capacity),
        allocated: bytes(numbers.allocated),
        free: bytes(numbers.free),
        largest_free: bytes(numbers.largest_free),
        region_end: None,
        limit: None,
        message: tables.text(found.message.as_bytes())?,
        line: *line,
        ended_program,
    };
    tables.say(rank, RankEvent::Fault(fault))?;
    let loc = loc.as_ref().map(|loc| tables.text(loc.as_bytes())).transpose()?;
    tables.say(rank, RankEvent::FaultDetail(index, FaultDetail { loc, ..FaultDetail::default() }))
}

fn emit_part(rank: RankId, index: u32, part: &Part, line: u64, tables: &mut Tables<'_>) -> Result<()> {
    let name = tables.text(part.name.as_bytes())?;
    let label = part.label.as_ref().map(|label| tables.text(label.as_bytes())).transpose()?;
    let part = ReportedPart { name, label, amount: part.amount, line };
    tables.say(rank, RankEvent::ReportedPart(index, part))
}

fn emit_ledger(rank: RankId, index: u32, failure: &Failure, tables: &mut Tables<'_>) -> Result<()> {
    let found = &failure.found;
    let numbers = &found.numbers;
    let ledger = Ledger {
        source: Some(tables.text(found.source.as_bytes())?),
        platform: Some(tables.text(found.platform.as_bytes())?),
        requested: numbers.requested,
        capacity: numbers.capacity,
        free: numbers.free,
        allowed: numbers.allowed,
        process: numbers.process,
        allocated: numbers.allocated,
        private_pools: numbers.private_pools,
        unallocated: numbers.unallocated,
        other: numbers.other,
    };
    tables.say(rank, RankEvent::Ledger(index, ledger))?;
    for &(pid, amount) in &found.processes {
        tables.say(rank, RankEvent::ProcessUse(index, ProcessUse { pid, amount }))?;
    }
    Ok(())
}
