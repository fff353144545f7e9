//! The memory in use at a moment: classes, unexplained memory, live tensors.

use ttmem_query::{
    Allocations, AtMoment, Caused, DeviceKind, LiveTensor, Named, PoolMoment, ResidueRow, TensorGroup,
    groups, words,
};

use super::allocations::is_asked;
use super::pools::{l1_headroom, l1_parts};
use super::{Detail, ERRORS_ONLY, Page, plural, shape_and_type};
use crate::styled::{Style, Text};
use crate::table::{Align, Table, cut, one_line};
use crate::units::{Unit, change, percent, percent_tenths, size};

impl Page<'_> {
    pub(super) fn peak(&self, peak: &PoolMoment, out: &mut Text) {
        if self.format == ERRORS_ONLY {
            out.heading(format!("{} when the allocation failed", peak.pool));
            return self.moment(peak, out);
        }
        let Some(step) = peak.step else {
            return self.peak_without_a_time(peak, out);
        };
        let cause = peak.caused_by.as_ref().map_or_else(
            || {
                let how = if peak.caused_outside_programs {
                    "by a change between two programs"
                } else {
                    "allocated before the first step"
                };
                format!(", {how}")
            },
            |caused| format!(", caused by {}", self.step_named(caused)),
        );
        let phase = peak.phase.as_deref().map_or_else(String::new, |phase| format!(" in {phase}"));
        out.heading(format!("Peak {} before step {step}{phase}{cause}", peak.pool));
        self.moment(peak, out);
    }

    /// A pool that was never used, or whose highest use lies between two samples.
    pub(super) fn peak_without_a_time(&self, peak: &PoolMoment, out: &mut Text) {
        let Some(allocated) = peak.allocated_per_bank.filter(|allocated| *allocated > 0) else {
            out.line(format!("{} was never used.", peak.pool));
            return out.blank();
        };
        let sample = self.rank.pools.get(&peak.pool).and_then(|pool| pool.highest_sample_per_bank);
        let sample =
            sample.map_or_else(String::new, |sample| format!("; the highest snapshot has {}", size(sample)));
        out.heading(format!("Peak {}, {}, at an unknown time", peak.pool, size(allocated)));
        out.line(format!(
            "  The peak lies between two snapshots{sample}. The recording (.ttmem) has the time and"
        ));
        out.line("  the tensors of the peak.");
        out.blank();
    }

    pub(super) fn step_named(&self, caused: &Caused) -> String {
        let op = caused.op.as_ref().map(|op| format!(": {}", cut(&one_line(op), 60)));
        let loc = caused.loc.as_ref().map(|loc| format!(" at {}", cut(&one_line(loc), 60)));
        let program = caused.program.as_ref().filter(|program| !program.is_empty());
        let program = program.map(|program| format!(" in {program}"));
        let run = caused.run.filter(|_| self.rank.runs > 1).map(|run| format!(", run {run}"));
        let parts = [op, loc, program, run].into_iter().flatten().collect::<String>();
        format!("step {}{parts}", caused.step)
    }

    pub(super) fn at(&self, at: &AtMoment, out: &mut Text) {
        let next = at.op.as_ref().map_or_else(|| " (after the last step)".to_owned(), |op| format!(": {op}"));
        let loc = at.loc.as_ref().map_or_else(String::new, |loc| format!(" at {}", cut(&one_line(loc), 60)));
        out.heading(format!("Before step {}{next}{loc}", at.step));
        for (_, moment) in
            at.pools.iter().filter(|(_, moment)| moment.allocated_per_bank.is_none_or(|held| held > 0))
        {
            let held = moment.allocated_per_bank.map_or_else(|| "unknown".to_owned(), size);
            let free = moment.free_per_bank.map_or_else(String::new, |free| format!(", {} free", size(free)));
            let piece = moment.largest_free_per_bank.map_or_else(String::new, |largest| {
                format!(" ({} in the largest free block)", size(largest))
            });
            let (_, part) = self.part(&moment.pool);
            out.line(format!("  {}: {held}{part} allocated{free}{piece}", moment.pool));
            self.moment(moment, out);
        }
        let l1 = self.rank.l1.as_ref().filter(|l1| l1.programs > 0);
        if let Some((l1, moment)) = l1.and_then(|l1| Some((l1, l1.at.as_ref()?))) {
            out.heading(format!("L1 of a core while step {} runs", moment.step));
            out.line(format!("  {}", l1_parts(l1, moment)));
            out.line(format!("  {}", l1_headroom(moment).unwrap_or_else(|| "headroom unknown".into())));
            out.blank();
        }
    }

    /// What the memory of a pool is used for.
    pub(super) fn moment(&self, moment: &PoolMoment, out: &mut Text) {
        let (Some(explained), Some(allocated)) = (moment.explained_per_bank, moment.allocated_per_bank)
        else {
            out.sentence(self.why_not_attributed(), Style::Plain);
            return out.blank();
        };
        let unit = Unit::of(allocated.max(explained));
        let mut lines: Vec<(String, String, String)> = Vec::new();
        for (class, bytes) in moment.by_class_per_bank.iter().flat_map(Named::iter) {
            let share = percent(*bytes, allocated.max(explained));
            lines.push((words::class_name(class).to_owned(), unit.show(*bytes), share));
        }
        let pool = self.rank.pools.get(&moment.pool);
        let not_watched = pool.map_or(&[][..], |pool| &pool.not_watched);
        // If something is known to be missing, the tensors explain an unknown part of the memory in use.
        let too_much = moment.unexplained_per_bank.is_some_and(|rest| rest < 0)
            && explained > allocated.saturating_add(pool.map_or(0, |pool| pool.quantum_per_bank));
        lines.push(if too_much {
            ("sum of tensors (exceeds allocated)".into(), unit.show(explained), String::new())
        } else if not_watched.is_empty() {
            let share = percent_tenths(explained.min(allocated), allocated);
            ("explained".into(), unit.show(explained), share)
        } else {
            ("tracked".into(), unit.show(explained), String::new())
        });
        let (names, figures) = (width(&lines, |line| &line.0), width(&lines, |line| &line.1));
        // Without modules, the classes are the only overview.
        let lines =
            if self.detail < Detail::Least || self.lines_of(moment).is_some() { &lines[..] } else { &[] };
        for (name, figure, share) in lines {
            out.row(format!("  {name:<names$}   {figure:>figures$}   {share:>7}").trim_end());
        }
        self.residue(moment, out);
        for what in not_watched {
            out.sentence(&format!("The actual peak may be higher. Not tracked: {what}"), Style::Plain);
        }
        out.blank();
        if self.detail == Detail::Full || self.lines_of(moment).is_none() {
            self.makers(moment, unit, out);
        }
        if let Some(allocations) = self.lines_of(moment) {
            self.live_groups(allocations, out);
        }
        self.live(moment, unit, out);
    }

    /// The live allocations of a moment by source line. If modules are known, they say more, and the lines are only part
    /// of a complete text.
    fn lines_of(&self, moment: &PoolMoment) -> Option<&Allocations> {
        let allocations = self.rank.allocations.as_ref()?;
        let is_wanted = self.detail == Detail::Full || !moment.has_modules();
        (is_wanted && !is_asked(allocations) && allocations.pool == moment.pool).then_some(allocations)
    }

    /// Why the memory of a moment is not attributed to tensors, and what to do.
    pub(super) fn why_not_attributed(&self) -> &'static str {
        match self.format {
            "memory_profile" => {
                "The file lists only the largest tensors of each snapshot, so memory can't be attributed to tensors; use \
                 the recording (.ttmem) instead."
            }
            _ if self.rank.device == Some(DeviceKind::Torch) => {
                "Only counters were read (level phases), so memory can't be attributed to tensors: record with level \
                 tensors."
            }
            ERRORS_ONLY => {
                "The log has only the error, so memory can't be attributed to tensors; to see them, capture the program \
                 with ttnn.graph and read the report."
            }
            "tt_json" => {
                "The JSON files do not record deallocations, so memory can't be attributed to tensors; summarize the log \
                 instead."
            }
            _ => {
                "The log does not list tensors, so memory can't be attributed to them; capture with \
                 TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG."
            }
        }
    }

    pub(super) fn residue(&self, moment: &PoolMoment, out: &mut Text) {
        let quantum = self.rank.pools.get(&moment.pool).map_or(0, |pool| pool.quantum_per_bank);
        let Some(unexplained) = moment.unexplained_per_bank.filter(|rest| rest.unsigned_abs() > quantum)
        else {
            return;
        };
        let rows = moment.residue.as_deref().unwrap_or_default();
        out.row(format!("  unexplained   {}   retained by:", change(unexplained)));
        for row in rows.iter().take(4) {
            let line = format!("    {:<32} {:>11}   {}", who(row), change(row.per_bank), how(row));
            out.row(line.trim_end());
        }
        let rest = rows.iter().skip(4).map(|row| row.per_bank).fold(0, i64::saturating_add);
        if rows.len() > 4 {
            out.row(format!("    {:<32} {:>11}", format!("{} others", rows.len() - 4), change(rest)));
        }
    }

    pub(super) fn live(&self, moment: &PoolMoment, unit: Unit, out: &mut Text) {
        let Some(live) = moment.live.as_deref().filter(|live| !live.is_empty()) else { return };
        let (heading, part) = self.part(&moment.pool);
        let groups = groups(live);
        let shown = &groups[..groups.len().min(self.rows)];
        // PyTorch has no tiles, and a tracker in C++ knows no types: they have no padding.
        let has_padding = shown.iter().any(|group| group.first().padded_bytes.is_some());
        let mut table = Table::new([
            ("live, largest first", Align::Flexible),
            ("", Align::Left),
            (heading, Align::Right),
            (if has_padding { "padding" } else { "" }, Align::Right),
            ("allocated by", Align::FlexibleEnd),
            ("freed by", Align::Left),
        ])
        .optional(&[3, 5]);
        for group in shown {
            table.row([
                group.title().unwrap_or_else(|| "–".into()),
                shape_and_type(group.first()),
                group.per_bank.map_or_else(|| "unknown".into(), |bytes| unit.show(bytes)),
                if has_padding { padding_share(group.first()) } else { String::new() },
                group.allocated_by(),
                group.freed_by().unwrap_or_else(|| "–".into()),
            ]);
        }
        out.table(&table);
        let all = moment.live_count.unwrap_or(live.len());
        let listed: usize = shown.iter().map(TensorGroup::count).sum();
        if all > listed {
            let bytes = shown.iter().filter_map(|group| group.per_bank).fold(0, u64::saturating_add);
            let rest = moment.explained_per_bank.unwrap_or(0).saturating_sub(bytes);
            let hint = self.hints.rows;
            out.line(format!("  … and {} more, {}{part} ({hint})", all - listed, unit.show(rest)));
        }
        out.blank();
    }
}

fn width(lines: &[(String, String, String)], part: impl Fn(&(String, String, String)) -> &String) -> usize {
    lines.iter().map(|line| part(line).chars().count()).max().unwrap_or(0)
}

fn padding_share(tensor: &LiveTensor) -> String {
    match (tensor.padded_bytes, tensor.logical_bytes) {
        (Some(padded), Some(logical)) if padded > logical => percent(padded - logical, padded),
        (Some(_), Some(_)) => "–".into(),
        _ => "unknown".into(),
    }
}

fn who(row: &ResidueRow) -> String {
    row.op.clone().unwrap_or_else(|| row.note.unwrap_or("unknown").into())
}

/// Whether an operation retains memory once per shape, or every time.
fn how(row: &ResidueRow) -> String {
    match (row.steps, row.first_uses) {
        (0, _) => String::new(),
        (steps, first) if first == steps => {
            format!("in {}, all with new shapes (cached)", plural(steps as u64, "step"))
        }
        (steps, first) => {
            format!("in {}, {first} of them with new shapes", plural(steps as u64, "step"))
        }
    }
}
