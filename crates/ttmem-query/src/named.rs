//! A map that keeps the order of its entries, such as the order of the device's pools.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Entries by name, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// The entry with that name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, entry)| entry)
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, entry)| (name.as_str(), entry))
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, entry) in &self.0 {
            map.serialize_entry(name, entry)?;
        }
        map.end()
    }
}

#[cfg(feature = "typescript")]
impl<T: ts_rs::TS> ts_rs::TS for Named<T> {
    type WithoutGenerics = Named<ts_rs::Dummy>;
    type OptionInnerType = Self;

    fn name(config: &ts_rs::Config) -> String {
        format!("Record<string, {}>", T::name(config))
    }

    fn inline(config: &ts_rs::Config) -> String {
        Self::name(config)
    }

    fn visit_generics(visitor: &mut impl ts_rs::TypeVisitor)
    where
        Self: 'static,
    {
        visitor.visit::<T>();
        T::visit_generics(visitor);
    }
}
