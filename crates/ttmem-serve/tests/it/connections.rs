//! Who takes a connection and does nothing with it does not keep others out.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use crate::support::Running;

/// A server for one at a time: whoever is let in next shows that the one before was sent away.
fn for_one(change: impl FnOnce(&mut ttmem_serve::Limits)) -> Running {
    Running::with_limits(|limits| {
        limits.connections = 1;
        change(limits);
    })
}

/// Long enough for a busy machine to send a request, short enough to wait for.
const SHORT: Duration = Duration::from_secs(1);

#[test]
fn who_says_nothing_or_half_a_request_is_sent_away() {
    let server = for_one(|limits| limits.request_timeout = SHORT);
    for begun in ["", "GET /api/rep", "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let mut stream = server.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{begun}");
        assert_eq!(server.get("/api").status, 200);
    }
}

#[test]
fn who_has_an_answer_and_asks_nothing_more_is_sent_away() {
    let server = for_one(|limits| limits.request_timeout = SHORT);
    let mut stream = server.connect();
    let request = server.request("GET", "/api").header("Connection", "keep-alive");
    stream.write_all(request.head().as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(server.get("/api").status, 200);
}

#[test]
fn who_says_nothing_makes_room_for_others_at_once() {
    let long = Duration::from_secs(24 * 60 * 60);
    let server = Running::with_limits(|limits| {
        limits.connections = 2;
        limits.request_timeout = long;
        limits.read_timeout = long;
    });
    let mut silent: Vec<_> = ["", "GET /api/rep", "", ""]
        .map(|begun| {
            let mut stream = server.connect();
            stream.write_all(begun.as_bytes()).unwrap();
            stream
        })
        .into();
    assert_eq!(server.get("/api").status, 200);
    // The first of them is the first to go.
    let mut rest = Vec::new();
    let _ = silent.remove(0).read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn who_is_being_answered_or_sends_a_log_keeps_the_place() {
    let server = Running::with_limits(|limits| {
        limits.connections = 2;
        limits.request_timeout = Duration::from_secs(24 * 60 * 60);
    });
    let mut upload = server.connect();
    let head = server.request("POST", "/api/upload?name=x").header("Content-Length", "1").head();
    upload.write_all(head.as_bytes()).unwrap();
    server.wait_for_upload_of(0);
    let _silent = server.connect();
    for _ in 0..3 {
        assert_eq!(server.get("/api").status, 200);
    }
    upload.write_all(b"x").unwrap();
    assert_eq!(crate::support::Answer::read(&mut upload).status, 202);
}

#[test]
fn who_does_not_read_the_answer_is_sent_away() {
    let server = for_one(|limits| limits.read_timeout = SHORT);
    let folder = server.home.path().join("reports/large");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("large_memory.json"), "{}").unwrap();
    // More than the buffers of any system hold.
    fs::write(folder.join("large_report.html"), vec![b' '; 64 << 20]).unwrap();
    let mut stream = server.connect();
    stream.write_all(server.request("GET", "/reports/large").head().as_bytes()).unwrap();
    assert_eq!(server.get("/api").status, 200);
    drop(stream);
    assert_eq!(server.get("/reports/large").body.len(), (64 << 20) + after_page());
}

/// What stands behind every page.
fn after_page() -> usize {
    let server = Running::new();
    let stored = server.store("info-only.log");
    let size = usize::try_from(fs::metadata(stored.page().unwrap()).unwrap().len()).unwrap();
    server.get("/reports/info-only").body.len() - size
}
