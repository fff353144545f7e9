//! Allocations by what they have in common, and memory that is reserved but not used.

use ttmem_query::{
    AllocationGroup, Allocations, GroupBy, ModuleSource, ReservedPool, Transient, Waste, WasteInPart,
};

use super::{Detail, Page};
use crate::styled::{Style, Text};
use crate::table::{Align, Table};
use crate::units::{Unit, count, percent, size};

/// Lines of a stack that are shown with a group.
const MAX_STACK: usize = 12;
/// Less free memory than this share of the reserved memory needs no table.
const LITTLE: u64 = 10;

impl Page<'_> {
    /// The allocations of the most important pool. Those that are live at a moment are listed with it, unless the user
    /// asked for them.
    pub(super) fn allocations(&self, out: &mut Text) {
        let Some(allocations) = &self.rank.allocations else { return };
        if self.detail > Detail::Lists && !is_asked(allocations) {
            return;
        }
        if let Some(filter) = &allocations.filter {
            // The filter may select allocations of another pool than that of the peak.
            let is_main = self.rank.peak.as_ref().is_none_or(|peak| peak.pool == allocations.pool);
            let of = if is_main { String::new() } else { format!(" of {}", allocations.pool) };
            out.heading(format!("Allocations{of} where {filter}"));
            let (live, total) = (allocations.live, allocations.total);
            out.sentence(
                &format!(
                    "{} live before step {} ({}); {} in all ({}).",
                    count(live.count),
                    allocations.position,
                    size(live.bytes),
                    count(total.count),
                    size(total.bytes)
                ),
                Style::Plain,
            );
            out.blank();
        }
        if is_asked(allocations) {
            if let Some(note) = note(allocations.module_source) {
                out.sentence(note, Style::Plain);
                out.blank();
            }
            self.live_groups(allocations, out);
        }
        self.busiest(allocations, out);
        if self.detail == Detail::Full {
            if allocations.filter.is_none() {
                self.reserved(&allocations.reserved, out);
                allocations.waste.iter().for_each(|waste| unused(waste, out));
            }
            allocations.largest_transient.iter().for_each(|transient| largest_transient(transient, out));
        }
    }

    pub(super) fn live_groups(&self, allocations: &Allocations, out: &mut Text) {
        let Some(first) = allocations.groups.first() else { return };
        let unit = Unit::of(first.live.bytes);
        let heading = format!("live by {}", by(allocations.by, allocations.module_source));
        let mut table = Table::new([
            (heading.as_str(), Align::Flexible),
            ("size", Align::Right),
            ("", Align::Right),
            ("tensors", Align::Right),
            ("at the end", Align::Right),
            ("operation", Align::FlexibleEnd),
        ])
        .optional(&[5, 4]);
        for group in allocations.groups.iter().take(self.rows) {
            table.row([
                named(group, allocations.by, allocations.module_source),
                unit.show(group.live.bytes),
                percent(group.live.bytes, allocations.live.bytes),
                count(group.live.count),
                unit.show(group.at_end.bytes),
                if allocations.by == GroupBy::Op {
                    String::new()
                } else {
                    group.op.clone().unwrap_or_default()
                },
            ]);
        }
        out.table(&table);
        let listed = allocations.groups.iter().take(self.rows).map(|group| group.live);
        let (number, bytes) =
            listed.fold((0, 0_u64), |sum, group| (sum.0 + group.count, sum.1.saturating_add(group.bytes)));
        if number < allocations.live.count {
            let (more, rest) =
                (allocations.live.count - number, allocations.live.bytes.saturating_sub(bytes));
            let hint = self.hints.rows;
            out.line(format!("  … and {} more, {} ({hint})", count(more), unit.show(rest)));
        }
        out.blank();
        allocations.groups.iter().take(self.rows).for_each(|group| stack(group, unit, out));
    }

    fn busiest(&self, allocations: &Allocations, out: &mut Text) {
        let rows = self.rows.min(5);
        // If nothing was freed, this would be the same table again.
        let is_same = allocations.total == allocations.live;
        let Some(first) = allocations.busiest.first().filter(|_| !is_same) else { return };
        let unit = Unit::of(first.total.bytes);
        let property = by(allocations.by, allocations.module_source);
        let heading = format!("allocated most over time, by {property}");
        let mut table = Table::new([
            (heading.as_str(), Align::Flexible),
            ("size", Align::Right),
            ("allocations", Align::Right),
            ("operation", Align::FlexibleEnd),
        ])
        .optional(&[3]);
        for group in allocations.busiest.iter().take(rows) {
            table.row([
                named(group, allocations.by, allocations.module_source),
                unit.show(group.total.bytes),
                count(group.total.count),
                if allocations.by == GroupBy::Op {
                    String::new()
                } else {
                    group.op.clone().unwrap_or_default()
                },
            ]);
        }
        out.table(&table);
        out.blank();
    }

    fn reserved(&self, pools: &[ReservedPool], out: &mut Text) {
        let sum = |of: fn(&ReservedPool) -> u64| pools.iter().map(of).fold(0, u64::saturating_add);
        let (bytes, free) = (sum(|pool| pool.bytes), sum(|pool| pool.free));
        if free.saturating_mul(LITTLE) < bytes || free == 0 {
            return;
        }
        let unit = Unit::of(bytes);
        let mut table = Table::new([
            ("reserved at the end", Align::Flexible),
            ("size", Align::Right),
            ("allocated", Align::Right),
            ("free", Align::Right),
            ("largest free", Align::Right),
            ("segments", Align::Right),
        ])
        .optional(&[5, 4]);
        for pool in pools.iter().take(self.rows) {
            table.row([
                reserved_name(pool),
                unit.show(pool.bytes),
                unit.show(pool.allocated),
                unit.show(pool.free),
                unit.show(pool.largest_free),
                count(pool.segments),
            ]);
        }
        out.table(&table);
        out.blank();
    }
}

/// Whether the user asked for some of the allocations, or for a grouping.
pub(super) fn is_asked(allocations: &Allocations) -> bool {
    allocations.filter.is_some() || allocations.by != GroupBy::default()
}

/// The call stack of a group: its Python lines, or all lines if there are none.
fn stack(group: &AllocationGroup, unit: Unit, out: &mut Text) {
    if group.stack.is_empty() {
        return;
    }
    let python: Vec<&String> = group.stack.iter().filter(|line| line.contains(".py:")).collect();
    let lines = if python.is_empty() { group.stack.iter().collect() } else { python };
    out.line(format!("  {} in {}", unit.show(group.live.bytes), count(group.live.count)));
    for line in lines.iter().take(MAX_STACK) {
        out.sentence(&format!("  {line}"), Style::Plain);
    }
    let more = group.stack.len().saturating_sub(lines.len().min(MAX_STACK));
    if more > 0 {
        out.line(format!("    … and {} (--json has all)", super::plural(more as u64, "more line")));
    }
    out.blank();
}

/// The memory lost to fragmentation, over time.
fn unused(waste: &Waste, out: &mut Text) {
    type Of = fn(&WasteInPart) -> u64;
    let rows: [(&str, u64, u32, Of); 2] = [
        ("reserved, not active", waste.external, waste.external_position, |part| part.external),
        ("in blocks, not requested", waste.internal, waste.internal_position, |part| part.internal),
    ];
    let unit = Unit::of(waste.external.max(waste.internal));
    let mut table = Table::new([
        ("unused memory", Align::Flexible),
        ("most", Align::Right),
        ("before step", Align::Right),
        ("over the run", Align::Left),
    ])
    .optional(&[3, 2]);
    let rows: Vec<_> = rows.into_iter().filter(|(_, most, ..)| *most > 0).collect();
    for (name, most, position, of) in &rows {
        let parts: Vec<u64> = waste.over_time.iter().map(of).collect();
        table.row([(*name).to_owned(), unit.show(*most), position.to_string(), bars(&parts)]);
    }
    if !rows.is_empty() {
        out.table(&table);
        out.blank();
    }
}

/// The largest allocation that was freed again.
fn largest_transient(transient: &Transient, out: &mut Text) {
    let op = transient.op.as_deref().unwrap_or("unknown operation");
    let at = transient.line.as_ref().map_or_else(String::new, |line| format!(" at {line}"));
    let text = format!(
        "The largest allocation that was freed again has {}: {op}{at}, {}.",
        size(transient.bytes),
        transient.lifetime()
    );
    out.sentence(&text, Style::Plain);
    out.blank();
}

/// Numbers as bars, relative to the highest one.
fn bars(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: &u64| {
        let level = u128::from(*value) * (BARS.len() as u128 - 1) / u128::from(highest);
        usize::try_from(level).ok().and_then(|level| BARS.get(level)).copied().unwrap_or(' ')
    };
    values.iter().map(bar).collect()
}

/// What a grouping is called.
pub(crate) fn by(by: GroupBy, modules: Option<ModuleSource>) -> &'static str {
    match by {
        GroupBy::Module if modules == Some(ModuleSource::Stacks) => "forward calls",
        GroupBy::Line => "source line",
        GroupBy::Stack => "call stack",
        GroupBy::Op => "operation",
        GroupBy::Module => "module",
        GroupBy::Class => "class",
        GroupBy::Size => "size",
    }
}

/// What modules are known by, if the input does not have their names.
pub(crate) fn note(modules: Option<ModuleSource>) -> Option<&'static str> {
    (modules == Some(ModuleSource::Stacks)).then_some(
        "The input has no module names, so allocations are grouped by the `forward` calls in their call stacks: the lines \
         that made the calls, then the file of the innermost module. Allocations outside `forward` are grouped by named \
         range (`record_function`).",
    )
}

/// The name of a group.
pub(crate) fn named(group: &AllocationGroup, by: GroupBy, modules: Option<ModuleSource>) -> String {
    match (&group.key, by) {
        (Some(key), _) => key.clone(),
        (None, GroupBy::Line | GroupBy::Stack) => "no Python stack".into(),
        (None, GroupBy::Module) if modules == Some(ModuleSource::Stacks) => "no forward call".into(),
        (None, GroupBy::Module) => "outside all modules".into(),
        (None, _) => "unknown".into(),
    }
}

/// The name of a part of the reserved memory.
pub(crate) fn reserved_name(pool: &ReservedPool) -> String {
    let private = pool.private_pool.map_or_else(String::new, |(a, b)| format!("private pool ({a}, {b}), "));
    let stream = if pool.stream == 0 { String::new() } else { format!(", stream 0x{:x}", pool.stream) };
    let kind = if pool.is_small { "small blocks" } else { "large blocks" };
    format!("{private}{kind}{stream}")
}
