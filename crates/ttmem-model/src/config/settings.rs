//! The effective settings of the tracker: the environment overrides the file, and the file overrides the defaults.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use super::{
    Config, EXPECTED_LIMIT, EXPECTED_SECONDS, LEVELS, expected_level, is_interval, is_limit, path, text_of,
};

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The default.
    Default,
    /// The file.
    File,
    /// An environment variable.
    Environment,
}

/// A setting and its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
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

/// The effective settings of the tracker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The path of the file, whether it exists or not.
    pub path: Option<PathBuf>,
    /// Whether the file exists.
    pub exists: bool,
    /// Whether the tracker starts with a program (`TTMEM_TRACK`).
    pub enable_memory_profiling: Setting<bool>,
    /// The folder for recordings (`TTMEM_TRACK_DIR`).
    pub output_dir: Setting<String>,
    /// Seconds between snapshots (`TTMEM_TRACK_INTERVAL`).
    pub interval: Setting<f64>,
    /// One of [`LEVELS`] (`TTMEM_TRACK_LEVEL`).
    pub level: Setting<String>,
    /// The size limit of a recording (`TTMEM_TRACK_LIMIT`).
    pub limit: Setting<String>,
    /// Invalid settings that were ignored, with advice.
    pub problems: Vec<String>,
}

impl Settings {
    /// Reads the environment and the file. An unreadable file is reported as a problem, and the environment's settings
    /// still apply.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = path(&variable);
        let mut problems = Vec::new();
        let (exists, file) = read(path.as_ref(), &variable, &mut problems);
        problems.extend(file.problems);
        // Empty variables are ignored. A value that is not UTF-8 can only be a folder.
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let said = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let interval = said("TTMEM_TRACK_INTERVAL").and_then(|text| {
            let seconds = text.trim().parse().ok().filter(|seconds| is_interval(*seconds));
            if seconds.is_none() {
                problems.push(format!("TTMEM_TRACK_INTERVAL is {text:?}; {EXPECTED_SECONDS}"));
            }
            seconds
        });
        let level = said("TTMEM_TRACK_LEVEL").and_then(|text| {
            let known = LEVELS.contains(&text.as_str());
            if !known {
                problems.push(format!("TTMEM_TRACK_LEVEL is {text:?}; {}", expected_level()));
            }
            known.then_some(text)
        });
        let limit = said("TTMEM_TRACK_LIMIT").and_then(|text| {
            let known = is_limit(&text);
            if !known {
                problems.push(format!("TTMEM_TRACK_LIMIT is {text:?}; {EXPECTED_LIMIT}"));
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

    /// The settings of this process.
    pub fn here() -> Self {
        Self::of(|name| std::env::var_os(name))
    }
}

/// Reads the file. Returns whether it exists, and its contents.
fn read(
    path: Option<&PathBuf>,
    variable: impl Fn(&str) -> Option<OsString>,
    problems: &mut Vec<String>,
) -> (bool, Config) {
    let Some(path) = path else { return (false, Config::default()) };
    let config = match text_of(path) {
        Ok(Some(text)) => Config::parse(&text, path),
        Ok(None) => {
            // A missing file is only a problem if it was named explicitly.
            if variable("TTMEM_CONFIG").is_some_and(|named| !named.is_empty()) {
                problems.push(format!(
                    "TTMEM_CONFIG: {} does not exist; correct the path, or create the file with \
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

/// Expands a leading `~`, as a shell would.
fn at_home(folder: String, variable: impl Fn(&str) -> Option<OsString>) -> String {
    let home = || variable("HOME").filter(|home| !home.is_empty())?.into_string().ok();
    match folder.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => home().map(|home| home + rest).unwrap_or(folder),
        None => folder,
    }
}
