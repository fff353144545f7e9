//! A session: owns the terminal and the state, waits for messages, and performs effects.

use std::collections::VecDeque;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGQUIT, SIGTSTP};
use ttmem::store::Store;
use ttmem::{Error, Result};

use super::app::{App, QUIT, code_of};
use super::child::{self, Server};
use super::command_line::CommandLine;
use super::completion::Listing;
use super::input::{self, Keys};
use super::inventory::Inventory;
use super::look::Look;
use super::message::{Answer, Effect, Left, Message};
use super::terminal::Terminal;
use super::{view, work};
use crate::console;

/// Effects that finish within this time are awaited before the next frame and the next key. This avoids flicker, and
/// keys typed ahead reach the screen they were meant for.
const AT_ONCE: Duration = Duration::from_millis(250);
/// The interval of polling a running command for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The number of attempts to remove the files of an abandoned report.
const SWEEPS: usize = 3;
/// The wait without a timeout.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs until the user quits; returns the exit code.
pub(super) fn run() -> Result<u8> {
    let look = Look { has_color: console::has_color() };
    let (sender, messages) = channel();
    input::watch(sender.clone()).map_err(on_terminal)?;
    let seat = Some(Seat::take(&sender)?);
    let store = Arc::new(Store::from_env());
    let backlog = VecDeque::new();
    let app = App::new();
    let mut session =
        Session { app, look, seat, sender, messages, backlog, store, writer: None, server: None };
    let code = session.ask();
    // Restore the terminal first: finishing a report or stopping a server may take a while.
    session.seat = None;
    let code = code.map(|code| session.end_writing(code));
    if let Some(text) = session.app.farewell() {
        console::print(|out| write!(out, "{text}"))?;
    }
    code
}

fn on_terminal(source: std::io::Error) -> Error {
    Error::Write { path: "the terminal".into(), source }
}

struct Session {
    app: App,
    look: Look,
    /// The terminal and its keys; `None` while another command uses them.
    seat: Option<Seat>,
    sender: Sender<Message>,
    messages: Receiver<Message>,
    /// Messages that arrived while an effect was awaited.
    backlog: VecDeque<Message>,
    store: Arc<Result<Store>>,
    /// The thread that writes a report.
    writer: Option<JoinHandle<()>>,
    server: Option<Server>,
}

/// The terminal and its keys; dropped in this order.
struct Seat {
    _keys: Keys,
    terminal: Terminal,
}

impl Seat {
    fn take(sender: &Sender<Message>) -> Result<Self> {
        let terminal = Terminal::enter().map_err(on_terminal)?;
        let keys = Keys::listen(sender.clone()).map_err(on_terminal)?;
        Ok(Self { _keys: keys, terminal })
    }
}

/// The state of an effect.
enum Done {
    /// The effect is complete.
    Now,
    /// An answer will come.
    Begun,
    /// The session ends with this exit code.
    Over(u8),
}

impl Session {
    fn ask(&mut self) -> Result<u8> {
        self.draw();
        if let Some(code) = self.act(vec![Effect::TakeStock])? {
            return Ok(code);
        }
        loop {
            self.backlog.extend(self.messages.try_iter());
            if self.backlog.is_empty() {
                self.draw();
            }
            let message = self.next();
            let effects = self.app.update(message);
            if let Some(code) = self.act(effects)? {
                return Ok(code);
            }
        }
    }

    fn draw(&mut self) {
        let Some(seat) = &mut self.seat else { return };
        let (app, look) = (&mut self.app, self.look);
        if seat.terminal.draw(|frame| view::draw(app, look, frame)).is_err() {
            self.backlog.push_back(Message::Gone);
        }
    }

    fn next(&mut self) -> Message {
        if let Some(message) = self.backlog.pop_front() {
            return message;
        }
        let timeout = self.app.timeout();
        match self.messages.recv_timeout(timeout.unwrap_or(LONG)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Message::Tick,
            // The session holds a sender, so this cannot happen.
            Err(RecvTimeoutError::Disconnected) => Message::Gone,
        }
    }

    /// Performs effects and their immediate consequences; returns the exit code if the session ends.
    fn act(&mut self, effects: Vec<Effect>) -> Result<Option<u8>> {
        let until = Instant::now() + AT_ONCE;
        let mut effects = VecDeque::from(effects);
        let mut awaited = 0;
        loop {
            while let Some(effect) = effects.pop_front() {
                match self.perform(effect)? {
                    Done::Now => {}
                    Done::Begun => awaited += 1,
                    Done::Over(code) => return Ok(Some(code)),
                }
            }
            if awaited == 0 {
                return Ok(None);
            }
            match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(answer @ Message::Answer(_)) => {
                    awaited -= 1;
                    effects.extend(self.app.update(answer));
                }
                Ok(other) => self.backlog.push_back(other),
                Err(_) => return Ok(None),
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Result<Done> {
        let store = Arc::clone(&self.store);
        Ok(match effect {
            Effect::TakeStock => self.begin(move || Answer::Stock(Box::new(Inventory::take(&store)))),
            Effect::List(folder) => self.begin(move || Answer::Listed(Listing::of(folder))),
            Effect::Read { input, progress } => self.begin(move || {
                let outcome = work::read(input, Arc::clone(&progress));
                Answer::Read { progress, outcome }
            }),
            Effect::Store { mut profile, file } => {
                self.writer = Some(work::start(&self.sender, move || {
                    let outcome = work::store(&store, &mut profile, &file);
                    Answer::Stored { file, profile, outcome }
                }));
                Done::Begun
            }
            Effect::ShowPage(page) => self.begin(move || {
                let is_shown = work::show(&page);
                Answer::PageShown { page, is_shown }
            }),
            Effect::Write { path, content, may_replace } => self.begin(move || {
                let outcome = work::write(&path, &content, may_replace);
                Answer::Written { path, outcome }
            }),
            Effect::Remove(name) => self.begin(move || {
                let outcome = work::remove(&store, &name);
                Answer::Removed { name, outcome }
            }),
            Effect::Serve => self.serve(),
            Effect::StopServing => {
                self.server = None;
                Done::Now
            }
            Effect::Run(command) => self.run(&command)?,
            Effect::Redraw => self.redraw()?,
            Effect::Suspend => self.suspend()?,
            Effect::Quit(code) => Done::Over(code),
            Effect::GiveUp => return Err(Error::Bug("a thread panicked, see above".into())),
        })
    }

    fn begin(&self, work: impl FnOnce() -> Answer + Send + 'static) -> Done {
        work::start(&self.sender, work);
        Done::Begun
    }

    /// Makes an answer the next message, before keys typed ahead.
    fn answer(&mut self, answer: Answer) {
        self.backlog.push_front(Message::Answer(answer));
    }

    fn serve(&mut self) -> Done {
        match Server::start(&self.sender) {
            Ok(server) => {
                self.server = Some(server);
                Done::Begun
            }
            Err(error) => {
                self.answer(Answer::ServerEnded { how: format!("Cannot start the server: {error}.") });
                Done::Now
            }
        }
    }

    /// Runs a command on the terminal, and returns with what it left behind.
    fn run(&mut self, command: &CommandLine) -> Result<Done> {
        self.seat = None;
        let line = shell_words::join(&command.words);
        console::say(&format!("ttmem run -- {line}"));
        let (how, left) = match child::run(command) {
            Ok((child, account)) => match self.wait_for(child) {
                Ok(ended) => child::left_behind(&account, &ended),
                Err(signal) => return Ok(Done::Over(code_of(signal))),
            },
            Err(error) => (format!("could not be started: {error}"), Left::Nothing),
        };
        if matches!(left, Left::Nothing)
            && let Err(signal) = self.wait_for_enter()
        {
            return Ok(Done::Over(code_of(signal)));
        }
        self.seat = Some(Seat::take(&self.sender)?);
        self.answer(Answer::Ran { how: format!("{line} {how}"), left });
        self.answer(Answer::Stock(Box::new(Inventory::take(&self.store))));
        Ok(Done::Now)
    }

    /// Waits for a process to end, and returns how it ended. A signal that ends ttmem is passed on first and returned
    /// as an error.
    fn wait_for(&mut self, mut child: Child) -> Result<String, i32> {
        let mut ended_by = None;
        loop {
            // Before the messages, because a Ctrl-C that ends the command also arrives here.
            let ended = child.try_wait();
            match self.messages.recv_timeout(POLL_INTERVAL) {
                // Ctrl-C reaches all processes on the terminal; it is meant for the command.
                Ok(Message::Signal(SIGINT | SIGQUIT)) | Err(_) => {}
                Ok(Message::Signal(SIGTSTP)) => child::stop_job(),
                Ok(Message::Signal(signal)) => {
                    child::ask_to_end(&child);
                    ended_by = Some(signal);
                }
                Ok(other) => self.backlog.push_back(other),
            }
            match (ended, ended_by) {
                (Ok(None), _) => {}
                (_, Some(signal)) => return Err(signal),
                (Ok(Some(status)), None) => return Ok(child::in_words(status)),
                (Err(error), None) => return Ok(format!("could not be waited for: {error}")),
            }
        }
    }

    /// Keeps a command's output on the screen until Enter is pressed. A signal is an error.
    fn wait_for_enter(&mut self) -> Result<(), i32> {
        console::say("ttmem: no log was captured. Press Enter to go back.");
        let reader = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
        while !reader.is_finished() {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok(Message::Signal(SIGTSTP)) => child::stop_job(),
                Ok(Message::Signal(signal)) => return Err(signal),
                Ok(other) => self.backlog.push_back(other),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Waits for a report that is being written when the user quits. Ctrl-C or a signal abandons it and removes its
    /// files. Returns the exit code.
    fn end_writing(&mut self, mut code: u8) -> u8 {
        let Some(writer) = self.writer.take().filter(|writer| !writer.is_finished()) else { return code };
        if code == QUIT {
            console::say("ttmem: the report is still being written. Press Ctrl-C to quit without it.");
        }
        while code == QUIT && !writer.is_finished() {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok(Message::Signal(SIGTSTP)) => child::stop_job(),
                Ok(Message::Signal(signal)) => code = code_of(signal),
                Ok(_) | Err(_) => {}
            }
        }
        // Repeat, because the writer may have added a file meanwhile; it stops when its folder is gone.
        for _ in 0..SWEEPS {
            if let Ok(store) = &*self.store {
                store.sweep_after(std::process::id());
            }
            if writer.is_finished() {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        code
    }

    /// Suspends, as Ctrl-Z does in other programs, and redraws when continued.
    fn suspend(&mut self) -> Result<Done> {
        self.seat = None;
        child::stop_job();
        self.redraw()
    }

    /// Takes the terminal again and redraws it.
    fn redraw(&mut self) -> Result<Done> {
        self.seat = None;
        self.seat = Some(Seat::take(&self.sender)?);
        Ok(Done::Now)
    }
}
