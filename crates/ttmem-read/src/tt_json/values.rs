//! Values in the files other than numbers and texts.

use serde::de::SeqAccess;

use crate::json::field::{Field, FieldValue};
use crate::tt_log::brackets::{closing, parts};

/// A number of MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mib(f64);

impl FieldValue for Mib {
    fn from_float(number: f64) -> Field<Self> {
        /// Larger than any bank: 2^60 bytes.
        const MAX: f64 = 1_099_511_627_776.0;
        (0.0..=MAX).contains(&number).then_some(Self(number)).into()
    }
}

impl Mib {
    /// The nearest number of bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "its range was checked")]
    pub fn bytes(self) -> u64 {
        (self.0 * f64::from(1 << 20)).round() as u64
    }

    /// Whether it has at most three decimal places, like the rounded numbers in logs.
    pub fn is_rounded(self) -> bool {
        let thousandths = self.0 * 1000.0;
        (thousandths - thousandths.round()).abs() < 1e-6
    }
}

/// Names, as a list or as one comma-separated text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(pub Vec<String>);

impl FieldValue for Names {
    fn from_text(text: &str) -> Field<Self> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Field::Is(Self(names.map(str::to_owned).collect()))
    }

    fn from_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Field<Self>, A::Error> {
        let mut names = Some(Vec::new());
        while let Some(element) = list.next_element::<Field<String>>()? {
            match (element, &mut names) {
                (Field::Is(name), Some(names)) => names.push(name),
                _ => names = None,
            }
        }
        Ok(names.map(Self).into())
    }
}

/// Types of operands or results, as a list or as one text in MLIR syntax: `tensor<2xf32>, !ttnn.device`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(pub Vec<String>);

impl FieldValue for Types {
    fn from_text(text: &str) -> Field<Self> {
        let text = text.trim().as_bytes();
        // Several results are enclosed in parentheses.
        let in_parentheses = text.starts_with(b"(") && closing(text, 0) == text.len().checked_sub(1);
        let list = if in_parentheses { &text[1..text.len() - 1] } else { text };
        Field::Is(Self(parts(list).map(|ty| String::from_utf8_lossy(ty).into_owned()).collect()))
    }

    fn from_list<'de, A: SeqAccess<'de>>(list: A) -> Result<Field<Self>, A::Error> {
        Ok(match Names::from_list(list)? {
            Field::Is(Names(types)) => Field::Is(Self(types)),
            Field::Missing | Field::Wrong => Field::Wrong,
        })
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
            taken(|json| matches!(field::<Mib>(json), Field::Is(_))),
            [false, true, true, false, false, false, false]
        );
        assert_eq!(
            taken(|json| matches!(field::<Names>(json), Field::Is(_))),
            [true, false, false, false, false, false, false]
        );
    }

    #[test]
    fn numbers_that_nothing_has_are_wrong() {
        for json in ["-1", "-0.001", "1e300", "1099511627777", "18446744073709551616"] {
            assert_eq!(field::<Mib>(json), Field::Wrong, "{json}");
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
