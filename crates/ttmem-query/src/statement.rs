//! The sentences of a verdict or a suggestion.

use serde::Serialize;

/// What a verdict or a suggestion says, in sentences with numbers and units.
///
/// All sentences are composed in `query`. Front ends display these parts and never take them apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Statement {
    /// What happened or was found, in one sentence.
    pub headline: String,
    /// Further facts; `None` where the headline has all of them.
    pub detail: Option<String>,
    /// What to do; `None` where there is nothing to do, or it is unknown what helps.
    pub advice: Option<String>,
}

impl Statement {
    /// A statement of one sentence.
    pub(super) fn new(headline: impl Into<String>) -> Self {
        Self { headline: headline.into(), detail: None, advice: None }
    }

    /// The same with further facts.
    pub(super) fn detail(self, detail: impl Into<Option<String>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// The same with what to do.
    pub(super) fn advice(self, advice: impl Into<Option<String>>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// The headline and the further facts.
    pub fn facts(&self) -> String {
        joined([Some(&self.headline), self.detail.as_ref()])
    }

    /// All sentences.
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
    fn the_text_has_the_parts_that_there_are() {
        let statement = Statement::new("DRAM is full.");
        assert_eq!((statement.facts(), statement.text()), ("DRAM is full.".into(), "DRAM is full.".into()));
        let statement = statement.detail("1 B is left.".to_owned()).advice("Free some.".to_owned());
        assert_eq!(statement.facts(), "DRAM is full. 1 B is left.");
        assert_eq!(statement.text(), "DRAM is full. 1 B is left. Free some.");
    }
}
