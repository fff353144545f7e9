//! Decides whether an existing file is an input. Outputs never overwrite inputs, because they cannot be recreated.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use ttmem_model::{Error, Result};

use super::input::{Unpacked, unpack};
use super::{Reader, Sniff, json, readers, tt_json};

/// The number of bytes searched at a time.
const WINDOW: usize = 1 << 20;
/// The number of bytes searched again with the next window, because a marker may span both.
const OVERLAP: usize = 4 << 10;

/// The format of an existing input file, or `None` if the file is an output that can be recreated.
///
/// Compressed files are identified by their content. Text files are searched to the end, because a program may print a
/// lot before the runtime prints its first line.
pub fn evidence_in(path: &Path) -> Result<Option<&'static str>> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Ok(None);
    }
    // A file with a gzip or zstd header that cannot be decompressed: its content is unknown.
    let Ok(Unpacked { head, stream, packing }) = unpack(Box::new(file)) else {
        return Ok(Some("compressed data"));
    };
    if let Some(format) = known_by(&head) {
        return Ok(Some(format));
    }
    match search(&head, stream) {
        Err(_) if packing.is_some() => Ok(Some("compressed data")),
        found => found.map_err(failed),
    }
}

/// Whether two paths refer to the same file, through hard or symbolic links.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        id(one).is_some_and(|one| Some(one) == id(other))
    }
    #[cfg(not(unix))]
    {
        fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
    }
}

/// The format identified by the first bytes.
fn known_by(head: &[u8]) -> Option<&'static str> {
    /// Keys in the files that belong to a report's memory file.
    const BESIDE: [&[u8]; 3] = [b"\"loc_index\"", b"\"total_weight_bytes\"", b"\"input_shapes\""];
    let sure = readers().iter().find(|reader| reader.sniff(head) == Sniff::Yes);
    if let Some(reader) = sure.filter(|reader| reader.is_json() || !is_document(head)) {
        return Some(reader.name());
    }
    let is_pickle = matches!(head, [0x80, 2..=5, ..]);
    if is_pickle {
        return Some("pickle");
    }
    let described = json::describe(head)?;
    let is_beside = BESIDE.iter().any(|sign| memchr::memmem::find(head, sign).is_some());
    let is_trace = described.contains("PyTorch");
    if is_trace { Some("PyTorch profiler data") } else { is_beside.then_some(tt_json::TtJson.name()) }
}

/// Whether the content is JSON, or a page, picture or Markdown written by ttmem. These may quote log lines without
/// being logs.
fn is_document(head: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 3] = [b"<", b"\x89PNG", b"# Memory Profile:"];
    let text = head.trim_ascii_start();
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) || json::describe(head).is_some()
}

/// Searches a text file to its end for the markers of a log.
fn search(head: &[u8], mut stream: Box<dyn Read + Send>) -> io::Result<Option<&'static str>> {
    let is_text = readers().iter().any(|reader| reader.sniff(head) == Sniff::Maybe && !reader.is_json());
    if !is_text || is_document(head) {
        return Ok(None);
    }
    let logs = || readers().iter().filter(|reader| !reader.is_json());
    let mut window: Vec<u8> = Vec::new();
    loop {
        let read = stream.by_ref().take(WINDOW as u64).read_to_end(&mut window)?;
        if let Some(reader) = logs().find(|reader| reader.sniff(&window) == Sniff::Yes) {
            return Ok(Some(reader.name()));
        }
        if read == 0 {
            return Ok(None);
        }
        window.drain(..window.len().saturating_sub(OVERLAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(content: &[u8]) -> Option<&'static str> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        evidence_in(file.path()).unwrap()
    }

    #[test]
    fn a_log_is_found_however_late_the_runtime_begins() {
        let mut text = b"loading weights\n".repeat((20 << 20) / 16);
        assert_eq!(judged(&text), None);
        text.extend_from_slice(b"RuntimeTTNN | DEBUG | Executing operation: x\n");
        assert_eq!(judged(&text), Some("tt_log"));
        // A marker that spans two windows, at every offset.
        for shift in 0..20 {
            let mut text = vec![b'.'; WINDOW - shift];
            text.extend_from_slice(b"Executing operation: x");
            text.resize(3 * WINDOW, b'.');
            assert_eq!(judged(&text), Some("tt_log"), "{shift}");
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_kept() {
        assert_eq!(judged(&[0x1f, 0x8b, 1, 2, 3]), Some("compressed data"));
        assert_eq!(judged(&[0x28, 0xb5, 0x2f, 0xfd, 9, 9]), Some("compressed data"));
    }

    #[test]
    fn texts_of_others_may_be_replaced() {
        for text in
            ["", "mine", "<p>RuntimeTTNN</p>", "{\"a\": \"RuntimeTTNN\"}", "# Memory Profile: RuntimeTT"]
        {
            assert_eq!(judged(text.as_bytes()), None, "{text}");
        }
    }
}
