//! Interned strings: every distinct text of a profile is held once.

use super::StrId;

/// The texts of a profile, in the order they were first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    /// Adds a text, whether it is here already or not; `None` when there are too many.
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

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
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
