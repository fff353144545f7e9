//! The server: put together, run, and taken apart.

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

/// Threads that wait for the disk. Few are enough, and each takes memory.
const DISK_THREADS: usize = 16;
const MOST_THREADS: usize = 4;

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The reports.
    pub store: Store,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port; without one, the first that is free from 8000 up.
    pub port: Option<u16>,
    /// Whether a token is wanted. Beyond loopback it always is.
    pub token: bool,
    /// The name of this machine, under which others may ask for it.
    pub machine: Option<String>,
    /// How logs are read.
    pub worker: Worker,
    /// How much of everything there may be.
    pub limits: Limits,
}

/// A server that listens; it answers when it [runs](Server::run).
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    bind: IpAddr,
    host: String,
    port: u16,
}

impl Server {
    /// Listens, and sweeps up after servers that were killed.
    pub fn new(config: Config) -> Result<Self> {
        let Config { store, bind, port, token, machine, worker, limits } = config;
        // `::ffff:127.0.0.1` is an address of the older kind, written as one of the newer.
        let bind = bind.to_canonical();
        if store.folder().to_str().is_none() {
            return Err(Error::NotThere(format!(
                "the reports in {} cannot be served: this name is not text (UTF-8); let TTMEM_HOME name another folder",
                store.folder().display()
            )));
        }
        if !token && !bind.is_loopback() {
            return Err(Error::NotThere(format!(
                "--no-token is for loopback alone: on {bind} everybody in the network could read and upload"
            )));
        }
        store.prepare()?;
        let token = token.then(Token::new).transpose().map_err(|error| Error::NotThere(error.to_string()))?;
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

    /// The name or address under which the server is found: on this machine, or in the network.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The token, where one is wanted.
    pub fn token(&self) -> Option<&str> {
        self.app.token.as_ref().map(Token::as_str)
    }

    /// The address to open, with the token: of the list, or of a report.
    pub fn address(&self, report: Option<&str>) -> String {
        self.address_at(&self.host, report)
    }

    /// The same at the other end of `ssh -L`.
    pub fn far_address(&self, report: Option<&str>) -> String {
        self.address_at("localhost", report)
    }

    fn address_at(&self, host: &str, report: Option<&str>) -> String {
        let page = report.map_or_else(|| "/".to_owned(), pages::address_of);
        let token = self.token().map_or_else(String::new, |token| format!("?token={token}"));
        format!("http://{host}:{}{page}{token}", self.port)
    }

    /// A file that leads to an address. Everybody can see what a browser is started with; what stands in this file
    /// only its owner can.
    pub fn way_in(&self, address: &str) -> Result<PathBuf> {
        let page = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={address}\">\n");
        self.app
            .space
            .private_file("open.html", &page)
            .map_err(|source| Error::Write { path: "open.html".into(), source })
    }

    /// Answers until the process is told to stop (Ctrl-C, `kill`, the end of the terminal). From the moment on that it
    /// is announced, it can be asked and told.
    pub fn run(self, announce: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let runtime = runtime().map_err(failed)?;
        let told = {
            let _inside = runtime.enter();
            told_to_stop()
        };
        announce(&self)?;
        self.run_on(runtime, told)
    }

    /// Answers until something happens. Then no new request is taken, those that are being answered get a moment to
    /// end, uploads that are not stored yet are dropped, and nothing of them stays.
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

/// The name that the address has: where only this machine is meant, one that works at both ends of `ssh -L`.
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
        .worker_threads(cores.min(MOST_THREADS))
        .max_blocking_threads(DISK_THREADS)
        .enable_all()
        .build()
}

/// Waits for a signal; it is caught from now on, not from when somebody waits.
#[cfg(unix)]
fn told_to_stop() -> impl Future<Output = ()> {
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

/// A signal that cannot be caught does what it does by itself.
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
fn told_to_stop() -> impl Future<Output = ()> {
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
