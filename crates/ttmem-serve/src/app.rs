//! The handlers' shared state and the routes.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;
use ttmem::store::Store;

use crate::host::{self, Hosts};
use crate::jobs::{self, Jobs};
use crate::refusal::Refusal;
use crate::space::Space;
use crate::token::{self, Token};
use crate::worker::Worker;
use crate::{Limits, headers, origin, pages, reports, upload};

/// Summaries that are computed at the same time.
const ASKED_AT_ONCE: usize = 2;

/// The state shared by all handlers.
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) token: Option<Token>,
    pub(crate) hosts: Hosts,
    pub(crate) limits: Limits,
    pub(crate) jobs: Jobs,
    pub(crate) worker: Worker,
    pub(crate) space: Space,
    pub(crate) asking: Semaphore,
    pub(crate) rebuilding: Arc<Mutex<()>>,
    pub(crate) stop: CancellationToken,
}

impl App {
    pub(crate) fn new(
        store: Store,
        token: Option<Token>,
        hosts: Hosts,
        limits: Limits,
        worker: Worker,
        space: Space,
    ) -> Self {
        let jobs = Jobs::new(limits);
        let asking = Semaphore::new(ASKED_AT_ONCE);
        let (rebuilding, stop) = (Arc::default(), CancellationToken::new());
        Self { store, token, hosts, limits, jobs, worker, space, asking, rebuilding, stop }
    }
}

/// The routes and the middleware in front of them.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(pages::list))
        .route("/reports/{name}", get(reports::page))
        .route("/api", get(about))
        .route("/api/reports", get(reports::list))
        .route("/api/reports/{name}/summary", get(reports::summary))
        .route("/api/reports/{name}/markdown", get(reports::markdown))
        .route("/api/upload", post(upload::receive))
        .route("/api/jobs", get(jobs::list))
        .route("/api/jobs/{id}", get(jobs::show))
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn(origin::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), token::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), host::check))
        .layer(middleware::from_fn(headers::add))
        .with_state(app)
}

/// The response of `/api`.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct ServerInfo {
    name: &'static str,
    version: &'static str,
    /// The size limit of an upload.
    max_upload_bytes: u64,
}

async fn about(axum::extract::State(app): axum::extract::State<Arc<App>>) -> Json<ServerInfo> {
    Json(ServerInfo {
        name: "ttmem",
        version: env!("CARGO_PKG_VERSION"),
        max_upload_bytes: app.limits.upload_bytes,
    })
}

async fn nothing() -> Refusal {
    Refusal::not_found("no such address")
}

async fn wrong_method(request: Request) -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} is not allowed here; see the `Allow` header", request.method()),
    )
}
