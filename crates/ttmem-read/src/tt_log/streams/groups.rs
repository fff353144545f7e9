//! Groups of memory states, each with a header and a line per pool, complete or not.

use ttmem_model::{Error, Moment, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::super::line::Header;
use super::super::rank::At;
use super::{Log, is_op_type};

/// The number of times that lines may look interleaved before a log is refused: a few missing lines look the same.
const MAX_SUSPECTS: u32 = 2;

/// The runtime prints four pools in every group.
pub(super) const POOLS: usize = 4;

/// A group of states that is being printed.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub at: Moment,
    /// The pools in it.
    pub marks: [u8; POOLS],
    pub count: usize,
    /// The previous group was incomplete when this one began.
    pub interrupted: bool,
    /// The line of its header or last state, and a hash of the header.
    pub line: u64,
    pub header: u64,
}

impl Group {
    /// A group with an unknown header.
    pub fn at(at: Moment, line: u64) -> Self {
        Self { at, marks: [0; POOLS], count: 0, interrupted: false, line, header: 0 }
    }

    pub fn add(&mut self, mark: u8) {
        if let Some(slot) = self.marks.get_mut(self.count) {
            *slot = mark;
        }
        self.count += 1;
    }

    pub fn has(&self, mark: u8) -> bool {
        self.marks[..self.count.min(POOLS)].contains(&mark)
    }
}

/// The last line of a state.
pub(super) struct KnownState {
    pub line: Vec<u8>,
    pub pool: usize,
    pub mark: u8,
}

/// Distinguishes the pools of a group.
pub(super) fn mark_of(pool: &[u8]) -> u8 {
    pool.iter().fold(pool.len().to_le_bytes()[0], |mark, byte| mark.wrapping_mul(31).wrapping_add(*byte)) | 1
}

impl Log<'_, '_> {
    pub(super) fn header(&mut self, stream: usize, rank: usize, header: Header<'_>, at: At) -> Result<()> {
        if matches!(header, Header::BeforeOperation(op_type) if !is_op_type(op_type)) {
            self.skipped.add(at.line);
        }
        let hash = match header {
            Header::BeforeOperation(op_type) => xxh3_64(op_type),
            Header::BeforeSubmit => 1,
            Header::AfterSubmit => 2,
        };
        if let Some(group) = &mut self.streams[stream].group
            && (group.count == 0 && group.header == hash && group.line + 1 == at.line)
        {
            group.line = at.line;
            self.repeated.add(at.line);
            return Ok(());
        }
        let known = &mut self.streams[stream];
        if let Some(group) = known.group {
            if group.count < POOLS {
                known.partial.add(group.line);
            }
            known.has_whole_groups |= group.count >= POOLS;
        }
        let state = &mut self.ranks[rank].state;
        let moment = match header {
            Header::BeforeOperation(op_type) => match state.state_header(op_type, at, &mut self.tables)? {
                Some(moment) => moment,
                None => {
                    self.mixed(at)?;
                    self.ranks[rank].state.lost_operation(op_type, at, &mut self.tables)?
                }
            },
            Header::BeforeSubmit => state.before_submit(at),
            Header::AfterSubmit => state.after_submit(&mut self.tables)?,
        };
        let interrupted = self.streams[stream].group.is_some_and(|group| group.count < POOLS);
        let group =
            Group { at: moment, marks: [0; POOLS], count: 0, interrupted, line: at.line, header: hash };
        self.streams[stream].group = Some(group);
        Ok(())
    }

    /// Records a state; `false` if it cannot be parsed or is a repetition.
    pub(super) fn state(
        &mut self,
        stream: usize,
        rank: usize,
        pool: &[u8],
        view: &[u8],
        at: At,
    ) -> Result<bool> {
        let mark = mark_of(pool);
        let place = self.streams[stream].group.filter(|group| group.has(mark));
        if let Some(group) = place {
            if group.line + 1 == at.line && self.ranks[rank].state.shows(pool, view) {
                if let Some(group) = &mut self.streams[stream].group {
                    group.line = at.line;
                }
                self.repeated.add(at.line);
                return Ok(false);
            }
            let state = &mut self.ranks[rank].state;
            if group.count < POOLS && !state.awaits_state() {
                self.mixed(at)?;
            }
            self.headless.add(at.line);
            let moment = self.ranks[rank].state.headless();
            let group = Group::at(moment, at.line);
            self.streams[stream].group = Some(group);
        }
        let state = &mut self.ranks[rank].state;
        let moment = match &mut self.streams[stream].group {
            Some(group) => {
                group.add(mark);
                group.line = at.line;
                group.at
            }
            // A header comes first, or a snapshot has begun the group.
            None => {
                self.headless.add(at.line);
                let moment = state.headless();
                let mut group = Group::at(moment, at.line);
                group.add(mark);
                self.streams[stream].group = Some(group);
                moment
            }
        };
        let read = state.state(pool, view, moment, at, &mut self.tables)?;
        if !read {
            self.skipped.add(at.line);
        }
        Ok(read)
    }

    /// Refuses a log whose lines are interleaved, unless the user allows it.
    pub(super) fn mixed(&mut self, at: At) -> Result<()> {
        self.suspects += 1;
        if !self.allow_interleaved {
            if self.suspects <= MAX_SUSPECTS {
                return Ok(());
            }
            return Err(Error::MixedRanks {
                file: self.file.to_owned(),
                line: at.line,
                message: "lines of two processes are interleaved here and have no rank tags; run with `mpirun \
                          --tag-output` (tt-run does this), write a separate log for each process, or read the log \
                          as one process with `ttmem summary --allow-interleaved` (the numbers will be unreliable)"
                    .to_owned(),
            });
        }
        if !std::mem::replace(&mut self.signs.interleaved, true) {
            let message = "lines of two processes are interleaved from here on and are read as one process; the \
                           numbers are unreliable";
            self.tables.warn(Some(at.line), message)?;
        }
        Ok(())
    }

    /// A state without the runtime's prefix: `debug.memory_snapshot` writes it to a separate file.
    pub(super) fn snapshot(
        &mut self,
        stream: usize,
        pool: &[u8],
        view: &[u8],
        ended: bool,
        at: At,
    ) -> Result<()> {
        let rank = self.rank(stream)?;
        self.release(rank)?;
        let rank = self.rank(stream)?;
        if !ended && !view.ends_with(b"}") {
            self.skipped.count += 1;
            return self.warn_of_torn_line(at);
        }
        self.snapshots.add(at.line);
        let group = self.streams[stream].group;
        if group.is_none_or(|group| group.count >= POOLS || group.has(mark_of(pool))) {
            let moment = self.ranks[rank].state.now();
            let group = Group::at(moment, at.line);
            self.streams[stream].group = Some(group);
        }
        self.streams[stream].has_whole_groups = true;
        self.state(stream, rank, pool, view, at).map(|_| ())
    }
}
