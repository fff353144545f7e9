//! Who is connected: not too many, not for ever, and until the server stops.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Limits;
use crate::stall::Stalling;

/// The head of a request must fit into this, and so much of an answer waits to be sent.
const BUFFER: usize = 64 << 10;
/// When the machine has no more files or memory for a connection, it may have some again after this.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until the server stops; then those that are there may end what they have begun.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
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
                // Those behind it wait in the queue of the system.
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    talk(stream, router, limits, stop).await;
                    drop(place);
                });
            }
        }));
    }
    stop.cancelled().await;
    open.close();
    let _ = tokio::time::timeout(limits.grace, open.wait()).await;
}

/// Answers the requests of one connection. How it ends is the other side's business.
async fn talk(stream: TcpStream, router: Router, limits: Limits, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Stalling::new(stream, limits.reading_patience));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.request_patience).max_buf_size(BUFFER);
    let mut connection = pin!(protocol.serve_connection(stream, TowerToHyperService::new(router)));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
