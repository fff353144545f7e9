//! The texts of responses: a few lines that can be read without the JSON.

use ttmem::query::words::{brief, size};
use ttmem::query::{AboutPeak, LiveTensor, Named, PoolMoment, PoolSummary, RankSummary, TensorGroup, words};
use ttmem::report;

/// The maximum length of names and locations, in characters.
const MAX_NAME: usize = 80;

/// A text from the input, in one line.
pub(crate) fn plain(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(MAX_NAME * 50)
        .collect();
    brief(&line, MAX_NAME)
}

/// A sentence of a summary, in one line.
pub(crate) fn sentence(text: &str) -> String {
    brief(&text.replace(char::is_control, " "), 400)
}

/// The result of a rank in a line. A lower bound is called one.
pub(crate) fn verdict(rank: &RankSummary) -> String {
    let peak = AboutPeak::of(rank);
    let failure = rank.oom.as_ref().map(|oom| oom.statement.headline.as_str());
    let ended = rank.ended_by.as_deref().map(|ended| format!("{}.", ended.trim_end_matches('.')));
    let line = report::headline(peak.as_ref(), failure.or(ended.as_deref()));
    let pool = rank.peak.as_ref().and_then(|peak| rank.pools.get(&peak.pool));
    match pool {
        _ if line.is_empty() => "No memory pools.".to_owned(),
        Some(pool) if pool.is_peak_at_least() => format!("{line} The peak is a lower bound."),
        _ => line,
    }
}

/// A pool at a moment: `DRAM before step 107: 947.5 MiB per bank allocated, 76.5 MiB free, 47 tensors`.
pub(crate) fn moment(rank: &RankSummary, moment: &PoolMoment) -> String {
    let of = rank.pools.get(&moment.pool).map_or("", |pool| pool.extent.in_words());
    let at = moment.step.map_or_else(String::new, |step| format!(" before step {step}"));
    let known = |bytes: Option<u64>, what: &str| bytes.map(|bytes| format!("{}{of} {what}", size(bytes)));
    let parts = [
        known(moment.allocated_per_bank, "allocated"),
        known(moment.free_per_bank, "free"),
        known(moment.largest_free_per_bank, "in the largest free block"),
        moment.live_count.map(|count| format!("{count} tensors")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") };
    format!("{}{at}: {parts}", moment.pool)
}

/// A pool in a line: `DRAM: peak 947.5 MiB per bank of 1024.0 MiB (93%), high; 0 B at the end`. A lower bound is `at least`.
pub(crate) fn pool(name: &str, pool: &PoolSummary) -> String {
    let of = pool.extent.in_words();
    let least = if pool.is_peak_at_least() { "at least " } else { "" };
    let peak = pool
        .peak_per_bank
        .map_or_else(|| "unknown".to_owned(), |bytes| format!("{least}{}{of}", size(bytes)));
    let whole = pool.capacity_per_bank.filter(|bytes| *bytes > 0);
    let share = whole.zip(pool.peak_per_bank);
    let share = share.map_or_else(String::new, |(all, part)| {
        format!(" of {} ({})", size(all), report::percent(part, all))
    });
    let end = pool.final_per_bank.map_or_else(String::new, |bytes| format!("; {} at the end", size(bytes)));
    format!("- {}: peak {peak}{share}{end}", plain(name))
}

/// The bytes of each class in a line.
pub(crate) fn classes(classes: &Named<u64>) -> String {
    let one = |(class, bytes): (&str, &u64)| format!("{} {}", words::class_name(class), size(*bytes));
    format!("By class: {}", classes.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// What is known about a type: `1x32x64 bf16`.
fn type_of(tensor: &LiveTensor) -> String {
    let shape = tensor.shape.as_ref().map(|shape| words::shape(shape));
    [shape, tensor.dtype.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn bytes(per_bank: Option<u64>) -> String {
    per_bank.map_or_else(|| "unknown size".to_owned(), size)
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// A group of tensors in a line.
pub(crate) fn group(group: &TensorGroup<'_>) -> String {
    let tensor = group.first();
    let title = group.title().map_or_else(|| "(unnamed)".to_owned(), |title| plain(&title));
    let loc = tensor.loc.as_deref().map_or_else(String::new, |loc| format!(" at {}", plain(loc)));
    let freed = group.freed_by().map_or_else(String::new, |freed| format!("freed: {freed}"));
    let allocated = format!("allocated by {}{loc}", plain(&group.allocated_by()));
    let parts = [bytes(group.per_bank), type_of(tensor), tensor.class.as_str().to_owned(), allocated, freed];
    format!("- {title}: {}", joined(&parts))
}

/// A tensor in a line.
pub(crate) fn tensor(tensor: &LiveTensor) -> String {
    let name = tensor.name.as_deref().map_or_else(|| "(unnamed)".to_owned(), plain);
    let op = tensor.op.as_deref().map(plain);
    let step = tensor.born_step.map(|step| format!("step {step}"));
    let loc = tensor.loc.as_deref().map(|loc| format!("at {}", plain(loc)));
    let made: Vec<String> = [step, op, loc].into_iter().flatten().collect();
    let made = if made.is_empty() { String::new() } else { format!("allocated by {}", made.join(" ")) };
    let freed = tensor.dies_step.map_or_else(String::new, |step| format!("freed by step {step}"));
    let parts = [bytes(tensor.per_bank), type_of(tensor), tensor.class.as_str().to_owned(), made, freed];
    format!("- {name}: {}", joined(&parts))
}

/// The caveats as lines.
pub(crate) fn caveats(all: &[String]) -> Vec<String> {
    let shown = |text: &String| format!("Caveat: {}", sentence(text));
    all.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_input_stay_in_one_line() {
        assert_eq!(plain("a\nb\u{1b}[0m\tc"), "a b [0m c");
        assert_eq!(plain(&"x".repeat(1 << 20)).chars().count(), MAX_NAME);
        assert_eq!(plain("naïve"), "naïve");
    }
}
