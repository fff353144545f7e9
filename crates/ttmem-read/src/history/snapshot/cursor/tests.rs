//! Tests of histories that are read in several snapshots.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::super::entry::action_of;
use super::super::mark::Fingerprint;
use super::super::segments::{BlockState, Segment, SegmentBlock, Segments};
use super::super::stacks::Stacks;
use super::super::{Line, StackIndex};
use super::*;

const SEGMENT: u64 = 1 << 30;
const SEGMENT_BYTES: u64 = 32 << 20;
/// The distance between blocks; no block is larger.
const SLOT: u64 = 8192;

/// What a program does with a slot of memory.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate(u64, u64),
    Free(u64),
    /// Freed while a stream uses it.
    Request(u64),
    Complete(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0_u64..12, 1_u64..16).prop_map(|(slot, granules)| Act::Allocate(slot, granules * 512)),
        2 => (0_u64..12).prop_map(Act::Free),
        1 => (0_u64..12).prop_map(Act::Request),
        2 => (0_u64..12).prop_map(Act::Complete),
    ];
    proptest::collection::vec(act, 1..200)
}

/// An entry as a snapshot has it.
type Raw = (&'static str, u64, u64);

/// An allocator that records its actions.
#[derive(Clone, Debug, Default)]
struct Device {
    entries: Vec<Raw>,
    /// By address: the bytes, and whether the block waits for a stream.
    blocks: BTreeMap<u64, (u64, bool)>,
}

impl Device {
    fn act(&mut self, act: Act) {
        if self.entries.is_empty() {
            self.entries.push(("segment_alloc", SEGMENT, SEGMENT_BYTES));
        }
        let address = |slot: u64| SEGMENT + slot * SLOT;
        match act {
            Act::Allocate(slot, bytes) => {
                if let std::collections::btree_map::Entry::Vacant(free) = self.blocks.entry(address(slot)) {
                    free.insert((bytes, false));
                    self.entries.push(("alloc", address(slot), bytes));
                }
            }
            Act::Free(slot) => self.give_back(address(slot), true),
            Act::Request(slot) => self.give_back(address(slot), false),
            Act::Complete(slot) => {
                if let Some(&(bytes, true)) = self.blocks.get(&address(slot)) {
                    self.blocks.remove(&address(slot));
                    self.entries.push(("free_completed", address(slot), bytes));
                }
            }
        }
    }

    fn give_back(&mut self, address: u64, at_once: bool) {
        let Some((bytes, is_waiting @ false)) = self.blocks.get_mut(&address) else { return };
        *is_waiting = true;
        let bytes = *bytes;
        self.entries.push(("free_requested", address, bytes));
        if at_once {
            self.blocks.remove(&address);
            self.entries.push(("free_completed", address, bytes));
        }
    }

    fn contents(&self) -> Contents {
        let mut segments = Segments::default();
        if !self.entries.is_empty() {
            segments.segment(Segment { address: SEGMENT, total_size: SEGMENT_BYTES, is_expandable: false });
        }
        for (&address, &(bytes, is_waiting)) in &self.blocks {
            let state = if is_waiting { BlockState::PendingFree } else { BlockState::Allocated };
            let (address, requested_size) = (Some(address), Some(bytes));
            segments.block(SegmentBlock { address, size: bytes, requested_size, state, origin: None });
        }
        segments.finish()
    }

    fn allocations(&self, entries: std::ops::Range<usize>) -> usize {
        self.entries[entries].iter().filter(|entry| entry.0 == "alloc").count()
    }
}

/// The entries of a device that the ring buffer still has. Their times are far apart, so they are never confused.
struct Ring<'a> {
    device: &'a Device,
    first: usize,
}

fn time_us(index: usize) -> u64 {
    (index as u64 + 1) * 100_000
}

impl Trace for Ring<'_> {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.device.entries.len() - self.first
    }

    fn time_us(&self, index: usize) -> Result<u64, Infallible> {
        Ok(time_us(self.first + index))
    }

    fn fingerprint(&self, index: usize) -> Result<Fingerprint, Infallible> {
        let (action, address, bytes) = self.device.entries[self.first + index];
        Ok(Fingerprint::new(action, address, bytes))
    }
}

impl Ring<'_> {
    fn entries(&self, first: usize) -> Entries<()> {
        let mut entries = Entries::default();
        for index in self.first + first..self.device.entries.len() {
            let (word, address, bytes) = self.device.entries[index];
            let (action, time_us) = (action_of(word).unwrap(), time_us(index));
            entries.push(Entry { action, address, bytes, time_us, origin: () });
        }
        entries
    }
}

fn ids() -> RowContext {
    let [allocation, other] = [1, 0].map(|index| OpId::new(index).unwrap());
    RowContext { pool: PoolId::new(0).unwrap(), allocation, other, began: 0, now: 7 }
}

fn drain(progress: &mut HistoryCursor, ring: &Ring<'_>) -> Update<()> {
    let (Ok(first), Ok(mark)) = (progress.first_new(ring), Mark::end_of(ring));
    let counted = ring.device.allocations(0..ring.device.entries.len()) as u64;
    progress.advance(ring.entries(first), ring.device.contents(), mark, Some(counted))
}

/// Contents as rows with the same time.
fn said(contents: &Contents) -> Vec<HistoryRow> {
    contents.rows(ids().pool, 0).map(|(row, _)| row).collect()
}

proptest! {
    /// Whatever a program does, whenever its history is read, and whatever the ring buffer loses in between: replaying
    /// the rows yields the contents of memory, and each entry occurs once.
    #[test]
    fn rows_lead_to_what_is_there(
        acts in acts(),
        reads in proptest::collection::btree_set(0_usize..200, 0..6),
        length in 1_usize..60,
    ) {
        let (mut device, mut progress) = (Device::default(), HistoryCursor::default());
        let (mut followed, mut read_until) = (Contents::default(), 0);
        let last = acts.len() - 1;
        for (index, act) in acts.into_iter().enumerate() {
            device.act(act);
            if index != last && !reads.contains(&index) {
                continue;
            }
            let count = device.entries.len();
            let mut first = count.saturating_sub(length);
            let lost = read_until..first.max(read_until);
            // The allocator only counts allocations, so the loss of other entries goes unnoticed.
            if !lost.is_empty() && read_until > 0 && device.allocations(lost) == 0 {
                first = read_until.min(first);
            }
            let update = drain(&mut progress, &Ring { device: &device, first });
            let forgotten = if read_until == 0 { 0 } else { device.allocations(read_until..first.max(read_until)) };
            prop_assert_eq!(update.forgotten, forgotten as u64);
            let rows: Vec<UpdateRow<()>> = update.into_rows(ids()).collect();
            let new: Vec<u64> =
                rows.iter().filter(|row| row.row.op == ids().allocation).map(|row| row.row.time).collect();
            let wanted: Vec<u64> = (first.max(read_until)..count)
                .filter(|&index| device.entries[index].0 == "alloc")
                .map(|index| ids().time(time_us(index)))
                .collect();
            prop_assert_eq!(new, wanted);
            for row in rows {
                followed.apply(&row.row);
            }
            prop_assert_eq!(said(&followed), said(&device.contents()));
            read_until = count;
        }
    }

    /// A block that is freed immediately is one entry. The contents before it can be derived from one entry as from
    /// two.
    #[test]
    fn joined_entries_lead_back_to_the_same_beginning(acts in acts(), cut in 0_usize..200) {
        let (mut device, mut before) = (Device::default(), None);
        for (index, &act) in acts.iter().enumerate() {
            if index == cut {
                before = Some(device.clone());
            }
            device.act(act);
        }
        let before = before.unwrap_or_default();
        let first = before.entries.len();
        let entries = Ring { device: &device, first: 0 }.entries(first);
        let joined = entries.iter().map(|entry| (entry.action, entry.address, entry.bytes));
        let apart = device.entries[first..].iter().map(|&(word, address, bytes)| (action_of(word).unwrap(), address, bytes));
        let (joined, apart) = (device.contents().before(joined), device.contents().before(apart));
        prop_assert_eq!(said(&joined), said(&apart));
        let plain = |contents: &Contents| -> Vec<_> {
            said(contents).into_iter().map(|row| (row.action, row.address, row.bytes)).collect()
        };
        prop_assert_eq!(plain(&joined), plain(&before.contents()));
    }
}

#[test]
fn rows_have_the_call_and_the_stack_of_their_entries() {
    let mut stacks = Stacks::default();
    let line = stacks.add_line(Line { function: "f".into(), file: "a.py".into(), number: 3 }).unwrap();
    let stack = stacks.add(&[line]);
    let entry = |word: &str, stack: Option<StackIndex>, within| {
        let action = action_of(word).unwrap();
        Entry { action, address: 9, bytes: 5, time_us: 4, origin: LiveOrigin { stack, within } }
    };
    let rows = [
        entry("alloc", stack, Within::Call(7)),
        entry("alloc", None, Within::NoCall),
        entry("free_requested", stack, Within::Unknown),
        entry("oom", stack, Within::Unknown),
    ]
    .map(|entry| row_of(entry, ids()));
    let ids = ids();
    assert_eq!(rows.map(|row| row.stack()), [stack, None, None, stack]);
    assert_eq!(rows.map(|row| row.in_call().1), [Some(7), None, None, None]);
    assert_eq!(rows.map(|row| row.row.op), [ids.allocation, ids.allocation, ids.other, ids.allocation]);
    let during = [During::ByTime, During::NoCall, During::ByTime, During::ByTime];
    assert_eq!(rows.map(|row| row.in_call().0.during), during);
    assert_eq!(rows.map(|row| (row.row.time, row.row.block)), [(4500, Bytes::UNKNOWN); 4]);
}

#[test]
fn a_device_without_entries_has_what_its_segments_say() {
    let mut device = Device::default();
    device.act(Act::Allocate(3, 512));
    let mut progress = HistoryCursor::default();
    let update = progress.advance(Entries::<()>::default(), device.contents(), None, None);
    assert!(update.is_empty());
    let rows: Vec<UpdateRow<()>> = update.into_rows(ids()).collect();
    assert_eq!(
        rows.iter().map(|row| row.row.action).collect::<Vec<_>>(),
        [HistoryAction::Reserved, HistoryAction::There]
    );
    assert!(rows.iter().all(|row| row.row.time == ids().now));
    // There are no new entries, and without a count no loss is known.
    let again = progress.advance(Entries::<()>::default(), device.contents(), None, None);
    assert_eq!(again.into_rows(ids()).count(), 0);
}

#[test]
fn times_before_the_recording_are_its_beginning() {
    let ids = RowContext { began: 10_000, ..ids() };
    assert_eq!([ids.time(3), ids.time(10), ids.time(u64::MAX)], [0, 500, u64::MAX - 10_000]);
}
