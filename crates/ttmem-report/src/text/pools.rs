//! The pools: how much of each is used at its peak.

use ttmem_query::{Extent, PoolSummary};

use super::{Detail, Page, part};
use crate::styled::{Span, Style, Text};
use crate::units::{Unit, percent, size};

impl Page<'_> {
    pub(super) fn pools(&self, out: &mut Text) {
        let shown = |(_, pool): &(&str, &PoolSummary)| {
            let is_used = pool.peak_per_bank.is_some_and(|peak| peak > 0);
            is_used || (self.detail == Detail::Full && pool.capacity_per_bank.is_none_or(|all| all > 0))
        };
        let pools: Vec<(&str, &PoolSummary)> = self.rank.pools.iter().filter(shown).collect();
        let name_width = pools.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let figures: Vec<String> = pools.iter().map(|(_, pool)| figure(pool)).collect();
        let width = figures.iter().map(String::len).max().unwrap_or(0);
        for ((name, pool), figure) in pools.iter().zip(&figures) {
            let peak = pool.peak_per_bank;
            let share = peak
                .zip(pool.capacity_per_bank)
                .map_or_else(String::new, |(peak, all)| format!("({})", percent(peak, all)));
            let device = match (pool.peak_total, pool.banks) {
                (Some(total), Some(banks)) if total > 0 && banks > 1 => {
                    format!("  {} in {banks} banks", size(total))
                }
                (Some(total), None) if total > 0 && pool.extent != Extent::Device => {
                    format!("  {} on the device", size(total))
                }
                _ => String::new(),
            };
            let head = format!("  {name:<name_width$}  {figure:>width$} {share:<6}  ");
            // The bar shrinks so that the line fits.
            let room = out.width().saturating_sub(head.chars().count() + DEVICE_WIDTH);
            let bar = usage_bar(pool, room.clamp(4, 24) as u64);
            let head = if bar.is_some() { head } else { head.trim_end().to_owned() };
            out.row_spans([Span::plain(head)].into_iter().chain(bar).chain([Span::plain(device)]));
        }
        if !pools.is_empty() {
            out.blank();
        }
    }
}

/// The longest `  1023.99 GiB in 120 banks`.
const DEVICE_WIDTH: usize = 26;

/// How much of a pool is used at its peak, as a bar of `width` cells in the style of its level.
fn usage_bar(pool: &PoolSummary, width: u64) -> Option<Span> {
    let (peak, capacity) = pool.peak_per_bank.zip(pool.capacity_per_bank)?;
    let filled = if capacity == 0 { 0 } else { (peak.saturating_mul(width)).div_ceil(capacity).min(width) };
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    let bar = format!("{}{}", cells(filled, "▓"), cells(width - filled, "░"));
    Some(Span::new(bar, Style::of_level(pool.level)))
}

/// `686.4 of 4080.0 MiB per bank`.
fn figure(pool: &PoolSummary) -> String {
    let (_, part) = part(pool);
    match (pool.peak_per_bank, pool.capacity_per_bank) {
        (Some(peak), Some(all)) => format!("{}{part}", Unit::of(all).part_of(peak, all)),
        (Some(peak), None) if pool.peak_source == Some("sampled") => {
            format!("at least {}{part} at the peak (sampled)", size(peak))
        }
        (Some(peak), None) => format!("{}{part} at the peak", size(peak)),
        (None, _) => "not observed".into(),
    }
}
