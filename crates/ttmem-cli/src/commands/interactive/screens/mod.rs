//! The screens, one file each: what they show, and how they handle keys.

mod home;
mod no_memory;
mod path;
mod reading;
mod result;
mod run;
mod serving;
mod stored;
mod unreported;

use crossterm::event::KeyEvent;
use ratatui::Frame;
use ratatui::layout::Rect;

pub(super) use home::Home;

use super::field::Field;
use super::inventory::Inventory;
use super::look::Look;
use super::message::{Answer, Effect, Report};

/// A full-screen view that handles its own keys.
pub(super) trait Screen {
    /// The title, for the first line.
    fn title(&self) -> String;

    /// A status to show next to the title.
    fn status(&self, _known: &Inventory) -> String {
        String::new()
    }

    /// The keys of this screen, and what they do.
    fn keys(&self) -> Vec<(&'static str, &'static str)>;

    /// Draws the area between the title and the keys.
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>);

    /// Whether it draws notes itself, close to their subject.
    fn draws_notes(&self) -> bool {
        false
    }

    /// The active text field, where `q` is a letter.
    fn field(&self) -> Option<&Field> {
        None
    }

    /// Whether it changes without messages, so that it must be redrawn regularly.
    fn is_moving(&self) -> bool {
        false
    }

    /// Called when the screen is opened.
    fn begin(&mut self, _known: &Inventory) -> Option<Effect> {
        None
    }

    /// Handles a key. `q` arrives here only as a letter.
    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next;

    /// Handles pasted text.
    fn paste(&mut self, _text: &str, _known: &Inventory) -> Next {
        Next::Stay
    }

    /// Handles the result of an effect, possibly one that an earlier screen requested.
    fn answer(&mut self, _answer: Answer, _known: &Inventory) -> Next {
        Next::Stay
    }

    /// Called when the screen is closed.
    fn end(&mut self) -> Option<Effect> {
        None
    }

    /// The text to print when the program quits from here.
    fn farewell(&self) -> Option<String> {
        None
    }
}

/// The context for drawing a screen.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// The style.
    pub look: Look,
    /// The inventory.
    pub known: &'a Inventory,
    /// The note to show.
    pub note: Option<&'a Note>,
}

/// What to do after a screen has handled something.
pub(super) enum Next {
    /// Stay on this screen.
    Stay,
    /// Stay and show a note.
    Say(Note),
    /// Perform an effect.
    Do(Effect),
    /// Perform an effect and show a note.
    DoAndSay(Effect, Note),
    /// Open a screen on top of this one.
    Open(Box<dyn Screen>),
    /// Open a screen on top of this one and show a note.
    OpenAndSay(Box<dyn Screen>, Note),
    /// Replace this screen.
    Become(Box<dyn Screen>),
    /// Go back to the previous screen, optionally with a note.
    Back(Option<Note>),
    /// Quit.
    Quit,
}

/// A note, shown until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The text; may have several lines.
    pub text: String,
    /// Whether it is an error.
    pub is_bad: bool,
}

impl Note {
    /// A note for information.
    pub fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_bad: false }
    }

    /// A note about an error, shown in another style.
    pub fn bad(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_bad: true }
    }
}

#[cfg(test)]
mod tests;
