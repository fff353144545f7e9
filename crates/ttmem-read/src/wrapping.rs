//! Additions to a log line: MPI tags and the prefixes of other programs in front of it, color codes inside it.

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

/// Removes what vLLM, pytest, Docker, Kubernetes and Python's loggers put in front of a line: process names, times, levels
/// and source files. The text itself keeps its indentation as far as possible.
pub(crate) fn without_prefixes(line: &[u8]) -> &[u8] {
    const MAX_PREFIXES: usize = 6;
    let mut rest = line;
    for _ in 0..MAX_PREFIXES {
        let Some(next) = without_prefix(rest) else { break };
        rest = next;
    }
    rest
}

/// Removes one prefix, if there is one.
pub(crate) fn without_prefix(line: &[u8]) -> Option<&[u8]> {
    match line.first()? {
        // `(EngineCore_DP0 pid=123) `.
        b'(' => {
            let (inside, rest) = up_to(line, b')', 80)?;
            memmem::find(inside, b"pid=").map(|_| rest)
        }
        // `[pod/server/main] `.
        b'[' => {
            let (inside, rest) = up_to(line, b']', 160)?;
            memchr::memchr(b'/', inside).map(|_| rest)
        }
        // `2026-01-01T12:00:00.123Z ` or `2026-01-01 12:00:00,123 - file.py:12 - ERROR: `.
        b'0'..=b'9' => after_time(line),
        // `ERROR 10-10 12:00:00 [core.py:710] `, `E       `, `server-1  | `.
        _ => after_level(line).or_else(|| after_pytest(line)).or_else(|| after_service(line)),
    }
}

/// The parts of a line before and after a byte that a space follows, or that ends the line.
fn up_to(line: &[u8], close: u8, max: usize) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(close, &line[..line.len().min(max)])?;
    match &line[at + 1..] {
        [] => Some((&line[..at], &[])),
        [b' ', rest @ ..] => Some((&line[..at], rest)),
        _ => None,
    }
}

/// Whether the text begins as a pattern does, where `0` stands for any digit.
fn begins_like(text: &[u8], pattern: &[u8]) -> bool {
    text.len() >= pattern.len()
        && text.iter().zip(pattern).all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

fn after_time(line: &[u8]) -> Option<&[u8]> {
    if !begins_like(line, b"0000-00-00") || !matches!(line.get(10), Some(b'T' | b' ')) {
        return None;
    }
    if !begins_like(&line[11..], b"00:00:00") {
        return None;
    }
    let is_of_time = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'Z' | b'+' | b':');
    let end = 19 + line[19..].iter().take_while(is_of_time).count();
    let rest = line[end..].strip_prefix(b" ").unwrap_or(&line[end..]);
    // The files that Kubernetes keeps of a container name the stream, and whether the line is full.
    let streams = [&b"stdout F"[..], b"stderr F", b"stdout P", b"stderr P"];
    let after = streams.iter().find_map(|stream| rest.strip_prefix(*stream));
    match after {
        Some([]) => return Some(&[]),
        Some([b' ', text @ ..]) => return Some(text),
        _ => {}
    }
    // ` - file.py:12 - ERROR: `: the names end with a level.
    let Some(names) = rest.strip_prefix(b"- ") else { return Some(rest) };
    let head = &names[..names.len().min(160)];
    for level in LEVELS {
        for end in [&b": "[..], b" - ", b":", b" -"] {
            let with_end = [b"- ", level, end].concat();
            if let Some(at) = memmem::find(head, &with_end) {
                return Some(&names[at + with_end.len()..]);
            }
        }
    }
    Some(rest)
}

const LEVELS: [&[u8]; 6] = [b"DEBUG", b"INFO", b"WARNING", b"ERROR", b"CRITICAL", b"FATAL"];

fn after_level(line: &[u8]) -> Option<&[u8]> {
    let level = LEVELS.iter().find(|level| line.starts_with(level))?;
    let rest = line[level.len()..].trim_ascii_start();
    let rest = begins_like(rest, b"00-00 00:00:00 ").then(|| &rest[15..])?;
    let close = memmem::find(&rest[..rest.len().min(120)], b"]")?;
    memmem::find(&rest[..close], b".py:")?;
    let rest = &rest[close + 1..];
    Some(rest.strip_prefix(b" ").unwrap_or(rest))
}

fn after_pytest(line: &[u8]) -> Option<&[u8]> {
    line.strip_prefix(b"E   ")
}

fn after_service(line: &[u8]) -> Option<&[u8]> {
    let (name, rest) = up_to(line, b'|', 64)?;
    let name = name.strip_suffix(b" ")?.trim_ascii_end();
    let is_name =
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    // The names of containers end in a number.
    (is_name && name.last().is_some_and(u8::is_ascii_digit)).then_some(rest)
}

/// Removes the same prefix as another line has, where the digits of times and process numbers may differ.
pub(crate) fn without_prefix_like<'a>(prefix: &[u8], line: &'a [u8]) -> Option<&'a [u8]> {
    let (mut known, mut rest) = (prefix, line);
    while let Some((&byte, further)) = known.split_first() {
        if byte.is_ascii_digit() {
            let skip = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (of_known, of_rest) = (skip(known), skip(rest));
            if of_rest == 0 {
                return None;
            }
            (known, rest) = (&known[of_known..], &rest[of_rest..]);
        } else {
            rest = rest.strip_prefix(&[byte])?;
            known = further;
        }
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_other_programs_are_removed() {
        for prefix in [
            "",
            "(EngineCore_DP0 pid=123) ERROR 10-10 12:00:00 [core.py:710] ",
            "ERROR 05-05 15:48:14 engine.py:159] ",
            "(APIServer pid=1) ",
            "2026-01-01 12:00:00,123 - file.py:12 - ERROR: ",
            "2025-06-12 17:43:41,498 - utils.prompt_client - INFO - ",
            "2026-01-01T12:00:00.123456789Z ",
            "2026-01-01T12:00:00.123456789Z stderr F ",
            "2026-01-01T12:00:00.123456789+02:00 stdout F 2026-01-01 12:00:00,123 - file.py:12 - ERROR: ",
            "[pod/server-0/main] 2026-01-01T12:00:00.1Z (EngineCore_DP0 pid=7) ",
            "vllm-1  | ",
            "E   ",
        ] {
            for text in ["info:", "Out of Memory: x", "TT_FATAL @ x.cpp:1: false"] {
                let line = format!("{prefix}{text}");
                assert_eq!(without_prefixes(line.as_bytes()), text.as_bytes(), "{line}");
            }
            if prefix != "E   " {
                assert_eq!(without_prefixes(prefix.trim_end().as_bytes()), b"", "{prefix}");
            }
        }
        let failed = b"2026-01-01T12:00:00Z stderr Failed";
        assert_eq!(without_prefixes(failed), b"stderr Failed");
        for line in ["[1] text", "(a) text", "a | b", "ERROR in x", "E2E test", "2026-01-01 was", ""] {
            assert_eq!(without_prefixes(line.as_bytes()), line.as_bytes());
        }
    }

    #[test]
    fn a_prefix_may_differ_in_its_digits() {
        let like = |line: &'static str| without_prefix_like(b"a 12:00 [7] ", line.as_bytes());
        assert_eq!(like("a 12:00 [7] text"), Some(&b"text"[..]));
        assert_eq!(like("a 9:01 [123] text"), Some(&b"text"[..]));
        assert_eq!(like("a b:01 [123] text"), None);
        assert_eq!(like("a 12:00"), None);
        assert_eq!(without_prefix_like(b"", b"text"), Some(&b"text"[..]));
    }
}
