//! `ttmem summary`: the answer on one screen.

use std::path::PathBuf;

use clap::Args;
use ttmem::query::{self, Expectations, ProcessFilter, Request, RunFilter};
use ttmem::read::Options;
use ttmem::{Error, Result, report};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem summary model.log                  the screen
  ttmem summary model.log --at 1517        what was in memory before step 1517
  ttmem summary model.log --run last       the last pass alone, without warm-up
  python model.py 2>&1 | ttmem summary -   from a pipe
  ttmem summary rank*.log --json           for scripts: every field is in docs/json.md
  ttmem summary run.ttmem --expect         what the program expected, and what was measured
  ttmem summary run.ttmem --expect params=1.24B,dtype=bf16,kv_cache=2.5GiB

Exit codes: 0 answered; 2 wrong usage or unreadable input; 4 no memory data in it.";

/// `ttmem summary`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Summary {
    /// Logs and profiles; `-` is standard input. Packed files (gzip, zstd) are unpacked.
    #[arg(required_unless_present = "expect", value_name = "FILE")]
    pub files: Vec<String>,

    /// How it is shown.
    #[command(flatten)]
    pub form: Form,

    /// What was in memory before this step, instead of at the peak (in JSON: besides).
    #[arg(long, value_name = "STEP")]
    pub at: Option<u32>,

    /// How many rows lists have. (Tables in Markdown have ten.)
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Which program runs: `all`, those of the last pass (`last`; usually a single run), or one by its number from 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Which rank: `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Which of the processes that wrote one log: `all`, or one by its number from 1. The one that ran out of memory,
    /// otherwise the last, comes first.
    #[arg(long, value_name = "PROCESS", default_value = "all")]
    pub process: ProcessFilter,

    /// Read a log in which lines of several processes are interleaved without tags as if one process had written it. The
    /// numbers are not reliable.
    #[arg(long)]
    pub allow_interleaved: bool,

    /// Compare tensor classes with their expected sizes: those that the program recorded, and those given here.
    /// Weights by `params` and `dtype`; a KV cache by `kv_pages`, `page_size`, `layers`, `kv_heads`, `head_dim` and
    /// `dtype` or `kv_dtype`; any class by its size, as `gradient=2.3GiB`.
    #[arg(long, value_name = "KEY=VALUE,…", num_args = 0..=1, default_missing_value = "")]
    pub expect: Vec<String>,

    /// The format, instead of looking at the content (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace an existing file, unless it is a log, recording or profile.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// How an answer is shown: as a screen, unless one of these is set.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// As JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,

    /// As Markdown, for agents and issues.
    #[arg(long)]
    pub markdown: bool,
}

/// Reads the files and prints the answer. A file that cannot be read is said, and the others are answered.
pub(crate) fn run(args: &Summary) -> Result<u8> {
    let (files, expect) = wanted(args)?;
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
    let top = args.top.filter(|_| !args.form.markdown);
    let (run, process) = (args.run, args.process);
    let request =
        Request { at: args.at, top, run, rank: args.rank.clone(), process, expect, ..Request::default() };
    let summary = query::summary(&opened.profiles, &request)?;
    console::warn(&summary.source);
    print(&summary, &name(&files), args.form, args.top, output.as_ref())?;
    Ok(opened.exit_code)
}

/// The files, and what is expected; nothing where nobody asks.
fn wanted(args: &Summary) -> Result<(Vec<&str>, Option<Expectations>)> {
    let mut files: Vec<&str> = args.files.iter().map(String::as_str).collect();
    let mut expected = Expectations::default();
    for words in &args.expect {
        // A word without a value is the file that `--expect` stands before.
        if !words.is_empty() && !words.contains('=') {
            files.push(words);
            continue;
        }
        let found = words.parse::<Expectations>().and_then(|found| expected.extend(found));
        found.map_err(|why| Error::Usage(format!("--expect {words}: {why}")))?;
    }
    if files.is_empty() {
        return Err(Error::Usage(
            "there is nothing to summarize: name a file, or `-` for standard input".into(),
        ));
    }
    Ok((files, (!args.expect.is_empty()).then_some(expected)))
}

/// Prints an answer.
pub(crate) fn print(
    summary: &query::Summary,
    name: &str,
    form: Form,
    top: Option<usize>,
    output: Option<&Output<'_>>,
) -> Result<()> {
    if form.json {
        return console::write(output, |out| report::json(summary, out));
    }
    if form.markdown {
        return console::write(output, |out| report::markdown(summary, name, out));
    }
    let text = report::text(summary, console::screen(top));
    match output {
        Some(_) => console::write(output, |out| write!(out, "{text}")),
        None => console::print_text(&text),
    }
}

/// What the document is about.
fn name(files: &[&str]) -> String {
    match files {
        [file] => report::title_of(file),
        files => format!("{} files", files.len()),
    }
}
