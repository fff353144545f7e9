//! One node of a capture, as it is written. Old captures have all parameters as text, new ones have numbers. A node
//! without parameters has an empty object, or null since ttnn 0.77.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use ttmem_model::CoreRanges;

use crate::json::Number;
#[cfg(feature = "sqlite")]
use crate::tt_log::types::{scalar_bytes, tile_bytes};

/// A node, without the fields that the reader does not use.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Node<'a> {
    #[serde(default)]
    pub counter: Number,
    #[serde(borrow, rename = "node_type")]
    pub kind: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub params: Params<'a>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub connections: Vec<Number>,
    /// The tensors that a function uses; older captures do not have them.
    #[serde(default)]
    pub input_tensors: Option<Vec<Number>>,
    #[serde(default)]
    pub stacking_level: Number,
    /// The arguments of a function, as written.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// The parameters of all kinds of nodes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    pub size: Number,
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    pub buffer_type: Number,
    pub address: Number,
    #[serde(borrow)]
    pub layout: Text<'a>,
    pub page_size: Number,
    pub num_cores: Number,
    pub max_size_per_bank: Number,
    #[serde(borrow)]
    pub core_range_set: Text<'a>,
    pub globally_allocated: Number,
    pub borrows_memory: Number,
    #[serde(borrow)]
    pub shape: Text<'a>,
    #[serde(borrow)]
    pub dtype: Text<'a>,
    #[serde(borrow)]
    pub tensor_id: Text<'a>,
    #[serde(borrow)]
    pub memory_config: Text<'a>,
    pub device_id: Number,
    pub sub_device_manager_id: Number,
    #[serde(borrow)]
    pub sub_devices: Text<'a>,
    /// The function that creates a device operation's program.
    #[serde(borrow)]
    pub program_factory_type: Text<'a>,
    pub program_cache_hit: Number,
    /// A function ended with an exception.
    pub aborted: Number,
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A text; a value of another type is kept as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(if flag { "true" } else { "false" })))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Text<'de>, A::Error> {
        Ok(Text(Value::deserialize(SeqAccessDeserializer::new(list))?.to_string().into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Text<'de>, A::Error> {
        Ok(Text(Value::deserialize(MapAccessDeserializer::new(object))?.to_string().into()))
    }
}

/// The numbers of a shape: `Shape([1, 1, 32, 64])`, `ttnn.Shape([32])`, `[1, 2]`.
pub(crate) fn shape(text: &str) -> Option<Vec<u64>> {
    let inside = text.split_once('[')?.1.split_once(']')?.0.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// The element type by its usual name (`bf16`); unknown types as written.
pub(crate) fn element(text: &str) -> &str {
    match text.strip_prefix("DataType::").or(text.strip_prefix("DataType.")).unwrap_or(text) {
        "BFLOAT16" => "bf16",
        "FLOAT32" => "f32",
        "BFLOAT8_B" => "bfp_bf8",
        "BFLOAT4_B" => "bfp_bf4",
        "INT32" => "si32",
        "UINT32" => "u32",
        "UINT16" => "u16",
        "UINT8" => "u8",
        other => other,
    }
}

/// Whether a tensor has a tile layout.
pub(crate) fn is_tiled(layout: &str) -> bool {
    layout.ends_with("TILE")
}

/// The shape with its last two dimensions rounded up to whole tiles.
pub(crate) fn padded(shape: &[u64], is_tiled: bool) -> Vec<u64> {
    const TILE: u64 = 32;
    let mut padded = shape.to_vec();
    let last_two = padded.len().saturating_sub(2);
    for side in padded.iter_mut().skip(last_two).filter(|_| is_tiled) {
        *side = side.checked_next_multiple_of(TILE).unwrap_or(*side);
    }
    padded
}

/// The size of a tensor with padding; `None` if the element type is unknown.
#[cfg(feature = "sqlite")]
pub(crate) fn padded_bytes(shape: &[u64], dtype: &str, is_tiled: bool) -> Option<u64> {
    let elements = |shape: &[u64]| shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side));
    if is_tiled && shape.len() < 2 {
        return None;
    }
    if is_tiled {
        let tile = tile_bytes(dtype.as_bytes(), (32, 32))?;
        (elements(&padded(shape, true))? / 1024).checked_mul(tile)
    } else {
        elements(shape)?.checked_mul(scalar_bytes(dtype.as_bytes())?)
    }
}

/// How a tensor is distributed, from its memory configuration: `memory_layout=TensorMemoryLayout::BLOCK_SHARDED`.
#[cfg(feature = "sqlite")]
pub(crate) fn memory_layout(memory_config: &str) -> Option<&'static str> {
    let name = memory_config.split_once("TensorMemoryLayout::")?.1;
    spread(name.split(|end: char| !end.is_ascii_alphanumeric() && end != '_').next()?)
}

/// The cores of a sharded tensor, from its memory configuration:
/// `shard_spec=ShardSpec{grid=[{"start":{"x":0,"y":0},"end":{"x":3,"y":1}], shape=[64, 32], …}`.
pub(crate) fn shard_cores(memory_config: &str) -> Option<CoreRanges> {
    let grid = memory_config.split_once("shard_spec=ShardSpec")?.1.split_once("grid=")?.1;
    let end = ["shape=", "shard_shape"].iter().filter_map(|word| grid.find(word)).min()?;
    CoreRanges::parse(&grid[..end])
}

/// The usual name of a buffer's distribution.
pub(crate) fn spread(layout: &str) -> Option<&'static str> {
    match layout.rsplit("::").next().unwrap_or(layout) {
        "INTERLEAVED" => Some("interleaved"),
        "HEIGHT_SHARDED" => Some("height_sharded"),
        "WIDTH_SHARDED" => Some("width_sharded"),
        "BLOCK_SHARDED" => Some("block_sharded"),
        "ND_SHARDED" | "UNKNOWN" => Some("nd_sharded"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_parameters_are_one() {
        let old = r#"{"counter": 3, "node_type": "buffer_allocate", "connections": [2], "arguments": [],
            "params": {"size": "2048", "address": "1024", "type": "L1", "layout": "INTERLEAVED", "num_cores": "0"}}"#;
        let new = r#"{"counter": 3, "node_type": "buffer_allocate", "connections": [2], "stacking_level": 1,
            "params": {"size": 2048, "address": 1024, "type": "L1", "layout": "INTERLEAVED", "num_cores": 0,
            "max_size_per_bank": 64, "something_new": {"a": [1]}}}"#;
        for (text, per_bank) in [(old, None), (new, Some(64))] {
            let node: Node<'_> = serde_json::from_str(text).unwrap();
            assert_eq!((node.params.size.get(), node.params.address.get()), (Some(2048), Some(1024)));
            assert_eq!(node.params.max_size_per_bank.get(), per_bank);
            assert_eq!((&*node.kind.0, &*node.params.kind.0), ("buffer_allocate", "L1"));
        }
    }

    #[test]
    fn what_is_null_is_as_if_it_were_not_there() {
        let text = r#"{"arguments": null, "connections": null, "counter": 0, "input_tensors": null,
            "node_type": "capture_start", "params": null, "stacking_level": null}"#;
        let node: Node<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(
            (&*node.kind.0, node.counter.get(), node.connections.len()),
            ("capture_start", Some(0), 0)
        );
        assert_eq!((&*node.params.name.0, node.params.size), ("", Number::Missing));
        for params in ["7", "\"text\""] {
            let text = format!(r#"{{"counter": 0, "node_type": "buffer", "params": {params}}}"#);
            assert!(serde_json::from_str::<Node<'_>>(&text).is_err(), "{params}");
        }
    }

    #[test]
    fn a_core_range_may_be_text_or_a_list() {
        let cores = |text: &str| serde_json::from_str::<Text<'_>>(text).unwrap().0.into_owned();
        assert_eq!(cores(r#""{[(x=0,y=0) - (x=7,y=7)]}""#), "{[(x=0,y=0) - (x=7,y=7)]}");
        assert_eq!(cores(r#"[{"start":{"x":0}}]"#), r#"[{"start":{"x":0}}]"#);
    }

    #[test]
    fn shapes_and_elements_of_all_eras() {
        assert_eq!(shape("ttnn.Shape([1, 1, 32, 64])"), Some(vec![1, 1, 32, 64]));
        assert_eq!(shape("Shape([])"), Some(Vec::new()));
        assert_eq!(shape("Shape([1, x])"), None);
        assert_eq!((element("DataType::BFLOAT16"), element("DataType.FP8_E4M3")), ("bf16", "FP8_E4M3"));
        assert!(is_tiled("Layout::TILE") && !is_tiled("Layout::ROW_MAJOR"));
    }
}
