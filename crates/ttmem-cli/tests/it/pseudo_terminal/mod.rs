//! `ttmem` on a pseudo-terminal, with a terminal emulator that shows what the user would see.
//!
//! Tests wait for the screen, never for a fixed time; a timeout ends a wait that fails.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use ttmem_testkit::tt::{self, Scenario};

/// The longest wait.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub const ENTER: &str = "\r";
pub const ESCAPE: &str = "\x1b";
pub const TAB: &str = "\t";
pub const UP: &str = "\x1b[A";
pub const DOWN: &str = "\x1b[B";
pub const RIGHT: &str = "\x1b[C";
pub const LEFT: &str = "\x1b[D";
pub const HOME: &str = "\x1b[H";
pub const END: &str = "\x1b[F";
pub const PAGE_UP: &str = "\x1b[5~";
pub const PAGE_DOWN: &str = "\x1b[6~";
pub const BACKSPACE: &str = "\x7f";
pub const CTRL_C: &str = "\x03";
pub const CTRL_U: &str = "\x15";
pub const CTRL_W: &str = "\x17";
pub const CTRL_Z: &str = "\x1a";

/// An empty working folder and an empty home.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder };
        for folder in [place.work(), place.home(), place.path("bin")] {
            fs::create_dir(folder).unwrap();
        }
        place
    }

    /// With a log, `vae.log`.
    pub fn with_log() -> Self {
        let place = Self::new();
        place.log("vae.log", Scenario::Vae);
        place
    }

    /// With that log and two stored reports, `vae` and `oom`.
    pub fn with_reports() -> Self {
        let place = Self::with_log();
        place.log("oom.log", Scenario::OomCapacity);
        for log in ["oom.log", "vae.log"] {
            place.ttmem().args(["report", log]).assert().success();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        // The real path, as the kernel reports it.
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The folder of stored reports.
    pub fn reports(&self) -> PathBuf {
        self.path("home/.ttmem/reports")
    }

    /// A file in the working folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// Writes a file to the working folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a log to the working folder.
    pub fn log(&self, name: &str, scenario: Scenario) -> PathBuf {
        let mut text = Vec::new();
        tt::make(scenario, &tt::Options::default(), &mut text).unwrap();
        self.write(name, &String::from_utf8(text).unwrap())
    }

    /// A log without memory states.
    pub fn log_without_memory(&self, name: &str) -> PathBuf {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/malformed");
        let text = fs::read_to_string(corpus.join("no-memory-operations.log")).unwrap();
        self.write(name, &text)
    }

    /// A command in the PATH of the session.
    pub fn program(&self, name: &str, script: &str) {
        ttmem_testkit::programs::script(&self.path("bin").join(name), script);
    }

    /// `ttmem` without a terminal, in the same folder.
    pub fn ttmem(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::cargo_bin("ttmem").unwrap();
        command.current_dir(self.work()).env("HOME", self.home()).env_remove("TTMEM_HOME");
        command
    }

    /// `ttmem` on a terminal with 80 columns and 24 rows.
    pub fn start(&self) -> Session {
        self.start_with(80, 24, &[])
    }

    /// `ttmem` on a terminal of another size, with environment variables.
    pub fn start_with(&self, columns: u16, rows: u16, environment: &[(&str, &str)]) -> Session {
        self.start_program(&["ttmem"], columns, rows, environment)
    }

    /// A shell on a terminal, with `ttmem` in its PATH.
    pub fn start_in_shell(&self) -> Session {
        let mut session = self.start_program(&["bash", "--norc", "-i"], 80, 24, &[("PS1", "$ ")]);
        session.see("$ ");
        session
    }

    /// Runs `ttmem` to its end, on a terminal.
    #[track_caller]
    pub fn show(&self, arguments: &[&str], (columns, rows): (u16, u16)) -> Shown {
        let mut session = self.start_program(&[&["ttmem"], arguments].concat(), columns, rows, &[]);
        let screen = session.ends_with(0);
        let mut emulator = session.emulator.lock().unwrap();
        // The emulator reduces it to the number of rows that scrolled off.
        emulator.screen_mut().set_scrollback(usize::MAX);
        let scrolled = emulator.screen().scrollback();
        let mut tall = vt100::Parser::new(count(MAX_LINES), count(columns), 0);
        tall.process(&session.output.lock().unwrap());
        let lines = tall.screen().contents().lines().map(|line| line.trim_end().to_owned()).collect();
        Shown { screen, scrolled, lines }
    }

    fn start_program(
        &self,
        words: &[&str],
        columns: u16,
        rows: u16,
        environment: &[(&str, &str)],
    ) -> Session {
        let ttmem = assert_cmd::cargo::cargo_bin("ttmem");
        let program = if words[0] == "ttmem" { ttmem.as_os_str() } else { words[0].as_ref() };
        let mut command = CommandBuilder::new(program);
        command.args(&words[1..]);
        command.env_clear();
        let built = ttmem.parent().unwrap();
        command.env(
            "PATH",
            format!("{}:{}:/usr/local/bin:/usr/bin:/bin", self.path("bin").display(), built.display()),
        );
        command.env("HOME", self.home());
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for (name, value) in environment {
            command.env(name, value);
        }
        command.cwd(self.work());
        Session::start(command, columns, rows)
    }
}

/// The rows of the emulator that shows a whole output.
const MAX_LINES: u16 = 500;

/// What `ttmem` has printed on a terminal, both streams.
pub struct Shown {
    /// The text that is visible at the end.
    pub screen: String,
    /// The rows that scrolled off. With 0, the whole text is visible, and the prompt below it.
    pub scrolled: usize,
    /// All lines, including those that scrolled off; wrapped rows are one line.
    pub lines: Vec<String>,
}

/// `ttmem`, running on a pseudo-terminal.
pub struct Session {
    master: Box<dyn MasterPty + Send>,
    /// Held, so that the terminal exists after the program has ended.
    slave: Option<Box<dyn SlavePty + Send>>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    emulator: Arc<Mutex<vt100::Parser>>,
    /// Everything that was printed.
    output: Arc<Mutex<Vec<u8>>>,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    settings_before: String,
}

impl Session {
    fn start(command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let settings_before = settings(&*pair.master);
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(count(rows), count(columns), 1000)));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut output = pair.master.try_clone_reader().unwrap();
        let all = Arc::new(Mutex::new(Vec::new()));
        let (screen, over, copy) = (Arc::clone(&emulator), Arc::clone(&is_over), Arc::clone(&all));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                screen.lock().unwrap().process(&bytes[..count]);
                copy.lock().unwrap().extend_from_slice(&bytes[..count]);
                if over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        Self {
            master: pair.master,
            slave: Some(pair.slave),
            keyboard,
            child,
            emulator,
            output: all,
            is_over,
            reader: Some(reader),
            settings_before,
        }
    }

    /// Types keys.
    pub fn send(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
        self
    }

    /// Pastes text, with bracketed paste.
    pub fn paste(&mut self, text: &str) -> &mut Self {
        self.send(&format!("\x1b[200~{text}\x1b[201~"))
    }

    /// Writes to the screen, as another process would.
    pub fn scribble(&mut self, text: &str) -> &mut Self {
        self.emulator.lock().unwrap().process(text.as_bytes());
        self
    }

    /// Waits until a text is on the screen.
    pub fn see(&mut self, text: &str) -> &mut Self {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until a text is no longer on the screen.
    pub fn see_no(&mut self, text: &str) -> &mut Self {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text))
    }

    /// Waits until a text is highlighted.
    pub fn see_chosen(&mut self, text: &str) -> &mut Self {
        let is_chosen = |emulator: &vt100::Parser| {
            let screen = emulator.screen();
            let (rows, columns) = screen.size();
            let columns = columns.get();
            (0..rows.get()).any(|row| {
                let is_marked = screen.cell(row, 1).is_some_and(vt100::Cell::inverse);
                is_marked && screen.contents_between(row, 0, row, columns).contains(text)
            })
        };
        let emulator = Arc::clone(&self.emulator);
        self.wait_until(&format!("{text:?} chosen"), move |_| is_chosen(&emulator.lock().unwrap()))
    }

    /// Waits until the screen meets a condition.
    pub fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&str) -> bool) -> &mut Self {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return self;
            }
            assert!(begun.elapsed() < TIMEOUT, "timed out waiting for: {what}\nthe screen shows:\n{screen}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        self.emulator.lock().unwrap().screen().contents()
    }

    /// Calls a function with the emulator's screen.
    pub fn with_emulator<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.emulator.lock().unwrap().screen())
    }

    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        self.emulator.lock().unwrap().screen_mut().set_size(count(rows), count(columns));
        self.master.resize(size(columns, rows)).unwrap();
        self
    }

    /// The program's process id.
    pub fn id(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Sends a signal to the program.
    pub fn signal(&mut self, signal: rustix::process::Signal) -> &mut Self {
        let id = rustix::process::Pid::from_raw(self.id().cast_signed());
        rustix::process::kill_process(id.unwrap(), signal).unwrap();
        self
    }

    /// Waits for the end of the program and checks that the terminal is restored. Returns the screen.
    pub fn ends_with(&mut self, code: u32) -> String {
        assert_eq!(self.wait(), code, "{}", self.screen());
        assert_eq!(settings(&*self.master), self.settings_before, "the terminal's settings");
        // No other process has the terminal open, so the reader ends after the last output.
        self.slave = None;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let emulator = self.emulator.lock().unwrap();
        let screen = emulator.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
        screen.contents()
    }

    fn wait(&mut self) -> u32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(
                begun.elapsed() < TIMEOUT,
                "the program does not end; the screen shows:\n{}",
                self.screen()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Closes the terminal, as a broken connection does. Returns the exit code of the program.
    pub fn hang_up(mut self) -> u32 {
        self.is_over.store(true, Ordering::SeqCst);
        // The reader holds the terminal, too; it stops after the next output.
        self.send(DOWN);
        let Self { master, slave, keyboard, mut child, reader, .. } = self;
        reader.unwrap().join().unwrap();
        drop((master, slave, keyboard));
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(begun.elapsed() < TIMEOUT, "the program does not end without a terminal");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn count(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn settings(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}
