//! Deserializes XML into the types of answers. Knows none of these types, and sends nothing.
//!
//! The document first becomes a tree, which the types' derived code then reads. A reader that derived code drives
//! directly has several forms of an element, and each type is compiled for each of them: the module was a quarter
//! larger.
//!
//! Documents are untrusted: a document type definition, and with it every custom entity, is an error. Attributes and
//! namespaces are ignored.

use roxmltree::{Document, Node};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Reads the element `inner` of the root, or the root if it has none.
///
/// # Errors
/// The mistake in the document, in words.
pub(super) fn read<T: DeserializeOwned>(text: &str, inner: &str) -> Result<T, String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let mut elements = root.children().filter(Node::is_element);
    let element = elements.find(|child| named(*child) == inner);
    T::deserialize(Siblings(vec![element.unwrap_or(root)])).map_err(|error| error.to_string())
}

fn named<'a>(node: Node<'a, '_>) -> &'a str {
    node.tag_name().name()
}

/// The elements of one name in one parent. As a list, each of them is an element; as a single value, there must be one.
struct Siblings<'a, 'input>(Vec<Node<'a, 'input>>);

impl<'a, 'input> Siblings<'a, 'input> {
    fn single(&self) -> Result<Node<'a, 'input>, Error> {
        match *self.0 {
            [node] => Ok(node),
            _ => Err(Error::custom("more than one element where one belongs")),
        }
    }

    /// The text of a single element that has no child elements.
    fn text(&self) -> Result<&'a str, Error> {
        let node = self.single()?;
        if node.children().any(|child| child.is_element()) {
            let why = format!("elements in <{}>, where text belongs", named(node));
            return Err(Error::custom(why));
        }
        Ok(node.text().unwrap_or_default())
    }

    /// The child elements of a single element that has no text, by name.
    fn fields(&self) -> Result<Vec<(&'a str, Self)>, Error> {
        let node = self.single()?;
        let mut fields: Vec<(&str, Self)> = Vec::new();
        for child in node.children() {
            if !child.is_element() {
                if child.is_text() && !child.text().unwrap_or_default().trim().is_empty() {
                    let why = format!("text in <{}>, where elements belong", named(node));
                    return Err(Error::custom(why));
                }
                continue;
            }
            match fields.iter_mut().find(|(name, _)| *name == named(child)) {
                Some((_, Siblings(nodes))) => nodes.push(child),
                None => fields.push((named(child), Siblings(vec![child]))),
            }
        }
        Ok(fields)
    }
}

impl IntoDeserializer<'_> for Siblings<'_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Siblings<'_, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.text()?.trim().parse().map_err(Error::custom)?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(self.text()?.trim().parse().map_err(Error::custom)?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let elements = self.0.into_iter().map(|node| Siblings(vec![node]));
        visitor.visit_seq(SeqDeserializer::new(elements))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(self.fields()?.into_iter()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct enum identifier
    }
}
