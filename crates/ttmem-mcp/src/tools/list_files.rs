//! `list_files`: the files below the roots that can be opened.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;
use ttmem::read;

use super::{CURSOR, LIMIT, Tool};
use crate::answer::{Answer, Failure};
use crate::list::Page;
use crate::session::Call;

pub(super) const TOOL: Tool = Tool {
    name: "list_files",
    title: "List files",
    description: "Files below the roots whose names look like logs, recordings, snapshots or profiles, the newest first. \
                  `open` reads one of them.",
    parameters: &[LIMIT, CURSOR],
    call,
};

/// Names of files that readers may know.
const ENDS: [&str; 8] = [".log", ".ttmem", ".pickle", ".pkl", ".sqlite", "_memory.json", ".json", ".txt"];
/// Names of compressed files.
const PACKED: [&str; 3] = [".gz", ".zst", ".zstd"];
/// How deep folders are searched.
const MAX_DEPTH: usize = 6;
/// How many entries of folders are looked at.
const MAX_ENTRIES: usize = 20_000;
/// Folders without logs and with many files.
const SKIPPED: [&str; 4] = ["node_modules", "target", "site-packages", "__pycache__"];

/// A file.
struct Found {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

fn call(call: &Call<'_>) -> Result<Answer, Failure> {
    let page = Page::of(&call.arguments, &"list_files")?;
    let (mut files, mut entries) = (Vec::new(), 0);
    for root in call.session.roots.folders() {
        search(root, 0, &mut files, &mut entries);
    }
    files.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
    files.dedup_by(|a, b| a.path == b.path);
    let is_complete = entries < MAX_ENTRIES;
    let row = |file: &Found| json!({"path": file.path.display().to_string(), "bytes": file.bytes});
    let rows = page.rows(&files);
    let roots: Vec<String> =
        call.session.roots.folders().iter().map(|root| root.display().to_string()).collect();
    let mut structured = json!({
        "roots": roots, "files": rows.iter().map(row).collect::<Vec<_>>(), "complete": is_complete,
    });
    if let Some(object) = structured.as_object_mut() {
        page.describe(files.len(), object);
    }
    let mut lines = vec![format!("{} files below {}", files.len(), roots.join(", "))];
    let line =
        |file: &Found| format!("- {} ({})", file.path.display(), ttmem::query::words::size(file.bytes));
    lines.extend(rows.iter().map(line));
    lines.extend(page.rest(files.len()));
    if !is_complete {
        lines.push(format!("Only the first {MAX_ENTRIES} entries were looked at; there may be more files."));
    }
    Ok(Answer { structured, text: lines.join("\n") })
}

/// Collects the files of a folder. Links are not followed.
fn search(folder: &Path, depth: usize, files: &mut Vec<Found>, entries: &mut usize) {
    let mut inside: Vec<DirEntry> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    inside.sort_by_key(DirEntry::file_name);
    for entry in inside {
        *entries += 1;
        if *entries >= MAX_ENTRIES {
            return;
        }
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let Ok(metadata) = entry.metadata() else { continue };
        if name.starts_with('.') || SKIPPED.contains(&&*name) {
            continue;
        }
        if metadata.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, files, entries);
        } else if metadata.is_file()
            && metadata.len() > 0
            && is_readable(&name)
            && !read::is_earlier_file(&path)
        {
            files.push(Found { path, bytes: metadata.len(), modified: metadata.modified().ok() });
        }
    }
}

/// Whether a name looks like that of an input. Other files of a report are left out.
fn is_readable(name: &str) -> bool {
    const DERIVED: [&str; 6] = [
        "_operations.json",
        "_inputs_registry.json",
        "_ir.json",
        "_about.json",
        "_summary.json",
        ".python_io.json",
    ];
    let name = PACKED.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let is_derived = DERIVED.iter().any(|end| name.ends_with(end));
    !is_derived && ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_told_by_their_names() {
        for name in ["a.log", "a.log.gz", "run.ttmem", "s.pickle", "db.sqlite", "a_memory.json", "g.json.zst"]
        {
            assert!(is_readable(name), "{name}");
        }
        for name in ["a.py", "a_report.html", "a_operations.json", "a_about.json", "log", "a.gz"] {
            assert!(!is_readable(name), "{name}");
        }
    }
}
