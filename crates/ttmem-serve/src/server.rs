//! The server: setup, main loop and shutdown.

use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use ttmem::store::Store;
use ttmem::{Error, Result};

use crate::app::{App, router};
use crate::host::Hosts;
use crate::listen::listen;
use crate::space::Space;
use crate::token::Token;
use crate::{Limits, Worker, connections, pages};

/// Threads that wait for the disk. A few are enough, and each needs memory.
const DISK_THREADS: usize = 16;
const MAX_THREADS: usize = 4;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The reports.
    pub store: Store,
    /// The listen address.
    pub bind: IpAddr,
    /// The port; `None` is the first free port, 8000 or higher.
    pub port: Option<u16>,
    /// Whether clients need a token. Always true outside loopback.
    pub token: bool,
    /// This machine's host name, which other machines use.
    pub machine: Option<String>,
    /// How to start a worker.
    pub worker: Worker,
    /// Limits on sizes, counts and durations.
    pub limits: Limits,
}

/// A server that listens. It answers requests once it [runs](Server::run).
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    bind: IpAddr,
    host: String,
    port: u16,
}

impl Server {
    /// Listens, and removes what killed servers left behind.
    pub fn new(config: Config) -> Result<Self> {
        let Config { store, bind, port, token, machine, worker, limits } = config;
        // `::ffff:127.0.0.1` is an IPv4 address in IPv6 notation.
        let bind = bind.to_canonical();
        if store.folder().to_str().is_none() {
            return Err(Error::NotFound(format!(
                "cannot serve the reports in {}: the path is not valid UTF-8; set TTMEM_HOME to another folder",
                store.folder().display()
            )));
        }
        if !token && !bind.is_loopback() {
            return Err(Error::NotFound(format!(
                "--no-token is only allowed on loopback; on {bind}, anyone on the network could read and upload"
            )));
        }
        store.prepare()?;
        let token = token.then(Token::new).transpose().map_err(|error| Error::NotFound(error.to_string()))?;
        let listeners = listen(bind, port)?;
        let port =
            listeners.first().map_or(Ok(0), |listener| Ok(listener.local_addr()?.port())).map_err(failed)?;
        let space = Space::of(&store)
            .map_err(|source| Error::Write { path: store.folder().with_file_name("uploads"), source })?;
        let host = host_of(bind, machine.as_deref());
        let hosts = Hosts::new(bind, machine.as_deref());
        let app = Arc::new(App::new(store, token, hosts, limits, worker, space));
        Ok(Self { app, listeners, bind, host, port })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        self.bind.is_loopback()
    }

    /// The server's host name or address: on this machine, or on the network.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The token, if clients need one.
    pub fn token(&self) -> Option<&str> {
        self.app.token.as_ref().map(Token::as_str)
    }

    /// The address to open, with the token: the list's or a report's.
    pub fn address(&self, report: Option<&str>) -> String {
        self.address_at(&self.host, report)
    }

    /// The same address at the other end of `ssh -L`.
    pub fn far_address(&self, report: Option<&str>) -> String {
        self.address_at("localhost", report)
    }

    fn address_at(&self, host: &str, report: Option<&str>) -> String {
        let page = report.map_or_else(|| "/".to_owned(), pages::address_of);
        let token = self.token().map_or_else(String::new, |token| format!("?token={token}"));
        format!("http://{host}:{}{page}{token}", self.port)
    }

    /// Writes a private file that redirects to an address. Other users can see a browser's command line, and with it
    /// the token, but not this file.
    pub fn way_in(&self, address: &str) -> Result<PathBuf> {
        let page = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={address}\">\n");
        self.app
            .space
            .private_file("open.html", &page)
            .map_err(|source| Error::Write { path: "open.html".into(), source })
    }

    /// Serves until the process is asked to stop (Ctrl-C, `kill`, the end of the terminal). Requests and signals are
    /// handled from the moment of the announcement.
    pub fn run(self, announce: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let runtime = runtime().map_err(failed)?;
        let stop = {
            let _inside = runtime.enter();
            stop_signal()
        };
        announce(&self)?;
        self.run_on(runtime, stop)
    }

    /// Serves until `stop` resolves. Then new requests are refused, running ones get a moment to finish, and uploads
    /// that are not stored yet are dropped without leaving files.
    pub fn run_until(self, stop: impl Future<Output = ()>) -> Result<()> {
        self.run_on(runtime().map_err(failed)?, stop)
    }

    fn run_on(self, runtime: Runtime, stop: impl Future<Output = ()>) -> Result<()> {
        let Self { app, listeners, .. } = self;
        let served = runtime.block_on(async {
            let listeners: io::Result<Vec<_>> =
                listeners.into_iter().map(tokio::net::TcpListener::from_std).collect();
            let serving =
                connections::serve(listeners?, router(Arc::clone(&app)), app.limits, app.stop.clone());
            let stopping = async {
                stop.await;
                app.stop.cancel();
            };
            tokio::join!(serving, stopping);
            app.jobs.ended().await;
            Ok(())
        });
        runtime.shutdown_background();
        app.space.clear();
        served.map_err(failed)
    }
}

fn failed(source: io::Error) -> Error {
    Error::Read { path: "the network".into(), source }
}

/// The host in the printed address. On loopback, a name that works at both ends of `ssh -L`.
fn host_of(bind: IpAddr, machine: Option<&str>) -> String {
    match (bind, machine) {
        (IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) | IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), _) => {
            "localhost".into()
        }
        (bind, Some(machine)) if bind.is_unspecified() => machine.to_owned(),
        (bind, None) if bind.is_unspecified() => "localhost".into(),
        (IpAddr::V6(bind), _) => format!("[{bind}]"),
        (bind, _) => bind.to_string(),
    }
}

fn runtime() -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores.min(MAX_THREADS))
        .max_blocking_threads(DISK_THREADS)
        .enable_all()
        .build()
}

/// Waits for a signal. Signals are caught from this call on, not only while the future is awaited.
#[cfg(unix)]
fn stop_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    async move {
        let [interrupt, terminate, hangup] = &mut signals;
        tokio::select! {
            () = arrived(interrupt) => {}
            () = arrived(terminate) => {}
            () = arrived(hangup) => {}
        }
    }
}

/// If a signal cannot be caught, its default action applies.
#[cfg(unix)]
async fn arrived(signal: &mut io::Result<tokio::signal::unix::Signal>) {
    match signal {
        Ok(signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
fn stop_signal() -> impl Future<Output = ()> {
    let mut signal = tokio::signal::windows::ctrl_c();
    async move {
        match &mut signal {
            Ok(signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}
