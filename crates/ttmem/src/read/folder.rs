//! Which file a folder stands for.

use std::fs;
use std::path::{Path, PathBuf};

use super::tt_json;
use crate::error::{Error, Result};

const PROFILE: &str = ".ttmem";

/// The file that has the report of a folder: its profile, or else the memory file that the earlier tool wrote, too.
///
/// Of several, the one that is named like the folder. A folder of `ttmem run` has a time behind that name.
pub fn report_in(folder: &Path) -> Result<PathBuf> {
    let failed = |source| Error::Read { path: folder.into(), source };
    let mut names: Vec<String> = fs::read_dir(folder)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_file()))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort_unstable();
    for end in [PROFILE, tt_json::MEMORY] {
        let stems: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(end)).collect();
        if !stems.is_empty() {
            let stem = choose(folder, &stems).ok_or_else(|| several(folder, &stems, end))?;
            return Ok(folder.join(format!("{stem}{end}")));
        }
    }
    Err(Error::Directory { path: folder.into() })
}

/// The report that a folder is about.
fn choose<'a>(folder: &Path, stems: &[&'a str]) -> Option<&'a str> {
    // Beside the files of the rank that matters most lie those of every rank.
    let is_rank = |stem: &str| stem.rsplit_once("_rank").is_some_and(|(report, _)| stems.contains(&report));
    let reports: Vec<&str> = stems.iter().copied().filter(|stem| !is_rank(stem)).collect();
    if let [only] = reports[..] {
        return Some(only);
    }
    let folder = fs::canonicalize(folder).ok()?;
    let name = folder.file_name()?.to_str()?;
    let is_run = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('_'));
    let longest_run = || reports.iter().copied().filter(|stem| is_run(stem)).max_by_key(|stem| stem.len());
    reports.iter().copied().find(|stem| *stem == name).or_else(longest_run)
}

fn several(folder: &Path, stems: &[&str], end: &str) -> Error {
    const SHOWN: usize = 5;
    let names: Vec<String> = stems.iter().take(SHOWN).map(|stem| format!("{stem}{end}")).collect();
    let more = if stems.len() > SHOWN { " …" } else { "" };
    Error::NotThere(format!(
        "{} holds several reports: name the file ({}{more})",
        folder.display(),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a folder of that name with those files stands for.
    fn found(folder: &str, files: &[&str]) -> Result<String> {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join(folder);
        fs::create_dir(&folder).unwrap();
        for file in files {
            fs::write(folder.join(file), "").unwrap();
        }
        report_in(&folder).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_profile_comes_before_the_files_that_say_less() {
        let all = ["b_memory.json", "b_operations.json", "a_profile.log", "c.ttmem", ".hidden.ttmem"];
        assert_eq!(found("x", &all).unwrap(), "c.ttmem");
        assert_eq!(found("x", &all[..3]).unwrap(), "b_memory.json");
    }

    #[test]
    fn of_several_reports_the_folder_has_the_name_of_one() {
        assert_eq!(found("b", &["a_memory.json", "b_memory.json"]).unwrap(), "b_memory.json");
        assert_eq!(found("b", &["a.ttmem", "b.ttmem", "b_memory.json"]).unwrap(), "b.ttmem");
        let run = ["my_memory.json", "my_model_memory.json"];
        assert_eq!(found("my_model_20261115_081250", &run).unwrap(), "my_model_memory.json");
        let message = found("x", &["a_memory.json", "b_memory.json"]).unwrap_err().to_string();
        assert!(message.contains("several reports") && message.contains("b_memory.json"), "{message}");
    }

    #[test]
    fn the_files_of_ranks_are_no_reports_of_their_own() {
        let ranks = ["a_memory.json", "a_rank1-0_memory.json", "a_rank1-1_memory.json"];
        assert_eq!(found("x", &ranks).unwrap(), "a_memory.json");
        assert_eq!(found("x", &["low_rank_memory.json"]).unwrap(), "low_rank_memory.json");
    }

    #[test]
    fn a_folder_without_a_report_is_only_a_folder() {
        let error = found("x", &["a_operations.json", "a.log"]).unwrap_err();
        assert!(matches!(error, Error::Directory { .. }), "{error}");
    }
}
