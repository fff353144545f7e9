//! Tensor types: shape, data type, layout and size.
//!
//! `dialect.rs` has the spelling of types in a log.

use std::rc::Rc;

use super::chip::{Chip, Pool};

/// Rows and columns of a tile.
const TILE: u64 = 32;

/// A shared tensor type; many values have the same one.
pub type Tensor = Rc<TensorType>;

/// Data types, of elements and of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DType {
    F32,
    Bf16,
    Si32,
    U32,
    U16,
    BfpBf8,
    BfpBf4,
}

impl DType {
    /// The name inside a tile.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Si32 => "si32",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::BfpBf8 => "bfp_bf8",
            Self::BfpBf4 => "bfp_bf4",
        }
    }

    /// MLIR's builtin scalar type; block floats have none.
    pub fn scalar(self) -> Option<&'static str> {
        match self {
            Self::U32 => Some("ui32"),
            Self::U16 => Some("ui16"),
            Self::BfpBf8 | Self::BfpBf4 => None,
            other => Some(other.name()),
        }
    }

    /// The name as a tensor element, also used in the truth.
    pub fn element_name(self) -> &'static str {
        self.scalar().unwrap_or(self.name())
    }

    /// Bytes of a 32x32 tile; block floats add one shared exponent for every 16 elements.
    fn tile_bytes(self) -> u64 {
        match self {
            Self::F32 | Self::Si32 | Self::U32 => 4096,
            Self::Bf16 | Self::U16 => 2048,
            Self::BfpBf8 => 1088,
            Self::BfpBf4 => 576,
        }
    }

    /// The size of this many elements without padding.
    fn bytes(self, elements: u64) -> u64 {
        (elements * self.tile_bytes()).div_ceil(TILE * TILE)
    }
}

/// The sharding of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Into this many groups of rows.
    Height(u64),
    /// Into this many groups of columns.
    Width(u64),
    /// Into rows times columns of blocks.
    Block(u64, u64),
}

impl Cut {
    /// The number of shards in rows and columns.
    pub fn grid(self) -> (u64, u64) {
        match self {
            Self::Height(shards) => (shards, 1),
            Self::Width(shards) => (1, shards),
            Self::Block(rows, columns) => (rows, columns),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Height(_) => "height_sharded",
            Self::Width(_) => "width_sharded",
            Self::Block(..) => "block_sharded",
        }
    }
}

/// The location of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory, not in a pool of the device.
    Host,
    /// Pages interleaved over the DRAM banks.
    Dram,
    /// Pages interleaved over the L1 banks.
    L1,
    /// One shard per core.
    L1Sharded(Cut),
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    pub shape: Vec<u64>,
    /// The element type in the program.
    pub element: DType,
    /// The storage type, which determines the size.
    pub storage: DType,
    /// In tiles, or row by row.
    pub tiled: bool,
    pub place: Place,
}

impl TensorType {
    fn new(shape: &[u64], dtype: DType, tiled: bool, place: Place) -> Self {
        Self { shape: shape.to_vec(), element: dtype, storage: dtype, tiled, place }
    }

    /// Tiles in DRAM, interleaved.
    pub fn dram(shape: &[u64], dtype: DType) -> Tensor {
        Rc::new(Self::new(shape, dtype, true, Place::Dram))
    }

    /// Rows in DRAM, interleaved.
    pub fn dram_rows(shape: &[u64], dtype: DType) -> Tensor {
        Rc::new(Self::new(shape, dtype, false, Place::Dram))
    }

    /// Rows in host memory.
    pub fn host(shape: &[u64], dtype: DType) -> Tensor {
        Rc::new(Self::new(shape, dtype, false, Place::Host))
    }

    /// Tiles in host memory.
    pub fn host_tiles(shape: &[u64], dtype: DType) -> Tensor {
        Rc::new(Self::new(shape, dtype, true, Place::Host))
    }

    /// Tiles in L1, interleaved.
    pub fn l1(shape: &[u64], dtype: DType) -> Tensor {
        Rc::new(Self::new(shape, dtype, true, Place::L1))
    }

    /// Tiles in L1, sharded.
    pub fn sharded(shape: &[u64], dtype: DType, cut: Cut) -> Tensor {
        Rc::new(Self::new(shape, dtype, true, Place::L1Sharded(cut)))
    }

    /// The same tensor with another storage type, as compilers do to save memory.
    pub fn stored_as(&self, storage: DType) -> Tensor {
        Rc::new(Self { storage, ..self.clone() })
    }

    /// The same tensor in another place.
    pub fn placed(&self, place: Place) -> Tensor {
        Rc::new(Self { place, ..self.clone() })
    }

    /// The same bytes with another shape.
    pub fn shaped(&self, shape: &[u64]) -> Tensor {
        Rc::new(Self { shape: shape.to_vec(), ..self.clone() })
    }

    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// `2x32x64`, as in the truth and in types.
    pub fn shape_text(&self) -> String {
        self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
    }

    /// The last two dimensions, the first of them padded if the tensor is tiled.
    pub fn matrix(&self) -> (u64, u64) {
        let (&columns, leading) = self.shape.split_last().expect("tensors here have at least one dimension");
        let rows = leading.last().copied().unwrap_or(1);
        (if self.tiled { rows.next_multiple_of(TILE) } else { rows }, columns)
    }

    /// The rows and columns of the whole tensor in units: tiles, or elements if it is not tiled.
    pub fn units(&self) -> (u64, u64) {
        let (rows, columns) = self.matrix();
        let batches: u64 = self.shape.iter().rev().skip(2).product();
        if self.tiled { (batches * rows / TILE, columns.div_ceil(TILE)) } else { (batches * rows, columns) }
    }

    /// The rows and columns per core, in units; those of the whole tensor in DRAM and on the host.
    pub fn shard(&self, chip: Chip) -> (u64, u64) {
        let (rows, columns) = self.units();
        match self.place {
            Place::Host | Place::Dram => (rows, columns),
            Place::L1 => (1, (rows * columns).div_ceil(chip.banks(Pool::L1))),
            Place::L1Sharded(cut) => {
                let (down, across) = cut.grid();
                (rows.div_ceil(down), columns.div_ceil(across))
            }
        }
    }

    /// The pool of the tensor, if it is on the device.
    pub fn pool(&self) -> Option<Pool> {
        match self.place {
            Place::Host => None,
            Place::Dram => Some(Pool::Dram),
            Place::L1 | Place::L1Sharded(_) => Some(Pool::L1),
        }
    }

    fn unit_bytes(&self) -> u64 {
        if self.tiled { self.storage.tile_bytes() } else { self.storage.bytes(1) }
    }

    /// The size without padding, in the storage type.
    pub fn logical_bytes(&self) -> u64 {
        self.storage.bytes(self.elements())
    }

    /// The size without padding, in the declared type: bf16, although block floats may be stored.
    pub fn declared_bytes(&self) -> u64 {
        self.element.bytes(self.elements())
    }

    /// The size with the padding of tiles and shards, but not of banks.
    pub fn padded_bytes(&self) -> u64 {
        let (rows, columns) = match self.place {
            Place::Host | Place::Dram | Place::L1 => self.units(),
            Place::L1Sharded(cut) => {
                let ((rows, columns), (down, across)) = (self.units(), cut.grid());
                (rows.next_multiple_of(down), columns.next_multiple_of(across))
            }
        };
        rows * columns * self.unit_bytes()
    }

    /// The bytes per bank of the tensor's pool; 0 on the host.
    pub fn per_bank(&self, chip: Chip) -> u64 {
        let Some(pool) = self.pool() else { return 0 };
        let (rows, columns) =
            if let Place::L1Sharded(_) = self.place { self.shard(chip) } else { self.units() };
        let (pages, page) = if self.tiled {
            (rows * columns, self.unit_bytes())
        } else {
            (rows, columns * self.unit_bytes())
        };
        let pages = match self.place {
            Place::L1Sharded(_) => pages,
            _ => pages.div_ceil(chip.banks(pool)),
        };
        (pages * page.next_multiple_of(chip.page_alignment(pool))).next_multiple_of(chip.block_alignment())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, DType, TensorType};
    use crate::tt::chip::Chip;

    #[test]
    fn per_bank_bytes_are_those_of_real_out_of_memory_lines() {
        // 167772160 B in 4096 B pages on 12 banks (tt-xla#4760), 71999488 B in 1088 B pages (tt-metal#21904),
        // 1244659712 B in 2048 B pages (tt-xla#5535).
        let f32 = TensorType::dram(&[1280 * 32, 32 * 32], DType::F32);
        assert_eq!((f32.padded_bytes(), f32.per_bank(Chip::Wormhole)), (167_772_160, 13_983_744));
        let bfp = TensorType::dram(&[66_176 * 32, 32], DType::BfpBf8);
        assert_eq!((bfp.padded_bytes(), bfp.per_bank(Chip::Wormhole)), (71_999_488, 6_000_320));
        let bf16 = TensorType::dram(&[607_744 * 32, 32], DType::Bf16);
        assert_eq!((bf16.padded_bytes(), bf16.per_bank(Chip::Wormhole)), (1_244_659_712, 103_723_008));
    }

    #[test]
    fn rows_are_aligned_page_by_page() {
        let ids = TensorType::dram_rows(&[32, 1], DType::Si32);
        assert_eq!((ids.logical_bytes(), ids.padded_bytes()), (128, 128));
        assert_eq!((ids.per_bank(Chip::Wormhole), ids.per_bank(Chip::BlackholeP100)), (3 * 32, 5 * 64));
    }

    #[test]
    fn tiles_pad_the_last_two_dimensions() {
        let norm = TensorType::dram(&[1, 32, 16, 4096], DType::F32);
        assert_eq!(norm.units(), (32, 128));
        assert_eq!((norm.logical_bytes(), norm.padded_bytes()), (8_388_608, 16_777_216));
        assert_eq!(norm.per_bank(Chip::BlackholeP100), 2_400_256);
        assert_eq!(TensorType::dram(&[512], DType::F32).units(), (1, 16));
    }

    #[test]
    fn shards_are_counted_per_core() {
        let block = TensorType::sharded(&[1, 32, 2048], DType::Bf16, Cut::Block(1, 8));
        assert_eq!(block.shard(Chip::Wormhole), (1, 8));
        assert_eq!((block.per_bank(Chip::Wormhole), block.padded_bytes()), (16_384, 131_072));
        let uneven = TensorType::sharded(&[96, 64], DType::BfpBf8, Cut::Height(2));
        assert_eq!((uneven.padded_bytes(), uneven.per_bank(Chip::BlackholeP150)), (8 * 1088, 4 * 1088));
        let spread = TensorType::l1(&[512, 512], DType::Bf16);
        assert_eq!((spread.shard(Chip::Wormhole), spread.per_bank(Chip::Wormhole)), ((1, 4), 8192));
    }
}
