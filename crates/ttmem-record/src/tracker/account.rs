//! What a tracker knows: the phases so far, the figures of the current one, and the allocations that are there.
//!
//! Nothing here writes to the disk: every change is put into the queue of the recording, if there is one.

use rustc_hash::FxHashMap;
use ttmem_model::{Change, Segment, StrId};

use super::record::{Message, Record};
use super::{Pool, RunMode, TrackerError, narrator};
use crate::recording::Recording;
use crate::texts::Texts;

/// The maximum number of texts that name cores: more are made up by the program, and would fill its memory.
const MAX_TEXTS: usize = 4096;

/// A phase that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct PhaseFigures {
    pub name: String,
    pub segment: Segment,
}

/// An allocation that is there.
#[derive(Clone, Copy, Debug)]
struct Live {
    bytes: u64,
    /// Its row in the recording.
    tensor: u32,
    pool: Pool,
}

/// Calls since the last `clear` that do not fit together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mismatches {
    unknown_frees: u64,
    repeated_allocations: u64,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    pub phases: Vec<PhaseFigures>,
    /// The mode of the current capture and of the phases so far.
    mode: Option<RunMode>,
    /// The number of the current or the last capture, from 1.
    pub capture: u64,
    pub is_capturing: bool,
    segment: Segment,
    live: FxHashMap<u64, Live>,
    /// Whether there are circular buffers, or other buffers of programs.
    has_program_buffers: bool,
    mismatches: Mismatches,
    /// The mismatches that the recording has warned of.
    warned: Mismatches,
    /// The number of allocations in all captures, which is the row of the next in the recording.
    tensors: u32,
    /// The rows of allocations that `clear` has forgotten. The recording ends them when the next session begins.
    forgotten: Vec<u32>,
    /// The texts in the recording.
    texts: Texts,
    pub recording: Recording<Record, Message>,
}

impl Account {
    /// Forgets everything, and exchanges the recording. Does nothing and returns an error while a capture is running.
    pub fn exchange_recording(
        &mut self,
        recording: &mut Recording<Record, Message>,
    ) -> Result<(), TrackerError> {
        if self.is_capturing {
            return Err(TrackerError::AlreadyCapturing);
        }
        let before = std::mem::take(self);
        self.capture = before.capture;
        self.texts = Texts::starting_with(narrator::first_texts());
        self.recording = std::mem::replace(recording, before.recording);
        Ok(())
    }

    pub fn begin(&mut self, mode: RunMode) -> Result<(), TrackerError> {
        if self.is_capturing {
            return Err(TrackerError::AlreadyCapturing);
        }
        let is_new = self.mode.is_none();
        if let Some(kept) = self.mode.filter(|kept| *kept != mode) {
            return Err(TrackerError::OtherMode { kept, wanted: mode });
        }
        self.mode = Some(mode);
        self.capture += 1;
        self.is_capturing = true;
        self.segment = Segment::default();
        if is_new {
            let forgotten = std::mem::take(&mut self.forgotten);
            self.recording.send(Message::Session { estimated: mode == RunMode::NoDispatch, forgotten });
        }
        Ok(())
    }

    /// Ends the phase. If `is_last`, the capture ends with it.
    pub fn end_phase(&mut self, name: &str, is_last: bool, call: &'static str) -> Result<(), TrackerError> {
        if !self.is_capturing {
            return Err(TrackerError::NotCapturing { call });
        }
        let segment = std::mem::take(&mut self.segment);
        self.phases.push(PhaseFigures { name: name.to_owned(), segment });
        if self.recording.is_open() {
            if let Some(name) = self.text(name) {
                self.recording.send(Message::Phase { name, segment });
            }
            self.warn_of_mismatches(name, is_last);
        }
        if is_last {
            self.is_capturing = false;
            self.recording.send(Message::Ended);
        }
        Ok(())
    }

    /// Forgets the phases, the ids and the capture that runs, if one does.
    pub fn clear(&mut self) {
        self.is_capturing = false;
        self.mode = None;
        self.phases.clear();
        self.segment = Segment::default();
        self.has_program_buffers = false;
        (self.mismatches, self.warned) = (Mismatches::default(), Mismatches::default());
        let live = std::mem::take(&mut self.live);
        if self.recording.is_open() {
            let before = self.forgotten.len();
            self.forgotten.extend(live.into_values().map(|live| live.tensor));
            // The map has no order, and recordings of the same run should be the same.
            self.forgotten[before..].sort_unstable();
        }
    }

    pub fn allocated(&mut self, id: u64, bytes: u64, pool: Pool) {
        let tensor = self.next_tensor();
        if let Some(earlier) = self.live.insert(id, Live { bytes, tensor, pool }) {
            self.mismatches.repeated_allocations += 1;
            self.segment.apply(freed(earlier.pool, earlier.bytes));
            self.recording.put(Record::Replaced {
                tensor: earlier.tensor,
                pool: earlier.pool,
                bytes: earlier.bytes,
            });
        }
        self.segment.apply(allocated(pool, bytes));
        self.recording.put(Record::Allocated { pool, bytes });
    }

    pub fn freed(&mut self, id: u64) {
        match self.live.remove(&id) {
            Some(Live { bytes, tensor, pool }) => {
                self.segment.apply(freed(pool, bytes));
                self.recording.put(Record::Freed { tensor, pool, bytes });
            }
            None => {
                self.mismatches.unknown_frees += 1;
                self.recording.put(Record::UnknownFreed);
            }
        }
    }

    pub fn circular_buffer(&mut self, bytes: u64, cores: &str) {
        let has_room = self.recording.is_open() && self.texts.len() < MAX_TEXTS;
        let cores = if has_room { self.text(cores) } else { self.texts.known(cores) };
        self.next_tensor();
        self.has_program_buffers = true;
        self.segment.apply(Change::CircularBuffer(bytes));
        self.recording.put(Record::CircularBuffer { bytes, cores });
    }

    pub fn program_buffers_gone(&mut self) {
        // Reported before every program, even if the previous one had none.
        if std::mem::take(&mut self.has_program_buffers) {
            self.segment.apply(Change::ProgramBuffersGone);
            self.recording.put(Record::ProgramBuffersGone);
        }
    }

    /// A change of which only the size is known.
    pub fn changed(&mut self, change: Change) {
        if let Change::ProgramBuffersGone = change {
            return self.program_buffers_gone();
        }
        if let Change::CircularBuffer(_) | Change::ProgramBuffer(_) = change {
            self.has_program_buffers = true;
        }
        self.segment.apply(change);
        self.recording.put(Record::Nameless(change));
    }

    pub fn unknown_frees(&self) -> u64 {
        self.mismatches.unknown_frees
    }

    pub fn repeated_allocations(&self) -> u64 {
        self.mismatches.repeated_allocations
    }

    /// The only phase of that name.
    pub fn phase(&self, name: &str) -> Result<&PhaseFigures, TrackerError> {
        let mut found = self.phases.iter().filter(|phase| phase.name == name);
        match (found.next(), found.count()) {
            (Some(phase), 0) => Ok(phase),
            (Some(_), more) => Err(TrackerError::Ambiguous { name: name.to_owned(), times: more + 1 }),
            (None, _) => {
                let names = self.phases.iter().map(|phase| phase.name.clone()).collect();
                Err(TrackerError::NoSuchPhase { name: name.to_owned(), names })
            }
        }
    }

    fn next_tensor(&mut self) -> u32 {
        let tensor = self.tensors;
        self.tensors = self.tensors.saturating_add(1);
        tensor
    }

    /// The id of a text in the recording. `None` only if there are four billion.
    fn text(&mut self, text: &str) -> Option<StrId> {
        self.texts.known(text).or_else(|| {
            self.recording.send(Message::Text(text.into()));
            self.texts.define(text)
        })
    }

    /// Warns in the recording at the end of the first phase with mismatches, and again at the end with the final counts.
    fn warn_of_mismatches(&mut self, phase: &str, is_last: bool) {
        let (now, before) = (self.mismatches, self.warned);
        if now == before || before != Mismatches::default() && !is_last {
            return;
        }
        self.warned = now;
        if now.unknown_frees > before.unknown_frees {
            let frees = now.unknown_frees;
            self.recording.send(Message::Warning(format!(
                "up to phase {phase}, {frees} frees are of ids that were not allocated in this capture: what they gave \
                 back is not known and not counted; begin the capture before they are allocated"
            )));
        }
        if now.repeated_allocations > before.repeated_allocations {
            let times = now.repeated_allocations;
            self.recording.send(Message::Warning(format!(
                "up to phase {phase}, an id was allocated again {times} times without a free: the earlier allocation \
                 was taken as freed then; record every free, or give each allocation an id of its own"
            )));
        }
    }
}

/// In the figures of phases, TRACE counts as DRAM and L1_SMALL as L1.
fn allocated(pool: Pool, bytes: u64) -> Change {
    match pool {
        Pool::Dram | Pool::Trace => Change::DramAllocated(bytes),
        Pool::L1 | Pool::L1Small => Change::L1Allocated(bytes),
    }
}

fn freed(pool: Pool, bytes: u64) -> Change {
    match pool {
        Pool::Dram | Pool::Trace => Change::DramFreed(bytes),
        Pool::L1 | Pool::L1Small => Change::L1Freed(bytes),
    }
}
