//! The open profiles: handles instead of paths, and the least recently used are closed.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ttmem::model::{Profile, Warning};
use ttmem::query::{self, ProcessFilter, RankSummary, Request, Summary};
use ttmem::read::{self, Options, Progress};
use ttmem::report;

use crate::answer::Failure;
use crate::arguments::{Arguments, shown};
use crate::roots::Roots;

/// The maximum number of open profiles.
const MAX_OPEN: usize = 8;
/// The maximum size of the files of all open profiles. The most recent one may be larger.
const MAX_BYTES: u64 = 2 << 30;
/// The number of closed profiles whose paths are remembered for messages.
const MAX_CLOSED: usize = 100;

/// An open profile.
pub(crate) struct Opened {
    pub handle: String,
    /// The real path of the file or folder that was opened.
    pub path: PathBuf,
    format: Option<String>,
    files: Vec<Stamp>,
    pub profiles: Vec<Profile>,
    /// The summary of `ttmem summary --json`.
    pub summary: Summary,
    /// The summary of the last moment that was asked for.
    at: Mutex<Option<Moment>>,
}

/// A summary with a moment, with the index of its rank and its step.
type Moment = ((usize, u32), Arc<Summary>);

/// A file and what tells whether it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, Failure> {
        let failed = |source| Failure::from(ttmem::Error::Read { path: path.to_owned(), source });
        let metadata = fs::metadata(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), len: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// A rank of an open profile.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'a> {
    pub opened: &'a Opened,
    /// Its index in the summary.
    pub index: usize,
    pub rank: &'a RankSummary,
}

impl Opened {
    /// The rank that a call selects; otherwise the one that ran out of memory or has the highest peak.
    pub fn rank(&self, arguments: &Arguments<'_>) -> Result<Chosen<'_>, Failure> {
        let process = arguments.number("process", 1, u64::from(u32::MAX))?;
        let process = process.and_then(|process| u32::try_from(process).ok());
        let ranks = &self.summary.ranks;
        let index = match (arguments.text("rank")?, process) {
            (Some(rank), process) => self.summary.rank_index(rank, process)?,
            (None, Some(process)) => ranks
                .iter()
                .position(|rank| rank.process == process)
                .ok_or_else(|| Failure(format!("no process {process}: `open` lists the ranks")))?,
            (None, None) => {
                let main = report::main_rank(&self.summary);
                ranks.iter().position(|rank| main.is_some_and(|main| std::ptr::eq(main, rank))).unwrap_or(0)
            }
        };
        match ranks.get(index) {
            Some(rank) => Ok(Chosen { opened: self, index, rank }),
            None => Err(Failure(format!("{}: no ranks", self.handle))),
        }
    }

    /// The summary with a moment of a rank, as `ttmem summary --json --at STEP` returns it.
    pub fn at(&self, chosen: Chosen<'_>, step: u32) -> Result<Arc<Summary>, Failure> {
        let key = (chosen.index, step);
        let known =
            locked(&self.at).as_ref().filter(|(at, _)| *at == key).map(|(_, known)| Arc::clone(known));
        if let Some(known) = known {
            return Ok(known);
        }
        // Other ranks may have fewer steps.
        let (rank, process) = (chosen.rank.rank.clone(), ProcessFilter::Number(chosen.rank.process));
        let request = Request { at: Some(step), rank, process, ..Request::default() };
        let summary = Arc::new(query::summary(&self.profiles, &request)?);
        *locked(&self.at) = Some((key, Arc::clone(&summary)));
        Ok(summary)
    }

    /// The first of the files.
    pub fn file(&self) -> &Path {
        self.files.first().map_or(&self.path, |file| &file.path)
    }

    /// Whether a file has changed since it was read.
    pub fn is_stale(&self) -> bool {
        self.files.iter().any(|file| Stamp::of(&file.path).as_ref() != Ok(file))
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).fold(0, u64::saturating_add)
    }
}

/// The result of opening a file.
pub(crate) struct Opening {
    pub opened: Arc<Opened>,
    /// The profile of an earlier state of the file.
    pub earlier: Option<String>,
    /// Whether it was open already.
    pub is_known: bool,
    /// The handles that were closed to make room.
    pub closed: Vec<String>,
}

/// All open profiles.
#[derive(Default)]
pub(crate) struct Profiles {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of handles so far.
    count: usize,
    /// The least recently used first.
    open: Vec<Arc<Opened>>,
    /// The handles and paths of closed profiles.
    closed: VecDeque<(String, PathBuf)>,
}

impl Profiles {
    /// An open profile, which becomes the most recently used one.
    pub fn get(&self, handle: &str) -> Result<Arc<Opened>, Failure> {
        let mut state = locked(&self.state);
        if let Some(index) = state.open.iter().position(|opened| opened.handle == handle) {
            let opened = state.open.remove(index);
            state.open.push(Arc::clone(&opened));
            return Ok(opened);
        }
        if let Some((_, path)) = state.closed.iter().find(|(closed, _)| closed == handle) {
            return Err(Failure(format!(
                "{handle} was closed to make room for other profiles; call `open` again with path {:?}",
                path.display().to_string()
            )));
        }
        let known: Vec<&str> = state.open.iter().map(|opened| opened.handle.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Failure(format!("unknown profile {}; call `open` first (open profiles: {known})", shown(handle))))
    }

    /// Reads a file or folder, unless it is open already and has not changed.
    pub fn open(
        &self,
        path: &Path,
        format: Option<&str>,
        roots: &Roots,
        progress: &Arc<Progress>,
    ) -> Result<Opening, Failure> {
        if let Some(opened) = self.known(path, format) {
            return Ok(Opening { opened, earlier: None, is_known: true, closed: Vec::new() });
        }
        let (files, warnings) = files_of(path, roots)?;
        let stamps = files.iter().map(|file| Stamp::of(file)).collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            format: format.map(str::to_owned),
            progress: Some(Arc::clone(progress)),
            within: roots.folders().to_vec(),
            ..Options::default()
        };
        let read = |file: &PathBuf| read::open_with(&file.to_string_lossy(), &options);
        let profiles = files.iter().map(read).collect::<ttmem::Result<Vec<_>>>()?;
        // Two captures of the same program may be one input.
        let mut profiles: Vec<Profile> = read::complete(profiles).into_iter().flatten().collect();
        if let Some(first) = profiles.first_mut() {
            first.warnings.extend(warnings);
        }
        if progress.is_stopped() {
            return Err(Failure::new("the call was canceled"));
        }
        let summary = query::summary(&profiles, &Request::default())?;
        // Another call may have opened the file in the meantime.
        if let Some(opened) = self.known(path, format) {
            return Ok(Opening { opened, earlier: None, is_known: true, closed: Vec::new() });
        }
        let mut state = locked(&self.state);
        state.count += 1;
        let opened = Arc::new(Opened {
            handle: format!("p{}", state.count),
            path: path.to_owned(),
            format: format.map(str::to_owned),
            files: stamps,
            profiles,
            summary,
            at: Mutex::default(),
        });
        let is_earlier = |other: &&Arc<Opened>| other.path == path && other.format.as_deref() == format;
        let earlier = state.open.iter().rev().find(is_earlier).map(|other| other.handle.clone());
        state.open.push(Arc::clone(&opened));
        let closed = state.close();
        let earlier = earlier.filter(|handle| !closed.contains(handle));
        Ok(Opening { opened, earlier, is_known: false, closed })
    }

    /// The profile of a path that has not changed.
    fn known(&self, path: &Path, format: Option<&str>) -> Option<Arc<Opened>> {
        let open = locked(&self.state).open.clone();
        let is_it = |opened: &&Arc<Opened>| opened.path == path && opened.format.as_deref() == format;
        let handle = open.iter().rev().find(is_it).filter(|opened| !opened.is_stale())?.handle.clone();
        self.get(&handle).ok()
    }
}

impl State {
    /// Closes the least recently used profiles above the limits.
    fn close(&mut self) -> Vec<String> {
        let mut closed = Vec::new();
        let bytes =
            |open: &[Arc<Opened>]| open.iter().map(|opened| opened.bytes()).fold(0, u64::saturating_add);
        while self.open.len() > 1 && (self.open.len() > MAX_OPEN || bytes(&self.open) > MAX_BYTES) {
            let opened = self.open.remove(0);
            closed.push(opened.handle.clone());
            self.closed.push_back((opened.handle.clone(), opened.path.clone()));
        }
        while self.closed.len() > MAX_CLOSED {
            self.closed.pop_front();
        }
        closed
    }
}

/// The files of a path, and warnings about them: a folder stands for the snapshots or recordings of its ranks, or for its
/// report.
fn files_of(path: &Path, roots: &Roots) -> Result<(Vec<PathBuf>, Vec<Warning>), Failure> {
    if !path.is_dir() {
        return Ok((vec![path.to_owned()], Vec::new()));
    }
    let ranks = read::ranks_in(path);
    let warnings = ranks.warnings(path);
    let mut files = ranks.files;
    if files.is_empty() {
        files.push(read::report_in(path)?);
    }
    // A file in the folder may be a link.
    let check = |file: &PathBuf| match file.canonicalize() {
        Ok(real) if roots.has(&real) => Ok(real),
        _ => Err(Failure(format!("{}: a link that leads out of the roots; remove it", file.display()))),
    };
    Ok((files.iter().map(check).collect::<Result<_, _>>()?, warnings))
}

/// The value, even if a call panicked while it had the lock: every change under a lock is complete.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
