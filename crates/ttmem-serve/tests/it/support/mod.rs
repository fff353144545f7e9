//! A server of one's own for a test, and a client that can also be rude.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;
use ttmem::read;
use ttmem::store::Store;
use ttmem_serve::{Config, Limits, Server, Worker};

/// A log of the corpus.
pub fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name)
}

/// Set in the environment of a worker.
const IS_WORKER: &str = "TTMEM_TEST_WORKER";

/// The arguments with which the program of this test is a worker. A program of its own would link everything again.
pub const WORKER_ARGUMENTS: [&str; 3] = ["support::work_if_started_as_worker", "--exact", "--quiet"];

/// The program of this test as a worker.
pub fn worker() -> Worker {
    as_worker(Worker::new(std::env::current_exe().unwrap(), WORKER_ARGUMENTS))
}

/// A way of starting the program of this test, by which it becomes a worker.
pub fn as_worker(worker: Worker) -> Worker {
    worker.with(IS_WORKER, "1")
}

/// The server skips the lines of the test harness, as it does all that is not a message.
#[test]
fn work_if_started_as_worker() {
    if std::env::var_os(IS_WORKER).is_some() {
        ttmem_serve::work();
    }
}

/// A server that runs until it is dropped.
pub struct Running {
    pub home: TempDir,
    pub port: u16,
    pub token: Option<String>,
    pub address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<ttmem::Result<()>>>,
}

impl Running {
    /// With no reports.
    pub fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap(), |_| {})
    }

    pub fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        Self::with(tempfile::tempdir().unwrap(), |config| change(&mut config.limits))
    }

    pub fn with(home: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            store: Store::at(home.path()),
            bind: Ipv4Addr::LOCALHOST.into(),
            port: Some(0),
            token: true,
            machine: None,
            worker: worker(),
            limits: Limits::default(),
        };
        change(&mut config);
        let server = Server::new(config).unwrap();
        let (port, token) = (server.port(), server.token().map(str::to_owned));
        let address = server.address(None);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            server.run_until(async {
                let _ = stopped.await;
            })
        });
        Self { home, port, token, address, stop: Some(stop), thread: Some(thread) }
    }

    /// Stops the server and waits until it has ended.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    /// Stores the report of a log of the corpus, as the command does.
    pub fn store(&self, log: &str) -> ttmem::store::Stored {
        let path = corpus(log).display().to_string();
        Store::at(self.home.path()).save(&mut read::open(&path).unwrap(), &path, None).unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).unwrap();
        // A test that waits for ever tells less than one that fails.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A request that has all that it needs.
    pub fn request(&self, method: &str, target: &str) -> Request<'_> {
        let mut request = Request {
            server: self,
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        request = request.header("Host", &format!("localhost:{}", self.port)).header("Connection", "close");
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    pub fn get(&self, target: &str) -> Answer {
        self.request("GET", target).send()
    }

    /// Uploads a log and waits until its job has ended; what is said of it then.
    pub fn upload(&self, name: &str, log: &[u8]) -> Value {
        let answer = self.request("POST", &format!("/api/upload?name={name}")).body(log).send();
        assert_eq!(answer.status, 202, "{}", answer.text());
        self.ended(answer.json()["id"].as_str().unwrap())
    }

    /// Waits until a job has ended.
    pub fn ended(&self, id: &str) -> Value {
        loop {
            let job = self.get(&format!("/api/jobs/{id}")).json();
            if ["done", "failed"].contains(&job["state"].as_str().unwrap()) {
                return job;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What lies in the place for uploads, locks left out.
    pub fn left_of_uploads(&self) -> Vec<PathBuf> {
        all_in(&self.home.path().join("uploads"))
            .into_iter()
            .filter(|path| !path.ends_with(".lock"))
            .collect()
    }

    /// Waits until nothing of any upload is left.
    pub fn wait_until_nothing_is_left(&self) {
        while !self.left_of_uploads().is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until so many bytes of an upload are on disk.
    pub fn wait_for_upload_of(&self, bytes: u64) {
        let arrived = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.len() >= bytes);
        while !self.left_of_uploads().iter().any(arrived) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The names of the stored reports.
    pub fn reports(&self) -> Vec<String> {
        let mut names: Vec<String> =
            Store::at(self.home.path()).list().unwrap().into_iter().map(|report| report.name).collect();
        names.sort();
        names
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

/// All files under a folder.
pub fn all_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(all_in(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// A request, as it goes over the wire.
#[derive(Clone)]
pub struct Request<'a> {
    server: &'a Running,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request<'_> {
    /// Sets a header; an empty value takes it away.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.headers.push((name.into(), value.into()));
        }
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        let length = body.len().to_string();
        self.header("Content-Length", &length)
    }

    pub fn head(&self) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text + "\r\n"
    }

    pub fn send(&self) -> Answer {
        let mut stream = self.server.connect();
        let mut sent = self.head().into_bytes();
        sent.extend_from_slice(&self.body);
        // A server that refuses does not read on.
        let _ = stream.write_all(&sent);
        Answer::read(&mut stream)
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads to the end of the connection.
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut part = vec![0; 64 << 10];
        loop {
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset && !bytes.is_empty() => break,
                Err(error) => panic!("no answer: {error}; so far {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        Self::parse(&bytes)
    }

    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line}")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Self { status, headers, body: bytes[end + 4..].to_vec() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The sentence of a refusal.
    pub fn refusal(&self) -> String {
        let json = self.json();
        assert_eq!(json["error"]["status"], self.status, "{json}");
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[line + 2..line + 2 + size]);
        bytes = &bytes[line + 4 + size..];
    }
}
