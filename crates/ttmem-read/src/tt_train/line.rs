//! What one line of a training log says of memory.
//!
//! Figures are printed in MB, which are MiB, with two digits behind the point. Whatever stands in front of the words
//! (a logger's prefix, pytest's) does not matter.

use memchr::memmem;

use crate::tt_log::view::decimal;

/// What figures are rounded to: 0.01 MiB, in bytes.
pub(super) const QUANTUM: u64 = 10_486;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A summary begins.
    Summary,
    /// A phase begins.
    Phase(&'a [u8]),
    /// What happened in the phase.
    Segment(Segment),
    /// What it comes to with the phases before.
    Cumulative(Cumulative),
    /// What kernels and buffers took of a core.
    L1(L1),
    /// The totals follow.
    Totals,
    /// The totals.
    Overall {
        /// The highest use.
        peak: i64,
        /// The use at the end.
        current: i64,
    },
    /// The parameters of the model.
    Parameters(u64),
    /// The memory of the device, in bytes.
    DeviceMemory(u64),
    /// A tracker that writes over a phase of the same name.
    Overwritten(&'a [u8]),
    /// A tracker that has nothing to tell.
    Nothing,
    /// It begins as one of these, and goes on differently.
    Malformed,
    /// Something else.
    Other,
}

/// `DRAM: Segment Peak …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub peak: i64,
    pub allocations: i64,
    pub deallocations: i64,
    pub change: i64,
}

/// `DRAM: Cumulative Peak …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cumulative {
    pub peak: i64,
    pub current: i64,
}

/// `L1: Peak CB …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct L1 {
    pub cb: i64,
    pub buffer: i64,
    pub total: i64,
}

/// Takes a line apart, which has no tag and no colours.
pub(super) fn parse(line: &[u8]) -> Said<'_> {
    type Figures = fn(&[u8]) -> Option<Said<'static>>;
    const FIGURES: [(&[u8], Figures); 4] = [
        (b"DRAM: Segment Peak ", |rest| {
            let (peak, rest) = figure(rest, b", Allocations ")?;
            let (allocations, rest) = figure(rest, b", Deallocations ")?;
            let (deallocations, rest) = figure(rest, b", Segment Change ")?;
            let (change, _) = figure(rest, b"")?;
            Some(Said::Segment(Segment { peak, allocations, deallocations, change }))
        }),
        (b"DRAM: Cumulative Peak ", |rest| {
            let (peak, rest) = figure(rest, b", Cumulative Current ")?;
            let (current, _) = figure(rest, b"")?;
            Some(Said::Cumulative(Cumulative { peak, current }))
        }),
        (b"L1: Peak CB ", |rest| {
            let (cb, rest) = figure(rest, b", Peak Buffer ")?;
            let (buffer, rest) = figure(rest, b", Peak Total ")?;
            let (total, _) = figure(rest, b"")?;
            Some(Said::L1(L1 { cb, buffer, total }))
        }),
        (b"Overall DRAM Peak: ", |rest| {
            let (peak, rest) = figure(rest, b", Final DRAM Usage: ")?;
            let (current, _) = figure(rest, b"")?;
            Some(Said::Overall { peak, current })
        }),
    ];
    let line = line.trim_ascii();
    let behind = |words: &[u8]| memmem::find(line, words).map(|at| &line[at + words.len()..]);
    for (words, figures) in FIGURES {
        if let Some(rest) = behind(words) {
            return figures(rest).unwrap_or(Said::Malformed);
        }
    }
    if line.ends_with(b"=== Memory Usage Summary ===") {
        return Said::Summary;
    }
    if line.ends_with(b"=== Final Totals ===") {
        return Said::Totals;
    }
    if let Some(name) = phase(line) {
        return Said::Phase(name);
    }
    if let Some(name) = overwritten(line) {
        return Said::Overwritten(name);
    }
    if line.ends_with(b"WARNING: No traces captured") {
        return Said::Nothing;
    }
    header(line).unwrap_or(Said::Other)
}

/// `--- FORWARD_PASS ---`
fn phase(line: &[u8]) -> Option<&[u8]> {
    let body = line.strip_suffix(b" ---")?;
    let at = memmem::find(body, b"--- ")?;
    // A longer rule is an ornament.
    let is_rule = body[..at].last() == Some(&b'-');
    let name = body[at + 4..].trim_ascii();
    (!is_rule && !name.is_empty() && !name.starts_with(b"-")).then_some(name)
}

/// `WARNING: Snapshot 'FORWARD_PASS' already exists, overwriting`
fn overwritten(line: &[u8]) -> Option<&[u8]> {
    let body = line.strip_suffix(b"' already exists, overwriting")?;
    [&b"Trace '"[..], b"Snapshot '"]
        .iter()
        .find_map(|words| memmem::find(body, words).map(|at| &body[at + words.len()..]))
}

/// The rows above a summary. They are whole lines: `trainable params 0` is another.
fn header(line: &[u8]) -> Option<Said<'static>> {
    const PARAMETERS: [&[u8]; 2] = [b"Model number of parameters:", b"Total parameters:"];
    let line = line.strip_prefix(b"- ").unwrap_or(line);
    let parameters = PARAMETERS.iter().find_map(|words| line.strip_prefix(*words));
    if let Some(rest) = parameters.or_else(|| row(line, b"params")) {
        return whole(rest.trim_ascii()).map(Said::Parameters);
    }
    let memory = line.strip_prefix(b"Available Device Memory:").or_else(|| row(line, b"memory"))?;
    let (bytes, rest) = figure(memory.trim_ascii(), b"")?;
    rest.is_empty().then_some(())?;
    u64::try_from(bytes).ok().map(Said::DeviceMemory)
}

/// A row of the banner: a label and, at least two spaces behind it, a value.
fn row<'a>(line: &'a [u8], label: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(label).filter(|rest| rest.starts_with(b"  "))
}

/// `969,369,600`
fn whole(text: &[u8]) -> Option<u64> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b',').collect();
    decimal(&digits)
}

/// `+1863.25 MB` in bytes, and what follows it and the words behind it.
fn figure<'a>(text: &'a [u8], then: &[u8]) -> Option<(i64, &'a [u8])> {
    /// No figure has more digits behind the point.
    const MOST: usize = 6;
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
    let whole_part = whole(&digits[..count])?;
    let (fraction, rest) = match digits[count..].strip_prefix(b".") {
        Some(behind) => behind.split_at(behind.iter().take_while(|byte| byte.is_ascii_digit()).count()),
        None => (&b""[..], &digits[count..]),
    };
    let scale = 10i128.pow(u32::try_from(fraction.len()).ok().filter(|_| fraction.len() <= MOST)?);
    let fraction = if fraction.is_empty() { 0 } else { decimal(fraction)? };
    let scaled = i128::from(whole_part) * scale + i128::from(fraction);
    let bytes = i64::try_from((scaled * (1 << 20) + scale / 2) / scale).ok()?;
    let rest = rest.strip_prefix(b" MB")?.strip_prefix(then)?;
    Some((if negative { -bytes } else { bytes }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    #[test]
    fn figures_are_bytes() {
        let text = b"  DRAM: Segment Peak 1863.25 MB, Allocations 22140.61 MB, Deallocations 0.00 MB, Segment Change -2.50 MB";
        let segment = Segment {
            peak: 1863 * MIB + MIB / 4,
            allocations: 23_216_112_271,
            deallocations: 0,
            change: -2 * MIB - MIB / 2,
        };
        assert_eq!(parse(text), Said::Segment(segment));
        assert_eq!(
            parse(b"DRAM: Cumulative Peak 0.01 MB, Cumulative Current +0.00 MB"),
            Said::Cumulative(Cumulative { peak: 10_486, current: 0 })
        );
        assert_eq!(
            parse(b"  L1: Peak CB 0.50 MB, Peak Buffer 0.25 MB, Peak Total 0.75 MB"),
            Said::L1(L1 { cb: MIB / 2, buffer: MIB / 4, total: MIB / 4 * 3 })
        );
        assert_eq!(
            parse(b"Overall DRAM Peak: 2.00 MB, Final DRAM Usage: 1.00 MB"),
            Said::Overall { peak: 2 * MIB, current: MIB }
        );
    }

    #[test]
    fn phases_have_any_name() {
        for name in
            ["FORWARD_PASS", "FORWARD_PASS_micro_0", "L3_AFTER_ROUTING_FWD__000042", "my phase", "a --- b"]
        {
            assert_eq!(parse(format!("--- {name} ---").as_bytes()), Said::Phase(name.as_bytes()));
            assert_eq!(parse(format!("INFO x: --- {name} ---").as_bytes()), Said::Phase(name.as_bytes()));
        }
        for other in ["--- ---", "-----", "---  ---", "------- x -------", "--- open", "a ---"] {
            assert_eq!(parse(other.as_bytes()), Said::Other, "{other}");
        }
    }

    #[test]
    fn header_rows_of_every_style() {
        for line in [
            "Model number of parameters: 969369600",
            "Total parameters: 969369600",
            "   - Total parameters: 969,369,600",
            "   params  969,369,600",
        ] {
            assert_eq!(parse(line.as_bytes()), Said::Parameters(969_369_600), "{line}");
        }
        for line in [
            "Available Device Memory: 12288 MB",
            "   - Available Device Memory: 12,288.00 MB",
            "   memory  12,288 MB",
        ] {
            assert_eq!(parse(line.as_bytes()), Said::DeviceMemory(12 << 30), "{line}");
        }
        // What only looks so.
        for line in
            ["trainable params  0", "trainable params 0", "used memory 5 MB", "memory 5 MB", "params: 5"]
        {
            assert_eq!(parse(line.as_bytes()), Said::Other, "{line}");
        }
    }

    #[test]
    fn what_is_torn_is_malformed() {
        for line in [
            "  DRAM: Segment Peak 1863.25 MB, Allocations 22140.61 MB, Dealloc",
            "  DRAM: Segment Peak nan MB, Allocations 1.00 MB, Deallocations 0.00 MB, Segment Change +1.00 MB",
            "  DRAM: Cumulative Peak 1.00 MB",
            "  L1: Peak CB 0.12 MB, Peak Buffer",
            "Overall DRAM Peak: 8278.65",
            "DRAM: Cumulative Peak 99999999999999999999.00 MB, Cumulative Current 1.00 MB",
            "DRAM: Cumulative Peak 1.0000000000000000000000001 MB, Cumulative Current 1.00 MB",
        ] {
            assert_eq!(parse(line.as_bytes()), Said::Malformed, "{line}");
        }
    }

    #[test]
    fn warnings_of_the_tracker() {
        assert_eq!(
            parse(b"WARNING: Snapshot 'FORWARD_PASS' already exists, overwriting"),
            Said::Overwritten(b"FORWARD_PASS")
        );
        assert_eq!(parse(b"WARNING: Trace 'X' already exists, overwriting"), Said::Overwritten(b"X"));
        assert_eq!(parse(b"WARNING: No traces captured"), Said::Nothing);
    }
}
