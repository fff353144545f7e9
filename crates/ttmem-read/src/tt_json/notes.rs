//! Collects the reader's warnings, which are emitted at the end.

use serde::Deserialize;
use ttmem_model::Result;
use ttmem_model::words::counted_as;

use super::document::JsonStream;
use crate::json::field::Field;
use crate::json::{Corruption, JsonError, MAX_VALUE, Parsed};
use crate::tt_log::tables::Tables;

/// Problems found while reading the files.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The current file and its row, from 0.
    file: String,
    row: u64,
    wrong: u64,
    first_wrong: Option<String>,
    no_objects: u64,
    first_no_object: Option<String>,
    too_large: u64,
    first_too_large: Option<String>,
    warnings: Vec<(Option<u64>, String)>,
}

impl Notes {
    /// Starts another file.
    pub fn begin(&mut self, file: &str) {
        (self.file, self.row) = (file.to_owned(), 0);
    }

    /// The value of a field if it has the right type.
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

    /// Parses a field, like [`Notes::known`]. A value that is too large is skipped.
    pub fn parse<T>(&mut self, json: &mut JsonStream, name: &str) -> Parsed<Option<T>>
    where
        Field<T>: for<'a> Deserialize<'a>,
    {
        let field = self.parse_value(json)?;
        Ok(field.and_then(|field| self.known(field, name)))
    }

    /// Parses the next row if it is an object. A row that is too large is skipped.
    pub fn parse_row<T>(&mut self, json: &mut JsonStream) -> Parsed<Option<T>>
    where
        Field<T>: for<'a> Deserialize<'a>,
    {
        match self.parse_value(json)? {
            None => Ok(None),
            Some(Field::Is(row)) => Ok(Some(row)),
            Some(Field::Missing | Field::Wrong) => {
                self.no_objects += 1;
                if self.first_no_object.is_none() {
                    self.first_no_object = Some(format!("row {} of {}", self.row, self.file));
                }
                Ok(None)
            }
        }
    }

    fn parse_value<T: for<'a> Deserialize<'a>>(&mut self, json: &mut JsonStream) -> Parsed<Option<T>> {
        let value = json.parse(MAX_VALUE)?;
        if value.is_none() {
            self.too_large += 1;
            if self.first_too_large.is_none() {
                self.first_too_large = Some(format!("row {} of {}", self.row, self.file));
            }
        }
        Ok(value)
    }

    /// Ends a row.
    pub fn next_row(&mut self) {
        self.row += 1;
    }

    /// Adds a warning.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push((None, message.into()));
    }

    /// Warns that the input was not read to its end.
    pub fn corrupt_input(&mut self, Corruption { line, why }: &Corruption) {
        // A read error does not belong to a line.
        let warning = match why {
            JsonError::Read(error) => (None, format!("read error ({error}); later rows are missing")),
            why => (
                Some(*line),
                format!("the file is corrupt ({why}); the report covers the rows before this line"),
            ),
        };
        self.warnings.push(warning);
    }

    /// Warns that the current file, which is not the input, was not read to its end. Its line is part of the message,
    /// because the line of a warning is that of the input.
    pub fn corrupt_sibling(&mut self, Corruption { line, why }: &Corruption) {
        let file = &self.file;
        let message = match why {
            JsonError::Read(error) => {
                format!("cannot read {file} to its end ({error}); its later data is missing")
            }
            why => format!("{file} is corrupt at line {line} ({why}); its data after that line is missing"),
        };
        self.warnings.push((None, message));
    }

    /// Emits all warnings.
    pub fn say(mut self, tables: &mut Tables<'_>) -> Result<()> {
        if let Some(first) = self.first_no_object {
            let rows =
                counted_as(self.no_objects, "row is not an object and was", "rows are not objects and were");
            let message = format!("{rows} skipped; the first is {first}");
            self.warnings.push((None, message));
        }
        if let Some(first) = self.first_too_large {
            let values =
                counted_as(self.too_large, "value exceeds 64 MiB and was", "values exceed 64 MiB and were");
            let message = format!("{values} skipped; the first is in {first}");
            self.warnings.push((None, message));
        }
        if let Some(first) = self.first_wrong {
            let values = counted_as(
                self.wrong,
                "value has the wrong type and was",
                "values have the wrong type and were",
            );
            let message = format!("{values} skipped; the first is {first}");
            self.warnings.push((None, message));
        }
        self.warnings.into_iter().try_for_each(|(line, message)| tables.warn(line, message))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_failure_to_read_has_no_line() {
        let mut notes = Notes::default();
        notes.corrupt_input(&Corruption { line: 3, why: JsonError::Read(io::Error::other("gone")) });
        notes.corrupt_input(&Corruption { line: 3, why: JsonError::Truncated });
        notes.corrupt_sibling(&Corruption { line: 3, why: JsonError::Truncated });
        let lines: Vec<Option<u64>> = notes.warnings.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [None, Some(3), None]);
    }
}
