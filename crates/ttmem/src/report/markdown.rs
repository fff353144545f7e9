//! The answer as Markdown, for agents and issues. Its sections are promised; MB in it are MiB.

use std::io::{self, Write};

use super::advice;
use super::units::{count, mib, percent, shape, size};
use crate::query::{LiveTensor, Named, PoolMoment, PoolSummary, RankSummary, Summary};

/// How many rows the tables have.
const ROWS: usize = 10;

/// Writes the summary as Markdown, rank after rank.
pub fn markdown(summary: &Summary, name: &str, out: &mut dyn Write) -> io::Result<()> {
    for (index, rank) in summary.ranks.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let label = rank.rank.as_ref().filter(|_| summary.ranks.len() > 1);
        let name = label.map_or_else(|| name.to_owned(), |label| format!("{name} (rank {label})"));
        Document { rank, name: &name }.write(out)?;
    }
    if !summary.source.warnings.is_empty() {
        writeln!(out, "\n## Warnings\n")?;
        for warning in &summary.source.warnings {
            let line = warning.line.map_or_else(String::new, |line| format!(", line {line}"));
            writeln!(out, "- {}{line}: {}", cell(&warning.file), cell(&warning.message))?;
        }
    }
    Ok(())
}

struct Document<'a> {
    rank: &'a RankSummary,
    name: &'a str,
}

impl Document<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# Memory Profile: {}\n", cell(self.name))?;
        writeln!(out, "> {}\n", self.headline())?;
        if let Some(oom) = &self.rank.oom {
            writeln!(out, "**{}** {}\n", cell(&advice::verdict(oom)), advice::advice(oom))?;
        }
        self.configuration(out)?;
        self.peak_memory(out)?;
        self.consumers(out)?;
        self.padding(out)?;
        self.weights(out)?;
        self.distribution(out)?;
        self.alive(out)?;
        self.unexplained(out)
    }

    fn headline(&self) -> String {
        let rank = self.rank;
        let peak = |pool: &str| {
            let pool = rank.pools.get(pool)?;
            Some((pool.peak_per_bank?, pool.capacity_per_bank))
        };
        let dram = peak("DRAM").map_or_else(
            || "unknown".into(),
            |(peak, all)| {
                let share = all.map_or_else(|| "?".into(), |all| percent(peak, all).replace(' ', ""));
                format!("{} MB/bank ({share})", mib(peak, 3))
            },
        );
        let l1 = peak("L1").map_or_else(|| "unknown".into(), |(peak, _)| format!("{} MB/bank", mib(peak, 3)));
        let weights = rank
            .weights
            .as_ref()
            .map_or_else(|| "unknown".into(), |weights| format!("{} MB", mib(weights.bytes, 2)));
        let padding = rank.padding.as_ref().and_then(|padding| padding.overhead_pct);
        format!(
            "Peak DRAM: {dram} | Peak L1: {l1} | Ops: {} | Weights: {weights} | Padding Overhead: {}",
            rank.operations.reported,
            padding.map_or_else(|| "unknown".into(), |share| format!("{share:.1}%")),
        )
    }

    fn configuration(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "## Configuration\n")?;
        writeln!(out, "| Memory | Banks | MB per bank | MB on the device |\n|---|---:|---:|---:|")?;
        for (name, pool) in self.rank.pools.iter() {
            let total =
                pool.capacity_per_bank.zip(pool.banks).map(|(bank, banks)| bank.saturating_mul(banks.into()));
            writeln!(
                out,
                "| {} | {} | {} | {} |",
                cell(name),
                pool.banks.map_or_else(unknown, |banks| banks.to_string()),
                pool.capacity_per_bank.map_or_else(unknown, |bytes| mib(bytes, 3)),
                total.map_or_else(unknown, |bytes| mib(bytes, 0)),
            )?;
        }
        let rank = self.rank;
        writeln!(
            out,
            "\nFile: `{}`. Program runs: {}. Operations: {} ({} with deallocations).\n",
            rank.file.replace('`', "'"),
            rank.runs,
            rank.operations.reported,
            rank.operations.total
        )
    }

    fn peak_memory(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "## Peak Memory\n")?;
        writeln!(
            out,
            "| Memory | Peak MB/bank | Share | MB on the device | Before step | Caused by step | Operation | Location |"
        )?;
        writeln!(out, "|---|---:|---:|---:|---:|---:|---|---|")?;
        for (name, pool) in self.rank.pools.iter() {
            self.peak_row(name, pool, out)?;
        }
        writeln!(out)?;
        for (name, pool) in
            self.rank.pools.iter().filter(|(_, pool)| pool.peak_per_bank.is_some_and(|peak| peak > 0))
        {
            if let (Some(free), Some(largest)) =
                (pool.free_at_peak_per_bank, pool.largest_free_at_peak_per_bank)
            {
                writeln!(
                    out,
                    "- {name} at its peak: {} MB/bank free, the largest piece {} MB.",
                    mib(free, 3),
                    mib(largest, 3)
                )?;
            }
            if let (Some(end), Some(source)) = (pool.final_per_bank, pool.final_source) {
                writeln!(out, "- {name} at the end: {} MB/bank ({source}).", mib(end, 3))?;
            }
        }
        writeln!(out)
    }

    fn peak_row(&self, name: &str, pool: &PoolSummary, out: &mut dyn Write) -> io::Result<()> {
        let caused = self.rank.peaks.get(name).and_then(|moment| moment.caused_by.as_ref());
        let share = pool.peak_per_bank.zip(pool.capacity_per_bank).map(|(peak, all)| percent(peak, all));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            cell(name),
            pool.peak_per_bank.map_or_else(unknown, |bytes| mib(bytes, 3)),
            share.unwrap_or_else(unknown),
            pool.peak_total.map_or_else(unknown, |bytes| mib(bytes, 0)),
            pool.peak_step.map_or_else(none, |step| step.to_string()),
            pool.caused_by_step.map_or_else(none, |step| step.to_string()),
            caused.and_then(|caused| caused.op.as_deref()).map_or_else(none, cell),
            caused.map_or_else(none, |caused| location(caused.loc.as_deref())),
        )
    }

    fn consumers(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "## Top 10 Memory Consumers (DRAM)\n")?;
        if self.rank.suspects.is_empty() {
            return writeln!(out, "No step added to it.\n");
        }
        writeln!(out, "The steps that added most.\n")?;
        writeln!(out, "| Step | Operation | Location | Added MB/bank |\n|---:|---|---|---:|")?;
        for suspect in self.rank.suspects.iter().take(ROWS) {
            let op = suspect.op.as_deref().map_or_else(unknown, cell);
            let loc = location(suspect.loc.as_deref());
            writeln!(out, "| {} | {op} | {loc} | +{} |", suspect.step, mib(suspect.added_per_bank, 3))?;
        }
        writeln!(out)
    }

    fn padding(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "## Top 10 Padding Overhead\n")?;
        let Some(padding) = self.rank.padding.as_ref().filter(|padding| !padding.top.is_empty()) else {
            let why = if self.rank.padding.is_some() {
                "No tensor alive at the DRAM peak is padded."
            } else {
                NO_TENSORS
            };
            return writeln!(out, "{why}\n");
        };
        writeln!(out, "Of the tensors alive at the DRAM peak, on one device.\n")?;
        writeln!(
            out,
            "| Tensor | Shape | Padded to | Type | MB | Padded MB | Overhead | Made by | Location |"
        )?;
        writeln!(out, "|---|---|---|---|---:|---:|---:|---|---|")?;
        for row in padding.top.iter().take(ROWS) {
            writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.name.as_deref().map_or_else(unknown, cell),
                shape(&row.shape),
                row.padded_shape.as_deref().map_or_else(unknown, shape),
                cell(&row.dtype),
                mib(row.logical_bytes, 3),
                mib(row.padded_bytes, 3),
                row.overhead_pct.map_or_else(unknown, |share| format!("{share:.1}%")),
                row.op.as_deref().map_or_else(|| "argument".into(), cell),
                location(row.loc.as_deref()),
            )?;
        }
        writeln!(out)
    }

    fn weights(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(weights) = &self.rank.weights else {
            return writeln!(
                out,
                "## Model Weights (unknown MB total)\n\nNo compiled module is in the evidence.\n"
            );
        };
        writeln!(out, "## Model Weights ({} MB total)\n", mib(weights.bytes, 2))?;
        writeln!(out, "{} parameters and constants.", count(weights.count as u64))?;
        if let Some(twice) = weights.kept_twice_bytes.filter(|bytes| *bytes > 0) {
            writeln!(
                out,
                "{} MB of them are kept twice at the DRAM peak: as given and const-evaluated.",
                mib(twice, 2)
            )?;
        }
        if !weights.largest.is_empty() {
            writeln!(out, "\n| Weight | Shape | Type | MB |\n|---|---|---|---:|")?;
        }
        for weight in weights.largest.iter().take(ROWS) {
            let bytes = weight.bytes.map_or_else(unknown, |bytes| mib(bytes, 3));
            writeln!(
                out,
                "| {} | {} | {} | {bytes} |",
                cell(&weight.name),
                shape(&weight.shape),
                cell(&weight.dtype)
            )?;
        }
        writeln!(out)
    }

    fn distribution(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "## Operation Distribution\n")?;
        writeln!(out, "| Operation | Count |\n|---|---:|")?;
        let rows = &self.rank.distribution;
        for row in rows.iter().take(2 * ROWS) {
            writeln!(out, "| {} | {} |", cell(&row.op), row.count)?;
        }
        let rest: u32 = rows.iter().skip(2 * ROWS).map(|row| row.count).sum();
        if rest > 0 {
            writeln!(out, "| {} others | {rest} |", rows.len() - 2 * ROWS)?;
        }
        let counts = &self.rank.operations;
        if let (Some(weight), Some(activation)) = (counts.weight, counts.activation) {
            writeln!(out, "\nWeight operations: {weight}. Activation operations: {activation}.")?;
        }
        writeln!(out)
    }

    fn alive(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(peak) = &self.rank.peak else { return Ok(()) };
        writeln!(out, "## Alive at the {} Peak\n", cell(&peak.pool))?;
        let Some(live) = &peak.live else { return writeln!(out, "{NO_TENSORS}\n") };
        for (class, bytes) in peak.by_class_per_bank.iter().flat_map(Named::iter) {
            writeln!(out, "- {class}: {} MB/bank", mib(*bytes, 3))?;
        }
        writeln!(
            out,
            "\n| Tensor | Shape | Type | Class | MB/bank | Made by step | Operation | Location | Dies at step |"
        )?;
        writeln!(out, "|---|---|---|---|---:|---:|---|---|---:|")?;
        live.iter().take(2 * ROWS).try_for_each(|tensor| alive_row(tensor, out))?;
        let more = peak.live_count.unwrap_or(0).saturating_sub(live.len().min(2 * ROWS));
        if more > 0 {
            writeln!(out, "\n{more} more are smaller; `ttmem summary --json` has all.")?;
        }
        writeln!(out)
    }

    fn unexplained(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(peak) = &self.rank.peak else { return Ok(()) };
        let (Some(rest), Some(explained), Some(allocated)) =
            (peak.unexplained_per_bank, peak.explained_per_bank, peak.allocated_per_bank)
        else {
            return Ok(());
        };
        writeln!(out, "## Device Against Tensors\n")?;
        writeln!(
            out,
            "At the {} peak the device reports {} MB/bank; the tensors alive add up to {} MB/bank. {}.\n",
            cell(&peak.pool),
            mib(allocated, 3),
            mib(explained, 3),
            self.rest(&peak.pool, rest),
        )?;
        let rows: Vec<_> = peak.residue.iter().flatten().collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "| Left behind by | B/bank | Steps | First with their shapes |\n|---|---:|---:|---:|")?;
        for row in rows.iter().take(ROWS) {
            let who = row.op.as_deref().or(row.note).map_or_else(unknown, cell);
            writeln!(out, "| {who} | {} | {} | {} |", row.per_bank, row.steps, row.first_uses)?;
        }
        writeln!(out)?;
        unexplained_note(peak, out)
    }
}

impl Document<'_> {
    fn rest(&self, pool: &str, rest: i64) -> String {
        let quantum = self.rank.pools.get(pool).map_or(0, |pool| pool.quantum_per_bank);
        let rounding =
            if rest.unsigned_abs() <= quantum { " (within the rounding of the states)" } else { "" };
        format!("Unexplained: {rest} B/bank{rounding}")
    }
}

fn alive_row(tensor: &LiveTensor, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        tensor.name.as_deref().map_or_else(unknown, cell),
        tensor.shape.as_deref().map_or_else(unknown, shape),
        tensor.dtype.as_deref().map_or_else(unknown, cell),
        tensor.class.as_str(),
        tensor.per_bank.map_or_else(unknown, |bytes| mib(bytes, 3)),
        tensor.born_step.map_or_else(none, |step| step.to_string()),
        tensor.op.as_deref().map_or_else(|| "argument".into(), cell),
        location(tensor.loc.as_deref()),
        tensor.dies_step.map_or_else(none, |step| step.to_string()),
    )
}

fn unexplained_note(peak: &PoolMoment, out: &mut dyn Write) -> io::Result<()> {
    let rows = peak.residue.as_deref().unwrap_or_default();
    let cached: i64 =
        rows.iter().filter(|row| row.steps > 0 && row.first_uses == row.steps).map(|row| row.per_bank).sum();
    if cached <= 0 {
        return Ok(());
    }
    writeln!(
        out,
        "{} of each bank stayed behind only where an operation ran with its shapes for the first time: the runtime's \
         program cache keeps it.\n",
        size(cached.unsigned_abs())
    )
}

const NO_TENSORS: &str = "The evidence names no tensors (capture with TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG).";

fn unknown() -> String {
    "unknown".into()
}

fn none() -> String {
    "–".into()
}

fn location(loc: Option<&str>) -> String {
    loc.map_or_else(|| "N/A".into(), cell)
}

/// A text of the evidence inside a table: it must not end the cell or the line, or open a tag.
fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' => safe.push_str("\\|"),
            '<' => safe.push_str("&lt;"),
            '`' => safe.push('\''),
            character if character.is_control() => safe.push(' '),
            character => safe.push(character),
        }
    }
    safe
}
