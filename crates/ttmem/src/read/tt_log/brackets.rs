//! Finding one's way in MLIR text: brackets that nest, strings that hold brackets, arrows that are none.

/// Where the bracket that opens at `open` closes. `None` if it does not.
pub(super) fn closing(text: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = open;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The head of an arrow closes nothing.
            b'>' if at > 0 && text[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            b'"' => at = string_end(text, at)?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string that opens at `open` ends: the place of its closing quote.
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

/// The parts of a list that commas separate outside of all brackets and strings.
pub(super) fn parts(text: &[u8]) -> Parts<'_> {
    Parts { rest: Some(text) }
}

/// See [`parts`].
pub(super) struct Parts<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b',' => {
                    self.rest = Some(&rest[at + 1..]);
                    return Some(rest[..at].trim_ascii());
                }
                b'<' | b'(' | b'[' | b'{' => match closing(rest, at) {
                    Some(close) => at = close,
                    None => break,
                },
                b'"' => match string_end(rest, at) {
                    Some(end) => at = end,
                    None => break,
                },
                _ => {}
            }
            at += 1;
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
}
