//! Reads the configuration into a struct that derives serde's `Deserialize`.
//!
//! A derived reader stops at its first mistake. So after each one the value is replaced by a stand-in that suits every
//! plain type, and the struct is read again, until nothing is left to report.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::Error;
use crate::values::parse_boolean;

/// Value that takes the place of a wrong or missing one where a text is expected; also readable as a number and a
/// duration.
const PLACEHOLDER: &str = "0";

/// By key, what is wrong with its value.
type Mistakes = BTreeMap<String, String>;

pub(super) fn parse<T: DeserializeOwned>(values: &BTreeMap<String, String>) -> Result<T, Error> {
    let mut mistakes = Mistakes::new();
    let mut unplaced = None;
    loop {
        let error = match T::deserialize(Keys::of(values, &mistakes)) {
            Ok(settings) if mistakes.is_empty() => return Ok(settings),
            Ok(_) => break,
            Err(error) => error,
        };
        match error.key {
            Some(key) if !mistakes.contains_key(&key) => {
                mistakes.insert(key, error.what);
            }
            // The key's type accepts no stand-in: the keys after it are checked once this mistake is corrected.
            Some(_) => break,
            None => {
                unplaced = Some(error.what);
                break;
            }
        }
    }
    let lines = mistakes.iter().map(|(key, what)| format!("{key}: {what}"));
    let lines: Vec<String> = lines.chain(unplaced).collect();
    Err(Error::invalid(lines.join("; ")))
}

/// A mistake, and the key whose value it concerns.
#[derive(Debug)]
struct Mistake {
    key: Option<String>,
    what: String,
}

impl Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Mistake {}

impl serde::de::Error for Mistake {
    fn custom<T: Display>(what: T) -> Mistake {
        Mistake {
            key: None,
            what: what.to_string(),
        }
    }

    fn missing_field(key: &'static str) -> Mistake {
        Mistake {
            key: Some(key.to_owned()),
            what: "must be set".to_owned(),
        }
    }
}

/// All keys that are set, and the keys of earlier mistakes.
struct Keys<'a> {
    left: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Keys<'a> {
    fn of(values: &'a BTreeMap<String, String>, mistakes: &'a Mistakes) -> Keys<'a> {
        let set = values.iter().map(|(key, value)| (key, value.trim()));
        let set = set.filter(|(key, value)| !value.is_empty() && !mistakes.contains_key(*key));
        let set = set.map(|(key, value)| (key.as_str(), Value::Text(value)));
        let placeholders = mistakes
            .keys()
            .map(|key| (key.as_str(), Value::Placeholder));
        Keys {
            left: set.chain(placeholders).collect(),
        }
    }
}

impl<'de> Deserializer<'de> for Keys<'_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Mistake> {
        self.left.reverse();
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        let Some((key, _)) = self.left.last() else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Mistake> = (*key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some((key, value)) = self.left.pop() else {
            return Err(Mistake::custom("a value without a key was asked for"));
        };
        seed.deserialize(value).map_err(|mistake| Mistake {
            key: Some(key.to_owned()),
            ..mistake
        })
    }
}

/// The value of a key, or of a part of a list.
#[derive(Clone, Copy)]
enum Value<'a> {
    Text(&'a str),
    Placeholder,
}

impl<'a> Value<'a> {
    fn text(self) -> &'a str {
        match self {
            Value::Text(text) => text,
            Value::Placeholder => PLACEHOLDER,
        }
    }
}

/// A number of any type: the value, or 1 if it is wrong.
macro_rules! numbers {
    ($($method:ident $visit:ident $number:ty),+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            let Value::Text(text) = self else {
                return visitor.visit_u8(1);
            };
            match text.parse::<$number>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(Mistake::custom(format_args!("must be a number ({})", stringify!($number)))),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_str(self.text())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match parse_boolean(self.text()) {
            Some(truth) => visitor.visit_bool(truth),
            None => Err(Mistake::custom("must be true or false")),
        }
    }

    numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64, deserialize_f32 visit_f32 f32,
        deserialize_f64 visit_f64 f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_seq(match self {
            Value::Text(text) => Parts(Some(text)),
            Value::Placeholder => Parts(None),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let mut all = variants.iter();
        let variant = match self {
            Value::Text(text) => all.find(|variant| variant.eq_ignore_ascii_case(text)),
            Value::Placeholder => all.next(),
        };
        match variant {
            Some(variant) => visitor.visit_enum((*variant).into_deserializer()),
            None => Err(Mistake::custom(format_args!(
                "must be one of {}",
                variants.join(", ")
            ))),
        }
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

/// The parts of a list that are left.
struct Parts<'a>(Option<&'a str>);

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mistake> {
        while let Some(text) = self.0 {
            let (part, rest) = match text.split_once(',') {
                Some((part, rest)) => (part, Some(rest)),
                None => (text, None),
            };
            self.0 = rest;
            let part = part.trim();
            if !part.is_empty() {
                return seed.deserialize(Value::Text(part)).map(Some);
            }
        }
        Ok(None)
    }
}
