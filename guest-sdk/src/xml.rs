//! Reads XML into types by the paths of elements. A path names an element at each step, with dots between, and `*` is
//! every element; so it can be the name of a field, and the elements in between need no types of their own:
//!
//! ```
//! # use ccm_guest::xml::Document;
//! # use serde::Deserialize;
//! #[derive(Deserialize)]
//! struct Machine {
//!     name: String,
//!     #[serde(rename = "place.zone", default)]
//!     zone: String,
//!     #[serde(rename = "groups.*.id", default)]
//!     groups: Vec<String>,
//! }
//!
//! let answer = Document::parse("<answer><machines><item><name>a</name></item></machines></answer>")?;
//! let machines: Vec<Machine> = answer.read("machines.*")?.ok_or("it has no machines")?;
//! # assert_eq!((machines[0].name.as_str(), machines[0].groups.len()), ("a", 0));
//! # let _ = &machines[0].zone;
//! # Ok::<(), String>(())
//! ```
//!
//! Only with the feature `xml`.
//!
//! The document first becomes a tree, which the types' derived code then reads. A reader that derived code drives
//! directly has several forms of an element, and each type is compiled for each of them, which makes a component a
//! quarter larger.
//!
//! Documents are untrusted: a document type definition, and with it every custom entity, is an error. No reference is
//! followed. Attributes and namespaces are ignored.

use std::collections::BTreeMap;

use roxmltree::Node;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

#[cfg(test)]
mod tests;

/// An XML document.
#[derive(Debug)]
pub struct Document<'a>(roxmltree::Document<'a>);

impl Document<'_> {
    /// Reads a text.
    ///
    /// # Errors
    /// The mistake in the document, in words.
    pub fn parse(text: &str) -> Result<Document<'_>, String> {
        let document = roxmltree::Document::parse(text);
        document.map(Document).map_err(|error| error.to_string())
    }

    /// The name of the root element, such as that of an answer's kind.
    pub fn name(&self) -> &str {
        named(self.0.root_element())
    }

    /// Reads what is at a path below the root, a list as a `Vec`. `None`: the path leads to nothing. Where it has a `*`,
    /// the steps before that decide: if they are there, the list is, too, though it may be empty.
    ///
    /// # Errors
    /// Why it is no `T`, in words.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, String> {
        let found = find(self.0.root_element(), path)
            .and_then(|found| found.map(T::deserialize).transpose());
        found.map_err(|error| error.to_string())
    }
}

fn named<'a>(node: Node<'a, '_>) -> &'a str {
    node.tag_name().name()
}

/// The child elements of an element that has no text.
fn children<'a, 'input>(
    node: Node<'a, 'input>,
) -> Result<impl Iterator<Item = Node<'a, 'input>>, Error> {
    let text = node.children().filter(Node::is_text);
    if text
        .filter_map(|child| child.text())
        .any(|text| !text.trim().is_empty())
    {
        let why = format!("text in <{}>, where elements belong", named(node));
        return Err(Error::custom(why));
    }
    Ok(node.children().filter(Node::is_element))
}

/// See [`Document::read`].
fn find<'a, 'input>(
    from: Node<'a, 'input>,
    path: &str,
) -> Result<Option<Found<'a, 'input>>, Error> {
    let (mut found, mut is_list) = (vec![from], false);
    for step in path.split('.') {
        let mut next = Vec::new();
        for node in found {
            next.extend(children(node)?.filter(|child| step == "*" || step == named(*child)));
        }
        found = next;
        is_list |= step == "*";
        if found.is_empty() && !is_list {
            return Ok(None);
        }
    }
    Ok(Some(Found(found)))
}

/// The elements at a path. As a list, each of them is an element; as a single value, there must be one.
struct Found<'a, 'input>(Vec<Node<'a, 'input>>);

impl<'a, 'input> Found<'a, 'input> {
    fn single(&self) -> Result<Node<'a, 'input>, Error> {
        match *self.0 {
            [node] => Ok(node),
            _ => Err(Error::custom("not one element where one belongs")),
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
}

impl IntoDeserializer<'_> for Found<'_, '_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parse {
    ($($method:ident: $visit:ident,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.text()?.trim().parse().map_err(Error::custom)?)
        })*
    };
}

impl<'de> Deserializer<'de> for Found<'_, '_> {
    type Error = Error;

    parse! {
        deserialize_bool: visit_bool,
        deserialize_i8: visit_i8,
        deserialize_i16: visit_i16,
        deserialize_i32: visit_i32,
        deserialize_i64: visit_i64,
        deserialize_u8: visit_u8,
        deserialize_u16: visit_u16,
        deserialize_u32: visit_u32,
        deserialize_u64: visit_u64,
        deserialize_f32: visit_f32,
        deserialize_f64: visit_f64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let elements = self.0.into_iter().map(|node| Found(vec![node]));
        visitor.visit_seq(SeqDeserializer::new(elements))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let node = self.single()?;
        let mut found = Vec::new();
        for path in fields {
            found.extend(find(node, path)?.map(|value| (*path, value)));
        }
        visitor.visit_map(MapDeserializer::new(found.into_iter()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut fields: BTreeMap<&str, Found<'_, '_>> = BTreeMap::new();
        for child in children(self.single()?)? {
            let found = fields.entry(named(child));
            found.or_insert_with(|| Found(Vec::new())).0.push(child);
        }
        visitor.visit_map(MapDeserializer::new(fields.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.text()?.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}
