//! Connections: limits their number and idle time, and drains them when the server stops. Idle connections cannot lock
//! out others: when all slots are taken, the oldest connection without a request is closed.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Limits;
use crate::stall::Stalling;

/// The limit for a request head, and the size of the write buffer.
const BUFFER: usize = 64 << 10;
/// How long to wait after the system has run out of file descriptors or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the server stops, then lets the open ones finish their current request.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let places = Arc::new(Places::new(limits.connections));
    let open = TaskTracker::new();
    for listener in listeners {
        let (places, router, stop) = (Arc::clone(&places), router.clone(), stop.clone());
        let connections = open.clone();
        open.spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    sleep(PAUSE).await;
                    continue;
                };
                // Further connections wait in the system's backlog.
                let Some(place) = places.take().await else { return };
                connections.spawn(talk(stream, router.clone(), limits, stop.clone(), place));
            }
        }));
    }
    stop.cancelled().await;
    open.close();
    let _ = tokio::time::timeout(limits.grace, open.wait()).await;
}

/// Connection slots, and the connections that have not sent a request yet.
struct Places {
    free: Arc<Semaphore>,
    most: usize,
    next: AtomicU64,
    /// Oldest first.
    silent: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl Places {
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, next: AtomicU64::new(0), silent: Mutex::default() }
    }

    /// Takes a slot. If none is free, closes the connection that has been silent longest.
    async fn take(self: &Arc<Self>) -> Option<Place> {
        if self.free.available_permits() == 0
            && let Some((_, sent_away)) = self.silent().pop_first()
        {
            sent_away.cancel();
        }
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        let (number, sent_away) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        self.silent().insert(number, sent_away.clone());
        Some(Place { all: Arc::clone(self), number, sent_away, _permit: permit })
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's slot.
struct Place {
    all: Arc<Places>,
    number: u64,
    sent_away: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Marks the connection as active: it has sent a request and keeps its slot.
    fn keep(&self) {
        self.all.silent().remove(&self.number);
    }

    /// Whether enough slots are free to keep this connection open between two requests.
    fn may_stay(&self) -> bool {
        self.all.free.available_permits() >= self.all.most / 2
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keep();
    }
}

/// Serves the requests of one connection. Errors of the connection are ignored.
async fn talk(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken, place: Place) {
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Stalling::new(stream, limits.read_timeout));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.request_timeout).max_buf_size(BUFFER);
    protocol.max_header_size(BUFFER).keep_alive(place.may_stay());
    let answers = TowerToHyperService::new(router);
    let service = service_fn(|request| {
        place.keep();
        answers.call(request)
    });
    let mut connection = pin!(protocol.serve_connection(stream, service));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = place.sent_away.cancelled() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
