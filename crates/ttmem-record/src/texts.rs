//! The texts of a recording, numbered in the order of their definition in the file.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use ttmem_model::StrId;

/// The texts that a recorder has defined so far.
#[derive(Debug, Default)]
pub(super) struct Texts(IndexSet<Box<str>, FxBuildHasher>);

impl Texts {
    /// The texts that every file of a recorder begins with. They must be distinct.
    pub fn starting_with<'a>(first: impl IntoIterator<Item = &'a str>) -> Self {
        Self(first.into_iter().map(Into::into).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The id of a text, if it is already defined.
    pub fn known(&self, text: &str) -> Option<StrId> {
        self.0.get_index_of(text).and_then(StrId::new)
    }

    /// Defines a new text. The caller writes it to the file.
    pub fn define(&mut self, text: &str) -> Option<StrId> {
        let (index, _) = self.0.insert_full(text.into());
        StrId::new(index)
    }

    pub fn text(&self, id: StrId) -> Option<&str> {
        self.0.get_index(id.index()).map(|text| &**text)
    }
}
