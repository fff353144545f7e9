//! Starting and stopping `ttmem serve`. Its responses are tested in its own crate.

#![cfg(unix)]
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

struct Serving {
    child: Child,
    address: String,
    port: u16,
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttmem"));
    command.arg("serve").args(args).env("TTMEM_HOME", home).env("USER", "ann");
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a server and waits for its address.
fn serve(mut command: Command) -> Serving {
    let mut child = command.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let address = address.trim().to_owned();
    let port =
        address.split(':').nth(2).and_then(|rest| rest.split('/').next()).and_then(|port| port.parse().ok());
    Serving { child, port: port.unwrap_or_else(|| panic!("{address:?}")), address }
}

impl Serving {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it and waits; returns its exit status and standard error.
    fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }

    fn token(&self) -> &str {
        self.address.split_once("token=").map_or("", |(_, token)| token)
    }

    fn ask(&self, method: &str, target: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n",
            self.token(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn refused(home: &Path, args: &[&str]) -> String {
    let output = command(home, args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// The uploaded files, without locks.
fn uploads(home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![home.join("uploads")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != ".lock" {
                found.push(entry.path());
            }
        }
    }
    found
}

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn it_prints_its_address_and_how_to_connect_and_stops_on_signals() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = home();
        let serving = serve(command(home.path(), &["--port", "0"]));
        let port = serving.port;
        assert_eq!(serving.address, format!("http://localhost:{port}/?token={}", serving.token()));
        assert_eq!(serving.token().len(), 32);
        assert!(serving.ask("GET", "/api/reports", b"").starts_with("HTTP/1.1 200"));
        let (status, said) = serving.stop(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}");
        assert!(said.contains(&format!("  ssh -L {port}:localhost:{port} ann@")), "{said}");
        assert!(said.contains("Press Ctrl-C to stop."), "{said}");
        assert!(uploads(home.path()).is_empty());
    }
}

#[test]
fn quiet_prints_only_the_address() {
    let home = home();
    let (status, said) = serve(command(home.path(), &["--port", "0", "-q"])).stop(Signal::TERM);
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn without_a_port_it_takes_one_from_8000_up_and_a_taken_one_is_refused() {
    let home = home();
    let (first, second) = (serve(command(home.path(), &[])), serve(command(home.path(), &[])));
    assert!(first.port >= 8000 && second.port > first.port);
    let said = refused(home.path(), &["--port", &first.port.to_string()]);
    assert!(
        said.contains(&format!("port {} is in use by ttmem (process {})", first.port, first.child.id())),
        "{said}"
    );
    first.stop(Signal::TERM);
    second.stop(Signal::TERM);
}

#[test]
fn no_token_is_only_for_loopback() {
    let home = home();
    let serving = serve(command(home.path(), &["--port", "0", "--no-token"]));
    assert_eq!(serving.address, format!("http://localhost:{}/", serving.port));
    assert!(serving.ask("GET", "/api/reports", b"").starts_with("HTTP/1.1 200"));
    serving.stop(Signal::TERM);
    let said = refused(home.path(), &["--no-token", "--bind", "0.0.0.0"]);
    assert!(said.contains("--no-token is only allowed on loopback"), "{said}");
    let serving = serve(command(home.path(), &["--port", "0", "--bind", "0.0.0.0"]));
    assert_eq!(serving.token().len(), 32);
    let (_, said) = serving.stop(Signal::TERM);
    assert!(said.contains("not encrypted"), "{said}");
}

#[test]
fn invalid_options_are_errors() {
    let home = home();
    for (args, words) in [
        (["--max-upload", "lots"], "500MB, 8GiB"),
        (["--max-upload", "8 GiBi"], "500MB, 8GiB"),
        (["--max-upload", "99999999999GiB"], "the size is too large"),
        (["--bind", "localhost"], "invalid IP address"),
        (["--bind", "192.0.2.1"], "this machine does not have that address"),
        (["--port", "70000"], "70000"),
    ] {
        let said = refused(home.path(), &args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_log_that_is_uploaded_is_read_by_the_program_itself() {
    let home = home();
    let serving = serve(command(home.path(), &["--port", "0", "--max-upload", "1MB"]));
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/vae-decoder.log");
    let answer = serving.ask("POST", "/api/upload?name=vae.log", &fs::read(log).unwrap());
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    while !serving.ask("GET", "/api/jobs", b"").contains("\"state\":\"done\"") {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(serving.ask("GET", "/reports/vae", b"").contains("<!doctype html>"));
    assert!(serving.ask("GET", "/api/reports/vae/summary?top=1", b"").starts_with("HTTP/1.1 200"));
    assert!(serving.ask("GET", "/api", b"").contains("\"max_upload_bytes\":1000000"));
    serving.stop(Signal::TERM);
}

#[test]
fn the_home_may_be_a_relative_path() {
    let place = home();
    let mut command = command(Path::new("home"), &["--port", "0"]);
    command.current_dir(place.path());
    let serving = serve(command);
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/vae-decoder.log");
    serving.ask("POST", "/api/upload?name=vae.log", &fs::read(log).unwrap());
    while !serving.ask("GET", "/api/jobs", b"").contains("\"state\":\"done\"") {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(serving.ask("GET", "/reports/vae", b"").contains("<!doctype html>"));
    assert!(serving.ask("GET", "/api/reports/vae/summary?top=1", b"").starts_with("HTTP/1.1 200"));
    assert!(place.path().join("home/reports/vae/vae.ttmem").exists());
    serving.stop(Signal::TERM);
}

#[cfg(target_os = "linux")]
#[test]
fn the_address_for_the_other_end_of_ssh_is_printed_if_it_differs() {
    let home = home();
    let serving = serve(command(home.path(), &["--port", "0", "--bind", "127.0.0.2"]));
    let (port, token) = (serving.port, serving.token().to_owned());
    assert_eq!(serving.address, format!("http://127.0.0.2:{port}/?token={token}"));
    // The request of a browser at the other end.
    let mut stream = TcpStream::connect(("127.0.0.2", port)).unwrap();
    let request =
        format!("GET /?token={token} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, said) = serving.stop(Signal::TERM);
    assert!(said.contains(&format!("open http://localhost:{port}/?token={token} in its browser")), "{said}");
    assert!(said.contains(&format!("  ssh -L {port}:127.0.0.2:{port} ann@")), "{said}");
    let usual = serve(command(home.path(), &["--port", "0", "--bind", "::ffff:127.0.0.1", "--no-token"]));
    assert_eq!(usual.address, format!("http://localhost:{}/", usual.port));
    let (_, said) = usual.stop(Signal::TERM);
    assert!(said.contains("run this command there and open the address in its browser"), "{said}");
}

#[test]
fn the_files_of_a_killed_server_are_removed_by_the_next() {
    let home = home();
    let serving = serve(command(home.path(), &["--port", "0"]));
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    let head = format!(
        "POST /api/upload?name=half.log HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 1000000\r\n\r\nhalf",
        serving.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    while uploads(home.path()).is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    serving.stop(Signal::KILL);
    assert_eq!(uploads(home.path()).len(), 1);
    let next = serve(command(home.path(), &["--port", "0"]));
    assert!(uploads(home.path()).is_empty());
    next.stop(Signal::TERM);
}

#[test]
fn a_browser_opens_a_redirect_file_and_none_is_started_over_ssh() {
    let home = home();
    ttmem_testkit::programs::script(
        &home.path().join("xdg-open"),
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >\"$TTMEM_HOME/shown\"\ncat \"$1\" >>\"$TTMEM_HOME/shown\"\n",
    );
    let shown = home.path().join("shown");
    let start = |args: &[&str], more: &[(&str, &str)]| {
        let mut command = command(home.path(), args);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", home.path().display()))
            .env("DISPLAY", ":7")
            .envs(more.iter().copied());
        serve(command)
    };
    let serving = start(&["--port", "0"], &[]);
    let address = serving.address.clone();
    let read = || fs::read_to_string(&shown).unwrap_or_default();
    while !read().contains(&address) {
        thread::sleep(Duration::from_millis(10));
    }
    let text = read();
    let (argument, page) = text.split_once('\n').unwrap();
    assert!(!argument.contains(serving.token()), "every user can see the arguments: {argument}");
    assert!(page.contains(&format!("url={address}\"")), "{page}");
    serving.stop(Signal::TERM);
    fs::remove_file(&shown).unwrap();
    for (args, more) in [
        (&["--port", "0", "--no-open"][..], &[][..]),
        (&["--port", "0"], &[("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")]),
        (&["--port", "0"], &[("DISPLAY", "")]),
    ] {
        let (status, said) = start(args, more).stop(Signal::TERM);
        assert_eq!(status.code(), Some(0));
        assert!(!shown.exists() && !said.contains("Cannot start a browser"), "{args:?} {more:?}: {said}");
    }
}

#[test]
fn a_home_that_cannot_be_used_is_an_error_at_the_start() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    for home in [file.clone(), file.join("below"), Path::new("/proc/no-such-folder").to_owned()] {
        let done = command(&home, &["--no-open"]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.contains("reports: cannot store reports") && said.contains("set TTMEM_HOME"), "{said}");
    }
}
