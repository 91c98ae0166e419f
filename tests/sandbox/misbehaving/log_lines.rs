//! The log lines of this thread, as values.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::subscriber::DefaultGuard;

/// The loggers of guests' messages, of the egress, and of waiting nodes.
const FILTER: &str = "off,guest=debug,egress=debug,waiting=info";

/// One line of the log.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) target: String,
    pub(crate) level: String,
    pub(crate) message: String,
    /// Every field of the line, its message included.
    pub(crate) fields: Value,
}

/// Records the log lines of this thread until it is dropped.
pub(crate) struct Lines {
    written: Written,
    _listening: DefaultGuard,
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Begins to record the log lines of this thread.
    pub(crate) fn listen() -> Lines {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_env_filter(FILTER)
            .with_writer(move || writer.clone())
            .finish();
        Lines {
            written,
            _listening: ccm_tests::log::listen(subscriber),
        }
    }

    /// The lines so far.
    pub(crate) fn so_far(&self) -> Vec<Line> {
        let written = self.written.0.lock().unwrap();
        let text = std::str::from_utf8(&written).unwrap();
        text.lines().map(read).collect()
    }
}

fn read(line: &str) -> Line {
    let value: Value = serde_json::from_str(line).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Line {
        target: text(&value["target"]),
        level: text(&value["level"]),
        message: text(&value["fields"]["message"]),
        fields: value["fields"].clone(),
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
