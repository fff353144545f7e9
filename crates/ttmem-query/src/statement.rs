//! The text of a verdict or a suggestion.

use serde::Serialize;

/// The text of a verdict or a suggestion: complete sentences with numbers and units.
///
/// `ttmem-query` composes all sentences. Front ends display them as they are and never parse them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Statement {
    /// The finding, in one sentence.
    pub headline: String,
    /// Further facts; `None` if the headline contains all of them.
    pub detail: Option<String>,
    /// What to do; `None` if there is nothing to do, or no remedy is known.
    pub advice: Option<String>,
}

impl Statement {
    /// A statement that consists of a headline only.
    pub(super) fn new(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), detail: None, advice: None }
    }

    /// Sets the detail.
    pub(super) fn detail(self, detail: impl Into<Option<String>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Sets the advice.
    pub(super) fn advice(self, advice: impl Into<Option<String>>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// The headline and the detail in one string.
    pub fn facts(&self) -> String {
        joined([Some(&self.headline), self.detail.as_ref()])
    }

    /// All sentences in one string.
    pub fn text(&self) -> String {
        joined([Some(&self.headline), self.detail.as_ref(), self.advice.as_ref()])
    }
}

fn joined<const N: usize>(parts: [Option<&String>; N]) -> String {
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_joins_the_parts_that_are_set() {
        let statement = Statement::new("DRAM is full.");
        assert_eq!((statement.facts(), statement.text()), ("DRAM is full.".into(), "DRAM is full.".into()));
        let statement = statement.detail("1 B is left.".to_owned()).advice("Free some.".to_owned());
        assert_eq!(statement.facts(), "DRAM is full. 1 B is left.");
        assert_eq!(statement.text(), "DRAM is full. 1 B is left. Free some.");
    }
}
