//! What the server answers: the list, pages, summaries and Markdown are what the store has.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::thread;

use serde_json::Value;
use ttmem::query::{self, Request, RunFilter};
use ttmem::read;
use ttmem_serve::Worker;

use crate::support::{Running, WORKER_ARGUMENTS, all_in, as_worker, corpus};

#[test]
fn the_list_has_the_rows_of_the_store() {
    let server = Running::new();
    assert_eq!(server.get("/api/reports").json(), Value::Array(Vec::new()));
    let stored = server.store("vae-decoder.log");
    server.store("oom-fragmentation.log");
    let rows = server.get("/api/reports").json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let row = rows.iter().find(|row| row["name"] == "vae-decoder").unwrap();
    let mut wanted = serde_json::to_value(&stored).unwrap();
    wanted["page"] = "/reports/vae-decoder".into();
    assert_eq!(row, &wanted);
    let out = rows.iter().find(|row| row["name"] == "oom-fragmentation").unwrap();
    assert_eq!(out["oom"], "fragmentation");
}

#[test]
fn a_page_is_the_stored_one_with_a_way_back() {
    let server = Running::new();
    let stored = server.store("vae-decoder.log");
    let file = fs::read(stored.page().unwrap()).unwrap();
    let answer = server.get("/reports/vae-decoder");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
    assert!(answer.body.starts_with(&file));
    let end = String::from_utf8(answer.body[file.len()..].to_vec()).unwrap();
    assert!(end.contains("<a id=\"all-reports\" href=\"/\">"), "{end}");
    let policy = answer.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'unsafe-inline'")
            && policy.contains("frame-ancestors 'none'")
    );
    assert!(!policy.contains("connect-src") && !policy.contains("http"), "nothing is loaded: {policy}");

    // The browser keeps it, and asks whether it still holds.
    let tag = answer.header("etag").unwrap();
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    let asked =
        |tags: &str| server.request("GET", "/reports/vae-decoder").header("If-None-Match", tags).send();
    for known in
        [tag, &format!("W/{tag}"), &format!("\"0-0\", {tag}"), &format!("\"0-0\",W/{tag},\"1\""), "*"]
    {
        let again = asked(known);
        assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
    }
    for other in ["\"0-0\"", "W/\"0-0\", \"1\"", tag.trim_matches('"'), "W/"] {
        assert_eq!(asked(other).status, 200, "{other}");
    }

    let head = server.request("HEAD", "/reports/vae-decoder").send();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), answer.header("content-length"));
}

#[test]
fn names_of_any_kind_are_found() {
    let server = Running::new();
    let path = corpus("info-only.log").display().to_string();
    for name in ["plain", "with space", "ü and 🦀", "100%", "a+b", "%2e%2e", "q?x=1#y", "'\"<b>&"] {
        let mut profile = read::open(&path).unwrap();
        ttmem::store::Store::at(server.home.path()).save(&mut profile, "-", Some(name)).unwrap();
    }
    let rows = server.get("/api/reports").json();
    assert_eq!(rows.as_array().unwrap().len(), 8);
    for row in rows.as_array().unwrap() {
        let page = row["page"].as_str().unwrap();
        assert_eq!(server.get(page).status, 200, "{page}");
        let summary = format!("/api{page}/summary");
        assert_eq!(server.get(&summary).status, 200, "{summary}");
    }
}

#[test]
fn the_summary_and_the_markdown_are_the_stored_ones() {
    let server = Running::new();
    let stored = server.store("oom-fragmentation.log");
    let summary = server.get("/api/reports/oom-fragmentation/summary");
    assert_eq!(summary.status, 200);
    assert_eq!(summary.header("content-type"), Some("application/json"));
    assert_eq!(summary.body, fs::read(stored.summary().unwrap()).unwrap());
    let markdown = server.get("/api/reports/oom-fragmentation/markdown");
    assert_eq!(markdown.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert_eq!(markdown.body, fs::read(stored.markdown().unwrap()).unwrap());
    // A folder of an older version has no summary: it is computed.
    fs::remove_file(stored.summary().unwrap()).unwrap();
    assert_eq!(server.get("/api/reports/oom-fragmentation/summary").json(), summary.json());
}

#[test]
fn other_summaries_are_computed_as_the_command_does() {
    let server = Running::new();
    let stored = server.store("two-ranks-info-only.log");
    let llm = server.store("llm-decode.log");
    let profile =
        |report: &ttmem::store::Stored| read::open(report.profile().unwrap().to_str().unwrap()).unwrap();
    let rank = Request { rank: Some("1".into()), ..Request::default() };
    let last = Request { run: RunFilter::Last, top: Some(2), at: Some(3), ..Request::default() };
    let second = Request { run: RunFilter::Number(2), ..Request::default() };
    for (report, asked, request) in [
        (&stored, "rank=1", rank),
        (&llm, "top=1", Request { top: Some(1), ..Request::default() }),
        (&llm, "at=3&run=2", Request { at: Some(3), ..second.clone() }),
        (&llm, "run=2", second),
        (&llm, "run=last&top=2&at=3", last),
        (&llm, "run=all", Request::default()),
    ] {
        let target = format!("/api/reports/{}/summary?{asked}", report.name);
        let answer = server.get(&target);
        match query::summary(&[profile(report)], &request) {
            Ok(summary) => {
                assert_eq!(answer.status, 200, "{target}: {}", answer.text());
                assert_eq!(answer.json(), serde_json::to_value(summary).unwrap(), "{target}");
            }
            Err(error) => {
                assert_eq!(answer.status, 404, "{target}");
                assert_eq!(answer.refusal(), error.to_string());
            }
        }
    }
    assert!(server.left_of_uploads().is_empty());
    for wrong in ["top=x", "top=-1", "at=1e3", "run=0", "run=first", "rang=1", "top=1&top=2"] {
        let answer = server.get(&format!("/api/reports/llm-decode/summary?{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
        answer.refusal();
    }
    for nothing in ["rank=7", "at=4000000000", "run=99"] {
        let answer = server.get(&format!("/api/reports/llm-decode/summary?{nothing}"));
        assert_eq!(answer.status, 404, "{nothing}");
        answer.refusal();
    }
}

/// A report folder with only the files of tt-memory-profiler 0.x; returns those files.
fn earlier(server: &Running) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = server.home.path().join("reports/small_model");
    fs::create_dir_all(&folder).unwrap();
    let files = all_in(&corpus("../tt_json/small_model"));
    assert_eq!(files.len(), 4);
    let copy = |file: PathBuf| {
        let target = folder.join(file.file_name().unwrap());
        fs::copy(&file, &target).unwrap();
        (target, fs::read(file).unwrap())
    };
    files.into_iter().map(copy).collect()
}

/// The worker, after a line of the shell that knows the task.
fn worker_after(line: &str) -> Worker {
    let line = format!("read -r task; {line}; {{ printf '%s\\n' \"$task\"; cat; }} | exec \"$0\" \"$@\"");
    let program = std::env::current_exe().unwrap().into_os_string();
    let shell = ["-c".into(), line.into(), program].into_iter();
    as_worker(Worker::new("/bin/sh", shell.chain(WORKER_ARGUMENTS.map(OsString::from))))
}

#[test]
fn a_folder_of_the_earlier_tool_is_rebuilt_when_it_is_asked_for() {
    let server = Running::new();
    let files = earlier(&server);
    let rows = server.get("/api/reports").json();
    assert_eq!((&rows[0]["page"], &rows[0]["format"]), (&"/reports/small_model".into(), &Value::Null));
    let targets =
        ["/reports/small_model", "/api/reports/small_model/summary", "/api/reports/small_model/markdown"];
    thread::scope(|scope| {
        for target in targets.iter().chain(&targets) {
            let server = &server;
            scope.spawn(move || {
                let answer = server.get(target);
                assert_eq!(answer.status, 200, "{target}: {}", answer.text());
            });
        }
    });
    let memory = server.home.path().join("reports/small_model/small_model_memory.json");
    let profile = read::open(memory.to_str().unwrap()).unwrap();
    let wanted = serde_json::to_value(query::summary(&[profile], &Request::default()).unwrap()).unwrap();
    let summary = server.get("/api/reports/small_model/summary").json();
    assert_eq!(summary, wanted);
    let warnings = summary["source"]["warnings"].to_string();
    assert!(warnings.contains("deallocat"), "it says what the files do not tell: {warnings}");
    assert_eq!(server.get("/api/reports").json()[0]["format"], "tt_json");
    for (file, content) in files {
        assert!(fs::read(&file).unwrap() == content, "{}", file.display());
    }
    let left = |file: &PathBuf| file.to_string_lossy().contains("/.ttmem-");
    assert!(!all_in(server.home.path()).iter().any(left));
    assert!(server.left_of_uploads().is_empty());
}

#[test]
fn where_a_report_cannot_be_rebuilt_its_summary_is_still_answered() {
    // A rebuild can write nothing; the signal is ignored, so that the worker sees the error.
    let line = "case $task in *rebuild*) trap '' XFSZ; ulimit -f 0;; esac";
    let server = Running::with(tempfile::tempdir().unwrap(), |config| config.worker = worker_after(line));
    let files = earlier(&server);
    let folder = server.home.path().join("reports/small_model");
    for target in ["/reports/small_model", "/api/reports/small_model/markdown"] {
        let answer = server.get(target);
        assert_eq!(answer.status, 500, "{target}");
        let said = answer.refusal();
        assert!(said.contains(&format!("run `ttmem report {}`", folder.display())), "{said}");
    }
    for target in ["/api/reports/small_model/summary", "/api/reports/small_model/summary?top=1"] {
        assert_eq!(server.get(target).json()["source"]["format"], "tt_json", "{target}");
    }
    assert_eq!(all_in(&folder).len(), files.len(), "nothing half written is left");
}

#[test]
fn what_an_earlier_tool_left_that_cannot_be_read_says_so() {
    let server = Running::new();
    let folder = server.home.path().join("reports/old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("old_memory.json"), "{}").unwrap();
    for target in ["/reports/old", "/api/reports/old/summary", "/api/reports/old/markdown"] {
        assert_eq!(server.get(target).status, 500, "{target}");
        assert!(server.get(target).refusal().contains("old_memory.json"), "{target}");
    }
    assert_eq!(all_in(&folder).len(), 1);
}

#[cfg(unix)]
#[test]
fn a_link_in_a_report_folder_leads_nowhere() {
    let server = Running::new();
    let stored = server.store("vae-decoder.log");
    let secret = server.home.path().join("secret");
    fs::write(&secret, "nobody may read this").unwrap();
    for (file, target) in [
        (stored.page(), "/reports/vae-decoder"),
        (stored.markdown(), "/api/reports/vae-decoder/markdown"),
        (stored.summary(), "/api/reports/vae-decoder/summary"),
    ] {
        let file = file.unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&secret, &file).unwrap();
        assert!(!server.get(target).text().contains("nobody may"), "{target}");
    }
    // The folder itself may lie elsewhere.
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("vae");
    let again = server.store("info-only.log");
    fs::rename(&again.folder, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &again.folder).unwrap();
    assert_eq!(server.get("/reports/info-only").status, 200);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_to_be_full() {
    let server = Running::with(tempfile::tempdir().unwrap(), |config| {
        config.worker = worker_after("ln -s /dev/full summary.json");
    });
    server.store("vae-decoder.log");
    let answer = server.get("/api/reports/vae-decoder/summary?top=1");
    assert_eq!(answer.status, 507, "{}", answer.text());
    answer.refusal();
}

#[test]
fn without_a_token_everything_is_open() {
    let server = Running::with(tempfile::tempdir().unwrap(), |config| config.token = false);
    server.store("vae-decoder.log");
    assert!(!server.address.contains("token"));
    for target in ["/", "/reports/vae-decoder", "/api/reports", "/api/reports/vae-decoder/summary"] {
        assert_eq!(server.get(target).status, 200, "{target}");
    }
    let log = fs::read(corpus("info-only.log")).unwrap();
    assert_eq!(server.upload("x.log", &log)["report"], "x");
}

#[test]
fn the_address_signs_in_and_the_cookie_is_enough_then() {
    let server = Running::new();
    server.store("vae-decoder.log");
    let token = server.token.clone().unwrap();
    let path = server.address.split_once(&format!(":{}", server.port)).unwrap().1;
    assert_eq!(path, format!("/?token={token}"));
    for (target, goes_to) in
        [(path.to_owned(), "/"), (format!("/reports/vae-decoder?token={token}"), "/reports/vae-decoder")]
    {
        let answer = server.request("GET", &target).header("Authorization", "").send();
        assert_eq!(answer.status, 200);
        let cookie = answer.header("set-cookie").unwrap();
        let (pair, rules) = cookie.split_once("; ").unwrap();
        assert_eq!(
            (pair, rules),
            (format!("ttmem-{}={token}", server.port).as_str(), "Path=/; HttpOnly; SameSite=Strict")
        );
        assert!(answer.text().contains(&format!("content=\"0; url={goes_to}\"")), "{}", answer.text());
        assert!(!answer.text().contains(&token));
        let page = server.request("GET", goes_to).header("Authorization", "").header("Cookie", pair).send();
        assert_eq!(page.status, 200);
    }
}
