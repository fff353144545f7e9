//! `diff`: what changed between two profiles.

use serde_json::{Value, json};
use ttmem::model::Profile;
use ttmem::query::{self, DiffRequest};
use ttmem::report;

use super::{CURSOR, LIMIT, RANK, Tool, required};
use crate::answer::{Answer, Failure};
use crate::list::{Page, cut};
use crate::profiles::Opened;
use crate::session::Call;
use crate::text;

pub(super) const TOOL: Tool = Tool {
    name: "diff",
    title: "Compare two profiles",
    description: "What changed from profile `a` to profile `b`: the peaks of each pool and the changes of tensors, the largest \
                  effect on a peak first (`ttmem diff --json`). For several ranks, `ranks` has the verdict of each; `changes` \
                  are those of `rank`, by default the one with the largest growth.",
    parameters: &[
        required("a", "The handle of the first profile."),
        required("b", "The handle of the second profile."),
        RANK,
        LIMIT,
        CURSOR,
    ],
    call,
};

/// The maximum number of ranks to list.
const MAX_RANKS: usize = 20;
/// The rows in the text.
const ROWS: usize = 10;

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let (a, b) = (call.profile("a")?, call.profile("b")?);
    let rank = call.arguments.text("rank")?;
    let page = Page::of(&call.arguments, &("diff", &a.handle, &b.handle, rank))?;
    let request = DiffRequest { rank: rank.map(str::to_owned), top: None };
    let answer = query::diff(only(&a)?, only(&b)?, &request)?;
    let Some(first) = answer.ranks.first() else {
        return Err(Failure::new("the profiles have no rank in common; open profiles of the same program"));
    };
    let mut caveats = Vec::new();
    for opened in [&a, &b] {
        if opened.is_stale() {
            caveats.push(format!(
                "The file of {} has changed since it was opened; call `open` again.",
                opened.handle
            ));
        }
        let ranks = opened.summary.ranks.iter().filter(|other| other.rank == first.rank);
        let of = ranks.flat_map(query::RankSummary::caveats);
        caveats.extend(of.map(|caveat| format!("{}: {caveat}", opened.handle)));
    }
    let mut rows = serde_json::to_value(page.rows(&first.changes))?;
    let mut cuts = cut(&mut rows, "changes");
    let mut pools = serde_json::to_value(&first.pools)?;
    cuts.extend(cut(&mut pools, "pools"));
    let verdict = |rank: &query::RankDiff| json!({"rank": rank.rank, "verdict": rank.verdict});
    let mut structured = json!({
        "a": a.handle, "b": b.handle,
        "before": answer.before, "after": answer.after,
        "rank": first.rank, "verdict": first.verdict, "out_of_memory": first.out_of_memory, "pools": pools, "operations": first.operations,
        "changes": rows, "cut": cuts,
        "ranks": answer.ranks.iter().take(MAX_RANKS).map(verdict).collect::<Vec<Value>>(),
        "only_before": answer.only_before, "only_after": answer.only_after,
        "caveats": caveats,
    });
    if let Some(object) = structured.as_object_mut() {
        page.describe(first.changes.len(), object);
    }
    let mut markdown = Vec::new();
    // Writing to memory cannot fail.
    let _ = report::diff_markdown(&answer, Some(ROWS), &mut markdown);
    let mut lines = vec![String::from_utf8_lossy(&markdown).trim_end().to_owned()];
    lines.extend(page.rest(first.changes.len()));
    lines.extend(text::caveats(&caveats));
    Ok(Answer { structured, text: lines.join("\n") })
}

/// The only file of a profile.
fn only(opened: &Opened) -> Result<&Profile, Failure> {
    match opened.profiles.as_slice() {
        [profile] => Ok(profile),
        several => Err(Failure(format!(
            "{} is a folder of {} files; open two of the files and compare those",
            opened.handle,
            several.len()
        ))),
    }
}
