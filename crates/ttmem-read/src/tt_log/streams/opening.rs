//! Holds back the first lines of a top-level program until their process is known.

use ttmem_model::{RankEvent, Result, Warning};

use super::super::line::{Header, Message};
use super::super::processes::{Clock, HeldLine, Sign};
use super::super::rank::At;
use super::super::view::View;
use super::{Log, POOLS, RankLog};

/// The maximum number of held lines: a start, an operation, a header and four states, with room for repeated ones.
const MAX_HELD: usize = 16;

/// The beginning of a process other than the first, and the evidence for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary {
    process: u32,
    line: u64,
    why: Sign,
}

impl Log<'_, '_> {
    /// Warns that several processes wrote the log.
    pub(super) fn warn_of_processes(&mut self) -> Result<()> {
        match self.processes_warning() {
            Some(Warning { line, message }) => self.tables.warn(line, message),
            None => Ok(()),
        }
    }

    /// The warning that several processes wrote the log.
    pub(in super::super) fn processes_warning(&self) -> Option<Warning> {
        const SHOWN: usize = 5;
        let first = self.processes.first()?.line;
        let last = self.processes.iter().map(|boundary| boundary.process).max().unwrap_or(1);
        let mut first_of: Vec<Boundary> = self.processes.clone();
        first_of.sort_by_key(|boundary| (boundary.process, boundary.line));
        first_of.dedup_by_key(|boundary| boundary.process);
        let begins = |Boundary { process, line, why }: &Boundary| {
            format!("process {process} begins at line {line} ({why})")
        };
        let mut begins: Vec<String> = first_of.iter().take(SHOWN).map(begins).collect();
        if first_of.len() > SHOWN {
            begins.push("…".to_owned());
        }
        let message = format!(
            "{last} processes wrote this log one after the other; {}. Each is reported separately; `ttmem summary \
             --process N` selects one",
            begins.join(", ")
        );
        Some(Warning { line: Some(first), message })
    }

    /// Whether a line has to wait until its process is known: from the start of a top-level program to its first
    /// states.
    pub(super) fn hold(&mut self, rank: usize, message: &Message<'_>, at: At) -> Result<bool> {
        let RankLog { state, opening, .. } = &self.ranks[rank];
        if opening.holds() {
            // Without operation texts, every header is held, and its first state must be sufficient.
            if let Message::State { pool, view } = message
                && opening.is_bare_header()
                && !state.has_texts()
                && View::parse(view).is_some_and(|view| !state.has_other_banks(pool, &view))
            {
                self.release(rank)?;
                return Ok(false);
            }
            let is_state = matches!(
                message,
                Message::Executing(_)
                    | Message::StateHeader(_)
                    | Message::State { .. }
                    | Message::Starting(_)
            );
            if is_state && opening.held.len() < MAX_HELD {
                return Ok(true);
            }
            self.release(rank)?;
            return Ok(false);
        }
        if !state.has_states() {
            return Ok(false);
        }
        match message {
            Message::Starting(name) => {
                Ok(!state.repeats_start(name, at) && !state.starts_nested(name, &mut self.tables)?)
            }
            // A process submits one program at a time.
            Message::StateHeader(Header::BeforeSubmit) => Ok(true),
            Message::StateHeader(Header::BeforeOperation(_)) => {
                Ok(!state.in_program() && !state.awaits_state())
            }
            _ => Ok(false),
        }
    }

    /// Holds a line back. The last state of a group determines the process of the held lines.
    pub(super) fn held(&mut self, rank: usize, line: HeldLine, message: &Message<'_>) -> Result<()> {
        let at = line.at;
        let opening = &mut self.ranks[rank].opening;
        let before = opening.held.last();
        if before.is_some_and(|before| before.at.line + 1 == at.line && before.message == line.message) {
            self.repeated.add(at.line);
            return Ok(());
        }
        match message {
            Message::Executing(_) => opening.has_texts = Some(true),
            // After a start, the line of the first operation may be missing.
            Message::StateHeader(Header::BeforeOperation(_)) if opening.held.is_empty() => {
                opening.has_texts = Some(false);
            }
            _ => {}
        }
        if let Message::State { pool, view } = message {
            opening.views.extend(View::parse(view).map(|view| (pool.to_vec(), view)));
        }
        opening.held.push(line);
        if opening.views.len() >= POOLS {
            return self.release(rank);
        }
        Ok(())
    }

    /// Determines the process of the held lines and passes them on.
    pub(super) fn release(&mut self, rank: usize) -> Result<()> {
        let RankLog { state, opening, .. } = &mut self.ranks[rank];
        let opening = std::mem::take(opening);
        let Some(first) = opening.held.first() else {
            self.ranks[rank].opening = opening;
            return Ok(());
        };
        let begins = first.at;
        let mut aborted = None;
        if opening.has_texts != Some(false) {
            aborted = state.end_programs(begins, &mut self.tables)?;
        }
        let sign = opening.sign(state, &mut self.tables)?;
        if let (Some(message), None) = (aborted, sign) {
            self.tables.warn(Some(begins.line), message)?;
        }
        let rank = match sign {
            Some(sign) => {
                let from = opening.dumps.first().map_or(begins.offset, |dump| dump.begins);
                self.begin_process(rank, begins, from, sign)?
            }
            None => rank,
        };
        for dump in opening.dumps {
            self.add_dump(rank, dump)?;
        }
        for held in opening.held {
            if self.take(held.stream, Message::of(&held.message), held.at)? {
                self.remember(held.stream, &held.line);
            }
        }
        Ok(())
    }

    /// Begins the process whose clock restarted, although none of its programs has started.
    pub(super) fn begin_pending(&mut self, rank: usize, at: At) -> Result<usize> {
        let opening = std::mem::take(&mut self.ranks[rank].opening);
        let from = opening.dumps.first().map_or(at.offset, |dump| dump.begins);
        let rank = self.begin_process(rank, at, from, Sign::ClockRestarted)?;
        for dump in opening.dumps {
            self.add_dump(rank, dump)?;
        }
        Ok(rank)
    }

    /// Ends the process of a rank, and begins the next one with the same label.
    fn begin_process(&mut self, rank: usize, at: At, from: u64, why: Sign) -> Result<usize> {
        self.end_exceptions(rank, at)?;
        let old = &mut self.ranks[rank];
        old.state.close(
            At { line: at.line.saturating_sub(1), offset: at.offset, next: at.offset },
            &mut self.tables,
        )?;
        old.ended = true;
        let (label, process) = (old.label.clone(), old.process + 1);
        if process == 2 {
            self.tables.say(old.state.id(), RankEvent::Process(1))?;
        }
        self.processes.push(Boundary { process, line: at.line, why });
        let new = self.add_rank(label, process, from)?;
        self.tables.say(self.ranks[new].state.id(), RankEvent::Process(process))?;
        for stream in self.streams.iter_mut().filter(|stream| stream.rank == Some(rank)) {
            (stream.rank, stream.group, stream.known) = (Some(new), None, [const { None }; POOLS]);
        }
        Ok(new)
    }

    /// Checks the clock in a log line of the compiler, which restarts with the process.
    pub(super) fn see_clock(&mut self, stream: usize, header: &[u8]) -> Result<()> {
        let Some(clock) = Clock::of(header) else { return Ok(()) };
        let rank = self.rank(stream)?;
        let RankLog { state, opening, clock: before, .. } = &mut self.ranks[rank];
        if before.is_some_and(|before| clock.is_of_another_process(before)) && state.has_states() {
            opening.clock_restarted = true;
        }
        *before = Some(clock);
        Ok(())
    }

    /// Assigns the held lines to the current process, because its program continues.
    pub(super) fn flush_opening(&mut self, rank: usize) -> Result<()> {
        let RankLog { state, opening, .. } = &mut self.ranks[rank];
        if opening.has_signs() && !opening.clock_restarted && state.in_program() {
            for dump in std::mem::take(opening).dumps {
                self.add_dump(rank, dump)?;
            }
        }
        Ok(())
    }
}
