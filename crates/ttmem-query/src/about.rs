//! A short description of a report, stored in a small file so that listing reports does not open any profile.

use serde::{Deserialize, Serialize};

use super::answer::{RankSummary, SessionSummary, Summary};
use super::device::device_of_session;
use super::level::{Level, Thresholds};
use super::verdict;
use crate::analyze::oom::Cause;

/// A short description of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The input format.
    pub format: String,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of operations of all ranks, without `deallocate` and `get_device`.
    pub operations: u64,
    /// The peak of the most important pool, on the rank that used the most memory.
    pub peak: Option<AboutPeak>,
    /// The cause of the out-of-memory error, if there was one.
    pub oom: Option<String>,
    /// The headline of the out-of-memory error.
    #[serde(default)]
    pub oom_headline: Option<String>,
}

/// A short description of a peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AboutPeak {
    /// The name of the pool with the peak.
    pub pool: String,
    /// The highest memory use of a bank.
    pub per_bank: Option<u64>,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The highest memory use of the device.
    pub total: Option<u64>,
    /// The memory of the device.
    #[serde(default)]
    pub capacity_total: Option<u64>,
    /// The unit that the peak refers to. Missing in reports of earlier versions.
    #[serde(default)]
    pub of: Option<Extent>,
    /// How close the peak is to the capacity.
    #[serde(default)]
    pub level: Option<Level>,
}

/// The unit that a size refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// One bank.
    Bank,
    /// The L1 of one core.
    Core,
    /// The whole device.
    Device,
}

impl Extent {
    /// The unit of a pool's sizes, determined by its name and number of banks.
    pub(crate) fn of(name: &str, banks: Option<u32>) -> Self {
        match banks {
            // The input only has device totals.
            Some(1) => Self::Device,
            // If the number of banks is unknown, L1 sizes are per core.
            None if name == "CB" || name.starts_with("L1") => Self::Core,
            _ => Self::Bank,
        }
    }

    /// The unit in a table: `686.4 MiB/bank`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Bank => "/bank",
            Self::Core => "/core",
            Self::Device => "",
        }
    }

    /// The unit in a sentence: `686.4 MiB per bank`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Bank => " per bank",
            Self::Core => " per core",
            Self::Device => "",
        }
    }
}

/// A peak as it is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ShownPeak {
    /// The highest memory use.
    pub bytes: u64,
    /// The capacity, in the same unit.
    pub capacity: Option<u64>,
    /// The unit that both sizes refer to.
    pub of: Extent,
}

impl AboutPeak {
    /// The peak of a rank: that of its main pool, or of its sessions if it has no pools.
    pub fn of(rank: &RankSummary) -> Option<Self> {
        peak(rank)
    }

    /// The peak as it is displayed: per bank or core if known, otherwise for the device.
    pub fn shown(&self) -> Option<ShownPeak> {
        // If the number of banks was unknown, earlier versions wrote the device total into both fields.
        let of = self.of.unwrap_or(match (self.per_bank, self.total) {
            (Some(per_bank), total) if total != Some(per_bank) => Extent::Bank,
            _ => Extent::Device,
        });
        let (bytes, capacity) = match of {
            Extent::Bank | Extent::Core => (self.per_bank?, self.capacity_per_bank),
            Extent::Device => (self.total.or(self.per_bank)?, self.capacity_total.or(self.capacity_per_bank)),
        };
        Some(ShownPeak { bytes, capacity, of })
    }
}

impl About {
    /// Parses a stored description. Fields that earlier versions did not write are derived from the others.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let mut about: Self = serde_json::from_slice(json).ok()?;
        if let Some(peak) = about.peak.as_mut().filter(|peak| peak.level.is_none()) {
            let shown = peak.shown();
            let (bytes, capacity) = (shown.map(|shown| shown.bytes), shown.and_then(|shown| shown.capacity));
            peak.level = Thresholds::default().level(&peak.pool, bytes, capacity);
        }
        if about.oom_headline.is_none() {
            let pool = about.peak.as_ref().map(|peak| peak.pool.as_str());
            about.oom_headline =
                about.oom.as_deref().map(|cause| verdict::headline(pool, Cause::parse(cause)));
        }
        Some(about)
    }

    /// The short description of a summary.
    pub fn of(summary: &Summary) -> Self {
        let peaks = summary.ranks.iter().filter_map(peak);
        let oom = summary.ranks.iter().find_map(|rank| rank.oom.as_ref());
        Self {
            format: summary.source.format.clone(),
            ranks: summary.ranks.len(),
            operations: summary.ranks.iter().map(|rank| u64::from(rank.operations.reported)).sum(),
            // Reversed because `max_by_key` returns the last of several equal peaks, not the first.
            peak: peaks.rev().max_by_key(|peak| (peak.per_bank, peak.total)),
            oom: oom.map(|oom| oom.cause.to_owned()),
            oom_headline: oom.map(|oom| oom.statement.headline.clone()),
        }
    }
}

/// The pool that the phases of a session are about: a PyTorch device, or DRAM.
pub(crate) fn session_pool(session: &SessionSummary) -> &str {
    session.name.as_deref().and_then(device_of_session).unwrap_or("DRAM")
}

/// The session of a training log with the highest peak. Its figures are for the whole device.
fn highest_session(rank: &RankSummary) -> Option<AboutPeak> {
    let session = rank.sessions.iter().max_by_key(|session| session.peak_bytes)?;
    let peak = session.peak_bytes.and_then(|peak| u64::try_from(peak).ok());
    Some(AboutPeak {
        pool: session_pool(session).to_owned(),
        per_bank: None,
        capacity_per_bank: None,
        total: peak,
        capacity_total: session.device_memory_bytes,
        of: Some(Extent::Device),
        level: session.level,
    })
}

fn peak(rank: &RankSummary) -> Option<AboutPeak> {
    if rank.pools.iter().next().is_none() {
        return highest_session(rank);
    }
    let name = &rank.peak.as_ref()?.pool;
    let pool = rank.pools.get(name)?;
    Some(AboutPeak {
        pool: name.clone(),
        per_bank: pool.peak_per_bank,
        capacity_per_bank: pool.capacity_per_bank,
        total: pool.peak_total,
        capacity_total: pool
            .capacity_per_bank
            .zip(pool.banks)
            .and_then(|(bank, banks)| bank.checked_mul(banks.into())),
        of: Some(pool.extent),
        level: pool.level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_missing_in_earlier_versions_are_derived() {
        let parse = |peak: &str, oom: &str| {
            let text = format!(r#"{{"format":"tt_log","ranks":1,"operations":9,"peak":{peak},"oom":{oom}}}"#);
            let about = About::parse(text.as_bytes());
            about.map(|about| (about.peak.and_then(|peak| peak.level), about.oom_headline))
        };
        let headline = |text: &str| Some(text.to_owned());
        let of_bank = |bytes: u64| {
            format!(r#"{{"pool":"DRAM","per_bank":{bytes},"capacity_per_bank":1000,"total":9000}}"#)
        };
        assert_eq!(parse(&of_bank(800), "null"), Some((Some(Level::Ok), None)));
        assert_eq!(parse(&of_bank(801), "null"), Some((Some(Level::High), None)));
        let full = parse(&of_bank(901), r#""fragmentation""#);
        assert_eq!(full, Some((Some(Level::Full), headline("Out of memory: DRAM is fragmented."))));
        // L1 has its own limits, and device totals have their own capacity.
        let l1 = r#"{"pool":"L1","per_bank":901,"capacity_per_bank":1000,"total":9010}"#;
        assert_eq!(parse(l1, "null"), Some((Some(Level::High), None)));
        let device =
            r#"{"pool":"DRAM","per_bank":null,"capacity_per_bank":null,"total":85,"capacity_total":100}"#;
        assert_eq!(parse(device, "null"), Some((Some(Level::High), None)));
        // Without a capacity there is no level.
        let unknown = r#"{"pool":"DRAM","per_bank":901,"capacity_per_bank":null,"total":9000}"#;
        assert_eq!(parse(unknown, r#""new_cause""#), Some((None, headline("Out of memory."))));
        assert_eq!(parse("null", r#""capacity""#), Some((None, headline("Out of memory: Memory is full."))));
        // Existing fields are kept.
        let written =
            r#"{"pool":"DRAM","per_bank":1,"capacity_per_bank":1000,"total":9,"of":"bank","level":"full"}"#;
        assert_eq!(parse(written, "null"), Some((Some(Level::Full), None)));
    }

    #[test]
    fn a_peak_is_shown_per_bank_if_that_is_known() {
        let peak = |text: &str| serde_json::from_str::<AboutPeak>(text).ok().and_then(|peak| peak.shown());
        let shown = |bytes, capacity, of| Some(ShownPeak { bytes, capacity, of });
        let new = r#"{"pool":"DRAM","per_bank":15,"capacity_per_bank":30,"total":180,"capacity_total":360,"of":"bank"}"#;
        assert_eq!(peak(new), shown(15, Some(30), Extent::Bank));
        let training = r#"{"pool":"DRAM","per_bank":null,"capacity_per_bank":null,"total":15,"capacity_total":30,"of":"device"}"#;
        assert_eq!(peak(training), shown(15, Some(30), Extent::Device));
        let unknown = r#"{"pool":"DRAM","per_bank":null,"capacity_per_bank":5,"total":null,"of":"bank"}"#;
        assert_eq!(peak(unknown), None);
        // Earlier versions did not write the unit; without banks, they wrote the device total into both fields.
        let device = r#"{"pool":"DRAM","per_bank":15,"capacity_per_bank":30,"total":15}"#;
        assert_eq!(peak(device), shown(15, Some(30), Extent::Device));
        let bank = r#"{"pool":"DRAM","per_bank":15,"capacity_per_bank":30,"total":180}"#;
        assert_eq!(peak(bank), shown(15, Some(30), Extent::Bank));
    }
}
