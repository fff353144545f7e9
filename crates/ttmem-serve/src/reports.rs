//! The stored reports: the list, and each report's page, summary and Markdown.
//!
//! The name in a request is looked up in the list of reports. It never becomes part of a path.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use ttmem::store::{Store, Stored};

use crate::app::App;
use crate::files::Served;
use crate::refusal::Refusal;
use crate::space::Room;
use crate::worker::{Question, Task};
use crate::{jobs, pages};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

type Name = Result<Path<String>, PathRejection>;

/// A row of the list: the fields of `ttmem list --json`, and the page's address.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "StoredRow"))]
pub(crate) struct Row {
    #[serde(flatten)]
    report: Stored,
    /// The address of the page, if it exists or can be created.
    page: Option<String>,
}

/// `/api/reports`
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<Vec<Row>>, Refusal> {
    let row = |report: Stored| {
        let page = report.page().or_else(|| report.memory());
        Row { page: page.map(|_| pages::address_of(&report.name)), report }
    };
    let rows = move |store: &Store| {
        let reports = store.list().map_err(|error| Refusal::failed(&error))?;
        Ok(reports.into_iter().map(row).collect())
    };
    from_store(&app, rows).await.map(Json)
}

/// `/reports/NAME`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    name: Name,
    asked: HeaderMap,
) -> Result<Response, Refusal> {
    let report = rebuilt(&app, find(&app, name).await?).await?;
    let path = report.page().ok_or_else(|| lacking(&report, "page"))?;
    let served = Served::open(&path, HTML).await.map_err(|error| Refusal::failed(&error))?;
    Ok(pages::report(served.followed_by(pages::WAY_BACK), &asked))
}

/// `/api/reports/NAME/markdown`
pub(crate) async fn markdown(
    State(app): State<Arc<App>>,
    name: Name,
    asked: HeaderMap,
) -> Result<Response, Refusal> {
    let report = rebuilt(&app, find(&app, name).await?).await?;
    let path = report.markdown().ok_or_else(|| lacking(&report, "Markdown"))?;
    let served = Served::open(&path, MARKDOWN).await.map_err(|error| Refusal::failed(&error))?;
    Ok(served.answer(&asked))
}

/// The options of a summary, as in `ttmem summary`.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    top: Option<usize>,
    at: Option<u32>,
    run: Option<String>,
    rank: Option<String>,
}

impl Asked {
    fn question(self) -> Result<Question, Refusal> {
        let is_run =
            |run: &str| matches!(run, "all" | "last") || run.parse().is_ok_and(|number: usize| number > 0);
        let run = self.run.unwrap_or_else(|| "all".to_owned());
        if !is_run(&run) {
            return Err(Refusal::bad_request(
                "invalid `run`: expected `all`, `last` or a run number, starting at 1",
            ));
        }
        Ok(Question { top: self.top, at: self.at, run, rank: self.rank })
    }
}

/// `/api/reports/NAME/summary`: the stored summary, or one computed with options.
pub(crate) async fn summary(
    State(app): State<Arc<App>>,
    name: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Query(asked) = Query::<Asked>::try_from_uri(&uri).map_err(|error| {
        Refusal::bad_request(format!(
            "{}; valid parameters are `top`, `at`, `run` and `rank`",
            error.body_text()
        ))
    })?;
    let report = find(&app, name).await?;
    // If the report cannot be written to its folder, the summary can still be computed.
    let report = rebuilt(&app, report.clone()).await.unwrap_or(report);
    if asked == Asked::default()
        && let Some(path) = report.summary()
    {
        let served = Served::open(&path, JSON).await.map_err(|error| Refusal::failed(&error))?;
        return Ok(served.answer(&headers));
    }
    let question = asked.question()?;
    let evidence = report.profile().or_else(|| report.memory());
    let evidence = evidence.ok_or_else(|| lacking(&report, "profile"))?;
    // The file is deleted with its room when this returns, but an open file stays readable.
    let room = answered(&app, Task::Summarize { evidence, question }).await?;
    let served = Served::open(&room.file(), JSON).await.map_err(|error| Refusal::failed(&error))?;
    Ok(served.answer(&HeaderMap::new()))
}

fn lacking(report: &Stored, what: &str) -> Refusal {
    Refusal::not_found(format!(
        "{:?} has no {what}; run `ttmem report` on its log to create one",
        report.name
    ))
}

/// A report with all of its files. In a folder written by tt-memory-profiler 0.x, they are created on first use.
async fn rebuilt(app: &Arc<App>, report: Stored) -> Result<Stored, Refusal> {
    if evidence_alone(&report).is_none() {
        return Ok(report);
    }
    // One at a time; later requests find the files already created.
    let turn = Arc::clone(&app.rebuilding).lock_owned().await;
    let report = find_named(app, report.name).await?;
    let Some(memory) = evidence_alone(&report) else { return Ok(report) };
    let task = Task::Rebuild { memory, stem: report.stem().to_owned() };
    let ours = Arc::clone(app);
    let made = app.jobs.finish(async move {
        let _turn = turn;
        jobs::ask(&ours, &task).await
    });
    made.await.map_err(|refusal| not_made(&report, &refusal))?;
    find_named(app, report.name).await
}

fn not_made(report: &Stored, Refusal { status, message }: &Refusal) -> Refusal {
    let (name, folder) = (&report.name, report.folder.display());
    let advice = format!("run `ttmem report {folder}`, with `-o` if that folder is not writable");
    Refusal::new(*status, format!("cannot create the report of {name:?}: {message}; {advice}"))
}

/// The memory file of a folder that contains only files of tt-memory-profiler 0.x.
fn evidence_alone(report: &Stored) -> Option<PathBuf> {
    report.memory().filter(|_| report.profile().is_none() && report.page().is_none())
}

/// Lets a worker write its result into a room's file, so that a slow reader does not block a worker.
async fn answered(app: &Arc<App>, task: Task) -> Result<Room, Refusal> {
    let _turn = app.asking.acquire().await.map_err(|error| Refusal::failed(&error))?;
    jobs::ask(app, &task).await
}

async fn find(app: &Arc<App>, name: Name) -> Result<Stored, Refusal> {
    let Path(name) = name.map_err(|error| Refusal::bad_request(error.body_text()))?;
    find_named(app, name).await
}

async fn find_named(app: &Arc<App>, name: String) -> Result<Stored, Refusal> {
    let missing = Refusal::not_found("no such report; /api/reports lists the stored ones");
    from_store(app, move |store| store.find(&name).map_err(|_| missing)).await
}

/// Accesses the store on a thread that may wait for the disk.
async fn from_store<T: Send + 'static>(
    app: &Arc<App>,
    look: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let app = Arc::clone(app);
    let looked = tokio::task::spawn_blocking(move || look(&app.store)).await;
    looked.unwrap_or_else(|error| Err(Refusal::failed(&error)))
}
