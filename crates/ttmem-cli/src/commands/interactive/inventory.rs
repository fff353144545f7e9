//! What there is to look at: stored reports, recent logs, and a script that might be run.
//!
//! Taking stock must be quick wherever people start: no tree is walked, and where very many files are called like
//! logs only a part of them is looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use ttmem::store::{Store, Stored};

use super::paths::shorten;

/// Of a folder, at most so many files with a fitting name are looked at.
const MOST_ENTRIES: usize = 2000;
/// So many folders of runs are looked into, the newest.
const MOST_RUNS: usize = 40;
/// So many recent files are offered.
const MOST_RECENT: usize = 100;

/// What there is to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Inventory {
    /// When stock was taken.
    pub taken: Option<Timestamp>,
    /// Where we are.
    pub here: PathBuf,
    /// Where `~` is.
    pub home: Option<PathBuf>,
    /// How this machine is called from another: `user@host`.
    pub host: Option<String>,
    /// The stored reports, the newest first.
    pub reports: Vec<Stored>,
    /// Logs and profiles, the newest first.
    pub recent: Vec<RecentFile>,
    /// Whether there are more files than were looked at.
    pub is_cut: bool,
    /// The newest Python script here.
    pub script: Option<String>,
    /// Why the stored reports cannot be told.
    pub trouble: Option<String>,
}

/// A log or profile that might be wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentFile {
    /// Where it is.
    pub path: PathBuf,
    /// When it was last written.
    pub written: SystemTime,
    /// Its size.
    pub bytes: u64,
}

impl Inventory {
    /// Looks at what there is.
    pub fn take(store: &ttmem::Result<Store>) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let listed = match store {
            Ok(store) => store.list().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let (reports, trouble) = match listed {
            Ok(reports) => (reports, None),
            Err(trouble) => (Vec::new(), Some(trouble)),
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
            trouble,
        }
    }

    /// The name by which a file is opened from here: short where it lies below.
    pub fn name_from_here(&self, path: &Path) -> String {
        shorten(path, &self.here, None)
    }
}

/// What was looked at of something, and whether that is not all of it.
#[derive(Debug)]
struct Part<T> {
    parts: Vec<T>,
    is_cut: bool,
}

impl<T> Part<T> {
    /// The first of what there is, as much as is looked at.
    fn of(all: impl Iterator<Item = T>) -> Self {
        let mut parts: Vec<T> = all.take(MOST_ENTRIES + 1).collect();
        let is_cut = parts.len() > MOST_ENTRIES;
        parts.truncate(MOST_ENTRIES);
        Self { parts, is_cut }
    }
}

/// The logs and profiles here, in the folders of runs below, and what reports were made from.
fn recent(here: &Path, found: &Part<RecentFile>, reports: &[Stored]) -> Part<RecentFile> {
    let sources = reports.iter().filter_map(|report| report.source.as_ref());
    let mut files: Vec<RecentFile> =
        sources.filter_map(|source| file_at(PathBuf::from(&source.path))).collect();
    let runs = folders_of_runs(&here.join("logs"));
    let below: Vec<Part<RecentFile>> = runs.parts.iter().map(|folder| files_in(folder)).collect();
    let is_cut = found.is_cut || runs.is_cut || below.iter().any(|folder| folder.is_cut);
    let here_and_below = found.parts.iter().cloned().chain(below.into_iter().flat_map(|folder| folder.parts));
    files.extend(here_and_below.filter(|file| is_evidence(&file.path)));
    files.retain(|file| !has_its_log(&file.path));
    files.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.path.cmp(&b.path)));
    // A source is known by its real path, a file here by the way we came: they may be one.
    let mut seen = Vec::new();
    let mut is_new = |file: &RecentFile| {
        let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
        let is_new = !seen.contains(&path);
        seen.push(path);
        is_new
    };
    let parts = files.into_iter().filter(|file| is_new(file)).take(MOST_RECENT).collect();
    Part { parts, is_cut }
}

/// Whether a file is the profile of a run whose log lies beside it: one of them is enough, and the log is more.
fn has_its_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let run = name.and_then(|name| name.strip_suffix(".ttmem"));
    run.is_some_and(|run| path.with_file_name(format!("{run}_profile.log")).is_file())
}

/// Whether a file is called like a log or a profile.
fn is_evidence(path: &Path) -> bool {
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

/// The logs, profiles and scripts of a folder, as many as are looked at. Names cost little, so all are read.
fn files_in(folder: &Path) -> Part<RecentFile> {
    let wanted = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        is_evidence(Path::new(&name)) || Path::new(&name).extension().is_some_and(|end| end == "py")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    Part::of(entries.filter(wanted).filter_map(|entry| file_at(entry.path())))
}

fn file_at(path: PathBuf) -> Option<RecentFile> {
    // A name that is no text can be neither shown nor typed.
    path.to_str()?;
    let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some(RecentFile { written: metadata.modified().ok()?, bytes: metadata.len(), path })
}

/// The folders in which `ttmem run` put its logs, the newest of them.
fn folders_of_runs(logs: &Path) -> Part<PathBuf> {
    let entries = fs::read_dir(logs).into_iter().flatten().filter_map(Result::ok);
    let mut folders = Part::of(
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))),
    );
    folders.parts.sort_unstable_by(|a, b| b.cmp(a));
    let newest = folders.parts.into_iter().take(MOST_RUNS);
    Part { parts: newest.map(|(_, path)| path).collect(), is_cut: folders.is_cut }
}

/// How this machine is called from another, as far as it knows.
fn host() -> Option<String> {
    let host = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Some(user.map_or_else(|| host.clone(), |user| format!("{user}@{host}")))
}

/// How long ago something was, in words.
pub(super) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let (number, unit) = match seconds {
        0..60 => return "just now".into(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn names(files: &[RecentFile]) -> Vec<String> {
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    /// Writes a file that is that many minutes old.
    fn write(path: &Path, minutes: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
    }

    #[test]
    fn recent_files_are_those_here_and_of_runs_the_newest_first() {
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
    fn of_a_run_the_log_is_offered_and_not_the_profile_made_of_it() {
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
    fn files_of_other_kinds_hide_no_log_and_what_is_not_looked_at_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let name = |number: usize, end: &str| folder.path().join(format!("{number}.{end}"));
        for number in 0..=MOST_ENTRIES {
            fs::write(name(number, "txt"), "").unwrap();
        }
        fs::create_dir(folder.path().join("logs")).unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::write(folder.path().join(format!("logs/{number}.txt")), "").unwrap();
        }
        write(&folder.path().join("logs/run/x_profile.log"), 2);
        write(&name(0, "log"), 1);
        let found = recent(folder.path(), &files_in(folder.path()), &[]);
        assert_eq!(
            (names(&found.parts), found.is_cut),
            (vec!["0.log".into(), "x_profile.log".into()], false)
        );
        for number in 1..=MOST_ENTRIES {
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
    fn a_file_that_a_report_was_made_from_is_offered_once() {
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
    fn times_are_said_in_words() {
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
