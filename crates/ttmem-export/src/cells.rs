//! The cells of a row. Sizes are integers; what is unknown is `None`, which becomes NULL.

use serde::Serialize;
use serde_json::Value;

/// A column's name and the value of a row in it. The first row of a table determines the columns of its file.
pub(crate) type Column = (&'static str, Cell);

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A text.
    Text(Option<String>),
    /// A number.
    Number(Option<i64>),
    /// A truth value.
    Flag(Option<bool>),
}

/// A text.
pub(crate) fn text(text: impl Into<Option<String>>) -> Cell {
    Cell::Text(text.into())
}

/// A text that is known.
pub(crate) fn word(text: &str) -> Cell {
    Cell::Text(Some(text.to_owned()))
}

/// A number, if it is known. Beyond 63 bits, it is unknown: no memory is that large, so the input is corrupt.
pub(crate) fn number(number: impl Integer) -> Cell {
    Cell::Number(number.into_number())
}

/// A number that a cell can have.
pub(crate) trait Integer {
    /// The number, if it is known and fits.
    fn into_number(self) -> Option<i64>;
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl Integer for $ty {
            fn into_number(self) -> Option<i64> {
                i64::try_from(self).ok()
            }
        }
    )*};
}

integers!(u8, u32, u64, usize, i64);

impl<N: Integer> Integer for Option<N> {
    fn into_number(self) -> Option<i64> {
        self.and_then(Integer::into_number)
    }
}

/// A truth value.
pub(crate) fn flag(flag: impl Into<Option<bool>>) -> Cell {
    Cell::Flag(flag.into())
}

/// The name that a value has in JSON.
pub(crate) fn name(value: impl Serialize) -> Cell {
    let named = serde_json::to_value(value).ok();
    Cell::Text(named.and_then(|value| match value {
        Value::String(name) => Some(name),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_unknown() {
        assert_eq!(number(7_u64), Cell::Number(Some(7)));
        assert_eq!(number(u64::MAX), Cell::Number(None));
        assert_eq!(number(None::<u32>), Cell::Number(None));
        assert_eq!(name(ttmem::query::Level::High), word("high"));
        assert_eq!(name(None::<ttmem::query::Level>), Cell::Text(None));
    }
}
