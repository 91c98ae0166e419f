//! Events about a Service. The Go manager records one event per Node; the contract has only Service events, and few of
//! them, so one event lists the nodes.

use std::fmt::Write as _;

use ccm_guest::{Event, EventType};

#[cfg(test)]
mod tests;

/// The contract's maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Maximum length of a list of names in a message, in bytes.
const MAX_LIST: usize = 512;

/// A warning, truncated to the contract's maximum.
pub fn warning(reason: &str, message: &str) -> Event {
    let end = message.floor_char_boundary(MAX_MESSAGE);
    Event {
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        message: message.get(..end).unwrap_or_default().to_owned(),
    }
}

/// As many names as fit, and the number of omitted ones.
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
