//! Suggestions: changes that would save memory, and how much.
//!
//! Each file is one suggestion: its names, its urgency, the rule that finds it and its sentences. Its [`Rule`] is
//! registered in [`RULES`], and docs/json.md has a row for each name. A rule is a pure function of the
//! [`Situation`] of a rank. It returns what it found and the [`Change`]s to tensors that it proposes; `savings` simulates
//! them, which gives the saving, and drops what saves too little. Rules only propose changes whose effect is certain: a
//! tensor with an unknown layout does not count towards a saving. docs/advice/ has a section for each rule.

mod activations_of_layers;
mod allocate_later;
pub(super) mod answer;
mod at_peak;
mod bf16_weights;
mod f32_tensors;
mod fragmentation;
mod free_after_last_use;
mod full;
mod gradients_kept;
mod grows;
mod kv_cache;
mod kv_cache_unused;
mod l1_residents;
mod load_cached;
mod logits;
mod optimizer_state;
mod out_of_memory;
mod padding;
mod phrases;
mod reserved_unallocated;
mod savings;
mod situation;
mod tensor_padding;
mod unexplained;
mod weights_expanded;
mod weights_kept_twice;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use serde::Serialize;

pub use answer::{Combination, Suggestion, SuggestionGroup, SuggestionTensor};
pub(super) use situation::{PoolAtPeak, Situation};

use super::analyze::simulation::Change;
use super::groups::{locations, pattern};
use super::level::Level;
use super::statement::Statement;
use ttmem_model::{PoolId, Sparse, Step, StrId, TensorId};

/// All rules. Findings of equal urgency and equal saving are reported in this order.
const RULES: &[Rule] = &[
    out_of_memory::RULE,
    full::RULE,
    l1_residents::RULE,
    free_after_last_use::RULE,
    allocate_later::RULE,
    gradients_kept::RULE,
    padding::RULE,
    tensor_padding::RULE,
    weights_kept_twice::RULE,
    weights_expanded::RULE,
    f32_tensors::RULE,
    bf16_weights::RULE,
    kv_cache_unused::RULE,
    kv_cache::RULE,
    logits::RULE,
    at_peak::RULE,
    fragmentation::RULE,
    reserved_unallocated::RULE,
    unexplained::RULE,
    load_cached::RULE,
    grows::RULE,
    activations_of_layers::RULE,
    optimizer_state::RULE,
];

/// Minimum share of the peak, in percent, that a finding must concern to be reported.
const MIN_SHARE: u64 = 1;
/// Minimum share of the peak, in percent, that counts as large.
const LARGE_SHARE: u64 = 10;
/// Maximum number of suggestions in a response.
const MAX_SUGGESTIONS: usize = 10;
/// The page with a section for each rule.
const DOCS: &str = "https://github.com/ttmem/ttmem/blob/main/docs/advice/README.md";

/// A rule that finds suggestions of one kind.
#[derive(Debug)]
struct Rule {
    /// The names of its findings in the response; most rules have one.
    names: &'static [&'static str],
    /// How urgent its findings are.
    urgency: Urgency,
    /// Returns the findings for a rank.
    find: fn(&Situation<'_>) -> Vec<Finding>,
    /// How many of its findings are reported, at most.
    max: usize,
}

impl Rule {
    const fn new(
        names: &'static [&'static str],
        urgency: Urgency,
        find: fn(&Situation<'_>) -> Vec<Finding>,
    ) -> Self {
        Self { names, urgency, find, max: usize::MAX }
    }

    /// The address of its section in the documentation, which is named after its first finding.
    fn docs(&self) -> String {
        format!("{DOCS}#{}", self.names.first().unwrap_or(&""))
    }
}

/// How urgent a suggestion is, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Memory ran out.
    Failure,
    /// Memory may run out.
    Risk,
    /// The program could use less memory.
    Change,
    /// An explanation that requires no action.
    Note,
}

/// A suggestion as a rule returns it, with ids instead of names.
#[derive(Debug)]
struct Finding {
    /// One of the names of its rule.
    name: &'static str,
    pool: PoolId,
    statement: Statement,
    /// The tensors it is about.
    tensors: Vec<TensorId>,
    /// The steps it is about, in order.
    steps: Vec<Step>,
    /// What its changes do to the peak; `None` if it proposes no change whose effect can be computed.
    effect: Option<Effect>,
}

/// The changes that a finding proposes, and the sentence about their saving.
#[derive(Clone, Debug)]
struct Effect {
    changes: Vec<Change>,
    /// The beginning of the sentence: `Storing it as bf16 lowers`.
    how: String,
    /// Whether the changed program needs exactly as much memory as the simulation says. If not, it needs at most a
    /// little less.
    is_exact: bool,
    /// A sentence that follows.
    then: Option<String>,
    /// The advice if the saving is unknown.
    otherwise: Option<String>,
}

impl Effect {
    fn lowers(how: impl Into<String>, changes: Vec<Change>) -> Self {
        Self { changes, how: how.into(), is_exact: true, then: None, otherwise: None }
    }

    /// The saving is approximate, because the change affects more than the simulation knows.
    fn about(self) -> Self {
        Self { is_exact: false, ..self }
    }

    fn then(self, sentence: String) -> Self {
        Self { then: Some(sentence), ..self }
    }

    fn otherwise(self, advice: String) -> Self {
        Self { otherwise: Some(advice), ..self }
    }
}

impl Finding {
    fn new(name: &'static str, pool: PoolId, statement: Statement) -> Self {
        Self { name, pool, statement, tensors: Vec::new(), steps: Vec::new(), effect: None }
    }

    fn tensors(self, tensors: Vec<TensorId>) -> Self {
        Self { tensors, ..self }
    }

    fn steps(self, steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..self }
    }

    fn effect(self, effect: Effect) -> Self {
        Self { effect: Some(effect), ..self }
    }

    /// The suggestion in the response, with its saving. It lists at most `max` tensors, largest first, and at most `max`
    /// steps, earliest first.
    fn suggestion(
        self,
        situation: &Situation<'_>,
        rule: &Rule,
        saves: Option<u64>,
        max: usize,
    ) -> Suggestion {
        let pool = situation.pool_label(self.pool);
        let has_tensors = situation.rank.has_tensors();
        let tensor_count = has_tensors.then_some(self.tensors.len());
        let mut tensors = self.tensors;
        let born = |tensor: &TensorId| situation.rank.tensors.born.get(tensor.index());
        tensors.sort_by_key(|tensor| (Reverse(situation.per_bank(*tensor)), born(tensor).copied(), *tensor));
        let groups = situation.groups(&tensors);
        tensors.truncate(max);
        let tensors = tensors.into_iter().map(|tensor| situation.tensor(tensor)).collect();
        let step_count = self.steps.len();
        let step = self.steps.first().copied();
        let mut steps = self.steps;
        steps.truncate(max);
        Suggestion {
            rule: self.name,
            docs: rule.docs(),
            urgency: rule.urgency,
            pool: pool.name.to_owned(),
            message: self.statement.text(),
            statement: self.statement,
            saves_per_bank: saves,
            saves_bytes: saves.and_then(|saves| saves.checked_mul(pool.banks?.into())),
            step,
            steps,
            step_count,
            tensors: has_tensors.then_some(tensors),
            tensor_count,
            groups,
        }
    }
}

/// The names of all suggestions: the possible values of `rule`.
pub fn suggestion_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().flat_map(|rule| rule.names).copied()
}

/// The addresses that suggestions link to, one for each rule.
pub fn suggestion_docs() -> impl Iterator<Item = String> {
    RULES.iter().map(Rule::docs)
}

/// The names of the suggestions about memory that grows with every call.
pub const GROWTH_SUGGESTIONS: &[&str] = grows::RULE.names;

/// What to change in a rank.
#[derive(Debug, Default)]
pub(super) struct Advice {
    /// The suggestions, most urgent first, then by saving.
    pub suggestions: Vec<Suggestion>,
    /// What some of them save together.
    pub combinations: Vec<Combination>,
}

/// The advice for a rank. Each suggestion lists at most `max` tensors and `max` steps.
pub(super) fn advice(situation: &Situation<'_>, max: usize) -> Advice {
    let find = |rule: &'static Rule| (rule.find)(situation).into_iter().map(move |finding| (rule, finding));
    let concerns = |(rule, finding): &(&'static Rule, Finding)| {
        !matches!(rule.urgency, Urgency::Risk | Urgency::Change) || situation.concerns(finding.pool)
    };
    let found = RULES.iter().flat_map(find).filter(concerns).collect();
    let mut computed = savings::Computed::new(situation, found);
    computed.rank(MAX_SUGGESTIONS);
    let combinations = computed.combinations();
    let suggestions = computed.findings.into_iter();
    let suggestions =
        suggestions.map(|found| found.finding.suggestion(situation, found.rule, found.saves, max));
    Advice { suggestions: suggestions.collect(), combinations }
}

/// Maximum number of groups of tensors per suggestion.
const MAX_GROUPS: usize = 5;

impl Situation<'_> {
    /// Whether a pool matters: if another one ran out of memory, only if it is nearly full itself.
    fn concerns(&self, pool: PoolId) -> bool {
        let Some(failed) = self.verdict.and_then(|verdict| verdict.fault.pool) else { return true };
        let name = self.pool_label(pool).name;
        let Some(found) = self.pools.iter().find(|found| found.account.id == pool) else { return true };
        let level = self.thresholds.level(name, Some(found.peak.per_bank), found.capacity);
        name == self.profile.text(failed) || level.is_some_and(|level| level > Level::Ok)
    }

    /// Groups similar tensors, in the order of their first.
    fn groups(&self, tensors: &[TensorId]) -> Vec<SuggestionGroup> {
        let mut numbers = FxHashMap::default();
        let mut groups: Vec<Vec<TensorId>> = Vec::new();
        for &tensor in tensors {
            let ty = self.ty(tensor).map(|ty| (&ty.shape[..], ty.dtype));
            let op = self.profile.made(self.rank, tensor).op;
            let number = *numbers.entry((ty, self.per_bank(tensor), op)).or_insert(groups.len());
            if number == groups.len() {
                groups.push(Vec::new());
            }
            groups[number].push(tensor);
        }
        groups.iter().take(MAX_GROUPS).map(|tensors| self.group(tensors)).collect()
    }

    fn group(&self, tensors: &[TensorId]) -> SuggestionGroup {
        let all: Vec<SuggestionTensor> = tensors.iter().map(|tensor| self.tensor(*tensor)).collect();
        let first = all[0].clone();
        // What only some of them have is not shown for all.
        let known = |text: fn(&SuggestionTensor) -> Option<&str>| {
            all.iter().map(text).collect::<Option<Vec<_>>>().unwrap_or_default()
        };
        let (loc, locations) = locations(&known(|tensor| tensor.loc.as_deref()));
        let steps = || all.iter().filter_map(|tensor| tensor.born_step);
        SuggestionGroup {
            count: all.len(),
            name: pattern(&known(|tensor| tensor.name.as_deref())),
            shape: first.shape,
            dtype: first.dtype,
            per_bank: Some(self.sum(tensors)).filter(|bytes| *bytes > 0),
            first_step: steps().min(),
            last_step: steps().max(),
            op: first.op,
            loc,
            locations,
        }
    }

    fn tensor(&self, id: TensorId) -> SuggestionTensor {
        let tensors = &self.rank.tensors;
        let text = |column: &Sparse<Option<StrId>>| {
            let id = column.get(id.index()).copied().flatten();
            id.map(|id| self.profile.text(id).to_owned())
        };
        let ty = self.ty(id);
        let ssa = text(&tensors.ssa);
        let made = self.profile.made(self.rank, id);
        SuggestionTensor {
            name: text(&tensors.name).or_else(|| ssa.clone()),
            ssa,
            shape: ty.map(|ty| ty.shape.clone()),
            dtype: ty.map(|ty| self.profile.text(ty.dtype).to_owned()),
            per_bank: tensors.per_bank.get(id.index()).and_then(|bytes| bytes.get()),
            born_step: self.made_by(id),
            op: made.op.map(str::to_owned),
            loc: made.loc.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = suggestion_names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
