//! Selects the report file in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ttmem_model::words::{by_count, counted_as};
use ttmem_model::{Error, Event, Launch, RankEvent, Result, Sink, Warning, frame};

use super::{snapshot_files, tt_json};

/// Suffixes of report files, the most detailed first.
const ENDS: [&str; 4] = [".ttmem", tt_json::MEMORY, "_memory.json.gz", "_memory.json.zst"];

/// The database of a ttnn report.
const TTNN_DATABASE: &str = "db.sqlite";

/// The number of files that an error names.
const SHOWN: usize = 5;

/// Suffixes before the extension that mark a recording's earlier files and its unfinished file.
const EARLIER: [&str; 3] = ["before", "peak", "next"];

/// The report file of a folder: its profile, otherwise the memory file, which tt-memory-profiler 0.x also wrote.
///
/// If there are several, the one named after the folder. A folder of `ttmem run` has a time after that name.
pub fn report_in(folder: &Path) -> Result<PathBuf> {
    let failed = |source| Error::Read { path: folder.into(), source };
    let names: Vec<String> = fs::read_dir(folder)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_file()))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
    let own = fs::canonicalize(folder).map_err(failed)?;
    let own = own.file_name().unwrap_or_default().to_string_lossy();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match report_among(&own, &names) {
        // ttnn keeps each of its reports in a folder.
        Among::None if names.contains(&TTNN_DATABASE) => Ok(folder.join(TTNN_DATABASE)),
        Among::None => match snapshot_files::snapshots(folder).as_slice() {
            [] => Err(without_report(folder, &names)),
            [only] => Ok(only.clone()),
            several @ [first, ..] => Err(Error::NotFound(format!(
                "{}: {} memory snapshots; pass one of the files ({} …), or the folder to `ttmem summary`",
                folder.display(),
                several.len(),
                name_in(folder, first)
            ))),
        },
        Among::One(report) => Ok(folder.join(report.file)),
        Among::Several(reports) => Err(several(folder, &reports)),
    }
}

/// Whether a `.ttmem` file is the profile of a report, which has an entry for the list of reports next to it.
pub fn has_report_of(profile: &Path) -> bool {
    let stem = profile.file_stem().unwrap_or_default().to_string_lossy();
    profile.with_file_name(format!("{stem}_about.json")).is_file()
}

/// Whether a file is an earlier part of a recording whose newest file is next to it.
pub fn is_earlier_file(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let of = stem.rsplit_once('.').filter(|(_, what)| EARLIER.contains(what));
    of.is_some_and(|(newest, _)| path.with_file_name(format!("{newest}.ttmem")).is_file())
}

/// The reports among a folder's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Among<'a> {
    /// No report.
    None,
    /// The only report, or the one named after the folder.
    One(Report<'a>),
    /// Several reports, none of them named after the folder.
    Several(Vec<Report<'a>>),
}

/// A report, represented by its most detailed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report<'a> {
    /// The common prefix of its file names.
    pub stem: &'a str,
    /// The most detailed file.
    pub file: &'a str,
}

/// The report that a folder of this name contains.
pub fn report_among<'a>(folder: &str, files: &[&'a str]) -> Among<'a> {
    let ending = |end: &'static str| {
        let visible = files.iter().filter(|file| !file.starts_with('.'));
        let with_end = move |file: &&'a str| Some(Report { stem: file.strip_suffix(end)?, file });
        let mut found: Vec<Report<'a>> = visible.filter_map(with_end).collect();
        found.sort_unstable();
        found
    };
    let found = ENDS.into_iter().map(ending).find(|found| !found.is_empty()).unwrap_or_default();
    // The files of each rank are next to those of the rank with the highest usage.
    let is_rank = |report: &&Report<'_>| {
        let of = report.stem.rsplit_once("_rank");
        of.is_some_and(|(of, _)| found.iter().any(|other| other.stem == of))
    };
    // Earlier files are next to the newest file of a recording that has rotated.
    let is_earlier = |report: &&Report<'_>| {
        let of = report.stem.rsplit_once('.').filter(|(_, what)| EARLIER.contains(what));
        of.is_some_and(|(of, _)| found.iter().any(|other| other.stem == of))
    };
    let is_own = |report: &&Report<'_>| !is_rank(report) && !is_earlier(report);
    let reports: Vec<Report<'a>> = found.iter().filter(is_own).copied().collect();
    let is_run =
        |report: &&Report<'_>| folder.strip_prefix(report.stem).is_some_and(|rest| rest.starts_with('_'));
    let named = reports.iter().find(|report| report.stem == folder);
    let of_run = || reports.iter().filter(is_run).max_by_key(|report| report.stem.len());
    match (named.or_else(of_run), &reports[..]) {
        (Some(report), _) | (None, [report]) => Among::One(*report),
        (None, []) => Among::None,
        (None, _) => Among::Several(reports),
    }
}

/// The files of the ranks of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankFiles {
    /// The files: recordings by rank, or snapshots by name.
    pub files: Vec<PathBuf>,
    /// The other recordings in the folder, or older snapshots of the same ranks.
    pub others: Vec<PathBuf>,
    are_snapshots: bool,
}

impl RankFiles {
    /// Warnings about files of the folder that are not included, and about ranks that cannot be compared.
    pub fn warnings(&self, folder: &Path) -> Vec<Warning> {
        let iterations = self.iterations_warning(folder);
        self.others_warning(folder).into_iter().chain(iterations).collect()
    }

    /// A warning if the snapshots of the ranks are of different iterations, because the newest of a rank is missing.
    fn iterations_warning(&self, folder: &Path) -> Option<Warning> {
        if !self.are_snapshots || !self.have_different_ranks() {
            return None;
        }
        let mut found = Vec::new();
        for file in &self.files {
            let name = file.strip_prefix(folder).unwrap_or(file);
            found.extend(snapshot_files::iteration_of(name).map(|iteration| (iteration, file)));
        }
        let (oldest, newest) = (found.iter().min()?, found.iter().max()?);
        if oldest.0 == newest.0 {
            return None;
        }
        let names = [newest.1, oldest.1].map(|file| name_in(folder, file));
        let message = format!(
            "the newest snapshots of the ranks are of different iterations ({}), so differences between ranks may be due to that",
            names.join(", ")
        );
        Some(Warning { line: None, message })
    }

    fn others_warning(&self, folder: &Path) -> Option<Warning> {
        const MAX_NAMES: usize = 20;
        if self.files.is_empty() || self.others.is_empty() {
            return None;
        }
        let (count, place) = (self.others.len(), folder.display());
        let others = if self.are_snapshots {
            counted_as(count, "older snapshot of these ranks", "older snapshots of these ranks")
        } else {
            counted_as(count, "recording of another program", "recordings of other programs")
        };
        let verb = by_count(count, "is", "are");
        let names: Vec<String> = self.others.iter().map(|file| name_in(folder, file)).collect();
        let names = first_of(&names, MAX_NAMES);
        let message =
            format!("{others} in {place} {verb} not included ({names}); pass the files to see them");
        Some(Warning { line: None, message })
    }

    /// Whether the files are those of different ranks.
    pub fn have_different_ranks(&self) -> bool {
        let ranks: BTreeSet<_> = self.files.iter().filter_map(|file| snapshot_files::rank_of(file)).collect();
        !self.are_snapshots || ranks.len() == self.files.len()
    }
}

/// The files of several ranks in a folder without a report: the newest memory snapshot of each rank, or the recordings of
/// the newest program; none if the folder has neither.
pub fn ranks_in(folder: &Path) -> RankFiles {
    let snapshots = snapshots_in(folder);
    if snapshots.files.is_empty() { recordings_in(folder) } else { snapshots }
}

/// The memory snapshots in a folder without a report.
fn snapshots_in(folder: &Path) -> RankFiles {
    if !folder.is_dir() || report_in(folder).is_ok() {
        return RankFiles::default();
    }
    let names = names_in(folder);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if !matches!(report_among("", &names), Among::None) {
        return RankFiles::default();
    }
    let (files, others) = snapshot_files::newest(folder, snapshot_files::snapshots(folder));
    RankFiles { files, others, are_snapshots: true }
}

/// The recordings of the newest program with several ranks in a folder without a report; none if the folder has only
/// recordings of other programs.
pub fn recordings_in(folder: &Path) -> RankFiles {
    let names = names_in(folder);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let own = fs::canonicalize(folder).unwrap_or_default();
    let own = own.file_name().unwrap_or_default().to_string_lossy();
    let Among::Several(reports) = report_among(&own, &names) else { return RankFiles::default() };
    let recordings =
        reports.iter().map(|report| folder.join(report.file)).filter(|path| !has_report_of(path));
    let launched: Vec<Launched> = recordings.filter_map(|path| Launched::read(&path)).collect();
    let all: Vec<PathBuf> = launched.iter().map(|one| one.path.clone()).collect();
    let files = of_newest_program(launched);
    let others = all.into_iter().filter(|path| !files.contains(path)).collect();
    RankFiles { files, others, are_snapshots: false }
}

/// The names of the files in a folder; none if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let files = entries.filter(|path| path.is_file());
    files.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// The path of a file from its folder.
fn name_in(folder: &Path, file: &Path) -> String {
    file.strip_prefix(folder).unwrap_or(file).display().to_string()
}

/// How a recording was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Launched {
    path: PathBuf,
    began: u64,
    /// The rank and the number of ranks.
    rank: Option<(u32, u32)>,
}

impl Launched {
    /// Reads the beginning of a recording.
    fn read(path: &Path) -> Option<Self> {
        let mut beginning = Beginning::default();
        // Reading stops with an error when everything is known.
        let _ = frame::read(&mut File::open(path).ok()?, &path.to_string_lossy(), &mut beginning);
        let launch = beginning.launch?;
        Some(Self {
            path: path.to_owned(),
            began: beginning.began?,
            rank: launch.rank.zip(launch.world_size),
        })
    }
}

/// The facts at the beginning of a recording.
#[derive(Debug, Default)]
struct Beginning {
    began: Option<u64>,
    launch: Option<Launch>,
    events: usize,
}

impl Sink for Beginning {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        /// They are among the first events.
        const MAX_EVENTS: usize = 1000;
        match event {
            Event::Of(_, RankEvent::Began(time)) => self.began = Some(time),
            Event::Of(_, RankEvent::Launch(launch)) => self.launch = Some(launch),
            _ => {}
        }
        self.events += 1;
        if self.began.is_some() && self.launch.is_some() || self.events > MAX_EVENTS {
            return Err(Error::Usage("the beginning is known".into()));
        }
        Ok(())
    }
}

/// The recordings of the program that started last, by rank.
fn of_newest_program(mut launched: Vec<Launched>) -> Vec<PathBuf> {
    /// All ranks of a program start within this time.
    const MAX_DELAY: u64 = 600_000_000_000;
    launched.retain(|one| one.rank.is_some_and(|(_, size)| size > 1));
    launched.sort_by_key(|one| std::cmp::Reverse(one.began));
    let Some(newest) = launched.first().cloned() else { return Vec::new() };
    let mut files: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for one in launched {
        let Some((rank, size)) = one.rank else { break };
        let is_of_program = newest.rank.is_some_and(|(_, of_newest)| of_newest == size)
            && newest.began - one.began < MAX_DELAY
            && !files.contains_key(&rank);
        if !is_of_program {
            break;
        }
        files.insert(rank, one.path);
    }
    files.into_values().collect()
}

fn without_report(folder: &Path, names: &[&str]) -> Error {
    let is_log = |name: &&str| Path::new(name).extension().is_some_and(|end| end == "log");
    let mut logs: Vec<&str> = names.iter().copied().filter(is_log).collect();
    logs.sort_unstable();
    let place = folder.display();
    let message = match logs[..] {
        [] => return Error::Directory { path: folder.into() },
        [log] => {
            format!("folder with a log but no report; run `ttmem report {}`", folder.join(log).display())
        }
        _ => format!(
            "folder with {} logs but no report; pass the files ({}) to `ttmem summary`, or one of them",
            logs.len(),
            first_of(&logs, SHOWN)
        ),
    };
    Error::NotFound(format!("{place}: {message}"))
}

fn several(folder: &Path, reports: &[Report<'_>]) -> Error {
    let names: Vec<&str> = reports.iter().map(|report| report.file).collect();
    Error::NotFound(format!(
        "{}: several reports or recordings; pass one of the files ({}), or the folder of a program with several ranks to \
         `ttmem summary`",
        folder.display(),
        first_of(&names, SHOWN)
    ))
}

/// The first of several names.
fn first_of(names: &[impl AsRef<str>], count: usize) -> String {
    let shown: Vec<&str> = names.iter().take(count).map(AsRef::as_ref).collect();
    let more = if names.len() > count { " …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file selected in a folder of this name with these files.
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
    fn the_earlier_files_of_a_recording_are_no_reports_of_their_own() {
        let files = ["a.before.ttmem", "a.json", "a.peak.ttmem", "a.ttmem"];
        assert_eq!(found("x", &files).unwrap(), "a.ttmem");
        assert_eq!(found("x", &files[..1]).unwrap(), "a.before.ttmem");
    }

    #[test]
    fn the_folder_of_a_ttnn_report_is_its_database() {
        let files = ["config.json", "cluster_descriptor.yaml", "db.sqlite"];
        assert_eq!(found("1234", &files).unwrap(), "db.sqlite");
        assert_eq!(found("1234", &["db.sqlite", "a.ttmem"]).unwrap(), "a.ttmem");
    }

    #[test]
    fn a_folder_of_snapshots_has_one_per_rank() {
        assert_eq!(found("x", &["rank0.pickle", "notes.txt"]).unwrap(), "rank0.pickle");
        let message = found("x", &["rank0.pickle", "rank1.pkl.gz"]).unwrap_err().to_string();
        assert!(message.contains("2 memory snapshots; pass one of the files (rank0.pickle …)"), "{message}");
        assert_eq!(found("x", &["rank0.pickle", "a.ttmem"]).unwrap(), "a.ttmem");
    }

    #[test]
    fn the_error_for_a_folder_of_logs_names_all_of_them() {
        let message = |files: &[&str]| found("x", files).unwrap_err().to_string();
        assert!(message(&["a.log"]).ends_with("x/a.log`"));
        let several = message(&["rank1.log", "rank0.log", "notes.txt"]);
        assert!(several.contains("2 logs but no report; pass the files (rank0.log, rank1.log)"), "{several}");
    }

    #[test]
    fn older_snapshots_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rank0_iter9.pickle", "rank0_iter10.pickle", "rank1_iter10.pickle"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let ranks = ranks_in(folder.path());
        let names: Vec<String> = ranks.files.iter().map(|file| name_in(folder.path(), file)).collect();
        assert_eq!(names, ["rank0_iter10.pickle", "rank1_iter10.pickle"]);
        assert!(ranks.have_different_ranks());
        let [warning] = ranks.warnings(folder.path()).try_into().unwrap();
        let warning = warning.message;
        assert!(warning.starts_with("1 older snapshot of these ranks in "), "{warning}");
        assert!(
            warning.ends_with(" is not included (rank0_iter9.pickle); pass the files to see them"),
            "{warning}"
        );
        fs::write(folder.path().join("rank1_before.pickle"), "").unwrap();
        assert!(!ranks_in(folder.path()).have_different_ranks());
    }

    #[test]
    fn snapshots_of_different_iterations_are_named() {
        let warnings = |names: &[&str]| -> Vec<String> {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
                fs::write(folder.path().join(name), "").unwrap();
            }
            let warnings = ranks_in(folder.path()).warnings(folder.path());
            warnings.into_iter().map(|warning| warning.message).collect()
        };
        let differ = "the newest snapshots of the ranks are of different iterations";
        let found = warnings(&["rank0_iter9.pickle", "rank0_iter10.pickle", "rank1_iter9.pickle"]);
        assert!(found[0].starts_with("1 older snapshot"), "{found:?}");
        assert!(
            found[1].starts_with(&format!("{differ} (rank0_iter10.pickle, rank1_iter9.pickle), ")),
            "{found:?}"
        );
        let nested = ["rank_0/step_10/x.pickle", "rank_1/step_8/x.pickle"];
        assert!(warnings(&nested)[0].starts_with(differ));
        for same in [
            ["rank0_iter9.pickle", "rank1_iter9.pickle"],
            ["iteration_9/rank0.pickle", "iteration_9_exit/rank1.pickle"],
            // Ranks write their snapshots at slightly different times.
            ["rank0_20251119_090000.pickle", "rank1_20251119_090001.pickle"],
            ["snapshot_time1757200000.9_rank0_x.pickle", "snapshot_time1757200001.1_rank1_x.pickle"],
            ["rank0.pickle", "rank1_iter9.pickle"],
        ] {
            assert_eq!(warnings(&same), [""; 0], "{same:?}");
        }
    }

    #[test]
    fn the_ranks_of_the_newest_program_belong_together() {
        let one = |name: &str, began: u64, rank: Option<(u32, u32)>| Launched {
            path: name.into(),
            began: began * 1_000_000_000,
            rank,
        };
        let found = |launched: &[Launched]| -> Vec<String> {
            of_newest_program(launched.to_vec()).iter().map(|path| path.display().to_string()).collect()
        };
        let new = [one("b", 5001, Some((1, 2))), one("a", 5000, Some((0, 2))), one("launcher", 5002, None)];
        assert_eq!(found(&new), ["a", "b"]);
        // Of earlier programs: the same rank again, another number of ranks, or long ago.
        for old in [one("c", 4990, Some((1, 2))), one("c", 4990, Some((3, 4))), one("c", 4000, Some((0, 2)))]
        {
            let all: Vec<Launched> = new.iter().cloned().chain([old]).collect();
            assert_eq!(found(&all), ["a", "b"]);
        }
        assert_eq!(found(&[one("c", 4000, Some((0, 2))), one("b", 5001, Some((1, 2)))]), ["b"]);
        assert_eq!(found(&[one("x", 1, None), one("y", 2, Some((0, 1)))]), Vec::<String>::new());
    }

    #[test]
    fn a_folder_without_a_report_is_only_a_folder() {
        let error = found("x", &["a_operations.json"]).unwrap_err();
        assert!(matches!(error, Error::Directory { .. }), "{error}");
        let error = found("x", &["a_operations.json", "a_profile.log"]).unwrap_err();
        assert!(error.to_string().ends_with("x/a_profile.log`") && error.exit_code() == 2, "{error}");
    }
}
