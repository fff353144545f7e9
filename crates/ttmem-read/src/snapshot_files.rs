//! The memory snapshots in a folder: the rank of each, and the newest ones.
//!
//! Snapshots do not contain their rank, so it comes from the names of files and folders, as does the iteration:
//! `iteration_10/rank0_memory_snapshot.pickle` (torchtitan), `memory_snapshot_time1757200000.5_rank0_snapshot.pickle`
//! (slime), `oom_rank-0_snapshot.pickle`, `rank_0/step_10/snapshot.pickle`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of levels of subfolders that are searched.
const MAX_DEPTH: usize = 4;
/// Words before the number of an iteration or a time.
const MOMENTS: [&str; 8] = ["ba", "epoch", "it", "iter", "iteration", "rollout", "step", "time"];
/// Numbers with at least this many digits are dates or times.
const TIME_DIGITS: usize = 8;

/// The label of a snapshot's rank: the number after `rank` in the name of the file, or else of the nearest folder. If a
/// name has several (`tp_rank1_pp_rank0`), all of them: `1,0`.
pub(crate) fn rank_of(path: &Path) -> Option<String> {
    let names = path.ancestors().filter_map(|path| path.file_name()?.to_str());
    names.map(rank_in).find(|label| !label.is_empty())
}

fn rank_in(name: &str) -> String {
    let numbers = Numbers::of(name).filter(Number::is_rank);
    let ranks: Vec<&str> = numbers.map(|number| canonical(number.digits)).collect();
    ranks.join(",")
}

/// The files of memory snapshots in a folder, or else those in its subfolders whose names have a rank; in order.
pub(crate) fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let is_of_rank = |file: &Path| file.strip_prefix(folder).is_ok_and(|file| rank_of(file).is_some());
    let mut found = files_in(folder, MAX_DEPTH);
    found.retain(|file| file.parent() == Some(folder) || is_of_rank(file));
    found.sort_unstable();
    found
}

fn files_in(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    let files: Vec<PathBuf> =
        entries.iter().filter(|path| is_snapshot(path) && path.is_file()).cloned().collect();
    if !files.is_empty() || depth == 0 {
        return files;
    }
    // A link often leads to the newest of the other folders.
    let is_folder = |path: &&PathBuf| path.is_dir() && !path.is_symlink() && !is_hidden(path);
    entries.iter().filter(is_folder).flat_map(|folder| files_in(folder, depth - 1)).collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn is_snapshot(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let plain = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    !is_hidden(path) && [".pickle", ".pkl"].iter().any(|end| plain.ends_with(end))
}

/// Separates the newest snapshot of each rank from older ones, whose names differ only in the iteration or time.
pub(crate) fn newest(folder: &Path, files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut series: BTreeMap<String, Vec<(Vec<u64>, PathBuf)>> = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy();
        let Moment { rest, numbers } = Moment::of(&name);
        // Without a rank, the files may be of different programs.
        let key = if rank_of(Path::new(&*name)).is_some() { rest } else { name.into_owned() };
        series.entry(key).or_default().push((numbers, file));
    }
    let (mut newest, mut older) = (Vec::new(), Vec::new());
    for mut files in series.into_values() {
        files.sort_unstable();
        newest.extend(files.pop().map(|(_, file)| file));
        older.extend(files.into_iter().map(|(_, file)| file));
    }
    newest.sort_unstable();
    (newest, older)
}

/// The numbers of the iteration in the name of a snapshot; none if it has only a time or neither.
pub(crate) fn iteration_of(path: &Path) -> Option<Vec<u64>> {
    let name = path.to_string_lossy();
    let is_iteration = |number: &Number<'_>| number.is_iteration() && !number.is_time();
    let numbers: Vec<u64> = Numbers::of(&name)
        .filter(is_iteration)
        .map(|number| number.digits.parse().unwrap_or(u64::MAX))
        .collect();
    (!numbers.is_empty()).then_some(numbers)
}

/// The iteration or time in a name.
struct Moment {
    /// The name without these numbers.
    rest: String,
    numbers: Vec<u64>,
}

impl Moment {
    fn of(name: &str) -> Self {
        let mut moment = Self { rest: String::new(), numbers: Vec::new() };
        let (mut done, mut is_time) = (0, false);
        for number in Numbers::of(name) {
            let between = &name[done..number.start];
            let goes_on = is_time && between.len() == 1;
            is_time = goes_on || number.is_time();
            if is_time || number.is_iteration() {
                moment.rest.push_str(between);
                moment.numbers.push(number.digits.parse().unwrap_or(u64::MAX));
                done = number.start + number.digits.len();
                // torchtitan marks the snapshot of a program that ran out of memory.
                if let Some(rest) = name[done..].strip_prefix("_exit") {
                    moment.numbers.push(1);
                    done = name.len() - rest.len();
                }
            } else {
                let end = number.start + number.digits.len();
                moment.rest.push_str(&name[done..end]);
                done = end;
            }
        }
        moment.rest.push_str(&name[done..]);
        moment
    }
}

/// A number in a name.
struct Number<'a> {
    /// What precedes it, without a separator.
    before: &'a str,
    start: usize,
    digits: &'a str,
}

impl Number<'_> {
    fn is_rank(&self) -> bool {
        // The rank of a LoRA adapter is the size of its matrices.
        let is_of_adapter = || self.before.to_ascii_lowercase().ends_with("lora_rank");
        self.is_after("rank") && !is_of_adapter()
    }

    fn is_iteration(&self) -> bool {
        MOMENTS.iter().any(|word| self.is_after(word))
    }

    fn is_time(&self) -> bool {
        self.is_after("time") || self.digits.len() >= TIME_DIGITS && !self.is_rank()
    }

    /// Whether it follows a word.
    fn is_after(&self, word: &str) -> bool {
        let letters = self.before.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        self.before[letters.len()..].eq_ignore_ascii_case(word)
    }
}

/// The numbers in a name, in order.
struct Numbers<'a> {
    name: &'a str,
    at: usize,
}

impl<'a> Numbers<'a> {
    fn of(name: &'a str) -> Self {
        Self { name, at: 0 }
    }
}

impl<'a> Iterator for Numbers<'a> {
    type Item = Number<'a>;

    fn next(&mut self) -> Option<Number<'a>> {
        let is_digit = |letter: char| letter.is_ascii_digit();
        let start = self.at + self.name[self.at..].find(is_digit)?;
        let rest = &self.name[start..];
        let digits = &rest[..rest.find(|letter| !is_digit(letter)).unwrap_or(rest.len())];
        self.at = start + digits.len();
        let before = &self.name[..start];
        let before = before.strip_suffix(['_', '-', '=']).unwrap_or(before);
        Some(Number { before, start, digits })
    }
}

/// A number without leading zeros.
fn canonical(digits: &str) -> &str {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { "0" } else { significant }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_in_the_name_of_the_file_or_of_the_nearest_folder() {
        for (path, rank) in [
            ("rank3.pickle", Some("3")),
            ("snapshot_rank3.pickle", Some("3")),
            ("snapshot-RANK-12.pkl.gz", Some("12")),
            ("iteration_10/rank0_memory_snapshot.pickle", Some("0")),
            ("memory_snapshot_time1757200000.25_rank7_snapshot.pickle", Some("7")),
            ("oom_rank-5_snapshot.pickle", Some("5")),
            ("rank_2/step_10/snapshot.pickle", Some("2")),
            ("rank_1/old/rank_2/x.pickle", Some("2")),
            ("rank_1/rank_02.pickle", Some("2")),
            ("mp_rank_00/x.pickle", Some("0")),
            ("tp_rank1_pp_rank0.pickle", Some("1,0")),
            ("lora_rank8/rank0/x.pickle", Some("0")),
            ("lora_rank8/x.pickle", None),
            ("frank1/x.pickle", None),
            ("ranking_2.pickle", None),
            ("rank.pickle", None),
            ("iter10.pickle", None),
            ("", None),
        ] {
            assert_eq!(rank_of(Path::new(path)).as_deref(), rank, "{path}");
        }
    }

    /// The newest files and the older ones.
    fn parted<'a>(names: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
        let files = names.iter().map(|name| Path::new("folder").join(name)).collect();
        let (newest, older) = newest(Path::new("folder"), files);
        let names = |files: Vec<PathBuf>| {
            let name =
                |file: &PathBuf| names.iter().copied().find(|name| Path::new("folder").join(name) == *file);
            files.iter().filter_map(name).collect()
        };
        (names(newest), names(older))
    }

    #[test]
    fn the_newest_snapshot_of_a_rank_replaces_older_ones() {
        for names in [
            ["rank0_iter9.pickle", "rank0_iter10.pickle"],
            ["iteration_9/rank0_memory_snapshot.pickle", "iteration_10/rank0_memory_snapshot.pickle"],
            ["iteration_9/rank0_memory_snapshot.pickle", "iteration_9_exit/rank0_memory_snapshot.pickle"],
            ["iteration_9_exit/rank0_memory_snapshot.pickle", "iteration_10/rank0_memory_snapshot.pickle"],
            ["snapshot_time1757200000.9_rank0_x.pickle", "snapshot_time1757200060.1_rank0_x.pickle"],
            ["rank0_20251119_090000.pickle", "rank0_20251119_170000.pickle"],
            ["rank_0/step_9/x.pickle", "rank_0/step_10/x.pickle"],
        ] {
            let [older, newer] = names;
            assert_eq!(parted(&[newer, older]), (vec![newer], vec![older]));
        }
        let all = ["rank0_step1.pickle", "rank0_step2.pickle", "rank1_step1.pickle", "rank1_step3.pickle"];
        assert_eq!(parted(&all), (vec![all[1], all[3]], vec![all[0], all[2]]));
    }

    #[test]
    fn snapshots_that_differ_in_more_than_the_iteration_are_kept() {
        for names in [
            ["node0_rank0.pickle", "node1_rank0.pickle"],
            ["oom_rank-0_x.pickle", "snapshot_time1757200000.5_rank0_x.pickle"],
            ["rank0_after.pickle", "rank0_before.pickle"],
            ["batch16_rank0.pickle", "batch32_rank0.pickle"],
            ["rank12345678.pickle", "rank12345679.pickle"],
            // Nothing tells that they are of one rank.
            ["step_1.pickle", "step_2.pickle"],
        ] {
            assert_eq!(parted(&names), (names.to_vec(), Vec::new()));
        }
    }

    #[test]
    fn subfolders_are_searched_for_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        for other in ["x/data.pkl", ".cache/rank0.pickle", "a/b/c/d/e/rank9.pickle", "rank_0/notes.txt"] {
            write(other);
        }
        assert_eq!(snapshots(folder.path()), Vec::<PathBuf>::new());
        let nested = ["rank_0/step_1/x.pickle", "rank_1/step_1/x.pickle.gz"].map(write);
        assert_eq!(snapshots(folder.path()), nested);
        let own = write("x.pickle");
        assert_eq!(snapshots(folder.path()), [own]);
    }
}
