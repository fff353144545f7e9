//! Parses one log line: its writer and its content.
//!
//! Lines may have colors, MPI tags, and prefixes of pytest or vLLM, and are mixed with lines of unknown writers. This
//! module only parses a line; its effect on memory is determined elsewhere.

use memchr::memmem;

use crate::wrapping::strip_colors;
pub(super) use crate::wrapping::{Tag, split_tag};

/// Finds messages of the runtime's logger: `TYPE | LEVEL | message`.
///
/// The prefix of a message rarely changes, so known prefixes are cached as bytes.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// Known prefixes, each with the number of uses since it was added.
    known: Vec<(Box<[u8]>, u32)>,
    plain: Vec<u8>,
}

/// The kind of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// A message of the runtime's logger.
    Runtime(&'a [u8]),
    /// A line of another writer, without colors.
    Foreign(&'a [u8]),
}

impl Prefixes {
    const MAX: usize = 8;

    /// The message of a line, or the line itself without colors.
    pub fn split<'a>(&'a mut self, line: &'a [u8]) -> Text<'a> {
        if let Some((known, met)) = self.known.iter_mut().find(|(known, _)| line.starts_with(known)) {
            *met = met.saturating_add(1);
            return Text::Runtime(&line[known.len()..]);
        }
        if memchr::memchr(0x1b, line).is_none() {
            return match message_start(line) {
                Some(start) => {
                    self.remember(&line[..start]);
                    Text::Runtime(&line[start..])
                }
                None => Text::Foreign(line),
            };
        }
        strip_colors(line, &mut self.plain);
        match message_start(&self.plain) {
            Some(start) => {
                let length = self.plain.len() - start;
                if line.ends_with(&self.plain[start..]) {
                    self.remember(&line[..line.len() - length]);
                }
                Text::Runtime(&self.plain[start..])
            }
            None => Text::Foreign(&self.plain),
        }
    }

    /// Adds a prefix, replacing the least used one: some prefixes contain the time of day.
    fn remember(&mut self, prefix: &[u8]) {
        if self.known.len() < Self::MAX {
            self.known.push((prefix.into(), 0));
        } else if let Some(least) = self.known.iter_mut().min_by_key(|(_, met)| *met) {
            *least = (prefix.into(), 0);
        }
    }
}

/// The start of the message in a line without colors, if the runtime's logger wrote the line.
///
/// The logger's type need not be in the first column: pytest, vLLM and others print prefixes.
fn message_start(line: &[u8]) -> Option<usize> {
    const BAR: &[u8] = b" | ";
    for bar in memchr::memchr_iter(b'|', line).filter_map(|at| at.checked_sub(1)) {
        if !line[bar..].starts_with(BAR) {
            continue;
        }
        let kind = line[..bar].rsplit(u8::is_ascii_whitespace).next()?;
        if kind != b"Always" && !kind.starts_with(b"Runtime") {
            continue;
        }
        let level_at = bar + BAR.len();
        let level = line[level_at..].trim_ascii_start();
        let word = level.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        if !matches!(&level[..word], b"TRACE" | b"DEBUG" | b"INFO" | b"WARNING" | b"ERROR" | b"FATAL") {
            continue;
        }
        let behind = level[word..].trim_ascii_start();
        if let Some(message) = behind.strip_prefix(b"|") {
            return Some(line.len() - message.strip_prefix(b" ").unwrap_or(message).len());
        }
    }
    None
}

/// The part of a runtime message that concerns memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// `Executing operation: …`, with the operation's text.
    Executing(&'a [u8]),
    /// The header of a group of states.
    StateHeader(Header<'a>),
    /// One state of a group.
    State {
        /// `DRAM`, `L1` …
        pool: &'a [u8],
        /// The text after the opening brace.
        view: &'a [u8],
    },
    Starting(&'a [u8]),
    Finished(&'a [u8]),
    /// `Running LoadCachedOp for function F with hash: H`: the hash.
    CacheKey(&'a [u8]),
    CacheHit,
    CacheMiss,
    Retained,
    Other,
}

/// When a group of states was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header<'a> {
    BeforeOperation(&'a [u8]),
    BeforeSubmit,
    AfterSubmit,
}

impl<'a> Message<'a> {
    /// Parses a message.
    pub fn of(text: &'a [u8]) -> Self {
        let after = |prefix: &[u8]| text.strip_prefix(prefix);
        match text.first() {
            Some(b'D') => Self::device(text),
            Some(b'E') => after(b"Executing operation: ").map_or(Self::Other, Self::Executing),
            Some(b'S') => after(b"Starting execution of program: ")
                .map_or(Self::Other, |name| Self::Starting(name.trim_ascii())),
            Some(b'F') => after(b"Finished execution of program: ")
                .map_or(Self::Other, |name| Self::Finished(name.trim_ascii())),
            Some(b'C') if after(b"Cache hit for function: ").is_some() => Self::CacheHit,
            Some(b'C') if after(b"Cache miss or invalid cache for function: ").is_some() => Self::CacheMiss,
            Some(b'R') => after(b"Running LoadCachedOp for function ")
                .and_then(|rest| memmem::find(rest, b" with hash: ").map(|at| &rest[at + 12..]))
                .map_or(Self::Other, |hash| Self::CacheKey(hash.trim_ascii())),
            Some(b'T') if after(b"Tensor is retained thus not deallocating").is_some() => Self::Retained,
            _ => Self::Other,
        }
    }

    fn device(text: &'a [u8]) -> Self {
        let Some(rest) = text.strip_prefix(b"Device ") else { return Self::Other };
        if let Some(header) = rest.strip_prefix(b"memory state ") {
            return match header.strip_prefix(b"before operation ") {
                Some(op) => Self::StateHeader(Header::BeforeOperation(op.trim_ascii())),
                None => match header.trim_ascii() {
                    b"before submit" => Self::StateHeader(Header::BeforeSubmit),
                    b"after submit" => Self::StateHeader(Header::AfterSubmit),
                    _ => Self::Other,
                },
            };
        }
        let name = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        match rest[name..].strip_prefix(b" memory state: MemoryView{") {
            Some(view) if name > 0 => Self::State { pool: &rest[..name], view },
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLORED: &[u8] =
        b"\x1b[32m            RuntimeTTNN\x1b[0m | \x1b[1m\x1b[38;5;240m   DEBUG\x1b[0m | Starting execution of program: main";

    fn runtime(line: &[u8]) -> Option<Vec<u8>> {
        match Prefixes::default().split(line) {
            Text::Runtime(text) => Some(text.to_vec()),
            Text::Foreign(_) => None,
        }
    }

    #[test]
    fn tags_name_rank_and_stream() {
        let tag = |line: &'static [u8]| match split_tag(line) {
            (Some(tag), rest) => Some((tag.rank, tag.stream, rest)),
            (None, _) => None,
        };
        assert_eq!(tag(b"[1,0]<stdout>:text"), Some((&b"1,0"[..], &b"stdout"[..], &b"text"[..])));
        assert_eq!(tag(b"[1, 12]<stderr>: text"), Some((&b"1, 12"[..], &b"stderr"[..], &b"text"[..])));
        assert_eq!(tag(b"[prterun-host-77@1,3]<stddiag>:x").map(|t| t.0), Some(&b"prterun-host-77@1,3"[..]));
        assert_eq!(tag(b"[1,0]<weird>:text"), None);
        assert_eq!(tag(b"[2026-01-01]<stdout>:text"), None);
        assert_eq!(tag(b"[engine.py:163] step"), None);
    }

    #[test]
    fn messages_are_found_with_and_without_color_and_behind_other_prefixes() {
        let expected = Some(b"Starting execution of program: main".to_vec());
        assert_eq!(runtime(COLORED), expected);
        assert_eq!(
            runtime(b"            RuntimeTTNN |    DEBUG | Starting execution of program: main"),
            expected
        );
        assert_eq!(
            runtime(b"E       RuntimeTTNN |    DEBUG | Starting execution of program: main"),
            expected
        );
        assert_eq!(
            runtime(b"(EngineCore_DP0 pid=230)             RuntimeTTNN |    DEBUG | Starting execution of program: main"),
            expected
        );
        assert_eq!(
            runtime(b"                 Always | FATAL    | Out of Memory: x"),
            Some(b"Out of Memory: x".to_vec())
        );
        assert_eq!(runtime(b"RuntimeTTMetalCircularBufferCreation |    TRACE | x"), Some(b"x".to_vec()));
    }

    #[test]
    fn lines_of_other_loggers_are_foreign() {
        for line in [
            &b"2026-03-16 10:40:50.252 | critical |          Always | Out of Memory: x"[..],
            b"INFO 03-16 10:31:08 [engine.py:163] Executing operation: %0 = nothing",
            b"  12%|#2        | 3/25 [00:01<00:09,  2.31it/s]",
            b"",
        ] {
            assert_eq!(runtime(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_remembered_prefix_gives_the_same_message() {
        let mut prefixes = Prefixes::default();
        for _ in 0..3 {
            assert_eq!(prefixes.split(COLORED), Text::Runtime(b"Starting execution of program: main"));
        }
    }

    #[test]
    fn messages_are_understood() {
        assert_eq!(Message::of(b"Executing operation: %0 = x"), Message::Executing(b"%0 = x"));
        assert_eq!(
            Message::of(b"Device memory state before operation MatmulOp"),
            Message::StateHeader(Header::BeforeOperation(b"MatmulOp"))
        );
        assert_eq!(
            Message::of(b"Device memory state before submit"),
            Message::StateHeader(Header::BeforeSubmit)
        );
        assert_eq!(
            Message::of(b"Device memory state after submit"),
            Message::StateHeader(Header::AfterSubmit)
        );
        assert_eq!(
            Message::of(b"Device L1_SMALL memory state: MemoryView{numBanks: 1}"),
            Message::State { pool: b"L1_SMALL", view: b"numBanks: 1}" }
        );
        assert_eq!(
            Message::of(b"Running LoadCachedOp for function main_const_eval_0 with hash: 0073e1"),
            Message::CacheKey(b"0073e1")
        );
        assert_eq!(Message::of(b"Cache hit for function: f"), Message::CacheHit);
        assert_eq!(Message::of(b"Cache miss or invalid cache for function: f"), Message::CacheMiss);
        assert_eq!(
            Message::of(
                b"Tensor is retained thus not deallocating. To deallocate, set retain to false first"
            ),
            Message::Retained
        );
        assert_eq!(Message::of(b"Device is gone"), Message::Other);
        assert_eq!(Message::of(b""), Message::Other);
    }
}
