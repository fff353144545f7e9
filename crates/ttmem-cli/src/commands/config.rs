//! `ttmem config`: the configuration of the PyTorch tracker.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Subcommand};
use ttmem::config::{self, Change, LEVELS, Settings, Source};
use ttmem::{Error, Result};

use crate::console;
use crate::replacing::{beside, write_error};

const EXAMPLES: &str = "\
Examples:
  ttmem config                             show all settings and their sources
  ttmem config update --backend-enable-memory-profiling true
  ttmem config update --output-dir ~/profiles --interval 1
  ttmem config path                        print the path of the file

The file is TTMEM_CONFIG if set, otherwise config.toml in TTMEM_HOME (~/.ttmem).

Exit codes: 0 success; 2 wrong usage, or the file cannot be read or written.";

/// `ttmem config`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Config {
    /// The subcommand; `show` by default.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The options of `show`.
    #[command(flatten)]
    pub show: Show,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show all settings and their sources: environment, file or default.
    Show(Show),
    /// Print the path of the file.
    Path,
    /// Change settings in the file; comments and everything else are kept.
    Update(Update),
}

/// `ttmem config show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `ttmem config update`
#[derive(Debug, Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(crate) struct Update {
    /// Track programs that import PyTorch: `enable_memory_profiling` in every `[[backend]]`.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub backend_enable_memory_profiling: Option<bool>,

    /// Write recordings to this folder.
    #[arg(long, value_name = "DIR", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub output_dir: Option<String>,

    /// Set the time between snapshots.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub interval: Option<f64>,

    /// Set the level of detail.
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(LEVELS))]
    pub level: Option<String>,

    /// Limit the size of a recording, such as 200MB, or `none` for no limit.
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    pub limit: Option<String>,

    /// Change this file instead of the one that `ttmem config path` prints.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

const UPDATE_EXAMPLES: &str = "\
Examples:
  ttmem config update --backend-enable-memory-profiling true
  ttmem config update --backend-enable-memory-profiling false --file server.toml";

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "expected a number of seconds greater than 0".into())
}

fn limit(text: &str) -> std::result::Result<String, String> {
    let limit = config::is_limit(text).then(|| text.to_owned());
    limit.ok_or_else(|| "expected a size of at least 1MB (such as 200MB) or `none`".into())
}

/// Runs the subcommand.
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
        Error::NotFound("no home directory for the configuration; set TTMEM_CONFIG or TTMEM_HOME".into())
    })
}

/// Prints the settings. A file that cannot be read is an error.
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
        Some(path) => writeln!(out, "{} (does not exist)\n", path.display())?,
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

/// Changes the file atomically.
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
            "no setting given; pass one, such as `--backend-enable-memory-profiling true`".into(),
        ));
    }
    let path = args.file.clone().map_or_else(path, Ok)?;
    let before = config::text_of(&path)?;
    let after = change.apply(before.as_deref().unwrap_or_default(), &path)?;
    if before.as_deref() == Some(after.as_str()) {
        console::note(&format!("{} is already up to date", path.display()));
    } else {
        replace(&path, &after)?;
        console::note(&format!("updated {}", path.display()));
    }
    if config::path(|name| std::env::var_os(name)).is_none_or(|usual| usual != path) {
        console::note(&format!("programs read this file only if TTMEM_CONFIG={} is set", path.display()));
    }
    for problem in config::Config::parse(&after, &path)?.problems {
        console::caution(&problem);
    }
    Ok(())
}

/// Replaces the content of a file atomically. A symbolic link is kept.
fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |source| Error::Write { path: path.into(), source };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = beside(&target, fs::metadata(&target).ok().as_ref()).map_err(write_error(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(&target).map(|_| ()).map_err(|error| failed(error.error))
}
