//! The answer on one screen, for a terminal.

mod overview;
mod parts;

use ttmem_model::{Block, Class};
use ttmem_query::{
    AtMoment, Caused, ChosenRuns, DeviceKind, Extent, LiveTensor, Named, PoolMoment, PoolSummary,
    RankSummary, ResidueRow, SessionSummary, Severity, Suggestion, Summary, Urgency,
};

use self::overview::overview;
use super::styled::{Span, Style, Text};
use super::table::{Align, Table, cut, one_line};
use super::units::{Unit, change, count, percent, percent_tenths, shape, signed_percent, size};

/// The size of a text for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns of the terminal.
    pub width: usize,
    /// Rows of its lists.
    pub rows: usize,
    /// How to see what its lists leave out.
    pub hints: Hints,
}

impl Default for Screen {
    fn default() -> Self {
        Self { width: 100, rows: 10, hints: Hints::default() }
    }
}

/// What a person does to see what a list leaves out. The default names the options of `ttmem summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// All rows of a list.
    pub rows: &'static str,
    /// All suggestions.
    pub suggestions: &'static str,
}

impl Default for Hints {
    fn default() -> Self {
        Self { rows: "--top shows more", suggestions: "--markdown shows more" }
    }
}

/// The summary for a terminal.
pub fn text(summary: &Summary, screen: Screen) -> Text {
    let mut out = Text::new(screen.width);
    let several = summary.ranks.len() > 1;
    if several {
        overview(summary, &mut out);
    }
    for (index, rank) in summary.ranks.iter().enumerate() {
        if index > 0 || several {
            out.blank();
        }
        Page { rank, screen, format: &summary.source.format }.write(&mut out);
    }
    out
}

struct Page<'a> {
    rank: &'a RankSummary,
    screen: Screen,
    format: &'a str,
}

impl Page<'_> {
    fn write(&self, out: &mut Text) {
        self.head(out);
        self.oom(out);
        self.ended_by(out);
        self.pools(out);
        match (&self.rank.at, &self.rank.peak) {
            (Some(at), _) => self.at(at, out),
            (None, Some(peak)) => self.peak(peak, out),
            (None, None) => {}
        }
        self.expected(out);
        // What adds most is often the same line many times: where the program names its parts, they say more.
        if self.rank.ran.is_empty() {
            self.suspects(out);
        } else {
            self.ran(out);
        }
        self.checkpoints(out);
        self.facts(out);
        self.phases(out);
        self.suggestions(out);
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
        out.spans([
            Span::new(&rank.file, Style::Heading),
            Span::plain(format!("{label}{process}   {facts}")),
        ]);
        out.blank();
    }

    /// The verdict, in a sentence that a person understands, and what to do.
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
            let share =
                peak.zip(pool.capacity_per_bank).map_or_else(|| "–".into(), |(peak, all)| percent(peak, all));
            let device = match (pool.peak_total, pool.banks) {
                (Some(total), Some(banks)) if total > 0 && banks > 1 => {
                    format!("   {} on the device ({banks} banks)", size(total))
                }
                (Some(total), None) if total > 0 => format!("   {} on the device", size(total)),
                _ => String::new(),
            };
            let head = format!("  {name:<name_width$}   {figure:>width$}   {share:>5}   ");
            // The bar gives way, so that the line fits.
            let room = self.screen.width.saturating_sub(head.chars().count() + DEVICE_WIDTH);
            let bar = usage_bar(pool, room.clamp(8, 24) as u64);
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
                    "by what came between two programs"
                } else {
                    "there from the beginning"
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

    /// What the sizes of a pool are of: as a heading, and behind a size.
    fn part(&self, name: &str) -> (&'static str, &'static str) {
        self.rank.pools.get(name).map_or(("a bank", " of each bank"), part)
    }

    fn at(&self, at: &AtMoment, out: &mut Text) {
        let next = at.op.as_ref().map_or_else(|| " (the end)".to_owned(), |op| format!(": {op}"));
        let loc = at.loc.as_ref().map_or_else(String::new, |loc| format!(" at {}", cut(&one_line(loc), 60)));
        out.heading(format!("Before step {}{next}{loc}", at.step));
        for (_, moment) in
            at.pools.iter().filter(|(_, moment)| moment.allocated_per_bank.is_none_or(|held| held > 0))
        {
            let held = moment.allocated_per_bank.map_or_else(|| "not known".to_owned(), size);
            let free = moment.free_per_bank.map_or_else(String::new, |free| format!(", {} free", size(free)));
            let piece = moment
                .largest_free_per_bank
                .map_or_else(String::new, |largest| format!(" ({} in one piece)", size(largest)));
            let (_, part) = self.part(&moment.pool);
            out.line(format!("  {}: {held}{part} allocated{free}{piece}", moment.pool));
            self.moment(moment, out);
        }
    }

    /// Who holds the memory of a pool at a moment.
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
        // Where something is known to be missing, the tensors explain a part of what was there: how much is not known.
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
                "  The evidence names no tensors, so memory can't be attributed to them: capture with",
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
        let rows = self.screen.rows;
        // PyTorch has no tiles, and a tracker in C++ knows no types: there is no padding to speak of.
        let has_padding = live.iter().take(rows).any(|tensor| tensor.padded_bytes.is_some());
        let mut table = Table::new([
            ("alive, largest first", Align::Flexible),
            ("", Align::Left),
            (heading, Align::Right),
            (if has_padding { "padding" } else { "" }, Align::Right),
            ("made by", Align::Left),
            ("until", Align::Left),
        ]);
        for tensor in live.iter().take(rows) {
            table.row([
                name_or_maker(tensor),
                shape_and_type(tensor),
                tensor.per_bank.map_or_else(|| "unknown".into(), |bytes| unit.show(bytes)),
                if has_padding { padding_share(tensor) } else { String::new() },
                maker(tensor),
                until(tensor),
            ]);
        }
        out.table(&table);
        let all = moment.live_count.unwrap_or(live.len());
        if all > rows {
            let shown =
                live.iter().take(rows).filter_map(|tensor| tensor.per_bank).fold(0, u64::saturating_add);
            let rest = moment.explained_per_bank.unwrap_or(0).saturating_sub(shown);
            let hint = self.screen.hints.rows;
            out.line(format!("  … and {} more, {}{part} ({hint})", all - rows, unit.show(rest)));
        }
        out.blank();
    }

    /// What is expected of classes, and what they took.
    fn expected(&self, out: &mut Text) {
        let rows = &self.rank.expected;
        if rows.is_empty() {
            return;
        }
        out.heading("Expected, and the most that was measured");
        let mut table = Table::new([
            ("class", Align::Left),
            ("expected", Align::Right),
            ("measured", Align::Right),
            ("difference", Align::Right),
            ("", Align::Right),
            ("expected are", Align::Flexible),
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

    fn suspects(&self, out: &mut Text) {
        let suspects = &self.rank.suspects;
        let rows = self.screen.rows.min(5);
        if suspects.is_empty() || self.rank.at.is_some() {
            return;
        }
        let pool = self
            .rank
            .pools
            .get("DRAM")
            .map_or_else(|| self.rank.peak.as_ref().map_or("memory", |peak| peak.pool.as_str()), |_| "DRAM");
        let unit = Unit::of(suspects[0].added_per_bank);
        let mut table = Table::new([
            (&*format!("added most to {pool}"), Align::Left),
            (self.part(pool).0, Align::Right),
            ("operation", Align::Left),
            ("location", Align::Flexible),
        ]);
        for suspect in suspects.iter().take(rows) {
            table.row([
                format!("step {}", suspect.step),
                format!("+{}", unit.show(suspect.added_per_bank)),
                suspect.op.clone().unwrap_or_else(|| "unknown".into()),
                suspect.loc.clone().unwrap_or_else(|| "–".into()),
            ]);
        }
        out.table(&table);
        out.blank();
    }

    /// What else is worth a line.
    fn facts(&self, out: &mut Text) {
        let rank = self.rank;
        if let Some(padding) = rank.padding.as_ref().filter(|padding| padding.padded_bytes > 0) {
            let wasted = padding.padded_bytes.saturating_sub(padding.logical_bytes);
            out.line(format!(
                "  Padding at the DRAM peak: {} of {} on the device ({} of the padded size)",
                size(wasted),
                size(padding.padded_bytes),
                percent(wasted, padding.padded_bytes)
            ));
        }
        if let Some(weights) = rank.weights.as_ref().filter(|weights| weights.count > 0) {
            let twice = weights.kept_twice_bytes.filter(|bytes| *bytes > 0);
            let twice = twice.map_or_else(String::new, |bytes| {
                format!("; {} of them are kept twice, as given and const-evaluated", size(bytes))
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
            let more = if more > 0 { format!(" and {more} more times") } else { String::new() };
            out.line(format!("  Outside of programs: {}{more} (a bank)", outside.join(", ")));
        }
        self.allocators(out);
        for (name, pool) in rank.pools.iter() {
            if let (Some(end), Some(source)) = (pool.final_per_bank.filter(|end| *end > 0), pool.final_source)
            {
                let (_, part) = self.part(name);
                out.line(format!("  {name} at the end: {}{part} ({source})", size(end)));
            }
        }
    }

    /// What caching allocators say besides.
    fn allocators(&self, out: &mut Text) {
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
        for (name, pool) in self.rank.pools.iter() {
            let Some(levels) = &pool.allocator else { continue };
            out.line(format!(
                "  {name} at its peak: {} asked for, {} active, {} reserved; {} reserved at most",
                known(levels.requested_at_peak_total),
                known(levels.active_at_peak_total),
                known(levels.reserved_at_peak_total),
                known(levels.reserved_peak_total)
            ));
        }
    }

    fn fragments(&self, out: &mut Text) {
        for (name, worst) in self.rank.fragmentation.iter() {
            if worst.severity != Severity::Notable {
                continue;
            }
            let share = percent(worst.largest_free_per_bank, worst.free_per_bank);
            out.line(format!(
                "  Fragmentation of {name}: worst at step {}, {} free{}, {} ({share}) in one piece",
                worst.step,
                size(worst.free_per_bank),
                self.part(name).1,
                size(worst.largest_free_per_bank)
            ));
            if let Some(blocks) = worst.blocks.as_deref().filter(|blocks| !blocks.is_empty()) {
                out.row(format!("    a bank, by address: {}", block_bar(blocks, BLOCK_BAR)));
            }
        }
    }

    fn phases(&self, out: &mut Text) {
        for (index, session) in self.rank.sessions.iter().enumerate() {
            if index > 0 || self.rank.pools.iter().next().is_some() {
                out.blank();
            }
            out.heading(session_line(index, session));
            let mut table = Table::new([
                ("phase", Align::Flexible),
                ("peak in it", Align::Right),
                ("change", Align::Right),
                ("at its end", Align::Right),
                ("highest so far", Align::Right),
                ("L1 of a core", Align::Right),
            ]);
            let shown = |bytes: Option<i64>| bytes.map_or_else(|| "unknown".into(), amount);
            for phase in self.rank.phases.iter().filter(|phase| phase.session == index) {
                table.row([
                    phase.name.clone(),
                    shown(phase.segment_peak_bytes),
                    phase.change_bytes.map_or_else(|| "unknown".into(), change),
                    shown(phase.cumulative_current_bytes),
                    shown(phase.cumulative_peak_bytes),
                    phase.l1_peak_total_bytes.map_or_else(|| "unknown".into(), size),
                ]);
            }
            out.plain_table(&table, "  ");
        }
    }

    /// What to change, last: that is where people look first.
    fn suggestions(&self, out: &mut Text) {
        const SHOWN: usize = 3;
        // The verdict has said what failed, and notes change nothing.
        let is_change = |one: &&Suggestion| matches!(one.urgency, Urgency::Risk | Urgency::Change);
        let found: Vec<&Suggestion> = self.rank.suggestions.iter().filter(is_change).collect();
        if found.is_empty() || self.rank.at.is_some() {
            return;
        }
        out.blank();
        out.heading("What to change");
        for (number, one) in (1..).zip(found.iter().take(SHOWN)) {
            out.item(number, &one.message);
        }
        let more = found.len().saturating_sub(SHOWN);
        if more > 0 {
            out.line(format!("  … and {more} more ({})", self.screen.hints.suggestions));
        }
    }
}

/// What a session of phases is about, in a line.
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

/// A size that may be below nothing.
fn amount(bytes: i64) -> String {
    if bytes < 0 { change(bytes) } else { size(bytes.unsigned_abs()) }
}

/// What `   11.10 GiB on the device (12 banks)` takes at most.
const DEVICE_WIDTH: usize = 40;

/// How much of a pool is used at its peak, as a bar of `width` cells in the style of its level.
fn usage_bar(pool: &PoolSummary, width: u64) -> Option<Span> {
    let (peak, capacity) = pool.peak_per_bank.zip(pool.capacity_per_bank)?;
    let filled = if capacity == 0 { 0 } else { (peak.saturating_mul(width)).div_ceil(capacity).min(width) };
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    let bar = format!("{}{}", cells(filled, "▓"), cells(width - filled, "░"));
    Some(Span::new(bar, Style::of_level(pool.level)))
}

/// How many cells the picture of a bank has.
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

/// `686.4 of 4080.0 MiB a bank`.
fn figure(pool: &PoolSummary) -> String {
    let each = match part(pool).0 {
        "size" => String::new(),
        each => format!(" {each}"),
    };
    match (pool.peak_per_bank, pool.capacity_per_bank) {
        (Some(peak), Some(all)) => {
            let unit = Unit::of(all);
            format!("{} of {}{each}", unit.number(peak), unit.show(all))
        }
        (Some(peak), None) if pool.peak_source == Some("sampled") => {
            format!("at least {}{each} at its peak (sampled)", size(peak))
        }
        (Some(peak), None) => format!("{}{each} at its peak", size(peak)),
        (None, _) => "not observed".into(),
    }
}

/// What the sizes of a pool are of: as a heading, and behind a size.
fn part(pool: &PoolSummary) -> (&'static str, &'static str) {
    match pool.extent {
        Extent::Device => ("size", ""),
        Extent::Core => ("a core", " of a core"),
        Extent::Bank => ("a bank", " of each bank"),
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

/// What a tensor is called; what has no name was made somewhere.
fn name_or_maker(tensor: &LiveTensor) -> String {
    let made_in = || tensor.made_in.as_ref().map(|part| format!("(in {part})"));
    tensor.name.clone().or_else(made_in).unwrap_or_else(|| "?".into())
}

fn shape_and_type(tensor: &LiveTensor) -> String {
    let shape = tensor.shape.as_deref().map(shape).unwrap_or_default();
    let dtype = tensor.dtype.as_deref().unwrap_or("");
    format!("{shape} {}", dtype.strip_prefix("torch.").unwrap_or(dtype))
}

fn until(tensor: &LiveTensor) -> String {
    match (tensor.dies_step, tensor.gone_before_step) {
        (Some(step), _) => format!("step {step}"),
        (None, Some(step)) => format!("before step {step}"),
        (None, None) => "the end".into(),
    }
}

fn padding_share(tensor: &LiveTensor) -> String {
    match (tensor.padded_bytes, tensor.logical_bytes) {
        (Some(padded), Some(logical)) if padded > logical => percent(padded - logical, padded),
        (Some(_), Some(_)) => "–".into(),
        _ => "unknown".into(),
    }
}

fn maker(tensor: &LiveTensor) -> String {
    match (tensor.born_step, &tensor.op) {
        (Some(step), Some(op)) => {
            format!("step {step} {op}")
        }
        // In a part of the log that was cut away.
        (None, Some(op)) => format!("{op}, earlier"),
        _ => match tensor.class {
            Class::Weight => "argument (weight)".into(),
            Class::Input => "argument (input)".into(),
            Class::Unknown => "there before".into(),
            _ => "argument".into(),
        },
    }
}

fn who(row: &ResidueRow) -> String {
    row.op.clone().unwrap_or_else(|| row.note.unwrap_or("unknown").into())
}

/// Whether an operation keeps something once for each shape, or every time.
fn how(row: &ResidueRow) -> String {
    match (row.steps, row.first_uses) {
        (0, _) => String::new(),
        (steps, first) if first == steps => {
            format!("in {}, each the first with its shapes: cached", plural(steps as u64, "step"))
        }
        (steps, first) => {
            format!("in {}, {first} of them the first with their shapes", plural(steps as u64, "step"))
        }
    }
}
