//! Look-ups of an answer on their way between two processes: no more than one call can ask for. A look-up may be a single
//! byte there, and takes more than a hundred in memory; what else is in lists takes a fraction of that for each byte.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bindings::instances::{FindReply, Lookup, NodeEvent};
use crate::limits;

pub(super) fn serialize<S: Serializer>(reply: &FindReply, to: S) -> Result<S::Ok, S::Error> {
    match reply.lookups.len() <= limits::NODES {
        true => reply.serialize(to),
        false => Err(S::Error::custom("more look-ups than nodes")),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FindReply, D::Error> {
    let Received { lookups, events } = Received::deserialize(from)?;
    Ok(FindReply { lookups, events })
}

/// Has the fields of [`FindReply`] in their order.
#[derive(Deserialize)]
struct Received {
    #[serde(deserialize_with = "lookups")]
    lookups: Vec<Lookup>,
    events: Vec<NodeEvent>,
}

fn lookups<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Lookup>, D::Error> {
    from.deserialize_seq(LookupsVisitor)
}

struct LookupsVisitor;

impl<'de> Visitor<'de> for LookupsVisitor {
    type Value = Vec<Lookup>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} look-ups", limits::NODES)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Lookup>, A::Error> {
        let mut lookups = Vec::new();
        while let Some(lookup) = list.next_element()? {
            if lookups.len() == limits::NODES {
                return Err(A::Error::custom("more look-ups than nodes"));
            }
            lookups.push(lookup);
        }
        Ok(lookups)
    }
}
