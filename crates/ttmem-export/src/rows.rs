//! The rows of a rank. All numbers are those of `ttmem summary --json`, and have the same names.

use ttmem::query::{
    AboutPeak, FaultSummary, Life, Lives, Named, PoolMoment, PoolSummary, RankSummary, Summary,
};
use ttmem::{Error, Result};

use crate::cells::{Column, flag, name, number, text, word};
use crate::dataset::{Export, RUNS, SCHEMA};

/// The columns of a curve before its reduction: as many as a heat map can show.
const CURVE_COLUMNS: usize = 200;

/// The values that all rows of an input share.
pub(crate) struct Origin<'a> {
    /// The name of the run.
    pub run: &'a str,
    /// The id of the source.
    pub source_id: &'a str,
    /// The input, as an absolute path.
    pub source: &'a str,
    /// The machine that the input is on.
    pub source_host: &'a str,
    /// The labels of the run.
    pub labels: &'a [(String, String)],
    /// The time of the export, in nanoseconds of Unix time.
    pub exported_ns: i64,
}

/// The key of a rank's rows. It differs between ranks, and between exports of a rank.
fn rank_id(export: &Export<'_>, origin: &Origin<'_>, file: usize, rank: usize) -> i64 {
    let key = format!("{}\n{}\n{file}\n{rank}", export.id(), origin.source_id);
    (xxhash_rust::xxh3::xxh3_64(key.as_bytes()) >> 1).cast_signed()
}

/// Adds the row of an input that could not be read.
pub(crate) fn failed(
    export: &mut Export<'_>,
    origin: &Origin<'_>,
    (file, path): (usize, &str),
    error: &Error,
) -> Result<()> {
    let id = rank_id(export, origin, file, 0);
    labels(export, origin, id)?;
    let row = run_row(export, origin, id, path, None, Some(error));
    export.push(RUNS, row)
}

/// Adds all rows of a rank.
pub(crate) fn rank(
    export: &mut Export<'_>,
    origin: &Origin<'_>,
    file: usize,
    (summary, index): (&Summary, usize),
    lives: &Lives<'_>,
) -> Result<()> {
    let Some(rank) = summary.ranks.get(index) else { return Ok(()) };
    let id = rank_id(export, origin, file, index);
    let row = run_row(export, origin, id, &rank.file, Some((summary, index, lives.began())), None);
    export.push(RUNS, row)?;
    labels(export, origin, id)?;
    let mut rows = Rows { export, run: origin.run, id, rank };
    // Warnings are about a file, so they are rows of its first rank.
    if index == 0 {
        rows.warnings(summary)?;
    }
    rows.pools(lives)?;
    rows.tensors(lives)?;
    rows.phases()?;
    rows.faults()?;
    rows.findings()?;
    for one in &rank.distribution {
        rows.push("operations", [("op", word(&one.op)), ("count", number(one.count))])?;
    }
    Ok(())
}

fn labels(export: &mut Export<'_>, origin: &Origin<'_>, id: i64) -> Result<()> {
    for (key, value) in origin.labels {
        let row = vec![
            ("rank_id", number(id)),
            ("run", word(origin.run)),
            ("key", word(key)),
            ("value", word(value)),
        ];
        export.push("labels", row)?;
    }
    Ok(())
}

/// The row of a rank, or of an input that could not be read.
fn run_row(
    export: &Export<'_>,
    origin: &Origin<'_>,
    id: i64,
    file: &str,
    known: Option<(&Summary, usize, Option<u64>)>,
    error: Option<&Error>,
) -> Vec<Column> {
    let rank = known.and_then(|(summary, index, _)| summary.ranks.get(index));
    let launch = rank.and_then(|rank| rank.launch.as_ref());
    let peak = rank.and_then(AboutPeak::of);
    let peak = peak.as_ref();
    let shown = peak.and_then(AboutPeak::shown);
    let oom = rank.and_then(|rank| rank.oom.as_ref());
    let growth = rank.and_then(|rank| rank.growth.as_ref());
    let padding = rank.and_then(|rank| rank.padding.as_ref());
    let padding = padding.filter(|padding| peak.is_some_and(|peak| peak.pool == padding.pool));
    vec![
        ("schema_version", number(SCHEMA)),
        ("run", word(origin.run)),
        ("rank_id", number(id)),
        ("export_id", word(export.id())),
        ("source_id", word(origin.source_id)),
        ("source", word(origin.source)),
        ("source_host", word(origin.source_host)),
        ("exported_ns", number(origin.exported_ns)),
        ("error", text(error.map(Error::to_string))),
        ("error_code", number(error.map(Error::exit_code))),
        ("file", word(file)),
        ("format", text(rank.map(|rank| rank.format.clone()))),
        ("rank", text(rank.and_then(|rank| rank.rank.clone()))),
        ("rank_index", number(known.map(|(_, index, _)| index))),
        ("process", number(rank.map(|rank| rank.process))),
        ("processes", number(rank.map(|rank| rank.processes))),
        ("device", name(rank.and_then(|rank| rank.device))),
        ("host", text(launch.and_then(|launch| launch.host.clone()))),
        ("pid", number(launch.and_then(|launch| launch.pid))),
        ("rank_number", number(launch.and_then(|launch| launch.rank))),
        ("local_rank", number(launch.and_then(|launch| launch.local_rank))),
        ("world_size", number(launch.and_then(|launch| launch.world_size))),
        ("program", text(launch.and_then(|launch| launch.argv.first().cloned()))),
        ("python", text(launch.and_then(|launch| launch.python.clone()))),
        ("torch", text(launch.and_then(|launch| launch.torch.clone()))),
        ("runtime", text(launch.and_then(|launch| launch.runtime.clone()))),
        ("driver", text(launch.and_then(|launch| launch.driver.clone()))),
        ("began_ns", number(known.and_then(|(_, _, began)| began))),
        ("program_runs", number(rank.map(|rank| rank.runs))),
        ("passes", number(rank.map(|rank| rank.passes))),
        ("operations", number(rank.map(|rank| rank.operations.reported))),
        ("skipped_lines", number(known.map(|(summary, ..)| summary.source.skipped_lines))),
        ("warnings", number(known.map(|(summary, ..)| summary.source.warnings.len()))),
        ("pool", text(peak.map(|peak| peak.pool.clone()))),
        ("extent", name(peak.and_then(|peak| peak.of))),
        ("level", name(peak.and_then(|peak| peak.level))),
        ("peak_bytes", number(shown.map(|shown| shown.bytes))),
        ("capacity_bytes", number(shown.and_then(|shown| shown.capacity))),
        ("peak_per_bank", number(peak.and_then(|peak| peak.per_bank))),
        ("capacity_per_bank", number(peak.and_then(|peak| peak.capacity_per_bank))),
        ("peak_total", number(peak.and_then(|peak| peak.total))),
        ("capacity_total", number(peak.and_then(|peak| peak.capacity_total))),
        ("padded_bytes", number(padding.map(|padding| padding.padded_bytes))),
        ("logical_bytes", number(padding.map(|padding| padding.logical_bytes))),
        ("oom_cause", text(oom.map(|oom| oom.cause.to_owned()))),
        ("oom_pool", text(oom.and_then(|oom| oom.pool.clone()))),
        ("oom_step", number(oom.and_then(|oom| oom.step))),
        ("oom_op", text(oom.and_then(|oom| oom.op.clone()))),
        ("oom_loc", text(oom.and_then(|oom| oom.loc.clone()))),
        ("oom_requested_total", number(oom.and_then(|oom| oom.requested_total))),
        ("oom_requested_per_bank", number(oom.and_then(|oom| oom.requested_per_bank))),
        ("oom_free_per_bank", number(oom.and_then(|oom| oom.free_per_bank))),
        ("oom_lacks_per_bank", number(oom.and_then(|oom| oom.lacks_per_bank))),
        ("verdict", text(oom.map(|oom| oom.statement.headline.clone()))),
        ("verdict_detail", text(oom.and_then(|oom| oom.statement.detail.clone()))),
        ("verdict_advice", text(oom.and_then(|oom| oom.statement.advice.clone()))),
        ("ended_by", text(rank.and_then(|rank| rank.ended_by.clone()))),
        ("growth", name(growth.map(|growth| growth.verdict))),
        ("growth_per_iteration_per_bank", number(growth.and_then(|growth| growth.per_iteration_per_bank))),
        ("growth_iterations_left", number(growth.and_then(|growth| growth.iterations_left))),
    ]
}

/// A rank whose rows are added.
struct Rows<'a, 'b> {
    export: &'a mut Export<'b>,
    run: &'a str,
    id: i64,
    rank: &'a RankSummary,
}

impl Rows<'_, '_> {
    /// Adds a row, after the columns that all tables have.
    fn push<const N: usize>(&mut self, table: &'static str, row: [Column; N]) -> Result<()> {
        let common =
            [("rank_id", number(self.id)), ("run", word(self.run)), ("rank", text(self.rank.rank.clone()))];
        self.export.push(table, common.into_iter().chain(row).collect())
    }

    fn warnings(&mut self, summary: &Summary) -> Result<()> {
        for warning in &summary.source.warnings {
            let row = [("line", number(warning.line)), ("message", word(&warning.message))];
            self.push("warnings", row)?;
        }
        Ok(())
    }

    fn pools(&mut self, lives: &Lives<'_>) -> Result<()> {
        let rank = self.rank;
        for (pool, summary) in rank.pools.iter() {
            let moment = rank.peaks.get(pool);
            self.pool(pool, summary, moment)?;
            for (class, bytes) in
                moment.and_then(|moment| moment.by_class_per_bank.as_ref()).into_iter().flat_map(Named::iter)
            {
                self.push(
                    "classes",
                    [("pool", word(pool)), ("class", word(class)), ("per_bank", number(*bytes))],
                )?;
            }
            for (position, point) in lives.points(pool, CURVE_COLUMNS).into_iter().enumerate() {
                let row = [
                    ("pool", word(pool)),
                    ("position", number(position)),
                    ("step", number(point.step)),
                    ("time_ns", number(point.time_ns)),
                    ("per_bank", number(point.per_bank)),
                ];
                self.push("curves", row)?;
            }
        }
        Ok(())
    }

    fn pool(&mut self, pool: &str, summary: &PoolSummary, moment: Option<&PoolMoment>) -> Result<()> {
        let levels = summary.allocator;
        let padding = self.rank.padding.as_ref().filter(|padding| padding.pool == pool);
        let is_main = self.rank.peak.as_ref().is_some_and(|peak| peak.pool == pool);
        let caused = moment.and_then(|moment| moment.caused_by.as_ref());
        let fragmentation = self.rank.fragmentation.get(pool);
        let row = [
            ("pool", word(pool)),
            ("is_main", flag(is_main)),
            ("banks", number(summary.banks)),
            ("extent", name(summary.extent)),
            ("level", name(summary.level)),
            ("capacity_per_bank", number(summary.capacity_per_bank)),
            ("peak_per_bank", number(summary.peak_per_bank)),
            ("peak_total", number(summary.peak_total)),
            ("peak_step", number(summary.peak_step)),
            ("peak_source", text(summary.peak_source.map(str::to_owned))),
            ("caused_by_step", number(summary.caused_by_step)),
            ("caused_by_op", text(caused.and_then(|caused| caused.op.clone()))),
            ("caused_by_loc", text(caused.and_then(|caused| caused.loc.clone()))),
            ("final_per_bank", number(summary.final_per_bank)),
            ("final_total", number(summary.final_total)),
            ("free_at_peak_per_bank", number(summary.free_at_peak_per_bank)),
            ("largest_free_at_peak_per_bank", number(summary.largest_free_at_peak_per_bank)),
            ("quantum_per_bank", number(summary.quantum_per_bank)),
            ("polled", flag(summary.polled)),
            ("explained_per_bank", number(moment.and_then(|moment| moment.explained_per_bank))),
            ("unexplained_per_bank", number(moment.and_then(|moment| moment.unexplained_per_bank))),
            ("live_count", number(moment.and_then(|moment| moment.live_count))),
            ("padded_bytes", number(padding.map(|padding| padding.padded_bytes))),
            ("logical_bytes", number(padding.map(|padding| padding.logical_bytes))),
            ("requested_at_peak_total", number(levels.and_then(|levels| levels.requested_at_peak_total))),
            ("active_at_peak_total", number(levels.and_then(|levels| levels.active_at_peak_total))),
            ("reserved_at_peak_total", number(levels.and_then(|levels| levels.reserved_at_peak_total))),
            ("reserved_peak_total", number(levels.and_then(|levels| levels.reserved_peak_total))),
            ("fragmentation", name(fragmentation.map(|found| found.severity))),
        ];
        self.push("pools", row)
    }

    fn tensors(&mut self, lives: &Lives<'_>) -> Result<()> {
        for stack in lives.stacks() {
            let row = [
                ("stack", number(stack.number)),
                ("line", word(&stack.line)),
                ("lines", word(&stack.lines.join("\n"))),
            ];
            self.push("stacks", row)?;
        }
        lives.each(|life| self.tensor(life))
    }

    fn tensor(&mut self, life: Life) -> Result<()> {
        let tensor = life.tensor;
        let shape = tensor.shape.map(|shape| ttmem::query::Shape(&shape).to_string());
        let row = [
            ("tensor", number(life.number)),
            ("pool", text(life.pool)),
            ("class", word(tensor.class.as_str())),
            ("per_bank", number(tensor.per_bank)),
            ("at_peak", flag(life.at_peak)),
            ("name", text(tensor.name)),
            ("ssa", text(tensor.ssa)),
            ("shape", text(shape)),
            ("dtype", text(tensor.dtype)),
            ("op", text(tensor.op)),
            ("loc", text(tensor.loc)),
            ("made_in", text(tensor.made_in)),
            ("program", text(tensor.program)),
            ("program_run", number(tensor.run)),
            ("padded_bytes", number(tensor.padded_bytes)),
            ("logical_bytes", number(tensor.logical_bytes)),
            ("born_step", number(tensor.born_step)),
            ("dies_step", number(tensor.dies_step)),
            ("gone_before_step", number(tensor.gone_before_step)),
            ("born_ns", number(life.born_ns)),
            ("dies_ns", number(life.dies_ns)),
            ("stack", number(life.stack)),
        ];
        self.push("tensors", row)
    }

    fn phases(&mut self) -> Result<()> {
        let rank = self.rank;
        for phase in &rank.phases {
            let session = rank.sessions.get(phase.session);
            let row = [
                ("session", number(phase.session)),
                ("session_name", text(session.and_then(|session| session.name.clone()))),
                ("estimated", flag(session.map(|session| session.estimated))),
                ("fits", flag(session.and_then(|session| session.fits))),
                ("name", word(&phase.name)),
                ("first_step", number(phase.first_step)),
                ("end_step", number(phase.end_step)),
                ("segment_peak_bytes", number(phase.segment_peak_bytes)),
                ("allocations_bytes", number(phase.allocations_bytes)),
                ("deallocations_bytes", number(phase.deallocations_bytes)),
                ("change_bytes", number(phase.change_bytes)),
                ("cumulative_peak_bytes", number(phase.cumulative_peak_bytes)),
                ("cumulative_current_bytes", number(phase.cumulative_current_bytes)),
                ("l1_peak_cb_bytes", number(phase.l1_peak_cb_bytes)),
                ("l1_peak_buffer_bytes", number(phase.l1_peak_buffer_bytes)),
                ("l1_peak_total_bytes", number(phase.l1_peak_total_bytes)),
            ];
            self.push("phases", row)?;
        }
        Ok(())
    }

    fn faults(&mut self) -> Result<()> {
        let rank = self.rank;
        rank.faults.iter().try_for_each(|fault| self.fault(fault))
    }

    fn fault(&mut self, fault: &FaultSummary) -> Result<()> {
        let row = [
            ("kind", word(fault.kind)),
            ("ended_program", flag(fault.ended_program)),
            ("pool", text(fault.pool.clone())),
            ("step", number(fault.step)),
            ("op", text(fault.op.clone())),
            ("loc", text(fault.loc.clone())),
            ("requested_total", number(fault.requested_total)),
            ("requested_per_bank", number(fault.requested_per_bank)),
            ("banks", number(fault.banks)),
            ("free_per_bank", number(fault.free_per_bank)),
            ("largest_free_per_bank", number(fault.largest_free_per_bank)),
            ("line", number(fault.line)),
            ("message", word(&fault.message)),
        ];
        self.push("faults", row)
    }

    fn findings(&mut self) -> Result<()> {
        let rank = self.rank;
        for (position, found) in rank.suggestions.iter().enumerate() {
            let row = [
                ("position", number(position)),
                ("rule", word(found.rule)),
                ("urgency", name(found.urgency)),
                ("pool", word(&found.pool)),
                ("headline", word(&found.statement.headline)),
                ("detail", text(found.statement.detail.clone())),
                ("advice", text(found.statement.advice.clone())),
                ("saves_per_bank", number(found.saves_per_bank)),
                ("saves_bytes", number(found.saves_bytes)),
                ("step", number(found.step)),
                ("tensor_count", number(found.tensor_count)),
            ];
            self.push("findings", row)?;
        }
        Ok(())
    }
}
