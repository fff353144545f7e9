//! The parts of a tracked program: modules with their activations, calls, and checkpoints.

use ttmem_query::{MadeIn, PoolMoment, Ran};

use super::Page;
use crate::styled::Text;
use crate::table::{Align, Table};
use crate::units::{Unit, change, count, duration, percent, size};

/// Rows of the table of modules.
const MAX_MODULES: usize = 8;

impl Page<'_> {
    /// The parts of the program that allocated the live activations and temporary tensors.
    pub(super) fn makers(&self, moment: &PoolMoment, unit: Unit, out: &mut Text) {
        let makers = moment.makers();
        if makers.is_empty() {
            return;
        }
        let (rows, has_modules) = (self.rows.min(MAX_MODULES), moment.has_modules());
        let mut table = Table::new([
            (
                if has_modules { "live activations by module" } else { "live activations by named range" },
                Align::Flexible,
            ),
            (self.part(&moment.pool).0, Align::Right),
            ("", Align::Right),
            ("tensors", Align::Right),
        ]);
        let allocated = moment.allocated_per_bank.unwrap_or(0);
        for maker in makers.iter().take(rows) {
            table.row([
                maker_name(maker, has_modules),
                unit.show(maker.per_bank),
                percent(maker.per_bank, allocated),
                count(maker.tensors as u64),
            ]);
        }
        out.table(&table);
        if makers.len() > rows {
            let rest = makers.iter().skip(rows).map(|maker| maker.per_bank).fold(0, u64::saturating_add);
            out.line(format!("  … and {} more, {}", makers.len() - rows, unit.show(rest)));
        }
        out.blank();
    }

    /// The calls of the program: modules, operations, passes.
    pub(super) fn ran(&self, out: &mut Text) {
        let (all, rows) = (&self.rank.ran, self.rows);
        if all.is_empty() || self.rank.at.is_some() {
            return;
        }
        let mut table = Table::new([
            ("call", Align::Flexible),
            ("calls", Align::Right),
            ("time", Align::Right),
            ("peak in call", Align::Right),
            ("retained per call", Align::Right),
        ])
        .optional(&[2]);
        let unknown = || "unknown".to_owned();
        for ran in all.iter().take(rows) {
            let calls = match (ran.calls, ran.running) {
                (0, 1..) => "running".into(),
                (calls, 0) => count(calls),
                (calls, running) => format!("{} + {running}", count(calls)),
            };
            table.row([
                format!("{}{}", "  ".repeat(ran.depth), ran.name),
                calls,
                ran.time_ns.filter(|_| ran.calls > 0).map_or_else(unknown, duration),
                ran.peak_bytes.map_or_else(unknown, size),
                retained(ran).unwrap_or_else(unknown),
            ]);
        }
        out.table(&table);
        if all.len() > rows {
            out.line(format!("  … and {} more ({})", all.len() - rows, self.hints.rows));
        }
        out.blank();
    }

    /// The memory in use at each checkpoint.
    pub(super) fn checkpoints(&self, out: &mut Text) {
        let (all, rows) = (&self.rank.checkpoints, self.rows);
        if all.is_empty() || self.rank.at.is_some() {
            return;
        }
        let mut table = Table::new([
            ("checkpoint", Align::Flexible),
            ("after", Align::Right),
            ("memory", Align::Flexible),
        ]);
        for checkpoint in all.iter().take(rows) {
            let held = |bytes: &Option<u64>| bytes.map_or_else(|| "unknown".into(), size);
            let pools: Vec<String> =
                checkpoint.pools.iter().map(|(name, bytes)| format!("{name} {}", held(bytes))).collect();
            table.row([checkpoint.name.clone(), duration(checkpoint.time_ns), pools.join(", ")]);
        }
        out.table(&table);
        if all.len() > rows {
            out.line(format!("  … and {} more ({})", all.len() - rows, self.hints.rows));
        }
        out.blank();
    }
}

/// What a call retains. If that is not recorded, the net change of all calls.
fn retained(ran: &Ran) -> Option<String> {
    let net = || ran.change_bytes.map(|bytes| format!("{} in all calls", change(bytes)));
    ran.retained().or_else(net)
}

/// The name of a part of the program, and how many parts share it.
fn maker_name(maker: &MadeIn, has_modules: bool) -> String {
    let Some(name) = &maker.name else {
        return if has_modules { "outside all modules" } else { "outside all named ranges" }.into();
    };
    let kind = if maker.kind == Some("backward") && name != "backward" { ", backward" } else { "" };
    let noun = match maker.kind {
        Some("operation") => "operations",
        Some("optimizer") => "optimizers",
        _ => "modules",
    };
    let similar = if maker.scopes > 1 { format!(" ({} {noun})", maker.scopes) } else { String::new() };
    format!("{name}{kind}{similar}")
}
