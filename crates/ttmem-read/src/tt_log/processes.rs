//! Detects where one process ends and the next begins, in a log that several processes wrote one after the other.
//!
//! Runtime lines do not name their process. A new process is detected by what the old one could not have done: its
//! banks have another size, its clock restarts, or resident weights are gone. The evidence is the first memory state of
//! a top-level program, so the lines from the program's start up to that state are held back until their process is
//! known. Module dumps between two programs wait for the same decision.

use std::fmt;

use ttmem_model::{ByteRange, Result};

use super::module::Dump;
use super::rank::{At, RankState};
use super::tables::{Tables, TypeRef};
use super::view::{QUANTUM, View};

/// The observations between two top-level programs.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// The device was opened.
    pub device_opened: bool,
    /// The clock of the compiler's log lines went back.
    pub clock_restarted: bool,
    /// The dumps that wait for the decision.
    pub dumps: Vec<EndedDump>,
    /// The lines that wait for the decision.
    pub held: Vec<HeldLine>,
    /// The states among the held lines.
    pub views: Vec<(Vec<u8>, View)>,
    /// Whether the held lines contain operation texts, if they contain operations.
    pub has_texts: Option<bool>,
}

/// A held runtime line.
#[derive(Debug)]
pub(super) struct HeldLine {
    pub stream: usize,
    pub line: Vec<u8>,
    pub message: Vec<u8>,
    pub at: At,
}

/// A complete module dump.
#[derive(Debug)]
pub(super) struct EndedDump {
    pub dump: Dump,
    pub stage: String,
    /// The offset of its header, and the position of its text.
    pub begins: u64,
    pub source: ByteRange,
    pub line: u64,
    /// A hash of its text.
    pub hash: u64,
}

/// The evidence for a new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// A pool has a different number or size of banks.
    OtherBanks,
    ClockRestarted,
    DeviceOpened,
    /// Operations are logged from here on, or no longer: the log level is read once per process.
    OtherLogLevel,
    /// A graph is compiled again, and memory usage is back at its initial level.
    ModulesStartOver,
    /// The previous program was aborted, and memory contains exactly the arguments of a new graph.
    Aborted,
    /// Resident weights are gone.
    WeightsGone,
    /// Memory contains exactly the arguments of a new graph, and none of them can be from before.
    NothingLeft,
}

impl fmt::Display for Sign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::OtherBanks => "the number or size of the memory banks changes",
            Self::ClockRestarted => "the clock in the log lines restarts",
            Self::DeviceOpened => "the device is opened again",
            Self::OtherLogLevel => "the log level changes",
            Self::ModulesStartOver => {
                "a graph is compiled again and memory usage is back at its initial level"
            }
            Self::Aborted => {
                "the previous program was aborted and memory contains only the arguments of a new graph"
            }
            Self::WeightsGone => "the resident weights are gone",
            Self::NothingLeft => "memory contains only the arguments of a new graph",
        })
    }
}

impl Opening {
    /// Whether lines are being held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether only the header of a state is held, without evidence for a new process.
    pub fn is_bare_header(&self) -> bool {
        self.held.len() == 1 && self.has_texts == Some(false) && !self.has_signs()
    }

    /// Whether there is any evidence for a new process.
    pub fn has_signs(&self) -> bool {
        self.device_opened || self.clock_restarted || !self.dumps.is_empty()
    }

    /// The evidence that the program belongs to a new process; `None` if it belongs to the rank's current one.
    pub fn sign(&self, rank: &RankState, tables: &mut Tables<'_>) -> Result<Option<Sign>> {
        if self.clock_restarted {
            return Ok(Some(Sign::ClockRestarted));
        }
        if self.views.iter().any(|(pool, view)| rank.has_other_banks(pool, view)) {
            return Ok(Some(Sign::OtherBanks));
        }
        if rank.has_steps() && self.has_texts.is_some_and(|has_texts| has_texts != rank.has_texts()) {
            return Ok(Some(Sign::OtherLogLevel));
        }
        let Some(now) = self.allocated(b"DRAM") else { return Ok(None) };
        let fits = self.is_all_arguments(now, rank, tables)?;
        let fell = rank.level(b"DRAM").is_some_and(|before| now + QUANTUM < before);
        if self.device_opened && (fell || fits.is_some()) {
            return Ok(Some(Sign::DeviceOpened));
        }
        if rank.was_aborted() && fits.is_some_and(|new| new > QUANTUM) {
            return Ok(Some(Sign::Aborted));
        }
        let is_back = self.views.iter().all(|(pool, view)| rank.began_with_at_least(pool, view));
        if is_back && self.dumps.iter().any(|dump| rank.has_dump(dump.hash)) {
            return Ok(Some(Sign::ModulesStartOver));
        }
        let resident = rank.resident(b"DRAM");
        let needed = resident.saturating_add(fits.unwrap_or(0));
        let gone = resident > QUANTUM && now + QUANTUM < needed;
        // Without a new graph, some weights may have been freed, but not nearly all of them, nor cached results.
        let minimum = rank.cached(b"DRAM").max(resident / 4);
        if gone && fits.is_some() || is_back && minimum > QUANTUM && now + QUANTUM < minimum {
            return Ok(Some(Sign::WeightsGone));
        }
        // Program results are allocated and freed all the time.
        let was_used = rank.has_arguments(b"DRAM");
        let all_new = fits.is_some_and(|new| new > QUANTUM && new.abs_diff(now) <= QUANTUM);
        Ok((was_used && all_new).then_some(Sign::NothingLeft))
    }

    /// The usage of a pool in the held states.
    fn allocated(&self, pool: &[u8]) -> Option<u64> {
        self.views.iter().find(|(name, _)| name == pool).map(|(_, view)| view.allocated.bytes())
    }

    /// Whether DRAM contains exactly the arguments of the last compiled graph, as in a new process. If so, returns the
    /// bytes per bank of those arguments that cannot be tensors of the rank.
    fn is_all_arguments(&self, now: u64, rank: &RankState, tables: &mut Tables<'_>) -> Result<Option<u64>> {
        let Some(main) = self.dumps.iter().rev().find(|ended| ended.dump.executable) else { return Ok(None) };
        let Some(main) = main.dump.main() else { return Ok(None) };
        let mut types: Vec<TypeRef> = Vec::with_capacity(main.arguments.len());
        for argument in &main.arguments {
            types.extend(tables.tensor_type(&argument.ty)?);
        }
        let (mut sum, mut foreign) = (0u64, 0u64);
        let mut resident = rank.resident_types();
        for ty in types {
            let Some(bytes) = rank.bytes_in(b"DRAM", ty, tables) else { continue };
            sum = sum.saturating_add(bytes);
            match resident.get_mut(&ty).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => foreign = foreign.saturating_add(bytes),
            }
        }
        Ok((sum.abs_diff(now) <= QUANTUM).then_some(foreign))
    }
}

/// The times in the preamble of the compiler's log lines: `2026-03-16 10:31:07.064 (  12.345s) [`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// Seconds since the process started.
    uptime: f64,
    /// The start time of the process, in seconds.
    began: f64,
}

impl Clock {
    /// Parses a preamble.
    pub fn of(header: &[u8]) -> Option<Self> {
        const DATE: usize = "2026-03-16 10:31:07.064".len();
        let open = memchr::memmem::find(header, b" (")?;
        let rest = header[open + 2..].trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        if !rest[digits..].starts_with(b"s) [") {
            return None;
        }
        let uptime: f64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let date = std::str::from_utf8(header.get(open.checked_sub(DATE)?..open)?).ok()?;
        let date: jiff::civil::DateTime = date.parse().ok()?;
        let epoch = jiff::civil::date(1970, 1, 1).to_datetime(jiff::civil::Time::midnight());
        let wall = date.duration_since(epoch).as_secs_f64();
        Some(Self { uptime, began: wall - uptime })
    }

    /// Whether a later line belongs to a process that started at another time.
    pub fn is_of_another_process(self, before: Self) -> bool {
        /// Limits for lines printed out of order by threads, and for clock adjustments.
        const JITTER: f64 = 1.0;
        const SET: f64 = 5.0;
        self.uptime + JITTER < before.uptime || self.began > before.began + SET
    }
}

/// `… Opening user mode device driver (tt_cluster.cpp:190)`
pub(super) fn is_device_opened(text: &[u8]) -> bool {
    const MAX_LEN: usize = 512;
    text.len() < MAX_LEN && memchr::memmem::find(text, b"Opening user mode device driver").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(date: &str, uptime: &str) -> Clock {
        let line = format!(
            "{date} ({uptime:>8}s) [        7F3A2B1C]     module_builder.cc:1278     1| MLIR Module vhlo:"
        );
        Clock::of(line.as_bytes()).unwrap()
    }

    #[test]
    fn clocks_tell_processes_apart() {
        let first = clock("2026-03-16 10:31:07.064", "12.345");
        assert!(!clock("2026-03-16 10:31:37.064", "42.345").is_of_another_process(first));
        assert!(clock("2026-03-16 10:31:20.064", "2.345").is_of_another_process(first));
        assert!(clock("2026-03-16 10:41:07.064", "12.400").is_of_another_process(first));
        assert_eq!(Clock::of(b"MLIR Module ttnn:"), None);
        assert_eq!(Clock::of(b"took (12.3 s) [x]"), None);
        assert_eq!(Clock::of(b" (12.345s) [x]"), None);
    }
}
