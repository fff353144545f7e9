//! The stored reports: list, search, show and remove.

use crossterm::event::{KeyCode, KeyEvent};
use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ttmem::report::size;
use ttmem::store::{Kind, Stored};
use unicode_width::UnicodeWidthStr;

use super::reading::Reading;
use super::{Next, Note, Scene, Screen};
use crate::commands::interactive::field::{Edit, Field};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, ask, fill, fill_left, put, put_chosen, put_field, window};
use crate::commands::interactive::message::{Answer, Effect, Input};

/// The stored reports.
#[derive(Debug, Default)]
pub(in crate::commands::interactive) struct StoredReports {
    /// The index of the selected report in the filtered list.
    chosen: usize,
    search: Search,
    /// The report to remove, while asking for confirmation.
    removing: Option<Stored>,
}

/// The search.
#[derive(Debug, Default)]
struct Search {
    field: Field,
    is_typed: bool,
}

impl StoredReports {
    /// The reports that match every word of the search.
    fn found<'a>(&self, known: &'a Inventory) -> Vec<&'a Stored> {
        let words: Vec<String> = self.search.field.text().split_whitespace().map(str::to_lowercase).collect();
        let fits = |report: &&Stored| {
            let source = report.source.as_ref().map_or("", |source| source.path.as_str());
            let text = format!("{} {} {source}", report.name, report.format.as_deref().unwrap_or_default());
            words.iter().all(|word| text.to_lowercase().contains(word))
        };
        known.reports.iter().filter(fits).collect()
    }

    fn chosen<'a>(&self, known: &'a Inventory) -> Option<&'a Stored> {
        let found = self.found(known);
        found.get(self.chosen.min(found.len().saturating_sub(1))).copied()
    }

    fn step(&mut self, known: &Inventory, by: isize) {
        let last = self.found(known).len().saturating_sub(1);
        self.chosen = self.chosen.min(last).saturating_add_signed(by).min(last);
    }

    fn show(&self, known: &Inventory) -> Next {
        match self.chosen(known) {
            Some(report) => Next::Open(Box::new(Reading::of(Input::Report(Box::new(report.clone()))))),
            None => Next::Stay,
        }
    }

    fn search_key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match self.search.field.key(key) {
            Edit::Typed => self.chosen = 0,
            Edit::Canceled => {
                self.search = Search::default();
                self.chosen = 0;
            }
            Edit::Submitted => {
                self.search.is_typed = false;
                return self.show(known);
            }
            Edit::Unused => self.move_key(key, known),
        }
        Next::Stay
    }

    fn move_key(&mut self, key: KeyEvent, known: &Inventory) {
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.step(known, -1),
            KeyCode::Down | KeyCode::Char('j') => self.step(known, 1),
            KeyCode::PageUp => self.step(known, -10),
            KeyCode::PageDown | KeyCode::Char(' ') => self.step(known, 10),
            KeyCode::Home | KeyCode::Char('g') => self.chosen = 0,
            KeyCode::End | KeyCode::Char('G') => self.step(known, isize::MAX),
            _ => {}
        }
    }

    fn list_key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match key.code {
            KeyCode::Enter => return self.show(known),
            KeyCode::Char('/') => self.search.is_typed = true,
            KeyCode::Char('x') | KeyCode::Delete => self.removing = self.chosen(known).cloned(),
            KeyCode::Esc if !self.search.field.text().is_empty() => self.search = Search::default(),
            KeyCode::Esc => return Next::Back(None),
            _ => self.move_key(key, known),
        }
        Next::Stay
    }
}

/// The question before a report is removed.
fn question(report: &Stored) -> String {
    match report.kind {
        Kind::Report => {
            format!("Remove the report {} and its files ({})? y/n", report.name, size(report.bytes))
        }
        Kind::Run => {
            format!("Remove the run {} from the list? Its folder and log are kept. y/n", report.name)
        }
    }
}

impl Screen for StoredReports {
    fn title(&self) -> String {
        "stored reports".into()
    }

    fn status(&self, known: &Inventory) -> String {
        let all = known.reports.len();
        match self.found(known).len() {
            found if found < all => format!("{found} of {all}"),
            1 => "1 report".into(),
            _ => format!("{all} reports"),
        }
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        if self.removing.is_some() {
            vec![("y", "remove"), ("n", "keep"), ("q", "quit")]
        } else if self.search.is_typed {
            vec![("Enter", "show"), ("↑↓", "choose"), ("Esc", "all reports"), ("q", "quit if empty")]
        } else {
            vec![
                ("Enter", "show"),
                ("↑↓", "choose"),
                ("/", "search"),
                ("x", "remove"),
                ("Esc", "back"),
                ("q", "quit"),
            ]
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let found = self.found(scene.known);
        let area = match &self.removing {
            Some(report) => ask(frame, area, &question(report)),
            None => area,
        };
        let mut row = 0;
        if self.search.is_typed {
            put_field(frame, area, row, "Search", &self.search.field);
            row += 1;
        } else if !self.search.field.text().is_empty() {
            let text = format!("Search  {}", self.search.field.text());
            put(frame, area, row, Line::styled(text, Look::faint()));
            row += 1;
        }
        let columns = Columns::of(&found, usize::from(area.width));
        put(frame, area, row, Line::styled(columns.head(), Look::faint()));
        row += 1;
        let height = usize::from(area.height).saturating_sub(row);
        if found.is_empty() {
            let is_bare = scene.known.reports.is_empty();
            put(frame, area, row, if is_bare { "No stored reports." } else { "No matching reports." });
        }
        let chosen = self.chosen.min(found.len().saturating_sub(1));
        for index in window(found.len(), chosen, height) {
            let draw = if index == chosen { put_chosen } else { put };
            draw(frame, area, row, columns.row(found[index], scene.look));
            row += 1;
        }
    }

    fn field(&self) -> Option<&Field> {
        self.search.is_typed.then_some(&self.search.field)
    }

    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        if self.search.is_typed {
            return self.search_key(key, known);
        }
        let Some(report) = self.removing.take() else { return self.list_key(key, known) };
        match key.code {
            KeyCode::Char('y') => Next::Do(Effect::Remove(report.name)),
            KeyCode::Char('n') | KeyCode::Esc => Next::Say(Note::said(format!("Kept {}.", report.name))),
            _ => {
                self.removing = Some(report);
                Next::Stay
            }
        }
    }

    fn paste(&mut self, text: &str, _known: &Inventory) -> Next {
        if self.search.is_typed {
            self.search.field.paste(text);
            self.chosen = 0;
        }
        Next::Stay
    }

    fn answer(&mut self, answer: Answer, _known: &Inventory) -> Next {
        match answer {
            Answer::Removed { name, outcome: Ok(()) } => {
                Next::DoAndSay(Effect::TakeStock, Note::said(format!("Removed {name}.")))
            }
            Answer::Removed { outcome: Err(error), .. } => Next::Say(Note::bad(error.to_string())),
            _ => Next::Stay,
        }
    }
}

/// The columns of the list that fit the width.
struct Columns {
    name: usize,
    has_when: bool,
    has_size: bool,
    has_format: bool,
}

const WHEN: usize = 16;
const FORMAT: usize = 8;
const PEAK: usize = 29;
const SIZE: usize = 10;
const GAP: usize = 2;
/// Names are not cut below this width to make room for other columns.
const MIN_NAME: usize = 14;

impl Columns {
    fn of(reports: &[&Stored], width: usize) -> Self {
        let longest = reports.iter().map(|report| report.name.width()).max().unwrap_or(0).max("name".len());
        let mut room = width.saturating_sub(1 + longest.min(MIN_NAME) + GAP + PEAK);
        // The least important columns are dropped first.
        let mut takes = |column: usize| {
            let fits = room >= GAP + column;
            room -= if fits { GAP + column } else { 0 };
            fits
        };
        let (has_when, has_size, has_format) = (takes(WHEN), takes(SIZE), takes(FORMAT));
        Self { name: longest.min(MIN_NAME + room), has_when, has_size, has_format }
    }

    fn head(&self) -> String {
        self.cells(["name", "written", "format", "peak", "size"]).concat()
    }

    fn cells(&self, [name, when, format, peak, bytes]: [&str; 5]) -> Vec<String> {
        let gap = " ".repeat(GAP);
        let mut cells = vec![format!(" {}{gap}", fill(name, self.name))];
        if self.has_when {
            cells.push(format!("{}{gap}", fill(when, WHEN)));
        }
        if self.has_format {
            cells.push(format!("{}{gap}", fill(format, FORMAT)));
        }
        cells.push(fill(peak, PEAK));
        if self.has_size {
            cells.push(format!("{gap}{}", fill_left(bytes, SIZE)));
        }
        cells
    }

    fn row(&self, report: &Stored, look: Look) -> Line<'static> {
        let when = report.written.map_or_else(
            || "unknown".into(),
            |written| written.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        );
        let format = report.format.as_deref().unwrap_or("unknown");
        let cells = self.cells([&report.name, &when, format, &report.brief_peak_text(), &size(report.bytes)]);
        let peak_at = 1 + usize::from(self.has_when) + usize::from(self.has_format);
        let style =
            |index: usize| if index == peak_at && report.oom.is_some() { look.bad() } else { Look::plain() };
        let spans = cells.into_iter().enumerate().map(|(index, cell)| Span::styled(cell, style(index)));
        spans.collect()
    }
}
