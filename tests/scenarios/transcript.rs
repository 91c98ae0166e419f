//! Records the controllers' log lines as transcript lines.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ccm_core::well_known::NODE_LIFECYCLE_CONTROLLER;
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::cloud::SIM;

/// The lines so far. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Transcript {
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
    since: Arc<Mutex<Option<Instant>>>,
    surveys: Arc<Mutex<Vec<Surveyed>>>,
    processes: Arc<AtomicUsize>,
    defects: Arc<Mutex<Vec<String>>>,
    loud: Arc<Mutex<Vec<String>>>,
}

impl Transcript {
    /// Takes the lines since this function was called last.
    pub(crate) fn take(&self) -> Vec<String> {
        *self.since.lock().unwrap() = Some(Instant::now());
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// The same without look-ups and waiting objects, and with the time since the last call.
    pub(crate) fn take_quietly(&self) -> Vec<String> {
        let now = Instant::now();
        let since = self.since.lock().unwrap().replace(now).unwrap_or(now);
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        let news = lines.into_iter().filter_map(|(at, line)| {
            let what = line.strip_prefix("> ").filter(|what| !is_dull(what))?;
            Some(format!("> {}s {what}", (at - since).as_secs()))
        });
        news.collect()
    }

    /// Counts the start of another process.
    pub(crate) fn note_process(&self) {
        self.processes.fetch_add(1, Ordering::Relaxed);
    }

    /// The node lifecycle controller's look-ups, recorded when they were answered.
    pub(crate) fn surveys(&self) -> Vec<Surveyed> {
        self.surveys.lock().unwrap().clone()
    }

    /// The lines at INFO and above: level, target, object, and the message or the effect.
    pub(crate) fn loud(&self) -> Vec<String> {
        self.loud.lock().unwrap().clone()
    }

    /// The lines in which the controllers report a defect of their own, such as a reconciliation that panicked.
    pub(crate) fn defects(&self) -> Vec<String> {
        self.defects.lock().unwrap().clone()
    }
}

/// A look-up of the node lifecycle controller.
#[derive(Debug, Clone)]
pub(crate) struct Surveyed {
    /// The time of the answer.
    pub(crate) at: Instant,
    /// Number of the process that asked.
    pub(crate) process: usize,
    /// The nodes that it was about.
    pub(crate) about: Vec<String>,
    /// Whether the question had a witness.
    pub(crate) has_witness: bool,
}

impl Surveyed {
    /// Reads an effect such as `find fresh a b with c d`.
    fn read(effect: &str, process: usize) -> Option<Surveyed> {
        let rest = effect.strip_prefix("find ")?;
        let rest = rest.strip_prefix("fresh ").unwrap_or(rest);
        let (about, vouching) = rest.split_once(" with ").unwrap_or((rest, ""));
        Some(Surveyed {
            at: Instant::now(),
            process,
            about: about.split(' ').map(str::to_owned).collect(),
            has_witness: !vouching.is_empty(),
        })
    }
}

/// Whether the effect is a look-up, a read, or the use of a brake's budget.
fn is_dull(effect: &str) -> bool {
    let effect = match effect.split_once("] ") {
        Some((_, effect)) => effect,
        None => effect,
    };
    ["find ", "read ", "take budget ", "return budget "]
        .iter()
        .any(|word| effect.starts_with(word))
}

/// Whether this is an event that is read. Spans, and the many events of libraries below INFO, are not even recorded.
fn is_read(metadata: &Metadata<'_>) -> bool {
    let is_of_transcript = matches!(metadata.target(), "decision" | "waiting" | "initialised");
    metadata.is_event() && (is_of_transcript || *metadata.level() <= Level::INFO)
}

impl<S: Subscriber> Layer<S> for Transcript {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_read(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        is_read(metadata)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if *event.metadata().level() == Level::ERROR {
            let target = event.metadata().target();
            let mut defects = self.defects.lock().unwrap();
            defects.push(format!("{target} says: {:?}", fields.0));
        }
        let field = |name: &str| fields.0.get(name).map(String::as_str).unwrap_or_default();
        let metadata = event.metadata();
        // The lines of libraries do not count; the simulator is one of them.
        let is_ours = metadata.module_path() != Some(metadata.target())
            || metadata.target().starts_with("ccm_controllers");
        if *metadata.level() <= Level::INFO && is_ours {
            let reported = [field("message"), field("effect")].concat();
            let (level, target) = (metadata.level(), metadata.target());
            let line = format!("{level} {target} {} {reported}", field("object"));
            self.loud.lock().unwrap().push(line);
        }
        if event.metadata().target() == "decision"
            && field("controller") == NODE_LIFECYCLE_CONTROLLER
        {
            let process = self.processes.load(Ordering::Relaxed);
            let survey = Surveyed::read(field("effect"), process);
            self.surveys.lock().unwrap().extend(survey);
        }
        let mut lines = self.lines.lock().unwrap();
        let mut push = |line: String| lines.push((Instant::now(), line));
        let by = match field("provider") {
            "" | "-" | SIM => String::new(),
            provider => format!("[{provider}] "),
        };
        match event.metadata().target() {
            "decision" => {
                push(format!("> {by}{}", field("effect")));
                if field("outcome") != "done" {
                    push(format!("< {by}{}", field("outcome")));
                }
            }
            "waiting" => {
                let [object, next, why] = ["object", "next", "message"].map(field);
                push(format!("~ {by}{object} {next}: {why}"));
            }
            "initialised" => push(format!(
                "= {by}{} waited {}, attempt {}: {}",
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
