//! The summary as text for a terminal.

mod overview;
mod parts;

use ttmem_model::{Block, Class};
use ttmem_query::{
    AtMoment, Caused, ChosenRuns, DeviceKind, Extent, Increase, LiveTensor, Named, PoolMoment, PoolSummary,
    RankSummary, ResidueRow, SessionSummary, Severity, Suggestion, Summary, TensorGroup, Urgency, groups,
};

use self::overview::overview;
use super::phases::phase_table;
use super::styled::{Span, Style, Text};
use super::table::{Align, Table, cut, one_line};
use super::units::{Unit, change, count, percent, percent_tenths, shape, signed_percent, size};

/// How a summary is fitted to a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns of the terminal.
    pub width: usize,
    /// Lines that the text may have; `None`: as many as it needs.
    pub height: Option<usize>,
    /// Rows per list.
    pub rows: usize,
    /// How to see what lists leave out.
    pub hints: Hints,
}

impl Default for Screen {
    fn default() -> Self {
        Self { width: 100, height: None, rows: 10, hints: Hints::default() }
    }
}

/// How to see what a list leaves out. The default names the options of `ttmem summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// All rows of a list.
    pub rows: &'static str,
    /// All suggestions.
    pub suggestions: &'static str,
    /// The lines below the last one.
    pub lines: &'static str,
}

impl Default for Hints {
    fn default() -> Self {
        Self { rows: "--top shows more", suggestions: "--markdown shows more", lines: "--full shows them" }
    }
}

/// Rows per list if the text must fit a height.
const BRIEF_ROWS: usize = 5;
/// The smallest height that a text is fitted to: less has no room for a verdict.
const MIN_HEIGHT: usize = 10;

/// The summary for a terminal. If it has to fit a height, lists and suggestions are shortened, and lines that still do not
/// fit are cut off with a line that counts them.
pub fn text(summary: &Summary, screen: Screen) -> Text {
    let full = written(summary, screen, false);
    let Some(height) = screen.height.map(|height| height.max(MIN_HEIGHT)) else { return full };
    if full.lines().len() <= height {
        return full;
    }
    let brief = Screen { rows: screen.rows.min(BRIEF_ROWS), ..screen };
    let mut text = written(summary, brief, true);
    let hidden = full.lines().len().saturating_sub(text.lines().len().min(height - 1));
    if hidden > 0 {
        text.truncate(height - 1);
        text.line(format!("… {hidden} more lines ({})", screen.hints.lines));
    }
    text
}

fn written(summary: &Summary, screen: Screen, is_brief: bool) -> Text {
    let mut out = Text::new(screen.width);
    let several = summary.ranks.len() > 1;
    if several {
        overview(summary, &mut out);
    }
    for (index, rank) in summary.ranks.iter().enumerate() {
        if index > 0 || several {
            out.blank();
        }
        Page { rank, screen, format: &summary.source.format, is_brief }.write(&mut out);
    }
    out.trim_end();
    out
}

struct Page<'a> {
    rank: &'a RankSummary,
    screen: Screen,
    format: &'a str,
    is_brief: bool,
}

impl Page<'_> {
    /// The verdict and what to change come first: on a small terminal, nothing else may fit.
    fn write(&self, out: &mut Text) {
        self.head(out);
        self.oom(out);
        self.ended_by(out);
        self.suggestions(out);
        self.pools(out);
        match (&self.rank.at, &self.rank.peak) {
            (Some(at), _) => self.at(at, out),
            (None, Some(peak)) => self.peak(peak, out),
            (None, None) => {}
        }
        self.expected(out);
        // The largest increases are often one line of code many times. If the program names its parts, they say more.
        if self.rank.ran.is_empty() {
            self.increases(out);
        } else {
            self.ran(out);
        }
        self.checkpoints(out);
        self.facts(out);
        self.phases(out);
    }

    fn head(&self, out: &mut Text) {
        let rank = self.rank;
        let label = rank.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
        let is_numbered = rank.processes > 1;
        let process = if is_numbered { format!(", process {}", rank.process) } else { String::new() };
        let kind = match self.format {
            "tt_log" => "Tenstorrent runtime log",
            "tt_json" => "JSON files of a report",
            "tt_train" => "training log",
            "ttmem" => "ttmem profile",
            "memory_profile" => "memory profile",
            other => other,
        };
        let mut facts = vec![kind.to_owned()];
        if let Some(ChosenRuns { first, last, of }) = rank.chosen_runs {
            let runs = if first == last { format!("run {first}") } else { format!("runs {first} to {last}") };
            facts.push(format!("{runs} of {}", count(of as u64)));
        } else if rank.runs > 0 {
            facts.push(plural(rank.runs as u64, "run"));
        }
        if rank.passes > 1 {
            facts.push(format!("{} passes", count(rank.passes as u64)));
        }
        if rank.operations.total > 0 {
            let reported = count(rank.operations.reported.into());
            facts.push(format!(
                "{} ({reported} without deallocations)",
                plural(rank.operations.total.into(), "operation")
            ));
        }
        let facts = facts.join(", ");
        let file = Span::new(&rank.file, Style::Heading);
        let is_short =
            [file.text(), &label, &process, &facts].iter().map(|part| part.chars().count()).sum::<usize>()
                + 3
                <= out.width();
        if is_short {
            out.spans([file, Span::plain(format!("{label}{process}   {facts}"))]);
        } else {
            out.spans([file, Span::plain(format!("{label}{process}"))]);
            out.sentence(&facts, Style::Plain);
        }
        out.blank();
    }

    /// The verdict on an out-of-memory error, and what usually helps.
    fn oom(&self, out: &mut Text) {
        let Some(oom) = &self.rank.oom else { return };
        out.sentence(&oom.statement.facts(), Style::Failure);
        out.sentence(oom.statement.advice.as_deref().unwrap_or_default(), Style::Plain);
        out.blank();
    }

    /// The exception that ended the program.
    fn ended_by(&self, out: &mut Text) {
        let Some(message) = &self.rank.ended_by else { return };
        out.sentence(message, Style::Failure);
        out.blank();
    }

    fn pools(&self, out: &mut Text) {
        let shown = |(_, pool): &(&str, &PoolSummary)| {
            pool.capacity_per_bank.is_none_or(|all| all > 0)
                || pool.peak_per_bank.is_some_and(|peak| peak > 0)
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
            let room = self.screen.width.saturating_sub(head.chars().count() + DEVICE_WIDTH);
            let bar = usage_bar(pool, room.clamp(4, 24) as u64);
            out.row_spans([Span::plain(head)].into_iter().chain(bar).chain([Span::plain(device)]));
        }
        if !pools.is_empty() {
            out.blank();
        }
    }

    fn peak(&self, peak: &PoolMoment, out: &mut Text) {
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
    fn peak_without_a_time(&self, peak: &PoolMoment, out: &mut Text) {
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

    fn step_named(&self, caused: &Caused) -> String {
        let op = caused.op.as_ref().map(|op| format!(": {op}"));
        let loc = caused.loc.as_ref().map(|loc| format!(" at {}", cut(&one_line(loc), 60)));
        let program = caused.program.as_ref().filter(|program| !program.is_empty());
        let program = program.map(|program| format!(" in {program}"));
        let run = caused.run.filter(|_| self.rank.runs > 1).map(|run| format!(", run {run}"));
        let parts = [op, loc, program, run].into_iter().flatten().collect::<String>();
        format!("step {}{parts}", caused.step)
    }

    /// What the sizes of a pool refer to: as a column name, and after a size.
    fn part(&self, name: &str) -> (&'static str, &'static str) {
        self.rank.pools.get(name).map_or(("size/bank", " per bank"), part)
    }

    fn at(&self, at: &AtMoment, out: &mut Text) {
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
    }

    /// What the memory of a pool is used for.
    fn moment(&self, moment: &PoolMoment, out: &mut Text) {
        let (Some(explained), Some(allocated)) = (moment.explained_per_bank, moment.allocated_per_bank)
        else {
            self.why_not_attributed().iter().for_each(|line| out.line(line));
            return out.blank();
        };
        let unit = Unit::of(allocated.max(explained));
        let mut lines: Vec<(String, String, String)> = Vec::new();
        for (class, bytes) in moment.by_class_per_bank.iter().flat_map(Named::iter) {
            let share = percent(*bytes, allocated.max(explained));
            lines.push((plural_class(class), unit.show(*bytes), share));
        }
        let pool = self.rank.pools.get(&moment.pool);
        let not_watched = pool.map_or(&[][..], |pool| &pool.not_watched);
        // If something is known to be missing, the tensors explain an unknown part of the memory in use.
        let too_much = moment.unexplained_per_bank.is_some_and(|rest| rest < 0)
            && explained > allocated.saturating_add(pool.map_or(0, |pool| pool.quantum_per_bank));
        lines.push(if too_much {
            ("listed, more than allocated".into(), unit.show(explained), String::new())
        } else if not_watched.is_empty() {
            let share = percent_tenths(explained.min(allocated), allocated);
            ("explained".into(), unit.show(explained), share)
        } else {
            ("tracked".into(), unit.show(explained), String::new())
        });
        let (names, figures) = (width(&lines, |line| &line.0), width(&lines, |line| &line.1));
        for (name, figure, share) in &lines {
            out.row(format!("  {name:<names$}   {figure:>figures$}   {share:>7}").trim_end());
        }
        self.residue(moment, out);
        for what in not_watched {
            out.sentence(&format!("not tracked, so the real peak may be higher: {what}"), Style::Plain);
        }
        out.blank();
        self.makers(moment, unit, out);
        self.live(moment, unit, out);
    }

    /// Why the memory of a moment is not attributed to tensors, and what to do.
    fn why_not_attributed(&self) -> [&'static str; 2] {
        match self.format {
            "memory_profile" => [
                "  The file lists the largest tensors of a snapshot at most, so memory can't be attributed",
                "  to tensors; a recording (.ttmem) has all of them.",
            ],
            _ if self.rank.device == Some(DeviceKind::Torch) => [
                "  Only counters were read (level phases), so memory can't be attributed to tensors: record",
                "  with level tensors.",
            ],
            _ => [
                "  The log names no tensors, so memory can't be attributed to them; capture with",
                "  TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG.",
            ],
        }
    }

    fn residue(&self, moment: &PoolMoment, out: &mut Text) {
        let quantum = self.rank.pools.get(&moment.pool).map_or(0, |pool| pool.quantum_per_bank);
        let Some(unexplained) = moment.unexplained_per_bank.filter(|rest| rest.unsigned_abs() > quantum)
        else {
            return;
        };
        let rows = moment.residue.as_deref().unwrap_or_default();
        out.row(format!("  unexplained   {}   left behind by:", change(unexplained)));
        for row in rows.iter().take(4) {
            let line = format!("    {:<32} {:>11}   {}", who(row), change(row.per_bank), how(row));
            out.row(line.trim_end());
        }
        let rest = rows.iter().skip(4).map(|row| row.per_bank).fold(0, i64::saturating_add);
        if rows.len() > 4 {
            out.row(format!("    {:<32} {:>11}", format!("{} others", rows.len() - 4), change(rest)));
        }
    }

    fn live(&self, moment: &PoolMoment, unit: Unit, out: &mut Text) {
        let Some(live) = moment.live.as_deref().filter(|live| !live.is_empty()) else { return };
        let (heading, part) = self.part(&moment.pool);
        let groups = groups(live);
        let shown = &groups[..groups.len().min(self.screen.rows)];
        // PyTorch has no tiles, and a tracker in C++ knows no types: they have no padding.
        let has_padding = shown.iter().any(|group| group.first().padded_bytes.is_some());
        let mut table = Table::new([
            ("live, largest first", Align::Flexible),
            ("", Align::Left),
            (heading, Align::Right),
            (if has_padding { "padding" } else { "" }, Align::Right),
            ("allocated by", Align::Flexible),
            ("freed by", Align::Left),
        ]);
        for group in shown {
            table.row([
                group_name(group),
                shape_and_type(group.first()),
                group.per_bank.map_or_else(|| "unknown".into(), |bytes| unit.show(bytes)),
                if has_padding { padding_share(group.first()) } else { String::new() },
                allocated_by(group),
                freed_by(group),
            ]);
        }
        out.table(&table);
        let all = moment.live_count.unwrap_or(live.len());
        let listed: usize = shown.iter().map(TensorGroup::count).sum();
        if all > listed {
            let bytes = shown.iter().filter_map(|group| group.per_bank).fold(0, u64::saturating_add);
            let rest = moment.explained_per_bank.unwrap_or(0).saturating_sub(bytes);
            let hint = self.screen.hints.rows;
            out.line(format!("  … and {} more, {}{part} ({hint})", all - listed, unit.show(rest)));
        }
        out.blank();
    }

    /// The expected sizes of tensor classes, and the measured ones.
    fn expected(&self, out: &mut Text) {
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
            ("expected because of", Align::Flexible),
        ]);
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

    fn increases(&self, out: &mut Text) {
        let increases = &self.rank.increases;
        let rows = self.screen.rows.min(5);
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
            (&*format!("largest increases of {pool}"), Align::Left),
            (self.part(pool).0, Align::Right),
            ("operation", Align::Left),
            ("location", Align::Flexible),
        ]);
        for increase in increases.iter().take(rows) {
            let each = if increase.count > 1 { " each" } else { "" };
            table.row([
                steps(increase),
                format!("+{}{each}", unit.show(increase.added_per_bank)),
                increase.op.clone().unwrap_or_else(|| "unknown".into()),
                increase.loc.clone().unwrap_or_else(|| "–".into()),
            ]);
        }
        out.table(&table);
        out.blank();
    }

    /// Facts that fit on a line each.
    fn facts(&self, out: &mut Text) {
        let rank = self.rank;
        if let Some(padding) = rank.padding.as_ref().filter(|padding| padding.padded_bytes > 0) {
            let wasted = padding.padded_bytes.saturating_sub(padding.logical_bytes);
            out.line(format!(
                "  Padding at the DRAM peak: {} of {} on the device ({})",
                size(wasted),
                size(padding.padded_bytes),
                percent(wasted, padding.padded_bytes)
            ));
        }
        if let Some(weights) = rank.weights.as_ref().filter(|weights| weights.count > 0) {
            let twice = weights.kept_twice_bytes.filter(|bytes| *bytes > 0);
            let twice = twice.map_or_else(String::new, |bytes| {
                format!("; {} of them are stored twice, original and const-evaluated", size(bytes))
            });
            let (number, bytes) = (count(weights.count as u64), size(weights.bytes));
            out.line(format!("  Weights as declared: {number}, {bytes} without padding{twice}"));
        }
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
            out.line(format!("  Changes per bank outside programs: {}{more}", outside.join(", ")));
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
    fn allocators(&self, out: &mut Text) {
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

    fn fragments(&self, out: &mut Text) {
        for (name, worst) in self.rank.fragmentation.iter() {
            if worst.severity != Severity::Notable {
                continue;
            }
            let share = percent(worst.largest_free_per_bank, worst.free_per_bank);
            out.line(format!(
                "  {name} fragmentation: worst at step {}: {} free{}, {} ({share}) in the largest free block",
                worst.step,
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
    fn survivors(&self, survivors: &[LiveTensor], out: &mut Text) {
        if survivors.is_empty() {
            return;
        }
        let mut table = Table::new([
            ("between freed tensors", Align::Flexible),
            ("", Align::Left),
            ("size", Align::Right),
            ("allocated by", Align::Flexible),
            ("freed by", Align::Left),
        ]);
        let groups = groups(survivors);
        for group in groups.iter().take(self.screen.rows.min(5)) {
            table.row([
                group_name(group),
                shape_and_type(group.first()),
                group.per_bank.map_or_else(|| "unknown".into(), size),
                allocated_by(group),
                freed_by(group),
            ]);
        }
        out.table(&table);
    }

    fn phases(&self, out: &mut Text) {
        for (index, session) in self.rank.sessions.iter().enumerate() {
            if index > 0 || self.rank.pools.iter().next().is_some() {
                out.blank();
            }
            out.heading(session_line(index, session));
            let mut table = phase_table(out.width());
            let shown = |bytes: Option<i64>| bytes.map_or_else(|| "unknown".into(), amount);
            let plain = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".into(), size);
            let mut has_l1 = false;
            for phase in self.rank.phases.iter().filter(|phase| phase.session == index) {
                has_l1 |= phase.l1_peak_total_bytes.is_some();
                table.row([
                    phase.name.clone(),
                    shown(phase.segment_peak_bytes),
                    plain(phase.allocations_bytes),
                    plain(phase.deallocations_bytes),
                    phase.change_bytes.map_or_else(|| "unknown".into(), change),
                    shown(phase.cumulative_peak_bytes),
                    shown(phase.cumulative_current_bytes),
                    plain(phase.l1_peak_total_bytes),
                ]);
            }
            if !has_l1 {
                table.drop_last_column();
            }
            out.plain_table(&table, "  ");
        }
    }

    /// What to change. Brief, each suggestion is a sentence.
    fn suggestions(&self, out: &mut Text) {
        const SHOWN: usize = 3;
        // The verdict has said what failed, and notes change nothing.
        let is_change = |one: &&Suggestion| matches!(one.urgency, Urgency::Risk | Urgency::Change);
        let found: Vec<&Suggestion> = self.rank.suggestions.iter().filter(is_change).collect();
        if found.is_empty() || self.rank.at.is_some() {
            return;
        }
        out.heading("What to change");
        for (number, one) in (1..).zip(found.iter().take(SHOWN)) {
            out.item(number, if self.is_brief { &one.statement.headline } else { &one.message });
        }
        let more = found.len().saturating_sub(SHOWN);
        if more > 0 {
            out.line(format!("  … and {more} more ({})", self.screen.hints.suggestions));
        }
        out.blank();
    }
}

/// The title of a training session.
fn session_line(index: usize, session: &SessionSummary) -> String {
    let name = session.name.as_deref().map_or_else(|| format!("Summary {}", index + 1), str::to_owned);
    let shown = |bytes: Option<i64>| bytes.map_or_else(|| "unknown".into(), amount);
    let mut facts = vec![
        format!("peak {}", shown(session.peak_bytes)),
        format!("{} at the end", shown(session.final_bytes)),
    ];
    facts.extend(session.parameters.map(|parameters| format!("{} parameters", count(parameters))));
    facts.extend(session.device_memory_bytes.map(|bytes| format!("device {}", size(bytes))));
    facts.extend(session.estimated.then(|| "estimated".to_owned()));
    facts.extend((!session.finished).then(|| "cut off".to_owned()));
    format!("{name}: {}", facts.join(", "))
}

/// A size that may be negative.
fn amount(bytes: i64) -> String {
    if bytes < 0 { change(bytes) } else { size(bytes.unsigned_abs()) }
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

/// `686.4 of 4080.0 MiB per bank`.
fn figure(pool: &PoolSummary) -> String {
    let (_, part) = part(pool);
    match (pool.peak_per_bank, pool.capacity_per_bank) {
        (Some(peak), Some(all)) => {
            let unit = Unit::of(all);
            format!("{} of {}{part}", unit.number(peak), unit.show(all))
        }
        (Some(peak), None) if pool.peak_source == Some("sampled") => {
            format!("at least {}{part} at the peak (sampled)", size(peak))
        }
        (Some(peak), None) => format!("{}{part} at the peak", size(peak)),
        (None, _) => "not observed".into(),
    }
}

/// What the sizes of a pool refer to: as a column name, and after a size.
fn part(pool: &PoolSummary) -> (&'static str, &'static str) {
    match pool.extent {
        Extent::Device => ("size", ""),
        Extent::Core => ("size/core", " per core"),
        Extent::Bank => ("size/bank", " per bank"),
    }
}

fn width(lines: &[(String, String, String)], part: impl Fn(&(String, String, String)) -> &String) -> usize {
    lines.iter().map(|line| part(line).chars().count()).max().unwrap_or(0)
}

fn plural(number: u64, word: &str) -> String {
    format!("{} {word}{}", count(number), if number == 1 { "" } else { "s" })
}

fn plural_class(class: &str) -> String {
    match class {
        "activation" => "activations".into(),
        "weight" => "weights".into(),
        "input" => "inputs".into(),
        "argument" => "arguments of unknown kind".into(),
        other => other.into(),
    }
}

/// The name of a tensor, or how many there are and what their names have in common. A tensor without a name is described
/// by the part of the program that allocated it.
fn group_name(group: &TensorGroup<'_>) -> String {
    let made_in = || group.first().made_in.as_ref().map(|part| format!("(in {part})"));
    match (group.count(), group.name().or_else(made_in)) {
        (1, name) => name.unwrap_or_else(|| "?".into()),
        (count, Some(name)) => format!("{count} × {name}"),
        (count, None) => format!("{count} tensors"),
    }
}

fn shape_and_type(tensor: &LiveTensor) -> String {
    let shape = tensor.shape.as_deref().map(shape).unwrap_or_default();
    let dtype = tensor.dtype.as_deref().unwrap_or("");
    format!("{shape} {}", dtype.strip_prefix("torch.").unwrap_or(dtype))
}

fn freed_by(group: &TensorGroup<'_>) -> String {
    let (kept, count) = (group.never_freed(), group.count());
    match (group.freed(), group.first().gone_before_step) {
        (Some((first, last)), _) => step_range(first, last),
        (None, Some(step)) if count == 1 => format!("before step {step}"),
        _ if kept == count => "never".into(),
        _ if kept > 0 => format!("{kept} of {count} never"),
        _ => "–".into(),
    }
}

fn step_range(first: u32, last: u32) -> String {
    if first == last { format!("step {first}") } else { format!("steps {first}–{last}") }
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

fn padding_share(tensor: &LiveTensor) -> String {
    match (tensor.padded_bytes, tensor.logical_bytes) {
        (Some(padded), Some(logical)) if padded > logical => percent(padded - logical, padded),
        (Some(_), Some(_)) => "–".into(),
        _ => "unknown".into(),
    }
}

fn allocated_by(group: &TensorGroup<'_>) -> String {
    let tensor = group.first();
    match (group.allocated(), &tensor.op) {
        (Some((first, last)), Some(op)) => format!("{} {op}", step_range(first, last)),
        // In a part of the log that is not in the file.
        (None, Some(op)) => format!("{op}, earlier"),
        _ => match tensor.class {
            Class::Weight => "argument (weight)".into(),
            Class::Input => "argument (input)".into(),
            Class::Unknown => "before the first step".into(),
            _ => "argument".into(),
        },
    }
}

fn who(row: &ResidueRow) -> String {
    row.op.clone().unwrap_or_else(|| row.note.unwrap_or("unknown").into())
}

/// Whether an operation keeps memory once per shape, or every time.
fn how(row: &ResidueRow) -> String {
    match (row.steps, row.first_uses) {
        (0, _) => String::new(),
        (steps, first) if first == steps => {
            format!("in {}, each the first with its shapes (cached)", plural(steps as u64, "step"))
        }
        (steps, first) => {
            format!("in {}, {first} of them the first with their shapes", plural(steps as u64, "step"))
        }
    }
}
