//! A text field: editing, and the double meaning of `q`.
//!
//! `q` quits everywhere, but in a text it is a letter. In an empty field it is both: it is inserted, and the program
//! quits after a moment unless another key follows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A single-line text field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    text: String,
    /// The position of the cursor, in bytes.
    cursor: usize,
    is_leaving: bool,
}

/// The effect of a key on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The text or the cursor changed.
    Typed,
    /// The text was confirmed.
    Submitted,
    /// Editing was canceled.
    Canceled,
    /// The key has no effect.
    Unused,
}

impl Field {
    /// A field with a text, and the cursor at its end.
    pub fn with(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text, is_leaving: false }
    }

    /// The text as typed, including spaces at its ends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor.
    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Whether its `q` quits unless another key follows.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Replaces the text.
    pub fn replace(&mut self, text: impl Into<String>) {
        *self = Self::with(text);
    }

    /// Inserts the first line of a pasted text that is not empty.
    pub fn paste(&mut self, text: &str) {
        self.is_leaving = false;
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|character| !character.is_control()).collect();
        self.insert(&line);
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Edit {
        self.is_leaving = false;
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            _ if is_enter(key) => return Edit::Submitted,
            KeyCode::Esc => return Edit::Canceled,
            KeyCode::Char(letter) if plain => {
                self.is_leaving = letter == 'q' && self.text.is_empty();
                self.insert(letter.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return self.control(letter);
            }
            KeyCode::Left if plain => self.cursor = self.previous(),
            KeyCode::Right if plain => self.cursor = self.next(),
            KeyCode::Left | KeyCode::Char('b') => self.cursor = self.word_start(),
            KeyCode::Right | KeyCode::Char('f') => self.cursor = self.word_end(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Backspace if plain => self.remove(self.previous(), self.cursor),
            KeyCode::Backspace => self.remove(self.word_start(), self.cursor),
            KeyCode::Delete => self.remove(self.cursor, self.next()),
            _ => return Edit::Unused,
        }
        Edit::Typed
    }

    /// Handles the line-editing keys of a shell.
    fn control(&mut self, letter: char) -> Edit {
        match letter {
            'a' => self.cursor = 0,
            'e' => self.cursor = self.text.len(),
            'b' => self.cursor = self.previous(),
            'f' => self.cursor = self.next(),
            'h' => self.remove(self.previous(), self.cursor),
            'w' => self.remove(self.word_start(), self.cursor),
            'u' => self.remove(0, self.cursor),
            'k' => self.remove(self.cursor, self.text.len()),
            _ => return Edit::Unused,
        }
        Edit::Typed
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn previous(&self) -> usize {
        self.before_cursor().char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |next| self.cursor + next.len_utf8())
    }

    /// The start of the word before the cursor. `/` also separates words.
    fn word_start(&self) -> usize {
        let before = self.before_cursor();
        let word = before.trim_end_matches(is_between);
        word.rfind(is_between).map_or(0, |at| at + word[at..].chars().next().map_or(0, char::len_utf8))
    }

    /// The end of the word after the cursor.
    fn word_end(&self) -> usize {
        let after = &self.text[self.cursor..];
        let word = after.trim_start_matches(is_between);
        let skipped = after.len() - word.len();
        self.cursor + skipped + word.find(is_between).unwrap_or(word.len())
    }
}

/// Whether a key submits a line. Pasted text may end lines with Ctrl-J.
pub(super) fn is_enter(key: KeyEvent) -> bool {
    let is_line_feed = key.code == KeyCode::Char('j') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.code == KeyCode::Enter || is_line_feed
}

fn is_between(character: char) -> bool {
    character.is_whitespace() || character == '/'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn control(letter: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    fn typed(text: &str) -> Field {
        let mut field = Field::default();
        for letter in text.chars() {
            field.key(key(KeyCode::Char(letter)));
        }
        field
    }

    #[test]
    fn letters_are_inserted_at_the_cursor() {
        let mut field = typed("aüc");
        field.key(key(KeyCode::Left));
        field.key(key(KeyCode::Left));
        field.key(key(KeyCode::Char('x')));
        assert_eq!((field.text(), field.before_cursor()), ("axüc", "ax"));
        field.key(key(KeyCode::Delete));
        assert_eq!(field.text(), "axc");
        field.key(key(KeyCode::Home));
        field.key(key(KeyCode::Backspace));
        field.key(key(KeyCode::Left));
        assert_eq!((field.text(), field.before_cursor()), ("axc", ""));
        field.key(key(KeyCode::End));
        field.key(key(KeyCode::Right));
        field.key(key(KeyCode::Backspace));
        assert_eq!((field.text(), field.before_cursor()), ("ax", "ax"));
    }

    #[test]
    fn words_and_lines_are_removed_as_in_a_shell() {
        let mut field = Field::with("/var/my logs/vae.log");
        field.key(control('w'));
        assert_eq!(field.text(), "/var/my logs/");
        field.key(control('w'));
        assert_eq!(field.text(), "/var/my ");
        field.key(control('a'));
        field.key(control('k'));
        assert_eq!(field.text(), "");
        let mut field = Field::with("/var/my logs");
        field.key(KeyEvent::new(KeyCode::Left, KeyModifiers::CONTROL));
        assert_eq!(field.before_cursor(), "/var/my ");
        field.key(control('u'));
        assert_eq!((field.text(), field.before_cursor()), ("logs", ""));
        field.key(KeyEvent::new(KeyCode::Char('f'), KeyModifiers::ALT));
        assert_eq!(field.before_cursor(), "logs");
    }

    #[test]
    fn a_first_q_quits_unless_another_key_follows() {
        let mut field = typed("q");
        assert!(field.is_leaving());
        field.key(key(KeyCode::Char('u')));
        assert!(!field.is_leaving());
        assert_eq!(field.text(), "qu");
        let mut field = typed("q");
        field.key(key(KeyCode::Backspace));
        assert!(!field.is_leaving());
        assert_eq!(field.text(), "");
        assert!(!typed("vq").is_leaving());
        let mut field = Field::default();
        field.paste("q");
        assert!(!field.is_leaving(), "pasted text does not quit");
    }

    #[test]
    fn the_first_line_of_a_paste_is_inserted() {
        let mut field = Field::with("ab");
        field.key(key(KeyCode::Left));
        field.paste("\r\n/my logs/a\u{7}.log\r\nrest\n");
        assert_eq!((field.text(), field.before_cursor()), ("a/my logs/a.logb", "a/my logs/a.log"));
    }

    #[test]
    fn the_end_of_a_pasted_line_submits() {
        assert_eq!(typed("x").key(control('j')), Edit::Submitted);
        assert_eq!(typed("x").key(key(KeyCode::Enter)), Edit::Submitted);
        assert_eq!(typed("x").key(key(KeyCode::Esc)), Edit::Canceled);
        assert_eq!(typed("x").key(key(KeyCode::Up)), Edit::Unused);
    }
}
