//! Finds evidence, unpacks it and hands it to its reader.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ttmem_model::{Builder, Error, Event, Profile, Result, Sink, Source, frame};

use super::siblings::Siblings;
use super::{Reader, Sniff, folder, json, readers, rotated};
use crate::history;

/// Enough of a file to know it by.
const HEAD: usize = 64 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file that begins like this holds more than its size tells: it is packed, or a profile.
pub fn is_packed(head: &[u8]) -> bool {
    head.starts_with(GZIP) || head.starts_with(ZSTD) || frame::is_ttmem(head)
}

/// Evidence, ready to be read.
pub struct Input<'a> {
    /// What the user called it.
    pub name: &'a str,
    /// How sure it is that this is the reader's format.
    pub sniff: Sniff,
    /// The bytes, unpacked.
    pub stream: Box<dyn Read + Send>,
    /// Whether byte ranges can be read from the file again later. A pipe or a packed file cannot be.
    pub rereadable: bool,
    /// The files beside it, for formats that have several.
    pub siblings: Siblings,
    /// A log whose lines look interleaved is read as that of one process.
    pub allow_interleaved: bool,
}

/// How evidence is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The reader of that name, instead of the one that knows the content.
    pub format: Option<String>,
    /// Where it is told how far the reading is.
    pub progress: Option<Arc<Progress>>,
    /// It is known not to be packed, whatever its first bytes look like.
    pub is_plain: bool,
    /// Reads a log whose lines look interleaved as that of one process, instead of refusing it.
    pub allow_interleaved: bool,
}

/// How far the reading of a file, and of those beside it, is. The reader counts; others look whenever they like.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    size: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// The bytes read, as they lie in the file.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Sets how many bytes there will be.
    pub(super) fn expect(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }

    /// The size of the files; a pipe has none.
    pub fn size(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Relaxed)).filter(|size| *size > 0)
    }

    /// Lets the reading end soon, with an error: nobody wants the answer any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// There is a file more to read.
    pub(super) fn add_size(&self, bytes: u64) {
        self.size.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Reads a file (`-` is standard input; a folder stands for the report in it) into a profile, in whatever format
/// it is.
pub fn open(name: &str) -> Result<Profile> {
    open_with(name, &Options::default())
}

/// As [`open`], the way that the options say.
pub fn open_with(name: &str, options: &Options) -> Result<Profile> {
    let mut builder = Builder::new();
    read_into(name, options, &mut builder)?;
    let mut profile = builder.finish();
    rotated::restore_peak(&mut profile, Path::new(name));
    history::place(&mut profile);
    Ok(profile)
}

/// Reads a file into any sink.
pub fn read_into(name: &str, options: &Options, sink: &mut dyn Sink) -> Result<()> {
    let failed = |source| Error::Read { path: name.into(), source };
    if name == "-" {
        return read_stream(name, Box::new(io::stdin()), None, options, sink);
    }
    let path = Path::new(name);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return read_into(&folder::report_in(path)?.to_string_lossy(), options, sink);
    }
    // What a pipe gave once it does not give again, and nothing lies beside it.
    let path = metadata.is_file().then_some(path);
    if let Some(progress) = options.progress.as_ref().filter(|_| path.is_some()) {
        progress.add_size(metadata.len());
    }
    read_stream(name, Box::new(file), path, options, sink)
}

/// A stream whose bytes are counted, where anybody wants to know.
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
        if self.progress.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("the reading was stopped"));
        }
        let read = self.stream.read(buffer)?;
        self.progress.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads a stream that may be packed; `path` is the file that it is of.
fn read_stream(
    name: &str,
    raw: Box<dyn Read + Send>,
    path: Option<&Path>,
    options: &Options,
    sink: &mut dyn Sink,
) -> Result<()> {
    let raw = counted(raw, options.progress.as_ref());
    let Unpacked { head, stream, packing } =
        if options.is_plain { plain(name, raw)? } else { content(name, raw)? };
    let (reader, sniff, stream) = look_further(name, head, stream, options.format.as_deref())?;
    let siblings = Siblings::new(path, options.progress.clone());
    let rereadable = path.is_some() && packing.is_none();
    let allow_interleaved = options.allow_interleaved;
    run(reader, Input { name, sniff, stream, rereadable, siblings, allow_interleaved }, sink)
}

/// Picks a reader; looks at more of a stream for as long as nobody is sure. A training program may print much before its
/// first summary.
fn look_further(
    name: &str,
    mut head: Vec<u8>,
    mut stream: Box<dyn Read + Send>,
    format: Option<&str>,
) -> Result<(&'static dyn Reader, Sniff, Box<dyn Read + Send>)> {
    const MOST: usize = 16 << 20;
    loop {
        let (reader, sniff) = pick(name, &head, format)?;
        let size = head.len() * 8;
        if sniff == Sniff::Yes || size > MOST || !head.len().is_power_of_two() || head.len() < HEAD {
            return Ok((reader, sniff, stream));
        }
        (head, stream) = peek(stream, size).map_err(|source| Error::Read { path: name.into(), source })?;
    }
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
}

/// The content of a stream.
pub(super) struct Unpacked {
    /// Its first bytes.
    pub head: Vec<u8>,
    /// All of it, the first bytes included.
    pub stream: Box<dyn Read + Send>,
    /// How it was packed.
    pub packing: Option<Packing>,
}

/// A stream as it is.
fn plain(name: &str, raw: Box<dyn Read + Send>) -> Result<Unpacked> {
    let (head, stream) = peek(raw, HEAD).map_err(|source| Error::Read { path: name.into(), source })?;
    if head.is_empty() {
        return Err(Error::Empty { file: name.into() });
    }
    Ok(Unpacked { head, stream, packing: None })
}

/// Unpacks a stream, if it is packed. One without content is an error.
pub(super) fn content(name: &str, raw: Box<dyn Read + Send>) -> Result<Unpacked> {
    let content = unpack(raw).map_err(|source| Error::Read { path: name.into(), source })?;
    if content.head.is_empty() {
        return Err(Error::Empty { file: name.into() });
    }
    Ok(content)
}

/// Unpacks a stream, if it is packed.
pub(super) fn unpack(raw: Box<dyn Read + Send>) -> io::Result<Unpacked> {
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

/// The first bytes of a stream, and the stream with them in front again.
fn peek(mut stream: Box<dyn Read + Send>, size: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::new();
    stream.by_ref().take(size as u64).read_to_end(&mut head)?;
    let whole = Box::new(Cursor::new(head.clone()).chain(stream));
    Ok((head, whole))
}

/// The reader that is surest of itself, or the one that was asked for.
pub(super) fn pick(name: &str, head: &[u8], format: Option<&str>) -> Result<(&'static dyn Reader, Sniff)> {
    if let Some(format) = format {
        let reader = readers().iter().find(|reader| reader.name() == format);
        return reader.map(|&reader| (reader, Sniff::Yes)).ok_or(Error::NoSuchFormat { name: format.into() });
    }
    let best =
        readers().iter().map(|&reader| (reader, reader.sniff(head))).rev().max_by_key(|(_, sniff)| *sniff);
    match best {
        Some((reader, Sniff::Yes)) => Ok((reader, Sniff::Yes)),
        // JSON of somebody else is text, and might be a log for all that a reader of logs knows.
        Some((reader, Sniff::Maybe)) if reader.is_json() || json::describe(head).is_none() => {
            Ok((reader, Sniff::Maybe))
        }
        _ => Err(Error::UnknownFormat {
            file: name.into(),
            what: json::describe(head).unwrap_or_else(|| describe(head)),
        }),
    }
}

/// What unreadable bytes look like, for the message.
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
