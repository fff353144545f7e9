//! The files that an exported folder stands for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ttmem::{read, report};

/// Recordings and profiles.
const PROFILE: &str = ".ttmem";
/// The file of a report that is read if it has no profile.
const MEMORY: &str = "_memory.json";
/// Files next to a recording, or next to the profile or memory file of a report, that say the same or less.
const BESIDE: [&str; 8] = [
    ".json",
    MEMORY,
    "_operations.json",
    "_inputs_registry.json",
    "_ir.json",
    "_summary.json",
    "_about.json",
    "_profile.log",
];
/// A file next to a ttnn capture, which is read with it.
const PYTHON_IO: &str = ".python_io.json";
/// Endings of files that are inputs whatever they contain: broken ones have an error.
const INPUTS: [&str; 4] = [".log", PROFILE, ".pickle", ".pkl"];
/// Endings of documents, which may quote logs.
const DOCUMENTS: [&str; 7] = [".html", ".md", ".parquet", ".png", ".py", ".rst", ".svg"];

/// The files of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// The files to read.
    pub files: Vec<String>,
    /// The number of recordings that are left out: a folder with the ranks of several programs is the newest of them.
    pub left_out: usize,
}

impl Files {
    /// The files of an input: of a folder, all that ttmem reads, each report once.
    pub fn of(input: &str) -> Self {
        let itself = || Self { files: vec![input.to_owned()], left_out: 0 };
        let folder = Path::new(input);
        let names = names_in(folder);
        let found = inputs_among(folder, &names);
        let is_report = || read::report_in(folder).is_ok_and(|report| found.first() == Some(&report));
        if found.is_empty() || found.len() == 1 && is_report() {
            return itself();
        }
        let ranks = read::recordings_in(folder);
        let rest = found.into_iter().filter(|path| !ranks.files.contains(path));
        let rest: Vec<PathBuf> =
            rest.filter(|path| ranks.files.is_empty() || !ranks.others.contains(path)).collect();
        let left_out = if ranks.files.is_empty() { 0 } else { ranks.others.len() };
        let files = ranks.files.into_iter().chain(rest);
        Self { files: files.map(|path| path.to_string_lossy().into_owned()).collect(), left_out }
    }
}

/// The names of the files in a folder, in order; none if it is not a folder.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let paths = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let files = paths.filter(|path| path.is_file());
    files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// The files that ttmem reads, and those whose names say so.
fn inputs_among(folder: &Path, names: &BTreeSet<String>) -> Vec<PathBuf> {
    let stems = |end: &'static str| names.iter().filter_map(move |name| unpacked(name).strip_suffix(end));
    let recordings: BTreeSet<&str> = stems(PROFILE).collect();
    let reports: BTreeSet<&str> = recordings.iter().copied().chain(stems(MEMORY)).collect();
    let is_beside = |name: &str| {
        let plain = unpacked(name);
        let captured = plain.strip_suffix(PYTHON_IO).map(|stem| format!("{stem}.json"));
        captured.is_some_and(|capture| names.iter().any(|name| unpacked(name) == capture))
            || BESIDE.iter().any(|end| {
                let Some(stem) = plain.strip_suffix(end) else { return false };
                let of_rank = stem.rsplit_once("_rank").is_some_and(|(of, _)| reports.contains(of));
                of_rank || if *end == MEMORY { &recordings } else { &reports }.contains(stem)
            })
    };
    let is_input = |name: &&String| {
        let plain = unpacked(name);
        let ends = |ends: &[&str]| ends.iter().any(|end| plain.ends_with(end));
        let path = folder.join(name);
        if name.starts_with('.') || ends(&DOCUMENTS) || is_beside(name) || read::is_earlier_file(&path) {
            return false;
        }
        ends(&INPUTS)
            || !report::has_marker(&path) && read::evidence_in(&path).is_ok_and(|format| format.is_some())
    };
    names.iter().filter(is_input).map(|name| folder.join(name)).collect()
}

/// A name without the ending of a compression.
fn unpacked(name: &str) -> &str {
    [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_read_once() {
        let names = [
            "a.ttmem",
            "a.json",
            "a.before.ttmem",
            "a_memory.json",
            "a_rank0_memory.json",
            "a_report.html",
            "a_about.json",
            "b_memory.json.gz",
            "b_ir.json",
            "b_profile.log",
            "c.log",
            "d.log.zst",
            "notes.txt",
            ".x.log",
            "README.md",
            "rank0.pickle.gz",
        ];
        let folder = std::env::temp_dir().join(format!("ttmem-folder-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::write(folder.join("b_memory.json.gz"), b"\x1f\x8b").unwrap();
        fs::write(folder.join("late.txt"), "starts\nRuntimeTTNN | DEBUG | Executing operation: x\n").unwrap();
        let found = inputs_among(&folder, &names_in(&folder));
        fs::remove_dir_all(&folder).unwrap();
        let found: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        let expected = ["a.ttmem", "b_memory.json.gz", "c.log", "d.log.zst", "late.txt", "rank0.pickle.gz"];
        assert_eq!(found, expected);
    }
}
