//! The longest common subsequence of two short lists.
//!
//! This is the algorithm of Hyyrö (2004): it adds a row to the table of lengths 64 columns at a time, whatever the lists have
//! in common. Bit `i` of a row is 0 if the first `i + 1` items of the first list have one more item in common with the second
//! list, up to that row, than the first `i` ones.

use rustc_hash::FxHashMap;

use super::Both;

const BITS: usize = u64::BITS as usize;

/// The rows of a table. The columns are those of the first list, and the rows those of the second one.
struct Table {
    rows: Vec<u64>,
    /// The words of a row.
    width: usize,
}

impl Table {
    fn of(lists: Both<&[u64]>) -> Self {
        let width = lists.before.len().div_ceil(BITS);
        let columns = Columns::of(lists.before, width);
        let mut table = Self { rows: Vec::with_capacity(width * lists.after.len()), width };
        let mut row = vec![u64::MAX; width];
        for item in lists.after {
            let mut carry = false;
            for (word, equal) in row.iter_mut().zip(columns.with(*item)) {
                let both = *word & equal;
                let (sum, carries) = word.overflowing_add(both);
                let (sum, carries_too) = sum.overflowing_add(carry.into());
                carry = carries || carries_too;
                *word = sum | (*word - both);
            }
            table.rows.extend_from_slice(&row);
        }
        table
    }

    /// Whether the items up to a column have one more item in common with those up to a row than the items before the column.
    fn has_one_more(&self, row: usize, column: usize) -> bool {
        self.rows[row * self.width + column / BITS] >> (column % BITS) & 1 == 0
    }
}

/// For each item of a list, the bits of its columns.
struct Columns {
    bits: Vec<u64>,
    starts: FxHashMap<u64, usize>,
    width: usize,
}

impl Columns {
    fn of(list: &[u64], width: usize) -> Self {
        // The first ones are those of an item that the list does not have.
        let mut columns = Self { bits: vec![0; width], starts: FxHashMap::default(), width };
        for (column, item) in list.iter().enumerate() {
            let start = *columns.starts.entry(*item).or_insert(columns.bits.len());
            if start == columns.bits.len() {
                columns.bits.resize(start + width, 0);
            }
            columns.bits[start + column / BITS] |= 1 << (column % BITS);
        }
        columns
    }

    fn with(&self, item: u64) -> &[u64] {
        let start = self.starts.get(&item).copied().unwrap_or(0);
        &self.bits[start..start + self.width]
    }
}

/// The words of the table for two lists of some lengths. Time and memory grow with it.
pub(super) fn table_words(lens: Both<usize>) -> usize {
    lens.before.div_ceil(BITS).saturating_mul(lens.after)
}

/// The longest common subsequence, as the indexes of its items, the last ones first.
pub(super) fn common(lists: Both<&[u64]>) -> Vec<Both<usize>> {
    let mut pairs = Vec::new();
    if lists.before.is_empty() {
        return pairs;
    }
    let table = Table::of(lists);
    let (mut before, mut after) = (lists.before.len(), lists.after.len());
    while before > 0 && after > 0 {
        if !table.has_one_more(after - 1, before - 1) {
            before -= 1;
        } else if after > 1 && table.has_one_more(after - 2, before - 1) {
            after -= 1;
        } else {
            (before, after) = (before - 1, after - 1);
            pairs.push(Both { before, after });
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The length, by the usual table.
    fn length(before: &[u64], after: &[u64]) -> usize {
        let mut row = vec![0; before.len() + 1];
        for item in after {
            let mut diagonal = 0;
            for (index, other) in before.iter().enumerate() {
                let above = row[index + 1];
                row[index + 1] = if item == other { diagonal + 1 } else { above.max(row[index]) };
                diagonal = above;
            }
        }
        row[before.len()]
    }

    proptest! {
        #[test]
        fn the_longest_common_subsequence_is_found(
            before in prop::collection::vec(0..6_u64, 0..200),
            after in prop::collection::vec(0..6_u64, 0..200),
        ) {
            let pairs = common(Both { before: &before, after: &after });
            prop_assert!(pairs.iter().all(|pair| before[pair.before] == after[pair.after]));
            let descends = |two: &[Both<usize>]| two[1].before < two[0].before && two[1].after < two[0].after;
            prop_assert!(pairs.windows(2).all(descends));
            prop_assert_eq!(pairs.len(), length(&before, &after));
        }
    }
}
