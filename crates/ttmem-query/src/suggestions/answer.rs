//! Suggestions in a response.

use serde::Serialize;
use ttmem_model::Step;

use super::Urgency;
use crate::statement::Statement;

/// A suggested change, and how much it would save.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Suggestion {
    /// The name of the suggestion.
    pub rule: &'static str,
    /// The address of the documentation of the rule.
    pub docs: String,
    /// How urgent it is.
    pub urgency: Urgency,
    /// The pool that it is about.
    pub pool: String,
    /// The headline, detail and advice.
    #[serde(flatten)]
    pub statement: Statement,
    /// The headline, detail and advice in one string.
    pub message: String,
    /// The reduction of the pool's peak, per bank.
    pub saves_per_bank: Option<u64>,
    /// The reduction of the pool's peak on the device.
    pub saves_bytes: Option<u64>,
    /// The first of the steps that it is about.
    pub step: Option<Step>,
    /// The steps that it is about, earliest first.
    pub steps: Vec<Step>,
    /// The number of these steps, including those not listed.
    pub step_count: usize,
    /// The tensors that it is about, largest first; `None` if the input has no tensors.
    pub tensors: Option<Vec<SuggestionTensor>>,
    /// The number of these tensors, including those not listed.
    pub tensor_count: Option<usize>,
    /// The same tensors in groups of similar ones, the first group with the largest tensors.
    pub groups: Vec<SuggestionGroup>,
}

/// Suggestions that are applied together. Their saving counts each byte once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Combination {
    /// The indexes of the suggestions, in order, from 0.
    pub suggestions: Vec<usize>,
    /// Their names.
    pub rules: Vec<&'static str>,
    /// The pool that they are about.
    pub pool: String,
    /// The reduction of the pool's peak, per bank.
    pub saves_per_bank: u64,
    /// The reduction of the pool's peak on the device; `None` if the number of banks is unknown.
    pub saves_bytes: Option<u64>,
    /// The same as text: `146.3 MiB/bank (1.00 GiB on the device)`.
    pub saves: String,
}

impl Combination {
    /// `1 and 3 together: 146.3 MiB/bank (1.00 GiB on the device)`, with the names of its suggestions; `None` if one has
    /// no name.
    pub fn text(&self, name: impl Fn(usize) -> Option<String>) -> Option<String> {
        let names: Vec<String> = self.suggestions.iter().map(|index| name(*index)).collect::<Option<_>>()?;
        let (last, others) = names.split_last()?;
        Some(format!("{} and {last} together: {}", others.join(", "), self.saves))
    }
}

/// Similar tensors that a suggestion is about: the same shape, type, size and operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SuggestionGroup {
    /// The number of tensors.
    pub count: usize,
    /// Their name, or the pattern that their names follow.
    pub name: Option<String>,
    /// The shape, without padding.
    pub shape: Option<Vec<u64>>,
    /// The element type.
    pub dtype: Option<String>,
    /// The size of all of them per bank.
    pub per_bank: Option<u64>,
    /// The first step that allocated one of them.
    pub first_step: Option<Step>,
    /// The last step that allocated one of them.
    pub last_step: Option<Step>,
    /// The operation that allocated them.
    pub op: Option<String>,
    /// The location of that operation, the pattern that the locations follow, or the first location.
    pub loc: Option<String>,
    /// The number of different locations.
    pub locations: usize,
}

/// A tensor that a suggestion is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SuggestionTensor {
    /// The name in the model, or the SSA name.
    pub name: Option<String>,
    /// The SSA name in the program.
    pub ssa: Option<String>,
    /// The shape, without padding.
    pub shape: Option<Vec<u64>>,
    /// The element type.
    pub dtype: Option<String>,
    /// The size per bank.
    pub per_bank: Option<u64>,
    /// The step that allocated it.
    pub born_step: Option<Step>,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The location of that operation.
    pub loc: Option<String>,
}
