//! Reads memory snapshots of PyTorch's caching allocators: the files of `torch.cuda.memory._dump_snapshot()`.
//!
//! A snapshot is a pickle. `pickle` runs it without executing anything, `heap` keeps its objects and converts the
//! entries of traces as they are completed (`trace`), `document` interprets the rest, and `emit` turns everything into
//! events. The rows of traces become the history of a pool, which `history::place` replays, as it does for recordings.

mod annotations;
mod cpp;
mod document;
mod eager;
mod emit;
mod heap;
mod keys;
mod packed;
mod pickle;
mod trace;

use memchr::memmem;
use ttmem_model::{Error, Result, Sink};

use self::document::document;
use self::eager::Eager;
use self::emit::emit;
use self::heap::Heap;
use super::{Input, Reader, Sniff};

/// The reader of memory snapshots.
pub(super) struct TorchSnapshot;

impl Reader for TorchSnapshot {
    fn name(&self) -> &'static str {
        "torch_snapshot"
    }

    fn about(&self) -> &'static str {
        "a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot): every allocation with its stack"
    }

    fn capture(&self) -> &'static str {
        "torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 3] = [b"segments", b"device_traces", b"total_size"];
        let is_pickle = matches!(head, [pickle::PROTO, 2..=5, ..]);
        let is_signed = || SIGNS.iter().any(|sign| memmem::find(head, sign).is_some());
        if is_pickle && is_signed() { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut heap = Heap::default();
        if let Some(for_history) = &input.for_history {
            heap.eager = Eager::soon(for_history.size);
        }
        let root = pickle::run(input.stream, &mut heap).map_err(|error| Error::Corrupt {
            file: input.name.into(),
            message: format!("byte {}: {}", error.offset, error.what),
        })?;
        let Some(document) = document(&mut heap, root) else {
            return Err(Error::UnknownFormat {
                file: input.name.into(),
                what: "a pickle without `segments` and `device_traces`".into(),
            });
        };
        heap.release();
        let placed = input.for_history.map(|for_history| for_history.placed);
        emit(document, &heap, input.name, placed, sink)
    }
}
