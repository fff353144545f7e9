//! Interned strings: every distinct text of a profile is stored once.

use super::StrId;

/// The texts of a profile, in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// Adds a text without checking for duplicates; `None` if there are too many.
    pub fn push(&mut self, text: &str) -> Option<StrId> {
        let id = StrId::new(self.ends.len())?;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        Some(id)
    }

    /// The text of `id`; empty for an id of another profile.
    pub fn get(&self, id: StrId) -> &str {
        let index = id.index();
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(index).map_or("", |&end| &self.text[start..end])
    }

    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All texts, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(StrId::new).map(|id| self.get(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_by_id() {
        let mut strings = Strings::default();
        let a = strings.push("a").unwrap();
        let empty = strings.push("").unwrap();
        let b = strings.push("bc").unwrap();
        assert_eq!((strings.get(a), strings.get(empty), strings.get(b)), ("a", "", "bc"));
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "", "bc"]);
    }
}
