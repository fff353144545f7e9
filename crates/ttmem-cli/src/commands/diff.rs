//! `ttmem diff`: what changed between two profiles.

use std::path::PathBuf;

use clap::Args;
use ttmem::query::{self, Diff as Answer, DiffRequest, GrowthLimit};
use ttmem::{Error, Result, report};

use super::report::show_page;
use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem diff before.log after.log                       show what changed
  ttmem diff before.pickle after.pickle --markdown      for a comment on a pull request
  ttmem diff main.ttmem branch.ttmem --fail-over 5%     exit with 1 if a peak grew by more than 5%
  ttmem diff a.log b.log --json                         print JSON (see docs/diff.md)
  ttmem diff a.log b.log --page diff.html --open        also draw both timelines over the same steps

Both files must be of the same kind of device. A recording and a snapshot of PyTorch can be compared.
A page is a single file that works offline and can be shared.

Exit codes: 0 success; 1 with --fail-over, a peak grew by more, or only AFTER ran out of memory; 2 wrong usage,
unreadable input, or nothing that can be compared; 4 no memory data.";

/// The exit code if a limit was exceeded.
const OVER_LIMIT: u8 = 1;
/// The exit code if a limit could not be checked.
const UNKNOWN: u8 = 2;
/// The number of changes on a page, unless another one is given. Programs without anything in common have 100,000.
const MAX_CHANGES_ON_PAGE: usize = 1000;

/// `ttmem diff`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// The first log, recording, snapshot or profile; `-` is standard input.
    #[arg(value_name = "BEFORE")]
    pub before: String,

    /// The second one.
    #[arg(value_name = "AFTER")]
    pub after: String,

    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,

    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,

    /// Exit with 1 if the peak of a pool grew by more than this (a size per bank, or a percentage of the peak before), or if
    /// only AFTER runs out of memory.
    #[arg(long, value_name = "LIMIT")]
    pub fail_over: Option<GrowthLimit>,

    /// The page.
    #[command(flatten)]
    pub page: Page,

    /// List at most this many changes [default: 10; JSON lists all, a page 1000].
    #[arg(long, value_name = "COUNT")]
    pub top: Option<usize>,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Set the format of both files instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// The page to write, if any.
#[derive(Debug, Args)]
pub(crate) struct Page {
    /// Also write a page with both timelines over the same steps.
    #[arg(id = "page", long = "page", value_name = "FILE.html", value_parser = page_file)]
    pub file: Option<PathBuf>,

    /// Open the page in a browser.
    #[arg(long, requires = "page")]
    pub open: bool,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long, requires = "page")]
    pub force: bool,
}

impl Page {
    /// The file to write. One that must not be replaced is an error before anything is read.
    fn output<'a>(&'a self, inputs: &'a [&str]) -> Result<Option<Output<'a>>> {
        self.file.as_deref().map(|path| Output::at(path, self.force, inputs)).transpose()
    }
}

/// Reads both files, prints what changed, writes the page, and checks the limit.
pub(crate) fn run(args: &Diff) -> Result<u8> {
    let files = [args.before.as_str(), args.after.as_str()];
    if files == ["-", "-"] {
        return Err(Error::Usage("standard input can be read only once; pass `-` once".into()));
    }
    let page = args.page.output(&files)?;
    let [before, after] = reading::open_both(files, args.format.as_deref())?;
    for profile in [&before, &after] {
        console::warn_of(&profile.source.file, &profile.warnings);
    }
    let request = |top| DiffRequest { rank: args.rank.clone(), top };
    let aligned = page
        .as_ref()
        .map(|_| query::aligned_diff(&before, &after, &request(args.top.or(Some(MAX_CHANGES_ON_PAGE)))));
    let aligned = aligned.transpose()?;
    let is_complete = args.json && args.top.is_none();
    let answer = match &aligned {
        Some(aligned) if !is_complete => &aligned.answer,
        _ => {
            let top = args.top.or((!args.json).then_some(report::MAX_DIFF_CHANGES));
            &query::diff(&before, &after, &request(top))?
        }
    };
    if args.json {
        console::print(|out| report::diff_json(answer, out))?;
    } else if args.markdown {
        console::print(|out| report::diff_markdown(answer, args.top, out))?;
    } else {
        console::print_text(&report::diff(answer, console::screen(None).width, args.top))?;
    }
    if let Some((page, aligned)) = page.as_ref().zip(aligned.as_ref()) {
        console::write(Some(page), |out| report::diff_page(&before, &after, aligned, out))?;
        console::note(&format!("wrote {}", page.path().display()));
        if args.page.open {
            show_page(page.path());
        }
    }
    Ok(args.fail_over.map_or(0, |limit| check(answer, limit)))
}

/// Parses the name of a page.
fn page_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_page = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"));
    if is_page { Ok(path) } else { Err("expected a file name that ends with .html".into()) }
}

/// The exit code of the limit. A pool over it is named on standard error, and so is one that could not be compared.
fn check(answer: &Answer, limit: GrowthLimit) -> u8 {
    let label = |rank: Option<&str>| rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
    let (over, unknown) = (answer.over(limit), answer.unknown_growth());
    let mut is_out_of_memory = false;
    for rank in answer.newly_out_of_memory() {
        is_out_of_memory = true;
        let pool = rank.out_of_memory.after.as_ref().and_then(|error| error.pool.as_deref());
        let place = pool.map_or_else(String::new, |pool| format!(" in {pool}"));
        let rank = label(rank.rank.as_deref());
        console::say(&format!("ttmem: {rank}AFTER runs out of memory{place}, and BEFORE does not"));
    }
    for pool in &over {
        let (rank, name, grown) = (label(pool.rank), pool.pool, report::size(pool.grown_per_bank));
        let share = match pool.before_per_bank {
            0 => String::new(),
            before => format!(" ({})", query::words::percent(pool.grown_per_bank, before)),
        };
        console::say(&format!(
            "ttmem: {rank}{name}: the peak grew by {grown}{share}, more than the limit of {limit}"
        ));
    }
    for pool in &unknown {
        let which = if pool.is_before { "BEFORE" } else { "AFTER" };
        let (rank, name) = (label(pool.rank), pool.pool);
        console::say(&format!(
            "ttmem: {rank}{name}: {which} does not have the peak, so the limit of {limit} cannot be checked"
        ));
    }
    match (is_out_of_memory || !over.is_empty(), unknown.is_empty()) {
        (true, _) => OVER_LIMIT,
        (false, false) => UNKNOWN,
        (false, true) => 0,
    }
}
