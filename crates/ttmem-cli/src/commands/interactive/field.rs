//! A line of text that is being typed: editing, and the one letter that may mean something else.
//!
//! `q` quits everywhere, but in a text it is a letter. So in an empty field a `q` is both: it stands there as a
//! letter, and the field is about to be left. Whatever is typed next makes it a letter.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A line of text that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    text: String,
    /// Where the next character goes, in bytes.
    cursor: usize,
    is_leaving: bool,
}

/// What a key did to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The text is another, or the cursor stands elsewhere.
    Typed,
    /// The text is as it is meant.
    Submitted,
    /// The text is not wanted.
    Cancelled,
    /// The key means nothing here.
    Unused,
}

impl Field {
    /// A field with a text in it, and the cursor behind it.
    pub fn with(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text, is_leaving: false }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor.
    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Whether the `q` in it quits unless something else is typed.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Puts another text in place of all.
    pub fn replace(&mut self, text: impl Into<String>) {
        *self = Self::with(text);
    }

    /// Inserts a text that was pasted. Of several lines, the first that is not empty counts.
    pub fn paste(&mut self, text: &str) {
        self.is_leaving = false;
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|character| !character.is_control()).collect();
        self.insert(&line);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Edit {
        self.is_leaving = false;
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            _ if is_enter(key) => return Edit::Submitted,
            KeyCode::Esc => return Edit::Cancelled,
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

    /// The keys of a shell's line.
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

    /// Where the word before the cursor begins. A path is made of words, too.
    fn word_start(&self) -> usize {
        let before = self.before_cursor();
        let word = before.trim_end_matches(is_between);
        word.rfind(is_between).map_or(0, |at| at + word[at..].chars().next().map_or(0, char::len_utf8))
    }

    /// Where the word after the cursor ends.
    fn word_end(&self) -> usize {
        let after = &self.text[self.cursor..];
        let word = after.trim_start_matches(is_between);
        let skipped = after.len() - word.len();
        self.cursor + skipped + word.find(is_between).unwrap_or(word.len())
    }
}

/// Whether a key ends a line. A paste may do that with another key than people.
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
    fn letters_go_where_the_cursor_is() {
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
    fn a_first_q_is_about_to_leave_until_something_else_is_typed() {
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
        assert!(!field.is_leaving(), "what is pasted is a text");
    }

    #[test]
    fn of_a_paste_the_first_line_counts() {
        let mut field = Field::with("ab");
        field.key(key(KeyCode::Left));
        field.paste("\r\n/my logs/a\u{7}.log\r\nrest\n");
        assert_eq!((field.text(), field.before_cursor()), ("a/my logs/a.logb", "a/my logs/a.log"));
    }

    #[test]
    fn the_end_of_a_pasted_line_submits() {
        assert_eq!(typed("x").key(control('j')), Edit::Submitted);
        assert_eq!(typed("x").key(key(KeyCode::Enter)), Edit::Submitted);
        assert_eq!(typed("x").key(key(KeyCode::Esc)), Edit::Cancelled);
        assert_eq!(typed("x").key(key(KeyCode::Up)), Edit::Unused);
    }
}
