//! Finds the end of a JSON value without parsing it.

use memchr::memchr2;

/// The number of bytes that are looked at together.
const WORD: usize = 8;
/// The highest bit of each byte.
const HIGH: u64 = repeated(0x80);
/// All other bits.
const LOW: u64 = repeated(0x7f);

/// A word of equal bytes.
const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
}

/// The highest bit of each byte of a word that has this value.
fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeated(byte);
    !(((difference & LOW) + LOW) | difference | LOW)
}

/// The number of bytes whose highest bit is set; no other bit may be.
fn lanes(bits: u64) -> usize {
    // The sum of all bytes is in the highest byte of the product. It is at most 8.
    ((bits >> 7).wrapping_mul(repeated(1)) >> 56) as usize
}

/// Searches for the end of a value, piece by piece.
#[derive(Default)]
pub(super) struct ValueEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The value is a number or a literal, which has no closing character.
    bare: bool,
}

impl ValueEnd {
    /// The end of the value in the next piece.
    pub fn find(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            at += self.skim(&piece[at..]);
            // Up to the next word, byte by byte.
            let stop = at + WORD;
            while at < piece.len().min(stop) {
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
        }
        None
    }

    /// Skips whole words inside a list or an object, eight bytes at a time. Stops before a word with a backslash, and
    /// before a word with the possible end of the value. Returns the number of bytes.
    fn skim(&mut self, piece: &[u8]) -> usize {
        if self.depth == 0 || self.escaped {
            return 0;
        }
        let mut passed = 0;
        let mut in_string = if self.in_string { HIGH } else { 0 };
        for word in piece.chunks_exact(WORD) {
            let Ok(bytes) = word.try_into() else { break };
            let word = u64::from_le_bytes(bytes);
            // Each quote inverts all bytes after it.
            let mut strings = equal(word, b'"');
            strings ^= strings << 8;
            strings ^= strings << 16;
            strings ^= strings << 32;
            strings ^= in_string;
            // Brackets and backslashes are above `z`, except for one bit.
            let folded = word | repeated(0x20);
            let is_plain = ((folded & LOW) + repeated(0x80 - b'{')) & HIGH == 0;
            if !is_plain {
                let closed = lanes(equal(folded, b'}') & !strings);
                if equal(word, b'\\') != 0 || closed >= self.depth {
                    break;
                }
                self.depth = self.depth + lanes(equal(folded, b'{') & !strings) - closed;
            }
            in_string = if strings >> 63 == 1 { HIGH } else { 0 };
            passed += WORD;
        }
        self.in_string = in_string != 0;
        passed
    }

    /// The length of the string's rest in the piece.
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
        // A backslash at the end of the piece escapes the first byte of the next one.
        self.escaped = at > piece.len();
        piece.len()
    }

    /// Whether the end of the document also ends the value.
    pub fn is_bare(&self) -> bool {
        self.bare && self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_agree() {
        // Every byte at every place of a word.
        for byte in 0..=u8::MAX {
            for place in 0..WORD {
                let mut bytes = [b'x'; WORD];
                bytes[place] = byte;
                let expected = if byte == b'"' { 0x80 << (8 * place) } else { 0 };
                assert_eq!(equal(u64::from_le_bytes(bytes), b'"'), expected, "{byte} at {place}");
            }
        }
        // Brackets and quotes in any order, with every shift against the words.
        let parts = ["[1,", "{\"a]\": \"}}]\",", "\"\\\\\"", "\"[\\\"{{\"", "[]", "{}", "  \n", "]", "}"];
        for seed in 0..500_usize {
            let mut text = "[".to_owned();
            let mut next = seed;
            for _ in 0..20 {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text += parts[(next >> 33) % parts.len()];
            }
            for shift in 0..WORD {
                let text = format!("{}{text}]]]]]]]]]]]]]]]]]]]]]]]", "[".repeat(shift));
                assert_eq!(ValueEnd::default().find(text.as_bytes()), slow_end(text.as_bytes()), "{text}");
            }
        }
    }

    /// The end of a list, byte by byte.
    fn slow_end(text: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0_i64, false, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    #[test]
    fn a_value_ends_where_it_ends_however_the_bytes_arrive() {
        let text = r#"{"a": [1, "x\\\"y]", {"b": null}]} 7"#;
        for from in 0..text.len() {
            let mut end = ValueEnd::default();
            let at = match end.find(&text.as_bytes()[..from]) {
                Some(at) => at,
                None => from + end.find(&text.as_bytes()[from..]).unwrap(),
            };
            assert_eq!(at, text.len() - 2, "cut at {from}");
        }
    }
}
