//! Many texts, stored as templates and numbers.
//!
//! The lines of a module, like locations, usually differ only in their numbers. So a text becomes a template with gaps
//! and the numbers for the gaps. The numbers are grouped by template and gap (the first numbers of all texts of a
//! template, then the second ones), so that similar numbers are adjacent. This takes about half the space of
//! compressing the texts directly.

use rustc_hash::FxHashMap;
use ttmem_query::timeline::{Column, Kind, Pattern};

use super::block::Block;

/// This byte does not occur in UTF-8.
const GAP: u8 = 0xff;
/// Longer runs of digits stay part of the template because they do not fit into four bytes.
const MAX_DIGITS: usize = 9;

/// A collection of texts.
#[derive(Debug, Default)]
pub(super) struct Lines {
    numbers_of: FxHashMap<Box<[u8]>, u32>,
    templates: Vec<Template>,
    template: Vec<u64>,
    scratch: Vec<u8>,
    found: Vec<u32>,
}

#[derive(Debug)]
struct Template {
    text: Box<[u8]>,
    gaps: usize,
    /// The numbers of all texts, one text after another.
    numbers: Vec<u32>,
}

impl Lines {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.split(text.as_bytes());
        let number = if let Some(number) = self.numbers_of.get(&self.scratch[..]) {
            *number
        } else {
            let number = u32::try_from(self.templates.len()).unwrap_or(u32::MAX);
            let text: Box<[u8]> = self.scratch.as_slice().into();
            self.numbers_of.insert(text.clone(), number);
            self.templates.push(Template { text, gaps: self.found.len(), numbers: Vec::new() });
            number
        };
        self.template.push(number.into());
        self.templates[number as usize].numbers.extend_from_slice(&self.found);
    }

    /// Appends another collection.
    pub fn append(&mut self, other: Self) {
        if self.templates.is_empty() {
            *self = other;
            return;
        }
        let mut numbers = Vec::with_capacity(other.templates.len());
        for Template { text, gaps, numbers: more } in other.templates {
            let next = u32::try_from(self.templates.len()).unwrap_or(u32::MAX);
            let number = *self.numbers_of.entry(text).or_insert_with_key(|text| {
                self.templates.push(Template { text: text.clone(), gaps, numbers: Vec::new() });
                next
            });
            self.templates[number as usize].numbers.extend(more);
            numbers.push(u64::from(number));
        }
        let number_here = |there: u64| numbers[usize::try_from(there).unwrap_or(usize::MAX)];
        self.template.extend(other.template.into_iter().map(number_here));
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.template.len()
    }

    /// Splits a text into its template and its numbers.
    fn split(&mut self, text: &[u8]) {
        self.scratch.clear();
        self.found.clear();
        let mut at = 0;
        while at < text.len() {
            let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                let until = first_digit(&text[at..]);
                self.scratch.extend_from_slice(&text[at..at + until]);
                at += until;
                continue;
            }
            let run = &text[at..at + digits];
            // `007` would not survive the round trip as a number.
            if digits <= MAX_DIGITS && (digits == 1 || run[0] != b'0') {
                self.scratch.push(GAP);
                self.found.push(run.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')));
            } else {
                self.scratch.extend_from_slice(run);
            }
            at += digits;
        }
    }

    /// Adds the texts to a block, as columns with this prefix.
    pub fn add_to(self, block: &mut Block, name: &str) {
        let numbers = |column: &str, pattern, values| Column {
            name: format!("{name}.{column}"),
            kind: Kind::Number,
            pattern,
            values,
        };
        block.add(numbers("template", Pattern::Scattered, self.template));
        let lengths = self.templates.iter().map(|template| template.text.len() as u64).collect();
        block.add(numbers("template_length", Pattern::Scattered, lengths));
        let texts: Vec<u8> =
            self.templates.iter().flat_map(|template| template.text.iter().copied()).collect();
        block.add_bytes(&format!("{name}.templates"), &texts);
        let mut by_gap = Vec::new();
        for Template { gaps, numbers, .. } in self.templates {
            by_gap
                .extend((0..gaps).flat_map(|gap| numbers[gap..].iter().step_by(gaps)).map(|n| u64::from(*n)));
        }
        block.add(numbers("numbers", Pattern::Scattered, by_gap));
    }
}

/// The position of the first digit in a text, or the text's length.
///
/// Checks eight bytes at a time: a byte is a digit if its difference from `0` is less than ten. Adding 0x76 to the low
/// seven bits of the difference sets the high bit from ten on, without carrying into the next byte.
fn first_digit(text: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut words = text.chunks_exact(8);
    for (index, word) in words.by_ref().enumerate() {
        let apart = u64::from_le_bytes(word.try_into().unwrap_or_default()) ^ (EACH * 0x30);
        let others = ((apart & (EACH * 0x7f)) + EACH * 0x76) | apart;
        let digits = !others & (EACH * 0x80);
        if digits != 0 {
            return index * 8 + digits.trailing_zeros() as usize / 8;
        }
    }
    let rest = words.remainder();
    text.len() - rest.len() + rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reassembles the texts, as the page does.
    fn texts(lines: &Lines) -> Vec<String> {
        let mut next = vec![0; lines.templates.len()];
        let text = |number: &u64| {
            let index = usize::try_from(*number).unwrap();
            let template = &lines.templates[index];
            let mut text = Vec::new();
            for byte in &template.text {
                if *byte == GAP {
                    text.extend(template.numbers[next[index]].to_string().into_bytes());
                    next[index] += 1;
                } else {
                    text.push(*byte);
                }
            }
            String::from_utf8(text).unwrap()
        };
        lines.template.iter().map(text).collect()
    }

    #[test]
    fn every_byte_is_a_digit_or_not_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut text = [b'x'; 20];
                text[place] = byte;
                assert_eq!(first_digit(&text), if byte.is_ascii_digit() { place } else { 20 });
            }
        }
    }

    #[test]
    fn texts_come_back_to_the_byte() {
        let given = [
            "",
            "0",
            "%12 = \"ttnn.add\"(%3, %11)",
            "%13 = \"ttnn.add\"(%4, %12)",
            "007 and 0x1F and 1e-05",
            "99999999999999999999 999999999 4294967296",
            "größe 12 </script> 🦀 3",
            "12",
        ];
        let mut lines = Lines::default();
        for text in given {
            lines.push(text);
        }
        assert_eq!(texts(&lines), given);
        assert_eq!(lines.template[2], lines.template[3]);
        assert_eq!(lines.template[1], lines.template[7]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_comes_back(
            given in proptest::collection::vec("[0-9a-c%.\u{0}ü ]{0,12}|\\PC{0,8}", 0..20),
            cut in 0usize..20,
        ) {
            let collect = |texts: &[String]| {
                let mut lines = Lines::default();
                for text in texts {
                    lines.push(text);
                }
                lines
            };
            let (before, after) = given.split_at(cut.min(given.len()));
            let mut lines = collect(before);
            lines.append(collect(after));
            proptest::prop_assert_eq!(texts(&lines), given);
        }
    }
}
