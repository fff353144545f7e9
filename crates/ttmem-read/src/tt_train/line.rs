//! Parses one line of a training log.
//!
//! Figures of Tenstorrent devices are printed in MB, which are MiB, with two decimal places. For other devices,
//! `ttmem.MemoryUsageTracker` prints the name of the device instead of DRAM, MiB or GiB, and no L1. Prefixes (of a logger
//! or pytest) are ignored.

use memchr::memmem;

use crate::tt_log::view::decimal;

/// The rounding of figures in MB: 0.01 MiB, in bytes.
#[cfg(test)]
const QUANTUM: u64 = 10_486;
/// The name of a Tenstorrent device's memory.
pub(super) const DRAM: &[u8] = b"DRAM";

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The first line of a summary.
    Summary,
    /// The first line of a phase.
    Phase(&'a [u8]),
    /// The usage of the phase.
    Segment(Segment<'a>),
    /// The cumulative usage up to the end of the phase.
    Cumulative(Cumulative),
    /// The L1 usage of kernels and buffers per core.
    L1(L1),
    /// The line that announces the totals.
    Totals,
    /// The totals.
    Overall {
        /// The peak usage.
        peak: i64,
        /// The usage at the end.
        current: i64,
        /// The rounding of these figures.
        quantum: u64,
    },
    /// The number of model parameters.
    Parameters(u64),
    /// The memory of the device, in bytes.
    DeviceMemory(u64),
    /// The tracker overwrites a phase of the same name.
    Overwritten(&'a [u8]),
    /// The tracker has recorded no phases.
    Nothing,
    /// Starts like one of these lines, but does not match.
    Malformed,
    /// Any other line.
    Other,
}

/// `DRAM: Segment Peak …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub device: &'a [u8],
    pub peak: i64,
    pub allocations: i64,
    pub deallocations: i64,
    pub change: i64,
    pub quantum: u64,
}

/// `DRAM: Cumulative Peak …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cumulative {
    pub peak: i64,
    pub current: i64,
    pub quantum: u64,
}

/// `L1: Peak CB …`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct L1 {
    pub cb: i64,
    pub buffer: i64,
    pub total: i64,
}

/// Parses a line without tags and colors.
pub(super) fn parse(line: &[u8]) -> Said<'_> {
    type Parse = for<'a> fn(&'a [u8], Figures<'a>) -> Option<Said<'a>>;
    const OF_DEVICE: [(&[u8], Parse); 2] = [
        (b": Segment Peak ", |device, mut figures| {
            Some(Said::Segment(Segment {
                device,
                peak: figures.next(b", Allocations ")?,
                allocations: figures.next(b", Deallocations ")?,
                deallocations: figures.next(b", Segment Change ")?,
                change: figures.next(b"")?,
                quantum: figures.quantum,
            }))
        }),
        (b": Cumulative Peak ", |_, mut figures| {
            Some(Said::Cumulative(Cumulative {
                peak: figures.next(b", Cumulative Current ")?,
                current: figures.next(b"")?,
                quantum: figures.quantum,
            }))
        }),
    ];
    let line = line.trim_ascii();
    for (words, parse) in OF_DEVICE {
        if let Some(at) = memmem::find(line, words)
            && let Some(device) = device(&line[..at])
        {
            return parse(device, Figures::new(&line[at + words.len()..])).unwrap_or(Said::Malformed);
        }
    }
    if let Some(at) = memmem::find(line, b"L1: Peak CB ") {
        return l1(&line[at + b"L1: Peak CB ".len()..]).unwrap_or(Said::Malformed);
    }
    if let Some(totals) = overall(line) {
        return totals;
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

/// The name before the figures: a device of PyTorch such as `cuda:0`, or `DRAM`, which may follow any prefix.
fn device(before: &[u8]) -> Option<&[u8]> {
    if before.ends_with(DRAM) {
        return Some(DRAM);
    }
    let name = before.rsplit(u8::is_ascii_whitespace).next()?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b":_-".contains(byte);
    (!name.is_empty() && name.iter().all(is_name)).then_some(name)
}

fn l1(figures: &[u8]) -> Option<Said<'static>> {
    let mut figures = Figures::new(figures);
    let (cb, buffer) = (figures.next(b", Peak Buffer ")?, figures.next(b", Peak Total ")?);
    Some(Said::L1(L1 { cb, buffer, total: figures.next(b"")? }))
}

/// `Overall DRAM Peak: 2.00 MB, Final DRAM Usage: 1.00 MB`
fn overall(line: &[u8]) -> Option<Said<'static>> {
    let named = &line[memmem::find(line, b"Overall ")? + b"Overall ".len()..];
    let (device, rest) = named.split_at(memmem::find(named, b" Peak: ")?);
    if device.contains(&b' ') {
        return None;
    }
    let mut figures = Figures::new(&rest[b" Peak: ".len()..]);
    let mut parse = || {
        let peak = figures.next(&[b", Final ", device, b" Usage: "].concat())?;
        Some(Said::Overall { peak, current: figures.next(b"")?, quantum: figures.quantum })
    };
    Some(parse().unwrap_or(Said::Malformed))
}

/// `--- FORWARD_PASS ---`
fn phase(line: &[u8]) -> Option<&[u8]> {
    let body = line.strip_suffix(b" ---")?;
    let at = memmem::find(body, b"--- ")?;
    // A longer rule is decoration.
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

/// Parses a row above a summary. The label must start the line: `trainable params 0` does not match.
fn header(line: &[u8]) -> Option<Said<'static>> {
    const PARAMETERS: [&[u8]; 2] = [b"Model number of parameters:", b"Total parameters:"];
    let line = line.strip_prefix(b"- ").unwrap_or(line);
    let parameters = PARAMETERS.iter().find_map(|words| line.strip_prefix(*words));
    if let Some(rest) = parameters.or_else(|| row(line, b"params")) {
        return whole(rest.trim_ascii()).map(Said::Parameters);
    }
    let memory = line.strip_prefix(b"Available Device Memory:").or_else(|| row(line, b"memory"))?;
    let mut figures = Figures::new(memory.trim_ascii());
    let bytes = figures.next(b"")?;
    figures.rest.is_empty().then_some(())?;
    u64::try_from(bytes).ok().map(Said::DeviceMemory)
}

/// A row of the banner: a label, at least two spaces, and a value.
fn row<'a>(line: &'a [u8], label: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(label).filter(|rest| rest.starts_with(b"  "))
}

/// `969,369,600`
fn whole(text: &[u8]) -> Option<u64> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b',').collect();
    decimal(&digits)
}

/// Figures with words between them.
struct Figures<'a> {
    rest: &'a [u8],
    /// The largest rounding of the figures so far, in bytes.
    quantum: u64,
}

impl<'a> Figures<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Self { rest, quantum: 0 }
    }

    /// Parses `+1863.25 MB` into bytes, and the words that follow.
    fn next(&mut self, then: &[u8]) -> Option<i64> {
        /// The maximum number of decimal places.
        const MAX_DECIMALS: usize = 6;
        const UNITS: [(&[u8], u32); 3] = [(b" MB", 20), (b" MiB", 20), (b" GiB", 30)];
        let (negative, digits) = match self.rest.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, self.rest),
        };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
        let whole_part = whole(&digits[..count])?;
        let (fraction, rest) = match digits[count..].strip_prefix(b".") {
            Some(behind) => behind.split_at(behind.iter().take_while(|byte| byte.is_ascii_digit()).count()),
            None => (&b""[..], &digits[count..]),
        };
        let decimals = u32::try_from(fraction.len()).ok().filter(|_| fraction.len() <= MAX_DECIMALS)?;
        let scale = 10i128.pow(decimals);
        let fraction = if fraction.is_empty() { 0 } else { decimal(fraction)? };
        let scaled = i128::from(whole_part) * scale + i128::from(fraction);
        let (rest, unit) =
            UNITS.iter().find_map(|(name, power)| Some((rest.strip_prefix(*name)?, *power)))?;
        let bytes = i64::try_from(((scaled << unit) + scale / 2) / scale).ok()?;
        self.rest = rest.strip_prefix(then)?;
        self.quantum = self.quantum.max(u64::try_from(((1i128 << unit) + scale - 1) / scale).ok()?);
        Some(if negative { -bytes } else { bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    #[test]
    fn figures_are_bytes() {
        let text = b"  DRAM: Segment Peak 1863.25 MB, Allocations 22140.61 MB, Deallocations 0.00 MB, Segment Change -2.50 MB";
        let segment = Segment {
            device: DRAM,
            peak: 1863 * MIB + MIB / 4,
            allocations: 23_216_112_271,
            deallocations: 0,
            change: -2 * MIB - MIB / 2,
            quantum: QUANTUM,
        };
        assert_eq!(parse(text), Said::Segment(segment));
        assert_eq!(
            parse(b"DRAM: Cumulative Peak 0.01 MB, Cumulative Current +0.00 MB"),
            Said::Cumulative(Cumulative { peak: 10_486, current: 0, quantum: QUANTUM })
        );
        assert_eq!(
            parse(b"  L1: Peak CB 0.50 MB, Peak Buffer 0.25 MB, Peak Total 0.75 MB"),
            Said::L1(L1 { cb: MIB / 2, buffer: MIB / 4, total: MIB / 4 * 3 })
        );
        assert_eq!(
            parse(b"Overall DRAM Peak: 2.00 MB, Final DRAM Usage: 1.00 MB"),
            Said::Overall { peak: 2 * MIB, current: MIB, quantum: QUANTUM }
        );
    }

    #[test]
    fn other_devices_have_names_and_units() {
        for (prefix, device) in
            [("  ", "cuda:0"), ("INFO:train: ", "cpu"), ("[2026-11-17] ", "privateuse1:3")]
        {
            let line = format!(
                "{prefix}{device}: Segment Peak 1.500 GiB, Allocations 2.00 MiB, Deallocations 0.50 MiB, \
                 Segment Change +1.50 MiB"
            );
            let segment = Segment {
                device: device.as_bytes(),
                peak: 1536 * MIB,
                allocations: 2 * MIB,
                deallocations: MIB / 2,
                change: MIB + MIB / 2,
                quantum: 1_073_742,
            };
            assert_eq!(parse(line.as_bytes()), Said::Segment(segment));
        }
        assert_eq!(
            parse(b"  cpu: Cumulative Peak 3.00 MiB, Cumulative Current -1.00 MiB"),
            Said::Cumulative(Cumulative { peak: 3 * MIB, current: -MIB, quantum: QUANTUM })
        );
        assert_eq!(
            parse(b"Overall cuda:0 Peak: 2.000 GiB, Final cuda:0 Usage: 1.00 MiB"),
            Said::Overall { peak: 2048 * MIB, current: MIB, quantum: 1_073_742 }
        );
        assert_eq!(parse(b"Overall cuda:0 Peak: 2.00 MiB, Final cuda:1 Usage: 1.00 MiB"), Said::Malformed);
        for line in ["Overall the new Peak: 3", "see (x): Segment Peak 3", ": Cumulative Peak 3"] {
            assert_eq!(parse(line.as_bytes()), Said::Other, "{line}");
        }
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
        // Lines that only look similar.
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
