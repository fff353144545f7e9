//! `summary`: the most important numbers, or a section of `ttmem summary --json`.

use serde_json::{Value, json};
use ttmem::model::words::{counted, counted_as};
use ttmem::query::{RankSummary, Suggestion, Summary, TensorGroup, groups};

use super::{CURSOR, LIMIT, PROCESS, PROFILE, RANK, Response, Tool, text as parameter};
use crate::answer::{Answer, Failure};
use crate::arguments::shown;
use crate::list::{Page, cut};
use crate::profiles::Chosen;
use crate::session::Call;
use crate::text;

pub(super) const TOOL: Tool = Tool {
    name: "summary",
    title: "Summarize a profile",
    description: "Without `section`: verdict, pools and peaks, what holds the memory at the peak, suggestions, and the names \
                  of the sections that have more. With `section`: that part of `ttmem summary --json`, such as `pools`, \
                  `peak/by_class_per_bank`, `weights`, `fragmentation`, `phases`, `faults`, `source/warnings`. Long lists \
                  have pages; `cut` names lists inside an object that were shortened, as sections.",
    parameters: &[
        PROFILE,
        RANK,
        PROCESS,
        parameter("section", "A section, with `/` between names."),
        LIMIT,
        CURSOR,
    ],
    call,
};

/// The number of groups of tensors in an overview.
const GROUPS: usize = 10;

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    match call.arguments.text("section")? {
        None => overview(call, chosen),
        Some(section) => part(call, chosen, section.trim_matches('/')),
    }
}

fn overview(call: &Call<'_>, chosen: Chosen<'_>) -> Result<Answer, Failure> {
    let rank = chosen.rank;
    let mut response = Response::new(call, chosen);
    response.set("verdict", text::verdict(rank));
    for name in ["processes", "file", "format", "device", "runs", "passes", "operations", "pools", "ended_by"]
    {
        response.set(name, value_of(&chosen.opened.summary, rank, name).transpose()?.unwrap_or(Value::Null));
    }
    let live = rank.peak.as_ref().and_then(|peak| peak.live.as_deref()).unwrap_or_default();
    let groups = groups(live);
    response.set("main_pool", rank.peak.as_ref().map(|peak| peak.pool.clone()));
    response.set("peak", rank.peak.as_ref().map(super::alive_at::head).transpose()?);
    response.set("largest", groups.iter().take(GROUPS).map(super::largest::row).collect::<Vec<_>>());
    response.set(
        "failure",
        rank.oom.as_ref().map(|oom| {
            json!({
                "headline": oom.statement.headline, "cause": oom.cause, "pool": oom.pool, "step": oom.step,
            })
        }),
    );
    response.set("suggestions", rank.suggestions.iter().map(brief_suggestion).collect::<Vec<_>>());
    response.set("sections", sections(&chosen.opened.summary, rank)?);
    describe(&mut response, &groups);
    let step = rank.peak.as_ref().and_then(|peak| peak.step);
    response.link(rank.peak.as_ref().map(|peak| peak.pool.as_str()), step);
    response.caveats.extend(rank.caveats_of_end());
    Ok(response.done())
}

/// Adds the lines of an overview.
fn describe(response: &mut Response<'_>, groups: &[TensorGroup<'_>]) {
    let rank = response.chosen.rank;
    response.line(text::verdict(rank));
    let counts = &rank.operations;
    response.line(format!(
        "{} ({}): {}, {}, {}",
        text::plain(&rank.file),
        rank.format,
        counted(counts.total, "step"),
        counted(rank.runs, "run"),
        counted_as(rank.passes, "pass", "passes"),
    ));
    let used = rank.pools.iter().filter(|(_, pool)| pool.peak_per_bank.is_some_and(|bytes| bytes > 0));
    response.lines.extend(used.map(|(name, pool)| text::pool(name, pool)));
    if let Some(peak) = &rank.peak {
        response.line(format!("Main pool at its peak: {}", text::moment(rank, peak)));
        response.lines.extend(peak.by_class_per_bank.as_ref().map(text::classes));
        response.lines.extend(groups.iter().take(GROUPS).map(text::group));
    }
    if rank.oom.is_some() {
        response.line("The program ran out of memory: call explain_failure.");
    }
    if !rank.suggestions.is_empty() {
        response.line("Suggestions:");
        response.lines.extend(rank.suggestions.iter().map(super::suggestions::line));
    }
    let sections = response.object.get("sections").and_then(Value::as_object);
    let sections: Vec<&str> = sections.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    response.line(format!("Sections: {}", sections.join(", ")));
}

/// A suggestion without its tensors.
pub(super) fn brief_suggestion(suggestion: &Suggestion) -> Value {
    json!({
        "rule": suggestion.rule, "urgency": suggestion.urgency, "pool": suggestion.pool, "message": suggestion.message,
        "saves_per_bank": suggestion.saves_per_bank, "saves_bytes": suggestion.saves_bytes, "step": suggestion.step,
    })
}

fn part(call: &Call<'_>, chosen: Chosen<'_>, section: &str) -> Result<Answer, Failure> {
    let (first, rest) =
        section.split_once('/').map_or((section, String::new()), |(first, rest)| (first, format!("/{rest}")));
    let unknown = |section: &str, why: &str| {
        Failure(format!("no section {}{why}; available sections are {}", shown(section), SECTIONS.join(", ")))
    };
    let value = value_of(&chosen.opened.summary, chosen.rank, first).ok_or_else(|| unknown(first, ""))??;
    let Some(value) = value.pointer(&rest) else {
        return Err(unknown(section, &format!(" in `{first}`{}", names_in(&value))));
    };
    let mut response = Response::new(call, chosen);
    response.set("section", section);
    let page = Page::of(&call.arguments, &("summary", &chosen.opened.handle, chosen.index, section))?;
    if let Value::Array(list) = value {
        let mut rows = Value::Array(page.rows(list).to_vec());
        let cuts = cut(&mut rows, section);
        response.line(format!("{section}: {} of {} rows", page.rows(list).len(), list.len()));
        response.line(rows.to_string());
        response.lines.extend(page.rest(list.len()));
        response.set("items", rows);
        response.set("cut", cuts);
        page.describe(list.len(), &mut response.object);
    } else {
        let mut value = value.clone();
        let cuts = cut(&mut value, section);
        response.line(format!("{section}: {value}"));
        response.set("value", value);
        response.set("cut", cuts);
    }
    Ok(response.done())
}

/// The names in an object, for a message.
fn names_in(value: &Value) -> String {
    let names: Vec<&str> =
        value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).take(30).collect();
    if names.is_empty() { String::new() } else { format!(", which has {}", names.join(", ")) }
}

/// The sections with content, and the number of elements of those that are lists.
fn sections(summary: &Summary, rank: &RankSummary) -> Result<Value, Failure> {
    let mut found = serde_json::Map::new();
    for name in SECTIONS {
        let Some(value) = value_of(summary, rank, name).transpose()? else { continue };
        match &value {
            Value::Array(list) if !list.is_empty() => drop(found.insert((*name).into(), list.len().into())),
            Value::Object(map) if !map.is_empty() => drop(found.insert((*name).into(), Value::Null)),
            _ => {}
        }
    }
    Ok(found.into())
}

macro_rules! sections {
    ($($field:ident),* $(,)?) => {
        /// The names of the sections: the fields of a rank, and those of the whole response.
        pub(super) const SECTIONS: &[&str] = &["source", "comparison", $(stringify!($field)),*];

        /// A field of the response; `None` if there is no such field.
        fn value_of(summary: &Summary, rank: &RankSummary, name: &str) -> Option<serde_json::Result<Value>> {
            match name {
                "source" => Some(serde_json::to_value(&summary.source)),
                "comparison" => Some(serde_json::to_value(&summary.comparison)),
                $(stringify!($field) => Some(serde_json::to_value(&rank.$field)),)*
                _ => None,
            }
        }
    };
}

sections!(
    rank,
    process,
    processes,
    file,
    format,
    device,
    launch,
    runs,
    passes,
    chosen_runs,
    operations,
    distribution,
    pools,
    allocations,
    l1,
    peak,
    peaks,
    at,
    padding,
    suspects,
    increases,
    outside,
    fragmentation,
    weights,
    inputs,
    oom,
    ended_by,
    faults,
    sessions,
    phases,
    expected,
    checkpoints,
    ran,
    growth,
    holders,
    suggestions,
    combinations,
);
