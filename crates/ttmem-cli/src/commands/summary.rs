//! `ttmem summary`: summarizes memory use.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use ttmem::model::Profile;
use ttmem::query::filter::Filter;
use ttmem::query::{self, Expectations, FlameOf, GroupBy, MemorySize, ProcessFilter, Request, RunFilter};
use ttmem::read::{self, Options};
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
  ttmem snapshot.pickle --by stack --where 'size > 10MiB and stack ~ attention'
  ttmem summary run.ttmem --flamegraph peak.svg
                                           also draw which call stacks hold the memory
  ttmem summary run.ttmem --expect         compare expected and measured sizes
  ttmem summary run.ttmem --expect params=1.24B,dtype=bf16,kv_cache=2.5GiB

Exit codes: 0 success; 2 wrong usage or unreadable input; 4 no memory data.";

/// `ttmem summary`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("written").args(["output", "flamegraph"]).multiple(true))]
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

    /// How much is printed.
    #[command(flatten)]
    pub limits: Limits,

    /// Select program runs: `all`, `last` (the last pass, usually a single run), or a run number, starting at 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Select one of several processes that wrote the log: a number, starting at 1, or `all` (first the process that
    /// ran out of memory, otherwise the last).
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

    /// List only matching allocations: `size > 10MiB and stack ~ "attention"`. Fields: size, class, name, op, line, stack,
    /// module, pool, allocated, freed, steps.
    #[arg(long = "where", value_name = "CONDITION")]
    pub filter: Option<Filter>,

    /// Group allocations by `line`, `stack`, `op`, `module`, `class` or `size`.
    #[arg(long, value_name = "WHAT")]
    pub by: Option<GroupBy>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also draw a flame graph of the main pool: FILE.svg, or FILE.folded or FILE.txt for folded stacks. It shows the call
    /// stacks that hold memory at the peak, or at the step of `--at`.
    #[arg(long, value_name = "FILE", value_parser = flame_file)]
    pub flamegraph: Option<FlameFile>,

    /// Select the memory in the flame graph: `live`, or `allocated` for everything that the selected runs allocated.
    #[arg(long, value_name = "MEMORY", default_value = "live", requires = "flamegraph")]
    pub flamegraph_of: FlameMemory,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long, requires = "written")]
    pub force: bool,
}

/// The memory in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlameMemory {
    /// Live at the moment.
    Live,
    /// Allocated in the selected runs.
    Allocated,
}

/// A flame graph to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlameFile {
    path: PathBuf,
    /// Folded stacks instead of a picture.
    is_folded: bool,
}

/// Parses the name of a flame graph. The extension decides the format.
fn flame_file(text: &str) -> Result<FlameFile, String> {
    let path = PathBuf::from(text);
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let is_folded = match ending.as_deref() {
        Some("svg") => false,
        Some("folded" | "txt") => true,
        _ => return Err("expected a file name that ends with .svg, .folded or .txt".into()),
    };
    Ok(FlameFile { path, is_folded })
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
    let flame = args.flamegraph.as_ref();
    let flame = flame.map(|file| Ok((file, Output::at(&file.path, args.force, &files)?))).transpose()?;
    let opened = reading::open_inputs(&files, |file| {
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
    let (run, process, top) = (args.run, args.process, args.limits.top_of_request(args.form));
    let (rank, filter) = (args.rank.clone(), args.filter.clone());
    let request =
        Request { at: args.at, top, run, rank, process, expect, filter, by: args.by, ..Request::default() };
    // Two captures of the same program may be one input.
    let profiles: Vec<Profile> = read::complete(opened.profiles).into_iter().flatten().collect();
    let summary = query::summary(&profiles, &request)?;
    console::warn(&summary.source);
    print(&summary, &name(&files), args.form, args.limits, output.as_ref(), None)?;
    if let Some((file, output)) = flame {
        let of = match args.flamegraph_of {
            FlameMemory::Live => FlameOf::Live,
            FlameMemory::Allocated => FlameOf::Allocated,
        };
        let drawn = query::flame(&profiles, &summary, &request, of)?;
        if let (Some(rank), true) = (&drawn.rank, drawn.other_ranks > 0) {
            let all = drawn.other_ranks + 1;
            console::note(&format!("the flame graph shows rank {rank}; use --rank to select one of {all}"));
        }
        let write = if file.is_folded { report::flame_folded } else { report::flame_svg };
        console::write(Some(&output), |out| write(&drawn, out))?;
        console::note(&format!("wrote {}", output.path().display()));
    }
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
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = text.split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = |first: &str| first.len() <= 3 && !first.starts_with('0');
    let is_step = is_number(first)
        && (!text.contains(',') || is_grouped(first))
        && groups.all(|group| group.len() == 3 && is_number(group));
    let digits = text.replace(',', "");
    digits.parse().ok().filter(|_| is_step).ok_or_else(|| "expected a step number, such as 3149".into())
}

/// Parses a number of rows.
fn rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| "expected a number of rows, at least 1".into())
}

/// How much of a summary is printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Limits {
    /// Limit lists to N rows [default: 10].
    #[arg(long, value_name = "N", value_parser = rows)]
    pub top: Option<usize>,

    /// Print all lines on a terminal instead of fitting its height.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub full: bool,

    /// Limit Markdown to a size, such as 12KiB; rows are dropped from the ends of tables [default: 8000 bytes].
    #[arg(long, value_name = "SIZE", requires = "markdown")]
    pub budget: Option<MemorySize>,
}

impl Limits {
    /// The rows to request. Tensors are grouped before a list is cut, except in JSON, which has no groups.
    pub fn top_of_request(self, form: Form) -> Option<usize> {
        self.top.map(|top| if form.json { top } else { usize::MAX })
    }
}

/// Prints a summary. It leaves room on the terminal for the note that follows.
pub(crate) fn print(
    summary: &query::Summary,
    name: &str,
    form: Form,
    limits: Limits,
    output: Option<&Output<'_>>,
    note: Option<&str>,
) -> Result<()> {
    if form.json {
        return console::write(output, |out| report::json(summary, out));
    }
    if form.markdown {
        let text = markdown(summary, name, limits);
        return console::write(output, |out| out.write_all(&text));
    }
    let screen = console::screen(limits.top);
    let height = screen.height.filter(|_| !limits.full && output.is_none());
    let height = height.map(|height| height.saturating_sub(note.map_or(0, console::lines_of_note)));
    let text = report::text(summary, report::Screen { height, ..screen });
    match output {
        Some(_) => console::write(output, |out| writeln!(out, "{text}\n({})", report::MARKER)),
        None => console::print_text(&text),
    }
}

/// The summary as Markdown. Warns if it is larger than requested.
fn markdown(summary: &query::Summary, name: &str, limits: Limits) -> Vec<u8> {
    let standard = report::MarkdownSize::default();
    let budget = limits.budget.map(|MemorySize(bytes)| usize::try_from(bytes).unwrap_or(usize::MAX));
    let rows = limits.top.unwrap_or(standard.rows);
    let size = report::MarkdownSize { budget: budget.unwrap_or(standard.budget), rows };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = report::markdown(summary, name, size, &mut text);
    if let Some(budget) = budget.filter(|budget| text.len() > *budget) {
        let len = text.len();
        console::caution(&format!("--budget {budget}: the headings and totals alone take {len} bytes"));
    }
    text
}

/// The title of the document.
fn name(files: &[&str]) -> String {
    match files {
        [file] => report::title_of(file),
        files => format!("{} files", files.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_number_as_it_is_printed() {
        for (text, number) in
            [("0", 0), ("007", 7), ("3149", 3149), ("3,149", 3149), ("12,345,678", 12_345_678)]
        {
            assert_eq!(step(text), Ok(number), "{text}");
        }
        for wrong in
            ["", ",149", "0,101", "+5", "-1", "1,07", "1234,567", "1,", "1,,000", "x", "1.5", "4294967296"]
        {
            assert!(step(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_extension_of_a_flame_graph_decides_its_format() {
        for (name, is_folded) in [("a.svg", false), ("x/A.SVG", false), ("a.folded", true), ("a.txt", true)] {
            assert_eq!(flame_file(name), Ok(FlameFile { path: name.into(), is_folded }), "{name}");
        }
        for wrong in ["", "-", "svg", "a.png", "a.svg.gz"] {
            assert!(flame_file(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_have_at_least_one_row() {
        assert_eq!(rows("5"), Ok(5));
        assert!(rows("0").is_err() && rows("-1").is_err() && rows("x").is_err());
    }
}
