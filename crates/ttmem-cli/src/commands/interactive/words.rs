//! Texts as a shell would read them: words, quotes, escapes, `~` and `NAME=value` in front of a command.

use std::path::{Path, PathBuf};

/// A command line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// `NAME=value` in front of the command.
    pub environment: Vec<(String, String)>,
    /// The command and its arguments.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Takes a line apart, or says why that cannot be done.
    pub fn parse(line: &str, home: Option<&Path>) -> Result<Self, String> {
        let words = split(line).ok_or("a quote is not closed")?;
        if let Some(Word { operator, .. }) = words.iter().find(|word| !word.operator.is_empty()) {
            return Err(format!("`{operator}` is for a shell: write sh -c '…' around the line"));
        }
        let mut parsed = Self::default();
        for word in words {
            match assignment(&word.text).filter(|_| parsed.words.is_empty()) {
                Some((name, value)) => parsed.environment.push((name.to_owned(), value.to_owned())),
                None if word.begins_quoted => parsed.words.push(word.text),
                None => parsed.words.push(expand(&word.text, home)),
            }
        }
        if parsed.words.is_empty() { Err("type a script or a command".into()) } else { Ok(parsed) }
    }
}

/// The ways in which a text may name a file, the likeliest first: as it stands, and as a shell or a file
/// manager would have written it.
pub(super) fn readings(text: &str, home: Option<&Path>) -> Vec<String> {
    let mut found = vec![expand(text, home)];
    for reading in [expand(text.trim(), home), unquoted(text, home)] {
        if !found.contains(&reading) {
            found.push(reading);
        }
    }
    found
}

/// A path without the quotes, escapes and `file://` around it.
pub(super) fn unquoted(text: &str, home: Option<&Path>) -> String {
    let text = text.trim();
    let (plain, begins_quoted) = match split(text).as_deref() {
        Some([word]) => (word.text.clone(), word.begins_quoted),
        // A quote that is not closed yet.
        None if text.starts_with(['\'', '"']) => (text[1..].to_owned(), true),
        // Several words: a name with spaces, as it stands.
        _ => (text.to_owned(), false),
    };
    match plain.strip_prefix("file://") {
        Some(address) => from_address(address),
        None if begins_quoted => plain,
        None => expand(&plain, home),
    }
}

/// A path with the home directory in place of `~`.
pub(super) fn expand(path: &str, home: Option<&Path>) -> String {
    let Some(home) = home.map(Path::to_string_lossy) else { return path.to_owned() };
    match path.strip_prefix('~') {
        Some("") => home.into_owned(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

/// A path as people like to read it: relative to where they are, or with `~`.
pub(super) fn shorten(path: &Path, here: &Path, home: Option<&Path>) -> String {
    match path.strip_prefix(here).ok().filter(|rest| !rest.as_os_str().is_empty()) {
        Some(inside) => inside.to_string_lossy().into_owned(),
        None => from_home(path, home),
    }
}

/// A path with `~` in place of the home directory.
pub(super) fn from_home(path: &Path, home: Option<&Path>) -> String {
    let inside = home.and_then(|home| path.strip_prefix(home).ok());
    let short = inside
        .map(|rest| if rest.as_os_str().is_empty() { PathBuf::from("~") } else { Path::new("~").join(rest) });
    short.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// A text that a shell reads as one word.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./~:=@%+,".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// The first letters of it that only a shell knows what to do with: not those in quotes or behind a backslash.
    operator: String,
    /// Whether its first letter did: a `~` is then a letter.
    begins_quoted: bool,
}

impl Word {
    /// Takes a letter that stands as it is.
    fn push(&mut self, letter: char) {
        if matches!(letter, '|' | '&' | ';' | '<' | '>') && self.text.ends_with(&self.operator) {
            self.operator.push(letter);
        }
        self.text.push(letter);
    }
}

/// The words of a line; `None` where a quote is not closed.
fn split(line: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let is_first = word.is_none();
        let word = word.get_or_insert_default();
        if matches!(letter, '\'' | '"' | '\\') {
            word.begins_quoted |= is_first;
        }
        match letter {
            '\'' | '"' => quote(letter, &mut letters, &mut word.text)?,
            '\\' => word.text.push(letters.next()?),
            letter => word.push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

/// Takes what stands in quotes; `None` where they are not closed.
fn quote(mark: char, letters: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    loop {
        match letters.next()? {
            letter if letter == mark => return Some(()),
            '\\' if mark == '"' => {
                let next = letters.next()?;
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    text.push('\\');
                }
                text.push(next);
            }
            letter => text.push(letter),
        }
    }
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, value))
}

/// The path in `file://host/path`, with `%20` and the like read.
fn from_address(address: &str) -> String {
    let path = address.find('/').map_or(address, |at| &address[at..]);
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let bytes = path.as_bytes();
    let mut read = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                read.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                read.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "/home/me";

    fn clean(text: &str) -> String {
        unquoted(text, Some(Path::new(HOME)))
    }

    #[test]
    fn paths_lose_what_shells_and_file_managers_put_around_them() {
        for (text, path) in [
            ("/a/b.log", "/a/b.log"),
            ("  /a/my logs/b.log \n", "/a/my logs/b.log"),
            ("'/a/my logs/b.log' ", "/a/my logs/b.log"),
            ("\"/a/my logs/b.log\"", "/a/my logs/b.log"),
            (r"/a/my\ logs/b\(1\).log", "/a/my logs/b(1).log"),
            (r"'/a/it'\''s.log'", "/a/it's.log"),
            ("/a/it's.log", "/a/it's.log"),
            ("/a/my \"best\" log.log", "/a/my \"best\" log.log"),
            ("file:///a/my%20logs/b.log", "/a/my logs/b.log"),
            ("file://localhost/a/%C3%BC.log", "/a/ü.log"),
            ("'file:///a/b.log'", "/a/b.log"),
            ("file:///a/100%.log", "/a/100%.log"),
            ("~/x.log", "/home/me/x.log"),
            ("~", "/home/me"),
            ("~other/x.log", "~other/x.log"),
            ("'~/x.log'", "~/x.log"),
            ("", ""),
            ("'", ""),
            ("'/a/my logs/b", "/a/my logs/b"),
            ("\\", "\\"),
        ] {
            assert_eq!(clean(text), path, "{text:?}");
        }
    }

    #[test]
    fn a_name_is_first_taken_as_it_stands() {
        assert_eq!(readings(r"a\b.log ", None), [r"a\b.log ", r"a\b.log", "ab.log"]);
        assert_eq!(readings("a.log", None), ["a.log"]);
    }

    #[test]
    fn whatever_is_quoted_reads_as_itself() {
        for text in ["", "a", "a b", "it's", "\"", "\\", "~/x", "$HOME `x`", "a\tb", "ü"] {
            let line = split(&quoted(text)).unwrap_or_default();
            assert_eq!(line.iter().map(|word| word.text.as_str()).collect::<Vec<_>>(), [text]);
        }
    }

    #[test]
    fn commands_are_taken_apart_as_a_shell_would() {
        let line = r#"TT_X=1 Y="a b" python -u ~/my\ model.py --name 'x y' A=b"#;
        let parsed = CommandLine::parse(line, Some(Path::new(HOME))).unwrap();
        let environment = [("TT_X", "1"), ("Y", "a b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(parsed.environment, environment);
        assert_eq!(parsed.words, ["python", "-u", "/home/me/my model.py", "--name", "x y", "A=b"]);
        assert_eq!(CommandLine::parse("~/m.py", Some(Path::new(HOME))).unwrap().words, ["/home/me/m.py"]);
    }

    #[test]
    fn what_only_a_shell_can_do_is_said() {
        for (line, operator) in [
            ("a | b", "|"),
            ("a && b", "&&"),
            ("a > b", ">"),
            ("a &", "&"),
            ("hi>out.txt", ">"),
            ("a;b", ";"),
            ("a&&b", "&&"),
            ("a|b|c", "|"),
            ("a 2>&1", ">&"),
            ("'a;'>b", ">"),
            ("X=1;a", ";"),
        ] {
            let said = CommandLine::parse(line, None).unwrap_err();
            assert!(said.starts_with(&format!("`{operator}` is for a shell")), "{line:?}: {said}");
        }
        for line in ["'a", "", "  ", "X=1"] {
            assert!(CommandLine::parse(line, None).is_err(), "{line:?}");
        }
        assert!(CommandLine::parse(r#"a '|' \& x'|'y "a;b>c""#, None).is_ok());
    }

    #[test]
    fn paths_are_shown_from_where_one_is() {
        let short = |path: &str| shorten(Path::new(path), Path::new("/home/me/runs"), Some(Path::new(HOME)));
        assert_eq!(short("/home/me/runs/a.log"), "a.log");
        assert_eq!(short("/home/me/b/a.log"), "~/b/a.log");
        assert_eq!(short("/var/a.log"), "/var/a.log");
        assert_eq!(short("/home/me/runs"), "~/runs");
    }
}
