//! Texts of the evidence inside Markdown: short, on one line, and nothing but text.

use ttmem_query::words::brief;

/// Locations are cut to this many characters.
pub(super) const LOCATION: usize = 80;
/// Names of tensors, operations and programs.
pub(super) const NAME: usize = 48;
/// Shapes; a tensor of absurd rank has a long one.
pub(super) const SHAPE: usize = 40;
/// Characters of a sentence that contains text of the input.
pub(super) const SENTENCE: usize = 600;

/// Text of the input, shortened to `max` characters. It cannot end a cell or a line, open a tag, a link or code, or change
/// the direction of the text after it.
pub(crate) fn cell(text: &str, max: usize) -> String {
    let short = brief(text, max);
    let mut safe = String::with_capacity(short.len());
    let mut before = ' ';
    for character in short.chars() {
        match character {
            // `\|` would do in most places, but not after a backslash.
            '|' => safe.push_str("&#124;"),
            '<' => safe.push_str("&lt;"),
            '`' => safe.push('\''),
            '(' if before == ']' => safe.push_str("\\("),
            character if is_layout(character) => safe.push(' '),
            character => safe.push(character),
        }
        before = character;
    }
    safe
}

/// Characters that set text instead of being text: controls, ends of lines, marks of direction.
fn is_layout(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_nothing_but_text() {
        assert_eq!(cell("a|b\\|c", 80), "a&#124;b\\&#124;c");
        assert_eq!(cell("<img src=x>\n# head\r\u{2028}`x`", 80), "&lt;img src=x> # head  'x'");
        assert_eq!(cell("![x](http://a.b)", 80), "![x]\\(http://a.b)");
        assert_eq!(cell("\u{1b}[31m\u{202e}red", 80), " [31m red");
        assert_eq!(cell("fused[\"a\", \"b\"]", 80), "fused[\"a\", \"b\"]");
    }
}
