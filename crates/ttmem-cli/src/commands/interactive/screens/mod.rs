//! The screens, one file each: what is seen, and what a key does there.

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

/// A screen.
pub(super) trait Screen {
    /// What it is, for the first line.
    fn title(&self) -> String;

    /// What is worth knowing beside the title.
    fn status(&self, _known: &Inventory) -> String {
        String::new()
    }

    /// The keys that mean something here, and what.
    fn keys(&self) -> Vec<(&'static str, &'static str)>;

    /// Draws what is between the title and the keys.
    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>);

    /// Whether it draws notes itself, close to what they are about.
    fn draws_notes(&self) -> bool {
        false
    }

    /// The text that is being typed, if one is: there `q` is a letter.
    fn field(&self) -> Option<&Field> {
        None
    }

    /// Whether it changes without being told, and must be drawn again and again.
    fn is_moving(&self) -> bool {
        false
    }

    /// The screen is seen from now on.
    fn begin(&mut self, _known: &Inventory) -> Option<Effect> {
        None
    }

    /// Takes a key. `q` comes here only as a letter.
    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next;

    /// Takes a text that was pasted.
    fn paste(&mut self, _text: &str, _known: &Inventory) -> Next {
        Next::Stay
    }

    /// Takes what an effect came to. What an earlier screen has asked for comes here, too.
    fn answer(&mut self, _answer: Answer, _known: &Inventory) -> Next {
        Next::Stay
    }

    /// The screen is left.
    fn end(&mut self) -> Option<Effect> {
        None
    }

    /// What is to be printed when the program is left from here.
    fn farewell(&self) -> Option<String> {
        None
    }
}

/// What a screen is drawn with.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// Colours, or none.
    pub look: Look,
    /// What there is to look at.
    pub known: &'a Inventory,
    /// What is to be said.
    pub note: Option<&'a Note>,
}

/// Where a screen leads.
pub(super) enum Next {
    /// Nowhere.
    Stay,
    /// Nowhere, with something to say.
    Say(Note),
    /// Something is to be done outside.
    Do(Effect),
    /// Something is to be done outside, and said.
    DoAndSay(Effect, Note),
    /// To a screen from which one comes back here.
    Open(Box<dyn Screen>),
    /// To a screen from which one comes back here, with something to say.
    OpenAndSay(Box<dyn Screen>, Note),
    /// To a screen in place of this one.
    Become(Box<dyn Screen>),
    /// To the screen below, perhaps with something to say.
    Back(Option<Note>),
    /// Out.
    Quit,
}

/// Something to say, until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The text, perhaps of several lines.
    pub text: String,
    /// Whether something went wrong.
    pub is_bad: bool,
}

impl Note {
    /// Something worth knowing.
    pub fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_bad: false }
    }

    /// Something went wrong.
    pub fn bad(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_bad: true }
    }
}

#[cfg(test)]
mod tests;
