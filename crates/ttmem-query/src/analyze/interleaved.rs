//! The size of a tensor per bank with another shape or narrower elements.
//!
//! The size is only computed for tensors whose current size is understood: whole tiles, interleaved over all banks.

use ttmem_model::TensorType;

use super::tiles;

/// The size of a 32x32 tile of bfp_bf8: one byte per value, and one exponent per 16 values.
const BFP8_TILE: u64 = 1024 + 64;

/// The tiles of a tensor that is interleaved over all banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved {
    tiles: u64,
    tile_bytes: u64,
    banks: u64,
}

impl Interleaved {
    /// The tiles of a tensor that takes `per_bank` bytes of each bank; `None` if it has another layout.
    pub fn new(ty: &TensorType, per_bank: u64, banks: u32) -> Option<Self> {
        let tiles = tiles::count(ty, &ty.shape)?;
        let padded = ty.padded.get()?;
        let tile_bytes = padded.checked_div(tiles)?;
        let now = Self { tiles, tile_bytes, banks: u64::from(banks) };
        let is_all = padded == tiles.checked_mul(tile_bytes)? && now.per_bank(tiles, tile_bytes)? == per_bank;
        is_all.then_some(now)
    }

    fn per_bank(&self, tiles: u64, tile_bytes: u64) -> Option<u64> {
        (self.banks > 0).then(|| tiles.div_ceil(self.banks).checked_mul(tile_bytes))?
    }

    fn saved(&self, tiles: u64, tile_bytes: u64) -> Option<u64> {
        let (now, then) = (self.per_bank(self.tiles, self.tile_bytes)?, self.per_bank(tiles, tile_bytes)?);
        now.checked_sub(then).filter(|saved| *saved > 0)
    }

    /// The bytes per bank that another shape would save.
    pub fn saved_as(&self, ty: &TensorType, shape: &[u64]) -> Option<u64> {
        self.saved(tiles::count(ty, shape)?, self.tile_bytes)
    }

    /// The bytes per bank that elements of half the width would save: bf16 instead of f32.
    pub fn saved_by_halves(&self) -> Option<u64> {
        self.saved(self.tiles, self.tile_bytes / 2)
    }

    /// The bytes per bank that bfp_bf8 would save instead of bf16; `None` for tiles of another size.
    pub fn saved_by_bfp8(&self) -> Option<u64> {
        if self.tile_bytes == 2048 { self.saved(self.tiles, BFP8_TILE) } else { None }
    }
}
