//! Growth: what every iteration of the program leaves behind. And what keeps tensors alive.

use ttmem_query::{GrowthSummary, HolderRow, Survivor};

use super::{Detail, Page, plural};
use crate::styled::{Style, Text};
use crate::table::{Align, Table, one_line};
use crate::units::{count, size};

impl Page<'_> {
    /// Growth with the origins of the tensors that stay. On a small screen, the suggestion about growth has to do.
    pub(super) fn growth(&self, out: &mut Text) {
        let Some(growth) = self.rank.growth.as_ref() else { return };
        let Some(title) = &growth.title else { return };
        if self.detail > Detail::Lists || self.rank.at.is_some() {
            return;
        }
        out.heading(title);
        self.survivors_of_iterations(growth, out);
        self.holders_of_survivors(growth, out);
        for note in growth.notes.iter().chain(&growth.caveats) {
            out.sentence(note, Style::Plain);
        }
        out.blank();
    }

    /// A line about memory that was looked at and does not grow.
    pub(super) fn no_growth(&self, out: &mut Text) {
        let steady = self.rank.growth.as_ref().filter(|growth| !growth.grows() && growth.pool.is_some());
        let Some(growth) = steady.filter(|_| self.rank.at.is_none()) else { return };
        out.sentence(&growth.statement.headline, Style::Plain);
    }

    fn survivors_of_iterations(&self, growth: &GrowthSummary, out: &mut Text) {
        let rows = self.rows;
        let mut table = Table::new([
            ("allocated by", Align::FlexibleEnd),
            ("line", Align::Flexible),
            ("module", Align::Flexible),
            (&*format!("per {}", growth.unit.name()), Align::Right),
            ("added", Align::Right),
            ("tensors", Align::Right),
        ])
        .optional(&[5, 2]);
        let row = |survivor: &Survivor| {
            [
                survivor.allocated_by.clone(),
                survivor.loc.clone().unwrap_or_default(),
                survivor.module.clone().unwrap_or_default(),
                size(survivor.per_iteration_per_bank),
                size(survivor.per_bank),
                survivor.tensors.map_or_else(String::new, |tensors| count(tensors as u64)),
            ]
        };
        for survivor in growth.survivors.iter().take(rows) {
            table.row(row(survivor));
        }
        out.table(&table);
        let more = growth.survivor_count.saturating_sub(rows.min(growth.survivors.len()));
        let hint =
            if rows < growth.survivors.len() { format!(" ({})", self.hints.rows) } else { String::new() };
        if more > 0 {
            out.line(format!("  … and {}{hint}", plural(more as u64, "more origin")));
        }
    }

    /// A line for each origin whose holder is known.
    fn holders_of_survivors(&self, growth: &GrowthSummary, out: &mut Text) {
        for survivor in growth.survivors.iter().take(self.rows) {
            if let Some(held) = survivor.held() {
                out.sentence(&held, Style::Plain);
            }
        }
    }

    /// What kept tensors alive at the last search. After an out-of-memory error, it is part of the explanation.
    pub(super) fn holders(&self, out: &mut Text) {
        let is_brief = self.detail > Detail::Lists;
        let is_shown = self.rank.at.is_none() && (!is_brief || self.rank.oom.is_some());
        let Some(found) = self.rank.holders.as_ref().filter(|_| is_shown) else { return };
        let rows = if is_brief { FEW_ROWS } else { self.rows };
        // The full text has no more rows than the summary.
        let hint = if found.count > found.rows.len() { self.hints.rows } else { self.hints.lines };
        out.heading("Kept alive by");
        let names_pools = found.rows.iter().any(|row| row.pool != found.rows[0].pool);
        let labels: Vec<String> =
            found.rows.iter().take(rows).map(|row| self.held(row, names_pools)).collect();
        let width = labels.iter().map(String::len).max().unwrap_or(0);
        for (label, row) in labels.iter().zip(&found.rows) {
            out.labeled(label, width, &one_line(&row.chain));
        }
        let more = found.count.saturating_sub(labels.len());
        if more > 0 {
            out.line(format!("  … and {more} more ({hint})"));
        }
        out.blank();
    }

    /// `12.0 MiB in 12 tensors`, with the pool if there are several.
    fn held(&self, row: &HolderRow, names_pool: bool) -> String {
        let suffix = self.rank.pools.get(&row.pool).map_or("", |pool| pool.extent.suffix());
        let of = if names_pool { format!(" of {}", row.pool) } else { String::new() };
        format!("{}{suffix}{of} in {}", size(row.per_bank), plural(row.tensors as u64, "tensor"))
    }
}

/// Holders on a small screen.
const FEW_ROWS: usize = 2;
