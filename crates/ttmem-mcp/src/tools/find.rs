//! `find`: tensors by a condition or a text.

use ttmem::query::filter::Filter;
use ttmem::query::words::size;
use ttmem::query::{self, FindRequest};

use super::{CURSOR, LIMIT, PROCESS, PROFILE, RANK, Response, Tool, text as parameter};
use crate::answer::{Answer, Failure};
use crate::list::Page;
use crate::session::Call;
use crate::text;

pub(super) const TOOL: Tool = Tool {
    name: "find",
    title: "Find tensors",
    description: "All tensors of the run that match, largest first, whether live at the peak or not. `where` is a condition as in \
                  `ttmem summary --where`: `size > 10MiB and stack ~ \"attention\"`. Its fields are size, class, name, op, line, \
                  stack, module, pool, allocated, freed and steps; operators are = != < <= > >= ~ !~ (regular expression), and, or, not.",
    parameters: &[
        PROFILE,
        parameter("where", "The condition."),
        parameter("text", "A text in the name, operation, source line or call stack, regardless of case."),
        parameter("pool", "Only tensors of this pool (default: all pools)."),
        RANK,
        PROCESS,
        LIMIT,
        CURSOR,
    ],
    call,
};

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let opened = call.profile("profile")?;
    let chosen = opened.rank(&call.arguments)?;
    let arguments = &call.arguments;
    let (condition, wanted, pool) =
        (arguments.text("where")?, arguments.text("text")?, arguments.text("pool")?);
    let wrong =
        |why: String| Failure(format!("`where`: {why}; example: size > 10MiB and name ~ \"attention\""));
    let filter = condition.map(str::parse::<Filter>).transpose().map_err(wrong)?;
    let list = ("find", &opened.handle, chosen.index, condition, wanted, pool);
    let page = Page::of(arguments, &list)?;
    let request = FindRequest {
        rank: chosen.index,
        filter,
        text: wanted.map(str::to_owned),
        pool: pool.map(str::to_owned),
        offset: page.offset,
        limit: page.limit,
    };
    let found = query::find(&opened.profiles, &request)?;
    let total = usize::try_from(found.total.count).unwrap_or(usize::MAX);
    let mut response = Response::new(call, chosen);
    response.line(format!("{total} tensors match; the sum of their sizes is {}", size(found.total.bytes)));
    if found.unknown_sizes > 0 {
        response.line(format!("The size of {} of them is unknown.", found.unknown_sizes));
    }
    response.lines.extend(found.tensors.iter().map(|row| text::tensor(&row.tensor)));
    response.lines.extend(page.rest(total));
    response.set("sum", serde_json::to_value(found.total)?);
    response.set("unknown_sizes", found.unknown_sizes);
    let first = found.tensors.first().map(|row| (row.pool.clone(), row.tensor.born_step));
    response.set("tensors", serde_json::to_value(found.tensors)?);
    page.describe(total, &mut response.object);
    if let Some((pool, step)) = first {
        // The moment after the step that allocated it.
        response.link(Some(&pool), step.map(|step| step.saturating_add(1)));
    }
    Ok(response.done())
}
