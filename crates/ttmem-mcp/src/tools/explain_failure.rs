//! `explain_failure`: why memory ran out, and how to avoid it.

use serde_json::{Value, json};
use ttmem::query::{Oom, Suggestion, groups};

use super::{PROCESS, PROFILE, RANK, Response, Tool};
use crate::answer::{Answer, Failure};
use crate::list::cut;
use crate::session::Call;
use crate::text;

pub(super) const TOOL: Tool = Tool {
    name: "explain_failure",
    title: "Explain a failure",
    description: "Why the program ran out of memory: the request, the free memory and its largest block, the cause, the step and \
                  its source location, what holds the memory, the smallest changes that avoid the failure, and suggestions. \
                  Says so if there was no failure.",
    parameters: &[PROFILE, RANK, PROCESS],
    call,
};

/// The number of groups of tensors and of errors to list.
const GROUPS: usize = 10;

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let rank = chosen.rank;
    let mut response = Response::new(call, chosen);
    response.set("failed", rank.oom.is_some());
    response.set("ended_by", rank.ended_by.as_deref());
    response.set("fault_count", rank.faults.len());
    let mut oom = serde_json::to_value(&rank.oom)?;
    let mut cuts = cut(&mut oom, "oom");
    response.set("oom", oom);
    match &rank.oom {
        Some(oom) => explain(&mut response, oom),
        None => {
            response.line("The program did not run out of memory.");
            let others = chosen.opened.summary.ranks.iter().filter(|rank| rank.oom.is_some()).count();
            if others > 0 {
                response
                    .line(format!("{others} other ranks did; select one with `rank` (`open` lists them)."));
            }
            let faults: Vec<_> = rank.faults.iter().take(GROUPS).collect();
            let mut faults = serde_json::to_value(faults)?;
            cuts.extend(cut(&mut faults, "faults"));
            response.set("faults", faults);
        }
    }
    if let Some(ended) = &rank.ended_by {
        response.line(text::caveats(std::slice::from_ref(ended)).concat().replacen("Caveat: ", "", 1));
    }
    response.set("holders", serde_json::to_value(&rank.holders)?);
    response.set("cut", cuts);
    let step = rank.oom.as_ref().and_then(|oom| oom.step).or(rank.peak.as_ref().and_then(|peak| peak.step));
    let pool = rank.oom.as_ref().and_then(|oom| oom.pool.as_deref());
    response.link(pool.filter(|pool| rank.pools.get(pool).is_some()), step);
    Ok(response.done())
}

/// Adds the failure, what holds the memory, and what to do.
fn explain(response: &mut Response<'_>, oom: &Oom) {
    let rank = response.chosen.rank;
    response.line(oom.statement.text());
    let place = [
        oom.step.map(|step| format!("step {step}")),
        oom.op.as_deref().map(text::plain),
        oom.loc.as_deref().map(|loc| format!("at {}", text::plain(loc))),
        oom.within.as_deref().map(|part| format!("in {}", text::plain(part))),
    ];
    let place: Vec<String> = place.into_iter().flatten().collect();
    if !place.is_empty() {
        response.line(format!("Failed: {}", place.join(" ")));
    }
    response.line(format!("Message: {}", first_lines(&oom.message)));
    let pool = oom.pool.as_deref().or(rank.peak.as_ref().map(|peak| peak.pool.as_str()));
    let moment = pool.and_then(|pool| rank.peaks.get(pool));
    let live = moment.and_then(|moment| moment.live.as_deref()).unwrap_or_default();
    let found = groups(live);
    let shown = &found[..found.len().min(GROUPS)];
    if let Some(moment) = moment {
        response.line(format!("At its peak, {}", text::moment(rank, moment)));
        response.lines.extend(shown.iter().map(text::group));
        if found.len() > GROUPS {
            response.line(format!("… {} more rows: `largest`", found.len() - GROUPS));
        }
    }
    response.set("largest_at_peak", shown.iter().map(super::largest::row).collect::<Vec<Value>>());
    if !oom.ways_out.is_empty() {
        response.line("Smallest changes that avoid the failure:");
        response.lines.extend(oom.ways_out.iter().map(|way| format!("- {}", way.text)));
    }
    response.lines.extend(oom.no_way_out.clone());
    let is_other = |found: &&Suggestion| found.rule != "out_of_memory";
    let others: Vec<&Suggestion> = rank.suggestions.iter().filter(is_other).collect();
    if !others.is_empty() {
        response.line("Suggestions:");
        response.lines.extend(others.iter().map(|found| super::suggestions::line(found)));
    }
    let all = rank.suggestions.iter().map(super::summary::brief_suggestion).collect::<Vec<_>>();
    response.set("suggestions", json!(all));
}

/// The first lines of a message, in one.
fn first_lines(message: &str) -> String {
    ttmem::query::words::brief(
        &message.chars().take(600).collect::<String>().replace(char::is_control, " "),
        400,
    )
}
