//! Parses tensor types and their layouts, in all spellings since 2024, and computes their sizes.
//!
//! In `tensor<1x32x64xbf16, #ttnn.ttnn_layout<(d0, d1, d2) -> (…), <1x1>, memref<1x2x!ttcore.tile<32x32, bf16>,
//! #ttnn.buffer_type<dram>>, <interleaved>>>`, the shape is logical. The memref is the part of one core or bank (the
//! whole tensor if it is interleaved in DRAM), and its element is the stored type.

use super::brackets::{closing, parts};
use super::view::decimal;

/// A parsed tensor type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedType<'a> {
    pub shape: Vec<u64>,
    /// `bf16`, or the element of the tile if the type contains tiles.
    pub element: &'a [u8],
    /// Shape and element as printed, which are the same in a log and in a module dump.
    pub signature: &'a [u8],
    pub layout: Option<ParsedLayout<'a>>,
}

/// A parsed layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedLayout<'a> {
    pub buffer: &'a [u8],
    /// `interleaved`, `height_sharded` …; `None` on the host.
    pub spread: Option<&'a [u8]>,
    pub grid: Vec<u64>,
    /// The part of one core or bank, in tiles or elements.
    pub shard: Vec<u64>,
    pub stored: &'a [u8],
    pub tile: Option<(u32, u32)>,
}

impl<'a> ParsedType<'a> {
    /// Parses `tensor<…>`. Anything else (`!ttnn.device`, `i32`) is not a tensor.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let inner = text.strip_prefix(b"tensor<")?.strip_suffix(b">")?;
        let mut fields = parts(inner);
        let signature = fields.next()?;
        let (shape, element) = dims(signature)?;
        let element = tile_of(element).map_or(element, |(_, stored)| stored);
        Some(Self { shape, element, signature, layout: fields.next().and_then(ParsedLayout::parse) })
    }
}

impl<'a> ParsedLayout<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let is_layout = text.starts_with(b"#ttnn.ttnn_layout<") || text.starts_with(b"#ttnn.ttnn_nd_layout<");
        if !is_layout {
            return None;
        }
        let open = text.iter().position(|&byte| byte == b'<')?;
        let inner = text.get(open + 1..closing(text, open)?)?;
        let (mut grid, mut memref, mut spread) = (Vec::new(), None, None);
        for part in parts(inner) {
            if let Some(content) = part.strip_prefix(b"memref<") {
                memref = Some(content.strip_suffix(b">")?);
            } else if let Some(content) = part.strip_prefix(b"<").and_then(|part| part.strip_suffix(b">")) {
                // The grid precedes the memref and the distribution follows it; older grids contain maps.
                match (memref, spread) {
                    (None, _) => grid = dims(parts(content).next()?).map_or_else(Vec::new, |(dims, _)| dims),
                    (Some(_), None) => spread = Some(content),
                    (Some(_), Some(_)) => {}
                }
            }
        }
        let mut memref = parts(memref?);
        let (shard, stored) = dims(memref.next()?)?;
        let buffer = buffer_name(memref.last()?);
        let (tile, stored) = tile_of(stored).map_or((None, stored), |(tile, stored)| (Some(tile), stored));
        Some(Self { buffer, spread, grid, shard, stored, tile })
    }
}

/// Parses `2x4xf32` into two dims and an element; `8x8` has only dims.
fn dims(text: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let mut dims = Vec::new();
    let mut rest = text;
    loop {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Some((dims, rest));
        }
        dims.push(decimal(&rest[..digits])?);
        match rest.get(digits) {
            Some(b'x') => rest = &rest[digits + 1..],
            None => return Some((dims, b"")),
            Some(_) => return None,
        }
    }
}

/// Parses `!ttcore.tile<32x32, bf16>` (`!tt.tile` until June 2025) into the tile shape and the stored type.
fn tile_of(element: &[u8]) -> Option<((u32, u32), &[u8])> {
    let dot = element.strip_prefix(b"!")?.iter().position(|&byte| byte == b'.')? + 2;
    let inner = element.get(dot..)?.strip_prefix(b"tile<")?.strip_suffix(b">")?;
    let mut fields = parts(inner);
    let (size, _) = dims(fields.next()?)?;
    let [height, width] = size[..] else { return None };
    // Tiles have up to 32 rows and columns; anything far larger is not a tile.
    let checked = |dim: u64| u32::try_from(dim).ok().filter(|dim| (1..=1024).contains(dim));
    Some(((checked(height)?, checked(width)?), fields.next()?))
}

/// `#ttnn.buffer_type<dram>`, or its alias `#dram` in module dumps.
fn buffer_name(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"#ttnn.buffer_type<").and_then(|inner| inner.strip_suffix(b">")) {
        Some(name) => name,
        None => text.strip_prefix(b"#").unwrap_or(text),
    }
}

/// The bytes of a scalar type; `None` for block formats and unknown types.
pub(crate) fn scalar_bytes(element: &[u8]) -> Option<u64> {
    Some(match element {
        b"f64" | b"i64" | b"si64" | b"ui64" | b"u64" => 8,
        b"f32" | b"i32" | b"si32" | b"ui32" | b"u32" => 4,
        b"bf16" | b"f16" | b"i16" | b"si16" | b"ui16" | b"u16" => 2,
        b"i1" | b"i8" | b"si8" | b"ui8" | b"u8" | b"f8E4M3FN" | b"f8E5M2" => 1,
        _ => return None,
    })
}

/// The bytes of a tile. Block formats share an exponent among 16 values.
pub(crate) fn tile_bytes(element: &[u8], (height, width): (u32, u32)) -> Option<u64> {
    const FACE: u64 = 16;
    let values = u64::from(height).checked_mul(width.into())?;
    if let Some(bytes) = scalar_bytes(element) {
        return values.checked_mul(bytes);
    }
    let mantissas = match element {
        b"bfp_bf8" | b"bfp_f8" => values,
        b"bfp_bf4" | b"bfp_f4" => values / 2,
        b"bfp_bf2" | b"bfp_f2" => values / 4,
        _ => return None,
    };
    // One exponent for each row of each face, rounded up to the alignment of L1.
    let rows_of_faces = u64::from(height) * u64::from(width).div_ceil(FACE);
    Some(mantissas + rows_of_faces.next_multiple_of(16))
}

/// The memory where the runtime keeps a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Dram,
    L1,
    L1Small,
    Trace,
    /// On the host, without device memory.
    Host,
}

impl Place {
    fn of(buffer: &[u8]) -> Option<Self> {
        Some(match buffer {
            b"dram" => Self::Dram,
            b"l1" => Self::L1,
            b"l1_small" => Self::L1Small,
            b"trace" => Self::Trace,
            b"system_memory" => Self::Host,
            _ => return None,
        })
    }

    /// The pool's name in the log.
    pub fn pool(self) -> Option<&'static str> {
        match self {
            Self::Dram => Some("DRAM"),
            Self::L1 => Some("L1"),
            Self::L1Small => Some("L1_SMALL"),
            Self::Trace => Some("TRACE"),
            Self::Host => None,
        }
    }
}

/// The size of a tensor, as far as it is known without the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub place: Place,
    /// The unit of allocation: a tile, or a row.
    page: u64,
    /// Interleaved: all pages; sharded: the pages of one shard.
    pages: u64,
    sharded: bool,
    /// The bytes of the whole tensor, including padding.
    pub padded: u64,
}

/// Device properties that the size rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// 32 bytes on Wormhole, 64 on Blackhole.
    pub dram: u64,
}

impl Footprint {
    /// The bytes that the allocator uses in each of `banks` banks.
    pub fn per_bank(&self, banks: u32, alignment: Alignment) -> Option<u64> {
        const L1_ALIGNMENT: u64 = 16;
        let page_alignment = match self.place {
            Place::Dram | Place::Trace => alignment.dram,
            Place::L1 | Place::L1Small => L1_ALIGNMENT,
            Place::Host => return None,
        };
        let page = self.page.checked_next_multiple_of(page_alignment)?;
        let pages = if self.sharded { self.pages } else { self.pages.div_ceil(u64::from(banks.max(1))) };
        // The allocator uses multiples of the DRAM alignment, in L1 too.
        pages.checked_mul(page)?.checked_next_multiple_of(alignment.dram)
    }
}

impl ParsedType<'_> {
    /// The bytes of the logical elements in the declared type.
    pub fn declared_bytes(&self) -> Option<u64> {
        self.bytes_as(self.element)
    }

    /// The bytes of the logical elements in the stored type, without padding.
    pub fn logical_bytes(&self) -> Option<u64> {
        self.bytes_as(self.layout.as_ref().map_or(self.element, |layout| layout.stored))
    }

    fn bytes_as(&self, element: &[u8]) -> Option<u64> {
        let values = product(&self.shape)?;
        match scalar_bytes(element) {
            Some(bytes) => values.checked_mul(bytes),
            None => {
                let tile = self.layout.as_ref().and_then(|layout| layout.tile).unwrap_or((32, 32));
                let (bytes, per_tile) = (tile_bytes(element, tile)?, u64::from(tile.0) * u64::from(tile.1));
                Some(u64::try_from((u128::from(values) * u128::from(bytes)).div_ceil(per_tile.into())).ok()?)
            }
        }
    }

    /// The logical shape with its last two dims padded to whole tiles.
    pub fn padded_shape(&self) -> Vec<u64> {
        let mut shape = self.shape.clone();
        if let Some((height, width)) = self.layout.as_ref().and_then(|layout| layout.tile) {
            for (dim, tile) in shape.iter_mut().rev().zip([width, height]) {
                *dim = dim.checked_next_multiple_of(u64::from(tile.max(1))).unwrap_or(*dim);
            }
        }
        shape
    }

    /// Where the tensor is kept, even if its size is unknown.
    pub fn place(&self) -> Option<Place> {
        Place::of(self.layout.as_ref()?.buffer)
    }

    /// The size of the tensor if its layout is known.
    pub fn footprint(&self) -> Option<Footprint> {
        let layout = self.layout.as_ref()?;
        let place = Place::of(layout.buffer)?;
        let sharded = layout.spread.is_some_and(|spread| spread.ends_with(b"_sharded"));
        let (page, pages) = match layout.tile {
            Some(tile) => (tile_bytes(layout.stored, tile)?, self.tiles(layout, tile, sharded)?),
            None => self.rows(layout, sharded)?,
        };
        let pieces = if sharded { product(&layout.grid)?.max(1) } else { 1 };
        let padded = page.checked_mul(pages)?.checked_mul(pieces)?;
        Some(Footprint { place, page, pages, sharded, padded })
    }

    /// The tiles of one shard, or of the whole tensor if it is interleaved.
    fn tiles(&self, layout: &ParsedLayout<'_>, tile: (u32, u32), sharded: bool) -> Option<u64> {
        let held = product(&layout.shard)?;
        if sharded {
            return Some(held);
        }
        let needed = self.padded_tiles(tile)?;
        if layout.buffer == b"l1" && product(&layout.grid)? > 1 {
            // If the tensor is distributed over cores, the memref is rounded up, but the tensor is not.
            return Some(needed);
        }
        // IR before 2026 could collapse dims before padding them; the runtime never did.
        Some(held.max(needed))
    }

    fn padded_tiles(&self, (height, width): (u32, u32)) -> Option<u64> {
        let shape = self.padded_shape();
        let columns = shape.last().copied().unwrap_or(1).div_ceil(u64::from(width.max(1)));
        let rows = shape.iter().rev().nth(1).copied().unwrap_or(1).div_ceil(u64::from(height.max(1)));
        let leading = product(&shape[..shape.len().saturating_sub(2)])?;
        columns.checked_mul(rows)?.checked_mul(leading)
    }

    /// Row-major: the bytes of a row and the number of rows.
    fn rows(&self, layout: &ParsedLayout<'_>, sharded: bool) -> Option<(u64, u64)> {
        let element = scalar_bytes(layout.stored)?;
        let spread_over_cores = !sharded && product(&layout.grid)? > 1;
        let dims = if spread_over_cores { &self.shape } else { &layout.shard };
        let (width, rows) = match dims.split_last() {
            Some((width, rows)) => (*width, product(rows)?),
            None => (1, 1),
        };
        Some((width.checked_mul(element)?, rows))
    }
}

fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORMHOLE: Alignment = Alignment { dram: 32 };

    fn per_bank(text: &str, banks: u32) -> Option<u64> {
        ParsedType::parse(text.as_bytes()).unwrap().footprint().unwrap().per_bank(banks, WORMHOLE)
    }

    fn layout_of(layout: &str) -> (Vec<u64>, String, Option<String>, u64) {
        let text = format!("tensor<64x128xf32, {layout}>");
        let ty = ParsedType::parse(text.as_bytes()).unwrap();
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let layout = ty.layout.clone().unwrap();
        (layout.grid, string(layout.buffer), layout.spread.map(string), ty.footprint().unwrap().padded)
    }

    #[test]
    fn every_era_of_the_layout_is_understood() {
        let interleaved = (vec![1, 1], "dram".to_owned(), Some("interleaved".to_owned()), 32768);
        let eras = [
            // 2024-11
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!tt.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>",
            // 2025-03
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, mesh = <\"mesh\">, memref<2x4x!tt.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>",
            // 2025-06
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!tt.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>, true>",
            // 2025-06-29
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>",
            // 2025-11
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>, exactGrid = true, ignorePhysicalLayout = true>",
            // 2026-05
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>, core_ranges = <[#ttnn.core_range<(0,0), (7,0)>]>>",
            "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #dram>, <interleaved>, core_ranges = #ttnn.core_range_set<[#ttnn.core_range<(0,0), (7,0)>]>>",
        ];
        for era in eras {
            assert_eq!(layout_of(era), interleaved, "{era}");
        }
    }

    #[test]
    fn grids_may_carry_maps() {
        let sharded = (vec![8, 8], "l1".to_owned(), Some("block_sharded".to_owned()), 64 * 4096);
        for grid in [
            "<8x8>",
            "<8x8, (d0, d1) -> (0, d0, d1)>",
            "<8x8, virt_to_physical_map = (d0, d1) -> (0, d0, d1), physical_to_virt_map = (d0, d1, d2) -> (d1, d2)>",
        ] {
            let layout = format!(
                "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), {grid}, memref<1x1x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<l1>>, <block_sharded>>"
            );
            assert_eq!(layout_of(&layout), sharded, "{grid}");
        }
    }

    #[test]
    fn nd_layouts_and_the_host_are_understood() {
        let nd = "#ttnn.ttnn_nd_layout<<1x1>, memref<1x1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <block_sharded>, <row_major>, <grid_2d>>";
        assert_eq!(layout_of(nd), (vec![1, 1], "l1".into(), Some("block_sharded".into()), 2048));
        let host = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<64x128xf32, #ttnn.buffer_type<system_memory>>>";
        assert_eq!(layout_of(host), (vec![1, 1], "system_memory".into(), None, 32768));
    }

    #[test]
    fn what_is_no_tensor_is_none_and_a_tensor_may_lack_a_layout() {
        for text in ["!ttnn.device", "i32", "tensor<1x32", "!tt.device<<workerGrid = #tt.grid<8x8>>>"] {
            assert_eq!(ParsedType::parse(text.as_bytes()), None, "{text}");
        }
        let trace = ParsedType::parse(b"tensor<ui32, #ttnn.trace_id>").unwrap();
        assert_eq!((trace.shape.len(), trace.layout.is_none(), trace.logical_bytes()), (0, true, Some(4)));
        let dynamic = ParsedType::parse(b"tensor<?x32xf32>").unwrap();
        assert_eq!(dynamic.logical_bytes(), None);
    }

    #[test]
    fn bytes_of_every_stored_type() {
        for (element, tile) in [
            ("f32", 4096),
            ("u32", 4096),
            ("si32", 4096),
            ("bf16", 2048),
            ("f16", 2048),
            ("u16", 2048),
            ("u8", 1024),
            ("i1", 1024),
            ("bfp_bf8", 1088),
            ("bfp_f8", 1088),
            ("bfp_bf4", 576),
            ("bfp_f4", 576),
            ("bfp_bf2", 320),
            ("bfp_f2", 320),
        ] {
            assert_eq!(tile_bytes(element.as_bytes(), (32, 32)), Some(tile), "{element}");
        }
        assert_eq!(tile_bytes(b"mystery", (32, 32)), None);
    }

    #[test]
    fn what_is_stored_may_be_narrower_than_what_is_declared() {
        let text = "tensor<128x128xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x4x!ttcore.tile<32x32, bfp_bf8>, #dram>, <interleaved>>>";
        let ty = ParsedType::parse(text.as_bytes()).unwrap();
        assert_eq!((ty.declared_bytes(), ty.logical_bytes()), (Some(32768), Some(17408)));
        assert_eq!(ty.footprint().unwrap().padded, 17408);
    }

    #[test]
    fn real_out_of_memory_lines_agree() {
        let tiles = |tiles: u64, element: &str| {
            format!(
                "tensor<32x{0}xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x{tiles}x!ttcore.tile<32x32, {element}>, #ttnn.buffer_type<dram>>, <interleaved>>>",
                tiles * 32
            )
        };
        assert_eq!(per_bank(&tiles(167_772_160 / 4096, "f32"), 12), Some(13_983_744));
        assert_eq!(per_bank(&tiles(71_999_488 / 1088, "bfp_bf8"), 12), Some(6_000_320));
        assert_eq!(per_bank(&tiles(44_493_176_832 / 4096, "f32"), 8), Some(5_561_647_104));
        assert_eq!(per_bank(&tiles(1_244_659_712 / 2048, "bf16"), 12), Some(103_723_008));
    }

    #[test]
    fn row_major_pages_are_aligned_one_by_one() {
        let text = "tensor<512x512x3x3xf32, #ttnn.ttnn_layout<(d0, d1, d2, d3) -> (d0 * 1536 + d1 * 3 + d2, d3), <1x1>, memref<786432x3xf32, #ttnn.buffer_type<dram>>, <interleaved>>>";
        let footprint = ParsedType::parse(text.as_bytes()).unwrap().footprint().unwrap();
        assert_eq!(footprint.padded, 786_432 * 12);
        assert_eq!(footprint.per_bank(7, Alignment { dram: 64 }), Some(112_348 * 64));
    }

    #[test]
    fn spread_over_cores_the_memref_is_rounded_and_the_tensor_is_not() {
        // 64x64 cores of one tile each would be 64; the tensor has 40 tiles.
        let text = "tensor<160x256xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x8>, memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <interleaved>>>";
        let footprint = ParsedType::parse(text.as_bytes()).unwrap().footprint().unwrap();
        assert_eq!((footprint.padded, footprint.per_bank(64, WORMHOLE)), (40 * 2048, Some(2048)));
    }

    #[test]
    fn dims_that_were_collapsed_before_padding_count_as_the_runtime_pads_them() {
        let text = "tensor<1x32x1x128xbf16, #ttnn.ttnn_layout<(d0, d1, d2, d3) -> (d0 * 32 + d1 + d2, d3), <1x1>, memref<1x4x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>>";
        assert_eq!(ParsedType::parse(text.as_bytes()).unwrap().footprint().unwrap().padded, 128 * 2048);
    }

    #[test]
    fn a_tile_of_nothing_is_no_tile() {
        let text = "tensor<1x1x!ttcore.tile<0x0, bfp_bf8>, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1x!ttcore.tile<0x0, bfp_bf8>, #dram>, <interleaved>>>";
        let ty = ParsedType::parse(text.as_bytes()).unwrap();
        assert_eq!((ty.logical_bytes(), ty.footprint()), (None, None));
    }

    #[test]
    fn sizes_that_overflow_are_not_known() {
        let text = "tensor<99999999999x99999999999xf32, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<99999999999x99999999999xf32, #dram>, <interleaved>>>";
        let ty = ParsedType::parse(text.as_bytes()).unwrap();
        assert_eq!((ty.logical_bytes(), ty.footprint()), (None, None));
        assert_eq!(ParsedType::parse(b"tensor<99999999999999999999999xf32>"), None);
    }
}
