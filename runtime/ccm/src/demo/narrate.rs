//! Output of the demo: the controllers' decisions from their own log events, one line each. Adds the demo's steps and
//! never invents a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

use crate::cli;

/// Prints steps and decisions to standard output.
#[derive(Clone)]
pub(crate) struct Narrator {
    json: bool,
    color: bool,
    waiting: Arc<Mutex<Vec<String>>>,
    /// Decisions already printed, so that none is repeated. `None` once the demo is over.
    printed: Arc<Mutex<Option<Printed>>>,
}

/// Object and decision.
type Printed = BTreeSet<(String, String)>;

impl Narrator {
    /// Starts listening to the process's log events.
    ///
    /// # Errors
    /// Logging was started before.
    pub(crate) fn start(json: bool) -> anyhow::Result<Narrator> {
        let narrator = Narrator {
            json,
            color: !json
                && is_colorful(std::io::stdout().is_terminal(), |name| {
                    std::env::var_os(name)
                }),
            waiting: Arc::default(),
            printed: Arc::new(Mutex::new(Some(BTreeSet::new()))),
        };
        tracing_subscriber::registry()
            .with(narrator.clone())
            .try_init()?;
        Ok(narrator)
    }

    /// Prints one line: actor, object and action.
    pub(crate) fn print(&self, who: &str, about: &str, what: &str) {
        // A closed pipe ends the output, not the demo's checks.
        let _ = std::io::stdout().write_all(self.line(who, about, what).as_bytes());
    }

    /// Prints the result.
    ///
    /// # Errors
    /// It cannot be written, such as to a full disk.
    pub(crate) fn print_result(&self, what: &str) -> anyhow::Result<()> {
        cli::write(self.line("result", "", what).as_bytes())
    }

    fn line(&self, who: &str, about: &str, what: &str) -> String {
        let line = if self.json {
            serde_json::json!({ "who": who, "about": about, "what": what }).to_string()
        } else if self.color {
            format!("\u{1b}[36m{who:<9}\u{1b}[0m {about:<10} {what}")
        } else {
            format!("{who:<9} {about:<10} {what}")
        };
        format!("{}\n", line.trim_end())
    }

    /// Prints a decision of the controllers unless it was printed before.
    fn decided(&self, who: &str, about: &str, what: &str) {
        let mut printed = self.printed.lock();
        let Some(printed) = printed.as_mut() else {
            return;
        };
        if printed.insert((about.to_owned(), what.to_owned())) {
            self.print(who, about, what);
        }
    }

    /// Whether such a decision about the object was printed. A watcher may see a change before its controller has
    /// received the response; the demo waits for both.
    pub(crate) fn has_printed(&self, object: &str, part: &str) -> bool {
        let printed = self.printed.lock();
        let mut printed = printed.iter().flatten();
        printed.any(|(about, what)| about == object && what.contains(part))
    }

    /// Ignores all further decisions of the controllers.
    pub(crate) fn end(&self) {
        *self.printed.lock() = None;
    }

    /// Whether a reason was printed why this object is waiting.
    pub(crate) fn has_waiting(&self, object: &str) -> bool {
        let waiting = self.waiting.lock();
        waiting.iter().any(|name| name == object)
    }
}

impl<S: Subscriber> Layer<S> for Narrator {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        if !["decision", "waiting", "rollout"].contains(&target) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields(fields) = fields;
        let text = |name: &str| fields.get(name).map_or("", String::as_str);
        if target == "rollout" {
            let parts = ["message", "why", "error"].map(text);
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.decided("rollout", text("provider"), &parts.join(": "));
            return;
        }
        let object = text("object");
        // Events about many objects name only their kind.
        let (kind, object) = match object.split_once('/') {
            // A route's destination contains a slash before its prefix length.
            Some(("route", destination)) => ("route", destination),
            Some((kind, name)) => (kind, name.rsplit('/').next().unwrap_or(name)),
            None => (object.trim_end_matches('s'), object),
        };
        if target == "waiting" {
            self.decided("waiting", object, text("message"));
            self.waiting.lock().push(object.to_owned());
        } else {
            self.decided(
                kind,
                object,
                &format!("{} → {}", text("effect"), text("outcome")),
            );
        }
    }
}

/// The fields of one event as text.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Whether the output has colours: in a terminal that can show them, unless its user wants none (no-color.org).
fn is_colorful(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let wants_none = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = variable("TERM").is_some_and(|value| value == "dumb");
    is_terminal && !wants_none && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colours_are_printed_to_who_wants_none() {
        for (is_terminal, set, expected) in [
            (true, None, true),
            (true, Some(("NO_COLOR", "1")), false),
            (true, Some(("NO_COLOR", "")), true),
            (true, Some(("TERM", "dumb")), false),
            (true, Some(("TERM", "xterm")), true),
            (false, None, false),
        ] {
            let variable = |name: &str| {
                set.filter(|(known, _)| *known == name)
                    .map(|(_, value)| value.into())
            };
            assert_eq!(is_colorful(is_terminal, variable), expected, "{set:?}");
        }
    }
}
