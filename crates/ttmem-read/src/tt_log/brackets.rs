//! Finds matching brackets in MLIR text: nested brackets, brackets in strings, and `->` arrows.

/// The effect of a byte on the nesting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Opens,
    Closes,
    /// `>`, which may be the head of an arrow.
    Angle,
    Quote,
    Comma,
}

/// The [`Part`] of every byte. Most bytes have no effect and are skipped with one lookup.
const PARTS: [Part; 256] = {
    let mut parts = [Part::Nothing; 256];
    parts[b'<' as usize] = Part::Opens;
    parts[b'(' as usize] = Part::Opens;
    parts[b'[' as usize] = Part::Opens;
    parts[b'{' as usize] = Part::Opens;
    parts[b')' as usize] = Part::Closes;
    parts[b']' as usize] = Part::Closes;
    parts[b'}' as usize] = Part::Closes;
    parts[b'>' as usize] = Part::Angle;
    parts[b'"' as usize] = Part::Quote;
    parts[b',' as usize] = Part::Comma;
    parts
};

/// The next byte at or after `at` that has an effect.
fn next_part(text: &[u8], at: usize) -> Option<(usize, Part)> {
    let rest = text.get(at..)?;
    let found = rest.iter().position(|byte| PARTS[*byte as usize] != Part::Nothing)?;
    Some((at + found, PARTS[rest[found] as usize]))
}

/// The position of the bracket that closes the one at `open`, or `None`.
pub(crate) fn closing(text: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut from = open;
    while let Some((mut at, part)) = next_part(text, from) {
        match part {
            Part::Opens => depth += 1,
            // The head of an arrow does not close a bracket.
            Part::Angle if at > 0 && text[at - 1] == b'-' => {}
            Part::Closes | Part::Angle => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            Part::Quote => at = string_end(text, at)?,
            Part::Comma | Part::Nothing => {}
        }
        from = at + 1;
    }
    None
}

/// The elements of the list at the start of a text, and the text after it: `(a, b) rest`.
pub(super) fn list(text: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut found = Vec::new();
    let (mut begin, mut from) = (1, 1);
    loop {
        let (mut at, part) = next_part(text, from)?;
        match part {
            Part::Opens => at = closing(text, at)?,
            Part::Angle if text[at - 1] == b'-' => {}
            Part::Quote => at = string_end(text, at)?,
            Part::Comma => {
                found.push(text[begin..at].trim_ascii());
                begin = at + 1;
            }
            Part::Closes | Part::Angle => {
                let last = text[begin..at].trim_ascii();
                if !last.is_empty() {
                    found.push(last);
                }
                return Some((found, &text[at + 1..]));
            }
            Part::Nothing => {}
        }
        from = at + 1;
    }
}

/// The position of the closing quote of the string that opens at `open`.
pub(super) fn string_end(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The elements of a list that is separated by commas outside brackets and strings.
pub(crate) fn parts(text: &[u8]) -> Parts<'_> {
    Parts { rest: Some(text) }
}

/// See [`parts`].
pub(crate) struct Parts<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut from = 0;
        while let Some((mut at, part)) = next_part(rest, from) {
            match part {
                Part::Comma => {
                    self.rest = Some(&rest[at + 1..]);
                    return Some(rest[..at].trim_ascii());
                }
                Part::Opens => match closing(rest, at) {
                    Some(close) => at = close,
                    None => break,
                },
                Part::Quote => match string_end(rest, at) {
                    Some(end) => at = end,
                    None => break,
                },
                Part::Closes | Part::Angle | Part::Nothing => {}
            }
            from = at + 1;
        }
        let last = rest.trim_ascii();
        (!last.is_empty()).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_close_where_they_should() {
        let text = b"<(d0) -> (0, d0), <1x1>, \"a > \\\" b\", memref<1x2>> tail";
        assert_eq!(closing(text, 0), Some(text.len() - 6));
        assert_eq!(closing(b"<{a = \"}>\"}>", 0), Some(11));
        assert_eq!(closing(b"<never", 0), None);
        assert_eq!(closing(b"(\"open", 0), None);
    }

    #[test]
    fn parts_are_separated_outside_of_brackets() {
        let all = |text: &'static [u8]| parts(text).collect::<Vec<_>>();
        assert_eq!(
            all(b"a, b<c, d>, (e, f) -> g, \"h, i\""),
            [&b"a"[..], b"b<c, d>", b"(e, f) -> g", b"\"h, i\""]
        );
        assert_eq!(all(b""), [b""; 0]);
        assert_eq!(all(b"a, b<c, d"), [&b"a"[..], b"b<c, d"]);
    }

    #[test]
    fn a_list_ends_where_it_closes() {
        assert_eq!(list(b"(a<b, c> , \")\" ) -> d"), Some((vec![&b"a<b, c>"[..], b"\")\""], &b" -> d"[..])));
        assert_eq!(list(b"() rest"), Some((vec![], &b" rest"[..])));
        assert_eq!(list(b"(a, b"), None);
    }
}
