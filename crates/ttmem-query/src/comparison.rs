//! How the worst of several ranks differs from the median rank.

use serde::Serialize;
use ttmem_model::words::counted;

use super::answer::{PoolMoment, RankSummary};
use super::words::{class_name, percent, size};

/// Peaks that differ by less than this share of the median are about equal, in percent.
const EQUAL_PERCENT: u64 = 1;
/// The number of classes that the sentence lists.
const MAX_CLASSES: usize = 3;
/// The number of missing ranks that are listed.
const MAX_MISSING: usize = 8;

/// The worst of several ranks of one program, compared with the median rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Comparison {
    /// The result, as a sentence.
    pub sentence: String,
    /// The label of the worst rank: the one that ran out of memory, or the one with the highest peak.
    pub rank: Option<String>,
    /// The file of the worst rank.
    pub file: String,
    /// The label of the rank with the median peak among the others.
    pub median_rank: Option<String>,
    /// The file of that rank.
    pub median_file: String,
    /// The peak of the worst rank.
    pub peak_bytes: u64,
    /// The peak of the median rank.
    pub median_peak_bytes: u64,
    /// The classes at the two peaks, largest difference first; empty if the tensors are not known.
    pub classes: Vec<ClassComparison>,
    /// The ranks of the program without a recording.
    pub missing_ranks: Vec<u32>,
    /// A sentence about the missing ranks.
    pub missing: Option<String>,
}

/// The size of a tensor class in two ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ClassComparison {
    /// The class.
    pub class: String,
    /// The bytes at the peak of the worst rank.
    pub bytes: u64,
    /// The bytes at the peak of the median rank.
    pub median_bytes: u64,
}

impl ClassComparison {
    fn difference(&self) -> u64 {
        self.bytes.abs_diff(self.median_bytes)
    }

    /// `activations +1.80 GiB`.
    fn text(&self) -> String {
        let sign = if self.bytes > self.median_bytes { '+' } else { '-' };
        format!("{} {sign}{}", class_name(&self.class), size(self.difference()))
    }
}

/// Compares the first rank, which is the worst, with the median of the others.
pub(super) fn comparison(ranks: &[RankSummary]) -> Option<Comparison> {
    let (worst, others) = ranks.split_first()?;
    let at_peak = |rank: &RankSummary| rank.peak.as_ref().and_then(|peak| peak.allocated_per_bank);
    let peak = at_peak(worst)?;
    // Ranks on one host use different devices of a kind: `cuda:0`, `cuda:1`.
    let kind = |rank: &RankSummary| {
        rank.peak.as_ref().map(|peak| peak.pool.split(':').next().unwrap_or_default().to_owned())
    };
    let is_comparable = |rank: &&RankSummary| kind(rank) == kind(worst);
    let mut others: Vec<(u64, &RankSummary)> =
        others.iter().filter(is_comparable).filter_map(|rank| Some((at_peak(rank)?, rank))).collect();
    // Stable: the first rank by severity is the median of equal ones.
    others.sort_by_key(|(peak, _)| *peak);
    let &(median_peak, median) = others.get(others.len().checked_sub(1)? / 2)?;
    let classes = classes(worst.peak.as_ref()?, median.peak.as_ref()?);
    let all = others.iter().map(|(peak, _)| *peak).chain([peak]);
    let (low, high) = all.fold((u64::MAX, 0), |(low, high), peak| (low.min(peak), high.max(peak)));
    let is_equal = is_about(low, high) && worst.oom.is_none();
    let sentence = if is_equal {
        let count = others.len() + 1;
        let which = if count == 2 { "both".to_owned() } else { format!("all {count}") };
        if low == high {
            format!("The peaks of {which} ranks are equal ({}).", size(high))
        } else {
            let (low, high) = (size(low), size(high));
            format!("The peaks of {which} ranks differ by less than {EQUAL_PERCENT}% ({low} to {high}).")
        }
    } else {
        differing(worst, (median, others.len()), (peak, median_peak), &classes)
    };
    let missing_ranks = missing(ranks);
    Some(Comparison {
        sentence,
        rank: worst.rank.clone(),
        file: worst.file.clone(),
        median_rank: median.rank.clone(),
        median_file: median.file.clone(),
        peak_bytes: peak,
        median_peak_bytes: median_peak,
        classes,
        missing: missing_text(&missing_ranks, ranks.len()),
        missing_ranks,
    })
}

/// Whether two sizes are about equal.
fn is_about(one: u64, other: u64) -> bool {
    let difference = u128::from(one.abs_diff(other));
    difference * 100 < u128::from(one.max(other)) * u128::from(EQUAL_PERCENT) || difference == 0
}

fn differing(
    worst: &RankSummary,
    (median, others): (&RankSummary, usize),
    (peak, median_peak): (u64, u64),
    classes: &[ClassComparison],
) -> String {
    let what =
        if worst.oom.is_some() { "ran out of memory after a peak of" } else { "has the highest peak," };
    let name = |rank: &RankSummary| match &rank.rank {
        Some(label) => format!("rank {label}"),
        None => rank.file.rsplit('/').next().unwrap_or_default().to_owned(),
    };
    let difference = peak.abs_diff(median_peak);
    let share = percent(difference, median_peak);
    let compared = match peak.cmp(&median_peak) {
        std::cmp::Ordering::Equal => "as much as".to_owned(),
        std::cmp::Ordering::Greater => format!("{} ({share}) more than", size(difference)),
        std::cmp::Ordering::Less => format!("{} ({share}) less than", size(difference)),
    };
    let least = median_peak / 100 * EQUAL_PERCENT;
    let named: Vec<String> = classes
        .iter()
        .filter(|one| one.difference() > least)
        .take(MAX_CLASSES)
        .map(ClassComparison::text)
        .collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    let worst = name(worst);
    let worst = worst.strip_prefix("rank ").map_or_else(|| worst.clone(), |label| format!("Rank {label}"));
    let median = name(median);
    let median = if others > 1 { format!("the median rank ({median})") } else { median };
    format!("{worst} {what} {}, {compared} {median}{named}.", size(peak))
}

/// The classes at two peaks, largest difference first.
fn classes(worst: &PoolMoment, median: &PoolMoment) -> Vec<ClassComparison> {
    let (Some(here), Some(there)) = (&worst.by_class_per_bank, &median.by_class_per_bank) else {
        return Vec::new();
    };
    let mut classes: Vec<ClassComparison> = Vec::new();
    for (class, bytes) in here.iter() {
        let median_bytes = there.get(class).copied().unwrap_or(0);
        classes.push(ClassComparison { class: class.to_owned(), bytes: *bytes, median_bytes });
    }
    for (class, median_bytes) in there.iter().filter(|(class, _)| here.get(class).is_none()) {
        classes.push(ClassComparison { class: class.to_owned(), bytes: 0, median_bytes: *median_bytes });
    }
    classes.sort_by_key(|one| std::cmp::Reverse(one.difference()));
    classes
}

/// The ranks without a recording, if all recordings are of one program.
fn missing(ranks: &[RankSummary]) -> Vec<u32> {
    let launched =
        |rank: &RankSummary| rank.launch.as_ref().and_then(|launch| launch.rank.zip(launch.world_size));
    let Some(known) = ranks.iter().map(launched).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let Some(&(_, world)) = known.first() else { return Vec::new() };
    if known.iter().any(|(_, size)| *size != world) {
        return Vec::new();
    }
    // An absurd size in a corrupt file must not allocate memory.
    let is_known = |wanted: u32| known.iter().any(|(rank, _)| *rank == wanted);
    (0..world.min(1 << 16)).filter(|rank| !is_known(*rank)).collect()
}

fn missing_text(missing: &[u32], recorded: usize) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let names: Vec<String> = missing.iter().take(MAX_MISSING).map(u32::to_string).collect();
    let more = if missing.len() > MAX_MISSING { " …" } else { "" };
    Some(format!(
        "The comparison covers {} of {}; no recording of rank {}{more}.",
        recorded,
        counted(recorded + missing.len(), "rank"),
        names.join(", ")
    ))
}
