//! Reads the JSON that a tracker of PyTorch programs leaves behind: `memory_profile_YYYYMMDD_HHMMSS.json`.
//!
//! `document` walks the file and keeps of each row what is needed; `time` reads its times; `tell` says it as events: a
//! step and a reading of each device for each snapshot, a call for each invocation of an operation. Tensors of a snapshot
//! are only the largest ones and have no identity from one snapshot to the next, so no lives are made of them.

mod document;
mod tell;
mod time;

use memchr::memmem;
use ttmem_model::{Error, Result, Sink};

use self::document::Document;
use super::json::{self, Damage, keys};
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
        "initialize_memory_tracker(output_dir), then `with tracker.track_operation(name)`; it is saved at the end"
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
        let damage = json::read(input.stream, |json| document.take_all(json))?;
        if document.is_empty() {
            return Err(nothing(input.name, damage));
        }
        tell::tell(&document, damage, sink)
    }
}

/// Why there is nothing to answer.
fn nothing(file: &str, damage: Option<Damage>) -> Error {
    match damage {
        Some(damage) => damage.into_error(file, "there is nothing before it"),
        None => Error::NoMemoryData {
            file: file.into(),
            message: "there are neither snapshots nor operations with a time in it: the tracker was never asked for \
                      one (memory_checkpoint, track_operation), or stopped before its first interval"
                .into(),
        },
    }
}
