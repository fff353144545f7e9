//! Uploads: they become reports, or they leave nothing behind.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ttmem::query::{self, Request};
use ttmem::read;
use ttmem_serve::Worker;

use crate::support::{Answer, Running, all_in, corpus};

fn log(name: &str) -> Vec<u8> {
    fs::read(corpus(name)).unwrap()
}

/// Sends the head of an upload, and nothing of its body.
fn begin(server: &Running, name: &str, length: &str) -> TcpStream {
    let request =
        server.request("POST", &format!("/api/upload?name={name}")).header("Content-Length", length);
    let mut stream = server.connect();
    stream.write_all(request.head().as_bytes()).unwrap();
    stream
}

/// The same without a length.
fn begin_chunked(server: &Running, name: &str) -> TcpStream {
    let request =
        server.request("POST", &format!("/api/upload?name={name}")).header("Transfer-Encoding", "chunked");
    let mut stream = server.connect();
    stream.write_all(request.head().as_bytes()).unwrap();
    stream
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// The first bytes of a profile: its header, and half of what comes then.
fn cut_profile() -> Vec<u8> {
    let server = Running::new();
    let mut profile = fs::read(server.store("info-only.log").profile().unwrap()).unwrap();
    profile.truncate(30);
    profile
}

/// A worker that does what a line of the shell says.
fn shell(line: &str) -> Worker {
    Worker::new("/bin/sh", ["-c", line])
}

#[test]
fn a_log_becomes_a_report_and_nothing_else_is_left() {
    let server = Running::new();
    let sent = server
        .request("POST", "/api/upload?name=vae_decoder_profile.log")
        .body(&log("vae-decoder.log"))
        .send();
    assert_eq!(sent.status, 202);
    let first = sent.json();
    assert_eq!(first["file"], "vae_decoder_profile.log");
    assert_eq!(first["size_bytes"], log("vae-decoder.log").len());
    assert!(["queued", "reading"].contains(&first["state"].as_str().unwrap()), "{first}");
    let id = first["id"].as_str().unwrap();
    assert_eq!(sent.header("location"), Some(format!("/api/jobs/{id}").as_str()));
    let job = server.ended(id);
    assert_eq!(
        (&job["state"], &job["report"], &job["error"]),
        (&"done".into(), &"vae-decoder".into(), &Value::Null)
    );
    assert_eq!(job["page"], "/reports/vae-decoder");
    assert_eq!(job["read_bytes"], job["size_bytes"]);
    assert_eq!(server.get("/api/jobs").json(), Value::Array(vec![job]));
    assert!(server.left_of_uploads().is_empty());

    // The report says what the command says of the log, under the name that it was uploaded with.
    let profile = read::open(corpus("vae-decoder.log").to_str().unwrap()).unwrap();
    let mut wanted = serde_json::to_value(query::summary(&[profile], &Request::default()).unwrap()).unwrap();
    wanted["source"]["files"] = Value::Array(vec!["vae_decoder_profile.log".into()]);
    wanted["ranks"][0]["file"] = "vae_decoder_profile.log".into();
    assert_eq!(server.get("/api/reports/vae-decoder/summary").json(), wanted);
    let page = server.get("/reports/vae-decoder");
    assert_eq!(page.status, 200);
    assert!(!page.text().contains(server.home.path().to_str().unwrap()), "nothing tells where it lay");
    // Its graphs came along.
    let ir = fs::read_to_string(server.home.path().join("reports/vae-decoder/vae-decoder_ir.json")).unwrap();
    assert!(ir.contains("module"), "{}", &ir[..200.min(ir.len())]);
}

#[test]
fn the_same_log_replaces_its_report_and_another_gets_a_number() {
    let server = Running::new();
    assert_eq!(server.upload("a.log", &log("vae-decoder.log"))["report"], "a");
    assert_eq!(server.upload("a.log", &log("info-only.log"))["report"], "a-2");
    assert_eq!(server.upload("a.log", &log("vae-decoder.log"))["report"], "a");
    assert_eq!(server.upload("a.log", &log("info-only.log"))["report"], "a-2");
    assert_eq!(server.upload("b.log", &log("info-only.log"))["report"], "b");
    assert_eq!(server.reports(), ["a", "a-2", "b"]);
    let rows = server.get("/api/reports").json();
    let source = &rows.as_array().unwrap().iter().find(|row| row["name"] == "a").unwrap()["source"];
    assert_eq!((&source["path"], &source["size"]), (&"a.log".into(), &log("vae-decoder.log").len().into()));
    // A log of this machine is another source than an upload of its name.
    server.store("info-only.log");
    assert_eq!(server.upload("info-only.log", &log("info-only.log"))["report"], "info-only-2");
}

#[test]
fn uploads_of_one_name_at_the_same_moment_do_not_meet() {
    let server = Running::new();
    let logs = ["vae-decoder.log", "info-only.log", "llm-decode.log", "trace.log"];
    thread::scope(|scope| {
        for name in logs.iter().chain(&logs) {
            let server = &server;
            scope.spawn(move || {
                let job = server.upload("model.log", &log(name));
                assert_eq!(job["state"], "done", "{job}");
            });
        }
    });
    assert_eq!(server.reports(), ["model", "model-2", "model-3", "model-4"]);
    assert!(server.left_of_uploads().is_empty());
}

#[test]
fn profiles_and_packed_logs_are_taken_too() {
    let server = Running::new();
    let stored = server.store("two-graphs.log");
    let profile = fs::read(stored.profile().unwrap()).unwrap();
    assert_eq!(server.upload("x.ttmem", &profile)["report"], "x");
    let summary = |name: &str| {
        let mut answer = server.get(&format!("/api/reports/{name}/summary")).json();
        answer["source"] = Value::Null;
        answer["ranks"][0]["file"] = Value::Null;
        answer
    };
    assert_eq!(summary("x"), summary("two-graphs"));
}

#[test]
fn what_cannot_be_read_says_why_in_the_words_of_the_command() {
    let server = Running::new();
    for (name, kind, code, words) in [
        (
            "malformed/no-memory-operations.log",
            "no_memory_data",
            4,
            "set TT_RUNTIME_MEMORY_LOG_LEVEL=operation",
        ),
        ("malformed/no-memory-modules.log", "no_memory_data", 4, "2>&1"),
        ("malformed/binary.log", "unreadable", 2, "unknown format"),
        ("malformed/not-a-log.txt", "unreadable", 2, "unknown format"),
        ("malformed/empty.log", "unreadable", 2, "model.log: empty file"),
        ("malformed/two-ranks-untagged-debug.log", "unreadable", 2, "model.log, line"),
        ("a profile of which nothing is left", "unreadable", 2, "no usable data"),
    ] {
        let content = if name.starts_with("a profile") { cut_profile() } else { log(name) };
        let job = server.upload("model.log", &content);
        assert_eq!((&job["state"], &job["report"]), (&"failed".into(), &Value::Null), "{name}");
        let error = &job["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&kind.into(), &code.into()), "{name}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("model.log") && message.contains(words), "{name}: {message}");
    }
    assert!(server.reports().is_empty() && server.left_of_uploads().is_empty());
}

#[test]
fn an_upload_has_a_name() {
    let server = Running::new();
    for target in [
        "/api/upload",
        "/api/upload?",
        "/api/upload?nam=x",
        "/api/upload?name=a&name=b",
        "/api/upload?name=%ff",
    ] {
        let answer = server.request("POST", target).body(b"x").send();
        assert!([400, 202].contains(&answer.status), "{target}");
        if answer.status == 400 {
            answer.refusal();
        }
    }
}

#[test]
fn a_declared_size_beyond_the_limit_is_refused_before_a_byte_is_read() {
    let server = Running::with_limits(|limits| limits.upload_bytes = 1000);
    for length in ["1001", "9000000000", "9223372036854775807"] {
        let answer = Answer::read(&mut begin(&server, "x.log", length));
        assert_eq!(answer.status, 413, "{length}");
        assert!(answer.refusal().contains("the limit is 1000 bytes"));
        assert_eq!(all_in(&server.home.path().join("reports")).len(), 0);
    }
    assert!(server.left_of_uploads().is_empty());
    // Who waits for leave to send is not given it.
    let request = server
        .request("POST", "/api/upload?name=x")
        .header("Content-Length", "1001")
        .header("Expect", "100-continue");
    assert_eq!(request.send().status, 413);
    let fits = server.request("POST", "/api/upload?name=x").body(&[b'x'; 1000]).send();
    assert_eq!(fits.status, 202);
    assert_eq!(server.get("/api").json()["max_upload_bytes"], 1000);
}

#[test]
fn a_server_that_takes_no_uploads_takes_no_empty_one_either() {
    let server = Running::with_limits(|limits| limits.upload_bytes = 0);
    for body in [&b""[..], b"x"] {
        let answer = server.request("POST", "/api/upload?name=x").body(body).send();
        assert_eq!(answer.status, 413, "{body:?}");
        assert!(answer.refusal().contains("uploads are disabled"));
    }
    assert_eq!(server.get("/api/jobs").json(), Value::Array(Vec::new()));
}

#[test]
fn a_body_without_a_length_is_cut_at_the_limit() {
    let server = Running::with_limits(|limits| limits.upload_bytes = 1000);
    let mut stream = begin_chunked(&server, "x.log");
    stream.write_all(&chunk(&[b'x'; 1000])).unwrap();
    server.wait_for_upload_of(0);
    stream.write_all(&chunk(b"x")).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 413);
    answer.refusal();
    server.wait_until_nothing_is_left();
    assert!(server.reports().is_empty());

    let mut stream = begin_chunked(&server, "x.log");
    stream.write_all(&chunk(&[b'x'; 1000])).unwrap();
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(Answer::read(&mut stream).status, 202);
}

#[test]
fn a_log_may_come_in_chunks() {
    let server = Running::new();
    let mut stream = begin_chunked(&server, "vae.log");
    for part in log("vae-decoder.log").chunks(7001) {
        stream.write_all(&chunk(part)).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(server.ended(answer.json()["id"].as_str().unwrap())["report"], "vae");
}

#[test]
fn who_hangs_up_leaves_nothing_behind() {
    let server = Running::new();
    for length in [Some("100000"), None] {
        let mut stream = match length {
            Some(length) => begin(&server, "x.log", length),
            None => begin_chunked(&server, "x.log"),
        };
        let half = vec![b'x'; 50_000];
        stream.write_all(&if length.is_some() { half } else { chunk(&half) }).unwrap();
        server.wait_for_upload_of(1);
        drop(stream);
        server.wait_until_nothing_is_left();
    }
    // Broken in the middle of a chunk's size.
    let mut stream = begin_chunked(&server, "x.log");
    stream.write_all(b"zz\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    server.wait_until_nothing_is_left();
    assert!(server.reports().is_empty());
    assert_eq!(server.get("/api/jobs").json(), Value::Array(Vec::new()));
}

#[test]
fn who_does_not_go_on_is_told_so_and_leaves_nothing_behind() {
    let server = Running::with_limits(|limits| limits.upload_timeout = Duration::from_millis(300));
    // Nothing at all, and a part of it.
    for part in [0, 50_000] {
        let mut stream = begin(&server, "x.log", "100000");
        stream.write_all(&vec![b'x'; part]).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 408);
        answer.refusal();
        server.wait_until_nothing_is_left();
    }
    // A byte now and then is no upload either.
    let mut stream = begin(&server, "x.log", "100000");
    let mut reader = stream.try_clone().unwrap();
    let dripping = thread::spawn(move || {
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(Answer::read(&mut reader).status, 408);
    drop(reader);
    dripping.join().unwrap();
    server.wait_until_nothing_is_left();
    assert!(server.reports().is_empty());
}

#[test]
fn two_are_read_at_once_a_large_one_alone_and_too_many_are_sent_away() {
    let profile = cut_profile();
    let (gzip, zstd) = (&b"\x1f\x8b\x08"[..], &b"\x28\xb5\x2f\xfd"[..]);
    for (large, log, at_once) in [
        (u64::MAX, &b"x"[..], 2),
        (0, b"x", 1),
        // How large these are is not known before they are read.
        (u64::MAX, gzip, 1),
        (u64::MAX, zstd, 1),
        (u64::MAX, &profile, 1),
    ] {
        let server = Running::with(tempfile::tempdir().unwrap(), |config| {
            config.worker = shell("exec sleep 1000");
            config.limits.uploads = 4;
            config.limits.large = large;
        });
        for _ in 0..4 {
            assert_eq!(server.request("POST", "/api/upload?name=x").body(log).send().status, 202);
        }
        let states = || {
            let jobs = server.get("/api/jobs").json();
            let states: Vec<String> = jobs
                .as_array()
                .unwrap()
                .iter()
                .map(|job| job["state"].as_str().unwrap().to_owned())
                .collect();
            states.iter().filter(|state| *state == "reading").count()
        };
        while states() < at_once {
            thread::sleep(Duration::from_millis(10));
        }
        let fifth = server.request("POST", "/api/upload?name=x").body(b"x").send();
        assert_eq!(fifth.status, 503);
        assert_eq!(fifth.header("retry-after"), Some("5"));
        fifth.refusal();
        assert_eq!(states(), at_once, "still");
    }
}

#[test]
fn a_worker_that_breaks_breaks_nothing_else() {
    for (line, words) in [
        ("exit 101", "exited unexpectedly"),
        ("kill -9 $$", "have run out of memory"),
        ("echo nonsense; echo '{'; exit 0", "exited unexpectedly"),
    ] {
        let server = Running::with(tempfile::tempdir().unwrap(), |config| config.worker = shell(line));
        let job = server.upload("x.log", b"x");
        assert_eq!(
            (&job["state"], &job["error"]["kind"]),
            (&"failed".into(), &"ended".into()),
            "{line}: {job}"
        );
        assert!(job["error"]["message"].as_str().unwrap().contains(words), "{line}: {job}");
        server.store("info-only.log");
        let asked = server.get("/api/reports/info-only/summary?top=1");
        assert_eq!(asked.status, 500, "{line}");
        asked.refusal();
        assert!(server.left_of_uploads().is_empty());
        assert_eq!(server.get("/api/reports").status, 200);
    }
}

#[test]
fn a_worker_that_is_killed_while_it_writes_leaves_no_half_report() {
    // As a worker does that writes: then it is killed.
    let home = tempfile::tempdir().unwrap();
    let staged = format!("{}/reports/x/.ttmem-staged-$$-0", home.path().display());
    let line = format!("mkdir -p {staged}; echo half > {staged}/x.ttmem; echo '\"writing\"'; kill -9 $$");
    let server = Running::with(home, |config| config.worker = shell(&line));
    assert_eq!(server.upload("x.log", b"x")["state"], "failed");
    assert!(!server.home.path().join("reports/x").exists());
}

#[test]
fn stopping_drops_what_is_half_there_and_ends_the_workers() {
    let home = tempfile::tempdir().unwrap();
    let pids = home.path().join("pids");
    let line = format!("echo $$ >> {}; exec sleep 1000", pids.display());
    let mut server = Running::with(home, |config| config.worker = shell(&line));
    assert_eq!(server.request("POST", "/api/upload?name=x").body(b"x").send().status, 202);
    let mut stream = begin(&server, "half.log", "1000000");
    stream.write_all(&vec![b'x'; 100_000]).unwrap();
    server.wait_for_upload_of(100);
    while fs::read_to_string(&pids).map_or(0, |text| text.lines().count()) == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    server.stop();
    assert!(server.left_of_uploads().is_empty());
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() || Answer::parse(&rest).status == 503);
    let worker = fs::read_to_string(&pids).unwrap();
    let alive = fs::read_to_string(format!("/proc/{}/comm", worker.trim()));
    assert!(!alive.is_ok_and(|name| name.trim() == "sleep"), "the worker is gone");
    assert!(server.reports().is_empty());
}
