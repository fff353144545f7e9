//! The arguments of a call, checked: an agent may send anything.

use serde_json::{Map, Value};

use crate::answer::Failure;
use crate::tools::Tool;

/// The maximum length of a text argument.
const MAX_TEXT: usize = 4096;

/// The arguments of a call.
pub(crate) struct Arguments<'a> {
    values: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// The arguments, if the tool has all of them and the required ones are present.
    pub fn new(tool: &Tool, values: &'a Map<String, Value>) -> Result<Self, Failure> {
        let known = || tool.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ");
        if let Some(name) = values.keys().find(|name| tool.parameter(name).is_none()) {
            let name = shown(name);
            return Err(Failure(format!("unknown argument {name}; {} takes {}", tool.name, known())));
        }
        let given = |name: &str| values.get(name).is_some_and(|value| !value.is_null());
        let missing = tool.parameters.iter().find(|parameter| parameter.required && !given(parameter.name));
        if let Some(parameter) = missing {
            let (name, what) = (parameter.name, parameter.description);
            return Err(Failure(format!("missing argument `{name}`: {what}")));
        }
        Ok(Self { values })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() > MAX_TEXT => {
                Err(Failure(format!("`{name}` has {} bytes; the limit is {MAX_TEXT}", text.len())))
            }
            Some(Value::String(text)) if text.contains('\0') => {
                Err(Failure(format!("`{name}` contains a NUL character; remove it")))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, "a string", other)),
        }
    }

    /// A text that the tool requires.
    pub fn required(&self, name: &str) -> Result<&'a str, Failure> {
        self.text(name)?.ok_or_else(|| Failure(format!("missing argument `{name}`")))
    }

    /// A whole number from `least` to `most`.
    pub fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_u64().or_else(|| whole(value.as_f64()?));
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None if value.is_number() => {
                Err(Failure(format!("`{name}` is {value}; expected a whole number from {least} to {most}")))
            }
            None => Err(wrong_type(name, "a number", value)),
        }
    }

    /// A step, or `None` for the peak.
    pub fn step(&self, name: &str) -> Result<Option<u32>, Failure> {
        let expected = || Failure(format!("`{name}`: expected a step number, starting at 0, or \"peak\""));
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text == "peak" => Ok(None),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| expected()),
            Some(value) => {
                let number = value.as_u64().or_else(|| whole(value.as_f64()?));
                number.and_then(|number| u32::try_from(number).ok()).map(Some).ok_or_else(expected)
            }
        }
    }
}

/// A number that some clients send as `5.0`.
fn whole(number: f64) -> Option<u64> {
    let is_exact = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    is_exact.then_some(number as u64)
}

fn wrong_type(name: &str, expected: &str, value: &Value) -> Failure {
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Failure(format!("`{name}` is {is}; expected {expected}"))
}

/// An unexpected text in a message: at most 80 characters, without control characters.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", ttmem::query::words::brief(text, 80))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::TOOLS;

    fn arguments(value: &Value) -> Arguments<'_> {
        Arguments { values: value.as_object().unwrap() }
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let values =
            json!({"a": 5, "b": 5.0, "c": -1, "d": 1e300, "e": "5", "f": 5.5, "g": null, "h": u64::MAX});
        let number = |name| arguments(&values).number(name, 1, 50);
        assert_eq!(number("a"), Ok(Some(5)));
        assert_eq!(number("b"), Ok(Some(5)));
        assert_eq!(number("g"), Ok(None));
        assert_eq!(number("x"), Ok(None));
        for name in ["c", "d", "f", "h"] {
            let message = number(name).unwrap_err().0;
            assert!(message.contains("from 1 to 50"), "{message}");
        }
        assert_eq!(number("e"), Err(Failure::new("`e` is a string; expected a number")));
    }

    #[test]
    fn steps_are_numbers_or_the_peak() {
        let values =
            json!({"a": 7, "b": "peak", "c": "12", "d": -1, "e": "x", "f": 4_294_967_296_u64, "g": [1]});
        let step = |name| arguments(&values).step(name);
        assert_eq!(
            [step("a"), step("b"), step("c"), step("none")],
            [Ok(Some(7)), Ok(None), Ok(Some(12)), Ok(None)]
        );
        for name in ["d", "e", "f", "g"] {
            assert!(step(name).unwrap_err().0.contains("or \"peak\""), "{name}");
        }
    }

    #[test]
    fn texts_have_a_limit_and_no_nul() {
        let values = json!({"long": "x".repeat(1 << 20), "nul": "a\0b", "number": 3, "good": "ä"});
        let text = |name| arguments(&values).text(name);
        assert_eq!(text("good"), Ok(Some("ä")));
        assert!(text("long").unwrap_err().0.contains("the limit is 4096"));
        assert!(text("nul").unwrap_err().0.contains("NUL"));
        assert!(text("number").unwrap_err().0.contains("is a number; expected a string"));
    }

    #[test]
    fn unknown_and_missing_arguments_are_named() {
        let open = TOOLS.iter().find(|tool| tool.name == "open").unwrap();
        let refused = |value: Value| Arguments::new(open, value.as_object().unwrap()).err().unwrap().0;
        assert!(refused(json!({"file": "x"})).contains("unknown argument \"file\"; open takes path"));
        assert!(refused(json!({})).contains("missing argument `path`"));
        assert!(refused(json!({"path": null})).contains("missing argument `path`"));
    }
}
