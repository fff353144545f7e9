//! JSON that may be larger than memory: its skeleton is walked, and its values are taken one at a time.
//!
//! A value is handed out as bytes, for `serde_json` to take apart, or passed over without being held. Of the grammar only
//! so much is checked as finding the end of a value needs; whoever takes it apart checks the rest. Here also is said what
//! JSON of somebody else looks like.

use std::io::{self, Read};

use memchr::{memchr_iter, memchr2};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A value larger than this is none that a reader knows.
const LARGEST: usize = 64 << 20;
/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// JSON, being read.
pub(super) struct Json<R> {
    stream: R,
    buffer: Vec<u8>,
    /// What of the buffer was taken.
    taken: usize,
    /// Where the buffer begins in the stream.
    offset: u64,
    /// The line that the first byte that was not taken stands on, from 1.
    line: u64,
    ended: bool,
}

/// Why there is no value.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The stream could not be read.
    Read(io::Error),
    /// It ends in the middle.
    Cut,
    /// It is no JSON here.
    Wrong(&'static str),
}

impl Trouble {
    /// What is wrong, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Read(error) => error.to_string(),
            Self::Cut => "it ends in the middle of a value".into(),
            Self::Wrong(what) => (*what).into(),
        }
    }
}

/// The result of looking for a value.
pub(super) type Found<T> = Result<T, Trouble>;

impl<R: Read> Json<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new(), taken: 0, offset: 0, line: 1, ended: false }
    }

    /// Where the next byte stands in the stream.
    pub fn offset(&self) -> u64 {
        self.offset + self.taken as u64
    }

    /// The line that it stands on, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next byte that is no white space, which stays; `None` at the end.
    pub fn peek(&mut self) -> Found<Option<u8>> {
        if self.offset() == 0 && (!self.buffer.is_empty() || self.fill()?) {
            self.take(self.buffer.len() - without_mark(&self.buffer).len());
        }
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(blank) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.take(blank);
                return Ok(Some(self.buffer[self.taken]));
            }
            self.take(rest.len());
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// That nothing follows.
    pub fn end(&mut self) -> Found<()> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(Trouble::Wrong("something follows where it should end")),
        }
    }

    /// Takes the next byte that is no white space if it is the one wanted.
    pub fn accept(&mut self, wanted: u8) -> Found<bool> {
        let is_there = self.peek()? == Some(wanted);
        self.take(usize::from(is_there));
        Ok(is_there)
    }

    /// Whether a list or an object goes on: takes the comma before all elements but the first, or what closes it.
    pub fn goes_on(&mut self, is_first: bool, close: u8) -> Found<bool> {
        match self.peek()? {
            None => Err(Trouble::Cut),
            Some(byte) if byte == close => {
                self.take(1);
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.take(1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(_) => Err(Trouble::Wrong("a comma is missing between two values")),
        }
    }

    /// The key of the next entry, its colon taken.
    pub fn key(&mut self) -> Found<String> {
        if self.peek()? != Some(b'"') {
            return Err(Trouble::Wrong("an object has an entry without a key"));
        }
        let key = serde_json::from_slice(self.value()?).map_err(|_| Trouble::Wrong("a key is no text"))?;
        if self.accept(b':')? { Ok(key) } else { Err(Trouble::Wrong("a key is followed by no colon")) }
    }

    /// The bytes of the next value.
    pub fn value(&mut self) -> Found<&[u8]> {
        self.peek()?;
        let mut end = End::default();
        let mut looked = 0;
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(length) = end.find(&rest[looked..]).map(|length| looked + length) {
                let start = self.taken;
                self.take(length);
                return if length == 0 {
                    Err(Trouble::Wrong("a value is missing"))
                } else {
                    Ok(&self.buffer[start..start + length])
                };
            }
            looked = rest.len();
            if looked > LARGEST {
                return Err(Trouble::Wrong("a value is larger than any that belongs there"));
            }
            if !self.fill()? {
                return if end.is_bare() && looked > 0 {
                    let start = self.taken;
                    self.take(looked);
                    Ok(&self.buffer[start..])
                } else {
                    Err(Trouble::Cut)
                };
            }
        }
    }

    /// Passes over the next value, whatever its size.
    pub fn skip(&mut self) -> Found<()> {
        self.peek()?;
        let mut end = End::default();
        loop {
            let rest = &self.buffer[self.taken..];
            match end.find(rest) {
                Some(length) => {
                    self.take(length);
                    return Ok(());
                }
                None => self.take(rest.len()),
            }
            if !self.fill()? {
                return if end.is_bare() { Ok(()) } else { Err(Trouble::Cut) };
            }
        }
    }

    fn take(&mut self, bytes: usize) {
        let taken = &self.buffer[self.taken..self.taken + bytes];
        self.line += memchr_iter(b'\n', taken).count() as u64;
        self.taken += bytes;
    }

    /// Reads more; `false` at the end.
    fn fill(&mut self) -> Found<bool> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.taken);
        self.offset += self.taken as u64;
        self.taken = 0;
        // Long values are read in ever larger pieces: what was looked at is not moved again and again.
        let wanted = CHUNK.max(self.buffer.len());
        let read = self.stream.by_ref().take(wanted as u64).read_to_end(&mut self.buffer);
        self.ended = read.map_err(Trouble::Read)? == 0;
        Ok(!self.ended)
    }
}

/// Text without the mark that some editors put before it.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Finds the end of a value, piece by piece.
#[derive(Default)]
struct End {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// It is a number or a word: nothing closes it.
    bare: bool,
}

impl End {
    /// Where in the next piece the value ends.
    fn find(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            if self.in_string {
                at += self.leave_string(&piece[at..]);
                if !self.in_string && self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match piece[at] {
                b'"' | b'{' | b'[' if self.bare => return Some(at),
                b'}' | b']' | b',' | b':' if self.depth == 0 => return Some(at),
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                byte if self.depth == 0 && byte.is_ascii_whitespace() => return Some(at),
                _ => self.bare |= self.depth == 0,
            }
            at += 1;
        }
        None
    }

    /// How much of a piece still belongs to the string.
    fn leave_string(&mut self, piece: &[u8]) -> usize {
        let mut at = 0;
        if std::mem::take(&mut self.escaped) {
            at = 1;
        }
        while let Some(found) = piece.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            at += found;
            if piece[at] == b'"' {
                self.in_string = false;
                return at + 1;
            }
            at += 2;
        }
        // A backslash at the very end escapes the first byte of the next piece.
        self.escaped = at > piece.len();
        piece.len()
    }

    fn is_bare(&self) -> bool {
        self.bare && self.depth == 0
    }
}

/// What JSON that no reader knows is, as far as its first bytes tell; `None` where it is no JSON, or a line of it in some
/// other text.
pub(super) fn describe(head: &[u8]) -> Option<String> {
    /// JSON that people may take for evidence, by its keys.
    const KNOWN: [(&[&str], &str); 7] = [
        (&["traceEvents"], "a Chrome or PyTorch profiler trace"),
        (&["segments", "device_traces"], "a PyTorch memory snapshot"),
        (&["nbformat"], "a notebook"),
        (&["lockfileVersion"], "a lock file of npm"),
        (&["operation_name"], "operations and their arguments, without memory"),
        (&["architectures"], "the configuration of a model"),
        (&["weight_map"], "the index of a model's weights"),
    ];
    let mut json = Json::new(head);
    let is_list = json.accept(b'[').ok()?;
    if is_list && json.peek().ok()? == Some(b']') {
        json.take(1);
        return is_over(&mut json).then(|| "JSON: a list without elements".into());
    }
    if json.peek().ok()? != Some(b'{') {
        return None;
    }
    let (keys, is_whole) = keys(&mut json)?;
    // The list itself may go on; an object that is followed by something is a line of a log.
    if !is_list && is_whole && !is_over(&mut json) {
        return None;
    }
    let a = if is_list { "a list of objects" } else { "an object" };
    let is_there = |sign: &&str| keys.iter().any(|key| key == sign);
    if let Some((_, what)) = KNOWN.iter().find(|(signs, _)| signs.iter().all(is_there)) {
        return Some(format!("JSON: {what}"));
    }
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("{key:?}")).collect();
    Some(if shown.is_empty() {
        format!("JSON: {a} without entries")
    } else {
        format!("JSON: {a} with {}", shown.join(", "))
    })
}

fn is_over(json: &mut Json<&[u8]>) -> bool {
    matches!(json.peek(), Ok(None))
}

/// The keys of an object as far as the bytes go, and whether it ends there; `None` where it is no object. No value is held.
pub(super) fn keys(json: &mut Json<&[u8]>) -> Option<(Vec<String>, bool)> {
    let mut keys = Vec::new();
    json.accept(b'{').ok()?;
    loop {
        match json.goes_on(keys.is_empty(), b'}') {
            Ok(true) => {}
            Ok(false) => return Some((keys, true)),
            Err(Trouble::Cut) => return Some((keys, false)),
            Err(_) => return None,
        }
        match json.key() {
            Ok(key) => keys.push(key),
            Err(Trouble::Cut) => return Some((keys, false)),
            Err(_) => return None,
        }
        if json.skip().is_err() {
            return Some((keys, false));
        }
    }
}

/// A whole number as JSON has it, or as text; what else stands there is passed over and noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Number {
    #[default]
    Missing,
    Is(i64),
    Wrong,
}

impl Number {
    /// A size or a place, which is never negative.
    pub fn get(self) -> Option<u64> {
        match self {
            Self::Is(number) => u64::try_from(number).ok(),
            Self::Missing | Self::Wrong => None,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> serde::de::Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Missing)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Is(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(i64::try_from(number).map_or(Number::Wrong, Number::Is))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
        Ok(Number::Wrong)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Number, E> {
        Ok(Number::Is(flag.into()))
    }

    /// Old captures write numbers as text, and flags as `true` or `1`.
    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(match text.trim() {
            "" | "nullopt" | "std::nullopt" | "None" => Number::Missing,
            "true" => Number::Is(1),
            "false" => Number::Is(0),
            number => number.parse().map_or(Number::Wrong, Number::Is),
        })
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Number, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number::Wrong)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut object: A) -> Result<Number, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes out one at a time: every value spans pieces.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let (Some((first, rest)), false) = (self.0.split_first(), buffer.is_empty()) else {
                return Ok(0);
            };
            (buffer[0], self.0) = (*first, rest);
            Ok(1)
        }
    }

    fn elements(text: &str) -> Vec<String> {
        let mut json = Json::new(text.as_bytes());
        let mut found = Vec::new();
        assert!(json.accept(b'[').unwrap());
        while json.goes_on(found.is_empty(), b']').unwrap() {
            found.push(String::from_utf8(json.value().unwrap().to_vec()).unwrap());
        }
        assert_eq!(json.peek().unwrap(), None);
        found
    }

    #[test]
    fn values_are_found_whatever_stands_in_them() {
        let values = [r#"{"a": "]}\"\\"}"#, "12", "-3.5e7", "null", r#""a\\""#, "[[1], {}]", "{}", r#""""#];
        let text = format!(" [ {} \n] ", values.join(" ,\n"));
        assert_eq!(elements(&text), values);
        let mut json = Json::new(text.as_bytes());
        json.skip().unwrap();
        assert_eq!((json.peek().unwrap(), json.line()), (None, values.len() as u64 + 1));
    }

    #[test]
    fn a_value_ends_where_it_ends_however_the_bytes_arrive() {
        let text = r#"{"a": [1, "x\\\"y]", {"b": null}]} 7"#;
        for from in 0..text.len() {
            let mut end = End::default();
            let at = match end.find(&text.as_bytes()[..from]) {
                Some(at) => at,
                None => from + end.find(&text.as_bytes()[from..]).unwrap(),
            };
            assert_eq!(at, text.len() - 2, "cut at {from}");
        }
        let mut json = Json::new(Drops(text.as_bytes()));
        json.skip().unwrap();
        assert_eq!(json.value().unwrap(), b"7");
    }

    #[test]
    fn what_is_cut_or_wrong_is_said() {
        let trouble = |text: &str| Json::new(text.as_bytes()).value().map(drop).unwrap_err().words();
        assert_eq!(trouble(r#"{"a": [1, 2"#), "it ends in the middle of a value");
        assert_eq!(trouble("\"abc"), "it ends in the middle of a value");
        assert_eq!(trouble(","), "a value is missing");
    }

    #[test]
    fn json_of_somebody_else_is_known_by_its_keys() {
        let said = |text: &str| describe(text.as_bytes());
        assert_eq!(
            said(r#"{"schemaVersion": 1, "traceEvents": [{"#).unwrap(),
            "JSON: a Chrome or PyTorch profiler trace"
        );
        assert_eq!(
            said(r#"{"name": "x", "version": "1""#).unwrap(),
            r#"JSON: an object with "name", "version""#
        );
        assert_eq!(said(r#"[{"id": 1}]"#).unwrap(), r#"JSON: a list of objects with "id""#);
        assert_eq!(said("{}").unwrap(), "JSON: an object without entries");
        assert_eq!(said("[]").unwrap(), "JSON: a list without elements");
        // A line of JSON in a log, a tagged line, and what only begins so.
        assert_eq!(said("{\"epoch\": 1}\nMODEL_CREATION"), None);
        assert_eq!(said("{EngineCore} ready"), None);
        assert_eq!(said("[1,0]<stdout>: text"), None);
        assert_eq!(said("plain text"), None);
    }

    #[test]
    fn numbers_come_in_many_clothes() {
        let number = |text: &str| serde_json::from_str::<Number>(text).unwrap();
        for (text, value) in [("7", 7), ("\"7\"", 7), ("true", 1), ("\"false\"", 0), ("\"-2\"", -2)] {
            assert_eq!(number(text), Number::Is(value), "{text}");
        }
        for text in ["1.5", "[1]", "{}", "\"x\"", "18446744073709551615"] {
            assert_eq!(number(text), Number::Wrong, "{text}");
        }
        assert_eq!((number("null"), number("\"std::nullopt\"")), (Number::Missing, Number::Missing));
        assert_eq!(Number::Is(-2).get(), None);
    }
}
