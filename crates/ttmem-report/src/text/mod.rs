//! The summary as text for a terminal.

pub(crate) mod allocations;
mod facts;
mod growth;
mod ledger;
mod moments;
mod overview;
mod parts;
mod pools;
mod training;

use ttmem_model::words::by_count;
use ttmem_query::{
    ChosenRuns, Extent, LiveTensor, Oom, PoolSummary, RankSummary, Suggestion, Summary, Urgency,
};

use self::allocations::is_asked;
use self::overview::overview;
use super::name_of_file;
use super::styled::{Span, Style, Text};
use super::table::{cut, one_line};
use super::units::{count, shape};

/// How a summary is fitted to a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen<'a> {
    /// Columns of the terminal.
    pub width: usize,
    /// Lines that the text may have; `None`: as many as it needs.
    pub height: Option<usize>,
    /// Rows per list, if the user has set them.
    pub rows: Option<usize>,
    /// How to see what lists leave out.
    pub hints: Hints<'a>,
}

impl Default for Screen<'_> {
    fn default() -> Self {
        Self { width: 120, height: None, rows: None, hints: Hints::default() }
    }
}

/// How to see what a list leaves out. The default names the options of `ttmem summary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints<'a> {
    /// All rows of a list.
    pub rows: &'a str,
    /// Lines and suggestions that are left out.
    pub lines: &'a str,
}

impl Default for Hints<'_> {
    fn default() -> Self {
        Self { rows: "--top shows more", lines: "--full shows them" }
    }
}

/// How much a text shows. If it does not fit, what helps least to see what to change is left out first; suggestions are
/// complete sentences at every level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Everything.
    Full,
    /// Short lists, and no pools that were never used.
    Lists,
    /// No checkpoints and no single facts.
    Peak,
    /// No classes of the live tensors.
    Least,
}

impl Detail {
    /// The number of rows of a list.
    fn rows(self) -> usize {
        match self {
            Self::Full => 10,
            Self::Lists | Self::Peak => 5,
            Self::Least => 3,
        }
    }
}

/// The smallest height that a text is fitted to: less has no room for a verdict.
const MIN_HEIGHT: usize = 10;

/// The summary for a terminal. If it has to fit a height, details are left out, lines that still do not fit are cut off,
/// and the last line counts what is missing.
pub fn text(summary: &Summary, screen: Screen<'_>) -> Text {
    let full = written(summary, screen, Detail::Full);
    let Some(height) = screen.height.map(|height| height.max(MIN_HEIGHT)) else { return full };
    if full.lines().len() <= height {
        return full;
    }
    let mut texts = [Detail::Lists, Detail::Peak, Detail::Least]
        .map(|detail| written(summary, screen, detail))
        .into_iter();
    let last = texts.next_back();
    let mut text = texts.find(|text| text.lines().len() < height).or(last).unwrap_or_else(|| full.clone());
    text.truncate(height - 1);
    let hidden = full.lines().len().saturating_sub(text.lines().len());
    text.line(format!("… {} ({})", plural(hidden as u64, "more line"), screen.hints.lines));
    text
}

fn written(summary: &Summary, screen: Screen<'_>, detail: Detail) -> Text {
    let mut out = Text::new(screen.width);
    let several = summary.ranks.len() > 1;
    if several {
        overview(summary, &mut out);
    }
    for (index, rank) in summary.ranks.iter().enumerate() {
        if index > 0 || several {
            out.blank();
        }
        let rows = screen.rows.unwrap_or(detail.rows());
        Page { rank, rows, hints: screen.hints, format: &rank.format, detail }.write(&mut out);
    }
    out.trim_end();
    out
}

struct Page<'a> {
    rank: &'a RankSummary,
    rows: usize,
    hints: Hints<'a>,
    format: &'a str,
    detail: Detail,
}

impl Page<'_> {
    /// The verdict and what to change come first: on a small terminal, nothing else may fit.
    fn write(&self, out: &mut Text) {
        self.head(out);
        // With a filter or a grouping, only these allocations are of interest.
        if self.rank.allocations.as_ref().is_some_and(is_asked) {
            self.pools(out);
            self.allocations(out);
            return;
        }
        self.oom(out);
        self.ended_by(out);
        if self.rank.oom.is_some() {
            self.holders(out);
        }
        self.training(out);
        self.suggestions(out);
        self.pools(out);
        self.growth(out);
        if self.rank.oom.is_none() {
            self.holders(out);
        }
        match (&self.rank.at, &self.rank.peak) {
            (Some(at), _) => self.at(at, out),
            (None, Some(peak)) => self.peak(peak, out),
            (None, None) => {}
        }
        self.allocations(out);
        self.expected(out);
        // The largest increases are often one line of code many times. If the program names its parts, they say more.
        if self.rank.ran.is_empty() {
            self.increases(out);
        } else {
            self.ran(out);
        }
        if self.detail <= Detail::Lists {
            self.checkpoints(out);
            self.facts(out);
        }
        self.phases(out);
    }

    fn head(&self, out: &mut Text) {
        let rank = self.rank;
        let label = rank.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
        let is_numbered = rank.processes > 1;
        let process = if is_numbered { format!(", process {}", rank.process) } else { String::new() };
        let facts = self.about_input();
        let room = out.width().saturating_sub(label.chars().count() + process.chars().count());
        let file = Span::new(cut(&one_line(name_of_file(&rank.file)), room), Style::Heading);
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

    /// The kind of the input, and how many runs and operations it has.
    fn about_input(&self) -> String {
        let rank = self.rank;
        let mut facts = vec![kind(self.format).to_owned()];
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
            let all = plural(rank.operations.total.into(), "operation");
            let reported = count(rank.operations.reported.into());
            facts.push(if rank.operations.reported == rank.operations.total {
                all
            } else {
                format!("{all} ({reported} excluding deallocations)")
            });
        }
        facts.join(", ")
    }

    /// The verdict on an out-of-memory error, and what usually helps.
    fn oom(&self, out: &mut Text) {
        let of_l1 = self.rank.l1.as_ref().and_then(|l1| l1.verdict.as_ref());
        let Some(statement) = self.rank.oom.as_ref().map(|oom| &oom.statement).or(of_l1) else { return };
        out.sentence(&statement.facts(), Style::Failure);
        let is_brief = self.detail >= Detail::Peak;
        if self.rank.oom.as_ref().is_none_or(|oom| !explained(oom, is_brief, out)) {
            out.sentence(statement.advice.as_deref().unwrap_or_default(), Style::Plain);
        }
        if self.format == ERRORS_ONLY && self.rank.peak.is_none() {
            let next = "The log has only the error. To see what is in memory, capture the program with ttnn.graph and read \
                        the report.";
            out.sentence(next, Style::Plain);
        }
        let errors = self.rank.faults.len() as u64;
        if [ERRORS_ONLY, GPU_ERRORS].contains(&self.format) && errors > 1 {
            let errors = count(errors);
            out.sentence(
                &format!("The log has {errors} errors; this is the last one (--json has all)."),
                Style::Plain,
            );
        }
        out.blank();
    }

    /// The exception that ended the program.
    fn ended_by(&self, out: &mut Text) {
        // The verdict on an out-of-memory error says why the program ended.
        let is_brief = self.rank.oom.is_some() && self.detail > Detail::Lists;
        let Some(message) = self.rank.ended_by.as_ref().filter(|_| !is_brief) else { return };
        out.sentence(message, Style::Failure);
        out.blank();
    }

    /// What the sizes of a pool refer to: as a column name, and after a size.
    fn part(&self, name: &str) -> (&'static str, &'static str) {
        self.rank.pools.get(name).map_or(("size/bank", " per bank"), part)
    }

    /// What to change.
    fn suggestions(&self, out: &mut Text) {
        const SHOWN: usize = 3;
        // The verdict has said what failed, and notes change nothing.
        let is_change = |one: &&Suggestion| matches!(one.urgency, Urgency::Risk | Urgency::Change);
        let all = &self.rank.suggestions;
        let found: Vec<&Suggestion> = all.iter().filter(is_change).collect();
        if found.is_empty() || self.rank.at.is_some() {
            return;
        }
        let saving = found.iter().filter(|one| one.saves_bytes.is_some()).count();
        out.heading(if saving > 1 { "What to change (savings overlap)" } else { "What to change" });
        let shown = if self.detail == Detail::Full { found.len() } else { SHOWN };
        for (number, one) in (1..).zip(found.iter().take(shown)) {
            out.item(number, &one.message);
        }
        let more = found.len().saturating_sub(shown);
        if more > 0 {
            out.line(format!("  … and {more} more ({})", self.hints.lines));
        }
        let number = |index: usize| {
            let place = found
                .iter()
                .take(shown)
                .position(|one| all.get(index).is_some_and(|it| std::ptr::eq(*one, it)))?;
            Some((place + 1).to_string())
        };
        for combination in &self.rank.combinations {
            out.sentence(&combination.text(number).unwrap_or_default(), Style::Plain);
        }
        out.blank();
    }
}

/// Adds the two sides of a clash and the ways out of a failure. Returns whether there are ways out, so that general advice is
/// not needed.
fn explained(oom: &Oom, is_brief: bool, out: &mut Text) -> bool {
    /// The number of ways out on a small screen.
    const FEW: usize = 2;
    if let Some(clash) = &oom.clash {
        let width = clash.lines.iter().map(|line| line.label.len()).max().unwrap_or(0);
        out.blank();
        for line in &clash.lines {
            out.labeled(line.label, width, &line.text);
        }
        for note in [&clash.parts_note, &clash.since_then].into_iter().flatten().filter(|_| !is_brief) {
            out.sentence(note, Style::Plain);
        }
        out.blank();
    }
    if let Some(ledger) = &oom.ledger {
        ledger::ledger(ledger, out);
    }
    out.sentence(oom.no_way_out.as_deref().unwrap_or_default(), Style::Plain);
    if oom.ways_out.is_empty() {
        return false;
    }
    if oom.clash.is_none() {
        out.blank();
    }
    out.heading(if oom.ways_out.len() > 1 { "Ways out (each one is enough)" } else { "A way out" });
    let shown = if is_brief { FEW } else { oom.ways_out.len() };
    for (number, way) in (1..).zip(oom.ways_out.iter().take(shown)) {
        out.item(number, &way.text);
    }
    true
}

/// The format of logs whose only memory data are errors.
const ERRORS_ONLY: &str = "tt_metal_log";

/// The format of logs with an out-of-memory error of a GPU.
const GPU_ERRORS: &str = "cuda_oom";

/// What people call a format.
fn kind(format: &str) -> &str {
    match format {
        "tt_log" => "Tenstorrent runtime log",
        ERRORS_ONLY => "log with a tt-metal error",
        GPU_ERRORS => "log with an out-of-memory error",
        "tt_json" => "JSON files of a report",
        "tt_train" => "training log",
        "ttmem" => "ttmem profile",
        "memory_profile" => "memory profile",
        "ttnn_graph" => "ttnn graph capture",
        "ttnn_db" => "ttnn database",
        "ttrt_memory" => "ttrt memory results",
        "torch_snapshot" => "PyTorch memory snapshot",
        "tracker" => "phase recording",
        other => other,
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

fn plural(number: u64, word: &str) -> String {
    format!("{} {word}{}", count(number), by_count(number, "", "s"))
}

fn shape_and_type(tensor: &LiveTensor) -> String {
    let shape = tensor.shape.as_deref().map(shape).unwrap_or_default();
    let dtype = tensor.dtype.as_deref().unwrap_or("");
    format!("{shape} {}", dtype.strip_prefix("torch.").unwrap_or(dtype))
}
