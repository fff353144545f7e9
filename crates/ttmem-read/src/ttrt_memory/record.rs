//! One record, as it is written. Versions differ in how they nest and name the numbers.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use ttmem_model::{Block, Reading};

use crate::json::Number;

/// An operation and the pools after it.
#[derive(Debug, Deserialize)]
pub(super) struct Record<'a> {
    #[serde(borrow, default)]
    pub loc: Cow<'a, str>,
    #[serde(borrow, default)]
    pub debug_str: Cow<'a, str>,
    pub dram: Option<View>,
    pub l1: Option<View>,
    pub l1_small: Option<View>,
    pub trace: Option<View>,
}

/// The usage of a pool. Early files have one view per device; the first one is used.
#[derive(Debug, Default)]
pub(super) struct View {
    banks: Number,
    total: Number,
    allocated: Number,
    free: Number,
    largest: Number,
    blocks: Vec<BlockRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlockRow {
    address: Number,
    size: Number,
    allocated: Flag,
}

/// `yes` or `no`.
#[derive(Debug, Default)]
struct Flag(bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(value == true || matches!(value.as_str(), Some("yes" | "true" | "1")) || value == 1))
    }
}

impl View {
    /// The number of banks and the usage of one; `None` if the view has neither.
    pub fn numbers(&self) -> Option<(u32, Reading)> {
        let banks = u32::try_from(self.banks.get()?).ok()?;
        let allocated = self.allocated.get()?;
        let reading = Reading {
            allocated: Some(allocated),
            free: self.free.get(),
            largest_free: self.largest.get(),
            capacity: self.total.get(),
            ..Reading::default()
        };
        Some((banks, reading))
    }

    /// The blocks of a bank, ordered by address.
    pub fn into_blocks(self) -> Vec<Block> {
        let block = |row: &BlockRow| {
            Some(Block { address: row.address.get()?, size: row.size.get()?, allocated: row.allocated.0 })
        };
        let mut blocks: Vec<Block> = self.blocks.iter().filter_map(block).collect();
        blocks.sort_unstable_by_key(|block| block.address);
        blocks
    }
}

impl<'de> Deserialize<'de> for View {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ViewVisitor)
    }
}

struct ViewVisitor;

impl<'de> Visitor<'de> for ViewVisitor {
    type Value = View;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a view of a pool")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<View, A::Error> {
        let mut view = View::default();
        while let Some(key) = object.next_key::<Cow<'de, str>>()? {
            match &*key {
                "num_banks" => view.banks = object.next_value()?,
                "total_bytes_per_bank"
                | "bytes_allocatable_per_bank"
                | "total_bytes_allocatable_per_bank" => {
                    view.total = object.next_value()?;
                }
                "total_bytes_allocated_per_bank" | "bytes_allocated_per_bank" => {
                    view.allocated = object.next_value()?;
                }
                "total_bytes_free_per_bank" | "bytes_free_per_bank" => view.free = object.next_value()?,
                "largest_contiguous_bytes_free_per_bank" | "largest_free_block_bytes_per_bank" => {
                    view.largest = object.next_value()?;
                }
                "block_table" => view.blocks = object.next_value()?,
                "device_0" => view = object.next_value()?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_all_eras() {
        let flat = r#"{"num_banks": 12, "total_bytes_per_bank": 1000, "total_bytes_allocated_per_bank": 64,
            "total_bytes_free_per_bank": 936, "largest_contiguous_bytes_free_per_bank": 900, "block_table": [
            {"blockID": "1", "address": "64", "size": "936", "prevID": "0", "nextID": "-1", "allocated": "no"},
            {"blockID": "0", "address": "0", "size": "64", "prevID": "-1", "nextID": "1", "allocated": "yes"}]}"#;
        let nested = format!(r#"{{"device_0": {flat}, "device_1": {{"num_banks": 1}}}}"#);
        for text in [flat, nested.as_str()] {
            let view: View = serde_json::from_str(text).unwrap();
            let (banks, reading) = view.numbers().unwrap();
            assert_eq!((banks, reading.allocated, reading.largest_free), (12, Some(64), Some(900)));
            let blocks = view.into_blocks();
            assert_eq!(blocks[0], Block { address: 0, size: 64, allocated: true });
            assert_eq!(blocks[1], Block { address: 64, size: 936, allocated: false });
        }
        assert!(serde_json::from_str::<View>("{}").unwrap().numbers().is_none());
    }
}
