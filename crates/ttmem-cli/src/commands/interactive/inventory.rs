//! The inventory: stored reports, recent logs, and a script to run.
//!
//! It must be quick in any folder: no tree is walked, and in a folder with very many logs only some of them are
//! checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use ttmem::model::words::counted;
use ttmem::store::{Store, Stored};

use super::paths::shorten;

/// The number of logs, profiles and scripts checked per folder.
const MAX_ENTRIES: usize = 2000;
/// The number of run folders checked, newest first.
const MAX_RUNS: usize = 40;
/// The number of recent files offered.
const MAX_RECENT: usize = 100;

/// The reports, logs and scripts to choose from.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    /// When the inventory was taken; `None` before the first time.
    pub taken: Option<Timestamp>,
    /// The current folder.
    pub here: PathBuf,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The SSH name of this machine: `user@host`.
    pub host: Option<String>,
    /// The stored reports, newest first.
    pub reports: Vec<Stored>,
    /// Logs and profiles, newest first.
    pub recent: Vec<RecentFile>,
    /// Whether there are more files than were checked.
    pub is_cut: bool,
    /// The newest Python script in the current folder.
    pub script: Option<String>,
    /// Why the stored reports cannot be listed.
    pub problem: Option<String>,
}

/// A recent log or profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentFile {
    /// Its path.
    pub path: PathBuf,
    /// When it was last written.
    pub written: SystemTime,
    /// Its size.
    pub bytes: u64,
}

impl Inventory {
    /// Takes the inventory.
    pub fn take(store: &ttmem::Result<Store>) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let listed = match store {
            Ok(store) => store.list().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (reports, problem) = match listed {
            Ok(reports) => (reports, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let found = files_in(&here);
        let recent = recent(&here, &found, &reports);
        Self {
            taken: Some(Timestamp::now()),
            recent: recent.parts,
            is_cut: recent.is_cut,
            script: newest_script(&found.parts),
            host: host(),
            home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            here,
            reports,
            problem,
        }
    }

    /// The path of a file, relative to the current folder if it is inside.
    pub fn name_from_here(&self, path: &Path) -> String {
        shorten(path, &self.here, None)
    }
}

/// A list that may be incomplete.
#[derive(Debug)]
struct Part<T> {
    parts: Vec<T>,
    is_cut: bool,
}

impl<T> Part<T> {
    /// The first `MAX_ENTRIES` items.
    fn of(all: impl Iterator<Item = T>) -> Self {
        let mut parts: Vec<T> = all.take(MAX_ENTRIES + 1).collect();
        let is_cut = parts.len() > MAX_ENTRIES;
        parts.truncate(MAX_ENTRIES);
        Self { parts, is_cut }
    }
}

/// The logs and profiles in this folder, in the run folders below it, and the sources of reports.
fn recent(here: &Path, found: &Part<RecentFile>, reports: &[Stored]) -> Part<RecentFile> {
    let sources = reports.iter().filter_map(|report| report.source.as_ref());
    let mut files: Vec<RecentFile> =
        sources.filter_map(|source| file_at(PathBuf::from(&source.path))).collect();
    let runs = folders_of_runs(&here.join("logs"));
    let below: Vec<Part<RecentFile>> = runs.parts.iter().map(|folder| files_in(folder)).collect();
    let is_cut = found.is_cut || runs.is_cut || below.iter().any(|folder| folder.is_cut);
    let here_and_below = found.parts.iter().cloned().chain(below.into_iter().flat_map(|folder| folder.parts));
    files.extend(here_and_below.filter(|file| is_log_or_profile(&file.path)));
    files.retain(|file| !has_its_log(&file.path));
    files.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.path.cmp(&b.path)));
    // The source of a report has its real path, a file here may have another: they may be the same file.
    let mut seen = Vec::new();
    let mut is_new = |file: &RecentFile| {
        let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        let is_new = !seen.contains(&path);
        seen.push(path);
        is_new
    };
    let parts = files.into_iter().filter(|file| is_new(file)).take(MAX_RECENT).collect();
    Part { parts, is_cut }
}

/// Whether a file is the profile of a run whose log is in the same folder. Only the log is offered.
fn has_its_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let run = name.and_then(|name| name.strip_suffix(".ttmem"));
    run.is_some_and(|run| path.with_file_name(format!("{run}_profile.log")).is_file())
}

/// Whether a file has the name of a log or a profile.
fn is_log_or_profile(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = [".gz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(&name);
    !name.starts_with('.') && (has_end(name, "log") || has_end(name, "ttmem"))
}

fn has_end(name: &str, end: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == end)
}

fn newest_script(found: &[RecentFile]) -> Option<String> {
    let name = |file: &RecentFile| Some(file.path.file_name()?.to_str()?.to_owned());
    let is_script = |file: &&RecentFile| {
        name(file).is_some_and(|name| has_end(&name, "py") && !name.starts_with(['.', '_', '-']))
    };
    let newest =
        found.iter().filter(is_script).max_by(|a, b| a.written.cmp(&b.written).then(b.path.cmp(&a.path)));
    newest.and_then(name)
}

/// The first logs, profiles and scripts of a folder. All names are read, because that is cheap.
fn files_in(folder: &Path) -> Part<RecentFile> {
    let wanted = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        is_log_or_profile(Path::new(&name)) || Path::new(&name).extension().is_some_and(|end| end == "py")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    Part::of(entries.filter(wanted).filter_map(|entry| file_at(entry.path())))
}

fn file_at(path: PathBuf) -> Option<RecentFile> {
    // A name that is not UTF-8 can be neither shown nor typed.
    path.to_str()?;
    let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some(RecentFile { written: metadata.modified().ok()?, bytes: metadata.len(), path })
}

/// The newest folders of `ttmem run`.
fn folders_of_runs(logs: &Path) -> Part<PathBuf> {
    let entries = fs::read_dir(logs).into_iter().flatten().filter_map(Result::ok);
    let mut folders = Part::of(
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))),
    );
    folders.parts.sort_unstable_by(|a, b| b.cmp(a));
    let newest = folders.parts.into_iter().take(MAX_RUNS);
    Part { parts: newest.map(|(_, path)| path).collect(), is_cut: folders.is_cut }
}

/// The SSH name of this machine, as far as it is known.
fn host() -> Option<String> {
    let host = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Some(user.map_or_else(|| host.clone(), |user| format!("{user}@{host}")))
}

/// The time since `then`, in words.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let (number, unit) = match seconds {
        0..60 => return "just now".into(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", counted(number, unit))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names(files: &[RecentFile]) -> Vec<String> {
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    /// Writes a file with an age in minutes.
    fn write(path: &Path, minutes: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
    }

    #[test]
    fn recent_files_are_those_here_and_of_runs_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        for (name, minutes) in [
            ("b.log", 3),
            ("a_profile.log", 1),
            ("c.ttmem", 5),
            ("packed.log.gz", 7),
            (".hidden.log", 0),
            ("notes.txt", 0),
            ("logs/vae_20261115_081250/vae_profile.log", 2),
            ("logs/vae_20261115_081250/deeper/x.log", 0),
            ("other/y.log", 0),
            ("logs/direct.log", 0),
        ] {
            write(&here.join(name), minutes);
        }
        let found = recent(here, &files_in(here), &[]);
        assert_eq!(
            names(&found.parts),
            ["a_profile.log", "vae_profile.log", "b.log", "c.ttmem", "packed.log.gz"]
        );
    }

    #[test]
    fn the_log_of_a_run_is_offered_but_not_its_profile() {
        let folder = tempfile::tempdir().unwrap();
        for (name, minutes) in [
            ("logs/vae_1/vae_profile.log", 3),
            ("logs/vae_1/vae.ttmem", 1),
            ("alone.ttmem", 5),
            ("b.ttmem", 7),
            ("b.log", 9),
        ] {
            write(&folder.path().join(name), minutes);
        }
        let found = recent(folder.path(), &files_in(folder.path()), &[]);
        assert_eq!(names(&found.parts), ["vae_profile.log", "alone.ttmem", "b.ttmem", "b.log"]);
    }

    #[test]
    fn other_files_do_not_hide_logs_and_a_cut_list_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: usize, end: &str| folder.path().join(format!("{number}.{end}"));
        for number in 0..=MAX_ENTRIES {
            fs::write(name(number, "txt"), "").unwrap();
        }
        fs::create_dir(folder.path().join("logs")).unwrap();
        for number in 0..=MAX_ENTRIES {
            fs::write(folder.path().join(format!("logs/{number}.txt")), "").unwrap();
        }
        write(&folder.path().join("logs/run/x_profile.log"), 2);
        write(&name(0, "log"), 1);
        let found = recent(folder.path(), &files_in(folder.path()), &[]);
        assert_eq!(
            (names(&found.parts), found.is_cut),
            (vec!["0.log".into(), "x_profile.log".into()], false)
        );
        for number in 1..=MAX_ENTRIES {
            fs::write(name(number, "log"), "").unwrap();
        }
        assert!(recent(folder.path(), &files_in(folder.path()), &[]).is_cut);
    }

    #[test]
    fn the_newest_script_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        for (name, minutes) in [("old.py", 9), ("model.py", 2), ("__init__.py", 0), ("x.txt", 0)] {
            write(&folder.path().join(name), minutes);
        }
        assert_eq!(newest_script(&files_in(folder.path()).parts).as_deref(), Some("model.py"));
        assert_eq!(newest_script(&[]), None);
    }

    #[test]
    fn the_source_of_a_report_is_offered_once() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/two-graphs.log");
        let here = folder.path().join("here");
        let log = here.join("two-graphs.log");
        write(&log, 0);
        fs::copy(corpus, &log).unwrap();
        let store = Store::at(folder.path().join("home"));
        let file = log.display().to_string();
        store.save(&mut ttmem::read::open(&file).unwrap(), &file, None).unwrap();
        let reports = store.list().unwrap();
        let nothing = Part::of(std::iter::empty());
        assert_eq!(names(&recent(&here, &files_in(&here), &reports).parts), ["two-graphs.log"]);
        assert_eq!(names(&recent(folder.path(), &nothing, &reports).parts), ["two-graphs.log"]);
        fs::remove_file(&log).unwrap();
        assert_eq!(recent(folder.path(), &nothing, &reports).parts, []);
    }

    #[test]
    fn times_are_printed_in_words() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (seconds, words) in [
            (-5, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (7199, "1 hour ago"),
            (7200, "2 hours ago"),
            (200_000, "2 days ago"),
        ] {
            let then = Timestamp::from_second(1_000_000 - seconds).unwrap();
            assert_eq!(ago(then, now), words);
        }
    }
}
