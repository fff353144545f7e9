//! The tables and columns of a database.

use std::collections::BTreeMap;

use rusqlite::Connection;

/// The tables with their columns.
#[derive(Debug, Default)]
pub(super) struct Schema {
    tables: BTreeMap<String, Vec<String>>,
}

impl Schema {
    pub fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut schema = Self::default();
        let query = "SELECT m.name, p.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS p \
                     WHERE m.type = 'table' ORDER BY m.name, p.cid";
        let mut statement = connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            schema.tables.entry(row.get(0)?).or_default().push(row.get(1)?);
        }
        Ok(schema)
    }

    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    pub fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.iter().any(|have| have == column))
    }

    /// The column name, or `NULL` if the table does not have the column.
    pub fn or_null(&self, table: &str, column: &'static str) -> &'static str {
        if self.has_column(table, column) { column } else { "NULL" }
    }

    /// The names of the first tables, for a message.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.tables.keys().take(4).map(String::as_str).collect();
        match (names.is_empty(), self.tables.len() > names.len()) {
            (true, _) => "no tables".into(),
            (false, true) => format!("the tables {} …", names.join(", ")),
            (false, false) => format!("the tables {}", names.join(", ")),
        }
    }
}
