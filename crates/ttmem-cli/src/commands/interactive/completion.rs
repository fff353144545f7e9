//! Path completion from the entries of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::message::Effect;
use super::paths::{expand, unquoted};

/// The number of entries read from a folder.
const MAX_ENTRIES: usize = 5000;

/// The entries of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// The folder.
    pub folder: PathBuf,
    /// Its entries, by name.
    pub entries: Vec<Entry>,
    /// Whether there are more entries than were read.
    pub is_cut: bool,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Its name.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
}

impl Listing {
    /// Lists a folder; empty if it cannot be read.
    pub fn of(folder: PathBuf) -> Self {
        let Ok(found) = fs::read_dir(&folder) else { return Self { folder, ..Self::default() } };
        let mut found = found.filter_map(Result::ok);
        let mut entries: Vec<Entry> =
            found.by_ref().take(MAX_ENTRIES).filter_map(|entry| entry_of(&entry)).collect();
        entries.sort_unstable();
        Self { folder, entries, is_cut: found.next().is_some() }
    }

    /// The entries that start with a prefix. Hidden ones only if the prefix starts with a dot.
    pub fn matching(&self, prefix: &str) -> impl Iterator<Item = &Entry> {
        let is_visible = move |entry: &&Entry| prefix.starts_with('.') || !entry.name.starts_with('.');
        self.entries.iter().filter(move |entry| entry.name.starts_with(prefix)).filter(is_visible)
    }
}

fn entry_of(entry: &fs::DirEntry) -> Option<Entry> {
    // Names that are not UTF-8 cannot be typed.
    let name = entry.file_name().into_string().ok()?;
    let kind = entry.file_type().ok()?;
    let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
    Some(Entry { name, is_folder })
}

/// Completes while a path is typed: requests the listing of a folder and keeps it.
#[derive(Debug, Default)]
pub(super) struct Completer {
    listing: Option<Listing>,
    /// The requested folder.
    asked: Option<PathBuf>,
    /// Whether to complete when the listing arrives.
    is_pending: bool,
}

impl Completer {
    /// Requests a folder, unless it was already requested.
    pub fn look_into(&mut self, folder: PathBuf) -> Option<Effect> {
        self.is_pending = false;
        if self.asked.as_ref() == Some(&folder) {
            return None;
        }
        self.asked = Some(folder.clone());
        Some(Effect::List(folder))
    }

    /// The listing of a folder, if it is known.
    pub fn listing(&self, folder: &Path) -> Option<&Listing> {
        self.listing.as_ref().filter(|listing| listing.folder == folder)
    }

    /// Requests a folder again, to complete when the listing arrives.
    pub fn complete_in(&mut self, folder: PathBuf) -> Effect {
        self.is_pending = true;
        self.asked = Some(folder.clone());
        Effect::List(folder)
    }

    /// Stores a listing; returns whether to complete now.
    pub fn listed(&mut self, listing: Listing) -> bool {
        if self.asked.as_ref() != Some(&listing.folder) {
            return false;
        }
        self.listing = Some(listing);
        std::mem::take(&mut self.is_pending)
    }
}

/// A path that is being typed, split at its last `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// The path up to the last `/`, as typed.
    pub folder: String,
    /// The start of the name.
    pub prefix: String,
}

impl Typed {
    /// Splits a text; quotes and escapes are removed.
    pub fn of(text: &str, home: Option<&Path>) -> Self {
        let text = match text {
            "~" => "~/".to_owned(),
            quoted if quoted.contains(['\'', '"', '\\']) || quoted.starts_with("file://") => {
                unquoted(quoted, home)
            }
            plain => plain.to_owned(),
        };
        let at = text.rfind('/').map_or(0, |at| at + 1);
        Self { folder: text[..at].to_owned(), prefix: text[at..].to_owned() }
    }

    /// The path of its folder.
    pub fn place(&self, home: Option<&Path>) -> PathBuf {
        if self.folder.is_empty() { PathBuf::from(".") } else { expand(&self.folder, home).into() }
    }

    /// The text with the prefix replaced by an entry.
    pub fn with(&self, entry: &Entry) -> String {
        format!("{}{}{}", self.folder, entry.name, if entry.is_folder { "/" } else { "" })
    }

    /// The text, extended as far as all matching entries agree; `None` if there are none.
    pub fn completed(&self, listing: &Listing) -> Option<String> {
        let mut matching = listing.matching(&self.prefix);
        let first = matching.next()?;
        let mut common = first.name.as_str();
        let mut is_alone = true;
        for entry in matching {
            is_alone = false;
            common = common_beginning(common, &entry.name);
        }
        Some(if is_alone { self.with(first) } else { format!("{}{common}", self.folder) })
    }
}

fn common_beginning<'a>(one: &'a str, other: &str) -> &'a str {
    let differs = one.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    let end = differs.map_or(one.len().min(other.len()), |((at, _), _)| at);
    &one[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let entry = |name: &&str| Entry {
            name: name.trim_end_matches('/').to_owned(),
            is_folder: name.ends_with('/'),
        };
        Listing { entries: names.iter().map(entry).collect(), ..Listing::default() }
    }

    fn complete(text: &str, names: &[&str]) -> Option<String> {
        Typed::of(text, Some(Path::new("/home/me"))).completed(&listing(names))
    }

    #[test]
    fn paths_are_completed_to_the_common_prefix() {
        let names = ["vae.log", "vae_2.log", "my logs/", ".hidden", "üb.log", "üc.log"];
        for (text, completed) in [
            ("v", Some("vae")),
            ("vae.", Some("vae.log")),
            ("my", Some("my logs/")),
            ("a b/my l", Some("a b/my logs/")),
            ("~/vae_", Some("~/vae_2.log")),
            (r"a\ b/vae.", Some("a b/vae.log")),
            ("'a b/vae.", Some("a b/vae.log")),
            ("x", None),
            (".", Some(".hidden")),
            ("ü", Some("ü")),
            ("", Some("")),
            ("d/", Some("d/")),
        ] {
            assert_eq!(complete(text, &names).as_deref(), completed, "{text}");
        }
    }

    #[test]
    fn hidden_files_need_a_dot() {
        let listing = listing(&["a", ".b"]);
        let names = |prefix: &'static str| -> Vec<&str> {
            listing.matching(prefix).map(|entry| entry.name.as_str()).collect()
        };
        assert_eq!(names(""), ["a"]);
        assert_eq!(names("."), [".b"]);
    }

    #[test]
    fn the_home_directory_is_expanded() {
        let home = Some(Path::new("/home/me"));
        assert_eq!(Typed::of("~", home).place(home), Path::new("/home/me/"));
        assert_eq!(Typed::of("~/x/y", home).place(home), Path::new("/home/me/x/"));
        assert_eq!(Typed::of("y", home).place(home), Path::new("."));
        assert_eq!(Typed::of("/y", home).place(home), Path::new("/"));
    }

    #[test]
    fn folders_are_listed_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MAX_ENTRIES {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        let listing = Listing::of(folder.path().to_owned());
        assert!(listing.is_cut);
        assert_eq!(listing.entries.len(), MAX_ENTRIES);
        assert_eq!(Listing::of(folder.path().join("none")).entries, []);
    }
}
