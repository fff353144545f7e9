//! Finds the end of a JSON value without parsing it.

use memchr::memchr2;

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
