//! Home: the logs and reports that were found, and the actions.

use crossterm::event::{KeyCode, KeyEvent};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ttmem::report::size;

use super::path::PathPrompt;
use super::reading::Reading;
use super::run::RunPrompt;
use super::serving::Serving;
use super::stored::StoredReports;
use super::{Next, Note, Scene, Screen};
use crate::commands::interactive::inventory::{Inventory, RecentFile, ago};
use crate::commands::interactive::look::{Look, fill, first_fitting, put, put_chosen, wrap};
use crate::commands::interactive::message::Input;
use crate::commands::interactive::paths::{from_home, shorten};

const LABEL_WIDTH: usize = 18;

/// Shown until the inventory is known.
const LOOKING: &str = "looking …";

/// The first screen.
#[derive(Debug, Default)]
pub(in crate::commands::interactive) struct Home {
    /// The selected action; `None` for the most likely one.
    chosen: Option<Choice>,
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Newest,
    Log,
    Reports,
    Run,
    Serve,
    Quit,
}

impl Choice {
    fn letter(self) -> char {
        match self {
            Self::Newest => 'n',
            Self::Log => 'l',
            Self::Reports => 'o',
            Self::Run => 'r',
            Self::Serve => 's',
            Self::Quit => 'q',
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Newest => "Newest log",
            Self::Log => "Choose a log",
            Self::Reports => "Stored reports",
            Self::Run => "Run a command",
            Self::Serve => "Serve reports",
            Self::Quit => "Quit",
        }
    }

    /// Details to show, from the longest to the shortest version.
    fn details(self, known: &Inventory) -> Vec<String> {
        match self {
            Self::Newest => match known.recent.first() {
                Some(file) => described(file, known),
                None => vec![LOOKING.into()],
            },
            Self::Log => match known.recent.len() {
                0 => vec!["type or paste a path".into()],
                1 => vec!["1 recent file, or any path".into(), "1 recent".into()],
                number => vec![format!("{number} recent files, or any path"), format!("{number} recent")],
            },
            Self::Reports => reports(known),
            Self::Run => match &known.script {
                Some(script) => vec![
                    format!("{script} or any command, captured and reported"),
                    format!("{script} or any"),
                ],
                None => {
                    vec!["any script or command, captured and reported".into(), "any script".into()]
                }
            },
            Self::Serve => {
                vec!["in a browser, locally or over SSH".into(), "also over SSH".into()]
            }
            Self::Quit => vec![String::new()],
        }
    }
}

/// `vae_profile.log, 312.4 KiB, 5 minutes ago`.
fn described(file: &RecentFile, known: &Inventory) -> Vec<String> {
    let path = shorten(&file.path, &known.here, known.home.as_deref());
    let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let written = Timestamp::try_from(file.written).ok().zip(known.taken);
    let when = written.map_or_else(String::new, |(then, now)| format!(", {}", ago(then, now)));
    let bytes = size(file.bytes);
    vec![format!("{path}, {bytes}{when}"), format!("{name}, {bytes}{when}"), format!("{name}{when}"), name]
}

fn reports(known: &Inventory) -> Vec<String> {
    if known.taken.is_none() {
        return vec![LOOKING.into()];
    }
    let Some(newest) = known.reports.first() else {
        return vec![known.problem.clone().unwrap_or_else(|| "none yet".into())];
    };
    let when = newest.written.zip(known.taken).map(|(then, now)| format!(", {}", ago(then, now)));
    let (number, name, when) = (known.reports.len(), &newest.name, when.unwrap_or_default());
    vec![format!("{number}; the newest is {name}{when}"), format!("{number}; {name}"), number.to_string()]
}

/// A hint if there is no log, or if the newest one may be missing.
fn hint(known: &Inventory) -> Option<&'static str> {
    if known.taken.is_some() && known.recent.is_empty() {
        Some("No logs found here (*.log, *.ttmem, logs/*/). Paste a path, or run your script with ttmem.")
    } else if known.is_cut {
        Some(
            "Too many logs here to check all of them, so a newer one may be missing. Type its path to open it.",
        )
    } else {
        None
    }
}

impl Home {
    fn choices(known: &Inventory) -> Vec<Choice> {
        // Until the inventory is known there may be one; reserve its place so that nothing moves later.
        let has_newest = known.taken.is_none() || !known.recent.is_empty();
        let newest = has_newest.then_some(Choice::Newest);
        let rest = [Choice::Log, Choice::Reports, Choice::Run, Choice::Serve, Choice::Quit];
        newest.into_iter().chain(rest).collect()
    }

    /// The action for Enter: the most likely one, unless another was selected.
    fn chosen(&self, known: &Inventory) -> Choice {
        let choices = Self::choices(known);
        let likeliest = if choices.contains(&Choice::Newest) {
            Choice::Newest
        } else if !known.reports.is_empty() {
            Choice::Reports
        } else if known.script.is_some() {
            Choice::Run
        } else {
            Choice::Log
        };
        self.chosen.filter(|chosen| choices.contains(chosen)).unwrap_or(likeliest)
    }

    fn step(&mut self, known: &Inventory, back: bool) {
        let choices = Self::choices(known);
        let chosen = self.chosen(known);
        let at = choices.iter().position(|choice| *choice == chosen).unwrap_or(0);
        let next = if back { at + choices.len() - 1 } else { at + 1 };
        self.chosen = Some(choices[next % choices.len()]);
    }

    fn go(choice: Choice, known: &Inventory) -> Next {
        match choice {
            Choice::Newest => match known.recent.first() {
                Some(file) => {
                    Next::Open(Box::new(Reading::of(Input::file(known.name_from_here(&file.path)))))
                }
                None => Next::Stay,
            },
            Choice::Log => Next::Open(Box::new(PathPrompt::default())),
            Choice::Reports if known.reports.is_empty() => Next::Say(Note::said(
                "No stored reports yet. Choose a log and press p to write its page, or run a command.",
            )),
            Choice::Reports => Next::Open(Box::new(StoredReports::default())),
            Choice::Run => Next::Open(Box::new(RunPrompt::with(known.script.as_deref().unwrap_or_default()))),
            Choice::Serve => Next::Open(Box::new(Serving::default())),
            Choice::Quit => Next::Quit,
        }
    }
}

impl Screen for Home {
    fn title(&self) -> String {
        "where did the device memory go?".into()
    }

    fn status(&self, known: &Inventory) -> String {
        from_home(&known.here, known.home.as_deref())
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![("↑↓", "choose"), ("Enter", "go"), ("n l o r s", "shortcuts"), ("q", "quit")]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let choices = Self::choices(scene.known);
        let chosen = self.chosen(scene.known);
        let spacing = if usize::from(area.height) >= 2 * choices.len() + 3 { 2 } else { 1 };
        let room = usize::from(area.width).saturating_sub(LABEL_WIDTH + 5);
        for (index, choice) in choices.iter().enumerate() {
            let line = Line::from(vec![
                Span::styled(format!(" {}  ", choice.letter()), Look::strong()),
                Span::raw(fill(choice.label(), LABEL_WIDTH)),
                Span::styled(first_fitting(choice.details(scene.known), room), Look::faint()),
            ]);
            let draw = if *choice == chosen { put_chosen } else { put };
            draw(frame, area, index * spacing, line);
        }
        if let Some(hint) = hint(scene.known) {
            for (row, line) in wrap(hint, usize::from(area.width)).into_iter().enumerate() {
                put(
                    frame,
                    area,
                    (choices.len() * spacing).max(choices.len() + 1) + row,
                    Line::styled(line, Look::faint()),
                );
            }
        }
    }

    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match key.code {
            KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => self.step(known, true),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => self.step(known, false),
            KeyCode::Home => self.chosen = Self::choices(known).first().copied(),
            KeyCode::End => self.chosen = Self::choices(known).last().copied(),
            KeyCode::Enter => return Self::go(self.chosen(known), known),
            // A path starts like this: the following keys are the rest of it.
            KeyCode::Char(letter @ ('/' | '~' | '.')) => {
                return Next::Open(Box::new(PathPrompt::with(letter.encode_utf8(&mut [0; 4]))));
            }
            KeyCode::Char(letter) => {
                let choice = Self::choices(known).into_iter().find(|choice| choice.letter() == letter);
                return choice.map_or(Next::Stay, |choice| Self::go(choice, known));
            }
            _ => {}
        }
        Next::Stay
    }

    /// Pasted text is a path.
    fn paste(&mut self, text: &str, _known: &Inventory) -> Next {
        Next::Open(Box::new(PathPrompt::with(text)))
    }
}
