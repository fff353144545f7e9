//! What to know before relying on the numbers of a rank: lower bounds, reconstructed and missing data.

use super::answer::{PoolSummary, RankSummary, Summary};
use super::words::size;

/// The maximum number of warnings among the caveats.
const MAX_WARNINGS: usize = 5;

impl RankSummary {
    /// Sentences on numbers that are lower bounds, sampled, reconstructed or incomplete. Pools without memory have none.
    pub fn caveats(&self) -> Vec<String> {
        let used = self.pools.iter().filter(|(_, pool)| pool.peak_per_bank != Some(0));
        let mut found: Vec<String> = used.flat_map(|(name, pool)| of_pool(name, pool)).collect();
        let l1 = self.l1.as_ref().filter(|l1| l1.peak_is_lower_bound);
        found.extend(l1.map(|_| "L1 of a core: the peak is a lower bound.".to_owned()));
        if let Some((peak, bytes)) =
            self.peak.as_ref().and_then(|peak| Some((peak, peak.unexplained_per_bank?)))
            && let Some(quantum) = self.pools.get(&peak.pool).map(|pool| pool.quantum_per_bank)
            && bytes.unsigned_abs() > quantum
        {
            let (pool, bytes) = (&peak.pool, size(bytes.unsigned_abs()));
            let of = self.pools.get(pool).map_or("", |pool| pool.extent.in_words());
            found.push(if peak.unexplained_per_bank > Some(0) {
                format!("{pool}: {bytes}{of} at the peak is not explained by tensors.")
            } else {
                format!("{pool}: the tensors at the peak add up to {bytes}{of} more than the device reports.")
            });
        }
        if self.oom.as_ref().is_some_and(|oom| oom.evidence == "state") {
            found.push(
                "The free memory of the failure is from the last state before the error, not from its message."
                    .to_owned(),
            );
        }
        found
    }

    /// Sentences on pools whose use at the end is reconstructed.
    pub fn caveats_of_end(&self) -> Vec<String> {
        let is_rebuilt =
            |pool: &PoolSummary| pool.final_source == Some("rebuilt") && pool.peak_per_bank != Some(0);
        let rebuilt = self.pools.iter().filter(|(_, pool)| is_rebuilt(pool));
        let sentence = |(name, _)| {
            format!("{name}: the use at the end is reconstructed from the last state and later steps.")
        };
        rebuilt.map(sentence).collect()
    }
}

fn of_pool(name: &str, pool: &PoolSummary) -> Vec<String> {
    let mut found = Vec::new();
    match pool.peak_source {
        Some("sampled") => found.push(format!(
            "{name}: the peak is a lower bound: it is the highest sample, and memory between samples is unknown."
        )),
        Some("recorded") => found.push(format!(
            "{name}: the peak is a lower bound: the recorded history begins with memory in use."
        )),
        _ => {}
    }
    if pool.peak_per_bank.is_none() {
        found.push(format!("{name}: the peak is unknown."));
    }
    if pool.polled {
        found.push(format!("{name} is a sampled counter: no step is known to have caused its peak."));
    }
    if !pool.not_watched.is_empty() {
        let what = pool.not_watched.join("; ");
        found.push(format!("{name}: not tracked: {what}. The actual peak may be higher."));
    }
    found
}

impl Summary {
    /// The caveats of a rank, with the warnings of its input file.
    pub fn caveats(&self, rank: &RankSummary) -> Vec<String> {
        let mut found = rank.caveats();
        let warnings: Vec<_> =
            self.source.warnings.iter().filter(|warning| warning.file == rank.file).collect();
        for warning in warnings.iter().take(MAX_WARNINGS) {
            let line = warning.line.map_or_else(String::new, |line| format!("line {line}: "));
            found.push(format!("{line}{}", warning.message));
        }
        if let more @ 1.. = warnings.len().saturating_sub(MAX_WARNINGS) {
            found.push(format!("{more} more warnings: see `source/warnings`."));
        }
        if let lines @ 1.. = self.source.skipped_lines {
            found.push(format!("{lines} lines could not be parsed."));
        }
        found
    }
}
