//! The state: a stack of screens with home at the bottom, and how messages change it. It has no side effects; they are
//! returned as effects.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTSTP};

use super::field::{Field, is_enter};
use super::inventory::Inventory;
use super::message::{Answer, Effect, Message};
use super::screens::{Home, Next, Note, Screen};

/// How long a lone `q` in a text field waits for the next key before it quits.
const LEAVING: Duration = Duration::from_secs(1);
/// The interval of redrawing an animated screen.
const MOVING: Duration = Duration::from_millis(100);

const LEAVING_NOTE: &str = "q: quitting; keep typing for a name that starts with q";

/// The exit code when the user quits.
pub(super) const QUIT: u8 = 0;

/// The exit code of a program ended by a signal, as shells report it.
pub(super) fn code_of(signal: i32) -> u8 {
    128 + u8::try_from(signal.clamp(0, 127)).unwrap_or(0)
}

/// The state of the interactive program. It changes only in response to messages, so tests need no terminal.
pub(super) struct App {
    home: Home,
    /// The screens above home; the last one is visible.
    above: Vec<Box<dyn Screen>>,
    /// The reports, logs and scripts that were found.
    known: Inventory,
    /// A note to show until the next key.
    note: Option<Note>,
    /// A text to print again after the terminal is restored.
    farewell: Option<String>,
    /// Whether the terminal is too small for a screen; set while drawing.
    pub is_too_small: bool,
}

impl App {
    /// The initial state.
    pub fn new() -> Self {
        let (home, known) = (Home::default(), Inventory::default());
        Self { home, above: Vec::new(), known, note: None, farewell: None, is_too_small: false }
    }

    /// The visible screen, the inventory and the note.
    pub fn scene(&mut self) -> (&mut dyn Screen, &Inventory, Option<&Note>) {
        let screen: &mut dyn Screen = match self.above.last_mut() {
            Some(screen) => &mut **screen,
            None => &mut self.home,
        };
        (screen, &self.known, self.note.as_ref())
    }

    fn screen(&mut self) -> &mut dyn Screen {
        self.scene().0
    }

    fn is_leaving(&mut self) -> bool {
        self.screen().field().is_some_and(Field::is_leaving)
    }

    /// How long to wait for a message before sending a tick; `None` for no limit.
    pub fn timeout(&mut self) -> Option<Duration> {
        if self.is_leaving() { Some(LEAVING) } else { self.screen().is_moving().then_some(MOVING) }
    }

    /// The text to print after the terminal is restored.
    pub fn farewell(&mut self) -> Option<String> {
        let shown = self.screen().farewell();
        shown.or_else(|| self.farewell.take())
    }

    /// Applies a message.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Key(key) => self.key(key),
            Message::Paste(_) if self.is_too_small => Vec::new(),
            Message::Paste(text) => {
                self.note = None;
                self.with(|screen, known| screen.paste(&text, known))
            }
            Message::Tick if self.is_leaving() => vec![Effect::Quit(QUIT)],
            // These only redraw the screen.
            Message::Tick | Message::Resized => Vec::new(),
            Message::Signal(SIGTSTP) => vec![Effect::Suspend],
            Message::Signal(signal) => vec![Effect::Quit(code_of(signal))],
            Message::Gone => vec![Effect::Quit(code_of(SIGHUP))],
            Message::Answer(Answer::Stock(known)) => {
                self.known = *known;
                Vec::new()
            }
            Message::Answer(Answer::Bug) => vec![Effect::GiveUp],
            Message::Answer(answer) => self.with(|screen, known| screen.answer(answer, known)),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return vec![Effect::Quit(code_of(SIGINT))],
                KeyCode::Char('z') => return vec![Effect::Suspend],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                // For a test of panics. This key also ends other programs.
                #[cfg(debug_assertions)]
                KeyCode::Char('4' | '\\') => panic!("Ctrl-\\ was pressed"),
                _ => {}
            }
        }
        if self.is_too_small {
            // An invisible field takes no input.
            return if key.code == KeyCode::Char('q') { vec![Effect::Quit(QUIT)] } else { Vec::new() };
        }
        self.note = None;
        match self.screen().field() {
            Some(field) if field.is_leaving() && is_enter(key) => return vec![Effect::Quit(QUIT)],
            // With Ctrl or Alt, a letter is not a shortcut.
            None if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                return Vec::new();
            }
            None if key.code == KeyCode::Char('q') => return vec![Effect::Quit(QUIT)],
            _ => {}
        }
        let effects = self.with(|screen, known| screen.key(key, known));
        if self.is_leaving() {
            self.note = Some(Note::said(LEAVING_NOTE));
        }
        effects
    }

    /// Runs an action on the visible screen and follows its result.
    fn with(&mut self, act: impl FnOnce(&mut dyn Screen, &Inventory) -> Next) -> Vec<Effect> {
        let (screen, known, _) = self.scene();
        let next = act(screen, known);
        self.go(next)
    }

    fn go(&mut self, next: Next) -> Vec<Effect> {
        match next {
            Next::Stay => Vec::new(),
            Next::Say(note) => {
                self.note = Some(note);
                Vec::new()
            }
            Next::Do(effect) => vec![effect],
            Next::DoAndSay(effect, note) => {
                self.note = Some(note);
                vec![effect]
            }
            Next::Open(screen) => self.open(screen),
            Next::OpenAndSay(screen, note) => {
                self.note = Some(note);
                self.open(screen)
            }
            Next::Become(screen) => {
                let mut effects = self.close();
                effects.extend(self.open(screen));
                effects
            }
            Next::Back(note) => {
                let mut effects = self.close();
                self.note = note;
                // The screen may have changed the stored reports or logs.
                effects.push(Effect::TakeStock);
                effects
            }
            Next::Quit => vec![Effect::Quit(QUIT)],
        }
    }

    fn open(&mut self, mut screen: Box<dyn Screen>) -> Vec<Effect> {
        self.farewell = None;
        let effect = screen.begin(&self.known);
        self.above.push(screen);
        effect.into_iter().collect()
    }

    fn close(&mut self) -> Vec<Effect> {
        let Some(mut screen) = self.above.pop() else { return Vec::new() };
        // Kept until another screen is opened.
        self.farewell = screen.farewell().or_else(|| self.farewell.take());
        screen.end().into_iter().collect()
    }
}
