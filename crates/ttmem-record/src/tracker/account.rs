//! What a tracker knows: the phases so far, the account of the one that runs, and which ids are there.
//!
//! Nothing here writes or waits, except that a batch of what happened is handed to the recording, if there is one.

use rustc_hash::FxHashMap;

use super::record::Record;
use super::recording::{Message, Outlet};
use super::{Pool, RunMode, TrackerError};
use ttmem_model::{Change, Segment};

/// A phase that ended.
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

/// What was odd since the last `clear`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Oddities {
    unknown_frees: u64,
    repeated_allocations: u64,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    pub phases: Vec<PhaseFigures>,
    /// The mode of the capture that runs, or of the phases that are kept.
    mode: Option<RunMode>,
    /// Which capture runs, or ran last, from 1.
    pub capture: u64,
    pub is_capturing: bool,
    segment: Segment,
    live: FxHashMap<u64, Live>,
    /// The circular buffers and what else belongs to programs: whether there is any.
    has_program_buffers: bool,
    odd: Oddities,
    /// As much of it as the recording was told.
    told: Oddities,
    /// How many allocations there were, over all captures: their rows in the recording.
    tensors: u32,
    /// The rows of allocations that `clear` has forgotten; the recording lets them go when the next session begins.
    forgotten: Vec<u32>,
    pub outlet: Option<Outlet>,
}

impl Account {
    /// Tells a recording of all that is to come; gives it back while a capture runs.
    pub fn attach(&mut self, outlet: Outlet) -> Result<(), Outlet> {
        if self.is_capturing {
            return Err(outlet);
        }
        *self = Self { capture: self.capture, outlet: Some(outlet), ..Self::default() };
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
            self.say(Message::Session { estimated: mode == RunMode::NoDispatch, forgotten });
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
        if self.outlet.is_some() {
            self.say(Message::Phase { name: name.into(), segment });
            self.tell_oddities(name, is_last);
        }
        if is_last {
            self.is_capturing = false;
            self.say(Message::Ended);
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
        (self.odd, self.told) = (Oddities::default(), Oddities::default());
        let live = std::mem::take(&mut self.live);
        if self.outlet.is_some() {
            let before = self.forgotten.len();
            self.forgotten.extend(live.into_values().map(|live| live.tensor));
            // The map has no order, and a recording of the same run should be the same.
            self.forgotten[before..].sort_unstable();
        }
    }

    pub fn allocated(&mut self, id: u64, bytes: u64, pool: Pool) {
        let tensor = self.next_tensor();
        if let Some(earlier) = self.live.insert(id, Live { bytes, tensor, pool }) {
            self.odd.repeated_allocations += 1;
            self.segment.apply(freed(earlier.pool, earlier.bytes));
            self.tell(Record::Replaced { tensor: earlier.tensor, pool: earlier.pool, bytes: earlier.bytes });
        }
        self.segment.apply(allocated(pool, bytes));
        self.tell(Record::Allocated { pool, bytes });
    }

    pub fn freed(&mut self, id: u64) {
        match self.live.remove(&id) {
            Some(Live { bytes, tensor, pool }) => {
                self.segment.apply(freed(pool, bytes));
                self.tell(Record::Freed { tensor, pool, bytes });
            }
            None => {
                self.odd.unknown_frees += 1;
                self.tell(Record::UnknownFreed);
            }
        }
    }

    pub fn circular_buffer(&mut self, bytes: u64, cores: &str) {
        let cores = self.outlet.as_mut().and_then(|outlet| outlet.text(cores));
        self.next_tensor();
        self.has_program_buffers = true;
        self.segment.apply(Change::CircularBuffer(bytes));
        self.tell(Record::CircularBuffer { bytes, cores });
    }

    pub fn program_buffers_gone(&mut self) {
        // It is said before every program, also where the one before had none.
        if std::mem::take(&mut self.has_program_buffers) {
            self.segment.apply(Change::ProgramBuffersGone);
            self.tell(Record::ProgramBuffersGone);
        }
    }

    /// A change of which only the size is known: that of evidence that is read phase by phase.
    pub fn changed(&mut self, change: Change) {
        if let Change::ProgramBuffersGone = change {
            return self.program_buffers_gone();
        }
        if let Change::CircularBuffer(_) | Change::ProgramBuffer(_) = change {
            self.has_program_buffers = true;
        }
        self.segment.apply(change);
        self.tell(Record::Nameless(change));
    }

    pub fn unknown_frees(&self) -> u64 {
        self.odd.unknown_frees
    }

    pub fn repeated_allocations(&self) -> u64 {
        self.odd.repeated_allocations
    }

    /// The one phase of that name.
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

    /// Says in the recording what was odd, as soon as a phase of it is over, and what it came to at the end.
    fn tell_oddities(&mut self, phase: &str, is_last: bool) {
        let (odd, told) = (self.odd, self.told);
        if odd == told || told != Oddities::default() && !is_last {
            return;
        }
        self.told = odd;
        if odd.unknown_frees > told.unknown_frees {
            let frees = odd.unknown_frees;
            self.say(Message::Warning(format!(
                "up to phase {phase}, {frees} frees are of ids that were not allocated in this capture: what they gave \
                 back is not known and not counted; begin the capture before they are allocated"
            )));
        }
        if odd.repeated_allocations > told.repeated_allocations {
            let times = odd.repeated_allocations;
            self.say(Message::Warning(format!(
                "up to phase {phase}, an id was allocated again {times} times without a free: the earlier allocation \
                 was taken as freed then; record every free, or give each allocation an id of its own"
            )));
        }
    }

    fn tell(&mut self, record: Record) {
        if let Some(outlet) = &mut self.outlet {
            outlet.tell(record);
        }
    }

    fn say(&mut self, message: Message) {
        if let Some(outlet) = &mut self.outlet {
            outlet.say(message);
        }
    }
}

/// To phases, traces are DRAM, and small buffers are L1.
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
