//! `suggestions`: what to change.

use serde_json::Value;
use ttmem::query::Suggestion;

use super::{PROCESS, PROFILE, RANK, Response, Tool};
use crate::answer::{Answer, Failure};
use crate::list::cut;
use crate::session::Call;

pub(super) const TOOL: Tool = Tool {
    name: "suggestions",
    title: "Suggest changes",
    description: "What to change to use less memory or to avoid a failure, most important first, with the computed reduction \
                  of the peak and the tensors and steps that each suggestion is about. Savings overlap: do not add them up; \
                  `combinations` has what some of them save together, and `docs` explains how to apply a suggestion.",
    parameters: &[PROFILE, RANK, PROCESS],
    call,
};

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let mut response = Response::new(call, chosen);
    let found = &chosen.rank.suggestions;
    if found.is_empty() {
        response.line("No rule applies.");
    }
    response.lines.extend(found.iter().map(line));
    let combinations = &chosen.rank.combinations;
    let rule = |index: usize| found.get(index).map(|found| found.rule.to_owned());
    response.lines.extend(combinations.iter().filter_map(|one| Some(format!("- {}.", one.text(rule)?))));
    let (value, cuts) = value(found)?;
    response.set("suggestions", value);
    response.set("combinations", serde_json::to_value(combinations)?);
    response.set("cut", cuts);
    let first = found.first();
    response.link(first.map(|first| first.pool.as_str()), first.and_then(|first| first.step));
    Ok(response.done())
}

/// A suggestion in a line.
pub(super) fn line(suggestion: &Suggestion) -> String {
    format!("- {} ({})", suggestion.message, suggestion.rule)
}

/// Suggestions as JSON, with short lists.
pub(super) fn value<'a>(
    found: impl IntoIterator<Item = &'a Suggestion>,
) -> Result<(Value, Vec<Value>), Failure> {
    let mut value = serde_json::to_value(found.into_iter().collect::<Vec<_>>())?;
    let cuts = cut(&mut value, "suggestions");
    Ok((value, cuts))
}
