//! The fields of a log line and of the spans around it, with their types, for the formats of Kubernetes. Writes
//! nothing.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::{FmtContext, FormatFields};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::cli::causes_in_one_line;

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Text, and all values that are written as text.
    Text(String),
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// A line's message and fields, in their order.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    /// Names and values; each name occurs once.
    pub(super) pairs: Vec<(&'static str, Value)>,
}

/// The field of an error, as Kubernetes names it.
pub(super) const ERROR_KEY: &str = "err";

impl Fields {
    /// Collects the fields of the spans around an event, the outermost first, and its own. An event without a message
    /// is called by its target, such as `initialised`.
    pub(super) fn of<S, N>(context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Fields
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let mut fields = Fields::default();
        let spans = context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root());
        for span in spans {
            if let Some(SpanFields(span)) = span.extensions().get::<SpanFields>() {
                for (name, value) in &span.pairs {
                    fields.put(name, value.clone());
                }
            }
        }
        event.record(&mut fields);
        if fields.message.is_empty() {
            event.metadata().target().clone_into(&mut fields.message);
        }
        fields
    }

    /// Adds a field. Another value of the same name replaces the earlier one and goes to the end; an equal one changes
    /// nothing. Both is as in klog.
    fn put(&mut self, name: &'static str, value: Value) {
        let name = if name == "error" { ERROR_KEY } else { name };
        match self.pairs.iter().position(|(known, _)| *known == name) {
            Some(place) if self.pairs[place].1 == value => return,
            Some(place) => {
                self.pairs.remove(place);
            }
            None => {}
        }
        self.pairs.push((name, value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.put(field.name(), Value::Text(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.put(field.name(), Value::Text(value.to_owned()));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field.name(), Value::Text(causes_in_one_line(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), Value::Unsigned(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        let text = || Value::Text(value.to_string());
        let value = i64::try_from(value).map_or_else(|_| text(), Value::Signed);
        self.put(field.name(), value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        let text = || Value::Text(value.to_string());
        let value = u64::try_from(value).map_or_else(|_| text(), Value::Unsigned);
        self.put(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Value::Float(value));
    }
}

/// The fields of a span, kept with it.
struct SpanFields(Fields);

/// Keeps the fields of spans for [`Fields::of`].
pub(super) struct KeepSpanFields;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for KeepSpanFields {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(SpanFields(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(SpanFields(fields)) = span.extensions_mut().get_mut()
        {
            values.record(fields);
        }
    }
}
