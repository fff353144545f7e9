//! The prompt for a path: recent files, completion, and typed or pasted paths.

use std::path::{Path, PathBuf};

use crossterm::event::{KeyCode, KeyEvent};
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ttmem::report::size;

use super::reading::Reading;
use super::{Next, Note, Scene, Screen};
use crate::commands::interactive::completion::{Completer, Entry, Typed};
use crate::commands::interactive::field::{Edit, Field};
use crate::commands::interactive::inventory::{Inventory, RecentFile, ago};
use crate::commands::interactive::look::{Look, fill, fill_left, fit, put, put_chosen, put_field, window};
use crate::commands::interactive::message::{Answer, Effect, Input};
use crate::commands::interactive::paths::{readings, shorten, unquoted};
use crate::commands::interactive::view::note_lines;

/// The prompt for a path.
#[derive(Debug, Default)]
pub(in crate::commands::interactive) struct PathPrompt {
    field: Field,
    completer: Completer,
    /// The index of the selected offer, if any.
    chosen: Option<usize>,
}

/// A suggested path.
enum Offer<'a> {
    /// An entry of the typed folder.
    Entry(&'a Entry),
    /// A recent file.
    Recent(&'a RecentFile),
}

impl Offer<'_> {
    /// The path of an entry.
    fn entry_in(&self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Entry(entry) => Some(folder.join(&entry.name)),
            Self::Recent(_) => None,
        }
    }
}

impl PathPrompt {
    /// The prompt with a pasted text.
    pub fn with(pasted: &str) -> Self {
        let mut path = Self::default();
        path.field.paste(pasted);
        path
    }

    fn typed(&self, known: &Inventory) -> Typed {
        Typed::of(self.field.text(), known.home.as_deref())
    }

    /// The offers: completions of the typed text, and recent files whose path contains it.
    fn offers<'a>(&'a self, known: &'a Inventory) -> Vec<Offer<'a>> {
        let text = self.field.text();
        let typed = self.typed(known);
        let place = typed.place(known.home.as_deref());
        let listing = self.completer.listing(&place);
        // If there are recent files, entries of the folder are shown only once something is typed.
        let wants_entries = !text.is_empty() || known.recent.is_empty();
        let entries = listing.into_iter().flat_map(|listing| listing.matching(&typed.prefix));
        let mut offers: Vec<Offer<'a>> = entries.filter(|_| wants_entries).map(Offer::Entry).collect();
        let sought = text.to_lowercase();
        let fits = |file: &&RecentFile| file.path.to_string_lossy().to_lowercase().contains(&sought);
        let folder = if typed.folder.is_empty() { known.here.clone() } else { known.here.join(&place) };
        let entries: Vec<PathBuf> = offers.iter().filter_map(|offer| offer.entry_in(&folder)).collect();
        let is_new = |file: &&RecentFile| !entries.contains(&file.path);
        offers.extend(known.recent.iter().filter(fits).filter(is_new).map(Offer::Recent));
        offers
    }

    /// The index of the offer that Enter takes, if any.
    fn chosen(&self, offers: usize, known: &Inventory) -> Option<usize> {
        // With an empty field, the newest file; otherwise the only match.
        let is_likely = self.field.text().is_empty() || offers == 1 && self.is_listed(known);
        self.chosen.or(is_likely.then_some(0)).filter(|chosen| *chosen < offers)
    }

    /// Whether all entries of the typed folder are known. Until then, the typed path itself may be one of them.
    fn is_listed(&self, known: &Inventory) -> bool {
        let place = self.typed(known).place(known.home.as_deref());
        self.completer.listing(&place).is_some_and(|listing| !listing.is_cut)
    }

    fn step(&mut self, known: &Inventory, by: isize) {
        let offers = self.offers(known).len();
        if offers == 0 {
            return;
        }
        let last = offers - 1;
        self.chosen = Some(match self.chosen(offers, known) {
            Some(at) => at.saturating_add_signed(by).min(last),
            None if by < 0 => last,
            None => 0,
        });
    }

    /// Updates the offers after a change of the text.
    fn changed(&mut self, known: &Inventory) -> Next {
        self.chosen = None;
        let place = self.typed(known).place(known.home.as_deref());
        self.completer.look_into(place).map_or(Next::Stay, Next::Do)
    }

    fn complete(&mut self, known: &Inventory) -> Next {
        let offers = self.offers(known);
        if let Some(chosen) = self.chosen.and_then(|chosen| offers.get(chosen)) {
            let text = self.text_of(chosen, known);
            self.field.replace(text);
            return self.changed(known);
        }
        let place = self.typed(known).place(known.home.as_deref());
        Next::Do(self.completer.complete_in(place))
    }

    /// Completes once the folder is listed.
    fn complete_now(&mut self, known: &Inventory) -> Next {
        let typed = self.typed(known);
        let listing = self.completer.listing(&typed.place(known.home.as_deref()));
        match listing.and_then(|listing| typed.completed(listing)) {
            Some(text) if text != self.field.text() => {
                self.field.replace(text);
                self.changed(known)
            }
            // The common prefix is complete; select an entry instead.
            Some(_) => {
                self.step(known, 1);
                Next::Stay
            }
            None => Next::Say(Note::bad("no matching files")),
        }
    }

    fn text_of(&self, offer: &Offer<'_>, known: &Inventory) -> String {
        match offer {
            Offer::Entry(entry) => self.typed(known).with(entry),
            Offer::Recent(file) => shorten(&file.path, &known.here, known.home.as_deref()),
        }
    }

    fn submit(&mut self, known: &Inventory) -> Next {
        let offers = self.offers(known);
        let chosen = self.chosen(offers.len(), known).and_then(|chosen| offers.get(chosen));
        let text = match chosen {
            Some(Offer::Recent(file)) => return read(Input::file(known.name_from_here(&file.path))),
            Some(Offer::Entry(entry)) => self.typed(known).with(entry),
            None if self.field.text().trim().is_empty() => {
                return Next::Say(Note::bad("type or paste a path"));
            }
            None => self.field.text().to_owned(),
        };
        self.submit_text(&text, known)
    }

    fn submit_text(&mut self, text: &str, known: &Inventory) -> Next {
        let typed = Typed::of(text, known.home.as_deref());
        let listing = self.completer.listing(&typed.place(known.home.as_deref()));
        let entry =
            listing.and_then(|listing| listing.matching(&typed.prefix).find(|e| e.name == typed.prefix));
        if let Some(entry) = entry.filter(|entry| entry.is_folder) {
            // A folder is not a log, but it may contain one.
            let text = typed.with(entry);
            self.field.replace(text);
            return self.changed(known);
        }
        if text.ends_with('/') {
            self.field.replace(text);
            self.chosen = None;
            return match self
                .completer
                .look_into(Typed::of(text, known.home.as_deref()).place(known.home.as_deref()))
            {
                Some(effect) => Next::Do(effect),
                None => Next::Say(Note::said("this is a folder; choose a file in it")),
            };
        }
        read(Input::File(readings(text, known.home.as_deref())))
    }
}

fn read(input: Input) -> Next {
    Next::Open(Box::new(Reading::of(input)))
}

impl Screen for PathPrompt {
    fn title(&self) -> String {
        "choose a log".into()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("Enter", "read"),
            ("Tab", "complete"),
            ("↑↓", "choose"),
            ("Esc", "back"),
            ("q", "quit if empty"),
        ]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        put_field(frame, area, 0, "Path", &self.field);
        let notes = note_lines(scene, area.width);
        let mut row = 1;
        for line in notes {
            put(frame, area, row, line);
            row += 1;
        }
        row += usize::from(area.height > 8);
        let skipped = u16::try_from(row).unwrap_or(u16::MAX).min(area.height);
        let list = Rect { y: area.y + skipped, height: area.height - skipped, ..area };
        self.draw_offers(frame, list, scene.known);
    }

    fn draws_notes(&self) -> bool {
        true
    }

    fn field(&self) -> Option<&Field> {
        Some(&self.field)
    }

    fn begin(&mut self, known: &Inventory) -> Option<Effect> {
        if !self.field.text().is_empty() {
            let text = unquoted(self.field.text(), known.home.as_deref());
            self.field.replace(text);
        }
        let place = self.typed(known).place(known.home.as_deref());
        self.completer.look_into(place)
    }

    fn key(&mut self, key: KeyEvent, known: &Inventory) -> Next {
        match self.field.key(key) {
            Edit::Typed => self.changed(known),
            Edit::Canceled => Next::Back(None),
            Edit::Submitted => self.submit(known),
            Edit::Unused => {
                match key.code {
                    KeyCode::Tab => return self.complete(known),
                    KeyCode::Up | KeyCode::BackTab => self.step(known, -1),
                    KeyCode::Down => self.step(known, 1),
                    KeyCode::PageUp => self.step(known, -10),
                    KeyCode::PageDown => self.step(known, 10),
                    _ => {}
                }
                Next::Stay
            }
        }
    }

    fn paste(&mut self, text: &str, known: &Inventory) -> Next {
        let was_empty = self.field.text().is_empty();
        self.field.paste(text);
        if was_empty {
            let text = unquoted(self.field.text(), known.home.as_deref());
            self.field.replace(text);
        }
        self.changed(known)
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
            _ => Next::Stay,
        }
    }
}

impl PathPrompt {
    fn draw_offers(&self, frame: &mut Frame<'_>, area: Rect, known: &Inventory) {
        let offers = self.offers(known);
        let chosen = self.chosen(offers.len(), known);
        let width = usize::from(area.width);
        let mut rows: Vec<(Line<'static>, bool)> = Vec::new();
        let mut heading = String::new();
        for (index, offer) in offers.iter().enumerate() {
            let (above, line) = match offer {
                Offer::Entry(entry) => (self.heading(known), entry_line(entry, width)),
                Offer::Recent(file) => {
                    let more = if known.is_cut { " (incomplete: too many files)" } else { "" };
                    (format!("recent files{more}"), recent_line(file, known, width))
                }
            };
            if above != heading {
                rows.push((Line::styled(above.clone(), Look::faint()), false));
                heading = above;
            }
            rows.push((line, chosen == Some(index)));
        }
        let at = rows.iter().position(|(_, is_chosen)| *is_chosen).unwrap_or(0);
        let seen = window(rows.len(), at, usize::from(area.height));
        for (row, (line, is_chosen)) in rows.drain(seen).enumerate() {
            let draw = if is_chosen { put_chosen } else { put };
            draw(frame, area, row, line);
        }
    }

    /// `in ~/logs/`, with a note if the list is incomplete.
    fn heading(&self, known: &Inventory) -> String {
        let typed = self.typed(known);
        let folder = if typed.folder.is_empty() { "this folder" } else { &typed.folder };
        let listing = self.completer.listing(&typed.place(known.home.as_deref()));
        let more =
            if listing.is_some_and(|listing| listing.is_cut) { " (incomplete: too many files)" } else { "" };
        format!("in {folder}{more}")
    }
}

fn entry_line(entry: &Entry, width: usize) -> Line<'static> {
    let name = if entry.is_folder { format!("{}/", entry.name) } else { entry.name.clone() };
    Line::raw(format!("  {}", fit(&name, width.saturating_sub(2))))
}

/// `  logs/vae_20261115_081250/vae_profile.log    312.4 KiB   5 minutes ago`.
fn recent_line(file: &RecentFile, known: &Inventory, width: usize) -> Line<'static> {
    const SIZE: usize = 11;
    const WHEN: usize = 15;
    let when = Timestamp::try_from(file.written).ok().zip(known.taken);
    let when = when.map_or_else(String::new, |(then, now)| ago(then, now));
    // On a narrow terminal, show only the name.
    let details = match width {
        0..50 => String::new(),
        _ => format!("{}{}", fill_left(&size(file.bytes), SIZE), fill_left(&when, WHEN + 1)),
    };
    let room = width.saturating_sub(2 + details.chars().count()).min(100);
    let name = fill(&shorten(&file.path, &known.here, known.home.as_deref()), room);
    Line::from(vec![Span::raw(format!("  {name}")), Span::styled(details, Look::faint())])
}
