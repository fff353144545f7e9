//! The pools: how much of each is used at its peak.

use ttmem_query::{Extent, L1Moment, L1Part, L1Summary, Level, PoolSummary};

use super::{Detail, Page, part};
use crate::styled::{Span, Style, Text};
use crate::table::one_line;
use crate::units::{Unit, percent, size};

/// A row: a pool, or the L1 of a core with all its parts.
struct Row<'a> {
    name: &'a str,
    figure: String,
    peak: Option<u64>,
    capacity: Option<u64>,
    level: Option<Level>,
    /// The same for the device.
    device: String,
    /// The parts of L1, and its lowest headroom.
    further: Vec<String>,
}

impl Page<'_> {
    pub(super) fn pools(&self, out: &mut Text) {
        let shown = |(name, pool): &(&str, &PoolSummary)| {
            let is_used =
                pool.peak_per_bank.is_some_and(|peak| peak > 0) || *name == "L1" && self.l1().is_some();
            is_used || (self.detail == Detail::Full && pool.capacity_per_bank.is_none_or(|all| all > 0))
        };
        let mut rows: Vec<Row<'_>> =
            self.rank.pools.iter().filter(shown).map(|(name, pool)| self.row(name, pool)).collect();
        if self.rank.pools.get("L1").is_none() {
            rows.extend(self.l1().map(|(l1, peak)| l1_row(l1, peak, self.detail <= Detail::Lists)));
        }
        let name_width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let width = rows.iter().map(|row| row.figure.len()).max().unwrap_or(0);
        for Row { name, figure, peak, capacity, level, device, further } in &rows {
            let share = peak
                .zip(*capacity)
                .map_or_else(String::new, |(peak, all)| format!("({})", percent(peak, all)));
            let head = format!("  {name:<name_width$}  {figure:>width$} {share:<6}  ");
            // The bar shrinks so that the line fits.
            let room = out.width().saturating_sub(head.chars().count() + DEVICE_WIDTH);
            let bar = usage_bar(peak.zip(*capacity), *level, room.clamp(4, 24) as u64);
            let head = if bar.is_some() { head } else { head.trim_end().to_owned() };
            out.row_spans([Span::plain(head)].into_iter().chain(bar).chain([Span::plain(device.as_str())]));
            for line in further {
                out.line(format!("{:name_width$}    {line}", ""));
            }
        }
        if !rows.is_empty() {
            out.blank();
        }
    }

    fn row<'r>(&'r self, name: &'r str, pool: &PoolSummary) -> Row<'r> {
        if let Some((l1, peak)) = self.l1().filter(|_| name == "L1") {
            return l1_row(l1, peak, self.detail <= Detail::Lists);
        }
        let device = match (pool.peak_total, pool.banks) {
            (Some(total), Some(banks)) if total > 0 && banks > 1 => {
                format!("  {} in {banks} banks", size(total))
            }
            (Some(total), None) if total > 0 && pool.extent != Extent::Device => {
                format!("  {} on the device", size(total))
            }
            _ => String::new(),
        };
        let (peak, capacity, level) = (pool.peak_per_bank, pool.capacity_per_bank, pool.level);
        Row { name, figure: figure(pool), peak, capacity, level, device, further: Vec::new() }
    }

    /// The L1 of a core and its peak, if it is used.
    fn l1(&self) -> Option<(&L1Summary, &L1Moment)> {
        let l1 = self.rank.l1.as_ref()?;
        let peak = l1.peak.as_ref().filter(|peak| peak.bytes.is_some())?;
        (l1.programs > 0 || peak.tensors.is_some_and(|tensors| tensors > 0)).then_some((l1, peak))
    }
}

/// The row of L1: all that a core has in use at its peak.
fn l1_row<'a>(l1: &L1Summary, peak: &L1Moment, has_note: bool) -> Row<'a> {
    let (bytes, capacity) = (peak.bytes, l1.size_per_core);
    let at_least = if l1.peak_is_lower_bound { "at least " } else { "" };
    let figure = match (bytes, capacity) {
        (Some(bytes), Some(all)) => format!("{at_least}{} per core", Unit::of(all).part_of(bytes, all)),
        (Some(bytes), None) => format!("{at_least}{} per core at the peak", size(bytes)),
        (None, _) => "not observed".into(),
    };
    let mut further = vec![l1_parts(l1, peak)];
    further.extend(l1.lowest_headroom.as_ref().and_then(|lowest| {
        let op = lowest.op.as_ref().map_or_else(String::new, |op| format!(", {}", one_line(op)));
        Some(format!("lowest {} at step {}{op}", l1_headroom(lowest)?, lowest.step))
    }));
    further.extend(l1.note.clone().filter(|_| has_note));
    let device = String::new();
    Row { name: "L1", figure, peak: bytes, capacity, level: l1.level, device, further }
}

/// `reserved 103.3 KiB, circular buffers 12.0 KiB, tensors 1024.0 KiB`, in the unit of L1.
pub(super) fn l1_parts(l1: &L1Summary, moment: &L1Moment) -> String {
    let unit = Unit::of(l1.size_per_core.or(moment.bytes).unwrap_or(0));
    let part = |part: &L1Part| match part.bytes {
        Some(bytes) => format!("{} {}", part.name, unit.show(bytes)),
        None => format!("{} unknown", part.name),
    };
    moment.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// `headroom at most 328.3 KiB`.
pub(super) fn l1_headroom(moment: &L1Moment) -> Option<String> {
    let bytes = moment.headroom?;
    let sign = if bytes < 0 { "-" } else { "" };
    let at_most = if moment.headroom_is_upper_bound { "at most " } else { "" };
    let holes = moment.holes.filter(|holes| *holes > 0);
    let holes =
        holes.map_or_else(String::new, |holes| format!(" ({} more in holes between tensors)", size(holes)));
    Some(format!("headroom {at_most}{sign}{}{holes}", size(bytes.unsigned_abs())))
}

/// The longest `  1023.99 GiB in 120 banks`.
const DEVICE_WIDTH: usize = 26;

/// How much is used at the peak, as a bar of `width` cells in the style of the level.
fn usage_bar(peak_of_capacity: Option<(u64, u64)>, level: Option<Level>, width: u64) -> Option<Span> {
    let (peak, capacity) = peak_of_capacity?;
    let filled = if capacity == 0 { 0 } else { (peak.saturating_mul(width)).div_ceil(capacity).min(width) };
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    let bar = format!("{}{}", cells(filled, "▓"), cells(width - filled, "░"));
    Some(Span::new(bar, Style::of_level(level)))
}

/// `686.4 of 4080.0 MiB per bank`.
fn figure(pool: &PoolSummary) -> String {
    let (_, part) = part(pool);
    match (pool.peak_per_bank, pool.capacity_per_bank) {
        (Some(peak), Some(all)) => format!("{}{part}", Unit::of(all).part_of(peak, all)),
        (Some(peak), None) if pool.is_peak_at_least() => {
            let why = if pool.peak_source == Some("sampled") { "sampled" } else { "history incomplete" };
            format!("at least {}{part} at the peak ({why})", size(peak))
        }
        (Some(peak), None) => format!("{}{part} at the peak", size(peak)),
        (None, _) => "not observed".into(),
    }
}
