//! Many readers while logs are uploaded: every answer is right. `make bench-serve` does the same with more of both, and
//! measures memory.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use ttmem_testkit::tt::{Options, Scenario, make};

use crate::support::Running;

const READERS: usize = 50;
const UPLOADS: usize = 4;
const LEAST: usize = 5_000_000;

/// A log of at least so many bytes, and how many operations it has.
fn large_log() -> (Vec<u8>, u64) {
    let mut log = Vec::new();
    let scenario = Scenario::named("repeated", 4000).unwrap();
    let truth = make(scenario, &Options::default(), &mut log).unwrap();
    assert!(log.len() >= LEAST, "{}", log.len());
    (log, truth.total_ops)
}

#[test]
fn readers_and_uploads_at_once_get_right_answers() {
    let server = Running::new();
    let stored = server.store("vae-decoder.log");
    server.store("oom-capacity.log");
    let page = fs::read(stored.page().unwrap()).unwrap();
    let summary = fs::read(stored.summary().unwrap()).unwrap();
    let (log, operations) = large_log();
    let is_over = AtomicBool::new(false);
    let answers = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = server.get("/reports/vae-decoder");
                    assert!(answer.status == 200 && answer.body.starts_with(&page), "{}", answer.status);
                    let answer = server.get("/api/reports/vae-decoder/summary");
                    assert!(answer.status == 200 && answer.body == summary, "{}", answer.status);
                    let rows = server.get("/api/reports").json();
                    assert!(rows.as_array().unwrap().iter().any(|row| row["name"] == "vae-decoder"));
                    assert_eq!(server.get("/").status, 200);
                    answers.fetch_add(4, Ordering::Relaxed);
                }
            });
        }
        let uploads: Vec<_> = (0..UPLOADS)
            .map(|number| {
                let (server, log) = (&server, &log);
                scope.spawn(move || server.upload(&format!("upload-{number}.log"), log))
            })
            .collect();
        let ended: Vec<_> = uploads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // Before anything can fail: the readers would read for ever.
        is_over.store(true, Ordering::Relaxed);
        for (number, job) in ended.into_iter().enumerate() {
            let job = job.unwrap();
            assert_eq!(job["report"], format!("upload-{number}"), "{job}");
        }
    });
    assert!(answers.load(Ordering::Relaxed) > READERS);
    assert!(server.left_of_uploads().is_empty());
    // All are of one log, and say the same of it.
    let ranks = |number: usize| {
        let mut answer = server.get(&format!("/api/reports/upload-{number}/summary")).json();
        answer["ranks"][0]["file"].take();
        answer["ranks"].take()
    };
    let first = ranks(0);
    assert_eq!(first[0]["operations"]["total"].as_u64(), Some(operations));
    for number in 1..UPLOADS {
        assert_eq!(ranks(number), first);
    }
}
