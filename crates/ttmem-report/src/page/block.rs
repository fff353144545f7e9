//! A data block of the page: a JSON header and packed columns.
//!
//! Unpacked, a block consists of the length of the JSON (four bytes, little-endian), the JSON, and the bytes of the
//! columns in the order of the JSON's `columns`. A column is transformed before compression:
//!
//! 1. If neighbors are close to each other, each number is replaced by its zigzag-encoded difference from the previous
//!    one (0, −1, 1, −2 … as 0, 1, 2, 3 …).
//! 2. If there are few distinct numbers, they are listed once, in eight bytes each, and replaced by their index.
//! 3. Each number takes as many bytes as the largest needs (none if all are 0). The lowest bytes of all numbers come
//!    first, then the next higher ones, so that the compressor sees long runs.
//!
//! The block is compressed with zlib, which browsers can decompress natively, and encoded as base64, so that nothing in
//! a log can close a script element.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use rustc_hash::FxHashMap;
use serde::Serialize;
use ttmem_query::timeline::{Column, Kind, Pattern};

/// A larger dictionary costs more than it saves.
const LARGEST_DICTIONARY: usize = 1 << 16;

/// A block under construction.
#[derive(Debug, Default)]
pub(super) struct Block {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

/// The encoding of a column.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    kind: &'static str,
    rows: usize,
    width: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delta: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dictionary: Option<usize>,
}

#[derive(Serialize)]
struct Head<'a, T> {
    columns: &'a [Entry],
    #[serde(flatten)]
    about: &'a T,
}

impl Block {
    /// Joins several blocks.
    pub fn joined(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            all.entries.extend(part.entries);
            all.bytes.extend(part.bytes);
        }
        all
    }

    /// Adds a column.
    pub fn add(&mut self, column: Column) {
        let Column { name, kind, pattern, mut values } = column;
        let delta = matches!(pattern, Pattern::Ascending | Pattern::RepeatingSteps);
        if delta {
            to_differences(&mut values);
        }
        let repeats = matches!(pattern, Pattern::Repeating | Pattern::RepeatingSteps);
        let dictionary = if repeats { to_places(&mut values) } else { None };
        if let Some(words) = &dictionary {
            self.add_planes(words, 8);
        }
        let width = width_of(values.iter().copied().max().unwrap_or(0));
        self.add_planes(&values, width);
        self.entries.push(Entry {
            name,
            kind: match kind {
                Kind::Number => "number",
                Kind::Maybe => "maybe",
                Kind::Size => "size",
                Kind::Signed => "signed",
            },
            rows: values.len(),
            width,
            delta,
            dictionary: dictionary.map(|words| words.len()),
        });
    }

    /// Adds uncompressed bytes.
    pub fn add_bytes(&mut self, name: &str, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let (name, rows) = (name.to_owned(), bytes.len());
        self.entries.push(Entry { name, kind: "bytes", rows, width: 1, delta: false, dictionary: None });
    }

    fn add_planes(&mut self, values: &[u64], width: usize) {
        for plane in 0..width {
            self.bytes.extend(values.iter().map(|value| value.to_le_bytes()[plane]));
        }
    }

    /// The block as it is embedded in the page, with its JSON header.
    pub fn pack(&self, about: &impl Serialize) -> serde_json::Result<String> {
        let json = serde_json::to_vec(&Head { columns: &self.entries, about })?;
        let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::new(LEVEL));
        let bytes = packer
            .write_all(&length.to_le_bytes())
            .and_then(|()| packer.write_all(&json))
            .and_then(|()| packer.write_all(&self.bytes))
            .and_then(|()| packer.finish());
        Ok(STANDARD.encode(bytes.map_err(serde_json::Error::io)?))
    }
}

/// The compression level. Low, because the transformations save most, and writing should be fast.
const LEVEL: u32 = 2;

fn to_differences(values: &mut [u64]) {
    let mut before = 0u64;
    for value in values {
        let change = value.wrapping_sub(before).cast_signed();
        before = *value;
        *value = (change.cast_unsigned() << 1) ^ (change >> 63).cast_unsigned();
    }
}

/// Replaces numbers by their index in a list of the distinct ones, if there are few.
fn to_places(values: &mut [u64]) -> Option<Vec<u64>> {
    let mut places: FxHashMap<u64, u64> = FxHashMap::default();
    let mut words = Vec::new();
    for value in values.iter() {
        places.entry(*value).or_insert_with(|| {
            words.push(*value);
            words.len() as u64 - 1
        });
        if words.len() > LARGEST_DICTIONARY {
            return None;
        }
    }
    if words.len() * 4 > values.len() {
        return None;
    }
    for value in values {
        *value = places[value];
    }
    Some(words)
}

/// The number of bytes that a number needs.
fn width_of(largest: u64) -> usize {
    (64 - largest.leading_zeros()).div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(pattern: Pattern, values: &[u64]) -> Column {
        Column { name: "x".into(), kind: Kind::Number, pattern, values: values.to_vec() }
    }

    #[test]
    fn numbers_stand_in_planes_of_bytes() {
        let mut block = Block::default();
        block.add(column(Pattern::Scattered, &[1, 0x203, 4]));
        assert_eq!(block.bytes, [1, 3, 4, 0, 2, 0]);
        assert_eq!((block.entries[0].rows, block.entries[0].width), (3, 2));
    }

    #[test]
    fn neighbors_become_differences() {
        let mut block = Block::default();
        block.add(column(Pattern::Ascending, &[1000, 1001, 1000, 1002]));
        assert_eq!(block.bytes, [208, 2, 1, 4, 7, 0, 0, 0]);
        assert!(block.entries[0].delta);
    }

    #[test]
    fn what_repeats_is_listed_once() {
        let mut block = Block::default();
        let values: Vec<u64> = [7, 7, 1 << 40, 7].repeat(4);
        block.add(column(Pattern::Repeating, &values));
        assert_eq!(block.entries[0].dictionary, Some(2));
        assert_eq!(block.bytes.len(), 2 * 8 + 16);
        assert_eq!(block.bytes[16..], [0, 0, 1, 0].repeat(4));
    }

    #[test]
    fn nothing_but_zeros_takes_nothing() {
        let mut block = Block::default();
        block.add(column(Pattern::Scattered, &[0; 100]));
        assert_eq!((block.bytes.len(), block.entries[0].width), (0, 0));
    }
}
