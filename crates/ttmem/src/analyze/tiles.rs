//! Shapes that fit into tiles: what a tensor could look like to need no padding.

use crate::model::TensorType;

/// A shape near the tensor's own that needs less padding, or none; `None` where there is nothing to save.
///
/// 1. Outer dims folded into the rows: the same elements, `8x1x64` as `1x8x64`.
/// 2. Rows and columns cut anew, where one of them is smaller than a tile: `1024x1` as `32x32`.
/// 3. Each of the two rounded to the nearest whole tile: `50257` as `50272`.
pub fn friendly_shape(ty: &TensorType) -> Option<Vec<u64>> {
    let (height, width) = ty.layout.as_ref()?.tile?;
    let (height, width) = (u64::from(height), u64::from(width));
    if ty.padded.get()? <= ty.logical.get()? || height == 0 || width == 0 {
        return None;
    }
    let tile = Tile { height, width };
    let now = tile.padded(&ty.shape)?;
    let elements = ty.shape.iter().try_fold(1, |all: u64, dim| all.checked_mul(*dim))?;
    let is_worth_it = |shape: &Vec<u64>| {
        // The same elements with at least nine tenths of the padding gone.
        let then = tile.padded(shape).unwrap_or(u64::MAX);
        then < now && (then - elements) <= (now - elements) / 10
    };
    folded(&ty.shape, elements)
        .filter(is_worth_it)
        .or_else(|| tile.cut_anew(&ty.shape, elements).filter(is_worth_it))
        .or_else(|| tile.rounded(&ty.shape))
}

struct Tile {
    height: u64,
    width: u64,
}

impl Tile {
    /// How many elements a shape takes with its last two dims padded; `None` beyond all measure.
    fn padded(&self, shape: &[u64]) -> Option<u64> {
        let (outer, rows, columns) = parts(shape);
        let whole = |dim: u64, tile: u64| dim.div_ceil(tile).checked_mul(tile);
        let outer = outer.iter().try_fold(1, |all: u64, dim| all.checked_mul(*dim))?;
        outer.checked_mul(whole(rows, self.height)?)?.checked_mul(whole(columns, self.width)?)
    }

    fn cut_anew(&self, shape: &[u64], elements: u64) -> Option<Vec<u64>> {
        let (_, rows, columns) = parts(shape);
        let is_small = rows < self.height || columns < self.width;
        (is_small && elements.is_multiple_of(self.width))
            .then(|| with_last(shape, elements / self.width, self.width))
    }

    fn rounded(&self, shape: &[u64]) -> Option<Vec<u64>> {
        let nearest = |dim: u64, tile: u64| (dim.checked_add(tile / 2)? / tile).max(1).checked_mul(tile);
        let (_, rows, columns) = parts(shape);
        let mut rounded = shape.to_vec();
        *rounded.last_mut()? = nearest(columns, self.width)?;
        if let Some(index) = shape.len().checked_sub(2) {
            rounded[index] = nearest(rows, self.height)?;
        }
        (rounded != shape).then_some(rounded)
    }
}

/// Outer dims folded into the rows.
fn folded(shape: &[u64], elements: u64) -> Option<Vec<u64>> {
    let (outer, _, columns) = parts(shape);
    let rows = elements.checked_div(columns)?;
    (outer.iter().any(|dim| *dim > 1)).then(|| with_last(shape, rows, columns))
}

/// Outer dims, rows and columns; a vector has one row.
fn parts(shape: &[u64]) -> (&[u64], u64, u64) {
    match shape {
        [outer @ .., rows, columns] => (outer, *rows, *columns),
        [columns] => (&[], 1, *columns),
        [] => (&[], 1, 1),
    }
}

/// A shape of as many dims, with everything in the last two.
fn with_last(shape: &[u64], rows: u64, columns: u64) -> Vec<u64> {
    let mut whole = vec![1; shape.len().saturating_sub(2)];
    whole.extend([rows, columns]);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, Layout, StrId};

    fn friendly(shape: &[u64]) -> Option<Vec<u64>> {
        let text = StrId::new(0).unwrap();
        let layout = Layout {
            buffer: text,
            spread: None,
            stored_dtype: text,
            tile: Some((32, 32)),
            grid: vec![],
            shard: vec![],
            padded_shape: vec![],
        };
        let bytes = |elements: u64| Bytes::known(elements * 2);
        friendly_shape(&TensorType {
            text: None,
            shape: shape.to_vec(),
            dtype: text,
            declared: Bytes::UNKNOWN,
            logical: bytes(shape.iter().product()),
            padded: bytes(Tile { height: 32, width: 32 }.padded(shape).unwrap()),
            layout: Some(layout),
        })
    }

    #[test]
    fn what_fits_needs_no_other_shape() {
        assert_eq!(friendly(&[64, 96]), None);
        assert_eq!(friendly(&[7, 32, 32]), None);
    }

    #[test]
    fn outer_dims_are_folded_into_the_rows() {
        assert_eq!(friendly(&[8, 64, 1, 128]), Some(vec![1, 1, 512, 128]));
        assert_eq!(friendly(&[32, 1, 64]), Some(vec![1, 32, 64]));
    }

    #[test]
    fn thin_tensors_are_cut_anew() {
        assert_eq!(friendly(&[1024, 1]), Some(vec![32, 32]));
        assert_eq!(friendly(&[4096]), Some(vec![128, 32]));
    }

    #[test]
    fn all_else_is_rounded_to_whole_tiles() {
        assert_eq!(friendly(&[50257, 768]), Some(vec![50272, 768]));
        assert_eq!(friendly(&[1, 33, 65]), Some(vec![1, 32, 64]));
        assert_eq!(friendly(&[7]), Some(vec![32]));
        assert_eq!(friendly(&[]), None);
    }
}
