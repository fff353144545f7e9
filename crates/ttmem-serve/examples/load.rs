//! Load test for the server: many readers and concurrent uploads, with every response checked.
//!
//! `load ADDRESS PID READERS LOG…` takes the address that `ttmem serve` prints, the server's process id, the number of
//! readers, and the logs to upload, all at once. The readers run until the uploads finish. Prints the number of
//! responses and the peak memory of the server and its workers. Fails on the first wrong response.

#![allow(clippy::unwrap_used, reason = "a panic is the best error report here")]
#![allow(clippy::print_stdout, reason = "this is a command-line program")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use ttmem::query::{Request, summary};
use ttmem::read;

/// A server, parsed from its address.
#[derive(Clone)]
struct Server {
    place: String,
    token: String,
}

impl Server {
    fn at(address: &str) -> Self {
        let (place, token) = address.trim_start_matches("http://").split_once("/?token=").unwrap();
        Self { place: place.to_owned(), token: token.to_owned() }
    }

    async fn connect(&self) -> Connection {
        Connection {
            server: self.clone(),
            stream: BufReader::new(TcpStream::connect(&self.place).await.unwrap()),
        }
    }
}

/// A keep-alive connection.
struct Connection {
    server: Server,
    stream: BufReader<TcpStream>,
}

impl Connection {
    async fn send_head(&mut self, method: &str, target: &str, size: u64) {
        let Server { place, token } = &self.server;
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
    }

    /// Returns the status and the body of the next response.
    async fn answer(&mut self) -> (u16, Vec<u8>) {
        let (mut status, mut size) = (0, 0);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(self.stream.read_line(&mut line).await.unwrap() > 0, "the server closed the connection");
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(length) = line.strip_prefix("content-length: ") {
                size = length.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).await.unwrap();
        (status, body)
    }

    async fn get(&mut self, target: &str) -> Vec<u8> {
        self.send_head("GET", target, 0).await;
        let (status, body) = self.answer().await;
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&body));
        body
    }

    async fn json(&mut self, target: &str) -> Value {
        serde_json::from_slice(&self.get(target).await).unwrap()
    }
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let server = Server::at(&words.next().expect("missing the address"));
    let process: u32 = words.next().expect("a process").parse().unwrap();
    let readers: usize = words.next().expect("missing the number of readers").parse().unwrap();
    let logs: Vec<String> = words.collect();

    let targets = known_answers(&server).await;
    let watch = Watch::begin(process);
    let (is_over, answers, bytes) = (Arc::new(AtomicBool::new(false)), counter(), counter());
    let begun = Instant::now();
    let mut reading = JoinSet::new();
    for reader in 0..readers {
        let (server, targets, is_over) = (server.clone(), Arc::clone(&targets), Arc::clone(&is_over));
        let (answers, bytes) = (Arc::clone(&answers), Arc::clone(&bytes));
        reading.spawn(async move {
            let mut connection = server.connect().await;
            for turn in reader.. {
                let (target, wanted) = &targets[turn % targets.len()];
                let body = connection.get(target).await;
                assert!(body == *wanted, "{target} returned a different body");
                answers.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
    }
    let mut uploading = JoinSet::new();
    for (number, log) in logs.iter().enumerate() {
        uploading.spawn(upload(server.clone(), log.clone(), format!("load-{number}.log")));
    }
    let reports: Vec<(String, String)> = uploading.join_all().await;
    let uploaded = begun.elapsed();
    is_over.store(true, Ordering::Relaxed);
    reading.join_all().await;
    let most = watch.end();
    check(&server, &reports).await;

    println!("readers                         {readers}");
    println!("uploads                         {} of {} MB in all", logs.len(), total_size(&logs) / 1_000_000);
    println!("seconds until all are stored    {:.1}", uploaded.as_secs_f64());
    println!("correct responses               {}", answers.load(Ordering::Relaxed));
    println!("read                            {} MB", bytes.load(Ordering::Relaxed) / 1_000_000);
    println!("peak memory of the server       {} MB", most.server / 1_000_000);
    println!("peak memory with its workers    {} MB", most.all / 1_000_000);
}

fn counter() -> Arc<AtomicU64> {
    Arc::default()
}

fn total_size(logs: &[String]) -> u64 {
    logs.iter().map(|log| fs::metadata(log).unwrap().len()).sum()
}

/// The targets that readers request and the expected bodies: the files of the stored reports.
async fn known_answers(server: &Server) -> Arc<Vec<(String, Vec<u8>)>> {
    let mut connection = server.connect().await;
    let rows = connection.json("/api/reports").await;
    let mut targets = Vec::new();
    for row in rows.as_array().unwrap() {
        let page = row["page"].as_str().unwrap();
        let file = |end: &str| {
            let name = row["name"].as_str().unwrap();
            fs::read(Path::new(row["folder"].as_str().unwrap()).join(format!("{name}{end}"))).unwrap()
        };
        let whole = connection.get(page).await;
        assert!(whole.starts_with(&file("_report.html")), "{page}");
        targets.push((page.to_owned(), whole));
        targets.push((format!("/api{page}/summary"), file("_summary.json")));
        targets.push((format!("/api{page}/markdown"), file("_summary.md")));
    }
    assert!(!targets.is_empty(), "the server has no reports to read");
    Arc::new(targets)
}

/// Uploads a log and waits until its report is stored. Returns the log and the report's name.
async fn upload(server: Server, log: String, name: String) -> (String, String) {
    let mut connection = server.connect().await;
    let mut file = File::open(&log).await.unwrap();
    let size = file.metadata().await.unwrap().len();
    connection.send_head("POST", &format!("/api/upload?name={name}"), size).await;
    let sent = tokio::io::copy(&mut file, &mut connection.stream).await.unwrap();
    assert_eq!(sent, size);
    let (status, body) = connection.answer().await;
    assert_eq!(status, 202, "{}", String::from_utf8_lossy(&body));
    let job: Value = serde_json::from_slice(&body).unwrap();
    let target = format!("/api/jobs/{}", job["id"].as_str().unwrap());
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let job = connection.json(&target).await;
        match job["state"].as_str().unwrap() {
            "done" => return (log, job["report"].as_str().unwrap().to_owned()),
            "failed" => panic!("{job}"),
            _ => {}
        }
    }
}

/// Compares the reports with the library's own answers for the same logs.
async fn check(server: &Server, reports: &[(String, String)]) {
    let mut connection = server.connect().await;
    let mut known: Vec<(String, Value)> = Vec::new();
    for (log, report) in reports {
        if !known.iter().any(|(known, _)| known == log) {
            let answer = summary(&[read::open(log).unwrap()], &Request::default()).unwrap();
            known.push((log.clone(), without_file(serde_json::to_value(answer).unwrap())));
        }
        let wanted = known.iter().find(|(known, _)| known == log).map(|(_, answer)| answer);
        let answer = connection.json(&format!("/api/reports/{report}/summary")).await;
        assert!(Some(&without_file(answer)) == wanted, "{report} differs from the summary of {log}");
    }
}

fn without_file(mut answer: Value) -> Value {
    for rank in answer["ranks"].as_array_mut().unwrap() {
        rank["file"].take();
    }
    answer["ranks"].take()
}

/// Peak memory, in bytes.
#[derive(Clone, Copy, Default)]
struct Most {
    server: u64,
    all: u64,
}

/// Samples the memory of a process and its children.
struct Watch {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Most>,
    process: u32,
}

impl Watch {
    fn begin(process: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut most = Most::default();
            while !seen.load(Ordering::Relaxed) {
                let all = memory(process, "VmRSS")
                    + children(process).iter().map(|child| memory(*child, "VmRSS")).sum::<u64>();
                most.all = most.all.max(all);
                thread::sleep(Duration::from_millis(10));
            }
            most
        });
        Self { is_over, thread, process }
    }

    fn end(self) -> Most {
        self.is_over.store(true, Ordering::Relaxed);
        let most = self.thread.join().unwrap();
        // The kernel records the peak of the server itself.
        Most { server: memory(self.process, "VmHWM"), ..most }
    }
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// A field of the process's memory status in /proc; 0 if the process has ended.
fn memory(process: u32, line: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found = text.lines().find_map(|row| row.strip_prefix(line)?.strip_prefix(':'));
    let kib: u64 = found.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    kib * 1024
}
