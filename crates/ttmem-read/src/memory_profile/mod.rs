//! Reads the JSON files of a tracker for PyTorch programs: `memory_profile_YYYYMMDD_HHMMSS.json`.
//!
//! `document` walks the file and keeps the required parts of each row; `time` parses its times; `emit` turns it into
//! events: a step and a reading of each device for each snapshot, and a call for each operation call. A snapshot only
//! contains its largest tensors, which cannot be matched between snapshots, so the profile has no tensors.

mod document;
mod emit;
mod time;

use memchr::memmem;
use ttmem_model::{Error, Result, Sink};

use self::document::Document;
use super::json::{self, Corruption, keys};
use super::{Input, Reader, Sniff};

/// The reader of memory profiles.
pub(super) struct MemoryProfile;

impl Reader for MemoryProfile {
    fn name(&self) -> &'static str {
        "memory_profile"
    }

    fn about(&self) -> &'static str {
        "a memory profile of a PyTorch program (memory_profile_*.json): snapshots and operations"
    }

    fn capture(&self) -> &'static str {
        "initialize_memory_tracker(output_dir), then `with tracker.track_operation(name)`; saved at the end"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 4] = [
            b"\"operation_tracking_enabled\"",
            b"\"device_breakdown\"",
            b"\"memory_delta_mb\"",
            b"\"total_mb\"",
        ];
        let Some(keys) = keys(head) else { return Sniff::No };
        let has = |key: &str| keys.iter().any(|known| known == key);
        let is_signed = || SIGNS.iter().any(|sign| memmem::find(head, sign).is_some());
        if has("operation_allocations") || (has("snapshots") && is_signed()) { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut document = Document::default();
        let corruption = json::read(input.stream, |json| document.take_all(json))?;
        if document.is_empty() {
            return Err(nothing(input.name, corruption));
        }
        emit::emit(&document, corruption, sink)
    }
}

/// The error for a file without data.
fn nothing(file: &str, corruption: Option<Corruption>) -> Error {
    match corruption {
        Some(corruption) => corruption.into_error(file, "no data precedes it"),
        None => Error::NoMemoryData {
            file: file.into(),
            message:
                "no snapshots and no timed operations; call memory_checkpoint() or track_operation(), or run \
                      longer than one interval"
                    .into(),
        },
    }
}
