//! A compact copy of a trace's entries, 12 bytes each.
//!
//! A trace that was placed while it was read no longer needs its entries, unless the end of the file shows that it must be
//! placed together with others. They are kept like this until then.

use ttmem_model::HistoryAction;

use super::trace::OriginIndex;
use crate::history::snapshot::Entry;

/// Entries of a trace.
#[derive(Debug)]
pub(super) struct Packed {
    rows: Vec<Row>,
    /// The entries with a number that is too large for a row, with their indexes. Their rows are 0.
    others: Vec<(usize, Entry<OriginIndex>)>,
}

/// The numbers of an entry.
type Row = [u8; 12];

/// Their bits, from the lowest to the highest: the action, the origin, the difference of the time to that of the entry
/// before, the size, and the difference of the address in blocks.
const BITS: [u32; 5] = [4, 18, 16, 30, 28];

/// Allocators return addresses that are multiples of this size.
const BLOCK_BITS: u32 = 9;

/// What is added to differences, so that small ones are positive: half of what a row has room for.
const TIME_BIAS: u64 = 1 << 15;
const ADDRESS_BIAS: u64 = 1 << (27 + BLOCK_BITS);

impl Packed {
    /// Packs entries.
    pub fn new(entries: &[Entry<OriginIndex>]) -> Self {
        let mut packed = Self { rows: Vec::with_capacity(entries.len()), others: Vec::new() };
        let mut before = (0, 0);
        for (index, entry) in entries.iter().enumerate() {
            let row = row(entry, before);
            if row.is_none() {
                packed.others.push((index, *entry));
            }
            packed.rows.push(row.unwrap_or_default());
            before = (entry.address, entry.time_us);
        }
        packed
    }

    /// The entries.
    pub fn unpack(&self) -> Vec<Entry<OriginIndex>> {
        let (mut others, mut before) = (self.others.iter().peekable(), (0, 0));
        let entry = |(index, row): (usize, &Row)| {
            let other = others.next_if(|(other, _)| *other == index).map(|(_, entry)| *entry);
            let entry = other.or_else(|| entry(*row, before))?;
            before = (entry.address, entry.time_us);
            Some(entry)
        };
        self.rows.iter().enumerate().filter_map(entry).collect()
    }
}

/// The row of an entry after one with an address and a time; `None` if a number is too large.
#[inline]
fn row(entry: &Entry<OriginIndex>, (address, time_us): (u64, u64)) -> Option<Row> {
    let passed = entry.time_us.wrapping_sub(time_us).wrapping_add(TIME_BIAS);
    let moved = entry.address.wrapping_sub(address).wrapping_add(ADDRESS_BIAS);
    // The lowest bits of other addresses make the number too large.
    let moved = moved.rotate_right(BLOCK_BITS);
    let numbers = [entry.action as u64, entry.origin.0.into(), passed, entry.bytes, moved];
    let (mut row, mut from, mut excess) = (0_u128, 0, 0);
    for (number, bits) in numbers.into_iter().zip(BITS) {
        row |= u128::from(number) << from;
        excess |= number >> bits;
        from += bits;
    }
    let row = row.to_le_bytes().first_chunk().copied();
    row.filter(|_| excess == 0)
}

/// The entry of a row after one with an address and a time.
fn entry(row: Row, (address, time_us): (u64, u64)) -> Option<Entry<OriginIndex>> {
    let mut numbers = [0; BITS.len()];
    let mut bytes = [0; 16];
    bytes[..row.len()].copy_from_slice(&row);
    let mut rest = u128::from_le_bytes(bytes);
    for (number, bits) in numbers.iter_mut().zip(BITS) {
        *number = u64::try_from(rest & ((1 << bits) - 1)).ok()?;
        rest >>= bits;
    }
    let [action, origin, passed, bytes, moved] = numbers;
    Some(Entry {
        action: *HistoryAction::ALL.get(usize::try_from(action).ok()?)?,
        address: address.wrapping_add(moved.rotate_left(BLOCK_BITS)).wrapping_sub(ADDRESS_BIAS),
        bytes,
        time_us: time_us.wrapping_add(passed).wrapping_sub(TIME_BIAS),
        origin: OriginIndex(u32::try_from(origin).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry<OriginIndex>> {
        let number = || {
            prop_oneof![
                4 => 0_u64..300,
                4 => (0_u64..1 << 29).prop_map(|block| block << BLOCK_BITS),
                1 => any::<u64>(),
                1 => Just(u64::MAX),
            ]
        };
        let action = proptest::sample::select(HistoryAction::ALL.to_vec());
        let origin = prop_oneof![4 => 0_u32..300, 1 => any::<u32>()];
        (action, number(), number(), number(), origin).prop_map(
            |(action, address, bytes, time_us, origin)| Entry {
                action,
                address,
                bytes,
                time_us,
                origin: OriginIndex(origin),
            },
        )
    }

    proptest! {
        #[test]
        fn unpacked_entries_are_those_that_were_packed(entries in proptest::collection::vec(entry(), 0..40)) {
            prop_assert_eq!(Packed::new(&entries).unpack(), entries);
        }
    }

    #[test]
    fn entries_of_a_program_are_small_enough() {
        let entries: Vec<_> = (0..1000)
            .map(|index| Entry {
                action: HistoryAction::ALL[index % HistoryAction::ALL.len()],
                address: 0x7f5e_0000_0000 + 512 * (index as u64 * 7 % 1000),
                bytes: 80 << 20,
                time_us: 1_794_702_759_000_000 + index as u64 * 11,
                origin: OriginIndex(300),
            })
            .collect();
        let packed = Packed::new(&entries);
        // Nothing is before the first one.
        assert_eq!(packed.others.len(), 1);
        assert_eq!(BITS.iter().sum::<u32>() as usize, 8 * size_of::<Row>());
    }
}
