//! The figures of phases as text, byte for byte in the format of tt-train's tracker: `ttmem` and other scripts read it.

use std::fmt::Write;

use ttmem_model::Cumulative;

use super::account::PhaseFigures;

/// The text that [`print_memory_usage`](super::MemoryUsageTracker::print_memory_usage) prints.
pub(super) fn memory_usage(phases: &[PhaseFigures]) -> String {
    if phases.is_empty() {
        return "WARNING: No traces captured\n".to_owned();
    }
    let mut all = Cumulative::default();
    let mut text = "=== Memory Usage Summary ===\n\n".to_owned();
    for phase in phases {
        let (dram, l1) = (phase.segment.dram(), phase.segment.l1());
        all.add(&dram);
        let change = dram.change();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "--- {} ---\n  \
             DRAM: Segment Peak {} MB, Allocations {} MB, Deallocations {} MB, Segment Change {}{} MB\n  \
             DRAM: Cumulative Peak {} MB, Cumulative Current {} MB\n  \
             L1: Peak CB {} MB, Peak Buffer {} MB, Peak Total {} MB\n",
            one_line(&phase.name),
            mb(dram.peak.into()),
            mb(dram.total_allocations.into()),
            mb(dram.total_deallocations.into()),
            if change < 0 { "" } else { "+" },
            mb(change.into()),
            mb(all.peak.into()),
            mb(all.current.into()),
            mb(l1.peak_cb.into()),
            mb(l1.peak_buffer.into()),
            mb(l1.peak_total.into()),
        );
    }
    let (peak, current) = (mb(all.peak.into()), mb(all.current.into()));
    let _ = write!(
        text,
        "\n=== Final Totals ===\nOverall DRAM Peak: {peak} MB, Final DRAM Usage: {current} MB\n\n"
    );
    text
}

/// `1863.25`: MiB with two digits, rounded like C's `%.2f`: ties to even.
fn mb(bytes: i128) -> String {
    const MIB: u128 = 1 << 20;
    let scaled = bytes.unsigned_abs() * 100;
    let (whole, rest) = (scaled / MIB, scaled % MIB);
    let up = rest > MIB / 2 || rest == MIB / 2 && whole % 2 == 1;
    let hundredths = whole + u128::from(up);
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Replaces control characters, so that a name stays on its line.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_as_c_rounds_them() {
        for (bytes, text) in [
            (0, "0.00"),
            // 0.125 and 0.375: ties.
            (1 << 17, "0.12"),
            (3 << 17, "0.38"),
            (1_953_759_232, "1863.25"),
            (-1, "-0.00"),
            (-(5 << 19), "-2.50"),
            (i128::from(u64::MAX), "17592186044416.00"),
        ] {
            assert_eq!(mb(bytes), text);
        }
    }

    #[test]
    fn a_name_with_line_ends_stays_on_one_line() {
        let phase = PhaseFigures { name: "A\nB\t".into(), ..PhaseFigures::default() };
        assert!(memory_usage(&[phase]).contains("\n--- A B  ---\n"));
    }
}
