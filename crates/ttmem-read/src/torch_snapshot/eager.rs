//! Places the first trace of a snapshot in a second thread, while the snapshot is being read.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use ttmem_model::{Bytes, During, HistoryAction, HistoryRow, OpId, PoolId};

use super::packed::Packed;
use super::trace::OriginIndex;
use crate::history::snapshot::{Entry, RowContext};
use crate::history::{Expected, PlacedAlone, PlacingAlone, place_alone};

/// Entries in order.
type Chunk = Vec<Entry<OriginIndex>>;

/// The number of chunks that wait to be placed: enough for the threads to run at their own pace for a while.
const WAITING: usize = 16;

/// Whether a trace is placed while it is being read.
#[derive(Debug, Default)]
pub(super) enum Eager {
    #[default]
    Never,
    /// As soon as it is long enough.
    Soon(Measured),
    Placing(Thread),
}

/// What tells how long a trace may become.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// The size of the file, if it is known.
    size: Option<u64>,
    /// The number of entries that were measured, and their bytes.
    entries: u64,
    bytes: u64,
}

impl Measured {
    /// The number of entries in the file if all are like those that were measured.
    fn expected(self) -> Option<u64> {
        let entries = u128::from(self.size?) * u128::from(self.entries) / u128::from(self.bytes.max(1));
        u64::try_from(entries).ok()
    }
}

/// The thread that places entries.
#[derive(Debug)]
pub(super) struct Thread {
    chunks: SyncSender<Chunk>,
    /// Chunks whose memory can be used again.
    used: Receiver<Chunk>,
    handle: JoinHandle<Placed>,
}

/// The result, and all entries.
type Placed = (Option<PlacedAlone>, Vec<Packed>);

impl Eager {
    /// Whether entries are to be passed on.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Places a trace as soon as it is long enough, in a file that may have a known size.
    pub fn soon(size: Option<u64>) -> Self {
        Self::Soon(Measured { size, ..Measured::default() })
    }

    /// Measures an entry.
    #[inline]
    pub fn measure(&mut self, bytes: usize) {
        if let Self::Soon(measured) = self {
            measured.entries += 1;
            measured.bytes += bytes as u64;
        }
    }

    /// Passes on chunks. Returns those that cannot be passed on. `expect` returns what to expect of a number of entries.
    pub fn send(&mut self, chunks: Vec<Chunk>, expect: impl FnOnce(u64) -> Expected) -> Vec<Chunk> {
        if let Self::Soon(measured) = *self {
            let expected = measured.expected().map(expect).unwrap_or_default();
            *self = Thread::start(expected).map_or(Self::Never, Self::Placing);
        }
        let Self::Placing(thread) = self else { return chunks };
        for chunk in chunks {
            // It fails only if the thread has panicked, which is reported when it is joined.
            let _ = thread.chunks.send(chunk);
        }
        Vec::new()
    }

    /// An empty chunk, if there is one whose memory can be used again.
    pub fn used(&self) -> Option<Chunk> {
        let Self::Placing(thread) = self else { return None };
        thread.used.try_recv().ok()
    }

    /// Waits for the result.
    pub fn finish(self) -> Placed {
        let Self::Placing(Thread { chunks, handle, .. }) = self else { return Placed::default() };
        drop(chunks);
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Thread {
    fn start(expected: Expected) -> Option<Self> {
        let ((chunks, received), (back, used)) = (sync_channel(WAITING), channel());
        let handle = Builder::new().spawn(move || place(expected, &received, &back)).ok()?;
        Some(Self { chunks, used, handle })
    }
}

fn place(expected: Expected, chunks: &Receiver<Chunk>, used: &Sender<Chunk>) -> Placed {
    let mut all = Vec::new();
    let placed = place_alone(expected, |alone| {
        let mut is_possible = true;
        for mut chunk in chunks {
            is_possible = is_possible && place_chunk(&chunk, alone);
            all.push(Packed::new(&chunk));
            chunk.clear();
            // It fails if the reader needs no more chunks.
            let _ = used.send(chunk);
        }
    });
    (placed, all)
}

fn place_chunk(chunk: &[Entry<OriginIndex>], alone: &mut PlacingAlone<'_>) -> bool {
    let (Some(pool), Some(other)) = (PoolId::new(0), OpId::new(0)) else { return false };
    let (block, during) = (Bytes::UNKNOWN, During::ByTime);
    chunk.iter().all(|entry| {
        let Entry { action, address, bytes, time_us, origin } = *entry;
        let op = OpId::new(StepOrigin::of(action, origin).code()).unwrap_or(other);
        let time = RowContext::time_since(0, time_us);
        alone.row(&HistoryRow { pool, action, address, bytes, block, op, during, time })
    })
}

/// The origin of a step, which determines its operation. It stands for the operation until that is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepOrigin {
    pub origin: u32,
    pub is_free: bool,
}

impl StepOrigin {
    fn of(action: HistoryAction, origin: OriginIndex) -> Self {
        let is_free = matches!(action, HistoryAction::FreeRequested | HistoryAction::Freed);
        Self { origin: origin.0, is_free }
    }

    fn code(self) -> usize {
        2 * self.origin as usize + usize::from(self.is_free)
    }

    /// The origin that an operation stands for.
    pub fn from_op(op: OpId) -> Self {
        let origin = u32::try_from(op.index() / 2).unwrap_or(u32::MAX);
        Self { origin, is_free: op.index() % 2 == 1 }
    }
}

#[cfg(test)]
mod tests;
