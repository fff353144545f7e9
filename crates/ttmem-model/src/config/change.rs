//! Changes to a configuration file. Values are set in place, and everything else is kept unchanged.

use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, Item, TableLike, Value};

use super::{BACKEND, Config, INTERVAL, LEVEL, LIMIT, OURS, OUTPUT_DIR, SWITCH};
use crate::error::{Error, Result};

/// The values to set; others stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Set in every backend; if there is none, one is added.
    pub enable_memory_profiling: Option<bool>,
    /// The folder for recordings.
    pub output_dir: Option<String>,
    /// Seconds between snapshots.
    pub interval: Option<f64>,
    /// One of [`LEVELS`](super::LEVELS).
    pub level: Option<String>,
    /// The size limit of a recording.
    pub limit: Option<String>,
}

impl Change {
    /// The text with the change applied. `path` is used in messages.
    pub fn apply(&self, text: &str, path: &Path) -> Result<String> {
        // Reports what is invalid, and where.
        Config::parse(text, path)?;
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut document: DocumentMut = plain
            .parse()
            .map_err(|error| Error::Bug(format!("a configuration was only parsed once: {error}")))?;
        // A new section is added at the end, so that nothing else has to move.
        let mut added = Vec::new();
        if let Some(is_on) = self.enable_memory_profiling
            && !set_in_backends(&mut document, is_on, path)?
        {
            added.push(format!("[[{BACKEND}]]\n{SWITCH} = {is_on}\n"));
        }
        added.extend(self.set_ours(&mut document, path)?);
        let mut changed = document.to_string();
        for section in added {
            if !changed.is_empty() {
                changed.push_str(if changed.ends_with('\n') { "\n" } else { "\n\n" });
            }
            changed.push_str(&section);
        }
        Ok(with_ends_of(text, changed))
    }

    /// Sets the values in the `[ttmem]` section. Returns the section if it does not exist yet.
    fn set_ours(&self, document: &mut DocumentMut, path: &Path) -> Result<Option<String>> {
        let settings = [
            (OUTPUT_DIR, self.output_dir.as_ref().map(Value::from)),
            (INTERVAL, self.interval.map(Value::from)),
            (LEVEL, self.level.as_ref().map(Value::from)),
            (LIMIT, self.limit.as_ref().map(Value::from)),
        ];
        let settings: Vec<(&str, Value)> =
            settings.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        if settings.is_empty() {
            return Ok(None);
        }
        let Some(item) = document.get_mut(OURS) else {
            let mut lines = vec![format!("[{OURS}]\n")];
            lines.extend(settings.iter().map(|(key, value)| format!("{key} = {value}\n")));
            return Ok(Some(lines.concat()));
        };
        let Some(table) = item.as_table_like_mut() else { return Err(no_table(path, OURS)) };
        for (key, value) in settings {
            set(table, key, value);
        }
        Ok(None)
    }
}

/// Sets the switch in every backend; false if there is none.
fn set_in_backends(document: &mut DocumentMut, is_on: bool, path: &Path) -> Result<bool> {
    let Some(item) = document.get_mut(BACKEND) else { return Ok(false) };
    let mut count = 0;
    let mut set_in = |table: &mut dyn TableLike| {
        set(table, SWITCH, is_on.into());
        count += 1;
    };
    match item {
        Item::ArrayOfTables(tables) => {
            ArrayOfTables::iter_mut(tables).for_each(|table| set_in(table));
        }
        Item::Value(Value::Array(array)) => {
            array.iter_mut().filter_map(Value::as_inline_table_mut).for_each(|table| set_in(table));
        }
        item => item.as_table_like_mut().into_iter().for_each(set_in),
    }
    if count == 0 { Err(no_table(path, BACKEND)) } else { Ok(true) }
}

/// Sets a key. Text around the value, such as a trailing comment, is kept.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        Some(item) => *item = Item::Value(value),
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn no_table(path: &Path, key: &str) -> Error {
    Error::NotFound(format!("{}: {key} exists but is not a table; correct it by hand", path.display()))
}

/// Restores the line endings and the byte order mark of the original text.
fn with_ends_of(text: &str, changed: String) -> String {
    let lines = text.matches('\n').count();
    let changed = if lines > 0 && text.matches("\r\n").count() == lines {
        changed.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        changed
    };
    if text.starts_with('\u{feff}') { format!("\u{feff}{changed}") } else { changed }
}
