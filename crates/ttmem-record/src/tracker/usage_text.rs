//! The figures of phases as text, which `ttmem` reads. For Tenstorrent devices, the format is that of tt-train's tracker,
//! byte for byte, because other scripts read it too.

use std::fmt::Write;

use ttmem_model::Cumulative;

use super::account::PhaseFigures;

const NO_PHASES: &str = "WARNING: No traces captured\n";
const HEADING: &str = "=== Memory Usage Summary ===\n\n";

/// The phases of a Tenstorrent device.
pub(super) fn memory_usage(phases: &[PhaseFigures]) -> String {
    if phases.is_empty() {
        return NO_PHASES.to_owned();
    }
    let mut all = Cumulative::default();
    let mut text = HEADING.to_owned();
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

/// The phases of another device: its name instead of DRAM, no L1, and sizes in MiB and GiB.
pub(super) fn memory_usage_on(device: &str, phases: &[PhaseFigures]) -> String {
    if phases.is_empty() {
        return NO_PHASES.to_owned();
    }
    let device = one_line(device);
    let mut all = Cumulative::default();
    let mut text = HEADING.to_owned();
    for phase in phases {
        let usage = phase.segment.dram();
        all.add(&usage);
        let change = usage.change();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "--- {} ---\n  \
             {device}: Segment Peak {}, Allocations {}, Deallocations {}, Segment Change {}{}\n  \
             {device}: Cumulative Peak {}, Cumulative Current {}\n",
            one_line(&phase.name),
            size(usage.peak.into()),
            size(usage.total_allocations.into()),
            size(usage.total_deallocations.into()),
            if change < 0 { "" } else { "+" },
            size(change.into()),
            size(all.peak.into()),
            size(all.current.into()),
        );
    }
    let (peak, current) = (size(all.peak.into()), size(all.current.into()));
    let _ = write!(
        text,
        "\n=== Final Totals ===\nOverall {device} Peak: {peak}, Final {device} Usage: {current}\n\n"
    );
    text
}

/// `1863.25`: MiB with two decimals.
fn mb(bytes: i128) -> String {
    rounded(bytes, 20, 2)
}

/// `512.00 MiB` or `1.820 GiB`.
fn size(bytes: i128) -> String {
    const GIB: u128 = 1 << 30;
    if bytes.unsigned_abs() < GIB {
        format!("{} MiB", mb(bytes))
    } else {
        format!("{} GiB", rounded(bytes, 30, 3))
    }
}

/// The quotient of bytes and a power of two, rounded like C's `%.2f`: ties to even.
fn rounded(bytes: i128, power: u32, decimals: u32) -> String {
    let (unit, scale) = (1u128 << power, 10u128.pow(decimals));
    let scaled = bytes.unsigned_abs() * scale;
    let (whole, rest) = (scaled / unit, scaled % unit);
    let up = rest > unit / 2 || rest == unit / 2 && whole % 2 == 1;
    let scaled = whole + u128::from(up);
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}.{:0decimals$}", scaled / scale, scaled % scale, decimals = decimals as usize)
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
    fn sizes_on_other_devices_have_units() {
        for (bytes, text) in [
            (0, "0.00 MiB"),
            (-(5 << 19), "-2.50 MiB"),
            ((1 << 30) - 1, "1024.00 MiB"),
            (1 << 30, "1.000 GiB"),
            (1_953_759_232, "1.820 GiB"),
            (-(3 << 29), "-1.500 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_name_with_line_ends_stays_on_one_line() {
        let phase = PhaseFigures { name: "A\nB\t".into(), ..PhaseFigures::default() };
        assert!(memory_usage(&[phase]).contains("\n--- A B  ---\n"));
    }
}
