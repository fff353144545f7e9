//! One summary: its phases as they come, and what they must add up to.
//!
//! The tracker prints figures that follow from each other. Where they do not, the log is torn, or two writers are mixed;
//! that is said, with the line, and the figures stay as they are printed.

use ttmem_model::{Phase, RankEvent, RankId, Result, Session, SessionId, StrId, Totals};

use super::line::{Cumulative, L1, QUANTUM, Said, Segment};
use crate::tt_log::tables::Tables;

/// Figures that follow from others may differ by so much: each is rounded on its own.
const TOLERANCE: i64 = 20_972;

/// What stands above a summary.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub title: Option<Vec<u8>>,
    pub parameters: Option<u64>,
    pub device_memory: Option<u64>,
}

/// A summary, as far as it is read.
#[derive(Debug)]
pub(super) struct Block {
    header: Header,
    /// The line that it begins on.
    pub line: u64,
    /// Its first line is missing.
    pub begins_late: bool,
    phases: Vec<Figures>,
    /// The line that announces the totals was there.
    awaits_totals: bool,
    totals: Option<(Totals, u64)>,
}

/// A phase, as far as it is read.
#[derive(Debug)]
struct Figures {
    name: Vec<u8>,
    line: u64,
    segment: Option<Segment>,
    cumulative: Option<Cumulative>,
    l1: Option<L1>,
}

impl Block {
    pub fn new(header: Header, line: u64) -> Self {
        Self { header, line, begins_late: false, phases: Vec::new(), awaits_totals: false, totals: None }
    }

    /// Takes a line of the summary; says whether it has a place in it.
    pub fn take(&mut self, said: Said<'_>, line: u64) -> bool {
        match (said, self.phases.last_mut()) {
            (Said::Phase(name), _) => {
                let name = name.to_vec();
                self.phases.push(Figures { name, line, segment: None, cumulative: None, l1: None });
                true
            }
            (Said::Segment(segment), Some(phase)) => phase.segment.replace(segment).is_none(),
            (Said::Cumulative(cumulative), Some(phase)) => phase.cumulative.replace(cumulative).is_none(),
            (Said::L1(l1), Some(phase)) => phase.l1.replace(l1).is_none(),
            (Said::Totals, _) => {
                self.awaits_totals = true;
                true
            }
            (Said::Overall { peak, current }, _) => {
                self.totals = Some((Totals { peak: Some(peak), current: Some(current) }, line));
                true
            }
            _ => false,
        }
    }

    /// Whether nothing can follow.
    pub fn is_over(&self) -> bool {
        self.totals.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Says the session and its phases.
    pub fn say(&self, rank: RankId, id: SessionId, tables: &mut Tables<'_>) -> Result<()> {
        let title = self.header.title.as_deref();
        let session = Session {
            name: title.map(|title| tables.text(title)).transpose()?,
            parameters: self.header.parameters,
            dtype: None,
            device_memory: self.header.device_memory,
            quantum: QUANTUM,
            estimated: false,
            line: Some(self.line),
            totals: None,
        };
        tables.say(rank, RankEvent::Session(session))?;
        for phase in &self.phases {
            let name = tables.text(&phase.name)?;
            tables.say(rank, RankEvent::Phase(phase.row(id, name)))?;
        }
        if let Some((totals, _)) = self.totals {
            tables.say(rank, RankEvent::SessionEnded(id, totals))?;
        }
        self.complain(tables)
    }

    /// Says what is missing, and what does not follow.
    fn complain(&self, tables: &mut Tables<'_>) -> Result<()> {
        if self.begins_late {
            let message = "phases without the line that begins a summary: what stood before is missing";
            tables.warn(Some(self.line), message)?;
        }
        if !self.is_over() {
            let last = self.phases.last().map(|phase| String::from_utf8_lossy(&phase.name).into_owned());
            let message =
                format!("the summary that begins here is cut off after phase {}", last.unwrap_or_default());
            tables.warn(Some(self.line), message)?;
        }
        let mut before = if self.begins_late { None } else { Some(Cumulative { peak: 0, current: 0 }) };
        for phase in &self.phases {
            phase.complain(before, tables)?;
            before = phase.cumulative;
        }
        let Some((totals, line)) = self.totals else { return Ok(()) };
        let (Some(last), Some(peak), Some(current)) = (before, totals.peak, totals.current) else {
            return Ok(());
        };
        if differs(peak, last.peak) || differs(current, last.current) {
            let message = format!(
                "the totals are {} and {}, but the last phase ends with {} and {}",
                mb(peak),
                mb(current),
                mb(last.peak),
                mb(last.current)
            );
            tables.warn(Some(line), message)?;
        }
        Ok(())
    }
}

impl Figures {
    fn row(&self, session: SessionId, name: StrId) -> Phase {
        let plain = |bytes: i64| u64::try_from(bytes).ok();
        Phase {
            session,
            name,
            steps: None,
            line: Some(self.line),
            segment_peak: self.segment.map(|segment| segment.peak),
            allocations: self.segment.and_then(|segment| plain(segment.allocations)),
            deallocations: self.segment.and_then(|segment| plain(segment.deallocations)),
            change: self.segment.map(|segment| segment.change),
            cumulative_peak: self.cumulative.map(|cumulative| cumulative.peak),
            cumulative_current: self.cumulative.map(|cumulative| cumulative.current),
            l1_peak_cb: self.l1.and_then(|l1| plain(l1.cb)),
            l1_peak_buffer: self.l1.and_then(|l1| plain(l1.buffer)),
            l1_peak_total: self.l1.and_then(|l1| plain(l1.total)),
        }
    }

    /// Holds the figures against each other and against those of the phase before, as far as they are known.
    fn complain(&self, before: Option<Cumulative>, tables: &mut Tables<'_>) -> Result<()> {
        let name = String::from_utf8_lossy(&self.name);
        let missing: Vec<&str> = [
            (self.segment.is_none(), "Segment Peak"),
            (self.cumulative.is_none(), "Cumulative Peak"),
            (self.l1.is_none(), "L1"),
        ]
        .into_iter()
        .filter_map(|(missing, what)| missing.then_some(what))
        .collect();
        if !missing.is_empty() {
            let message = format!("phase {name} has no line for {}", missing.join(" and "));
            tables.warn(Some(self.line), message)?;
        }
        let mut wrong = |what: &str, printed: i64, follows: i64| {
            let message = format!(
                "phase {name}: {what} is {}, but {} follows from the other figures",
                mb(printed),
                mb(follows)
            );
            if differs(printed, follows) { tables.warn(Some(self.line), message) } else { Ok(()) }
        };
        let Some(segment) = self.segment else { return Ok(()) };
        wrong("Segment Change", segment.change, segment.allocations.saturating_sub(segment.deallocations))?;
        let (Some(before), Some(now)) = (before, self.cumulative) else { return Ok(()) };
        wrong("Cumulative Current", now.current, before.current.saturating_add(segment.change))?;
        wrong("Cumulative Peak", now.peak, before.peak.max(before.current.saturating_add(segment.peak)))
    }
}

fn differs(a: i64, b: i64) -> bool {
    a.abs_diff(b) > TOLERANCE.unsigned_abs()
}

/// `12.34 MB`, as the log has it.
fn mb(bytes: i64) -> String {
    let hundredths = (i128::from(bytes.unsigned_abs()) * 100 + (1 << 19)) >> 20;
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}.{:02} MB", hundredths / 100, hundredths % 100)
}
