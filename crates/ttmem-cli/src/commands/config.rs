//! `ttmem config`: the file that switches the tracker for PyTorch on.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Subcommand};
use ttmem::config::{self, Change, LEVELS, Settings, Source};
use ttmem::{Error, Result};

use crate::console;
use crate::replacing::{beside, plainly};

const EXAMPLES: &str = "\
Examples:
  ttmem config                             what holds, and who says so
  ttmem config update --backend-enable-memory-profiling true
  ttmem config update --output-dir ~/profiles --interval 1
  ttmem config path                        which file that is

The file is TTMEM_CONFIG, or else config.toml under TTMEM_HOME (~/.ttmem).

Exit codes: 0 done; 2 wrong usage, or a file that cannot be read or written.";

/// `ttmem config`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Config {
    /// What to do; without, it is shown.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How it is shown.
    #[command(flatten)]
    pub show: Show,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What holds for the tracker, and who says so: the environment, the file, or nobody.
    Show(Show),
    /// Which file it is.
    Path,
    /// Change the file; comments and all else in it are kept.
    Update(Update),
}

/// `ttmem config show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `ttmem config update`
#[derive(Debug, Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(crate) struct Update {
    /// Whether programs are watched when they import PyTorch: `enable_memory_profiling` of every `[[backend]]`.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub backend_enable_memory_profiling: Option<bool>,

    /// Where recordings go.
    #[arg(long, value_name = "DIR", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub output_dir: Option<String>,

    /// Seconds between snapshots.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<f64>,

    /// How closely they are watched.
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(LEVELS))]
    pub level: Option<String>,

    /// How large a recording becomes: 200MB, or none for as much as it takes.
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    pub limit: Option<String>,

    /// The file, instead of the one that `ttmem config path` prints.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

const UPDATE_EXAMPLES: &str = "\
Examples:
  ttmem config update --backend-enable-memory-profiling true
  ttmem config update --backend-enable-memory-profiling false --file server.toml";

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "a number of seconds that is more than 0 is wanted".into())
}

fn limit(text: &str) -> std::result::Result<String, String> {
    let limit = config::is_limit(text).then(|| text.to_owned());
    limit.ok_or_else(|| "a size of at least 1MB is wanted, as 200MB, or none".into())
}

/// Does what is asked for.
pub(crate) fn run(args: &Config) -> Result<()> {
    match &args.command {
        None => show(&args.show),
        Some(Command::Show(args)) => show(args),
        Some(Command::Path) => {
            let path = path()?;
            console::print(|out| writeln!(out, "{}", path.display()))
        }
        Some(Command::Update(args)) => update(args),
    }
}

fn path() -> Result<PathBuf> {
    config::path(|name| std::env::var_os(name)).ok_or_else(|| {
        Error::NotThere(
            "there is no home directory that a configuration could lie in: set TTMEM_CONFIG, or TTMEM_HOME"
                .into(),
        )
    })
}

/// Prints what holds. Where the file cannot be read, that is the answer.
fn show(args: &Show) -> Result<()> {
    if let Ok(path) = path()
        && let Some(text) = config::text_of(&path)?
    {
        config::Config::parse(&text, &path)?;
    }
    let settings = Settings::here();
    for problem in &settings.problems {
        console::caution(problem);
    }
    console::print(|out| {
        if args.json {
            serde_json::to_writer_pretty(&mut *out, &settings)?;
            writeln!(out)
        } else {
            write_settings(&settings, out)
        }
    })
}

fn write_settings(settings: &Settings, out: &mut dyn Write) -> std::io::Result<()> {
    match &settings.path {
        Some(path) if settings.exists => writeln!(out, "{}\n", path.display())?,
        Some(path) => writeln!(out, "{} (not there)\n", path.display())?,
        None => {}
    }
    let Settings { enable_memory_profiling, output_dir, interval, level, limit, .. } = settings;
    let is_on = enable_memory_profiling.value.to_string();
    let seconds = interval.value.to_string();
    let rows = [
        ("enable_memory_profiling", is_on.as_str(), enable_memory_profiling.from, "TTMEM_TRACK"),
        ("output_dir", output_dir.value.as_str(), output_dir.from, "TTMEM_TRACK_DIR"),
        ("interval", seconds.as_str(), interval.from, "TTMEM_TRACK_INTERVAL"),
        ("level", level.value.as_str(), level.from, "TTMEM_TRACK_LEVEL"),
        ("limit", limit.value.as_str(), limit.from, "TTMEM_TRACK_LIMIT"),
    ];
    let width = rows.iter().map(|(_, value, ..)| value.chars().count()).max().unwrap_or(0);
    for (name, value, from, variable) in rows {
        let from = match from {
            Source::Default => "default",
            Source::File => "file",
            Source::Environment => variable,
        };
        writeln!(out, "{name:<23}  {value:<width$}  {from}")?;
    }
    Ok(())
}

/// Changes the file, all at once.
fn update(args: &Update) -> Result<()> {
    let change = Change {
        enable_memory_profiling: args.backend_enable_memory_profiling,
        output_dir: args.output_dir.clone(),
        interval: args.interval,
        level: args.level.clone(),
        limit: args.limit.clone(),
    };
    if change == Change::default() {
        return Err(Error::Usage(
            "nothing is to be changed: name a setting, as `--backend-enable-memory-profiling true`".into(),
        ));
    }
    let path = args.file.clone().map_or_else(path, Ok)?;
    let before = config::text_of(&path)?;
    let after = change.apply(before.as_deref().unwrap_or_default(), &path)?;
    if before.as_deref() == Some(after.as_str()) {
        console::note(&format!("{} says so already", path.display()));
    } else {
        replace(&path, &after)?;
        console::note(&format!("changed {}", path.display()));
    }
    if config::path(|name| std::env::var_os(name)).is_none_or(|usual| usual != path) {
        console::note(&format!("programs read it where TTMEM_CONFIG={} is set", path.display()));
    }
    for problem in config::Config::parse(&after, &path)?.problems {
        console::caution(&problem);
    }
    Ok(())
}

/// Puts a text in the place of a file: all of it, or nothing. A link stays a link.
fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |source| Error::Write { path: path.into(), source };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = beside(&target, fs::metadata(&target).ok().as_ref()).map_err(plainly(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(&target).map(|_| ()).map_err(|error| failed(error.error))
}
