//! Reads module texts again: a profile only has their positions in its log.
//!
//! The result is the same as if the reader had kept the text: the lines of the stream that printed it, without tags and
//! colors, and without lines of the runtime's logger.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use ttmem_model::{ByteRange, Profile, Stage, Warning};

use super::line::{Prefixes, Tag, Text, split_tag};
use super::module::stage_header;
use crate::lines::MAX_LINE;

/// The maximum length of a module text in a report.
const MAX_LEN: u64 = 64 << 20;
/// The maximum length of a header with its tag and prefix.
const HEADER: u64 = 1 << 10;

/// Copies all module texts into the profile that it does not contain yet.
///
/// Texts that the file no longer contains, because it was deleted or replaced, are skipped with a warning.
pub(crate) fn embed(profile: &mut Profile) {
    let stages: Vec<Stage> = profile
        .ranks
        .iter()
        .flat_map(|rank| &rank.modules)
        .flat_map(|module| &module.stages)
        .copied()
        .collect();
    let missing: Vec<Stage> =
        stages.into_iter().filter(|stage| profile.source_text(stage.source).is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let mut failed = None;
    match File::open(&profile.source.file) {
        Ok(mut file) => {
            let mut buffer = Vec::new();
            for stage in missing {
                match text(&mut file, stage.source, profile.text(stage.name), &mut buffer) {
                    Ok(text) => {
                        profile.texts.insert((stage.source.start, stage.source.end), text);
                    }
                    Err(error) => failed = failed.or(Some((Some(stage.line), error.to_string()))),
                }
            }
        }
        Err(error) => failed = Some((None, error.to_string())),
    }
    if let Some((line, why)) = failed {
        let message = format!(
            "the text of a compiled graph could not be read again from {} ({why}), so the report does not include it",
            profile.source.file
        );
        let warning = Warning { line, message };
        if !profile.warnings.contains(&warning) {
            profile.warnings.push(warning);
        }
    }
}

/// The text of a stage, which follows its header. The bytes are read into `buffer`.
fn text(file: &mut File, range: ByteRange, stage: &str, buffer: &mut Vec<u8>) -> io::Result<String> {
    let length = range.end.checked_sub(range.start).filter(|length| *length <= MAX_LEN);
    let length = length.ok_or_else(|| io::Error::other("the text is too long"))?;
    let from = range.start.saturating_sub(HEADER);
    buffer.clear();
    file.seek(SeekFrom::Start(from))?;
    file.take(range.start - from + length).read_to_end(buffer)?;
    if buffer.len() as u64 != range.start - from + length {
        return Err(io::Error::other("the file is shorter than before"));
    }
    let (before, inside) = buffer.split_at(buffer.len() - usize::try_from(length).unwrap_or(0));
    let header = last_line(before).ok_or_else(|| io::Error::other("the file has changed"))?;
    let (tag, rest) = split_tag(header);
    let mut prefixes = Prefixes::default();
    // Without this header, the file is not the log that was read. This also prevents copying arbitrary files named by a
    // profile.
    let is_it =
        matches!(prefixes.split(rest), Text::Foreign(line) if stage_header(line) == Some(stage.as_bytes()));
    if !is_it {
        return Err(io::Error::other("the file has changed"));
    }
    let mut taken = Vec::with_capacity(inside.len());
    for line in lines(inside) {
        let (of, rest) = split_tag(line);
        if line.len() >= MAX_LINE || !same_stream(tag, of) {
            continue;
        }
        if let Text::Foreign(text) = prefixes.split(rest) {
            taken.extend_from_slice(text);
            taken.push(b'\n');
        }
    }
    Ok(String::from_utf8(taken)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The lines of a text, without their line endings (LF or CRLF).
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest);
        let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = after;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// The last line of a text.
fn last_line(text: &[u8]) -> Option<&[u8]> {
    text.last().filter(|byte| **byte == b'\n')?;
    lines(text).last()
}

fn same_stream(a: Option<Tag<'_>>, b: Option<Tag<'_>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.rank, a.stream) == (b.rank, b.stream),
        (a, b) => a.is_none() && b.is_none(),
    }
}
