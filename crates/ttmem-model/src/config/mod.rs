//! The tracker's configuration file: a TOML file that may belong to another program.
//!
//! ```toml
//! [[backend]]                      # of the tracked server; other keys belong to the server
//! enable_memory_profiling = true
//!
//! [ttmem]                          # read only by ttmem
//! output_dir = "profiles"
//! interval = 5.0
//! level = "tensors"
//! limit = "256MB"
//! ```
//!
//! This file finds and parses the configuration, [`Settings`] combines it with the environment, and [`Change`] edits it
//! while keeping everything else. The command writes the file; the Python package starts the tracker.
//!
//! [`check_limits`] reads another file: `ttmem.toml` in the working directory, with the limits of `ttmem check`.

mod change;
mod check;
mod settings;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

pub use change::Change;
pub use check::{CHECK_FILE, WrittenLimit, check_limits};
pub use settings::{Setting, Settings, Source};

use crate::MemorySize;
use crate::error::{Error, Result};
use crate::home;

/// The tracking levels.
pub const LEVELS: [&str; 3] = ["phases", "tensors", "ops"];

const SWITCH: &str = "enable_memory_profiling";
const BACKEND: &str = "backend";
const OURS: &str = "ttmem";
const OUTPUT_DIR: &str = "output_dir";
const INTERVAL: &str = "interval";
const LEVEL: &str = "level";
const LIMIT: &str = "limit";
/// A smaller recording would have no room for new events.
const SMALLEST_LIMIT: u64 = 1 << 20;

/// A larger file is not a configuration.
const LARGEST: u64 = 1 << 20;

/// The path of the file: `TTMEM_CONFIG`, or `config.toml` in `TTMEM_HOME` (`~/.ttmem`).
pub fn path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("TTMEM_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| home::home_folder(variable).map(|home| home.join("config.toml")))
}

/// The contents of a file. `None`: not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Whether to start the tracker: true if any of several backends says so.
    pub enable_memory_profiling: Option<bool>,
    /// The folder for recordings.
    pub output_dir: Option<String>,
    /// Seconds between snapshots.
    pub interval: Option<f64>,
    /// One of [`LEVELS`].
    pub level: Option<String>,
    /// The size limit of a recording, as written; `none`: unlimited.
    pub limit: Option<String>,
    /// Invalid settings, with file, line and advice.
    pub problems: Vec<String>,
}

/// The text of a file; `None` if it does not exist.
pub fn text_of(path: &Path) -> Result<Option<String>> {
    let failed = |source| Error::Read { path: path.into(), source };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    // `/dev/null` means no file. Reading other special files might never end.
    if path == Path::new("/dev/null") {
        return Ok(Some(String::new()));
    }
    if !metadata.is_file() || metadata.len() > LARGEST {
        let why =
            if metadata.is_file() { "too large for a configuration file" } else { "not a regular file" };
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
    }
    fs::read_to_string(path).map(Some).map_err(failed)
}

impl Config {
    /// Parses a configuration. `path` is used in messages.
    ///
    /// Keys of other programs are skipped. An invalid ttmem setting is reported as a problem, and the others still
    /// apply. Fails only if the text is not valid TOML.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let document = Document::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let message = error.message().trim().replace('\n', "; ");
            let message = format!("invalid TOML ({message}); correct the line or remove the file");
            Error::Config { path: path.into(), line, message }
        })?;
        let mut reading = Reading { text, path, config: Self::default() };
        reading.backends(document.get(BACKEND));
        reading.ours(document.get(OURS));
        Ok(reading.config)
    }
}

/// A text that is being parsed, and the result so far.
struct Reading<'a> {
    text: &'a str,
    path: &'a Path,
    config: Config,
}

impl Reading<'_> {
    /// The backends: a list of tables, or a single table.
    fn backends(&mut self, item: Option<&Item>) {
        match item {
            None => {}
            Some(Item::ArrayOfTables(tables)) => tables.iter().for_each(|table| self.backend(table)),
            Some(item) => {
                if let Some(table) = item.as_table_like() {
                    self.backend(table);
                }
                let inline = item.as_array().into_iter().flatten();
                for table in inline.filter_map(|value| value.as_inline_table()) {
                    self.backend(table);
                }
            }
        }
    }

    fn backend(&mut self, table: &dyn TableLike) {
        let Some(item) = table.get(SWITCH) else { return };
        match item.as_bool() {
            Some(is_on) => {
                let config = &mut self.config;
                config.enable_memory_profiling = Some(config.enable_memory_profiling == Some(true) || is_on);
            }
            None => {
                self.problem(item.span(), &format!("{SWITCH} is {}; expected true or false", shown(item)));
            }
        }
    }

    /// The `[ttmem]` table. Its unknown keys are problems.
    fn ours(&mut self, item: Option<&Item>) {
        let Some(item) = item else { return };
        let Some(table) = item.as_table_like() else {
            let what = format!("{OURS} is {}; expected a table [{OURS}]", shown(item));
            return self.problem(item.span(), &what);
        };
        for (key, item) in table.iter() {
            match key {
                OUTPUT_DIR => self.output_dir(item),
                INTERVAL => self.interval(item),
                LEVEL => self.level(item),
                LIMIT => self.limit(item),
                _ => {
                    let span = table.get_key_value(key).and_then(|(key, _)| key.span());
                    self.problem(span, &unknown(key));
                }
            }
        }
    }

    fn output_dir(&mut self, item: &Item) {
        match item.as_str().filter(|folder| !folder.is_empty()) {
            Some(folder) => self.config.output_dir = Some(folder.to_owned()),
            None => {
                let what =
                    format!("{OUTPUT_DIR} is {}; expected a folder, such as \"profiles\"", shown(item));
                self.problem(item.span(), &what);
            }
        }
    }

    fn interval(&mut self, item: &Item) {
        #[allow(clippy::cast_precision_loss, reason = "intervals are small")]
        let seconds = item.as_float().or_else(|| item.as_integer().map(|seconds| seconds as f64));
        match seconds.filter(|seconds| is_interval(*seconds)) {
            Some(seconds) => self.config.interval = Some(seconds),
            None => self.problem(item.span(), &format!("{INTERVAL} is {}; {EXPECTED_SECONDS}", shown(item))),
        }
    }

    fn level(&mut self, item: &Item) {
        match item.as_str().filter(|level| LEVELS.contains(level)) {
            Some(level) => self.config.level = Some(level.to_owned()),
            None => self.problem(item.span(), &format!("{LEVEL} is {}; {}", shown(item), expected_level())),
        }
    }

    fn limit(&mut self, item: &Item) {
        let bytes = item.as_integer().map(|bytes| bytes.to_string());
        match item.as_str().map(str::to_owned).or(bytes).filter(|limit| is_limit(limit)) {
            Some(limit) => self.config.limit = Some(limit),
            None => self.problem(item.span(), &format!("{LIMIT} is {}; {EXPECTED_LIMIT}", shown(item))),
        }
    }

    fn problem(&mut self, span: Option<Range<usize>>, what: &str) {
        let line = span.map_or_else(String::new, |span| format!(", line {}", line_of(self.text, span.start)));
        self.config.problems.push(format!("{}{line}: {what}", self.path.display()));
    }
}

const EXPECTED_SECONDS: &str = "expected a number of seconds greater than 0";

const EXPECTED_LIMIT: &str = "expected a size of at least 1MB (such as \"200MB\") or \"none\"";

fn expected_level() -> String {
    format!("expected one of {}", LEVELS.join(", "))
}

/// Whether a number of seconds is a valid interval.
fn is_interval(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

/// Whether a text is a valid limit.
pub fn is_limit(text: &str) -> bool {
    let has_room = |size: MemorySize| size.0 >= SMALLEST_LIMIT;
    text.trim().eq_ignore_ascii_case("none") || text.parse().is_ok_and(has_room)
}

/// The problem of an unknown key in the `[ttmem]` table.
fn unknown(key: &str) -> String {
    let hint = match key {
        SWITCH | "enabled" | "enable" => {
            format!("; to enable the tracker, set {SWITCH} in [[{BACKEND}]]")
        }
        _ => String::new(),
    };
    format!("[{OURS}] has no setting {key:?}; expected {OUTPUT_DIR}, {INTERVAL}, {LEVEL} or {LIMIT}{hint}")
}

/// A value as written, if it is short.
fn shown(item: &Item) -> String {
    let written = item.to_string();
    let written = written.trim();
    if item.is_value() && written.len() <= 40 && !written.contains('\n') {
        written.to_owned()
    } else {
        format!("of type {}", item.type_name())
    }
}

/// The line number of a byte.
fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}
