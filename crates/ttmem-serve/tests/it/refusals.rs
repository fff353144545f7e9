//! What the server refuses: with the right status, with nothing written, and with nothing told.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;

use ttmem_serve::{Config, Limits, Server, Worker};

use crate::support::{Answer, Running, all_in, corpus};

const SECRET: &str = "nobody may read this";

/// A server with a report, and with secrets where paths could lead to.
fn server() -> Running {
    let server = Running::new();
    server.store("vae-decoder.log");
    for place in ["secret", "reports/secret", "reports/vae-decoder/secret", "reports/.hidden/secret"] {
        let path = server.home.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    server
}

/// All files of the home, locks left out.
fn files(server: &Running) -> Vec<PathBuf> {
    let mut files = all_in(server.home.path());
    files.retain(|file| !file.ends_with(".lock") && !file.display().to_string().contains("/.locks/"));
    files.sort();
    files
}

#[test]
fn no_path_leads_out_of_the_reports_in_any_encoding() {
    let server = server();
    let before = files(&server);
    let ways = [
        "..",
        "../..",
        "../secret",
        "../../secret",
        "../../../../../../etc/passwd",
        "./vae-decoder",
        "vae-decoder/secret",
        "vae-decoder/../secret",
        "vae-decoder/",
        "/vae-decoder",
        "//etc/passwd",
        ".hidden",
        ".locks",
        ".hidden/secret",
        "",
        "%2e%2e",
        "%2e%2e/secret",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "..%2Fsecret",
        "%2E%2E%2F%2E%2E%2Fsecret",
        "vae-decoder%2fsecret",
        "vae-decoder%2f..%2f..%2fsecret",
        "%2fetc%2fpasswd",
        "%2Fetc%2Fpasswd",
        "%252e%252e%252fsecret",
        "..%252fsecret",
        "%25252e%25252e%25252fsecret",
        "..%5csecret",
        "..%255csecret",
        "%5c%5cserver%5cshare",
        "C:%5cwindows",
        "..;/secret",
        "..%00/secret",
        "vae-decoder%00",
        "vae-decoder%00.html",
        "%00",
        "%c0%ae%c0%ae%c0%afsecret",
        "%c0%ae%c0%ae/secret",
        "%e0%80%ae%e0%80%ae/secret",
        "%c1%9csecret",
        "%ef%bc%8e%ef%bc%8e%ef%bc%8fsecret",
        "%e2%80%a5%2fsecret",
        "%ff%fe",
        "%f0%80%80%af",
        "..%e2%88%95secret",
        "%u002e%u002e/secret",
        "secret",
        "VAE-DECODER",
        "vae-decoder%20",
        "vae%2Ddecoder%0a",
        "vae-decoder.",
        "%20vae-decoder",
        "vae-decoder%2f.",
        "~",
        "%7e",
        "file:%2f%2f%2fetc%2fpasswd",
        "vae-decoder_report.html",
        "vae-decoder%2fvae-decoder.ttmem",
    ];
    let long = ["a".repeat(5000), "%2e%2e%2f".repeat(1000), "../".repeat(3000)];
    let mut tried = 0;
    for way in ways.iter().map(|way| (*way).to_owned()).chain(long) {
        for target in [
            format!("/reports/{way}"),
            format!("/api/reports/{way}/summary"),
            format!("/api/reports/{way}/summary?top=1"),
            format!("/api/reports/{way}/markdown"),
            format!("/api/jobs/{way}"),
            format!("/{way}"),
        ] {
            // These two are the list and nothing else.
            if ["/", "/api/reports/"].contains(&target.as_str()) {
                continue;
            }
            let answer = server.get(&target);
            assert!([400, 404].contains(&answer.status), "{target}: {}", answer.status);
            answer.refusal();
            assert!(!answer.text().contains(SECRET) && !answer.text().contains("root:"), "{target}");
            assert!(
                !answer.text().contains(server.home.path().to_str().unwrap()),
                "{target}: {}",
                answer.text()
            );
            tried += 1;
        }
    }
    assert!(tried > 300);
    assert_eq!(files(&server), before);
    assert_eq!(server.get("/reports/vae-decoder").status, 200);
}

#[test]
fn names_of_uploads_do_not_lead_out_either() {
    let server = Running::new();
    let log = fs::read(corpus("info-only.log")).unwrap();
    for (name, report) in [
        ("../../evil.log", "evil"),
        ("%2e%2e%2f%2e%2e%2fevil2.log", "evil2"),
        ("..%5c..%5cevil3.log", "evil3"),
        ("%2fetc%2fcron.d%2fevil4", "evil4"),
        ("%00", "upload"),
        ("-", "upload"),
        ("..", "report"),
        ("a%00b.log", "a-b"),
        (".ttmem-commit", "ttmem-commit"),
    ] {
        let job = server.upload(name, &log);
        assert_eq!(job["report"], report, "{name}: {job}");
    }
    let outside: Vec<PathBuf> = files(&server)
        .into_iter()
        .filter(|file| !file.starts_with(server.home.path().join("reports")))
        .collect();
    assert_eq!(outside, Vec::<PathBuf>::new());
    for report in fs::read_dir(server.home.path().join("reports")).unwrap().flatten() {
        assert!(report.file_type().unwrap().is_dir());
    }
}

const TARGETS: [(&str, &str); 14] = [
    ("GET", "/"),
    ("HEAD", "/"),
    ("GET", "/reports/vae-decoder"),
    ("GET", "/reports/nothing"),
    ("GET", "/api"),
    ("GET", "/api/reports"),
    ("GET", "/api/reports/vae-decoder/summary"),
    ("GET", "/api/reports/vae-decoder/markdown"),
    ("GET", "/api/jobs"),
    ("GET", "/api/jobs/1"),
    ("POST", "/api/upload?name=x.log"),
    ("DELETE", "/api/reports"),
    ("GET", "/nowhere"),
    ("OPTIONS", "/api/upload"),
];

#[test]
fn without_the_token_nothing_is_told_not_even_whether_it_is_there() {
    let server = server();
    let before = files(&server);
    let token = server.token.clone().unwrap();
    let wrong = token.replace(|digit: char| digit.is_ascii_hexdigit(), "0");
    let attempts: Vec<(&str, String)> = vec![
        ("Authorization", String::new()),
        ("Authorization", format!("Bearer {wrong}")),
        ("Authorization", format!("Bearer {}", &token[..31])),
        ("Authorization", format!("Bearer {token}0")),
        ("Authorization", format!("Bearer {} {token}", &token[..1])),
        ("Authorization", "Bearer".into()),
        ("Authorization", "Bearer ".into()),
        ("Authorization", format!("Basic {token}")),
        ("Authorization", token.clone()),
        ("Cookie", format!("ttmem-{}={wrong}", server.port)),
        ("Cookie", format!("ttmem-1={token}")),
        ("Cookie", format!("token={token}")),
        ("Cookie", format!("ttmem-{}=", server.port)),
    ];
    for (header, value) in attempts {
        let mut seen = Vec::new();
        for (method, target) in TARGETS {
            let request = server.request(method, target).header("Authorization", "").header(header, &value);
            let answer = if method == "POST" { request.body(b"a log").send() } else { request.send() };
            assert_eq!(answer.status, 401, "{method} {target} with {header}: {value}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert_eq!(answer.header("set-cookie"), None);
            if method != "HEAD" {
                seen.push(answer.body);
            }
        }
        seen.dedup();
        assert_eq!(seen.len(), 1, "all are told the same");
    }
    for wrong in [
        "",
        "0",
        &token[..31],
        &format!("{token}0"),
        &token.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"),
    ] {
        let answer = server.request("GET", &format!("/?token={wrong}")).header("Authorization", "").send();
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{wrong}");
    }
    // The address signs in to pages alone.
    for target in ["/api/reports", "/api/reports/vae-decoder/summary", "/nowhere", "//evil.example/"] {
        let answer =
            server.request("GET", &format!("{target}?token={token}")).header("Authorization", "").send();
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None), "{target}");
    }
    assert_eq!(files(&server), before);
}

#[test]
fn a_person_without_the_token_is_told_what_to_open() {
    let server = server();
    let answer =
        server.request("GET", "/").header("Authorization", "").header("Accept", "text/html,*/*").send();
    assert_eq!(answer.status, 401);
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(
        answer.text().contains("Open the complete address that <code>ttmem serve</code> printed"),
        "{}",
        answer.text()
    );
    check_headers(&answer);
    let missing = server.request("GET", "/reports/%3Cscript%3E").header("Accept", "text/html").send();
    assert_eq!(missing.status, 404);
    assert!(
        missing.text().contains("<a href=\"/\">") && !missing.text().contains("<script"),
        "{}",
        missing.text()
    );
    let asked = server.request("GET", "/api/nothing").header("Accept", "text/html").send();
    assert_eq!(asked.refusal(), "no such address");
}

#[test]
fn a_foreign_host_is_refused_whatever_else_is_right() {
    let server = server();
    let before = files(&server);
    let port = server.port;
    let foreign = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        "10.1.2.3".to_owned(),
        format!("evil@localhost:{port}"),
    ];
    for host in foreign {
        for (method, target) in TARGETS {
            let request = server.request(method, target).header("Host", &host);
            let answer = if method == "POST" { request.body(b"a log").send() } else { request.send() };
            assert_eq!(answer.status, 421, "{method} {target} at {host}");
            check_headers(&answer);
        }
        // In the line of the request, too.
        let answer = server.get(&format!("http://{host}/api/reports"));
        assert_eq!(answer.status, 421, "{host}");
    }
    let none = server.request("GET", "/api/reports").header("Host", "").send();
    assert_eq!(none.status, 400);
    let mut stream = server.connect();
    let twice =
        server.request("GET", "/api/reports").head().replace("\r\n\r\n", "\r\nHost: localhost\r\n\r\n");
    stream.write_all(twice.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 400);
    for own in
        [format!("127.0.0.1:{port}"), "localhost:9999".into(), format!("[::1]:{port}"), "localhost".into()]
    {
        assert_eq!(server.request("GET", "/api/reports").header("Host", &own).send().status, 200, "{own}");
    }
    assert_eq!(files(&server), before);
}

#[test]
fn a_foreign_origin_is_refused() {
    let server = server();
    let before = files(&server);
    let log = fs::read(corpus("vae-decoder.log")).unwrap();
    let foreign = |request: crate::support::Request<'_>, what: &str| {
        let answer = request.send();
        assert_eq!(answer.status, 403, "{what}");
        answer.refusal();
    };
    for origin in
        ["http://evil.example", "null", "https://localhost", "http://localhost:1", "http://127.0.0.1:1"]
    {
        let upload = server.request("POST", "/api/upload?name=x.log").body(&log);
        foreign(upload.header("Origin", origin), origin);
        foreign(server.request("GET", "/api/reports").header("Origin", origin), origin);
    }
    for site in ["cross-site", "same-site"] {
        let upload = server.request("POST", "/api/upload?name=x.log").body(&log);
        foreign(upload.header("Sec-Fetch-Site", site), site);
    }
    assert_eq!(files(&server), before);
    // A link from elsewhere to a page is no harm.
    let linked = server.request("GET", "/reports/vae-decoder").header("Sec-Fetch-Site", "cross-site").send();
    assert_eq!(linked.status, 200);
    let own = format!("http://localhost:{}", server.port);
    let upload = server.request("POST", "/api/upload?name=x.log").body(&log).header("Origin", &own);
    assert_eq!(upload.header("Sec-Fetch-Site", "same-origin").send().status, 202);
}

#[test]
fn wrong_methods_are_refused() {
    let server = server();
    let before = files(&server);
    for (target, right) in [
        ("/", "GET"),
        ("/reports/vae-decoder", "GET"),
        ("/api", "GET"),
        ("/api/reports", "GET"),
        ("/api/reports/vae-decoder/summary", "GET"),
        ("/api/reports/vae-decoder/markdown", "GET"),
        ("/api/upload", "POST"),
        ("/api/jobs", "GET"),
        ("/api/jobs/1", "GET"),
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            if method == right {
                continue;
            }
            let answer = server.request(method, target).body(b"x").send();
            assert_eq!(answer.status, 405, "{method} {target}");
            assert!(answer.refusal().starts_with(method));
            assert!(answer.header("allow").unwrap().contains(right), "{method} {target}");
            check_headers(&answer);
        }
    }
    assert_eq!(files(&server), before);
}

#[test]
fn garbage_is_refused_and_the_server_lives_on() {
    let server = server();
    let before = files(&server);
    let good = server.request("GET", "/api/reports").head();
    let lines = |count: usize| (0..count).map(|at| format!("X-{at}: {at}\r\n")).collect::<Vec<_>>().concat();
    let garbage: Vec<Vec<u8>> = vec![
        b"\0\0\0\0\r\n\r\n".to_vec(),
        b"hello\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"GET  /  HTTP/1.1\r\n\r\n".to_vec(),
        b"GET /reports/..\\..\\secret HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET /reports/\0 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET /reports/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET secret HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET /%zz HTTP/1.1\r\nHost: local host\r\n\r\n".to_vec(),
        b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        good.replace("\r\n\r\n", "\r\nContent-Length: -1\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", "\r\nContent-Length: 99999999999999999999\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", "\r\nTransfer-Encoding: wrong\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", "\r\nno colon here\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", "\r\nX: a\0b\r\n\r\n").into_bytes(),
        good.replace("\r\n\r\n", &format!("\r\n{}\r\n", lines(2000))).into_bytes(),
        good.replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(1 << 20))).into_bytes(),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)).into_bytes(),
    ];
    for bytes in garbage {
        let mut stream = server.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // It may also just hang up.
        let _ = stream.read_to_end(&mut answer);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        if !answer.is_empty() {
            let answer = Answer::parse(&answer);
            assert!((400..500).contains(&answer.status), "{shown}: {}", answer.status);
            assert!(!answer.text().contains(SECRET));
        }
    }
    assert_eq!(server.get("/api/reports").status, 200);
    assert_eq!(files(&server), before);
}

#[test]
fn every_answer_forbids_frames_guessing_and_scripts_from_elsewhere() {
    let server = server();
    for (method, target) in TARGETS {
        let answer = server.request(method, target).send();
        check_headers(&answer);
        let kept = answer.header("cache-control").unwrap();
        let is_file = answer.header("etag").is_some();
        assert_eq!(kept, if is_file { "private, no-cache" } else { "no-store" }, "{method} {target}");
    }
    // The list runs its own script alone, told by a number that is another one each time.
    let policy = |answer: &Answer| answer.header("content-security-policy").unwrap().to_owned();
    let (one, two) = (server.get("/"), server.get("/"));
    assert_ne!(policy(&one), policy(&two));
    let nonce =
        policy(&one).split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    assert_eq!(nonce.len(), 32);
    assert!(one.text().contains(&format!("nonce=\"{nonce}\"")) && !one.text().contains("ttmem-nonce"));
    assert!(!policy(&one).contains("unsafe"));
}

fn check_headers(answer: &Answer) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    for rule in ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    for other in ["http:", "https:", "*", "unsafe-eval", "data: 'self'"] {
        assert!(!policy.contains(other), "{policy}");
    }
    assert!(answer.header("access-control-allow-origin").is_none());
    assert!(answer.header("server").is_none());
}

#[test]
fn beyond_loopback_there_is_no_way_without_the_token() {
    for bind in ["0.0.0.0", "::", "10.0.0.1", "192.0.2.1"] {
        let home = tempfile::tempdir().unwrap();
        let config = Config {
            store: ttmem::store::Store::at(home.path()),
            bind: bind.parse().unwrap(),
            port: Some(0),
            token: false,
            machine: None,
            worker: Worker::new("true", [""; 0]),
            limits: Limits::default(),
        };
        let Err(error) = Server::new(config) else { panic!("{bind}") };
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--no-token is only allowed on loopback"), "{error}");
        assert_eq!(all_in(home.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn an_address_of_the_older_kind_may_be_written_as_one_of_the_newer() {
    let server = Running::with(tempfile::tempdir().unwrap(), |config| {
        config.bind = "::ffff:127.0.0.1".parse().unwrap();
        config.token = false;
    });
    assert_eq!(server.address, format!("http://localhost:{}/", server.port));
    assert_eq!(server.get("/api").status, 200);
    let other = Running::with(tempfile::tempdir().unwrap(), |config| {
        config.bind = "::ffff:0.0.0.0".parse().unwrap();
    });
    let host = format!("127.0.0.1:{}", other.port);
    assert_eq!(other.request("GET", "/api").header("Host", &host).send().status, 200);
}

#[test]
fn a_head_of_more_than_64_kib_or_100_lines_is_too_large() {
    let server = server();
    let head_of = |size: usize| {
        let request = |filler: usize| server.request("GET", "/api").header("X-Filler", &"x".repeat(filler));
        request(1 + size - request(1).head().len())
    };
    let long_address = |size: usize| server.request("GET", &format!("/api?{}", "x".repeat(size)));
    let with_lines = |count: usize| {
        let own = server.request("GET", "/api").head().matches(": ").count();
        (own..count)
            .fold(server.request("GET", "/api"), |request, at| request.header(&format!("X-{at}"), "x"))
    };
    for (request, status) in [
        (head_of(64 << 10), 200),
        (head_of((64 << 10) + 1), 431),
        (head_of(100_000), 431),
        (long_address(60_000), 200),
        (long_address(65_520), 431),
        (long_address(100_000), 431),
        (with_lines(100), 200),
        (with_lines(101), 431),
    ] {
        assert_eq!(request.send().status, status, "{}", request.head().len());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_home_whose_name_is_no_text_is_refused_at_once() {
    use std::os::unix::ffi::OsStrExt;

    let place = tempfile::tempdir().unwrap();
    let home = place.path().join(std::ffi::OsStr::from_bytes(b"home-\xff"));
    let config = Config {
        store: ttmem::store::Store::at(&home),
        bind: "127.0.0.1".parse().unwrap(),
        port: Some(0),
        token: true,
        machine: None,
        worker: Worker::new("true", [""; 0]),
        limits: Limits::default(),
    };
    let Err(error) = Server::new(config) else { panic!("it would lose uploads") };
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("TTMEM_HOME"), "{error}");
    assert!(!home.exists());
}

#[test]
fn on_all_addresses_the_machine_is_found_by_its_name_and_others_are_not() {
    let server = Running::with(tempfile::tempdir().unwrap(), |config| {
        config.bind = "0.0.0.0".parse().unwrap();
        config.machine = Some("box.example".into());
    });
    assert!(server.address.starts_with(&format!("http://box.example:{}/?token=", server.port)));
    for (host, status) in [("box.example", 200), ("box", 200), ("10.9.8.7", 200), ("evil.example", 421)] {
        assert_eq!(server.request("GET", "/api").header("Host", host).send().status, status, "{host}");
    }
}
