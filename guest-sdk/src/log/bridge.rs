//! Writes the records of the crate `log` to the operator's log. Only with the feature `log`.

use ::log::{Log, Metadata, Record, set_logger, set_max_level};

use super::{Level, write};

struct Bridge;

impl Log for Bridge {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = match record.level() {
            ::log::Level::Error => Level::Error,
            ::log::Level::Warn => Level::Warn,
            ::log::Level::Info => Level::Info,
            ::log::Level::Debug | ::log::Level::Trace => Level::Debug,
        };
        let fields = [("target", record.target())];
        write(level, &record.args().to_string(), &fields);
    }

    fn flush(&self) {}
}

/// Sends the records that libraries write through the crate `log` to the operator's log, with the module that wrote
/// them as the field `target`. [`export_provider!`](crate::export_provider) calls this before the first call; a test
/// calls it itself. Trace records are left out: the host keeps 100 lines of a call.
pub fn bridge() {
    // An error means that a logger is set already: this one, or the provider's own.
    if set_logger(&Bridge).is_ok() {
        set_max_level(::log::LevelFilter::Debug);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestHost, json};

    #[test]
    fn what_a_library_logs_is_in_the_operators_log() {
        let host = TestHost::open(|_| json(200, "{}"));
        bridge();
        bridge();
        ::log::warn!(target: "library", "{} retries", 3);
        ::log::debug!(target: "library::inner", "once more");
        ::log::trace!(target: "library", "left out");
        let expected = [
            (Level::Warn, "3 retries target=library".to_owned()),
            (Level::Debug, "once more target=library::inner".to_owned()),
        ];
        assert_eq!(host.lines(), expected);
    }
}
