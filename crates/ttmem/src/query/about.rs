//! What a list of reports says of one: read from a small file, so that listing opens no profile.

use serde::{Deserialize, Serialize};

use super::answer::{RankSummary, Summary};

/// A report in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The format of the evidence.
    pub format: String,
    /// How many ranks it has.
    pub ranks: usize,
    /// The operations of all ranks, without deallocate and get_device.
    pub operations: u64,
    /// The peak that matters most, of the rank that used most.
    pub peak: Option<AboutPeak>,
    /// Why memory ran out, where it did.
    pub oom: Option<String>,
}

/// A peak in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutPeak {
    /// The pool.
    pub pool: String,
    /// The highest use of a bank.
    pub per_bank: Option<u64>,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The highest use of the device.
    pub total: Option<u64>,
}

impl About {
    /// A summary in a few words.
    pub fn of(summary: &Summary) -> Self {
        let peaks = summary.ranks.iter().filter_map(peak);
        Self {
            format: summary.source.format.clone(),
            ranks: summary.ranks.len(),
            operations: summary.ranks.iter().map(|rank| u64::from(rank.operations.reported)).sum(),
            // Of equals the first: `max_by_key` would take the last.
            peak: peaks.rev().max_by_key(|peak| (peak.per_bank, peak.total)),
            oom: summary.ranks.iter().find_map(|rank| Some(rank.oom.as_ref()?.cause.to_owned())),
        }
    }
}

/// The highest session of a training log, whose figures are of the whole device.
fn highest_session(rank: &RankSummary) -> Option<AboutPeak> {
    let session = rank.sessions.iter().max_by_key(|session| session.peak_bytes)?;
    let peak = session.peak_bytes.and_then(|peak| u64::try_from(peak).ok());
    Some(AboutPeak {
        pool: "DRAM".to_owned(),
        per_bank: peak,
        capacity_per_bank: session.device_memory_bytes,
        total: peak,
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
    })
}
