//! The progress bar of a slow read on a real terminal: shown after a second, and removed at the end.

#![cfg(unix)]
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// The time a screen may take to show the expected text, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Terminal {
    screen: vt100::Parser,
    output: Receiver<Vec<u8>>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Terminal {
    fn start(args: &[&str], set: Option<&str>) -> Self {
        let (rows, columns) = (NonZeroU16::new(60).unwrap(), NonZeroU16::new(100).unwrap());
        let size = PtySize { rows: 60, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(assert_cmd::cargo::cargo_bin("ttmem"));
        command.args(args);
        command.env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR");
        if let Some(variable) = set {
            command.env(variable, "1");
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            // The terminal exists as long as its master is open.
            let _master = pair.master;
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { screen: vt100::Parser::new(rows, columns, 0), output, child }
    }

    fn wait_for(&mut self, is_there: impl Fn(&str) -> bool) -> String {
        loop {
            let text = self.screen.screen().contents();
            if is_there(&text) {
                return text;
            }
            let bytes = self.output.recv_timeout(TIMEOUT);
            self.screen.process(&bytes.unwrap_or_else(|_| panic!("timed out; the screen shows:\n{text}")));
        }
    }

    /// The screen and the exit code after the program has ended.
    fn end(mut self) -> (String, u32) {
        while let Ok(bytes) = self.output.recv_timeout(TIMEOUT) {
            self.screen.process(&bytes);
        }
        (self.screen.screen().contents(), self.child.wait().unwrap().exit_code())
    }
}

#[test]
fn a_slow_read_has_a_bar_that_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("slow.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/vae-decoder.log");
    let log = fs::read(log).unwrap();
    for (flag, has_bar) in [("--top=10", true), ("-q", false)] {
        let mut terminal = Terminal::start(&["summary", flag, pipe.to_str().unwrap()], None);
        let mut slow = OpenOptions::new().write(true).open(&pipe).unwrap();
        slow.write_all(&log[..log.len() / 2]).unwrap();
        if has_bar {
            terminal.wait_for(|screen| screen.contains("slow.log") && screen.contains("KiB"));
        }
        slow.write_all(&log[log.len() / 2..]).unwrap();
        drop(slow);
        let (screen, code) = terminal.end();
        assert_eq!(code, 0);
        assert!(screen.contains("Peak DRAM before step 101"), "{screen}");
        let first = screen.lines().next().unwrap();
        assert!(first.ends_with("slow.log"), "the bar was not removed:\n{screen}");
    }
}

/// Colors on a terminal, unless NO_COLOR is set.
#[test]
fn a_terminal_has_colors_unless_disabled() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/oom-capacity.log");
    let colored = |set: Option<&str>| {
        let mut terminal = Terminal::start(&["summary", log.to_str().unwrap()], set);
        let mut raw = Vec::new();
        while let Ok(bytes) = terminal.output.recv_timeout(TIMEOUT) {
            raw.extend(bytes);
        }
        terminal.child.wait().unwrap();
        raw.contains(&0x1b)
    };
    assert!(colored(None));
    assert!(!colored(Some("NO_COLOR")));
}
