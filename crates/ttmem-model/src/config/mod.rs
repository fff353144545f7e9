//! The file that switches the tracker on, and says how it watches: a TOML file that may be another program's.
//!
//! ```toml
//! [[backend]]                      # of the server that is watched; its other keys are its own
//! enable_memory_profiling = true
//!
//! [ttmem]                          # ours alone
//! output_dir = "profiles"
//! interval = 5.0
//! level = "tensors"
//! limit = "256MB"
//! ```
//!
//! Here live where the file lies and what it says (this file), what holds when the environment is asked, too
//! ([`Settings`]), and how it is changed with all else in it kept ([`Change`]). Who writes the file is the command's
//! business, who starts the tracker that of the Python package.

mod change;
mod settings;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

pub use change::Change;
pub use settings::{Setting, Settings, Source};

use crate::MemorySize;
use crate::error::{Error, Result};
use crate::home;

/// How closely a program is watched.
pub const LEVELS: [&str; 3] = ["phases", "tensors", "ops"];

const SWITCH: &str = "enable_memory_profiling";
const BACKEND: &str = "backend";
const OURS: &str = "ttmem";
const OUTPUT_DIR: &str = "output_dir";
const INTERVAL: &str = "interval";
const LEVEL: &str = "level";
const LIMIT: &str = "limit";
/// A smaller recording would have no room for what goes on.
const SMALLEST_LIMIT: u64 = 1 << 20;

/// Nobody writes a larger one; what is larger is no configuration.
const LARGEST: u64 = 1 << 20;

/// Where the file lies: `TTMEM_CONFIG`, or else `config.toml` under `TTMEM_HOME` (`~/.ttmem`).
pub fn path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("TTMEM_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| home::home_folder(variable).map(|home| home.join("config.toml")))
}

/// What a file says. `None` is what it says nothing of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Whether the tracker is to start: where one of several backends says so, it is.
    pub enable_memory_profiling: Option<bool>,
    /// Where recordings go.
    pub output_dir: Option<String>,
    /// Seconds between snapshots.
    pub interval: Option<f64>,
    /// One of [`LEVELS`].
    pub level: Option<String>,
    /// How large a recording becomes, as people type it; `none`: as much as it takes.
    pub limit: Option<String>,
    /// What is not understood, and what to do about it, with the file and the line.
    pub problems: Vec<String>,
}

/// The text of a file; `None` where there is none.
pub fn text_of(path: &Path) -> Result<Option<String>> {
    let failed = |source| Error::Read { path: path.into(), source };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(failed)?,
    };
    // Whoever names it wants no file. All else that is no file could be waited for without an end.
    if path == Path::new("/dev/null") {
        return Ok(Some(String::new()));
    }
    if !metadata.is_file() || metadata.len() > LARGEST {
        let why = if metadata.is_file() { "it is too large for a configuration" } else { "it is no file" };
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
    }
    fs::read_to_string(path).map(Some).map_err(failed)
}

impl Config {
    /// Reads what a text says. `path` is where it is from.
    ///
    /// Keys of others are passed over. What is ours and not understood is a problem, and the rest holds; only a text
    /// that is no TOML says nothing.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let document = Document::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let message = error.message().trim().replace('\n', "; ");
            let message = format!("this is no TOML: {message}. Correct the line, or remove the file");
            Error::Config { path: path.into(), line, message }
        })?;
        let mut reading = Reading { text, path, config: Self::default() };
        reading.backends(document.get(BACKEND));
        reading.ours(document.get(OURS));
        Ok(reading.config)
    }
}

/// A text that is read, and what was found so far.
struct Reading<'a> {
    text: &'a str,
    path: &'a Path,
    config: Config,
}

impl Reading<'_> {
    /// The backends: a list of tables, or one table alone.
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
            None => self.problem(item.span(), &format!("{SWITCH} is {}: write true or false", shown(item))),
        }
    }

    /// The table that is ours: in it, every key must be known.
    fn ours(&mut self, item: Option<&Item>) {
        let Some(item) = item else { return };
        let Some(table) = item.as_table_like() else {
            let what = format!("{OURS} is {}: write [{OURS}], and the settings below it", shown(item));
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
                let what = format!("{OUTPUT_DIR} is {}: name a folder, as \"profiles\"", shown(item));
                self.problem(item.span(), &what);
            }
        }
    }

    fn interval(&mut self, item: &Item) {
        #[allow(clippy::cast_precision_loss, reason = "nobody waits that many seconds")]
        let seconds = item.as_float().or_else(|| item.as_integer().map(|seconds| seconds as f64));
        match seconds.filter(|seconds| is_interval(*seconds)) {
            Some(seconds) => self.config.interval = Some(seconds),
            None => self.problem(item.span(), &format!("{INTERVAL} is {}: {SECONDS_WANTED}", shown(item))),
        }
    }

    fn level(&mut self, item: &Item) {
        match item.as_str().filter(|level| LEVELS.contains(level)) {
            Some(level) => self.config.level = Some(level.to_owned()),
            None => self.problem(item.span(), &format!("{LEVEL} is {}: {}", shown(item), level_wanted())),
        }
    }

    fn limit(&mut self, item: &Item) {
        let bytes = item.as_integer().map(|bytes| bytes.to_string());
        match item.as_str().map(str::to_owned).or(bytes).filter(|limit| is_limit(limit)) {
            Some(limit) => self.config.limit = Some(limit),
            None => self.problem(item.span(), &format!("{LIMIT} is {}: {LIMIT_WANTED}", shown(item))),
        }
    }

    fn problem(&mut self, span: Option<Range<usize>>, what: &str) {
        let line = span.map_or_else(String::new, |span| format!(", line {}", line_of(self.text, span.start)));
        self.config.problems.push(format!("{}{line}: {what}", self.path.display()));
    }
}

const SECONDS_WANTED: &str = "write a number of seconds that is more than 0";

const LIMIT_WANTED: &str = "write a size of at least 1MB, as \"200MB\", or \"none\" for as much as it takes";

fn level_wanted() -> String {
    format!("write one of {}", LEVELS.join(", "))
}

/// Whether there can be that many seconds between snapshots.
fn is_interval(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

/// Whether a recording can have that limit.
pub fn is_limit(text: &str) -> bool {
    let has_room = |size: MemorySize| size.0 >= SMALLEST_LIMIT;
    text.trim().eq_ignore_ascii_case("none") || text.parse().is_ok_and(has_room)
}

/// What to do about a key of our table that is none.
fn unknown(key: &str) -> String {
    let hint = match key {
        SWITCH | "enabled" | "enable" => {
            format!("; the tracker is switched on by {SWITCH} under [[{BACKEND}]]")
        }
        _ => String::new(),
    };
    format!("[{OURS}] has no setting {key:?}: there are {OUTPUT_DIR}, {INTERVAL}, {LEVEL} and {LIMIT}{hint}")
}

/// A value as it is written, where it is short.
fn shown(item: &Item) -> String {
    let written = item.to_string();
    let written = written.trim();
    if item.is_value() && written.len() <= 40 && !written.contains('\n') {
        written.to_owned()
    } else {
        format!("written as {}", item.type_name())
    }
}

/// The number of the line in which a byte stands.
fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}
