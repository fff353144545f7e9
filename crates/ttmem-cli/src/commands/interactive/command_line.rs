//! A typed command line, parsed as a shell would.

use std::path::Path;

use super::paths::expand;

/// The characters that are shell operators unless they are quoted.
const OPERATORS: [char; 5] = ['|', '&', ';', '<', '>'];

/// A command with its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// `NAME=value` before the command.
    pub environment: Vec<(String, String)>,
    /// The command and its arguments.
    pub words: Vec<String>,
}

impl CommandLine {
    /// Parses a line; an error says what is wrong with it.
    pub fn parse(line: &str, home: Option<&Path>) -> Result<Self, String> {
        if let Some(operator) = operator(line) {
            return Err(format!("`{operator}` needs a shell; wrap the line in sh -c '…'"));
        }
        let words = shell_words::split(&expand_words(line, home)).map_err(|_| "unclosed quote")?;
        let mut parsed = Self::default();
        for word in words {
            match assignment(&word).filter(|_| parsed.words.is_empty()) {
                Some((name, value)) => parsed.environment.push((name.to_owned(), value.to_owned())),
                None => parsed.words.push(word),
            }
        }
        if parsed.words.is_empty() { Err("type a script or command".into()) } else { Ok(parsed) }
    }
}

/// The first shell operator in a line, such as `|` or `>&`.
fn operator(line: &str) -> Option<&str> {
    let is_unquoted = |at: usize| ends_with_probe(&format!("{} {PROBE}", &line[..at]));
    let (start, _) = line.match_indices(OPERATORS).find(|(at, _)| is_unquoted(*at))?;
    let rest = &line[start..];
    Some(&rest[..rest.find(|letter| !OPERATORS.contains(&letter)).unwrap_or(rest.len())])
}

/// A line with the home directory in place of each `~` that a shell would expand.
fn expand_words(line: &str, home: Option<&Path>) -> String {
    let mut expanded = String::with_capacity(line.len());
    let mut end = 0;
    for (at, _) in line.match_indices('~') {
        let tilde = if line[at..].starts_with("~/") { "~/" } else { "~" };
        let after = line[at + tilde.len()..].chars().next();
        let names_home = tilde == "~/" || after.is_none_or(char::is_whitespace);
        let before = &line[..at];
        let follows_space = before.is_empty() || before.ends_with(char::is_whitespace);
        if names_home && follows_space && ends_with_probe(&format!("{before}{PROBE}")) {
            expanded.push_str(&line[end..at]);
            expanded.push_str(&shell_words::quote(&expand(tilde, home)));
            end = at + tilde.len();
        }
    }
    expanded + &line[end..]
}

/// A word in place of the rest of a line, to find out how the start is parsed.
const PROBE: &str = "_";

/// Whether the probe at the end of a line is a separate word: not quoted, escaped, commented or part of another.
fn ends_with_probe(line: &str) -> bool {
    shell_words::split(line).is_ok_and(|words| words.last().is_some_and(|word| word == PROBE))
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "/home/me";

    #[test]
    fn commands_are_parsed_as_in_a_shell() {
        let line = r#"TT_X=1 Y="a b" python -u ~/my\ model.py --name 'x y' A=b"#;
        let parsed = CommandLine::parse(line, Some(Path::new(HOME))).unwrap();
        let environment = [("TT_X", "1"), ("Y", "a b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(parsed.environment, environment);
        assert_eq!(parsed.words, ["python", "-u", "/home/me/my model.py", "--name", "x y", "A=b"]);
        assert_eq!(CommandLine::parse("~/m.py", Some(Path::new(HOME))).unwrap().words, ["/home/me/m.py"]);
        let comment = CommandLine::parse("python m.py --run=#2 # the second | try", None).unwrap();
        assert_eq!(comment.words, ["python", "m.py", "--run=#2"]);
    }

    #[test]
    fn only_the_tildes_that_a_shell_expands_become_the_home_directory() {
        let words = |line: &str, home: &str| CommandLine::parse(line, Some(Path::new(home))).unwrap().words;
        assert_eq!(words("ls ~ ~/ ~/a", HOME), ["ls", "/home/me", "/home/me/", "/home/me/a"]);
        assert_eq!(words("ls ~ ~/a", "/"), ["ls", "/", "/a"]);
        assert_eq!(words("ls ~/a", "/home/it's me"), ["ls", "/home/it's me/a"]);
        for (line, word) in [
            ("'~/a'", "~/a"),
            ("'a ~/b'", "a ~/b"),
            (r"\~/a", "~/a"),
            (r"a\ ~/b", "a ~/b"),
            ("a~/b", "a~/b"),
            ("~other/'a b'", "~other/a b"),
            ("~'a'", "~a"),
        ] {
            assert_eq!(words(&format!("ls {line}"), HOME), ["ls", word], "{line}");
        }
        assert_eq!(CommandLine::parse("ls ~/a", None).unwrap().words, ["ls", "~/a"]);
    }

    #[test]
    fn shell_operators_are_rejected() {
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
            let message = CommandLine::parse(line, None).unwrap_err();
            assert!(message.starts_with(&format!("`{operator}` needs a shell")), "{line:?}: {message}");
        }
        for line in ["'a", "", "  ", "X=1"] {
            assert!(CommandLine::parse(line, None).is_err(), "{line:?}");
        }
        assert!(CommandLine::parse(r#"a '|' \& x'|'y "a;b>c""#, None).is_ok());
    }
}
