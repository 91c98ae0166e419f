//! Listens to what the controllers say they do, and writes it down as transcript lines.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The lines so far. Clones are the same transcript.
#[derive(Clone, Default)]
pub(crate) struct Transcript {
    lines: Arc<Mutex<Vec<String>>>,
    defects: Arc<Mutex<Vec<String>>>,
}

impl Transcript {
    /// Takes the lines since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    /// What the controllers themselves call a defect of theirs, such as a conversation that panicked.
    pub(crate) fn defects(&self) -> Vec<String> {
        self.defects.lock().unwrap().clone()
    }
}

impl<S: Subscriber> Layer<S> for Transcript {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if *event.metadata().level() == Level::ERROR {
            let target = event.metadata().target();
            let mut defects = self.defects.lock().unwrap();
            defects.push(format!("{target} says: {:?}", fields.0));
        }
        let field = |name: &str| fields.0.get(name).map(String::as_str).unwrap_or_default();
        let mut lines = self.lines.lock().unwrap();
        match event.metadata().target() {
            "decision" => {
                lines.push(format!("> {}", field("effect")));
                if field("outcome") != "done" {
                    lines.push(format!("< {}", field("outcome")));
                }
            }
            "waiting" => lines.push(format!("~ {} {}", field("object"), field("done"))),
            "initialised" => lines.push(format!(
                "= {} waited {}, attempt {}: {}",
                field("object"),
                field("waited"),
                field("attempts"),
                field("why")
            )),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}
