//! A JSON file that is a list of rows, read row by row.

use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::field::{Field, Object};
use ttmem_model::{Error, Result};

/// What takes the parts of a file.
pub(super) trait Document {
    /// The key of the list of rows. The list may also be all there is.
    const ROWS: &'static str;

    /// A row.
    type Row: DeserializeOwned;

    /// Takes a row; what is no object is wrong.
    fn row(&mut self, row: Field<Object<Self::Row>>) -> Result<()>;

    /// Takes what stands under another key.
    fn entry<'de, A: MapAccess<'de>>(&mut self, _key: &str, object: &mut A) -> Result<(), A::Error> {
        object.next_value::<IgnoredAny>().map(drop)
    }
}

/// Why a file was not read to its end.
#[derive(Debug)]
pub(super) struct Damage {
    /// The line, from 1; `None` where the bytes could not be read at all.
    pub line: Option<u64>,
    /// What is wrong.
    pub why: io::Error,
}

/// Reads a file as far as it goes.
pub(super) fn read<D: Document>(stream: Box<dyn Read + Send>, document: &mut D) -> Result<Option<Damage>> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(256 << 10, stream));
    let mut failure = None;
    let parts = Parts { document, failure: &mut failure };
    let read = json.deserialize_any(parts).and_then(|()| json.end());
    match (failure, read) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(None),
        (None, Err(error)) => {
            let line = (!error.is_io()).then_some(error.line() as u64);
            Ok(Some(Damage { line, why: error.into() }))
        }
    }
}

/// Hands the parts of a file on. What fails on our side is put aside: `serde` knows only its own errors.
struct Parts<'a, D> {
    document: &'a mut D,
    failure: &'a mut Option<Error>,
}

impl<'de, D: Document> Visitor<'de> for Parts<'_, D> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file of a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(key) = object.next_key::<String>()? {
            if key == D::ROWS {
                object.next_value_seed(Rows(Parts { document: self.document, failure: self.failure }))?;
            } else {
                self.document.entry(&key, &mut object)?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element()? {
            if let Err(error) = self.document.row(row) {
                *self.failure = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

/// The list of rows.
struct Rows<'a, D>(Parts<'a, D>);

impl<'de, D: Document> DeserializeSeed<'de> for Rows<'_, D> {
    type Value = ();

    fn deserialize<S: Deserializer<'de>>(self, deserializer: S) -> Result<(), S::Error> {
        deserializer.deserialize_seq(self.0)
    }
}
