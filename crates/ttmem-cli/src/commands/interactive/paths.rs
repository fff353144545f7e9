//! Typed and pasted paths: with quotes, escapes, `~` or `file://`.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// The possible readings of a path, most likely first: as it is, and as a shell or a file manager would have written
/// it.
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
    const QUOTES: [char; 2] = ['\'', '"'];
    let text = text.trim();
    let begins_quoted = text.starts_with(QUOTES) || text.starts_with('\\');
    // Without quotes or escapes there is nothing to remove; in ` #2.log`, a shell would see a comment.
    let words = text.contains([QUOTES[0], QUOTES[1], '\\']).then(|| shell_words::split(text));
    let (plain, begins_quoted) = match words.as_ref().map(|words| words.as_deref()) {
        Some(Ok([word])) => (word.as_str(), begins_quoted),
        // An unclosed quote.
        Some(Err(_)) if text.starts_with(QUOTES) => (&text[1..], true),
        // A plain name, possibly with spaces.
        _ => (text, false),
    };
    match plain.strip_prefix("file://") {
        Some(url) => path_of_url(url),
        None if begins_quoted => plain.to_owned(),
        None => expand(plain, home),
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

/// A path for display: relative to the current folder, or with `~`.
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

/// The path in `file://host/path`, with `%20` and the like decoded.
fn path_of_url(url: &str) -> String {
    let path = url.find('/').map_or(url, |at| &url[at..]);
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "/home/me";

    fn clean(text: &str) -> String {
        unquoted(text, Some(Path::new(HOME)))
    }

    #[test]
    fn quotes_escapes_and_urls_are_removed() {
        for (text, path) in [
            ("/a/b.log", "/a/b.log"),
            ("  /a/my logs/b.log \n", "/a/my logs/b.log"),
            ("'/a/my logs/b.log' ", "/a/my logs/b.log"),
            ("\"/a/my logs/b.log\"", "/a/my logs/b.log"),
            (r"/a/my\ logs/b\(1\).log", "/a/my logs/b(1).log"),
            (r"'/a/it'\''s.log'", "/a/it's.log"),
            ("/a/it's.log", "/a/it's.log"),
            ("/a/my \"best\" log.log", "/a/my \"best\" log.log"),
            ("/a/log #2.log", "/a/log #2.log"),
            ("'/a/log #2.log'", "/a/log #2.log"),
            (r"/a/log\ #2.log", "/a/log #2.log"),
            ("#2.log", "#2.log"),
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
    fn a_name_is_tried_unchanged_first() {
        assert_eq!(readings(r"a\b.log ", None), [r"a\b.log ", r"a\b.log", "ab.log"]);
        assert_eq!(readings("a.log", None), ["a.log"]);
    }

    #[test]
    fn paths_are_relative_to_the_current_folder() {
        let short = |path: &str| shorten(Path::new(path), Path::new("/home/me/runs"), Some(Path::new(HOME)));
        assert_eq!(short("/home/me/runs/a.log"), "a.log");
        assert_eq!(short("/home/me/b/a.log"), "~/b/a.log");
        assert_eq!(short("/var/a.log"), "/var/a.log");
        assert_eq!(short("/home/me/runs"), "~/runs");
    }
}
