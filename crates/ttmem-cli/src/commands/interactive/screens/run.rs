//! The prompt for a command to run, capture and report.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::reading::Reading;
use super::unreported::Unreported;
use super::{Next, Note, Scene, Screen};
use crate::commands::interactive::command_line::CommandLine;
use crate::commands::interactive::completion::{Completer, Typed};
use crate::commands::interactive::field::{Edit, Field};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, fit, put, put_field, wrap};
use crate::commands::interactive::message::{Answer, Effect, Left};
use crate::commands::interactive::view::note_lines;

const ABOUT: &str = "Type a script (.py files run with python) or any command. Its output is shown and captured in \
                     ./logs, with the runtime's memory log enabled. Afterwards, ttmem shows the summary.";

/// The prompt for a command.
#[derive(Debug)]
pub(in crate::commands::interactive) struct RunPrompt {
    field: Field,
    completer: Completer,
    /// How the last command ended.
    ended: Option<String>,
}

impl RunPrompt {
    /// The prompt with an initial command.
    pub fn with(command: &str) -> Self {
        Self { field: Field::with(command), completer: Completer::default(), ended: None }
    }

    /// The text before the last word, and that word as a path.
    fn last_word(&self, known: &Inventory) -> (String, Typed) {
        let text = self.field.text();
        let at = text.rfind(' ').map_or(0, |at| at + 1);
        (text[..at].to_owned(), Typed::of(&text[at..], known.home.as_deref()))
    }

    fn complete_now(&mut self, known: &Inventory) -> Next {
        let (before, word) = self.last_word(known);
        let listing = self.completer.listing(&word.place(known.home.as_deref()));
        match listing.and_then(|listing| word.completed(listing)) {
            Some(path) => self.field.replace(format!("{before}{}", path.replace(' ', "\\ "))),
            None => return Next::Say(Note::bad("no matching files")),
        }
        Next::Stay
    }

    fn submit(&mut self, known: &Inventory) -> Next {
        match CommandLine::parse(self.field.text(), known.home.as_deref()) {
            Ok(command) => Next::Do(Effect::Run(command)),
            Err(why) => Next::Say(Note::bad(why)),
        }
    }

    /// Shows the result. The command stays in the field, to be run again.
    fn ran(&mut self, how: String, left: Left) -> Next {
        self.ended = Some(how.clone());
        match left {
            Left::Nothing => Next::Say(Note::bad(how)),
            Left::Report(input) => Next::OpenAndSay(Box::new(Reading::of(input)), Note::said(how)),
            Left::Log(log) => Next::Open(Box::new(Unreported::of(how, log))),
        }
    }

    /// Completions of the last word, once they were requested.
    fn candidates(&self, known: &Inventory) -> Vec<String> {
        let (_, word) = self.last_word(known);
        let listing = self.completer.listing(&word.place(known.home.as_deref()));
        let matching = listing.into_iter().flat_map(|listing| listing.matching(&word.prefix));
        matching.map(|entry| word.with(entry)).collect()
    }
}

impl Screen for RunPrompt {
    fn title(&self) -> String {
        "run a command".into()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("Enter", "run"),
            ("Tab", "complete"),
            ("Ctrl-U", "clear"),
            ("Esc", "back"),
            ("q", "quit if empty"),
        ]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let width = usize::from(area.width);
        put_field(frame, area, 0, "Command", &self.field);
        let mut notes = note_lines(scene, area.width);
        if let Some(ended) = self.ended.as_ref().filter(|_| notes.is_empty()) {
            notes.extend(wrap(ended, width).into_iter().map(|line| Line::styled(line, Look::faint())));
        }
        let about = wrap(ABOUT, width.min(100)).into_iter().map(|line| Line::styled(line, Look::faint()));
        let candidates = self.candidates(scene.known);
        let below: Vec<Line<'static>> = if candidates.len() > 1 {
            candidates
                .iter()
                .map(|text| Line::raw(format!("  {}", fit(text, width.saturating_sub(2)))))
                .collect()
        } else {
            about.collect()
        };
        let gap = usize::from(area.height > 6);
        for (index, line) in
            notes.into_iter().chain(std::iter::repeat_n(Line::default(), gap)).chain(below).enumerate()
        {
            put(frame, area, index + 1, line);
        }
    }

    fn draws_notes(&self) -> bool {
        true
    }

    fn field(&self) -> Option<&Field> {
        Some(&self.field)
    }

    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match self.field.key(key) {
            Edit::Submitted => self.submit(known),
            Edit::Canceled => Next::Back(None),
            Edit::Unused if key.code == KeyCode::Tab => {
                let (_, word) = self.last_word(known);
                Next::Do(self.completer.complete_in(word.place(known.home.as_deref())))
            }
            Edit::Typed | Edit::Unused => Next::Stay,
        }
    }

    fn paste(&mut self, text: &str, _known: &Inventory) -> Next {
        self.field.paste(text);
        Next::Stay
    }

    fn answer(&mut self, answer: Answer, known: &Inventory) -> Next {
        match answer {
            Answer::Listed(listing) => {
                if self.completer.listed(listing) {
                    self.complete_now(known)
                } else {
                    Next::Stay
                }
            }
            Answer::Ran { how, left } => self.ran(how, left),
            _ => Next::Stay,
        }
    }
}
