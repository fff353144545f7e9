//! A run in one line: its progress, and its result.

use ttmem_query::{AboutPeak, ShownPeak};
use ttmem_read::Seen;

use super::units::{Unit, count, percent, size};

/// The progress of a run: `12 s · 1,606 operations · DRAM 512.0 MiB per bank (50%) · peak 703.1 MiB (69%)`.
pub fn live(seconds: u64, seen: &Seen) -> String {
    let operations = match seen.operations {
        0 => "no operations yet".to_owned(),
        1 => "1 operation".to_owned(),
        operations => format!("{} operations", count(operations)),
    };
    let dram = seen.dram.map_or_else(
        || "no memory states yet".to_owned(),
        |dram| {
            let share = |bytes| percent(bytes, dram.capacity_per_bank);
            let (current, peak) = (dram.current_per_bank, dram.peak_per_bank);
            format!(
                "DRAM {} per bank ({}) · peak {} ({})",
                size(current),
                share(current),
                size(peak),
                share(peak)
            )
        },
    );
    format!("{} · {operations} · {dram}", duration(seconds))
}

/// The result of a run: `Out of memory: DRAM is full. Peak DRAM 1012.5 of 1024.0 MiB per bank (99%).`
///
/// `verdict` is the headline of the verdict. Returns an empty string if neither is known.
pub fn headline(peak: Option<&AboutPeak>, verdict: Option<&str>) -> String {
    let pool = peak.map_or("Memory", |peak| peak.pool.as_str());
    let level = peak.and_then(AboutPeak::shown).map(|ShownPeak { bytes, capacity, of }| {
        let of = of.in_words();
        match capacity {
            Some(all) => {
                let share = percent(bytes, all);
                format!("Peak {pool} {}{of} ({share}).", Unit::of(all).part_of(bytes, all))
            }
            None => format!("Peak {pool} {}{of}.", size(bytes)),
        }
    });
    verdict.into_iter().chain(level.as_deref()).collect::<Vec<_>>().join(" ")
}

/// `12 s`, `3 min 05 s`, `2 h 07 min`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_query::Extent;
    use ttmem_read::SeenPool;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_run_that_goes_on_says_what_is_seen_and_what_is_not() {
        assert_eq!(live(0, &Seen::default()), "0 s · no operations yet · no memory states yet");
        let dram =
            SeenPool { current_per_bank: 512 * MIB, peak_per_bank: 703 * MIB, capacity_per_bank: 1024 * MIB };
        assert_eq!(
            live(12, &Seen { operations: 1606, dram: Some(dram) }),
            "12 s · 1,606 operations · DRAM 512.0 MiB per bank (50%) · peak 703.0 MiB (69%)"
        );
    }

    #[test]
    fn time_is_said_in_two_units_at_most() {
        let shown = [59, 60, 185, 3599, 3600, 7654].map(duration);
        assert_eq!(shown, ["59 s", "1 min 00 s", "3 min 05 s", "59 min 59 s", "1 h 00 min", "2 h 07 min"]);
    }

    #[test]
    fn a_run_that_is_over_says_its_peak_and_why_memory_ran_out() {
        let peak = |per_bank, capacity_per_bank| AboutPeak {
            pool: "DRAM".into(),
            per_bank,
            capacity_per_bank,
            total: None,
            capacity_total: None,
            of: Some(Extent::Bank),
            level: None,
        };
        let full = peak(Some(1012 * MIB), Some(1024 * MIB));
        assert_eq!(headline(Some(&full), None), "Peak DRAM 1012.0 of 1024.0 MiB per bank (99%).");
        assert_eq!(
            headline(Some(&full), Some("Out of memory: DRAM is fragmented.")),
            "Out of memory: DRAM is fragmented. Peak DRAM 1012.0 of 1024.0 MiB per bank (99%)."
        );
        assert_eq!(headline(Some(&peak(Some(3 * MIB), None)), None), "Peak DRAM 3.0 MiB per bank.");
        assert_eq!(headline(Some(&peak(None, None)), Some("Out of memory.")), "Out of memory.");
        let device = AboutPeak { total: Some(3 * MIB), of: Some(Extent::Device), ..peak(None, None) };
        assert_eq!(headline(Some(&device), None), "Peak DRAM 3.0 MiB.");
        assert_eq!(headline(None, None), "");
    }
}
