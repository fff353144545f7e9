//! Reads the log of a training program that prints memory summaries (tt-train's `MemoryUsageTracker`).
//!
//! A summary is a list of phases with their figures, and totals at the end (`line`). A log may contain several
//! summaries, of several ranks, between other lines. Each rank and stream has a separate block (`block`). At the end of
//! a block, its session and phases are emitted, and its figures are checked for consistency.

mod block;
mod line;

use std::io::Read;

use memchr::memmem;
use rustc_hash::FxHashMap;
use ttmem_model::{Error, RankId, Result, SessionId, Sink, Warning};

use self::block::{Block, Header};
use self::line::{Said, parse};
use super::lines::{Line, each_line};
use super::tt_log::tables::Tables;
use super::wrapping::{split_tag, strip_colors};
use super::{Input, Reader, Sniff};

/// The reader of training logs.
pub struct TtTrain;

impl Reader for TtTrain {
    fn name(&self) -> &'static str {
        "tt_train"
    }

    fn about(&self) -> &'static str {
        "a training log with memory summaries (tt-train's MemoryUsageTracker)"
    }

    fn capture(&self) -> &'static str {
        "call MemoryUsageTracker's begin_capture, snapshot and print_memory_usage; tt-train's examples do this with \
         --track_memory"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 2] = [b"=== Memory Usage Summary ===", b"WARNING: No traces captured"];
        let is_there = |sign: &&[u8]| memmem::find(head, sign).is_some();
        if SIGNS.iter().any(is_there) { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut log = Log {
            file: input.name,
            tables: Tables::new(sink),
            ranks: Vec::new(),
            streams: FxHashMap::default(),
            plain: Vec::new(),
            skipped: Vec::new(),
        };
        log.read(input.stream)
    }
}

/// A log that is being read.
struct Log<'s, 'n> {
    file: &'n str,
    tables: Tables<'s>,
    ranks: Vec<Rank>,
    streams: FxHashMap<OwnedTag, Stream>,
    /// The line without colors.
    plain: Vec<u8>,
    /// The lines that could not be parsed.
    skipped: Vec<u64>,
}

/// A rank's label and the stream's name; `None` if lines are not tagged.
type OwnedTag = Option<(Vec<u8>, Vec<u8>)>;

/// A rank that has a session.
struct Rank {
    label: Option<Vec<u8>>,
    id: RankId,
    sessions: usize,
}

/// The state of one stream of one rank.
#[derive(Default)]
struct Stream {
    /// The lines above the next summary.
    header: Header,
    /// The previous line was a rule, so the next one is a title.
    after_rule: bool,
    block: Option<Block>,
}

impl Log<'_, '_> {
    fn read(&mut self, stream: impl Read + Send + 'static) -> Result<()> {
        let warning = each_line(stream, self.file, |line| self.line(line))?;
        if let Some(Warning { line, message }) = warning {
            self.tables.warn(line, message)?;
        }
        self.finish()
    }

    fn line(&mut self, line: &Line<'_>) -> Result<()> {
        let (tag, text) = split_tag(line.bytes);
        let tag = tag.map(|tag| (tag.label(), tag.stream.to_vec()));
        strip_colors(text, &mut self.plain);
        let mut stream = self.streams.remove(&tag).unwrap_or_default();
        let plain = std::mem::take(&mut self.plain);
        let heard = self.hear(&mut stream, tag.as_ref().map(|(label, _)| &label[..]), &plain, line.number);
        self.plain = plain;
        self.streams.insert(tag, stream);
        heard
    }

    fn hear(&mut self, stream: &mut Stream, rank: Option<&[u8]>, text: &[u8], number: u64) -> Result<()> {
        let said = parse(text);
        let after_rule = std::mem::replace(&mut stream.after_rule, is_rule(text));
        match said {
            Said::Summary => {
                self.end_block(stream, rank)?;
                stream.block = Some(Block::new(std::mem::take(&mut stream.header), number));
            }
            Said::Parameters(parameters) => stream.header.parameters = Some(parameters),
            Said::DeviceMemory(bytes) => stream.header.device_memory = Some(bytes),
            Said::Overwritten(name) => {
                let name = String::from_utf8_lossy(name);
                let message = format!(
                    "the tracker overwrote an earlier phase {name}; the figures do not include its usage"
                );
                self.tables.warn(Some(number), message)?;
            }
            Said::Nothing => {
                self.tables
                    .warn(Some(number), "the tracker recorded no phases; check that snapshot is called")?;
            }
            Said::Malformed => self.skipped.push(number),
            Said::Other => {
                let title = text.trim_ascii();
                if after_rule && !title.is_empty() && !stream.after_rule {
                    stream.header.title = Some(title.to_vec());
                }
            }
            said => match &mut stream.block {
                Some(block) => {
                    if !block.take(said, number) {
                        self.skipped.push(number);
                    }
                    if block.is_over() {
                        self.end_block(stream, rank)?;
                    }
                }
                // A phase without the first line of a summary: the beginning of the log is missing.
                None if matches!(said, Said::Phase(_)) => {
                    let mut block = Block::new(std::mem::take(&mut stream.header), number);
                    block.begins_late = true;
                    block.take(said, number);
                    stream.block = Some(block);
                }
                None => self.skipped.push(number),
            },
        }
        Ok(())
    }

    /// Emits a session and its phases, and warns about problems in them.
    fn end_block(&mut self, stream: &mut Stream, label: Option<&[u8]>) -> Result<()> {
        let Some(block) = stream.block.take() else { return Ok(()) };
        if block.is_empty() {
            return self.tables.warn(Some(block.line), "the summary that begins here has no phases");
        }
        let rank = match self.ranks.iter().position(|rank| rank.label.as_deref() == label) {
            Some(known) => known,
            None => {
                let id = self.tables.rank(label)?;
                self.ranks.push(Rank { label: label.map(<[u8]>::to_vec), id, sessions: 0 });
                self.ranks.len() - 1
            }
        };
        let rank = &mut self.ranks[rank];
        let session = SessionId::new(rank.sessions);
        rank.sessions += 1;
        match session {
            Some(session) => block.say(rank.id, session, &mut self.tables),
            None => Err(Error::NotFound("too many summaries".into())),
        }
    }

    fn finish(&mut self) -> Result<()> {
        let mut streams: Vec<(OwnedTag, Stream)> = self.streams.drain().collect();
        // In log order, because the map is unordered.
        streams.sort_by_key(|(_, stream)| stream.block.as_ref().map(|block| block.line));
        for (tag, mut stream) in streams {
            self.end_block(&mut stream, tag.as_ref().map(|(label, _)| &label[..]))?;
        }
        if let [first, ..] = self.skipped[..] {
            self.tables.skipped(self.skipped.len() as u64)?;
            let message = match self.skipped.len() {
                1 => "this line of a memory summary is malformed and was skipped".to_owned(),
                lines => {
                    format!(
                        "{lines} lines of memory summaries are malformed and were skipped; this is the first"
                    )
                }
            };
            self.tables.warn(Some(first), message)?;
        }
        if self.ranks.is_empty() {
            return Err(Error::NoMemoryData {
                file: self.file.to_owned(),
                message: "no phases; call MemoryUsageTracker's begin_capture, snapshot(NAME) after each \
                          phase, and print_memory_usage"
                    .to_owned(),
            });
        }
        self.tables.end()
    }
}

/// Whether a line consists of `#`, `=`, `*` or `-`; a title follows.
fn is_rule(text: &[u8]) -> bool {
    const MIN_LEN: usize = 8;
    let text = text.trim_ascii();
    text.len() >= MIN_LEN && b"#=*-".contains(&text[0]) && text.iter().all(|byte| *byte == text[0])
}
