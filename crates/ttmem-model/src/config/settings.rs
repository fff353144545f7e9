//! What holds for the tracker: the environment before the file, the file before what is usual.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::{
    Config, LEVELS, LIMIT_WANTED, SECONDS_WANTED, is_interval, is_limit, level_wanted, path, text_of,
};

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody: it is what is usual.
    Default,
    /// The file.
    File,
    /// A variable of the environment.
    Environment,
}

/// A setting, and who said it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting<T> {
    /// What holds.
    pub value: T,
    /// Who said it.
    pub from: Source,
}

impl<T> Setting<T> {
    fn of(environment: Option<T>, file: Option<T>, usual: T) -> Self {
        match (environment, file) {
            (Some(value), _) => Self { value, from: Source::Environment },
            (None, Some(value)) => Self { value, from: Source::File },
            (None, None) => Self { value: usual, from: Source::Default },
        }
    }
}

/// What holds for the tracker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Where the file lies, or would.
    pub path: Option<PathBuf>,
    /// Whether it is there.
    pub exists: bool,
    /// Whether the tracker starts with a program (`TTMEM_TRACK`).
    pub enable_memory_profiling: Setting<bool>,
    /// Where recordings go (`TTMEM_TRACK_DIR`).
    pub output_dir: Setting<String>,
    /// Seconds between snapshots (`TTMEM_TRACK_INTERVAL`).
    pub interval: Setting<f64>,
    /// One of [`LEVELS`] (`TTMEM_TRACK_LEVEL`).
    pub level: Setting<String>,
    /// How large a recording becomes (`TTMEM_TRACK_LIMIT`).
    pub limit: Setting<String>,
    /// What was passed over because it is not understood, and what to do about it.
    pub problems: Vec<String>,
}

impl Settings {
    /// Asks the environment and the file that it names. A file that cannot be read is a problem among others: what the
    /// environment says holds without it.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = path(&variable);
        let mut problems = Vec::new();
        let (exists, file) = read(path.as_ref(), &variable, &mut problems);
        problems.extend(file.problems);
        // An empty one is none, and what is no text can only be a folder.
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let said = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let interval = said("TTMEM_TRACK_INTERVAL").and_then(|text| {
            let seconds = text.trim().parse().ok().filter(|seconds| is_interval(*seconds));
            if seconds.is_none() {
                problems.push(format!("TTMEM_TRACK_INTERVAL is {text:?}: {SECONDS_WANTED}"));
            }
            seconds
        });
        let level = said("TTMEM_TRACK_LEVEL").and_then(|text| {
            let known = LEVELS.contains(&text.as_str());
            if !known {
                problems.push(format!("TTMEM_TRACK_LEVEL is {text:?}: {}", level_wanted()));
            }
            known.then_some(text)
        });
        let limit = said("TTMEM_TRACK_LIMIT").and_then(|text| {
            let known = is_limit(&text);
            if !known {
                problems.push(format!("TTMEM_TRACK_LIMIT is {text:?}: {LIMIT_WANTED}"));
            }
            known.then_some(text)
        });
        let is_on = said("TTMEM_TRACK").map(|text| text != "0");
        let file_output_dir = file.output_dir.map(|folder| at_home(folder, &variable));
        Self {
            path,
            exists,
            enable_memory_profiling: Setting::of(is_on, file.enable_memory_profiling, false),
            output_dir: Setting::of(said("TTMEM_TRACK_DIR"), file_output_dir, ".".into()),
            interval: Setting::of(interval, file.interval, 5.0),
            level: Setting::of(level, file.level, "tensors".into()),
            limit: Setting::of(limit, file.limit, "256MB".into()),
            problems,
        }
    }

    /// What holds in this process.
    pub fn here() -> Self {
        Self::of(|name| std::env::var_os(name))
    }
}

/// Whether the file is there, and what it says.
fn read(
    path: Option<&PathBuf>,
    variable: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<String>,
) -> (bool, Config) {
    let Some(path) = path else { return (false, Config::default()) };
    let config = match text_of(path) {
        Ok(Some(text)) => Config::parse(&text, path),
        Ok(None) => {
            // Only a file that somebody has named is missed.
            if variable("TTMEM_CONFIG").is_some_and(|named| !named.is_empty()) {
                problems.push(format!(
                    "TTMEM_CONFIG names {}, which is not there: correct the name, or make the file with \
                     `ttmem config update`",
                    path.display()
                ));
            }
            return (false, Config::default());
        }
        Err(error) => Err(error),
    };
    let config = config.unwrap_or_else(|error| {
        problems.push(error.to_string());
        Config::default()
    });
    (true, config)
}

/// A folder as a shell would have named it: no shell has seen what stands in a file.
fn at_home(folder: String, variable: impl Fn(&str) -> Option<OsString>) -> String {
    let home = || variable("HOME").filter(|home| !home.is_empty())?.into_string().ok();
    match folder.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => home().map(|home| home + rest).unwrap_or(folder),
        None => folder,
    }
}
