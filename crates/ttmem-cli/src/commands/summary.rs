//! `ttmem summary`: summarizes memory use.

use std::path::PathBuf;

use clap::Args;
use ttmem::query::{self, Expectations, ProcessFilter, Request, RunFilter};
use ttmem::read::Options;
use ttmem::{Error, Result, report};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem summary model.log                  summarize memory use
  ttmem summary model.log --at 1517        show memory before step 1517
  ttmem summary model.log --run last       last pass only, without warm-up
  python model.py 2>&1 | ttmem summary -   read from a pipe
  ttmem summary rank*.log --json           print JSON (see docs/json.md)
  ttmem summary run.ttmem --expect         compare expected and measured sizes
  ttmem summary run.ttmem --expect params=1.24B,dtype=bf16,kv_cache=2.5GiB

Exit codes: 0 success; 2 wrong usage or unreadable input; 4 no memory data.";

/// `ttmem summary`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Summary {
    /// Logs and profiles, optionally compressed (gzip, zstd); `-` is standard input.
    #[arg(required_unless_present = "expect", value_name = "FILE")]
    pub files: Vec<String>,

    /// The output format.
    #[command(flatten)]
    pub form: Form,

    /// Show memory before this step instead of at the peak (JSON has both).
    #[arg(long, value_name = "STEP", value_parser = step)]
    pub at: Option<u32>,

    /// Limit lists to N rows (default: 10).
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Print all lines on a terminal instead of fitting its height.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub full: bool,

    /// Limit Markdown to a size in bytes; rows are dropped from the ends of tables (default: 8000).
    #[arg(long, value_name = "BYTES", requires = "markdown")]
    pub budget: Option<usize>,

    /// Select program runs: `all`, `last` (the last pass, usually a single run), or a run by its number from 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Select a process of a shared log by its number from 1, or `all`, starting with the one that ran out of memory or
    /// the last.
    #[arg(long, value_name = "PROCESS", default_value = "all")]
    pub process: ProcessFilter,

    /// Read interleaved, untagged lines of several processes as one process; the numbers are not reliable.
    #[arg(long)]
    pub allow_interleaved: bool,

    /// Compare tensor classes with their expected sizes, recorded by the program or given here. For weights, set
    /// `params` and `dtype`; for a KV cache `kv_pages`, `page_size`, `layers`, `kv_heads`, `head_dim` and `dtype` or
    /// `kv_dtype`; for any class its size, such as `gradient=2.3GiB`.
    #[arg(long, value_name = "KEY=VALUE,…", num_args = 0..=1, default_missing_value = "")]
    pub expect: Vec<String>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// The output format: text, unless one of these is set.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,

    /// Print Markdown, for agents and issues.
    #[arg(long)]
    pub markdown: bool,
}

/// Reads the files and prints the summary. If a file cannot be read, an error is printed and the others are still
/// reported.
pub(crate) fn run(args: &Summary) -> Result<u8> {
    let (files, expect) = inputs(args)?;
    let output = Output::option(args.output.as_deref(), args.force, &files)?;
    let opened = reading::open_each(&files, |file| {
        let options = Options {
            format: args.format.clone(),
            allow_interleaved: args.allow_interleaved,
            ..Options::default()
        };
        reading::open_with(file, options)
    })?;
    if opened.profiles.is_empty() {
        return Ok(opened.exit_code);
    }
    // Tensors are grouped before a list is cut, except in JSON, which has no groups.
    let top = args.top.map(|top| if args.form.json { top } else { usize::MAX });
    let (run, process) = (args.run, args.process);
    let request =
        Request { at: args.at, top, run, rank: args.rank.clone(), process, expect, ..Request::default() };
    let summary = query::summary(&opened.profiles, &request)?;
    console::warn(&summary.source);
    let limits = Limits { top: args.top, budget: args.budget, is_full: args.full };
    print(&summary, &name(&files), args.form, limits, output.as_ref())?;
    Ok(opened.exit_code)
}

/// The files, and the expected sizes if `--expect` is given.
fn inputs(args: &Summary) -> Result<(Vec<&str>, Option<Expectations>)> {
    let mut files: Vec<&str> = args.files.iter().map(String::as_str).collect();
    let mut expected = Expectations::default();
    for words in &args.expect {
        // A word without `=` is a file that follows `--expect`.
        if !words.is_empty() && !words.contains('=') {
            files.push(words);
            continue;
        }
        let found = words.parse::<Expectations>().and_then(|found| expected.extend(found));
        found.map_err(|why| Error::Usage(format!("--expect {words}: {why}")))?;
    }
    if files.is_empty() {
        return Err(Error::Usage("no input; pass a file, or `-` for standard input".into()));
    }
    Ok((files, (!args.expect.is_empty()).then_some(expected)))
}

/// Parses a step as it is printed: `3149` or `3,149`.
fn step(text: &str) -> Result<u32, String> {
    let digits: String = text.chars().filter(|letter| *letter != ',').collect();
    let is_grouped = text.split(',').skip(1).all(|group| group.len() == 3);
    digits.parse().ok().filter(|_| is_grouped).ok_or_else(|| "expected a step number, such as 3149".into())
}

/// How much of a summary is printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Rows per list.
    pub top: Option<usize>,
    /// Bytes of a Markdown document.
    pub budget: Option<usize>,
    /// Whether the text may exceed the height of the terminal.
    pub is_full: bool,
}

/// Prints a summary.
pub(crate) fn print(
    summary: &query::Summary,
    name: &str,
    form: Form,
    limits: Limits,
    output: Option<&Output<'_>>,
) -> Result<()> {
    if form.json {
        return console::write(output, |out| report::json(summary, out));
    }
    if form.markdown {
        let standard = report::MarkdownSize::default();
        let size = report::MarkdownSize {
            budget: limits.budget.unwrap_or(standard.budget),
            rows: limits.top.unwrap_or(standard.rows),
        };
        return console::write(output, |out| report::markdown(summary, name, size, out));
    }
    let screen = console::screen(limits.top);
    let height = screen.height.filter(|_| !limits.is_full && output.is_none());
    let text = report::text(summary, report::Screen { height, ..screen });
    match output {
        Some(_) => console::write(output, |out| writeln!(out, "{text}\n({})", report::MARKER)),
        None => console::print_text(&text),
    }
}

/// The title of the document.
fn name(files: &[&str]) -> String {
    match files {
        [file] => report::title_of(file),
        files => format!("{} files", files.len()),
    }
}
