//! Upload jobs: each waits for its turn, is processed by a worker, and is remembered for a while.

use std::collections::VecDeque;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use ttmem::read;

use crate::app::App;
use crate::refusal::Refusal;
use crate::space::Room;
use crate::worker::{Failure, FailureKind, Message, SUMMARY, Task};
use crate::{Limits, pages, random};

/// Logs that are processed at the same time.
const AT_ONCE: u32 = 2;
/// Jobs that are remembered.
const REMEMBERED: usize = 1000;

/// All jobs of a server.
pub(crate) struct Jobs {
    all: Mutex<VecDeque<Arc<Job>>>,
    /// One permit per upload that is being received, queued or processed.
    places: Arc<Semaphore>,
    /// One permit per worker.
    turns: Semaphore,
    large: u64,
    running: TaskTracker,
}

/// An upload's slot, from its first byte until its report is stored.
pub(crate) type Place = OwnedSemaphorePermit;

impl Jobs {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            all: Mutex::default(),
            places: Arc::new(Semaphore::new(limits.uploads)),
            turns: Semaphore::new(AT_ONCE as usize),
            large: limits.large,
            running: TaskTracker::new(),
        }
    }

    /// A slot for an upload, if one is free.
    pub(crate) fn place(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Waits until all jobs have ended. They end soon after the server starts to stop.
    pub(crate) async fn ended(&self) {
        self.running.close();
        self.running.wait().await;
    }

    /// Runs a future to its end, even if the caller stops waiting for it.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.running.spawn(work).await.unwrap_or_else(|error| Err(Refusal::failed(&error)))
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, job: &Arc<Job>) {
        let mut all = self.all();
        if all.len() == REMEMBERED {
            all.pop_back();
        }
        all.push_front(Arc::clone(job));
    }
}

/// An upload on its way to a report.
pub(crate) struct Job {
    id: String,
    file: String,
    size: u64,
    stage: Mutex<Stage>,
}

enum Stage {
    Queued,
    Reading(u64),
    Writing,
    Done(String),
    Failed(Failure),
}

impl Job {
    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// The job as JSON.
    pub(crate) fn shown(&self) -> Shown {
        let now = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, read_bytes, report, error) = match &*now {
            Stage::Queued => (JobState::Queued, 0, None, None),
            Stage::Reading(bytes) => (JobState::Reading, *bytes, None, None),
            Stage::Writing => (JobState::Writing, self.size, None, None),
            Stage::Done(report) => (JobState::Done, self.size, Some(report.clone()), None),
            Stage::Failed(failure) => (JobState::Failed, 0, None, Some(failure.clone())),
        };
        Shown {
            id: self.id.clone(),
            file: self.file.clone(),
            size_bytes: self.size,
            state,
            read_bytes,
            page: report.as_deref().map(pages::address_of),
            report,
            error,
        }
    }
}

/// A job in the HTTP interface.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Job"))]
pub(crate) struct Shown {
    pub(crate) id: String,
    file: String,
    size_bytes: u64,
    state: JobState,
    read_bytes: u64,
    report: Option<String>,
    page: Option<String>,
    error: Option<Failure>,
}

/// The state of a job.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    Queued,
    Reading,
    Writing,
    Done,
    Failed,
}

/// Starts a job for an upload that has been received completely.
pub(crate) fn begin(app: &Arc<App>, room: Room, size: u64, place: Place) -> Result<Arc<Job>, Refusal> {
    let id = random::secret().map_err(|error| Refusal::failed(&error))?;
    let job = Arc::new(Job { id, file: room.file_name().to_owned(), size, stage: Mutex::new(Stage::Queued) });
    app.jobs.remember(&job);
    let (app, ours) = (Arc::clone(app), Arc::clone(&job));
    app.jobs.running.clone().spawn(async move {
        let ended = process(&app, &ours, &room).await;
        drop((room, place));
        // Last: a client that sees `done` must not find leftovers of the job.
        ours.set(ended.map_or_else(Stage::Failed, Stage::Done));
    });
    Ok(job)
}

/// Waits for a turn, lets a worker create the report, and returns the report's name.
async fn process(app: &App, job: &Job, room: &Room) -> Result<String, Failure> {
    // A large log may need much memory, so it takes all turns. The size of a compressed log is unknown until it is
    // read.
    let is_large = job.size > app.jobs.large || is_packed(&room.file()).await;
    let turns = if is_large { AT_ONCE } else { 1 };
    let _turn = tokio::select! {
        turn = app.jobs.turns.acquire_many(turns) => turn.map_err(|error| lost(&error))?,
        () = app.stop.cancelled() => return Err(stopped()),
    };
    job.set(Stage::Reading(0));
    let home = app.store.folder().parent().map_or_else(PathBuf::new, PathBuf::from);
    let task = Task::Report { home, file: job.file.clone() };
    let name = work(app, &task, room, |message| match message {
        Message::Reading(bytes) => job.set(Stage::Reading(bytes)),
        Message::Writing => job.set(Stage::Writing),
        Message::Done(_) | Message::Failed(_) => {}
    });
    name.await?.ok_or_else(|| lost(&"the worker returned no report name"))
}

/// Runs a task in a room unless the server stops. A worker that is killed leaves no partial report.
async fn work(
    app: &App,
    task: &Task,
    room: &Room,
    heard: impl FnMut(Message),
) -> Result<Option<String>, Failure> {
    let mut working = app.worker.start(task, room).await.map_err(|error| lost(&error))?;
    let process = working.id();
    let ended = tokio::select! {
        ended = working.hear_out(heard) => ended,
        () = app.stop.cancelled() => Err(stopped()),
    };
    working.end().await;
    if matches!(&ended, Err(Failure { kind: FailureKind::Ended, .. })) {
        app.store.sweep_after(process);
    }
    ended
}

/// Runs a task while the client waits. Returns the room with the result.
pub(crate) async fn ask(app: &App, task: &Task) -> Result<Room, Refusal> {
    let room = app.space.room(SUMMARY).map_err(|error| Refusal::not_kept("the summary", &error))?;
    let ended = work(app, task, &room, |_| {}).await;
    ended.map(|_| room).map_err(|Failure { kind, message, .. }| {
        let stops = kind == FailureKind::Ended && app.stop.is_cancelled();
        let status = if stops { StatusCode::SERVICE_UNAVAILABLE } else { kind.status() };
        Refusal::new(status, message)
    })
}

async fn is_packed(path: &FilePath) -> bool {
    const HEAD: u64 = 16;
    let mut head = Vec::new();
    match File::open(path).await {
        Ok(file) => file.take(HEAD).read_to_end(&mut head).await.is_ok() && read::is_packed(&head),
        Err(_) => false,
    }
}

fn stopped() -> Failure {
    Failure { kind: FailureKind::Ended, exit_code: 70, message: "the server was stopped".into() }
}

fn lost(error: &dyn std::fmt::Display) -> Failure {
    Failure { kind: FailureKind::Bug, exit_code: 70, message: format!("processing failed: {error}") }
}

/// `/api/jobs`, newest first.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Json<Vec<Shown>> {
    Json(app.jobs.all().iter().map(|job| job.shown()).collect())
}

/// `/api/jobs/ID`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Shown>, Refusal> {
    let Path(id) = id.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let found = app.jobs.all().iter().find(|job| job.id == id).cloned();
    let missing = || Refusal::not_found("no such job: the server restarted, or the job expired");
    found.map(|job| Json(job.shown())).ok_or_else(missing)
}
