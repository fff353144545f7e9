//! What was there before the first thing that a history still knows: found from its end, backwards.

use std::collections::BTreeMap;

use super::tiling::Tiling;
use crate::model::HistoryAction;

/// Something that lies in an allocator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the program asked for.
    pub bytes: u64,
    /// What it takes, where that is known.
    pub block: Option<u64>,
    /// The program has given it back, and a stream may still use it.
    pub is_waiting: bool,
}

/// What there is in an allocator's memory at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Its segments: how large each is, and whether it grows.
    pub segments: BTreeMap<u64, (u64, bool)>,
    /// What lies in them.
    pub blocks: BTreeMap<u64, Block>,
}

/// What there was before the first of `rows` (what was done, where, and how much), when there is `end` after the last.
pub fn beginning<I>(end: Beginning, rows: I) -> Beginning
where
    I: DoubleEndedIterator<Item = (HistoryAction, u64, u64)>,
{
    let Beginning { segments, mut blocks } = end;
    let mut tiling = Tiling::default();
    for (address, (bytes, grows)) in segments {
        tiling.reserve(address, bytes, grows);
    }
    for (action, address, bytes) in rows.rev() {
        match action {
            HistoryAction::Reserved | HistoryAction::Mapped => tiling.release(address, bytes),
            HistoryAction::Released => tiling.reserve(address, bytes, false),
            HistoryAction::Unmapped => tiling.reserve(address, bytes, true),
            HistoryAction::Allocated => {
                blocks.remove(&address);
            }
            HistoryAction::Freed => {
                blocks.insert(address, Block { bytes, block: None, is_waiting: false });
            }
            HistoryAction::FreeCompleted => {
                blocks.insert(address, Block { bytes, block: None, is_waiting: true });
            }
            HistoryAction::FreeRequested => {
                // One that is there in the end waited all the time.
                blocks.entry(address).or_insert(Block { bytes, block: None, is_waiting: true }).is_waiting =
                    false;
            }
            HistoryAction::There
            | HistoryAction::OutOfMemory
            | HistoryAction::Forgotten
            | HistoryAction::Highest => {}
        }
    }
    Beginning { segments: tiling.segments(), blocks }
}
