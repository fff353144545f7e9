//! The stored reports: the list, and of each its page, its summary and its Markdown.
//!
//! A name in a request is looked up among the reports that there are. It is never a part of a path.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use ttmem::store::{Store, Stored};

use crate::app::App;
use crate::files::Served;
use crate::pages;
use crate::refusal::Refusal;
use crate::worker::{Failure, Question, SUMMARY, Task};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown; charset=utf-8";

type Name = Result<Path<String>, PathRejection>;

/// A row of the list: what `ttmem list --json` says, and where the rest is.
#[derive(Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    report: Stored,
    /// The address of its page; reports of other tools may have none.
    page: Option<String>,
}

/// `/api/reports`
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<Vec<Row>>, Refusal> {
    let row = |report: Stored| Row { page: report.page().map(|_| pages::address_of(&report.name)), report };
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
    let report = find(&app, name).await?;
    let missing = || {
        Refusal::not_there(format!(
            "{:?} has no page: `ttmem report` of its folder or its log makes one",
            report.name
        ))
    };
    let path = report.page().ok_or_else(missing)?;
    let served = Served::open(&path, HTML).await.map_err(|error| Refusal::failed(&error))?;
    Ok(pages::report(served.followed_by(pages::WAY_BACK), &asked))
}

/// `/api/reports/NAME/markdown`
pub(crate) async fn markdown(
    State(app): State<Arc<App>>,
    name: Name,
    asked: HeaderMap,
) -> Result<Response, Refusal> {
    let report = find(&app, name).await?;
    let missing = || Refusal::not_there(format!("{:?} has no Markdown", report.name));
    let path = report.markdown().ok_or_else(missing)?;
    let served = Served::open(&path, MARKDOWN).await.map_err(|error| Refusal::failed(&error))?;
    Ok(served.answer(&asked))
}

/// The options of a summary, as those of `ttmem summary`.
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
            return Err(Refusal::bad_request("`run` is `all`, `last` or a number from 1"));
        }
        Ok(Question { top: self.top, at: self.at, run, rank: self.rank })
    }
}

/// `/api/reports/NAME/summary`: the stored one, or another that is computed.
pub(crate) async fn summary(
    State(app): State<Arc<App>>,
    name: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Query(asked) = Query::<Asked>::try_from_uri(&uri).map_err(|error| {
        Refusal::bad_request(format!("{}: `top`, `at`, `run` and `rank` can be asked", error.body_text()))
    })?;
    let report = find(&app, name).await?;
    if asked == Asked::default()
        && let Some(path) = report.summary()
    {
        let served = Served::open(&path, JSON).await.map_err(|error| Refusal::failed(&error))?;
        return Ok(served.answer(&headers));
    }
    let question = asked.question()?;
    let missing = || {
        Refusal::not_there(format!(
            "{:?} has no profile to answer from: `ttmem report` of its log makes one",
            report.name
        ))
    };
    compute(&app, Task::Summarize { profile: report.profile().ok_or_else(missing)?, question }).await
}

/// Lets a worker answer into a file, and answers with that: how slowly somebody reads keeps no worker.
async fn compute(app: &App, task: Task) -> Result<Response, Refusal> {
    let _turn = app.asking.acquire().await.map_err(|error| Refusal::failed(&error))?;
    let room = app.space.room(SUMMARY).map_err(|error| Refusal::failed(&error))?;
    let mut working = app.worker.start(&task, &room).await.map_err(|error| Refusal::failed(&error))?;
    let ended = tokio::select! {
        ended = working.hear_out(|_| {}) => ended,
        () = app.stop.cancelled() => return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server stops")),
    };
    ended.map_err(|Failure { kind, message, .. }| Refusal::new(kind.status(), message))?;
    // The file goes with its room when this returns; who has it open can still read it.
    let served = Served::open(&room.file(), JSON).await.map_err(|error| Refusal::failed(&error))?;
    Ok(served.answer(&HeaderMap::new()))
}

async fn find(app: &Arc<App>, name: Name) -> Result<Stored, Refusal> {
    let Path(name) = name.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let missing =
        Refusal::not_there("there is no report of that name: /api/reports lists those that there are");
    from_store(app, move |store| store.find(&name).map_err(|_| missing)).await
}

/// Looks into the store where waiting for the disk disturbs nobody.
async fn from_store<T: Send + 'static>(
    app: &Arc<App>,
    look: impl FnOnce(&Store) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let app = Arc::clone(app);
    let looked = tokio::task::spawn_blocking(move || look(&app.store)).await;
    looked.unwrap_or_else(|error| Err(Refusal::failed(&error)))
}
