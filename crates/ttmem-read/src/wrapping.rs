//! What others put around a line: MPI's tags in front of it, colours inside of it.

use memchr::memmem;

/// Which process and stream wrote a tagged line: `[1,0]<stdout>:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// `1,0`, as it stands (there may be a space behind the comma).
    pub rank: &'a [u8],
    /// `stdout`, `stderr` or `stddiag`.
    pub stream: &'a [u8],
}

impl Tag<'_> {
    /// The label of the rank: spaces in a tag do not matter.
    pub fn label(&self) -> Vec<u8> {
        self.rank.iter().copied().filter(|byte| *byte != b' ').collect()
    }
}

/// Takes an MPI tag off the front of a line.
pub(crate) fn split_tag(line: &[u8]) -> (Option<Tag<'_>>, &[u8]) {
    const LONGEST: usize = 96;
    let untagged = (None, line);
    if line.first() != Some(&b'[') {
        return untagged;
    }
    let head = &line[..line.len().min(LONGEST)];
    let Some(close) = memmem::find(head, b"]<std") else { return untagged };
    let Some(colon) = memmem::find(&head[close..], b">:").map(|at| close + at) else { return untagged };
    let (rank, stream) = (&line[1..close], &line[close + 2..colon]);
    let is_rank = match rank.iter().position(|&byte| byte == b',') {
        Some(comma) => {
            let number = rank[comma + 1..].trim_ascii();
            comma > 0 && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
        }
        None => false,
    };
    if !is_rank || !matches!(stream, b"stdout" | b"stderr" | b"stddiag") {
        return untagged;
    }
    let text = &line[colon + 2..];
    // Some put a space behind the tag; several are the line's own, as in a module that is indented.
    let text = match text {
        [b' ', next, ..] if *next != b' ' => &text[1..],
        _ => text,
    };
    (Some(Tag { rank, stream }), text)
}

/// Removes `ESC [ … m` sequences.
pub(crate) fn strip_colours(line: &[u8], plain: &mut Vec<u8>) {
    plain.clear();
    let mut rest = line;
    while let Some(at) = memchr::memchr(0x1b, rest) {
        plain.extend_from_slice(&rest[..at]);
        let sequence = &rest[at + 1..];
        let length = match sequence.split_first() {
            Some((b'[', codes)) => {
                let digits = codes.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
                if codes.get(digits) == Some(&b'm') { digits + 2 } else { 0 }
            }
            _ => 0,
        };
        rest = &sequence[length..];
    }
    plain.extend_from_slice(rest);
}
