//! The summary, and the actions for it.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use shell_words::quote;
use ttmem::model::words::counted;
use ttmem::query::WarningSummary;
use ttmem::report;
use ttmem::store::Stored;

use super::serving::Serving;
use super::{Next, Note, Report, Scene, Screen};
use crate::commands::interactive::field::{Edit, Field};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, ask, ask_for, report_lines, wrap};
use crate::commands::interactive::message::{Answer, Effect};
use crate::commands::interactive::paths::unquoted;
use crate::commands::interactive::scroll::Scroll;

/// Below this width tables break; above it they are hard to read.
const WIDTHS: (usize, usize) = (60, 160);
/// The keys that show what the summary omits.
const HINTS: report::Hints<'static> = report::Hints { rows: "press a for all", lines: "press a for all" };

/// The summary of an input.
#[derive(Debug)]
pub(in crate::commands::interactive) struct Answered {
    report: Report,
    scroll: Scroll,
    /// Whether lists show all rows.
    has_all_rows: bool,
    asking: Asking,
    /// Why the report is being stored.
    storing_for: Option<Purpose>,
    /// The lines as last wrapped, and their width.
    set: Option<(usize, Vec<Line<'static>>)>,
}

/// The open question.
#[derive(Debug)]
enum Asking {
    Nothing,
    /// The file name for the Markdown.
    Name(Field),
    /// No question while the file is being written.
    Writing {
        path: PathBuf,
        name: Field,
    },
    /// Whether to replace an existing file.
    Replace {
        path: PathBuf,
        name: Field,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Page,
    Serving,
}

impl Answered {
    /// Shows a report.
    pub fn new(report: Report) -> Self {
        Self {
            report,
            scroll: Scroll::default(),
            has_all_rows: false,
            asking: Asking::Nothing,
            storing_for: None,
            set: None,
        }
    }

    /// The summary, wrapped to a width and cached.
    fn lines(&mut self, width: usize, look: Look) -> &[Line<'static>] {
        if self.set.as_ref().is_none_or(|(set, _)| *set != width) {
            self.set = Some((width, self.set_lines(width, look)));
        }
        self.set.as_ref().map_or(&[], |(_, lines)| lines)
    }

    fn set_lines(&self, width: usize, look: Look) -> Vec<Line<'static>> {
        let rows = self.has_all_rows.then_some(usize::MAX);
        let screen =
            report::Screen { width: width.clamp(WIDTHS.0, WIDTHS.1), height: None, rows, hints: HINTS };
        let mut lines = report_lines(&report::text(&self.report.summary, screen), width, look);
        lines.extend(self.warnings(width, look));
        lines
    }

    fn warnings(&self, width: usize, look: Look) -> Vec<Line<'static>> {
        const MAX_WARNINGS: usize = 100;
        let warnings = &self.report.summary.source.warnings;
        let mut texts: Vec<String> = warnings.iter().take(MAX_WARNINGS).map(in_words).collect();
        if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
            texts.push(format!("{}; use ttmem summary --json to see all", counted(more, "more warning")));
        }
        let lines = texts.iter().flat_map(|text| wrap(text, width));
        let lines: Vec<Line<'static>> = lines.map(|line| Line::styled(line, look.warning())).collect();
        if lines.is_empty() { lines } else { std::iter::once(Line::default()).chain(lines).collect() }
    }

    /// Uses the stored report, after storing it if necessary.
    fn with_stored(&mut self, purpose: Purpose) -> Next {
        if self.storing_for.is_some() {
            return Next::Stay;
        }
        if let Some(stored) = &self.report.stored {
            return go(stored, purpose);
        }
        let Some(profile) = self.report.profile.take() else { return Next::Stay };
        self.storing_for = Some(purpose);
        let file = self.report.file.clone();
        Next::DoAndSay(Effect::Store { profile, file }, Note::said("Writing the report …"))
    }

    fn stored(&mut self, outcome: ttmem::Result<Box<Stored>>) -> Next {
        let purpose = self.storing_for.take();
        match (outcome, purpose) {
            (Ok(stored), purpose) => {
                let next = purpose.map_or(Next::Stay, |purpose| go(&stored, purpose));
                self.report.stored = Some(*stored);
                next
            }
            (Err(error), _) => Next::Say(Note::bad(format!("cannot store the report: {error}"))),
        }
    }

    fn ask_key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match std::mem::replace(&mut self.asking, Asking::Nothing) {
            asking @ (Asking::Nothing | Asking::Writing { .. }) => {
                self.asking = asking;
                Next::Stay
            }
            Asking::Name(mut field) => match field.key(key) {
                Edit::Submitted => self.submit_name(field, known),
                Edit::Canceled => Next::Stay,
                Edit::Typed | Edit::Unused => {
                    self.asking = Asking::Name(field);
                    Next::Stay
                }
            },
            Asking::Replace { path, name } => match key.code {
                KeyCode::Char('y') => self.write(path, name, true),
                KeyCode::Char('n') | KeyCode::Esc => {
                    self.asking = Asking::Name(name);
                    Next::Stay
                }
                _ => {
                    self.asking = Asking::Replace { path, name };
                    Next::Stay
                }
            },
        }
    }

    fn submit_name(&mut self, field: Field, known: &Inventory) -> Next {
        let name = unquoted(field.text(), known.home.as_deref());
        if name.is_empty() {
            self.asking = Asking::Name(field);
            return Next::Say(Note::bad("type a file name"));
        }
        self.write(PathBuf::from(name), field, false)
    }

    fn write(&mut self, path: PathBuf, name: Field, may_replace: bool) -> Next {
        let mut content = Vec::new();
        // Writing into memory cannot fail.
        let _ = report::markdown(
            &self.report.summary,
            &self.report.name,
            report::MarkdownSize::default(),
            &mut content,
        );
        self.asking = Asking::Writing { path: path.clone(), name };
        Next::Do(Effect::Write { path, content, may_replace })
    }

    fn written(&mut self, written: &std::path::Path, outcome: ttmem::Result<()>) -> Next {
        let Asking::Writing { path, name } = std::mem::replace(&mut self.asking, Asking::Nothing) else {
            return Next::Stay;
        };
        match outcome {
            Ok(()) => Next::Say(Note::said(format!("Wrote {}", written.display()))),
            Err(ttmem::Error::Exists { .. }) => {
                self.asking = Asking::Replace { path, name };
                Next::Stay
            }
            Err(error) => {
                self.asking = Asking::Name(name);
                Next::Say(Note::bad(error.to_string()))
            }
        }
    }
}

fn in_words(warning: &WarningSummary) -> String {
    let line = warning.line.map_or_else(String::new, |line| format!(", line {line}"));
    format!("warning: {}{line}: {}", warning.file, warning.message)
}

fn go(stored: &Stored, purpose: Purpose) -> Next {
    match (purpose, stored.page()) {
        (Purpose::Serving, _) => Next::Open(Box::new(Serving::default())),
        (Purpose::Page, Some(page)) => {
            Next::DoAndSay(Effect::ShowPage(page), Note::said("Starting a browser …"))
        }
        (Purpose::Page, None) => Next::Say(Note::bad(format!(
            "this report has no page; run ttmem report {} to write one",
            quote(&stored.folder.display().to_string())
        ))),
    }
}

fn page_note(page: &std::path::Path, is_shown: bool, host: Option<&str>) -> Note {
    let page = page.display().to_string();
    if is_shown {
        return Note::said(format!("Opened in your browser: {page}"));
    }
    let host = host.unwrap_or("HOST");
    Note::said(format!(
        "Page written: {page}\n\
         Cannot start a browser here. Press s to serve the page, or run on your machine:\n\
         scp {} .",
        quote(&format!("{host}:{page}"))
    ))
}

impl Screen for Answered {
    fn title(&self) -> String {
        self.report.name.clone()
    }

    fn status(&self, _known: &Inventory) -> String {
        let warnings = match self.report.summary.source.warnings.len() {
            0 => String::new(),
            number => format!("{} below", counted(number, "warning")),
        };
        let parts = [warnings, self.scroll.status()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.asking {
            Asking::Nothing => vec![
                ("p", "page"),
                ("s", "serve"),
                ("m", "Markdown"),
                ("a", if self.has_all_rows { "top rows" } else { "all rows" }),
                ("↑↓", "scroll"),
                ("r", "back"),
                ("q", "quit"),
            ],
            Asking::Writing { .. } => vec![("q", "quit")],
            Asking::Name(_) => vec![("Enter", "write"), ("Esc", "cancel"), ("Ctrl-U", "clear")],
            Asking::Replace { .. } => vec![("y", "replace it"), ("n", "another name"), ("q", "quit")],
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let area = match &self.asking {
            Asking::Nothing => area,
            Asking::Name(field) => ask_for(frame, area, "Save Markdown as", field),
            Asking::Writing { path, .. } => ask(frame, area, &format!("Writing {} …", path.display())),
            Asking::Replace { path, .. } => {
                ask(frame, area, &format!("{} already exists. Replace it? y/n", path.display()))
            }
        };
        let mut scroll = self.scroll;
        scroll.draw(frame, area, self.lines(usize::from(area.width), scene.look));
        self.scroll = scroll;
    }

    fn field(&self) -> Option<&Field> {
        match &self.asking {
            Asking::Name(field) => Some(field),
            _ => None,
        }
    }

    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        if !matches!(self.asking, Asking::Nothing) {
            return self.ask_key(key, known);
        }
        match key.code {
            KeyCode::Char('p') => self.with_stored(Purpose::Page),
            KeyCode::Char('s') => self.with_stored(Purpose::Serving),
            KeyCode::Char('m') => {
                self.asking = Asking::Name(Field::with(format!("{}.md", self.report.name)));
                Next::Stay
            }
            KeyCode::Char('a') => {
                self.has_all_rows = !self.has_all_rows;
                self.set = None;
                Next::Stay
            }
            KeyCode::Char('r') | KeyCode::Esc | KeyCode::Backspace => Next::Back(None),
            _ => {
                self.scroll.key(key);
                Next::Stay
            }
        }
    }

    fn paste(&mut self, text: &str, _known: &Inventory) -> Next {
        if let Asking::Name(field) = &mut self.asking {
            field.paste(text);
        }
        Next::Stay
    }

    fn answer(&mut self, answer: Answer, known: &Inventory) -> Next {
        match answer {
            // The answer for another log may arrive late.
            Answer::Stored { file, profile, outcome } if file == self.report.file => {
                self.report.profile = Some(profile);
                self.stored(outcome)
            }
            Answer::PageShown { page, is_shown } => {
                Next::Say(page_note(&page, is_shown, known.host.as_deref()))
            }
            Answer::Written { path, outcome } => self.written(&path, outcome),
            _ => Next::Stay,
        }
    }
}
