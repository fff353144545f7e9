//! `open`: reads a file and returns its handle.

use serde_json::{Value, json};

use super::{Tool, required, text as parameter};
use crate::answer::{Answer, Failure};
use crate::session::Call;
use crate::text;

/// The maximum number of ranks and warnings to list.
const MAX_LISTED: usize = 20;

pub(super) const TOOL: Tool = Tool {
    name: "open",
    title: "Open a profile",
    description: "Reads a log, recording, memory snapshot or profile (or a folder of them) below the roots. Returns its \
                  handle for the other tools, its format, a verdict per rank, and what could not be read. A file that has \
                  not changed keeps its handle; one that has changed gets a new one.",
    parameters: &[
        required("path", "A file or folder below the roots; a relative path is looked up in each root."),
        parameter("format", "The format, if detecting it fails (`ttmem formats` lists them)."),
    ],
    call,
};

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let path = call.session.roots.resolve(call.arguments.required("path")?)?;
    let format = call.arguments.text("format")?;
    let opening = call.session.profiles.open(&path, format, &call.session.roots, call.progress)?;
    let (opened, source) = (&opening.opened, &opening.opened.summary.source);
    let ranks = &opened.summary.ranks;
    let rank = |rank: &ttmem::query::RankSummary| json!({"rank": rank.rank, "process": rank.process, "file": rank.file, "verdict": text::verdict(rank)});
    let main = opened.rank(&call.arguments)?;
    let caveats = opened.summary.caveats(main.rank);
    let structured = json!({
        "profile": opened.handle,
        "path": opened.path.display().to_string(),
        "format": source.format,
        "device": main.rank.device,
        "verdict": text::verdict(main.rank),
        "steps": main.rank.operations.total,
        "ranks": ranks.iter().take(MAX_LISTED).map(rank).collect::<Vec<_>>(),
        "rank_count": ranks.len(),
        "files": source.files.iter().take(MAX_LISTED).collect::<Vec<_>>(),
        "warnings": source.warnings.iter().take(MAX_LISTED).map(|warning| json!(warning)).collect::<Vec<Value>>(),
        "warning_count": source.warnings.len(),
        "skipped_lines": source.skipped_lines,
        "was_open": opening.is_known,
        "earlier": opening.earlier,
        "closed": opening.closed,
        "caveats": caveats,
    });
    let mut lines = vec![format!("{}: {} ({})", opened.handle, opened.path.display(), source.format)];
    if ranks.len() > 1 {
        lines.push(format!("{} ranks; the first of these is the default:", ranks.len()));
        lines.push(format!("- {}: {}", label(main.rank), text::verdict(main.rank)));
        let others = ranks.iter().filter(|rank| !std::ptr::eq(*rank, main.rank)).take(5);
        lines.extend(others.map(|rank| format!("- {}: {}", label(rank), text::verdict(rank))));
    } else {
        lines.push(text::verdict(main.rank));
    }
    if opening.is_known {
        lines.push("The file was open already and has not changed.".into());
    }
    if let Some(earlier) = &opening.earlier {
        lines.push(format!(
            "The file has changed since it was opened as {earlier}, which keeps its earlier state."
        ));
    }
    if !opening.closed.is_empty() {
        lines.push(format!("Closed to make room: {}", opening.closed.join(", ")));
    }
    lines.extend(text::caveats(&caveats));
    let next = if main.rank.oom.is_some() { "explain_failure" } else { "summary" };
    lines.push(format!("Next: {next}"));
    Ok(Answer { structured, text: lines.join("\n") })
}

fn label(rank: &ttmem::query::RankSummary) -> String {
    match &rank.rank {
        Some(label) => format!("rank {}", text::plain(label)),
        None => format!("process {}", rank.process),
    }
}
