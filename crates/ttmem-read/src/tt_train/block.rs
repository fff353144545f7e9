//! One summary: its phases in order, and consistency checks.
//!
//! The figures that the tracker prints depend on each other. If they are inconsistent, the log is incomplete or lines
//! of two writers are mixed. A warning with the line reports that, and the figures stay as printed.

use ttmem_model::{Phase, RankEvent, RankId, Result, Session, SessionId, StrId, Totals};

use super::line::{Cumulative, DRAM, L1, Said, Segment};
use crate::tt_log::tables::Tables;

/// The lines above a summary.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub title: Option<Vec<u8>>,
    pub parameters: Option<u64>,
    pub device_memory: Option<u64>,
}

/// A summary that is being read.
#[derive(Debug)]
pub(super) struct Block {
    header: Header,
    /// The line where it begins.
    pub line: u64,
    /// The summary's first line is missing.
    pub begins_late: bool,
    phases: Vec<Figures>,
    /// The name of the device, if it is not a Tenstorrent device.
    device: Option<Vec<u8>>,
    /// The largest rounding of a figure, in bytes.
    quantum: u64,
    /// Whether the line that announces the totals was read.
    awaits_totals: bool,
    totals: Option<(Totals, u64)>,
}

/// A phase that is being read.
#[derive(Debug)]
struct Figures {
    name: Vec<u8>,
    line: u64,
    segment: Option<Usage>,
    cumulative: Option<Cumulative>,
    l1: Option<L1>,
}

/// The usage of a phase.
#[derive(Clone, Copy, Debug)]
struct Usage {
    peak: i64,
    allocations: i64,
    deallocations: i64,
    change: i64,
}

impl From<Segment<'_>> for Usage {
    fn from(segment: Segment<'_>) -> Self {
        let Segment { peak, allocations, deallocations, change, .. } = segment;
        Self { peak, allocations, deallocations, change }
    }
}

impl Block {
    pub fn new(header: Header, line: u64) -> Self {
        Self {
            header,
            line,
            begins_late: false,
            phases: Vec::new(),
            device: None,
            quantum: 0,
            awaits_totals: false,
            totals: None,
        }
    }

    /// Adds a line of the summary. Returns whether it fits there.
    pub fn take(&mut self, said: Said<'_>, line: u64) -> bool {
        if let Said::Segment(Segment { device, .. }) = said
            && device != DRAM
        {
            self.device = Some(device.to_vec());
        }
        if let Said::Segment(Segment { quantum, .. })
        | Said::Cumulative(Cumulative { quantum, .. })
        | Said::Overall { quantum, .. } = said
        {
            self.quantum = self.quantum.max(quantum);
        }
        match (said, self.phases.last_mut()) {
            (Said::Phase(name), _) => {
                let name = name.to_vec();
                self.phases.push(Figures { name, line, segment: None, cumulative: None, l1: None });
                true
            }
            (Said::Segment(segment), Some(phase)) => phase.segment.replace(segment.into()).is_none(),
            (Said::Cumulative(cumulative), Some(phase)) => phase.cumulative.replace(cumulative).is_none(),
            (Said::L1(l1), Some(phase)) => phase.l1.replace(l1).is_none(),
            (Said::Totals, _) => {
                self.awaits_totals = true;
                true
            }
            (Said::Overall { peak, current, .. }, _) => {
                self.totals = Some((Totals { peak: Some(peak), current: Some(current) }, line));
                true
            }
            _ => false,
        }
    }

    /// Whether the summary is complete.
    pub fn is_over(&self) -> bool {
        self.totals.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Emits the session and its phases.
    pub fn say(&self, rank: RankId, id: SessionId, tables: &mut Tables<'_>) -> Result<()> {
        let names: Vec<&[u8]> =
            [&self.header.title, &self.device].into_iter().flatten().map(Vec::as_slice).collect();
        // A PyTorch device is the last part of the name.
        let name = (!names.is_empty()).then(|| names.join(&b", "[..]));
        let session = Session {
            name: name.map(|name| tables.text(&name)).transpose()?,
            parameters: self.header.parameters,
            dtype: None,
            device_memory: self.header.device_memory,
            quantum: self.quantum,
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
        self.check(tables)
    }

    /// Warns about missing lines and inconsistent figures.
    fn check(&self, tables: &mut Tables<'_>) -> Result<()> {
        if self.begins_late {
            let message = "the first line of this summary is missing, and so are any phases before this line";
            tables.warn(Some(self.line), message)?;
        }
        if !self.is_over() {
            let last = self.phases.last().map(|phase| String::from_utf8_lossy(&phase.name).into_owned());
            let message =
                format!("the summary that begins here is truncated after phase {}", last.unwrap_or_default());
            tables.warn(Some(self.line), message)?;
        }
        let start = Cumulative { peak: 0, current: 0, quantum: 0 };
        let mut before = if self.begins_late { None } else { Some(start) };
        for phase in &self.phases {
            phase.check(before, self, tables)?;
            before = phase.cumulative;
        }
        let Some((totals, line)) = self.totals else { return Ok(()) };
        let (Some(last), Some(peak), Some(current)) = (before, totals.peak, totals.current) else {
            return Ok(());
        };
        if self.differs(peak, last.peak) || self.differs(current, last.current) {
            let message = format!(
                "the totals are {} (peak) and {} (final), but the last phase ends with {} and {}",
                self.size(peak),
                self.size(current),
                self.size(last.peak),
                self.size(last.current)
            );
            tables.warn(Some(line), message)?;
        }
        Ok(())
    }

    /// Whether two figures differ by more than their rounding.
    fn differs(&self, a: i64, b: i64) -> bool {
        a.abs_diff(b) > self.quantum.saturating_mul(2)
    }

    /// `12.34 MB`, as in the log.
    fn size(&self, bytes: i64) -> String {
        let hundredths = (i128::from(bytes.unsigned_abs()) * 100 + (1 << 19)) >> 20;
        let sign = if bytes < 0 { "-" } else { "" };
        let unit = if self.device.is_some() { "MiB" } else { "MB" };
        format!("{sign}{}.{:02} {unit}", hundredths / 100, hundredths % 100)
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

    /// Compares the figures with each other and with those of the previous phase, if they are known.
    fn check(&self, before: Option<Cumulative>, block: &Block, tables: &mut Tables<'_>) -> Result<()> {
        let name = String::from_utf8_lossy(&self.name);
        let missing: Vec<&str> = [
            (self.segment.is_none(), "Segment Peak"),
            (self.cumulative.is_none(), "Cumulative Peak"),
            (self.l1.is_none() && block.device.is_none(), "L1"),
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
                "{what} of phase {name} is {}, but the other figures imply {}; figures are shown as printed",
                block.size(printed),
                block.size(follows)
            );
            if block.differs(printed, follows) { tables.warn(Some(self.line), message) } else { Ok(()) }
        };
        let Some(segment) = self.segment else { return Ok(()) };
        wrong("Segment Change", segment.change, segment.allocations.saturating_sub(segment.deallocations))?;
        let (Some(before), Some(now)) = (before, self.cumulative) else { return Ok(()) };
        wrong("Cumulative Current", now.current, before.current.saturating_add(segment.change))?;
        wrong("Cumulative Peak", now.peak, before.peak.max(before.current.saturating_add(segment.peak)))
    }
}
