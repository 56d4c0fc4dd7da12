//! Records the members of an object that this version does not know.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer, forward_to_deserialize_any};

use crate::inventory::{MAX_NAME, MAX_UNKNOWN_MEMBERS};

/// An object, and the names of its members that `T` lacks. Their values are skipped.
pub(super) struct Noted<T> {
    pub(super) value: T,
    /// The unknown names, at most one more than an inventory may have.
    pub(super) unknown: BTreeSet<String>,
}

/// Converts a name to plain characters of permitted length, for findings.
pub(super) fn plain(name: &str) -> String {
    let plain = |char: char| match char.is_ascii_alphanumeric() || "._-".contains(char) {
        true => char,
        false => '_',
    };
    // The other half is for the path before the name.
    name.chars().take(MAX_NAME / 2).map(plain).collect()
}

impl<T: Serialize> Serialize for Noted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T> From<T> for Noted<T> {
    fn from(value: T) -> Noted<T> {
        Noted {
            value,
            unknown: BTreeSet::new(),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Noted<T> {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Self, D::Error> {
        let mut unknown = BTreeSet::new();
        let value = T::deserialize(Noting {
            inner,
            unknown: &mut unknown,
        })?;
        Ok(Noted { value, unknown })
    }
}

/// A deserialiser that passes an object to its visitor without members unknown to the visitor.
struct Noting<'a, D> {
    inner: D,
    unknown: &'a mut BTreeSet<String>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Noting<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let unknown = self.unknown;
        self.inner.deserialize_struct(
            name,
            fields,
            Known {
                visitor,
                fields,
                unknown,
            },
        )
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The visitor of an object, or the access to its known members.
struct Known<'a, V> {
    visitor: V,
    fields: &'static [&'static str],
    unknown: &'a mut BTreeSet<String>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Known<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Known {
            visitor: members,
            fields: self.fields,
            unknown: self.unknown,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Known<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.visitor.next_key::<String>()? {
            if self.fields.contains(&name.as_str()) {
                let name: StrDeserializer<'_, A::Error> = StrDeserializer::new(&name);
                return seed.deserialize(name).map(Some);
            }
            self.visitor.next_value::<IgnoredAny>()?;
            if self.unknown.len() <= MAX_UNKNOWN_MEMBERS {
                self.unknown.insert(plain(&name));
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.visitor.next_value_seed(seed)
    }
}
