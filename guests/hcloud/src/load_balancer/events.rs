//! The events about a Service. The Go manager records those about nodes on the Nodes, one for each; the contract has
//! events of the Service only, and few of them: so one event names the nodes.

use std::fmt::Write as _;

use ccm_guest::{Event, EventType};

#[cfg(test)]
mod tests;

/// The contract's cap on a message.
const MAX_MESSAGE: usize = 1024;
/// How much of a message is a list of names.
const MAX_LIST: usize = 512;

/// A warning, cut to what the contract allows.
pub fn warning(reason: &str, message: &str) -> Event {
    let end = message.floor_char_boundary(MAX_MESSAGE);
    Event {
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        message: message.get(..end).unwrap_or_default().to_owned(),
    }
}

/// The names, as far as there is room, and how many are left out.
pub fn listed<Name: AsRef<str>>(names: &[Name]) -> String {
    let mut list = String::new();
    for (index, name) in names.iter().enumerate() {
        let name = name.as_ref();
        if index > 0 && list.len() + name.len() > MAX_LIST {
            let _ = write!(list, " and {} more", names.len() - index);
            break;
        }
        if index > 0 {
            list.push_str(", ");
        }
        list.push_str(name);
    }
    list
}
