//! How a configuration is changed: what is set is set where it stands, and all else is kept as it is written.

use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, Item, TableLike, Value};

use super::{BACKEND, Config, INTERVAL, LEVEL, LIMIT, OURS, OUTPUT_DIR, SWITCH};
use crate::error::{Error, Result};

/// What is to be set; the rest stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// In every backend; where there is none, one is added.
    pub enable_memory_profiling: Option<bool>,
    /// Where recordings go.
    pub output_dir: Option<String>,
    /// Seconds between snapshots.
    pub interval: Option<f64>,
    /// One of [`LEVELS`](super::LEVELS).
    pub level: Option<String>,
    /// How large a recording becomes.
    pub limit: Option<String>,
}

impl Change {
    /// The text with the change. `path` is where the text is from.
    pub fn apply(&self, text: &str, path: &Path) -> Result<String> {
        // Says what is wrong, and where.
        Config::parse(text, path)?;
        let plain = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut document: DocumentMut = plain
            .parse()
            .map_err(|error| Error::Bug(format!("a configuration was read only once: {error}")))?;
        // A section that is not there stands at the end: so nothing else has to move.
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

    /// Sets what is ours; returns the section where there is none yet.
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

/// Sets the switch in every backend; false where there is none.
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

/// Sets a key. What stands around the value (a comment behind it) stays.
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
    Error::NotThere(format!(
        "{}: {key} is there, and is no table that a setting could stand in; correct it by hand",
        path.display()
    ))
}

/// The ends of lines, and the mark at the beginning, as they are in the text from which it was made.
fn with_ends_of(text: &str, changed: String) -> String {
    let lines = text.matches('\n').count();
    let changed = if lines > 0 && text.matches("\r\n").count() == lines {
        changed.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        changed
    };
    if text.starts_with('\u{feff}') { format!("\u{feff}{changed}") } else { changed }
}
