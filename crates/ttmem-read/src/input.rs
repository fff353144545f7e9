//! Opens an input, decompresses it and passes it to its reader.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ttmem_model::{Builder, Error, Event, Profile, Result, Sink, Source, frame};

use super::siblings::Siblings;
use super::torch_snapshot::TorchSnapshot;
use super::utf16::{ByteOrder, Utf8};
use super::{Reader, Sniff, docker, folder, json, readers, rotated};
use crate::history::PlacedAlone;
use crate::{classes, history};

/// The number of bytes used to detect the format.
const HEAD: usize = 64 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file with this header is compressed (gzip, zstd or `.ttmem`), so that its size does not tell its content's
/// size.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(GZIP) || head.starts_with(ZSTD) || frame::is_ttmem(head)
}

/// An opened input.
pub struct Input<'a> {
    /// The name that the user passed.
    pub name: &'a str,
    /// How certain it is that the input has the reader's format.
    pub sniff: Sniff,
    /// Whether the user named the format.
    pub is_requested: bool,
    /// The decompressed bytes.
    pub stream: Box<dyn Read + Send>,
    /// Whether byte ranges can be read from the file again later. Pipes, compressed files, texts in UTF-16 and logs of
    /// Docker do not allow that.
    pub rereadable: bool,
    /// The files next to it, for formats that consist of several files.
    pub siblings: Siblings,
    /// Whether to read a log whose lines look interleaved as the log of a single process.
    pub allow_interleaved: bool,
    /// Where to leave a history that is placed while it is read. `None`: it is always emitted as rows.
    pub(crate) for_history: Option<ForHistory<'a>>,
}

/// What a reader needs to place a history while it reads it.
pub(crate) struct ForHistory<'a> {
    /// Gets the history, if there is one and if it could be placed. Then no rows are emitted.
    pub placed: &'a mut Option<PlacedAlone>,
    /// The size of the decompressed input, if it is known.
    pub size: Option<u64>,
}

/// How to read an input.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name of the reader to use instead of detecting the format.
    pub format: Option<String>,
    /// Receives the read progress.
    pub progress: Option<Arc<Progress>>,
    /// The input is known not to be compressed, whatever its header looks like.
    pub is_plain: bool,
    /// Reads a log whose lines look interleaved as the log of a single process instead of refusing it.
    pub allow_interleaved: bool,
    /// The folders that files next to the input must be in, after resolving links; canonical paths. If there are none, any
    /// file may be read.
    pub within: Vec<PathBuf>,
}

/// The read progress of a file and its siblings. The reader updates it; other threads may query it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    size: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// The number of bytes read from the files, before decompression.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Sets the total number of bytes to read.
    pub(super) fn expect(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }

    /// The total size of the files; `None` for a pipe.
    pub fn size(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Relaxed)).filter(|size| *size > 0)
    }

    /// Cancels reading: the reader soon returns an error.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether reading was canceled.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Adds the size of another file to the total.
    pub(super) fn add_size(&self, bytes: u64) {
        self.size.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Reads an input of any supported format into a profile. `-` is standard input; a folder stands for the report in it.
pub fn open(name: &str) -> Result<Profile> {
    open_with(name, &Options::default())
}

/// Like [`open`], with options.
pub fn open_with(name: &str, options: &Options) -> Result<Profile> {
    let (mut builder, mut placed) = (Builder::new(), None);
    let for_history = ForHistory { placed: &mut placed, size: None };
    read_into(name, options, for_history, &mut builder)?;
    let mut profile = builder.finish();
    // The profile of a report is placed already.
    let is_new = placed.is_some() || profile.ranks.iter().any(|rank| !rank.history.is_empty());
    history::place(&mut profile);
    if let Some(placed) = placed {
        placed.give(&mut profile);
    }
    if profile.source.format == Source::RECORDING {
        classes::complete(&mut profile);
        rotated::restore_peak(&mut profile, Path::new(name), &options.within);
    } else if is_new && profile.source.format == TorchSnapshot.name() {
        classes::classify(&mut profile);
    }
    name_by_place(&mut profile, Path::new(name));
    Ok(profile)
}

/// Names a recording by its present path: it may have been copied from the machine that wrote it. The profile of a report
/// keeps the name of the file that the report is about.
fn name_by_place(profile: &mut Profile, path: &Path) {
    let is_recording = profile.source.format == Source::RECORDING && path.is_file();
    if is_recording && !folder::has_report_of(path) {
        profile.source.file = path.display().to_string();
    }
}

/// Reads an input into a sink.
fn read_into(
    name: &str,
    options: &Options,
    mut for_history: ForHistory<'_>,
    sink: &mut dyn Sink,
) -> Result<()> {
    let failed = |source| Error::Read { path: name.into(), source };
    if name == "-" {
        return read_stream(name, Box::new(io::stdin()), None, options, for_history, sink);
    }
    let path = Path::new(name);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return read_into(&folder::report_in(path)?.to_string_lossy(), options, for_history, sink);
    }
    // A pipe cannot be read again and has no siblings.
    let path = metadata.is_file().then_some(path);
    for_history.size = path.map(|_| metadata.len());
    if let Some(progress) = options.progress.as_ref().filter(|_| path.is_some()) {
        progress.add_size(metadata.len());
    }
    read_stream(name, Box::new(file), path, options, for_history, sink)
}

/// Counts the bytes of a stream if progress is requested.
pub(super) fn counted(
    stream: impl Read + Send + 'static,
    progress: Option<&Arc<Progress>>,
) -> Box<dyn Read + Send> {
    match progress {
        Some(progress) => Box::new(Counted { stream, progress: Arc::clone(progress) }),
        None => Box::new(stream),
    }
}

struct Counted<R> {
    stream: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.progress.is_stopped() {
            return Err(io::Error::other("reading was canceled"));
        }
        let read = self.stream.read(buffer)?;
        self.progress.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads a stream that may be compressed; `path` is its file, if it has one.
fn read_stream(
    name: &str,
    raw: Box<dyn Read + Send>,
    path: Option<&Path>,
    options: &Options,
    mut for_history: ForHistory<'_>,
    sink: &mut dyn Sink,
) -> Result<()> {
    let raw = counted(raw, options.progress.as_ref());
    let Unpacked { head, stream, packing } =
        if options.is_plain { plain(name, raw)? } else { content(name, raw)? };
    let (reader, sniff, stream) = look_further(name, head, stream, options.format.as_deref())?;
    let siblings = Siblings::new(path, options.progress.clone()).within(&options.within);
    let rereadable = path.is_some() && packing.is_none();
    let allow_interleaved = options.allow_interleaved;
    let is_requested = options.format.is_some();
    if packing.is_some() {
        // Snapshots are compressed to a fifteenth or less.
        for_history.size = for_history.size.map(|size| size.saturating_mul(20));
    }
    let for_history = Some(for_history);
    let input =
        Input { name, sniff, is_requested, stream, rereadable, siblings, allow_interleaved, for_history };
    run(reader, input, sink)
}

/// Picks a reader, looking at more of the stream until one is certain. A training program may print a lot before its
/// first summary.
fn look_further(
    name: &str,
    mut head: Vec<u8>,
    mut stream: Box<dyn Read + Send>,
    format: Option<&str>,
) -> Result<(&'static dyn Reader, Sniff, Box<dyn Read + Send>)> {
    const MAX_HEAD: usize = 16 << 20;
    loop {
        let (reader, sniff) = pick(name, &head, format)?;
        let size = head.len() * 8;
        if sniff == Sniff::Yes || size > MAX_HEAD || !head.len().is_power_of_two() || head.len() < HEAD {
            return Ok((reader, sniff, stream));
        }
        (head, stream) = peek(stream, size).map_err(|source| Error::Read { path: name.into(), source })?;
    }
}

/// The encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    /// A text in UTF-16.
    Utf16,
    /// A log in JSON lines of Docker.
    Docker,
}

/// A decompressed stream.
pub(super) struct Unpacked {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The whole content, including the first bytes.
    pub stream: Box<dyn Read + Send>,
    /// How it was encoded; the outer encoding if there are two.
    pub packing: Option<Packing>,
}

/// Returns a stream without decompressing it.
fn plain(name: &str, raw: Box<dyn Read + Send>) -> Result<Unpacked> {
    let (head, stream) = peek(raw, HEAD).map_err(|source| Error::Read { path: name.into(), source })?;
    if head.is_empty() {
        return Err(Error::Empty { file: name.into() });
    }
    Ok(Unpacked { head, stream, packing: None })
}

/// Decompresses a stream if it is compressed. An empty stream is an error.
pub(super) fn content(name: &str, raw: Box<dyn Read + Send>) -> Result<Unpacked> {
    let content = unpack(raw).map_err(|source| Error::Read { path: name.into(), source })?;
    if content.head.is_empty() {
        return Err(Error::Empty { file: name.into() });
    }
    Ok(content)
}

/// Decompresses a stream if it is compressed, converts UTF-16 to UTF-8, and takes the text of a log of Docker from its JSON.
pub(super) fn unpack(raw: Box<dyn Read + Send>) -> io::Result<Unpacked> {
    let Unpacked { head, stream, packing } = in_utf8(decompress(raw)?)?;
    if !docker::is_log(&head) {
        return Ok(Unpacked { head, stream, packing });
    }
    let (head, stream) = peek(Box::new(docker::Texts::new(stream)), HEAD)?;
    Ok(Unpacked { head, stream, packing: packing.or(Some(Packing::Docker)) })
}

fn in_utf8(text: Unpacked) -> io::Result<Unpacked> {
    let Some(order) = ByteOrder::of(&text.head) else { return Ok(text) };
    let (head, stream) = peek(Box::new(Utf8::new(text.stream, order)), HEAD)?;
    Ok(Unpacked { head, stream, packing: text.packing.or(Some(Packing::Utf16)) })
}

fn decompress(raw: Box<dyn Read + Send>) -> io::Result<Unpacked> {
    let (head, stream) = peek(raw, HEAD)?;
    let (packing, unpacked): (_, Box<dyn Read + Send>) = match head.as_slice() {
        head if head.starts_with(GZIP) => {
            (Packing::Gzip, Box::new(flate2::read::MultiGzDecoder::new(stream)))
        }
        head if head.starts_with(ZSTD) => {
            (Packing::Zstd, Box::new(zstd::stream::read::Decoder::new(stream)?))
        }
        _ => return Ok(Unpacked { head, stream, packing: None }),
    };
    let (head, stream) = peek(unpacked, HEAD)?;
    Ok(Unpacked { head, stream, packing: Some(packing) })
}

fn run(reader: &dyn Reader, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
    sink.take(Event::Source(Source { format: reader.name().into(), file: input.name.into() }))?;
    reader.read(input, sink)
}

/// The first bytes of a stream, and the stream including those bytes.
fn peek(mut stream: Box<dyn Read + Send>, size: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::new();
    stream.by_ref().take(size as u64).read_to_end(&mut head)?;
    let whole = Box::new(Cursor::new(head.clone()).chain(stream));
    Ok((head, whole))
}

/// The requested reader, otherwise the one that is most certain.
pub(super) fn pick(name: &str, head: &[u8], format: Option<&str>) -> Result<(&'static dyn Reader, Sniff)> {
    if let Some(format) = format {
        let reader = readers().iter().find(|reader| reader.name() == format);
        return reader.map(|&reader| (reader, Sniff::Yes)).ok_or(Error::NoSuchFormat { name: format.into() });
    }
    let best =
        readers().iter().map(|&reader| (reader, reader.sniff(head))).rev().max_by_key(|(_, sniff)| *sniff);
    match best {
        Some((reader, Sniff::Yes)) => Ok((reader, Sniff::Yes)),
        // JSON in an unknown format is text, so the log readers answer Maybe.
        Some((reader, Sniff::Maybe)) if reader.is_json() || json::describe(head).is_none() => {
            Ok((reader, Sniff::Maybe))
        }
        _ => Err(Error::UnknownFormat {
            file: name.into(),
            what: json::describe(head).unwrap_or_else(|| describe(head)),
        }),
    }
}

/// Describes unreadable bytes for the error message.
fn describe(head: &[u8]) -> String {
    let shown: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("binary data beginning {}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_is_stopped_ends_with_an_error() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/vae-decoder.log");
        let progress = Arc::new(Progress::default());
        let options = Options { progress: Some(Arc::clone(&progress)), ..Options::default() };
        assert!(open_with(file, &options).is_ok());
        progress.stop();
        let stopped = open_with(file, &options);
        assert!(matches!(stopped, Err(Error::Read { .. })), "{stopped:?}");
    }
}
