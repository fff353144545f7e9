//! A session: owns the terminal and the state, waits for messages, and does what the state asks for.

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

/// What is done that quickly is awaited before the next frame and the next key: nothing flickers, and keys that
/// were typed ahead meet what they were typed for.
const AT_ONCE: Duration = Duration::from_millis(250);
/// So often it is looked whether a command that runs has ended.
const LOOK_UP: Duration = Duration::from_millis(50);
/// So often it is swept up after a report that nobody waits for.
const SWEEPS: usize = 3;
/// For ever, as far as anybody waits.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Asks until the user leaves; the exit code.
pub(super) fn run() -> Result<u8> {
    let look = Look { has_colour: console::has_colour() };
    let (sender, messages) = channel();
    input::watch(sender.clone()).map_err(on_terminal)?;
    let seat = Some(Seat::take(&sender)?);
    let store = Arc::new(Store::from_env());
    let backlog = VecDeque::new();
    let app = App::new();
    let mut session =
        Session { app, look, seat, sender, messages, backlog, store, writer: None, server: None };
    let code = session.ask();
    // The terminal first: a writer may take a while to finish, and a server to stop.
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
    /// The terminal and its keys, while they are ours.
    seat: Option<Seat>,
    sender: Sender<Message>,
    messages: Receiver<Message>,
    /// Messages that came while something was awaited.
    backlog: VecDeque<Message>,
    store: Arc<Result<Store>>,
    /// Writes a report, or has done so.
    writer: Option<JoinHandle<()>>,
    server: Option<Server>,
}

/// The terminal and its keys, which are left in this order.
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

/// What an effect came to.
enum Done {
    /// It is done.
    Now,
    /// An answer will come.
    Begun,
    /// It was the last.
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
        let patience = self.app.patience();
        match self.messages.recv_timeout(patience.unwrap_or(LONG)) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => Message::Tick,
            // We hold a sender ourselves.
            Err(RecvTimeoutError::Disconnected) => Message::Gone,
        }
    }

    /// Does all that is asked for, and what follows from that at once; the exit code, if it is over.
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
            Effect::Read { evidence, progress } => self.begin(move || {
                let outcome = work::read(evidence, Arc::clone(&progress));
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

    /// Lets an answer be the next message, before all that was typed ahead.
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
                self.answer(Answer::ServerEnded { how: format!("The server cannot be started: {error}.") });
                Done::Now
            }
        }
    }

    /// Runs a command on the terminal, and comes back with what it left behind.
    fn run(&mut self, command: &CommandLine) -> Result<Done> {
        self.seat = None;
        let line = shell_words::join(&command.words);
        console::say(&format!("ttmem run -- {line}"));
        let (how, left) = match child::run(command) {
            Ok((child, account)) => match self.wait_for(child) {
                Ok(ended) => child::left_behind(&account, &ended),
                Err(signal) => return Ok(Done::Over(code_of(signal))),
            },
            Err(error) => (format!("cannot be started: {error}"), Left::Nothing),
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

    /// Waits until a process has ended, and says how. A signal that ends us is passed on to it first, and then an
    /// error.
    fn wait_for(&mut self, mut child: Child) -> Result<String, i32> {
        let mut ended_by = None;
        loop {
            // Before the messages: the Ctrl-C that has ended it came to us, too.
            let ended = child.try_wait();
            match self.messages.recv_timeout(LOOK_UP) {
                // Ctrl-C goes to all on the terminal: it is meant for the command.
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
                (Err(error), None) => return Ok(format!("cannot be waited for: {error}")),
            }
        }
    }

    /// Leaves what a command has said on the screen until somebody has read it. A signal is an error.
    fn wait_for_enter(&mut self) -> Result<(), i32> {
        console::say("ttmem: no log was captured. Press Enter to go back.");
        let reader = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
        while !reader.is_finished() {
            match self.messages.recv_timeout(LOOK_UP) {
                Ok(Message::Signal(SIGTSTP)) => child::stop_job(),
                Ok(Message::Signal(signal)) => return Err(signal),
                Ok(other) => self.backlog.push_back(other),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Finishes a report that is being written when somebody quits: it was asked for. Whoever does not wait for it
    /// (Ctrl-C, a signal) leaves nothing of it behind. The exit code.
    fn end_writing(&mut self, mut code: u8) -> u8 {
        let Some(writer) = self.writer.take().filter(|writer| !writer.is_finished()) else { return code };
        if code == QUIT {
            console::say("ttmem: the report is still being written. Ctrl-C leaves without it.");
        }
        while code == QUIT && !writer.is_finished() {
            match self.messages.recv_timeout(LOOK_UP) {
                Ok(Message::Signal(SIGTSTP)) => child::stop_job(),
                Ok(Message::Signal(signal)) => code = code_of(signal),
                Ok(_) | Err(_) => {}
            }
        }
        // Once more where it has put another file there meanwhile; then it finds its folder gone, and gives up.
        for _ in 0..SWEEPS {
            if let Ok(store) = &*self.store {
                store.sweep_after(std::process::id());
            }
            if writer.is_finished() {
                break;
            }
            std::thread::sleep(LOOK_UP);
        }
        code
    }

    /// Goes to the background, as other programs do at Ctrl-Z, and comes back when it is called.
    fn suspend(&mut self) -> Result<Done> {
        self.seat = None;
        child::stop_job();
        self.redraw()
    }

    /// Takes the terminal anew, and draws all of it.
    fn redraw(&mut self) -> Result<Done> {
        self.seat = None;
        self.seat = Some(Seat::take(&self.sender)?);
        Ok(Done::Now)
    }
}
