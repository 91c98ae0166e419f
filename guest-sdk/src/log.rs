//! Lines for the operator's log. The host keeps at most 100 lines per call and 4 KiB per line, and shows the last
//! ones with the error when the guest crashes.

use crate::host;

pub use crate::bindings::host::ccm::provider::log::Level;

/// Writes one line. Data goes into `fields`, so that the message stays the same text every time.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    host::log::log(level, message, &fields);
}

/// For the author of the provider.
pub fn debug(message: &str, fields: &[(&str, &str)]) {
    write(Level::Debug, message, fields);
}

/// Something happened as it should.
pub fn info(message: &str, fields: &[(&str, &str)]) {
    write(Level::Info, message, fields);
}

/// Somebody should look.
pub fn warn(message: &str, fields: &[(&str, &str)]) {
    write(Level::Warn, message, fields);
}

/// Something failed.
pub fn error(message: &str, fields: &[(&str, &str)]) {
    write(Level::Error, message, fields);
}
