//! On a real terminal: the status line, Ctrl-C, and restoring the terminal.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::{Place, assert_same, line, program, until, until_there};

const ROWS: u16 = 24;
const COLUMNS: u16 = 90;

/// A terminal with a shell.
struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    _master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    shell: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Terminal {
    /// Runs a line in a shell on a new terminal.
    fn start(place: &Place, script: &str) -> Self {
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).unwrap();
        let mut shell = CommandBuilder::new("sh");
        shell.args(["-c", script]);
        shell.cwd(place.folder.path());
        shell.env("TTMEM_HOME", place.path("home"));
        shell.env("TERM", "xterm-256color");
        shell.env_remove("NO_COLOR");
        let shell = pty.slave.spawn_command(shell).unwrap();
        let cells = |count| NonZero::new(count).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(ROWS), cells(COLUMNS), 0)));
        let mut reader = pty.master.try_clone_reader().unwrap();
        let drawn = Arc::clone(&screen);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read) = reader.read(&mut piece)
                && read > 0
            {
                drawn.lock().unwrap().process(&piece[..read]);
            }
        });
        let keyboard = pty.master.take_writer().unwrap();
        Self { screen, _master: pty.master, keyboard, shell }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    fn until_shows(&self, wanted: &str) -> String {
        for _ in 0..6000 {
            let contents = self.contents();
            if contents.contains(wanted) {
                return contents;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{wanted:?} was never shown, but\n{}", self.contents());
    }

    /// Waits for the shell to end; returns its exit code.
    fn wait(&mut self) -> u32 {
        self.shell.wait().unwrap().exit_code()
    }
}

/// A program that prints a short log and waits; most logs have lines that are too long for this terminal.
fn waiting(place: &Place, quiet: bool) -> Command {
    let log: Vec<u8> = fs::read(super::corpus("info-only.log")).unwrap();
    fs::write(place.path("log"), log).unwrap();
    let mut command = place.run();
    command.args(["-q"].iter().filter(|_| quiet)).arg(program("print_log.py"));
    command.arg(place.path("log")).arg(place.path("record")).arg("wait");
    command
}

/// Asserts that the log is the program's output followed by Python's traceback.
#[track_caller]
fn assert_interrupted(place: &Place) {
    let (log, record) = (fs::read(place.log()).unwrap(), fs::read(place.path("record")).unwrap());
    let (printed, rest) = log.split_at(record.len());
    assert_same(printed, &record);
    assert!(rest.starts_with(b"Traceback") && rest.ends_with(b"KeyboardInterrupt\n"));
}

#[test]
fn quiet_on_a_terminal_is_one_status_line_that_is_removed() {
    let place = Place::new();
    let mut terminal =
        Terminal::start(&place, &format!("trap : INT; {}; echo code $?", line(&waiting(&place, true))));
    let shown = terminal.until_shows("58 operations · DRAM ");
    assert_eq!(shown.trim_end().lines().count(), 1, "{shown}");
    assert!(
        shown.contains(" s · 58 operations · DRAM 128.0 KiB per bank (<1%) · peak 260.1 KiB (<1%)"),
        "{shown}"
    );
    terminal.press(b"\x03");
    let shown = terminal.until_shows("code 130");
    assert!(!shown.contains("operations"), "the status line was not removed:\n{shown}");
    assert!(shown.contains("print_log was killed by signal 2 (SIGINT)"), "{shown}");
    assert!(shown.contains("_report.html"), "{shown}");
    assert_interrupted(&place);
    terminal.wait();
}

#[test]
fn the_status_line_is_below_the_output() {
    let place = Place::new();
    // It continues when a file exists.
    let script = "after() { while ! [ -e $1 ]; do sleep 0.05; done; }; echo one; after go; echo two; printf half; \
                  read word; echo; echo got $word; after end";
    let mut command = place.run();
    command.args(["--log-only", "sh", "-c", script]);
    let mut terminal = Terminal::start(&place, &format!("{}; echo code $?", line(&command)));
    let shown = terminal.until_shows("no operations yet · no memory states yet");
    assert!(
        shown.lines().last().unwrap().contains(" s · no operations yet"),
        "it is the last line:\n{shown}"
    );
    fs::write(place.path("go"), "").unwrap();
    // It is never drawn in the middle of an output line; see the tests of `screen`.
    let shown = terminal.until_shows("half");
    assert!(shown.trim_end().ends_with("one\ntwo\nhalf"), "{shown}");
    terminal.press(b"typed\n");
    let shown = terminal.until_shows("got typed");
    assert!(shown.contains("\nhalftyped\n"), "{shown}");
    terminal.until_shows("no operations yet");
    fs::write(place.path("end"), "").unwrap();
    let shown = terminal.until_shows("code 0");
    assert!(!shown.contains("no operations yet"), "{shown}");
    assert_eq!(fs::read(place.log()).unwrap(), b"one\ntwo\nhalf\ngot typed\n");
    terminal.wait();
}

#[test]
fn the_keys_for_signals_reach_the_command_once() {
    let place = Place::new();
    let mut command = place.run();
    command.arg("--log-only").arg(program("catch_signals.py")).arg(place.path("caught"));
    let mut terminal = Terminal::start(&place, &format!("exec {}", line(&command)));
    let caught = |wanted: &[&str]| {
        let lines = || {
            fs::read_to_string(place.path("caught")).ok().filter(|text| text.lines().count() >= wanted.len())
        };
        assert_eq!(until(&format!("{wanted:?}"), lines).lines().collect::<Vec<_>>(), wanted);
    };
    caught(&["ready"]);
    terminal.press(b"\x03");
    caught(&["ready", "SIGINT"]);
    terminal.press(b"\x1c");
    caught(&["ready", "SIGINT", "SIGQUIT"]);
    terminal.press(b"\x03");
    caught(&["ready", "SIGINT", "SIGQUIT", "SIGINT"]);
    let ttmem = i32::try_from(terminal.shell.process_id().unwrap()).unwrap();
    kill_process(Pid::from_raw(ttmem).unwrap(), Signal::TERM).unwrap();
    assert_eq!(terminal.wait(), 5);
    caught(&["ready", "SIGINT", "SIGQUIT", "SIGINT", "SIGTERM"]);
}

#[test]
fn the_line_that_cuts_the_summary_names_a_command_that_shows_it() {
    for is_listed in [true, false] {
        let place = Place::new();
        if !is_listed {
            fs::write(place.path("home"), "no folder").unwrap();
        }
        let mut command = place.run();
        command.args(["--output-dir", "o", "--name", "vae", "cat"]).arg(super::corpus("vae-decoder.log"));
        let mut terminal = Terminal::start(&place, &format!("{}; echo code $?", line(&command)));
        let shown = terminal.until_shows("code 0");
        let cut = shown.lines().find(|line| line.starts_with("… ")).unwrap_or_else(|| panic!("{shown}"));
        let hint = cut.split('`').nth(1).unwrap_or_else(|| panic!("{cut}"));
        let start = if is_listed { "ttmem show vae_" } else { "ttmem summary o/vae_" };
        assert!(hint.starts_with(start) && hint.ends_with(" --full"), "{hint}");
        let words: Vec<&str> = hint.split(' ').skip(1).collect();
        let output = place.ttmem().args(&words).output().unwrap();
        assert!(output.status.success(), "{hint}: {}", super::text(&output.stderr));
        // The verdict is still on the screen.
        assert!(shown.contains("What to change"), "{shown}");
        terminal.wait();
    }
}

/// Over SSH, the path of the page is useless: the summary and the commands that show more are on the screen.
#[test]
fn the_summary_and_what_to_do_next_are_on_the_screen_at_the_end() {
    let place = Place::new();
    let run = line(&place.print_log("oom-fragmentation.log", "1"));
    let mut terminal = Terminal::start(&place, &format!("{run}; echo status $?"));
    let shown = terminal.until_shows("status 1");
    let places: Vec<usize> = [
        "  Out of memory: DRAM is fragmented.",
        "What to change",
        " --full` shows them)",
        "\nttmem show print_log",
        "ttmem serve ",
        "_report.html",
    ]
    .iter()
    .map(|text| shown.find(text).unwrap_or_else(|| panic!("{text:?} is not on the screen:\n{shown}")))
    .collect();
    assert!(places.is_sorted(), "{shown}");
    terminal.wait();
}

#[test]
fn the_terminal_is_restored() {
    let place = Place::new();
    let run = line(&waiting(&place, false));
    let script = format!("trap : INT; stty -g >before; {run}; stty -g >after; echo both saved");
    let mut terminal = Terminal::start(&place, &script);
    until_there(&place.path("record.ready"));
    terminal.until_shows(" s · 58 operations · DRAM ");
    terminal.press(b"\x03");
    terminal.until_shows("both saved");
    assert_eq!(until_there(&place.path("before")), until_there(&place.path("after")));
    let screen = terminal.screen.lock().unwrap();
    assert!(!screen.screen().hide_cursor() && !screen.screen().alternate_screen());
    assert_eq!(screen.screen().fgcolor(), vt100::Color::Default);
    drop(screen);
    terminal.wait();
}

#[test]
fn a_stopped_run_continues() {
    let place = Place::new();
    let run = line(&waiting(&place, true));
    // An interactive shell has job control: Ctrl-Z stops a job, `fg` continues it.
    let mut terminal = Terminal::start(&place, "exec sh -i");
    terminal.press(format!("{run}; echo code $?\n").as_bytes());
    until_there(&place.path("record.ready"));
    terminal.until_shows(" s · 58 operations · DRAM ");
    terminal.press(b"\x1a");
    terminal.until_shows("code 148");
    terminal.press(b"clear; fg\n");
    terminal.until_shows(" s · 58 operations · DRAM ");
    terminal.press(b"\x03");
    terminal.until_shows("killed by signal 2");
    terminal.until_shows("_report.html");
    assert_interrupted(&place);
    terminal.press(b"exit\n");
    terminal.wait();
}
