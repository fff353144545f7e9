//! What the reader noticed, said as warnings at the end.

use ttmem_model::Result;

use crate::json::Damage;
use crate::json::field::Field;
use crate::tt_log::tables::Tables;

/// What was noticed while the files were read.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The file that is read, and its row, from 0.
    file: String,
    row: u64,
    wrong: u64,
    first_wrong: Option<String>,
    no_objects: u64,
    first_no_object: Option<String>,
    warnings: Vec<(Option<u64>, String)>,
}

impl Notes {
    /// Another file is read from here on.
    pub fn begin(&mut self, file: &str) {
        (self.file, self.row) = (file.to_owned(), 0);
    }

    /// What stands in a field, if it is what belongs there.
    pub fn known<T>(&mut self, field: Field<T>, name: &str) -> Option<T> {
        match field {
            Field::Is(value) => Some(value),
            Field::Missing => None,
            Field::Wrong => {
                self.wrong += 1;
                if self.first_wrong.is_none() {
                    self.first_wrong = Some(format!("`{name}` of row {} in {}", self.row, self.file));
                }
                None
            }
        }
    }

    /// The next row, if it is an object.
    pub fn row<T>(&mut self, row: Field<T>) -> Option<T> {
        match row {
            Field::Is(row) => Some(row),
            Field::Missing | Field::Wrong => {
                self.no_objects += 1;
                if self.first_no_object.is_none() {
                    self.first_no_object = Some(format!("row {} of {}", self.row, self.file));
                }
                None
            }
        }
    }

    /// A row is done.
    pub fn next_row(&mut self) {
        self.row += 1;
    }

    /// Wants people to know something.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push((None, message.into()));
    }

    /// Wants people to know that the file that is read was not read to its end.
    pub fn damaged(&mut self, damage: &Damage) {
        let message = format!("{} is damaged ({}); what stands before is answered", self.file, damage.why);
        self.warnings.push((Some(damage.line), message));
    }

    /// Says everything.
    pub fn say(mut self, tables: &mut Tables<'_>) -> Result<()> {
        if let Some(first) = self.first_no_object {
            let message =
                format!("{} rows are no objects and were left out; the first is {first}", self.no_objects);
            self.warnings.push((None, message));
        }
        if let Some(first) = self.first_wrong {
            let message = format!(
                "{} values are none that belong there and were left out; the first is {first}",
                self.wrong
            );
            self.warnings.push((None, message));
        }
        self.warnings.into_iter().try_for_each(|(line, message)| tables.warn(line, message))
    }
}
