//! Tables stored as columns: rows are passed as structs, and stored as one vector per field.

/// Declares a row struct and its table. `field: Type => Sparse` stores the field in a [`Sparse`](super::Sparse) column.
macro_rules! columns {
    (
        $(#[$row_doc:meta])* row $row:ident;
        $(#[$table_doc:meta])* table $table:ident;
        $($(#[$doc:meta])* $field:ident: $type:ty $(=> $column:ident)?,)*
    ) => {
        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $row {
            $($(#[$doc])* pub $field: $type,)*
        }

        $(#[$table_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $table {
            $($(#[$doc])* pub $field: columns!(@column $type $(=> $column)?),)*
        }

        impl $table {
            /// Adds a row.
            pub fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)*
            }

            /// Reserves memory for more rows.
            #[allow(dead_code, reason = "few tables are filled at once")]
            pub fn reserve(&mut self, rows: usize) {
                $(self.$field.reserve_exact(rows);)*
            }

            /// The row at `index`, if there is one.
            pub fn get(&self, index: usize) -> Option<$row> {
                Some($row { $($field: *self.$field.get(index)?,)* })
            }

            /// All rows, in order.
            pub fn iter(&self) -> impl Iterator<Item = $row> + '_ {
                (0..self.len()).filter_map(|index| self.get(index))
            }

            /// Whether the table has no rows.
            #[allow(dead_code, reason = "some tables are private")]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            columns!(@len $($field)*);
        }
    };
    (@column $type:ty) => { Vec<$type> };
    (@column $type:ty => $column:ident) => { $column<$type> };
    (@len $first:ident $($rest:ident)*) => {
        /// The number of rows.
        pub fn len(&self) -> usize {
            self.$first.len()
        }
    };
}

pub(crate) use columns;
