//! Long lists: pages with a cursor, and lists inside an object, which are cut.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use crate::answer::Failure;
use crate::arguments::{Arguments, shown};

/// The rows of a page, unless the call sets another number.
pub(crate) const DEFAULT_ROWS: usize = 20;
/// The maximum number of rows.
pub(crate) const MAX_ROWS: usize = 50;
/// The maximum length of a list inside an object.
const MAX_NESTED: usize = 10;
/// The maximum length of a text, in characters: messages may have thousands of lines.
const MAX_TEXT: usize = 2000;

/// The requested part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub offset: usize,
    pub limit: usize,
    /// Identifies the list, so that the cursor of one list is not used for another.
    id: u64,
}

impl Page {
    /// The page that a call requests. `list` identifies the list: the tool, the profile and all arguments that select rows.
    pub fn of(arguments: &Arguments<'_>, list: &impl Hash) -> Result<Self, Failure> {
        let limit = arguments.number("limit", 1, MAX_ROWS as u64)?;
        let limit = limit.map_or(DEFAULT_ROWS, |limit| usize::try_from(limit).unwrap_or(MAX_ROWS));
        let mut hasher = DefaultHasher::new();
        list.hash(&mut hasher);
        let id = hasher.finish();
        let offset = match arguments.text("cursor")? {
            None => 0,
            Some(cursor) => parse(cursor, id).ok_or_else(|| unknown(cursor))?,
        };
        Ok(Self { offset, limit, id })
    }

    /// The cursor of the next page; `None` if this is the last page of a list of that length.
    pub fn next(&self, total: usize) -> Option<String> {
        let end = self.offset.saturating_add(self.limit);
        (end < total).then(|| format!("{end}-{:016x}", self.id))
    }

    /// The rows of a list.
    pub fn rows<'a, T>(&self, list: &'a [T]) -> &'a [T] {
        let start = self.offset.min(list.len());
        &list[start..start.saturating_add(self.limit).min(list.len())]
    }

    /// Adds the length of the list and the next cursor to an object, and a line to the text.
    pub fn describe(&self, total: usize, into: &mut Map<String, Value>) {
        into.insert("total".into(), total.into());
        into.insert("first".into(), self.offset.into());
        into.insert("next_cursor".into(), self.next(total).into());
    }

    /// A line about rows that are not shown.
    pub fn rest(&self, total: usize) -> Option<String> {
        let cursor = self.next(total)?;
        let more = total - self.offset - self.limit;
        Some(format!("… {more} more: pass cursor {cursor:?}"))
    }
}

fn parse(cursor: &str, id: u64) -> Option<usize> {
    let (offset, of) = cursor.split_once('-')?;
    (of == format!("{id:016x}")).then(|| offset.parse().ok())?
}

fn unknown(cursor: &str) -> Failure {
    Failure(format!(
        "unknown cursor {}; repeat the call without `cursor`, or with the other arguments of the call that returned it",
        shown(cursor)
    ))
}

/// Cuts long lists and texts inside a value. Returns where, as `section` takes it, with the number of elements.
pub(crate) fn cut(value: &mut Value, section: &str) -> Vec<Value> {
    let mut found = Vec::new();
    cut_in(value, section, MAX_ROWS, &mut found);
    found
}

fn cut_in(value: &mut Value, section: &str, most: usize, found: &mut Vec<Value>) {
    match value {
        Value::Array(list) => {
            if list.len() > most {
                found.push(json!({"section": section, "shown": most, "total": list.len()}));
                list.truncate(most);
            }
            for (index, element) in list.iter_mut().enumerate() {
                cut_in(element, &format!("{section}/{index}"), MAX_NESTED, found);
            }
        }
        Value::Object(map) => {
            for (key, element) in map.iter_mut() {
                let key = key.replace('~', "~0").replace('/', "~1");
                cut_in(element, &format!("{section}/{key}"), MAX_NESTED, found);
            }
        }
        Value::String(text) if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT => {
            found.push(json!({"section": section, "shown": MAX_TEXT, "total": text.chars().count()}));
            *text = text.chars().take(MAX_TEXT).chain(['…']).collect();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(offset: usize, limit: usize, id: u64) -> Page {
        Page { offset, limit, id }
    }

    #[test]
    fn the_pages_are_the_whole_list() {
        let list: Vec<usize> = (0..103).collect();
        for limit in [1, 7, 50] {
            let (mut seen, mut next) = (Vec::new(), Some(0));
            while let Some(offset) = next {
                let page = page(offset, limit, 9);
                seen.extend_from_slice(page.rows(&list));
                next = page.next(list.len()).map(|cursor| parse(&cursor, 9).unwrap());
            }
            assert_eq!(seen, list);
        }
        assert!(page(500, 10, 9).rows(&list).is_empty(), "a list that is shorter now");
        assert!(page(usize::MAX, 10, 9).rows(&list).is_empty());
    }

    #[test]
    fn a_cursor_of_another_list_is_unknown() {
        let cursor = page(0, 10, 1).next(11).unwrap();
        assert_eq!(parse(&cursor, 1), Some(10));
        for wrong in [&cursor, "", "-", "10", "x-0000000000000001", "-1-0000000000000001", "10-1"] {
            assert_eq!(parse(wrong, 2), None, "{wrong}");
        }
    }

    #[test]
    fn lists_and_texts_are_cut_where_they_are() {
        let mut value =
            json!({"a": (0..60).collect::<Vec<_>>(), "b/c": {"d": vec!["x".repeat(3000); 11]}, "e": [1]});
        let found = cut(&mut value, "peak");
        assert_eq!(value["a"].as_array().unwrap().len(), 10);
        assert_eq!(value["b/c"]["d"].as_array().unwrap().len(), 10);
        assert_eq!(value["b/c"]["d"][0].as_str().unwrap().chars().count(), 2001);
        assert_eq!(value["e"], json!([1]));
        assert_eq!(found[0], json!({"section": "peak/a", "shown": 10, "total": 60}));
        assert_eq!(found[1], json!({"section": "peak/b~1c/d", "shown": 10, "total": 11}));
        assert_eq!(found[2]["section"], "peak/b~1c/d/0");
    }
}
