//! Additions to a log line: MPI tags in front of it, color codes inside it.

use memchr::memmem;

/// The process and stream that wrote a tagged line: `[1,0]<stdout>:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// The rank as printed, such as `1,0` (a space may follow the comma).
    pub rank: &'a [u8],
    /// `stdout`, `stderr` or `stddiag`.
    pub stream: &'a [u8],
}

impl Tag<'_> {
    /// The rank's label, without spaces.
    pub fn label(&self) -> Vec<u8> {
        self.rank.iter().copied().filter(|byte| *byte != b' ').collect()
    }
}

/// Removes an MPI tag from the front of a line.
pub(crate) fn split_tag(line: &[u8]) -> (Option<Tag<'_>>, &[u8]) {
    const MAX_LEN: usize = 96;
    let untagged = (None, line);
    if line.first() != Some(&b'[') {
        return untagged;
    }
    let head = &line[..line.len().min(MAX_LEN)];
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
    // Some MPI versions print a space after the tag. Several spaces belong to the line, such as an indented module.
    let text = match text {
        [b' ', next, ..] if *next != b' ' => &text[1..],
        _ => text,
    };
    (Some(Tag { rank, stream }), text)
}

/// Removes `ESC [ … m` sequences.
pub(crate) fn strip_colors(line: &[u8], plain: &mut Vec<u8>) {
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
