//! `ttmem check`: compares a run with limits, for CI.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::config::{self, CHECK_FILE};
use ttmem::model::Profile;
use ttmem::query::{
    self, CheckLimits, CheckRequest, Checked, GrowthLimit, Outcome, RunFilter, UnreadableFile,
};
use ttmem::{Error, Result, read, report};

use crate::reading::Opened;
use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem check run.ttmem                                     limits from [check] in ttmem.toml
  ttmem check model.log --limit DRAM=80% --limit headroom.L1=32KiB
  ttmem check run.ttmem --limit cuda:0=40GiB --limit growth-per-step=1MiB
  ttmem check run.ttmem --baseline main.ttmem --fail-over 5%
  ttmem check run.ttmem --github --junit memory.xml         for CI

Limits:
  POOL=80%, POOL=40GiB   the peak of a pool or device, such as DRAM, L1, cuda:0, cuda (each of them), cpu
  headroom.POOL=32KiB    the least free memory at the peak; for L1, between program buffers and tensors
  phases.NAME=2GiB       the peak of a training phase
  padding=10%            padding at the peak, of the size without padding
  unexplained=5%         memory at the peak that no tensor explains
  growth-per-step=1MiB   memory that each iteration adds
Sizes are per bank or core where `ttmem summary` shows them so. ttmem.toml in the working directory has the
same names in a table [check]; flags win.

Exit codes: 0 all limits hold; 1 a limit is exceeded; 2 a limit could not be checked, wrong usage or unreadable input; 4 no
memory data.";

/// `ttmem check`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Check {
    /// Logs, recordings, snapshots or profiles; `-` is standard input. A folder stands for the ranks in it.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,

    /// Set a limit, such as `DRAM=80%`; can be used several times.
    #[arg(short, long = "limit", visible_alias = "max", value_name = "NAME=VALUE", value_parser = pair)]
    pub limits: Vec<(String, String)>,

    /// Read limits from this file instead of ttmem.toml in the working directory.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Also compare the peaks with those of another run.
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub baseline: Option<String>,

    /// Set how much a peak may grow: a size per bank, or a percentage of the peak before [default: 0].
    #[arg(long, value_name = "LIMIT", requires = "baseline")]
    pub fail_over: Option<GrowthLimit>,

    /// Print JSON.
    #[arg(long, conflicts_with_all = ["markdown", "github"])]
    pub json: bool,

    /// Print Markdown.
    #[arg(long, conflicts_with = "github")]
    pub markdown: bool,

    /// Also print annotations for GitHub Actions.
    #[arg(long)]
    pub github: bool,

    /// Also write the results to a file in JUnit's XML format.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long, requires = "junit")]
    pub force: bool,

    /// Select runs: `all`, `last` (the last pass) or a run number.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// Parses a limit. A name may contain `=`, a value cannot.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.rsplit_once('=').ok_or("expected a name and a value, such as DRAM=80% or cuda:0=40GiB")?;
    let pair = (name.trim().to_owned(), value.trim().to_owned());
    CheckLimits::of_pairs(std::slice::from_ref(&pair))
        .map_err(|error| error.split_once(": ").map_or_else(|| error.clone(), |(_, why)| why.to_owned()))?;
    Ok(pair)
}

/// Reads the files, compares them with the limits, and prints the results.
pub(crate) fn run(args: &Check) -> Result<u8> {
    let files: Vec<&str> = args.files.iter().map(String::as_str).collect();
    let inputs: Vec<&str> = files.iter().copied().chain(args.baseline.as_deref()).collect();
    let junit = args.junit.as_deref().map(|path| Output::at(path, args.force, &inputs)).transpose()?;
    if inputs.iter().filter(|file| **file == "-").count() > 1 {
        return Err(Error::Usage("standard input can be read only once; pass `-` once".into()));
    }
    let limits = limits(args)?;
    let open = |file: &str| reading::open(file, args.format.as_deref());
    let opened = reading::open_readable_inputs(&files, open)?;
    if opened.profiles.is_empty() {
        return nothing(args, opened, junit.as_ref());
    }
    // Two captures of the same program may be one input.
    let complete = |profiles| -> Vec<Profile> { read::complete(profiles).into_iter().flatten().collect() };
    let profiles = complete(opened.profiles);
    let mut baseline = Vec::new();
    if let Some(file) = args.baseline.as_deref() {
        let opened = reading::open_readable_inputs(&[file], open)?;
        if opened.exit_code != 0 {
            return nothing(args, opened, junit.as_ref());
        }
        baseline = complete(opened.profiles);
    }
    let request = CheckRequest { limits, rank: args.rank.clone(), run: args.run };
    let answer = query::check(&profiles, &baseline, &request)?.with_unreadable(not_read(opened.unreadable));
    console::warn(&answer.source);
    for baseline in &baseline {
        console::warn_of(&baseline.source.file, &baseline.warnings);
    }
    write(args, &answer, junit.as_ref())?;
    Ok(match answer.result {
        Outcome::Failed => 1,
        _ if opened.exit_code != 0 => opened.exit_code,
        Outcome::Unknown => 2,
        Outcome::Passed => 0,
    })
}

/// Writes that nothing was checked, because no input could be read, or not the baseline. Returns the exit code.
fn nothing(args: &Check, opened: Opened, junit: Option<&Output<'_>>) -> Result<u8> {
    write(args, &Checked::of_nothing().with_unreadable(not_read(opened.unreadable)), junit)?;
    Ok(opened.exit_code)
}

fn not_read(unreadable: Vec<(String, String)>) -> Vec<UnreadableFile> {
    unreadable.into_iter().map(|(file, message)| UnreadableFile { file, message }).collect()
}

fn write(args: &Check, answer: &Checked, junit: Option<&Output<'_>>) -> Result<()> {
    print(args, answer)?;
    if let Some(junit) = junit {
        console::write(Some(junit), |out| report::check_junit(answer, out))?;
        console::note(&format!("wrote {}", junit.path().display()));
    }
    Ok(())
}

fn print(args: &Check, answer: &Checked) -> Result<()> {
    if args.json {
        return console::print(|out| report::check_json(answer, out));
    }
    if args.markdown {
        return console::print(|out| report::check_markdown(answer, out));
    }
    let text = report::check(answer, console::screen(None).width);
    if !args.github {
        return console::print_text(&text);
    }
    // Names in the text may look like commands of GitHub, which are ignored until the second line. They cannot contain it.
    let token = RandomState::new().hash_one(0);
    console::print(|out| writeln!(out, "::stop-commands::{token:016x}"))?;
    console::print_text(&text)?;
    console::print(|out| writeln!(out, "::{token:016x}::"))?;
    let root = std::env::var_os("GITHUB_WORKSPACE").filter(|root| !root.is_empty()).map(PathBuf::from);
    let root = root.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    console::print(|out| report::check_github(answer, &root, out))
}

/// The limits of the flags and of the file.
fn limits(args: &Check) -> Result<CheckLimits> {
    let mut limits =
        CheckLimits::of_pairs(&args.limits).map_err(|why| Error::Usage(format!("--limit {why}")))?;
    limits.set_fail_over(args.fail_over);
    let path = args.config.as_deref().unwrap_or(Path::new(CHECK_FILE));
    let text = config::text_of(path)?;
    if let (None, Some(named)) = (&text, &args.config) {
        return Err(Error::NotFound(format!("{}: no such file; correct --config", named.display())));
    }
    let written = text.as_deref().map(|text| config::check_limits(text, path)).transpose()?.flatten();
    if let Some(written) = &written {
        limits = limits.or(CheckLimits::of_file(written, path)?);
    }
    if args.baseline.is_none() && limits.has_fail_over() {
        console::note(&format!("{}: fail-over has no effect without --baseline", path.display()));
    }
    if limits.is_empty() && args.baseline.is_none() {
        let missing = match (&text, &written) {
            (None, _) => format!("{} does not exist", path.display()),
            (Some(_), None) => format!("{} has no table [check]", path.display()),
            _ => format!("the table [check] in {} is empty", path.display()),
        };
        return Err(Error::Usage(format!(
            "no limits: {missing}; pass one, such as `--limit DRAM=80%`, or write a table [check] with \
             `DRAM = \"80%\"` there"
        )));
    }
    Ok(limits)
}
