//! Values as they come: taken where they are what the format has there, and noticed where they are not.
//!
//! `serde` gives up a whole file for one value of another type. Here such a value is passed over.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::tt_log::brackets::{closing, parts};

/// What stands in a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Field<T> {
    /// Nothing, or null.
    #[default]
    Missing,
    /// What belongs there.
    Is(T),
    /// Something else.
    Wrong,
}

/// What may stand in a field. Whatever a type does not take is wrong there.
pub(super) trait Value: Sized {
    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    fn from_number(_number: f64) -> Option<Self> {
        None
    }

    fn from_flag(_flag: bool) -> Option<Self> {
        None
    }

    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn from_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<T: Value> From<Option<T>> for Field<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Wrong, Self::Is)
    }
}

impl<'de, T: Value> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: Value> Visitor<'de> for AnyValue<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Field<T>, E> {
        Ok(Field::Missing)
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<T>, E> {
        Ok(T::from_text(text).into())
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Field<T>, E> {
        Ok(T::from_flag(flag).into())
    }

    #[allow(clippy::cast_precision_loss, reason = "whole numbers of the format are far smaller")]
    fn visit_u64<E>(self, number: u64) -> Result<Field<T>, E> {
        Ok(T::from_number(number as f64).into())
    }

    #[allow(clippy::cast_precision_loss, reason = "no number of the format is negative")]
    fn visit_i64<E>(self, number: i64) -> Result<Field<T>, E> {
        Ok(T::from_number(number as f64).into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field<T>, E> {
        Ok(T::from_number(number).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Field<T>, A::Error> {
        T::from_list(list).map(Field::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Field<T>, A::Error> {
        T::from_object(object).map(Field::from)
    }
}

impl Value for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Value for bool {
    fn from_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }
}

/// A whole number: a row, a graph, banks.
impl Value for u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at")]
    fn from_number(number: f64) -> Option<Self> {
        let fits = (0.0..=f64::from(Self::MAX)).contains(&number) && number.fract() == 0.0;
        fits.then_some(number as Self)
    }
}

/// A number of MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mib(f64);

impl Value for Mib {
    fn from_number(number: f64) -> Option<Self> {
        /// No bank is so large: 2^60 bytes.
        const MOST: f64 = 1_099_511_627_776.0;
        (0.0..=MOST).contains(&number).then_some(Self(number))
    }
}

impl Mib {
    /// The nearest whole bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at")]
    pub fn bytes(self) -> u64 {
        (self.0 * f64::from(1 << 20)).round() as u64
    }

    /// Whether it has no more than three digits behind the point, as what logs round to has.
    pub fn is_rounded(self) -> bool {
        let thousandths = self.0 * 1000.0;
        (thousandths - thousandths.round()).abs() < 1e-6
    }
}

/// A list, whatever its elements are.
impl<T: Value> Value for Vec<Field<T>> {
    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut all = Self::new();
        while let Some(element) = list.next_element()? {
            all.push(element);
        }
        Ok(Some(all))
    }
}

/// Names, in a list or in one text with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(pub Vec<String>);

impl Value for Names {
    fn from_text(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Some(Self(names.map(str::to_owned).collect()))
    }

    fn from_list<'de, A: SeqAccess<'de>>(list: A) -> Result<Option<Self>, A::Error> {
        let Some(elements) = Vec::<Field<String>>::from_list(list)? else { return Ok(None) };
        let name = |element| if let Field::Is(name) = element { Some(name) } else { None };
        Ok(elements.into_iter().map(name).collect::<Option<_>>().map(Self))
    }
}

/// Types of operands or results, in a list or in one text as MLIR has it: `tensor<2xf32>, !ttnn.device`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(pub Vec<String>);

impl Value for Types {
    fn from_text(text: &str) -> Option<Self> {
        let text = text.trim().as_bytes();
        // Several results stand in parentheses.
        let in_parentheses = text.starts_with(b"(") && closing(text, 0) == text.len().checked_sub(1);
        let list = if in_parentheses { &text[1..text.len() - 1] } else { text };
        Some(Self(parts(list).map(|ty| String::from_utf8_lossy(ty).into_owned()).collect()))
    }

    fn from_list<'de, A: SeqAccess<'de>>(list: A) -> Result<Option<Self>, A::Error> {
        Ok(Names::from_list(list)?.map(|names| Self(names.0)))
    }
}

/// An object with known keys.
#[derive(Debug, Default)]
pub(super) struct Object<T>(pub T);

impl<T: DeserializeOwned> Value for Object<T> {
    fn from_object<'de, A: MapAccess<'de>>(object: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object)).map(Self).map(Some)
    }
}

/// An object whose keys are names, in their order.
#[derive(Debug, Default)]
pub(super) struct ByName<T>(pub Vec<(String, Field<Object<T>>)>);

impl<T: DeserializeOwned> Value for ByName<T> {
    fn from_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Option<Self>, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = object.next_entry()? {
            all.push(entry);
        }
        Ok(Some(Self(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<T: Value>(json: &str) -> Field<T> {
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
            taken(|json| matches!(field::<Mib>(json), Field::Is(_))),
            [false, true, true, false, false, false, false]
        );
        assert_eq!(
            taken(|json| matches!(field::<bool>(json), Field::Is(_))),
            [false, false, false, false, true, false, false]
        );
        assert_eq!(
            taken(|json| matches!(field::<Names>(json), Field::Is(_))),
            [true, false, false, false, false, false, false]
        );
        assert_eq!(field::<u32>("null"), Field::Missing);
    }

    #[test]
    fn numbers_that_nothing_has_are_wrong() {
        for json in ["-1", "-0.001", "1e300", "1099511627777", "18446744073709551616"] {
            assert_eq!(field::<Mib>(json), Field::Wrong, "{json}");
        }
        for json in ["4294967296", "0.5", "1e10", "-1"] {
            assert_eq!(field::<u32>(json), Field::Wrong, "{json}");
        }
        assert_eq!(field::<Mib>("-0.0"), Field::Is(Mib(0.0)));
    }

    #[test]
    fn a_number_of_mib_is_the_nearest_bytes() {
        for thousandths in (0..5_000_000u64).step_by(997).chain([1, 62, 4_273_390]) {
            let json = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            let Field::Is(mib) = field::<Mib>(&json) else { panic!("{json}") };
            assert_eq!((mib.bytes(), mib.is_rounded()), ((thousandths * (1 << 20) + 500) / 1000, true));
        }
        let exact = Mib(f64::from(12_345) / f64::from(1 << 20));
        assert_eq!((exact.bytes(), exact.is_rounded()), (12_345, false));
    }

    #[test]
    fn types_are_separated_outside_of_their_brackets() {
        let types = |json: &str| match field::<Types>(json) {
            Field::Is(Types(types)) => types,
            other => panic!("{other:?}"),
        };
        let layout = "tensor<2xf32, #l<(d0, d1) -> (d0, d1), <1x1>>>";
        assert_eq!(types(&format!("\"{layout}, !ttnn.device\"")), [layout, "!ttnn.device"]);
        assert_eq!(types(&format!("\"({layout}, {layout})\"")), [layout, layout]);
        assert_eq!(types("\"()\""), [""; 0]);
        assert_eq!(types("\"\""), [""; 0]);
        assert_eq!(types("[\"tensor<2xf32>\"]"), ["tensor<2xf32>"]);
        assert_eq!(types("\"(a) -> b\""), ["(a) -> b"]);
    }

    #[test]
    fn names_come_as_a_list_or_as_a_text() {
        let names = |json: &str| match field::<Names>(json) {
            Field::Is(Names(names)) => names,
            other => panic!("{other:?}"),
        };
        assert_eq!(names("[\"%0\", \"%arg1\"]"), ["%0", "%arg1"]);
        assert_eq!(names("\"%0, %arg1\""), ["%0", "%arg1"]);
        assert_eq!(names("[]"), [""; 0]);
        assert_eq!(field::<Names>("[\"%0\", 1]"), Field::Wrong);
    }
}
