//! Values that may not have the expected type.
//!
//! `serde` rejects a whole document for one value of the wrong type. A [`Field`] accepts every value and records
//! whether it had the right type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The value of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Field<T> {
    /// Missing, or null.
    #[default]
    Missing,
    /// A value of the expected type.
    Is(T),
    /// A value of another type, or out of range.
    Wrong,
}

/// A type that a field can have. Values that the type does not accept become [`Field::Wrong`].
pub(crate) trait FieldValue: Sized {
    fn from_text(_text: &str) -> Field<Self> {
        Field::Wrong
    }

    #[allow(clippy::cast_precision_loss, reason = "types that need all digits override this function")]
    fn from_integer(number: i64) -> Field<Self> {
        Self::from_float(number as f64)
    }

    /// Also called for integers outside the range of `i64`.
    fn from_float(_number: f64) -> Field<Self> {
        Field::Wrong
    }

    fn from_flag(_flag: bool) -> Field<Self> {
        Field::Wrong
    }

    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Field<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Wrong)
    }

    fn from_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Field<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Wrong)
    }
}

impl<T> From<Option<T>> for Field<T> {
    /// For a value that is present: [`Field::Wrong`] if it could not be converted.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Wrong, Self::Is)
    }
}

impl<'de, T: FieldValue> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: FieldValue> Visitor<'de> for AnyValue<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Field<T>, E> {
        Ok(Field::Missing)
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<T>, E> {
        Ok(T::from_text(text))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Field<T>, E> {
        Ok(T::from_flag(flag))
    }

    #[allow(clippy::cast_precision_loss, reason = "the exact value is irrelevant, as it exceeds i64")]
    fn visit_u64<E>(self, number: u64) -> Result<Field<T>, E> {
        Ok(i64::try_from(number).map_or_else(|_| T::from_float(number as f64), T::from_integer))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field<T>, E> {
        Ok(T::from_integer(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field<T>, E> {
        Ok(T::from_float(number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Field<T>, A::Error> {
        T::from_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Field<T>, A::Error> {
        T::from_object(object)
    }
}

/// An integer, written as a number, as text, or as a flag.
pub(crate) type Number = Field<i64>;

impl Number {
    /// A size or an offset, which is never negative.
    pub fn get(self) -> Option<u64> {
        match self {
            Self::Is(number) => u64::try_from(number).ok(),
            Self::Missing | Self::Wrong => None,
        }
    }
}

impl FieldValue for i64 {
    fn from_integer(number: i64) -> Field<Self> {
        Field::Is(number)
    }

    fn from_flag(flag: bool) -> Field<Self> {
        Field::Is(flag.into())
    }

    /// Old captures write numbers as text, and flags as `true` or `1`.
    fn from_text(text: &str) -> Field<Self> {
        match text.trim() {
            "" | "nullopt" | "std::nullopt" | "None" => Field::Missing,
            "true" => Field::Is(1),
            "false" => Field::Is(0),
            number => number.parse().ok().into(),
        }
    }
}

/// A row, a graph or a number of banks, always written as a number.
impl FieldValue for u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range was checked")]
    fn from_float(number: f64) -> Field<Self> {
        let fits = (0.0..=f64::from(Self::MAX)).contains(&number) && number.fract() == 0.0;
        fits.then_some(number as Self).into()
    }
}

impl FieldValue for String {
    fn from_text(text: &str) -> Field<Self> {
        Field::Is(text.to_owned())
    }
}

impl FieldValue for bool {
    fn from_flag(flag: bool) -> Field<Self> {
        Field::Is(flag)
    }
}

/// A list with elements of any type.
impl<T: FieldValue> FieldValue for Vec<Field<T>> {
    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Field<Self>, A::Error> {
        let mut all = Self::new();
        while let Some(element) = list.next_element()? {
            all.push(element);
        }
        Ok(Field::Is(all))
    }
}

/// An object with known keys.
#[derive(Debug, Default)]
pub(crate) struct Object<T>(pub T);

impl<T: DeserializeOwned> FieldValue for Object<T> {
    fn from_object<'de, A: MapAccess<'de>>(object: A) -> Result<Field<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(|value| Field::Is(Self(value)))
    }
}

/// An object that maps names to objects, in document order.
#[derive(Debug, Default)]
pub(crate) struct ByName<T>(pub Vec<(String, Field<Object<T>>)>);

impl<T: DeserializeOwned> FieldValue for ByName<T> {
    fn from_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Field<Self>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = object.next_entry()? {
            all.push(entry);
        }
        Ok(Field::Is(Self(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<T: FieldValue>(json: &str) -> Field<T> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_belongs_there_is_taken_and_all_else_is_wrong() {
        let everything = ["\"7\"", "7", "7.5", "-7", "true", "[7, [8]]", "{\"a\": {\"b\": [1]}}"];
        let taken = |takes: fn(&str) -> bool| everything.map(takes);
        assert_eq!(
            taken(|json| matches!(field::<String>(json), Field::Is(_))),
            [true, false, false, false, false, false, false]
        );
        assert_eq!(
            taken(|json| matches!(field::<u32>(json), Field::Is(_))),
            [false, true, false, false, false, false, false]
        );
        assert_eq!(
            taken(|json| matches!(field::<bool>(json), Field::Is(_))),
            [false, false, false, false, true, false, false]
        );
        assert_eq!(field::<u32>("null"), Field::Missing);
    }

    #[test]
    fn numbers_that_nothing_has_are_wrong() {
        for json in ["4294967296", "0.5", "1e10", "-1", "18446744073709551616"] {
            assert_eq!(field::<u32>(json), Field::Wrong, "{json}");
        }
        assert_eq!(field::<u32>("1e3"), Field::Is(1000));
    }

    #[test]
    fn numbers_come_in_many_clothes() {
        let number = field::<i64>;
        for (text, value) in [("7", 7), ("\"7\"", 7), ("true", 1), ("\"false\"", 0), ("\"-2\"", -2)] {
            assert_eq!(number(text), Number::Is(value), "{text}");
        }
        // The first number cannot be represented as a double.
        assert_eq!(number("9007199254740993"), Number::Is(9_007_199_254_740_993));
        for text in ["1.5", "[1]", "{}", "\"x\"", "18446744073709551615"] {
            assert_eq!(number(text), Number::Wrong, "{text}");
        }
        assert_eq!((number("null"), number("\"std::nullopt\"")), (Number::Missing, Number::Missing));
        assert_eq!(Number::Is(-2).get(), None);
    }
}
