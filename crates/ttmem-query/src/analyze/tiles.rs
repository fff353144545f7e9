//! Shapes that fit into tiles with little or no padding.

use ttmem_model::TensorType;

/// A shape close to the tensor's shape that needs less padding; `None` if there is none.
///
/// 1. A shape with the same elements, see [`same_elements`].
/// 2. If that does not help, rows and columns rounded to the nearest whole tile: `50257x768` as `50272x768`.
pub fn friendly_shape(ty: &TensorType) -> Option<Vec<u64>> {
    if let Some(shape) = same_elements(ty) {
        return Some(shape);
    }
    // A shape of another size is only proposed if it has almost no padding.
    let (tile, now, elements) = padded_now(ty)?;
    let rounded = tile.rounded(&ty.shape)?;
    let then = tile.padded(&rounded)?.saturating_sub(product(&rounded)?);
    (then <= (now - elements) / 10).then_some(rounded)
}

/// A shape with the same elements that needs less padding.
///
/// Outer dimensions are folded into the rows (`32x1x64` as `1x32x64`), which keeps the columns. If more than 10%
/// padding remains and the rows or columns are smaller than a tile, rows and columns are redistributed (`1024x1` as
/// `32x32`) if that takes less.
pub fn same_elements(ty: &TensorType) -> Option<Vec<u64>> {
    let (tile, now, elements) = padded_now(ty)?;
    let folded = folded(&ty.shape, elements);
    let is_enough = |shape: &Vec<u64>| {
        tile.padded(shape).is_some_and(|padded| padded.saturating_sub(elements) <= elements / 10)
    };
    let redistributed =
        if folded.as_ref().is_some_and(is_enough) { None } else { tile.redistributed(&ty.shape, elements) };
    let best = [folded, redistributed].into_iter().flatten().min_by_key(|shape| tile.padded(shape))?;
    (tile.padded(&best)? < now).then_some(best)
}

/// The number of tiles that a tensor would have in a shape; `None` if its layout is not tiled.
pub fn count(ty: &TensorType, shape: &[u64]) -> Option<u64> {
    let tile = Tile::of(ty)?;
    tile.padded(shape)?.checked_div(tile.height.checked_mul(tile.width)?)
}

/// The tile of a padded tensor, and the number of its elements with and without padding.
fn padded_now(ty: &TensorType) -> Option<(Tile, u64, u64)> {
    if ty.padded.get()? <= ty.logical.get()? {
        return None;
    }
    let tile = Tile::of(ty)?;
    let (padded, elements) = (tile.padded(&ty.shape)?, product(&ty.shape)?);
    (padded >= elements).then_some((tile, padded, elements))
}

fn product(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1, |all: u64, dim| all.checked_mul(*dim))
}

struct Tile {
    height: u64,
    width: u64,
}

impl Tile {
    fn of(ty: &TensorType) -> Option<Self> {
        let (height, width) = ty.layout.as_ref()?.tile?;
        (height > 0 && width > 0).then(|| Self { height: height.into(), width: width.into() })
    }

    /// The number of elements of a shape with its last two dimensions padded; `None` if it overflows.
    fn padded(&self, shape: &[u64]) -> Option<u64> {
        let (outer, rows, columns) = parts(shape);
        let whole = |dim: u64, tile: u64| dim.div_ceil(tile).checked_mul(tile);
        product(outer)?.checked_mul(whole(rows, self.height)?)?.checked_mul(whole(columns, self.width)?)
    }

    fn redistributed(&self, shape: &[u64], elements: u64) -> Option<Vec<u64>> {
        let (_, rows, columns) = parts(shape);
        let is_small = rows < self.height || columns < self.width;
        (is_small && elements.is_multiple_of(self.width))
            .then(|| with_last(shape, elements / self.width, self.width))
    }

    fn rounded(&self, shape: &[u64]) -> Option<Vec<u64>> {
        // A dimension smaller than a tile is not rounded: one row would become 32.
        let nearest = |dim: u64, tile: u64| match dim {
            0.. if dim < tile => Some(dim),
            _ => (dim.checked_add(tile / 2)? / tile).checked_mul(tile),
        };
        let (_, rows, columns) = parts(shape);
        let mut rounded = shape.to_vec();
        *rounded.last_mut()? = nearest(columns, self.width)?;
        if let Some(index) = shape.len().checked_sub(2) {
            rounded[index] = nearest(rows, self.height)?;
        }
        (rounded != shape).then_some(rounded)
    }
}

/// The shape with its outer dimensions folded into the rows.
fn folded(shape: &[u64], elements: u64) -> Option<Vec<u64>> {
    let (outer, _, columns) = parts(shape);
    let rows = elements.checked_div(columns)?;
    (outer.iter().any(|dim| *dim > 1)).then(|| with_last(shape, rows, columns))
}

/// Outer dimensions, rows and columns; a vector has one row.
fn parts(shape: &[u64]) -> (&[u64], u64, u64) {
    match shape {
        [outer @ .., rows, columns] => (outer, *rows, *columns),
        [columns] => (&[], 1, *columns),
        [] => (&[], 1, 1),
    }
}

/// A shape with the same number of dimensions and all elements in the last two.
fn with_last(shape: &[u64], rows: u64, columns: u64) -> Vec<u64> {
    let mut whole = vec![1; shape.len().saturating_sub(2)];
    whole.extend([rows, columns]);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::{Bytes, Layout, StrId};

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
    fn a_shape_without_padding_is_kept() {
        assert_eq!(friendly(&[64, 96]), None);
        assert_eq!(friendly(&[7, 32, 32]), None);
    }

    #[test]
    fn outer_dimensions_are_folded_into_the_rows() {
        assert_eq!(friendly(&[8, 64, 1, 128]), Some(vec![1, 1, 512, 128]));
        assert_eq!(friendly(&[32, 1, 64]), Some(vec![1, 32, 64]));
        assert_eq!(friendly(&[3, 20, 64]), Some(vec![1, 60, 64]));
        // A little padding remains, but the 8192 columns are kept.
        assert_eq!(friendly(&[3, 21, 8192]), Some(vec![1, 63, 8192]));
    }

    #[test]
    fn thin_tensors_are_redistributed() {
        assert_eq!(friendly(&[1024, 1]), Some(vec![32, 32]));
        assert_eq!(friendly(&[4096]), Some(vec![128, 32]));
        assert_eq!(friendly(&[64, 1, 4]), Some(vec![1, 8, 32]));
    }

    #[test]
    fn other_shapes_are_rounded_to_whole_tiles() {
        assert_eq!(friendly(&[50257, 768]), Some(vec![50272, 768]));
        assert_eq!(friendly(&[1, 33, 65]), Some(vec![1, 32, 64]));
    }

    #[test]
    fn a_shape_that_saves_nothing_is_not_proposed() {
        for shape in [&[7][..], &[], &[50257], &[1, 1000], &[31, 31], &[0, 5]] {
            assert_eq!(friendly(shape), None, "{shape:?}");
        }
    }

    #[test]
    fn tiles_are_unknown_without_a_tile_layout() {
        let ty = crate::analyze::tests::tiled(&[3, 33, 64]);
        assert_eq!((count(&ty, &ty.shape), count(&ty, &[7]), count(&ty, &[])), (Some(12), Some(1), Some(1)));
        assert_eq!(count(&ty, &[0, 5]), Some(0));
        // The number of elements overflows.
        assert_eq!(count(&ty, &[u64::MAX, 2]), None);
        assert_eq!(count(&ty, &[1 << 40, 1 << 40]), None);
        let with = |tile| {
            let layout = ty.layout.clone().map(|layout| Layout { tile, ..layout });
            let ty = TensorType { layout, ..ty.clone() };
            (count(&ty, &ty.shape), friendly_shape(&ty))
        };
        assert_eq!(with(Some((32, 64))), (Some(6), Some(vec![1, 99, 64])));
        for no_tile in [None, Some((0, 32)), Some((32, 0))] {
            assert_eq!(with(no_tile), (None, None));
        }
        let unknown =
            |padded, logical| friendly_shape(&TensorType { padded, logical, ..ty.clone() }).is_some();
        assert!(unknown(ty.padded, ty.logical));
        assert!(!unknown(Bytes::UNKNOWN, ty.logical) && !unknown(ty.padded, Bytes::UNKNOWN));
        assert!(!unknown(ty.logical, ty.logical));
    }

    #[test]
    fn a_rounded_shape_does_not_have_the_same_elements() {
        let same = |shape: &[u64]| same_elements(&crate::analyze::tests::tiled(shape));
        assert_eq!(same(&[32, 1, 64]), Some(vec![1, 32, 64]));
        assert_eq!(same(&[50257, 768]), None);
    }

    proptest::proptest! {
        #[test]
        fn a_proposed_shape_has_less_padding(shape in proptest::collection::vec(1u64..200, 1..5)) {
            let tile = Tile { height: 32, width: 32 };
            let padding = |shape: &[u64]| tile.padded(shape).unwrap() - shape.iter().product::<u64>();
            if let Some(proposed) = friendly(&shape) {
                proptest::prop_assert!(padding(&proposed) < padding(&shape), "{proposed:?}");
                proptest::prop_assert_eq!(proposed.len().max(2), shape.len().max(2));
            }
        }
    }
}
