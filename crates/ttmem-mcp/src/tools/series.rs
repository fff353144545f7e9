//! `series`: memory over time.

use serde_json::{Value, json};
use ttmem::query::words::size;
use ttmem::query::{ChartRequest, Drawn, ProcessFilter, chart};

use super::{POOL, PROCESS, PROFILE, RANK, Response, Tool, number, pool_of};
use crate::answer::{Answer, Failure};
use crate::session::Call;

pub(super) const TOOL: Tool = Tool {
    name: "series",
    title: "Show memory over time",
    description: "The memory of a pool over the steps, as [position, bytes per bank] at each change. Long runs are reduced to \
                  `points`; every peak is kept, and `reduced` says so.",
    parameters: &[
        PROFILE,
        POOL,
        RANK,
        PROCESS,
        number("points", 4, Some(500), "The number of points (default: 100)."),
    ],
    call,
};

const DEFAULT_POINTS: u64 = 100;
/// A column of a reduced curve has up to four points.
const POINTS_PER_COLUMN: u64 = 4;
/// The points in the text.
const POINTS_IN_TEXT: usize = 24;

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let pool = pool_of(call, chosen)?;
    let points = call.arguments.number("points", POINTS_PER_COLUMN, 500)?.unwrap_or(DEFAULT_POINTS);
    let file = opened.profiles.iter().find(|profile| profile.source.file == chosen.rank.file);
    let profile = file.ok_or_else(|| Failure(format!("{}: not found in the profile", chosen.rank.file)))?;
    let request = ChartRequest {
        pool: Some(pool.clone()),
        rank: chosen.rank.rank.clone(),
        process: ProcessFilter::Number(chosen.rank.process),
        columns: usize::try_from(points / POINTS_PER_COLUMN).unwrap_or(1),
        ..ChartRequest::default()
    };
    let Drawn::Steps(drawn) = chart(profile, &request)? else {
        return Err(Failure::new("the input has phases but no steps; use `summary` with section `phases`"));
    };
    let mut response = Response::new(call, chosen);
    // Position `i` has the sides `2i` and `2i + 1`.
    let rows: Vec<(usize, u64)> =
        drawn.points.iter().map(|point| (point.moment / 2, point.per_bank)).collect();
    let is_reduced = rows.len() < drawn.changes;
    let of = drawn.extent.in_words();
    let how = if is_reduced {
        format!("reduced from {} changes to {} points; every peak is kept", drawn.changes, rows.len())
    } else {
        format!("all {} changes", rows.len())
    };
    response.line(format!("{pool}{of}, positions {} to {}: {how}", drawn.first, drawn.end));
    if let Some(peak) = &drawn.peak {
        response.line(format!("Peak {} before step {}", size(peak.per_bank), peak.position));
    }
    let each = rows.len().div_ceil(POINTS_IN_TEXT).max(1);
    let chunks: Vec<String> = rows
        .chunks(each)
        .filter_map(|chunk| chunk.iter().rev().max_by_key(|(_, bytes)| *bytes))
        .map(|(position, bytes)| format!("{position}: {}", size(*bytes)))
        .collect();
    response.line(format!("Highest in each of {} parts: {}", chunks.len(), chunks.join(", ")));
    response.set("pool", pool.as_str());
    response.set("extent", serde_json::to_value(drawn.extent)?);
    response.set("capacity_per_bank", drawn.capacity_per_bank);
    response.set("quantum_per_bank", chosen.rank.pools.get(&pool).map(|pool| pool.quantum_per_bank));
    response.set("first_position", drawn.first);
    response.set("last_position", drawn.end);
    response.set("reduced", is_reduced);
    response.set("changes", drawn.changes);
    response.set("peak", drawn.peak.as_ref().map(|peak| {
        json!({"position": peak.position, "per_bank": peak.per_bank, "caused_by_step": peak.caused_by.as_ref().map(|(step, _)| step)})
    }));
    response.set("phases", phases(&drawn.phases));
    response.set("points", json!(rows));
    response.link(Some(&pool), drawn.peak.as_ref().map(|peak| peak.position));
    Ok(response.done())
}

/// The phases, if they are few.
fn phases(all: &[ttmem::query::over_time::PhaseOverTime]) -> Value {
    const MAX_PHASES: usize = 50;
    let row = |phase: &ttmem::query::over_time::PhaseOverTime| json!([phase.name, phase.first, phase.end]);
    all.iter().take(MAX_PHASES).map(row).collect()
}
