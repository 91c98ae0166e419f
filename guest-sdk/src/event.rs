//! Texts of events: lines that people read about a Node or a Service.

use std::fmt::Write as _;

use crate::{Event, EventType};

#[cfg(test)]
mod tests;

/// The contract's maximum number of events per reply about a Service or a route.
const MAX_EVENTS: usize = 16;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Maximum length of a list of names in a message, in bytes.
const MAX_LIST: usize = 512;

impl Event {
    /// An event of type `Normal`. `reason` is a CamelCase word of at most 64 letters and digits; the message is cut at
    /// 1024 bytes.
    pub fn normal(reason: &str, message: impl AsRef<str>) -> Event {
        Event::new(EventType::Normal, reason, message.as_ref())
    }

    /// An event of type `Warning`, for a person to look at; see [`Event::normal`].
    pub fn warning(reason: &str, message: impl AsRef<str>) -> Event {
        Event::new(EventType::Warning, reason, message.as_ref())
    }

    fn new(event_type: EventType, reason: &str, message: &str) -> Event {
        let end = message.floor_char_boundary(MAX_MESSAGE);
        Event {
            event_type,
            reason: reason.to_owned(),
            message: message.get(..end).unwrap_or_default().to_owned(),
        }
    }
}

/// The first events, as many as a reply may have: the host would refuse the whole reply for more.
pub(crate) fn first(mut events: Vec<Event>) -> Vec<Event> {
    events.truncate(MAX_EVENTS);
    events
}

/// As many names as fit into a message, and the number of the others: for one event about many nodes.
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
