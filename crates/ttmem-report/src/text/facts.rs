//! Expected sizes, largest increases, and facts that fit on a line each.

use ttmem_model::Block;
use ttmem_query::{Increase, LaunchSummary, LiveTensor, Severity, groups, location_text};

use super::{ERRORS_ONLY, Page, shape_and_type};
use crate::styled::{Style, Text};
use crate::table::{Align, Table, cut, one_line};
use crate::units::{Unit, change, count, percent, signed_percent, size};

impl Page<'_> {
    /// The expected sizes of tensor classes, and the measured ones.
    pub(super) fn expected(&self, out: &mut Text) {
        let rows = &self.rank.expected;
        if rows.is_empty() {
            return;
        }
        out.heading("Expected and measured peak per class");
        let mut table = Table::new([
            ("class", Align::Left),
            ("expected", Align::Right),
            ("measured", Align::Right),
            ("difference", Align::Right),
            ("", Align::Right),
            ("basis", Align::Flexible),
        ])
        .optional(&[5, 4]);
        for row in rows {
            table.row([
                row.class.as_str().into(),
                size(row.expected_bytes),
                row.measured_bytes.map_or_else(|| "unknown".into(), size),
                row.difference_bytes.map_or_else(|| "unknown".into(), change),
                row.difference_pct.map_or_else(String::new, signed_percent),
                row.how.clone(),
            ]);
        }
        out.table(&table);
        for (class, note) in rows.iter().filter_map(|row| Some((row.class.as_str(), row.note?))) {
            out.sentence(&format!("{class}: {note}."), Style::Plain);
        }
        out.blank();
    }

    pub(super) fn increases(&self, out: &mut Text) {
        let increases = &self.rank.increases;
        let rows = self.rows.min(5);
        if increases.is_empty() || self.rank.at.is_some() {
            return;
        }
        let pool = self
            .rank
            .pools
            .get("DRAM")
            .map_or_else(|| self.rank.peak.as_ref().map_or("memory", |peak| peak.pool.as_str()), |_| "DRAM");
        let unit = Unit::of(increases[0].added_per_bank);
        let mut table = Table::new([
            (&*format!("largest increases in {pool}"), Align::Left),
            (self.part(pool).0, Align::Right),
            ("operation", Align::Flexible),
            ("location", Align::Flexible),
        ]);
        for increase in increases.iter().take(rows) {
            let each = if increase.count > 1 { " each" } else { "" };
            table.row([
                steps(increase),
                format!("+{}{each}", unit.show(increase.added_per_bank)),
                increase.op.clone().unwrap_or_else(|| "unknown".into()),
                location_text(increase.loc.as_deref(), increase.locations).unwrap_or_else(|| "–".into()),
            ]);
        }
        out.table(&table);
        out.blank();
    }

    /// Facts that fit on a line each.
    pub(super) fn facts(&self, out: &mut Text) {
        let rank = self.rank;
        if let Some(text) = rank.launch.as_ref().map(LaunchSummary::text).filter(|text| !text.is_empty()) {
            out.line(format!("  process: {}", cut(&one_line(&text), out.width().saturating_sub(11))));
        }
        if let Some(padding) = rank.padding.as_ref().filter(|padding| padding.padded_bytes > 0) {
            let wasted = padding.padded_bytes.saturating_sub(padding.logical_bytes);
            out.line(format!(
                "  Padding at the {} peak: {} of {} on the device ({})",
                padding.pool,
                size(wasted),
                size(padding.padded_bytes),
                percent(wasted, padding.padded_bytes)
            ));
        }
        if let Some(weights) = rank.weights.as_ref().filter(|weights| weights.count > 0) {
            let twice = weights.kept_twice_bytes.filter(|bytes| *bytes > 0);
            let twice = twice.map_or_else(String::new, |bytes| {
                format!("; {} stored twice, as the original and as a const-eval result", size(bytes))
            });
            let (number, bytes) = (count(weights.count as u64), size(weights.bytes));
            out.line(format!("  Declared weights: {number} ({bytes} without padding){twice}"));
        }
        self.no_growth(out);
        self.fragments(out);
        let outside: Vec<String> = rank
            .outside
            .iter()
            .take(3)
            .map(|gap| format!("{} {} at step {}", change(gap.change_per_bank), gap.pool, gap.step))
            .collect();
        if !outside.is_empty() {
            let more = rank.outside.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            out.line(format!("  Changes per bank between programs: {}{more}", outside.join(", ")));
        }
        self.allocators(out);
        for (name, pool) in rank.pools.iter() {
            if let (Some(end), Some(source)) = (pool.final_per_bank.filter(|end| *end > 0), pool.final_source)
            {
                let (_, part) = self.part(name);
                let source = if source == "rebuilt" { "reconstructed" } else { source };
                out.line(format!("  {name} at the end: {}{part} ({source})", size(end)));
            }
        }
    }

    /// The counters of caching allocators. One that never reserves anything does not exist: level `ops` has such counters
    /// for CPU tensors.
    pub(super) fn allocators(&self, out: &mut Text) {
        for (name, pool) in self.rank.pools.iter() {
            let Some((levels, reserved_peak)) = pool.caching_allocator() else { continue };
            let known = [
                ("requested", levels.requested_at_peak_total),
                ("active", levels.active_at_peak_total),
                ("reserved", levels.reserved_at_peak_total),
            ];
            let known = known.iter().filter_map(|(what, bytes)| Some(format!("{} {what}", size((*bytes)?))));
            let known: Vec<String> = known.collect();
            if !known.is_empty() {
                let reserved_peak = size(reserved_peak);
                out.line(format!(
                    "  {name} at its peak: {}; reserved peak {reserved_peak}",
                    known.join(", ")
                ));
            }
        }
    }

    pub(super) fn fragments(&self, out: &mut Text) {
        for (name, worst) in self.rank.fragmentation.iter() {
            if worst.severity != Severity::Notable {
                continue;
            }
            let share = percent(worst.largest_free_per_bank, worst.free_per_bank);
            let when = if self.format == ERRORS_ONLY {
                " when the allocation failed".to_owned()
            } else {
                format!(", worst before step {}", worst.step)
            };
            out.line(format!(
                "  {name} fragmentation{when}: {} free{}, {} ({share}) of it in the largest block",
                size(worst.free_per_bank),
                self.part(name).1,
                size(worst.largest_free_per_bank)
            ));
            if let Some(blocks) = worst.blocks.as_deref().filter(|blocks| !blocks.is_empty()) {
                out.row(format!("    one bank, by address: {}", block_bar(blocks, BLOCK_BAR)));
            }
            self.survivors(&worst.survivors, out);
        }
    }

    /// The tensors that probably lie between the holes.
    pub(super) fn survivors(&self, survivors: &[LiveTensor], out: &mut Text) {
        if survivors.is_empty() {
            return;
        }
        let mut table = Table::new([
            ("tensors between free blocks", Align::Flexible),
            ("", Align::Left),
            ("size", Align::Right),
            ("allocated by", Align::FlexibleEnd),
            ("freed by", Align::Left),
        ])
        .optional(&[4]);
        let groups = groups(survivors);
        for group in groups.iter().take(self.rows.min(5)) {
            table.row([
                group.title().unwrap_or_else(|| "–".into()),
                shape_and_type(group.first()),
                group.per_bank.map_or_else(|| "unknown".into(), size),
                group.allocated_by(),
                group.freed_by().unwrap_or_else(|| "–".into()),
            ]);
        }
        out.table(&table);
    }
}

/// Cells in the picture of a bank.
const BLOCK_BAR: u64 = 60;

/// A bank from its lowest address to its highest: full, empty, or both in one cell.
fn block_bar(blocks: &[Block], cells: u64) -> String {
    let start = blocks.iter().map(|block| block.address).min().unwrap_or(0);
    let end = blocks.iter().map(|block| block.address.saturating_add(block.size)).max().unwrap_or(0);
    let span = end.saturating_sub(start).max(1);
    let edge = |cell: u64| {
        start + u64::try_from(u128::from(span) * u128::from(cell) / u128::from(cells)).unwrap_or(0)
    };
    let cell = |cell: u64| {
        let (from, until) = (edge(cell), edge(cell + 1));
        let touches =
            |block: &&Block| block.address < until && block.address.saturating_add(block.size) > from;
        let has = |allocated: bool| blocks.iter().filter(touches).any(|block| block.allocated == allocated);
        match (has(true), has(false)) {
            (true, false) => '█',
            (true, true) => '▒',
            (false, _) => '░',
        }
    };
    (0..cells).map(cell).collect()
}

/// The steps of an increase.
fn steps(increase: &Increase) -> String {
    let (first, last) = (increase.first_step, increase.last_step);
    match increase.count {
        1 => format!("step {first}"),
        2 => format!("steps {first} and {last}"),
        count => format!("{count} steps, {first}–{last}"),
    }
}
