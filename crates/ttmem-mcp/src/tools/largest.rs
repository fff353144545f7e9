//! `largest`: the largest tensors at the peak, similar ones in one row.

use serde_json::{Value, json};
use ttmem::query::{TensorGroup, groups};

use super::{CURSOR, LIMIT, POOL, PROCESS, PROFILE, RANK, Response, Tool, pool_of};
use crate::answer::{Answer, Failure};
use crate::list::Page;
use crate::session::Call;
use crate::text;

pub(super) const TOOL: Tool = Tool {
    name: "largest",
    title: "List the largest tensors",
    description: "The tensors that hold a pool's memory at its peak, largest first. Similar tensors (same shape, type, class \
                  and operation) share a row with their count and total size. `alive_at` lists them one by one.",
    parameters: &[PROFILE, POOL, RANK, PROCESS, LIMIT, CURSOR],
    call,
};

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let pool = pool_of(call, chosen)?;
    let moment = chosen.rank.peaks.get(&pool);
    let Some((moment, live)) = moment.and_then(|moment| Some((moment, moment.live.as_deref()?))) else {
        return Err(Failure(format!(
            "{pool}: the input has no tensors, so memory can't be attributed; `alive_at` has the totals"
        )));
    };
    let groups = groups(live);
    let page = Page::of(&call.arguments, &("largest", &opened.handle, chosen.index, &pool))?;
    let mut response = Response::new(call, chosen);
    response.line(text::moment(chosen.rank, moment));
    response.lines.extend(page.rows(&groups).iter().map(text::group));
    response.lines.extend(page.rest(groups.len()));
    response.set("pool", pool.as_str());
    response.set("step", moment.step);
    response.set("extent", serde_json::to_value(chosen.rank.pools.get(&pool).map(|pool| pool.extent))?);
    response.set("allocated_per_bank", moment.allocated_per_bank);
    response.set("live_count", moment.live_count);
    response.set("groups", page.rows(&groups).iter().map(row).collect::<Vec<_>>());
    page.describe(groups.len(), &mut response.object);
    response.link(Some(&pool), moment.step);
    Ok(response.done())
}

/// A group of tensors as JSON. What the tensors share is that of the first.
pub(super) fn row(group: &TensorGroup<'_>) -> Value {
    let tensor = group.first();
    json!({
        "title": group.title(),
        "count": group.count(),
        "per_bank": group.per_bank,
        "class": tensor.class,
        "shape": tensor.shape,
        "dtype": tensor.dtype,
        "op": tensor.op,
        "loc": tensor.loc,
        "allocated_by": group.allocated_by(),
        "freed_by": group.freed_by(),
    })
}
