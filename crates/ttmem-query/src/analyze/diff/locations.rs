//! Finds the source files of two profiles that correspond. Another checkout, machine or worktree has the same files in other
//! folders.
//!
//! Files with equal paths correspond. Of the others, those correspond that share the most parts at the end of their paths, if
//! no other file shares as many. If each profile has a single file left, it was renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{OpId, Profile, StrId};

use super::Both;

/// The parts of a path that are compared.
const MAX_PARTS: usize = 16;

/// The locations of a profile with files that correspond to files with another path, which have the same path in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations {
    texts: FxHashMap<StrId, String>,
}

impl Locations {
    /// The locations of two profiles.
    pub fn of(profiles: Both<&Profile>) -> Both<Self> {
        let locations = profiles.map(with_files);
        let files = Both {
            before: files_of(profiles.before, &locations.before),
            after: files_of(profiles.after, &locations.after),
        };
        let common = corresponding(&files);
        if common.is_empty() {
            return Both::default();
        }
        let replaced = |profile: &Profile, locations: &[StrId]| {
            let texts = locations.iter().filter_map(|id| Some((*id, replaced(profile.text(*id), &common)?)));
            Self { texts: texts.collect() }
        };
        Both {
            before: replaced(profiles.before, &locations.before),
            after: replaced(profiles.after, &locations.after),
        }
    }

    /// The text of a location.
    pub fn text<'a>(&'a self, profile: &'a Profile, id: StrId) -> &'a str {
        self.texts.get(&id).map_or_else(|| profile.text(id), String::as_str)
    }

    /// The name of an operation at a location. Functions (`train.step`) have the name of their file, which may be another one.
    pub fn name<'a>(&self, profile: &'a Profile, name: StrId, loc: Option<StrId>) -> &'a str {
        let name = profile.text(name);
        let Some(loc) = loc.filter(|loc| self.texts.contains_key(loc)) else { return name };
        let text = profile.text(loc);
        let stems = files_in(text).into_iter().filter_map(|file| stem(&text[file]));
        let mut functions = stems.filter_map(|stem| name.strip_prefix(stem)?.strip_prefix('.'));
        functions.next().unwrap_or(name)
    }
}

/// The locations of operations that have a source file.
fn with_files(profile: &Profile) -> Vec<StrId> {
    let ops = (0..profile.ops.len()).filter_map(OpId::new);
    let mut known = FxHashSet::default();
    let mut last = None;
    let mut found = Vec::new();
    for id in ops.filter_map(|op| profile.ops.loc(op)) {
        // Many consecutive operations have the same location.
        if last.replace(id) != Some(id) && !files_in(profile.text(id)).is_empty() && known.insert(id) {
            found.push(id);
        }
    }
    found
}

fn files_of<'a>(profile: &'a Profile, locations: &[StrId]) -> BTreeSet<&'a str> {
    let texts = locations.iter().map(|id| profile.text(*id));
    texts.flat_map(|text| files_in(text).into_iter().map(move |file| &text[file])).collect()
}

/// The files in a location: `/srv/train.py:28 in forward`, `fused["model.py":12:3, "add.5"]`.
fn files_in(text: &str) -> Vec<Range<usize>> {
    // Most locations of a log are names, and a log has a million.
    if !text.contains(':') {
        return Vec::new();
    }
    let is_line = |rest: &str| rest.strip_prefix(':').is_some_and(|rest| rest.starts_with(is_digit));
    if text.contains('"') {
        let marks: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
        let quoted = marks.chunks_exact(2).map(|pair| pair[0] + 1..pair[1]);
        return quoted.filter(|file| is_line(&text[file.end + 1..])).collect();
    }
    let place = text.split_once(" in ").map_or(text, |(place, _)| place);
    let is_number = |number: &str| !number.is_empty() && number.chars().all(is_digit);
    // The path of a file on Windows has a colon, and a column may follow the line.
    let is_end = |at: &usize| place[at + 1..].split(':').all(is_number);
    place.match_indices(':').map(|(at, _)| at).find(is_end).map(|end| 0..end).into_iter().collect()
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// A path for each file that corresponds to a file with another path: the same for both.
fn corresponding<'a>(files: &Both<BTreeSet<&'a str>>) -> FxHashMap<&'a str, &'a str> {
    let mut rest = Both {
        before: files.before.difference(&files.after).copied().collect::<Vec<_>>(),
        after: files.after.difference(&files.before).copied().collect::<Vec<_>>(),
    };
    let mut found = FxHashMap::default();
    for count in (0..=MAX_PARTS).rev() {
        if rest.before.is_empty() || rest.after.is_empty() {
            break;
        }
        let mut by_end: BTreeMap<Vec<&str>, Both<Vec<&str>>> = BTreeMap::new();
        for file in &rest.before {
            if let Some(end) = end(file, count) {
                by_end.entry(end).or_default().before.push(file);
            }
        }
        for file in &rest.after {
            if let Some(end) = end(file, count) {
                by_end.entry(end).or_default().after.push(file);
            }
        }
        for files in by_end.values() {
            if let ([before], [after]) = (&*files.before, &*files.after) {
                let path = before.min(after);
                found.extend([(*before, *path), (*after, *path)]);
            }
        }
        rest = rest.map(|files| files.into_iter().filter(|file| !found.contains_key(file)).collect());
    }
    found
}

/// The last parts of a path, from the last one on; `None` if it has fewer.
fn end(file: &str, count: usize) -> Option<Vec<&str>> {
    let parts: Vec<&str> = file.rsplit(['/', '\\']).take(count).collect();
    (parts.len() == count).then_some(parts)
}

/// The name of a file without its extension.
fn stem(file: &str) -> Option<&str> {
    let name = file.rsplit(['/', '\\']).next()?;
    Some(name.rsplit_once('.').map_or(name, |(stem, _)| stem))
}

/// A location with the common paths of its files; `None` if they have none.
fn replaced(text: &str, common: &FxHashMap<&str, &str>) -> Option<String> {
    let files = files_in(text);
    if !files.iter().any(|file| common.contains_key(&text[file.clone()])) {
        return None;
    }
    let (mut new, mut at) = (String::new(), 0);
    for file in files {
        let old = &text[file.clone()];
        new.push_str(&text[at..file.start]);
        new.push_str(common.get(old).copied().unwrap_or(old));
        at = file.end;
    }
    new.push_str(&text[at..]);
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_have_files() {
        let files = |text: &'static str| -> Vec<&str> {
            files_in(text).into_iter().map(|file| &text[file]).collect()
        };
        assert_eq!(files("/srv/train.py:28"), ["/srv/train.py"]);
        assert_eq!(files("/srv/my app/train.py:28:7"), ["/srv/my app/train.py"]);
        assert_eq!(files("train.py:28 in forward"), ["train.py"]);
        assert_eq!(files(r"C:\work\train.py:5"), [r"C:\work\train.py"]);
        assert_eq!(files("fused[\"a.py\":1:2, \"add.5\", \"b.py\":3]"), ["a.py", "b.py"]);
        for other in ["", ":", "\"add.5\"", "\"", "\"a\":\"b\"", "ttnn.add", "train.py:", "a:b"] {
            assert_eq!(files(other), Vec::<&str>::new(), "{other}");
        }
        assert_eq!(replaced("a:b", &FxHashMap::default()), None);
    }

    fn pairs(before: &[&'static str], after: &[&'static str]) -> Vec<(&'static str, &'static str)> {
        let files = Both { before, after }.map(|files| files.iter().copied().collect::<BTreeSet<_>>());
        let common = corresponding(&files);
        let pair = |file: &&'static str| {
            let path = common.get(file)?;
            let other = files.after.iter().find(|other| common.get(*other) == Some(path))?;
            Some((*file, *other))
        };
        files.before.iter().filter_map(pair).collect()
    }

    #[test]
    fn files_in_other_folders_correspond() {
        assert_eq!(pairs(&["/a/train.py"], &["/b/c/train.py"]), [("/a/train.py", "/b/c/train.py")]);
        assert_eq!(pairs(&["/a/x.py", "/a/y.py"], &["/b/y.py"]), [("/a/y.py", "/b/y.py")]);
        assert_eq!(
            pairs(&["/a/m/__init__.py", "/a/n/__init__.py"], &["/b/m/__init__.py", "/b/n/__init__.py"]),
            [("/a/m/__init__.py", "/b/m/__init__.py"), ("/a/n/__init__.py", "/b/n/__init__.py")]
        );
        assert_eq!(pairs(&[r"C:\w\train.py"], &["/b/train.py"]), [(r"C:\w\train.py", "/b/train.py")]);
        assert_eq!(pairs(&["/a/train.py", "/b/train.py"], &["/b/train.py"]), [], "an equal path");
        assert_eq!(pairs(&["/a/u.py", "/b/u.py"], &["/c/u.py"]), [], "ambiguous");
        assert_eq!(
            pairs(&["/a/train.py", "/a/net.py"], &["/b/train_v2.py", "/b/net.py"]),
            [("/a/net.py", "/b/net.py"), ("/a/train.py", "/b/train_v2.py")],
            "a renamed file"
        );
        assert_eq!(pairs(&["/a/x.py", "/a/y.py"], &["/a/v.py", "/a/w.py"]), []);
    }
}
