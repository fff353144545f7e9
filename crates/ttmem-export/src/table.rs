//! A Parquet file that is written row by row.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use ttmem::{Error, Result};

use crate::cells::{Cell, Column};

/// The rows of a row group, which engines read or skip as a whole.
const ROWS_PER_GROUP: usize = 122_880;
/// The level of zstd: its default.
const ZSTD_LEVEL: i32 = 3;

/// A file that is being written, under a temporary name.
pub(crate) struct Table {
    path: PathBuf,
    file: Option<SerializedFileWriter<BufWriter<File>>>,
    columns: Vec<Buffer>,
    names: Vec<&'static str>,
    rows: usize,
}

/// The values of a column that are not in the file yet.
struct Buffer {
    /// 1 for each value, 0 for each NULL.
    defined: Vec<i16>,
    values: Values,
}

enum Values {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
}

impl Table {
    /// Creates the file with the columns of a row.
    pub(crate) fn create(path: PathBuf, row: &[Column], metadata: &[(&str, &str)]) -> Result<Self> {
        let failed = write_error(&path);
        let fields = row.iter().map(|(name, cell)| field(name, cell)).collect::<Result<Vec<_>, _>>();
        let fields = fields.map_err(parquet_error(&path))?;
        let schema = Type::group_type_builder("row").with_fields(fields).build();
        let schema = schema.map_err(parquet_error(&path))?;
        let pair = |(key, value): &(&str, &str)| KeyValue::new((*key).to_owned(), (*value).to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default()))
            .set_created_by(concat!("ttmem ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(metadata.iter().map(pair).collect()))
            .build();
        let file = BufWriter::new(File::create_new(&path).map_err(failed)?);
        let file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            file: Some(file.map_err(parquet_error(&path))?),
            columns: row.iter().map(|(_, cell)| Buffer::of(cell)).collect(),
            names: row.iter().map(|(name, _)| *name).collect(),
            rows: 0,
            path,
        })
    }

    /// Adds a row with the columns of the first one.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Column>) -> Result<()> {
        let mut cells = row.into_iter();
        for (name, buffer) in self.names.iter().zip(&mut self.columns) {
            let cell = cells.next().filter(|(of, _)| of == name).map(|(_, cell)| cell);
            if !cell.is_some_and(|cell| buffer.push(cell)) {
                return Err(Error::Bug(format!("a row has no column {name} of the right type")));
            }
        }
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes the rest of the file to the disk; returns its path.
    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        self.flush()?;
        let Some(file) = self.file.take() else { return Ok(self.path) };
        let file = file.into_inner().map_err(parquet_error(&self.path))?;
        let file = file.into_inner().map_err(|error| write_error(&self.path)(error.into_error()))?;
        file.sync_all().map_err(write_error(&self.path))?;
        Ok(self.path)
    }

    fn flush(&mut self) -> Result<()> {
        let (true, Some(file)) = (self.rows > 0, self.file.as_mut()) else { return Ok(()) };
        let columns = &mut self.columns;
        let written = file.next_row_group().and_then(|mut group| {
            for column in columns {
                column.write(&mut group)?;
            }
            group.close().map(drop)
        });
        written.map_err(parquet_error(&self.path))?;
        self.rows = 0;
        Ok(())
    }
}

impl Buffer {
    fn of(cell: &Cell) -> Self {
        let values = match cell {
            Cell::Text(_) => Values::Texts(Vec::new()),
            Cell::Number(_) => Values::Numbers(Vec::new()),
            Cell::Flag(_) => Values::Flags(Vec::new()),
        };
        Self { defined: Vec::new(), values }
    }

    /// Adds a value; false if it has another type.
    fn push(&mut self, cell: Cell) -> bool {
        let is_known = match (&mut self.values, cell) {
            (Values::Texts(texts), Cell::Text(text)) => {
                add(texts, text.map(|text| ByteArray::from(text.into_bytes())))
            }
            (Values::Numbers(numbers), Cell::Number(number)) => add(numbers, number),
            (Values::Flags(flags), Cell::Flag(flag)) => add(flags, flag),
            _ => return false,
        };
        self.defined.push(is_known.into());
        true
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    ) -> Result<(), ParquetError> {
        match &mut self.values {
            Values::Texts(texts) => write::<ByteArrayType>(group, texts, &self.defined)?,
            Values::Numbers(numbers) => write::<Int64Type>(group, numbers, &self.defined)?,
            Values::Flags(flags) => write::<BoolType>(group, flags, &self.defined)?,
        }
        self.defined.clear();
        Ok(())
    }
}

fn add<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let is_known = value.is_some();
    values.extend(value);
    is_known
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    values: &mut Vec<T::T>,
    defined: &[i16],
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has too few columns".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, Some(defined), None)?;
    values.clear();
    column.close()
}

fn field(name: &str, cell: &Cell) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match cell {
        Cell::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Cell::Number(_) => (Physical::INT64, None),
        Cell::Flag(_) => (Physical::BOOLEAN, None),
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    field.with_logical_type(logical).build().map(Arc::new)
}

/// Maps an error of the operating system to one about a file.
pub(crate) fn write_error(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Write { path: path.into(), source }
}

/// Maps an error of the Parquet library to one about a file.
fn parquet_error(path: &Path) -> impl Fn(ParquetError) -> Error + '_ {
    |error| {
        let source = match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(error) => io::Error::other(error),
            },
            error => io::Error::other(error),
        };
        Error::Write { path: path.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::RowGroupMetaData;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::statistics::Statistics;

    use super::*;
    use crate::cells::{number, word};

    #[test]
    fn row_groups_have_statistics_by_which_engines_skip_ranks() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("tensors.parquet");
        let row = |rank: i64, tensor: i64| {
            vec![("rank_id", number(rank)), ("pool", word("cuda:0")), ("tensor", number(tensor))]
        };
        let mut table = Table::create(path.clone(), &row(0, 0), &[]).unwrap();
        // As in an export: the rows of a rank follow each other.
        let rows_per_rank = 100_000;
        for rank in [10, 20, 30] {
            for tensor in 0..rows_per_rank {
                table.push(row(rank, tensor)).unwrap();
            }
        }
        table.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let groups = reader.metadata().row_groups();
        let counts: Vec<i64> = groups.iter().map(RowGroupMetaData::num_rows).collect();
        assert_eq!(counts, [122_880, 122_880, 54_240]);
        let ranks: Vec<(i64, i64)> = groups
            .iter()
            .map(|group| {
                let Some(Statistics::Int64(found)) = group.column(0).statistics() else { panic!("none") };
                (*found.min_opt().unwrap(), *found.max_opt().unwrap())
            })
            .collect();
        // A query about one rank reads the groups with its rows, and no others.
        assert_eq!(ranks, [(10, 20), (20, 30), (30, 30)]);
        for group in groups {
            let Some(Statistics::ByteArray(pools)) = group.column(1).statistics() else { panic!("none") };
            assert_eq!(pools.min_opt().map(ByteArray::data), Some(&b"cuda:0"[..]));
        }
    }
}
