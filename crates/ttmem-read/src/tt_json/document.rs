//! The structure of a report's files: each is a list of rows, either bare or under a key of an object.

use std::io::Read;

use ttmem_model::Result;

use crate::json::{self, Corruption, Json, JsonError, Stop};

/// The stream of a file.
pub(super) type JsonStream = Json<Box<dyn Read + Send>>;

/// Receives the parts of a file.
pub(super) trait Document {
    /// The key of the list of rows. The file may also consist of the list only.
    const ROWS: &'static str;

    /// Reads the next row.
    fn row(&mut self, json: &mut JsonStream) -> Result<(), Stop>;

    /// Reads the value under another key.
    fn entry(&mut self, _key: &str, json: &mut JsonStream) -> Result<(), Stop> {
        Ok(json.skip()?)
    }
}

/// Reads a file up to its end or its first corruption.
pub(super) fn read<D: Document>(
    stream: Box<dyn Read + Send>,
    document: &mut D,
) -> Result<Option<Corruption>> {
    json::read(stream, |json| {
        let is_known = json.list(|json| document.row(json))?
            || json.object(|json, key| {
                if key != D::ROWS {
                    return document.entry(&key, json);
                }
                let is_list = json.list(|json| document.row(json))?;
                if is_list { Ok(()) } else { Err(JsonError::Syntax("the rows are not a list").into()) }
            })?;
        if is_known { Ok(()) } else { Err(Stop::from(JsonError::Syntax("expected a list or an object"))) }
    })
}
