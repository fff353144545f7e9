//! `growth`: whether memory grows from call to call or from iteration to iteration.

use serde_json::{Value, json};
use ttmem::query::words::size;
use ttmem::query::{GROWTH_SUGGESTIONS, Ran, RankSummary, SessionGrowth, SessionSummary};

use super::suggestions::{line, value};
use super::{PROCESS, PROFILE, RANK, Response, Tool};
use crate::answer::{Answer, Failure};
use crate::session::Call;

pub(super) const TOOL: Tool = Tool {
    name: "growth",
    title: "Find growing memory",
    description: "Whether memory grows with every call or iteration (a leak or a cache): what the profile says about growth per \
                  iteration of a training session, tensors that repeated calls leave behind, and what each part of the \
                  program retains per call.",
    parameters: &[PROFILE, RANK, PROCESS],
    call,
};

/// The maximum number of parts to list.
const MAX_PARTS: usize = 20;

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let rank = chosen.rank;
    let mut response = Response::new(call, chosen);
    let growing: Vec<_> =
        rank.suggestions.iter().filter(|found| GROWTH_SUGGESTIONS.contains(&found.rule)).collect();
    let sessions: Vec<_> = rank.sessions.iter().filter(|session| session.growth.is_some()).collect();
    let retains = |part: &&Ran| part.retained_per_call_bytes.is_some_and(|bytes| bytes > 0) && part.calls > 1;
    let parts: Vec<&Ran> = rank.ran.iter().filter(retains).collect();
    if let Some(growth) = &rank.growth {
        let headline = &growth.statement.headline;
        // Suggestions about growth begin with it.
        if !growing.iter().any(|found| found.message.starts_with(headline.as_str())) {
            response.line(format!("- {}", crate::text::sentence(headline)));
        }
        // Without a pool, it is about a session, whose line would repeat it.
        if let Some(detail) = growth.statement.detail.as_ref().filter(|_| growth.pool.is_none()) {
            response.line(format!("- {detail}"));
        }
        response.lines.extend(growth.notes.iter().map(|note| format!("- {note}")));
        response.lines.extend(growth.caveats.iter().map(|caveat| format!("- {caveat}")));
    }
    response.lines.extend(growing.iter().map(|found| line(found)));
    for growth in untold(rank, &sessions) {
        let left =
            growth.iterations_left.map_or_else(String::new, |left| format!("; {left} more iterations fit"));
        let bytes = size(growth.per_iteration_bytes.unsigned_abs());
        let (phase, count) = (crate::text::plain(&growth.phase), growth.iterations);
        response.line(format!(
            "- {bytes} per iteration, measured at the end of {phase} over {count} iterations{left}"
        ));
    }
    if rank.growth.is_none() && growing.is_empty() && sessions.is_empty() {
        response.line("No rule found growth. `series` shows memory over time; `diff` compares two runs.");
    }
    for part in parts.iter().take(MAX_PARTS) {
        let retained = part.retained().unwrap_or_default();
        let name = crate::text::plain(&part.name);
        response.line(format!("- {name}: {} calls, each retains {retained}", part.calls));
    }
    let session = |session: &&SessionSummary| json!({"name": session.name, "line": session.line, "growth": session.growth, "final_bytes": session.final_bytes});
    let (suggestions, cuts) = value(growing)?;
    response.set("growth", serde_json::to_value(&rank.growth)?);
    response.set("holders", serde_json::to_value(&rank.holders)?);
    response.set("suggestions", suggestions);
    response.set("sessions", sessions.iter().map(session).collect::<Vec<Value>>());
    response
        .set("retained_per_call", serde_json::to_value(parts.iter().take(MAX_PARTS).collect::<Vec<_>>())?);
    response.set("retained_per_call_count", parts.len());
    response.set("checkpoints", rank.checkpoints.len());
    response.set("cut", cuts);
    response.link(rank.peak.as_ref().map(|peak| peak.pool.as_str()), None);
    Ok(response.done())
}

/// The growth of sessions, without the one that the growth of the rank is about.
fn untold<'a>(rank: &RankSummary, sessions: &[&'a SessionSummary]) -> Vec<&'a SessionGrowth> {
    let mut found: Vec<&SessionGrowth> =
        sessions.iter().filter_map(|session| session.growth.as_ref()).collect();
    if let Some(told) = rank.growth.as_ref().filter(|growth| growth.pool.is_none())
        && let Some(same) = found.iter().position(|growth| {
            u64::try_from(growth.per_iteration_bytes).ok() == told.per_iteration_bytes
                && Some(&growth.phase) == told.of.as_ref()
        })
    {
        found.remove(same);
    }
    found
}
