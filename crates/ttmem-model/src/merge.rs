//! Merges the profiles of several processes into one with several ranks.
//!
//! The tables that all ranks share (texts, types, operations, stacks) are appended, and the ids in the events that follow are
//! shifted. Ids are recognized by their type when an event is serialized, so a new event needs no code here.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{Builder, Event, Profile, Sink, Source, Warning};
use crate::error::{Error, Result};

impl Profile {
    /// One profile with the ranks of several. Warnings begin with the name of their file.
    pub fn merged(profiles: &[Self], source: Source) -> Result<Self> {
        let mut merged = Builder::new();
        merged.take(Event::Source(source))?;
        let mut ids = Offsets::default();
        for profile in profiles {
            profile.replay(&mut Shifting { ids, file: &profile.source.file, to: &mut merged })?;
            ids = ids.after(profile)?;
        }
        if profiles.iter().all(|profile| profile.complete) {
            merged.take(Event::End)?;
        }
        Ok(merged.finish())
    }
}

/// The number of rows before those of a profile.
#[derive(Clone, Copy, Debug, Default)]
struct Offsets {
    texts: u32,
    types: u32,
    ops: u32,
    frames: u32,
    stacks: u32,
    ranks: u32,
}

impl Offsets {
    fn after(self, profile: &Profile) -> Result<Self> {
        let sum = |before: u32, rows: usize| {
            let rows = u32::try_from(rows).ok().and_then(|rows| before.checked_add(rows));
            rows.ok_or_else(|| {
                Error::Usage("the recordings are too large for one report; pass one of the files".into())
            })
        };
        Ok(Self {
            texts: sum(self.texts, profile.strings.len())?,
            types: sum(self.types, profile.types.len())?,
            ops: sum(self.ops, profile.ops.len())?,
            frames: sum(self.frames, profile.stacks.frames.len())?,
            stacks: sum(self.stacks, profile.stacks.rows.len())?,
            ranks: sum(self.ranks, profile.ranks.len())?,
        })
    }

    /// The offset of an id, by the name of its type.
    fn of(self, id: &str) -> u32 {
        match id {
            "StrId" => self.texts,
            "TypeId" => self.types,
            "OpId" => self.ops,
            "FrameId" => self.frames,
            "StackId" => self.stacks,
            "RankId" => self.ranks,
            _ => 0,
        }
    }
}

/// Passes on the events of a profile with shifted ids.
struct Shifting<'a> {
    ids: Offsets,
    file: &'a str,
    to: &'a mut Builder,
}

impl Sink for Shifting<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Source(_) | Event::End => Ok(()),
            Event::Warning(Warning { line, message }) => {
                let file = self.file.rsplit('/').next().unwrap_or_default();
                self.to.take(Event::Warning(Warning { line, message: format!("{file}: {message}") }))
            }
            event => {
                let bug = |error: postcard::Error| Error::Bug(format!("cannot merge an event: {error}"));
                let value = Value { of: &event, ids: self.ids, add: 0 };
                let bytes = postcard::to_allocvec(&value).map_err(bug)?;
                self.to.take(postcard::from_bytes(&bytes).map_err(bug)?)
            }
        }
    }
}

/// A value that is serialized with shifted ids.
struct Value<'a, T: ?Sized> {
    of: &'a T,
    ids: Offsets,
    /// What is added to a number: it is the content of an id.
    add: u32,
}

impl<T: Serialize + ?Sized> Serialize for Value<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.of.serialize(Shifted { to: serializer, ids: self.ids, add: self.add })
    }
}

/// A serializer, or a part of one, that shifts ids.
struct Shifted<S> {
    to: S,
    ids: Offsets,
    add: u32,
}

impl<S> Shifted<S> {
    fn value<'a, T: ?Sized>(&self, of: &'a T) -> Value<'a, T> {
        Value { of, ids: self.ids, add: 0 }
    }
}

/// Forwards values unchanged.
macro_rules! forward {
    ($($function:ident($kind:ty);)*) => {$(
        fn $function(self, value: $kind) -> Result<S::Ok, S::Error> {
            self.to.$function(value)
        }
    )*};
}

/// Begins a value with parts.
macro_rules! begin {
    ($($function:ident($($name:ident: $kind:ty),*) -> $part:ident;)*) => {$(
        fn $function(self, $($name: $kind),*) -> Result<Self::$part, S::Error> {
            let Self { to, ids, add } = self;
            Ok(Shifted { to: to.$function($($name),*)?, ids, add })
        }
    )*};
}

impl<S: Serializer> Serializer for Shifted<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Shifted<S::SerializeSeq>;
    type SerializeTuple = Shifted<S::SerializeTuple>;
    type SerializeTupleStruct = Shifted<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Shifted<S::SerializeTupleVariant>;
    type SerializeMap = Shifted<S::SerializeMap>;
    type SerializeStruct = Shifted<S::SerializeStruct>;
    type SerializeStructVariant = Shifted<S::SerializeStructVariant>;

    forward! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_unit_struct(&'static str);
    }

    begin! {
        serialize_seq(len: Option<usize>) -> SerializeSeq;
        serialize_tuple(len: usize) -> SerializeTuple;
        serialize_tuple_struct(name: &'static str, len: usize) -> SerializeTupleStruct;
        serialize_tuple_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeTupleVariant;
        serialize_map(len: Option<usize>) -> SerializeMap;
        serialize_struct(name: &'static str, len: usize) -> SerializeStruct;
        serialize_struct_variant(name: &'static str, index: u32, variant: &'static str, len: usize)
            -> SerializeStructVariant;
    }

    fn serialize_u32(self, value: u32) -> Result<S::Ok, S::Error> {
        self.to.serialize_u32(value.saturating_add(self.add))
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.to.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.value(value);
        self.to.serialize_some(&value)
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.to.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.to.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = Value { of: value, ids: self.ids, add: self.ids.of(name) };
        self.to.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.value(value);
        self.to.serialize_newtype_variant(name, index, variant, &value)
    }

    fn is_human_readable(&self) -> bool {
        self.to.is_human_readable()
    }
}

/// Implements the parts of values without keys.
macro_rules! parts {
    ($($part:ident: $function:ident;)*) => {$(
        impl<S: $part> $part for Shifted<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $function<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                let value = self.value(value);
                self.to.$function(&value)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.to.end()
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
}

/// Implements the parts of values with named fields.
macro_rules! fields {
    ($($part:ident;)*) => {$(
        impl<S: $part> $part for Shifted<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                let value = self.value(value);
                self.to.serialize_field(key, &value)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.to.end()
            }
        }
    )*};
}

fields! {
    SerializeStruct;
    SerializeStructVariant;
}

impl<S: SerializeMap> SerializeMap for Shifted<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        let key = self.value(key);
        self.to.serialize_key(&key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let value = self.value(value);
        self.to.serialize_value(&value)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.to.end()
    }
}
