//! Writes lines to the operator's log. The host keeps at most 100 lines per call and 4 KiB per line, and shows the
//! last ones with the error when the guest crashes.

use crate::host;

pub use crate::bindings::host::ccm::provider::log::Level;

/// Writes one line. Put variable data into `fields`, so that the message text stays constant.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    host::log::log(level, message, &fields);
}

/// Logs details for the provider's author.
pub fn debug(message: &str, fields: &[(&str, &str)]) {
    write(Level::Debug, message, fields);
}

/// Logs normal operation.
pub fn info(message: &str, fields: &[(&str, &str)]) {
    write(Level::Info, message, fields);
}

/// Logs a condition that the operator should look at.
pub fn warn(message: &str, fields: &[(&str, &str)]) {
    write(Level::Warn, message, fields);
}

/// Logs a failure.
pub fn error(message: &str, fields: &[(&str, &str)]) {
    write(Level::Error, message, fields);
}
