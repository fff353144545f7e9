//! `alive_at`: what is in a pool at a moment.

use serde_json::Value;
use ttmem::query::{PoolMoment, RankSummary};

use super::{CURSOR, Kind, LIMIT, POOL, PROCESS, PROFILE, Parameter, RANK, Response, Tool, pool_of};
use crate::answer::{Answer, Failure};
use crate::list::{Page, cut};
use crate::session::Call;
use crate::text;

const STEP: Parameter = Parameter {
    name: "step",
    description: "A step number, for the moment before that step, or \"peak\" (default).",
    kind: Kind::Step,
    required: false,
};

pub(super) const TOOL: Tool = Tool {
    name: "alive_at",
    title: "Show live tensors",
    description: "What is in a memory pool before a step or at its peak: allocated and free bytes, bytes by class, bytes that \
                  no tensor explains, and the live tensors, largest first (`ttmem summary --json --at STEP`).",
    parameters: &[PROFILE, STEP, POOL, RANK, PROCESS, LIMIT, CURSOR],
    call,
};

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let (step, pool) = (call.arguments.step("step")?, pool_of(call, chosen)?);
    let at = step.map(|step| opened.at(chosen, step)).transpose()?;
    let moment = match &at {
        Some(at) => {
            let mut ranks = at.ranks.iter();
            let is_chosen =
                |rank: &&RankSummary| (&rank.rank, &rank.file) == (&chosen.rank.rank, &chosen.rank.file);
            ranks.find(is_chosen).and_then(|rank| rank.at.as_ref()?.pools.get(&pool))
        }
        None => chosen.rank.peaks.get(&pool),
    };
    let Some(moment) = moment else {
        return Err(Failure(format!("{pool} has no memory states; choose another pool")));
    };
    let page = Page::of(&call.arguments, &("alive_at", &opened.handle, chosen.index, step, &pool))?;
    let mut response = Response::new(call, chosen);
    response.line(text::moment(chosen.rank, moment));
    response.set("extent", serde_json::to_value(chosen.rank.pools.get(&pool).map(|pool| pool.extent))?);
    response.set("moment", head(moment)?);
    match &moment.live {
        Some(live) => {
            let rows = page.rows(live);
            response.lines.extend(rows.iter().map(text::tensor));
            response.lines.extend(page.rest(live.len()));
            response.set("tensors", serde_json::to_value(rows)?);
            page.describe(live.len(), &mut response.object);
        }
        None => {
            response.line("The input has no tensors, so memory can't be attributed.");
            response.set("tensors", Value::Null);
        }
    }
    response.link(Some(&pool), moment.step);
    Ok(response.done())
}

/// A moment without its tensors and block tables, and with short lists.
pub(super) fn head(moment: &PoolMoment) -> Result<Value, Failure> {
    let short = PoolMoment {
        pool: moment.pool.clone(),
        step: moment.step,
        phase: moment.phase.clone(),
        caused_by: moment.caused_by.clone(),
        caused_outside_programs: moment.caused_outside_programs,
        allocated_per_bank: moment.allocated_per_bank,
        free_per_bank: moment.free_per_bank,
        largest_free_per_bank: moment.largest_free_per_bank,
        explained_per_bank: moment.explained_per_bank,
        unexplained_per_bank: moment.unexplained_per_bank,
        by_class_per_bank: moment.by_class_per_bank.clone(),
        residue: moment.residue.clone(),
        live_count: moment.live_count,
        made_in: moment.made_in.clone(),
        // They may be long, and a copy is wasted time.
        live: None,
        blocks: None,
    };
    let mut value = serde_json::to_value(&short)?;
    if let Some(map) = value.as_object_mut() {
        map.remove("live");
        map.remove("blocks");
    }
    cut(&mut value, "peak");
    Ok(value)
}
