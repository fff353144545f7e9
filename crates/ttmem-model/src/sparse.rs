//! Columns whose values are usually the default.

use std::ops::{Index, IndexMut};

/// A column of a table. Nothing is stored for the rows after the last value that is not the default, so a column that an
/// input does not have takes no memory.
#[derive(Clone, Debug, Default)]
pub struct Sparse<T> {
    values: Vec<T>,
    len: usize,
    default: T,
}

impl<T: Copy + Default + PartialEq> Sparse<T> {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, value: T) {
        if value != self.default {
            self.values.resize(self.len, self.default);
            self.values.push(value);
        }
        self.len += 1;
    }

    /// Does nothing: values are seldom stored.
    #[allow(clippy::unused_self, reason = "the other columns reserve memory")]
    pub(crate) fn reserve_exact(&mut self, _rows: usize) {}

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether all rows have the default value.
    pub fn is_default(&self) -> bool {
        self.values.iter().all(|value| *value == self.default)
    }

    /// The value of a row, if there is one.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&T> {
        (row < self.len).then(|| self.values.get(row).unwrap_or(&self.default))
    }

    /// All values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + Clone {
        (0..self.len).map(|row| &self[row])
    }

    /// The number of rows before the first one that does not satisfy a condition, if those that do come first.
    pub fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut from, mut until) = (0, self.len);
        while from < until {
            let middle = from.midpoint(until);
            if is_before(&self[middle]) {
                from = middle + 1;
            } else {
                until = middle;
            }
        }
        from
    }
}

impl<T: Copy + Default + PartialEq> Index<usize> for Sparse<T> {
    type Output = T;

    #[inline]
    fn index(&self, row: usize) -> &T {
        assert!(row < self.len, "row {row} of {}", self.len);
        self.values.get(row).unwrap_or(&self.default)
    }
}

impl<T: Copy + Default + PartialEq> IndexMut<usize> for Sparse<T> {
    fn index_mut(&mut self, row: usize) -> &mut T {
        assert!(row < self.len, "row {row} of {}", self.len);
        if self.values.len() <= row {
            self.values.resize(row + 1, self.default);
        }
        &mut self.values[row]
    }
}

impl<T: Copy + Default + PartialEq> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Copy + Default + Eq> Eq for Sparse<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn column<T: Copy + Default + PartialEq>(values: &[T]) -> Sparse<T> {
        let mut column = Sparse::default();
        for value in values {
            column.push(*value);
        }
        column
    }

    #[test]
    fn only_values_up_to_the_last_that_is_not_the_default_are_stored() {
        let mut column = column(&[0, 0, 7, 0, 0]);
        assert_eq!(
            (column.iter().copied().collect::<Vec<_>>(), column.values.len()),
            (vec![0, 0, 7, 0, 0], 3)
        );
        assert_eq!((column.get(4), column.get(5), column[1]), (Some(&0), None, 0));
        column[4] = 0;
        let same = self::column(&[0, 0, 7, 0, 0]);
        assert_eq!(column, same);
        column[0] = 1;
        assert_ne!(column, same);
        assert!(!column.is_default() && self::column(&[0, 0]).is_default());
        assert!(Sparse::<u8>::default().is_empty());
    }

    #[test]
    fn a_condition_splits_the_rows() {
        let column = column(&[1_u64, 2, 4, 8]);
        for (limit, wanted) in [(0, 0), (1, 0), (2, 1), (5, 3), (9, 4)] {
            assert_eq!(column.partition_point(|value| *value < limit), wanted, "{limit}");
        }
    }
}
