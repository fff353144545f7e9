//! Replays allocators in a second thread, ahead of the placing of their rows. Replaying takes about as long as placing.

use std::sync::mpsc::sync_channel;
use std::thread::scope;

use ttmem_model::{History, HistoryChunk, HistoryRow};

use super::device::{Change, Device, Effect};

/// The number of chunks of rows that are replayed ahead.
const AHEAD: usize = 1;

/// Passes the rows of a history to a function, each with the change that it makes. Rows of unknown pools are skipped.
/// Returns the devices after the last row.
///
/// Each row that creates a tensor must create only that one.
pub(super) fn replay_ahead(
    mut devices: Vec<Device>,
    history: History,
    mut place: impl FnMut(&HistoryRow, Change),
) -> Vec<Device> {
    scope(|scope| {
        let (sender, replayed) = sync_channel::<(HistoryChunk, Vec<Option<Change>>)>(AHEAD);
        // Lists are used again: memory that another thread frees would only be reused much later.
        let (used, returned) = sync_channel::<Vec<Option<Change>>>(AHEAD + 1);
        let replaying = scope.spawn(move || {
            let mut next = 0;
            for chunk in history.into_chunks() {
                let mut changes = returned.try_recv().unwrap_or_default();
                changes.extend(chunk.iter().map(|row| {
                    let change = devices.get_mut(row.pool.index())?.change(&row, next);
                    next += usize::from(matches!(change.effect, Effect::New(_)));
                    Some(change)
                }));
                if sender.send((chunk, changes)).is_err() {
                    break;
                }
            }
            devices
        });
        for (chunk, mut changes) in replayed {
            for (row, change) in chunk.iter().zip(changes.drain(..)) {
                if let Some(change) = change {
                    place(&row, change);
                }
            }
            let _ = used.try_send(changes);
        }
        replaying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use ttmem_model::{AllocatorRules, Bytes, During, HistoryAction, OpId, PoolId};

    use super::*;

    /// Rows of two pools, among them frees of memory that was not allocated, and failed allocations.
    fn rows(count: u64) -> Vec<HistoryRow> {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let actions = [
            HistoryAction::Allocated,
            HistoryAction::Allocated,
            HistoryAction::Freed,
            HistoryAction::FreeRequested,
            HistoryAction::FreeCompleted,
            HistoryAction::OutOfMemory,
        ];
        let mut row = |time| HistoryRow {
            pool: PoolId::new(usize::try_from(next(2)).unwrap()).unwrap(),
            action: if time < 2 {
                HistoryAction::Reserved
            } else {
                actions[usize::try_from(next(6)).unwrap()]
            },
            address: if time < 2 { 0 } else { next(64) << 20 },
            bytes: if time < 2 { 64 << 20 } else { next(3 << 20) },
            block: Bytes::UNKNOWN,
            op: OpId::new(0).unwrap(),
            during: During::ByTime,
            time,
        };
        (0..count).map(&mut row).collect()
    }

    #[test]
    fn changes_are_those_of_a_replay_in_one_thread() {
        let devices = || vec![Device::new(AllocatorRules::default()), Device::new(AllocatorRules::default())];
        // More than fit into the chunks that are replayed ahead.
        let rows = rows(100_000);
        let mut history = History::default();
        for row in &rows {
            history.push(*row);
        }
        let mut found = Vec::new();
        let ahead = replay_ahead(devices(), history, |row, change| found.push((*row, change)));
        let (mut plain, mut tensors, mut failed) = (devices(), 0, 0);
        for (row, (found, change)) in rows.iter().zip(&found) {
            let wanted = plain[row.pool.index()].change(row, tensors);
            assert_eq!((row, &wanted), (found, change));
            tensors += usize::from(matches!(wanted.effect, Effect::New(_)));
            failed += usize::from(wanted.free.is_some());
        }
        assert_eq!(found.len(), rows.len());
        assert!(tensors > 10_000 && failed > 10_000, "{tensors} {failed}");
        let unmatched = |devices: &[Device]| devices.iter().map(|device| device.unmatched).sum::<u64>();
        assert_eq!(unmatched(&ahead), unmatched(&plain));
        assert!(unmatched(&plain) > 0);
    }
}
