//! Logs in UTF-16, which PowerShell writes for `program > model.log`. They begin with a byte order mark.

use std::io::{self, BufRead, BufReader, Read};

/// The size of the parts that are converted at a time.
const PART: usize = 1 << 18;

/// The order of the bytes of a code unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The order of a text that begins with a byte order mark.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            // Four bytes: the mark of UTF-32 begins like that of UTF-16.
            [0xff, 0xfe, 0, 0, ..] => None,
            [0xff, 0xfe, ..] => Some(Self::Little),
            [0xfe, 0xff, ..] => Some(Self::Big),
            _ => None,
        }
    }

    fn unit(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }
}

/// A text in UTF-16 as UTF-8. Invalid characters are replaced.
pub(crate) struct Utf8<R> {
    stream: BufReader<R>,
    order: ByteOrder,
    /// Units that are not converted yet: the first half of a character.
    units: Vec<u16>,
    /// The first byte of a unit.
    half: Option<u8>,
    text: Vec<u8>,
    /// How much of the text was read.
    read: usize,
}

impl<R: Read> Utf8<R> {
    pub fn new(stream: R, order: ByteOrder) -> Self {
        let stream = BufReader::with_capacity(PART, stream);
        Self { stream, order, units: Vec::new(), half: None, text: Vec::new(), read: 0 }
    }

    /// Converts the next part. Returns whether there was one.
    fn next(&mut self) -> io::Result<bool> {
        let part = self.stream.fill_buf()?;
        let (len, is_end) = (part.len(), part.is_empty());
        for &byte in part {
            match self.half.take() {
                None => self.half = Some(byte),
                Some(first) => self.units.push(self.order.unit([first, byte])),
            }
        }
        self.stream.consume(len);
        let is_first_half = |unit: &mut u16| (0xd800..0xdc00).contains(unit);
        let open = self.units.pop_if(|unit| !is_end && is_first_half(unit));
        self.text.clear();
        self.read = 0;
        for character in char::decode_utf16(self.units.drain(..)) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            // The byte order mark is not text.
            if character != '\u{feff}' {
                self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        self.units.extend(open);
        Ok(!is_end)
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.text.len() {
            if !self.next()? && self.text.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.text.len() - self.read);
        buffer[..count].copy_from_slice(&self.text[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.0.len()).min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn converted(stream: impl Read, order: ByteOrder) -> String {
        let mut text = String::new();
        Utf8::new(stream, order).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn both_byte_orders_are_read_in_parts_of_any_size() {
        let text = "CUDA out of memory. – 内存不足 🦀\r\n".repeat(3);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes =
                |unit: u16| if order == ByteOrder::Little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            let log: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect();
            assert_eq!(ByteOrder::of(&log), Some(order));
            assert_eq!(converted(log.as_slice(), order), text);
            assert_eq!(converted(Trickle(&log), order), text);
        }
        let text = "🦀".repeat(PART);
        let log: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(converted(log.as_slice(), ByteOrder::Little), text);
    }

    #[test]
    fn invalid_text_is_replaced() {
        let text = |units: &[u16], rest: &[u8]| {
            let bytes: Vec<u8> =
                units.iter().flat_map(|unit| unit.to_le_bytes()).chain(rest.iter().copied()).collect();
            converted(bytes.as_slice(), ByteOrder::Little)
        };
        assert_eq!(text(&[0xdc00, 0x61], b""), "\u{fffd}a");
        assert_eq!(text(&[0x61, 0xd800], b""), "a\u{fffd}");
        assert_eq!(text(&[0x61], b"b"), "a");
        assert_eq!(text(&[], b""), "");
    }

    #[test]
    fn other_files_are_not_utf_16() {
        for head in [&b""[..], b"\xff", b"\xef\xbb\xbfCUDA", b"\x80\x04", b"\xff\xfe\0\0C\0\0\0", b"CUDA"] {
            assert_eq!(ByteOrder::of(head), None, "{head:?}");
        }
    }
}
