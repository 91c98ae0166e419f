//! How a mistake in a YAML file reads: its place and what was expected there. Never a value of the file, nor its lines:
//! who confuses a reference to a secret with the secret would find it in the log and in the status of the object
//! `Provider`.

use std::borrow::Cow;

use serde_saphyr::{Error, MessageFormatter, RenderOptions, SnippetMode, UserMessageFormatter};

/// The mistake in one line.
pub(crate) fn describe(error: &Error) -> String {
    let mut options = RenderOptions::new(&WithoutValues);
    options.snippets = SnippetMode::Off;
    error.render_with_options(options)
}

struct WithoutValues;

impl MessageFormatter for WithoutValues {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::SerdeUnknownVariant { expected, .. } => one_of(expected),
            Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
                "expected a single key, and there are several".into()
            }
            Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
                "expected a mapping with a single key".into()
            }
            Error::Unexpected { expected, .. } if *expected == "sequence start" => {
                "expected a list".into()
            }
            Error::Unexpected { expected, .. } if *expected == "mapping start" => {
                "expected a mapping".into()
            }
            Error::InvalidScalar { ty, .. } => match *ty {
                "u8" | "u16" | "u32" | "u64" => "expected a whole number, without a unit".into(),
                ty => format!("expected a value of the kind {ty}").into(),
            },
            Error::SerdeInvalidType { expected, .. }
            | Error::SerdeInvalidValue { expected, .. } => format!("expected {expected}").into(),
            Error::NullIntoString { .. } => "expected a text, and there is none".into(),
            Error::QuotingRequired { .. } => "the value must be quoted".into(),
            error => UserMessageFormatter.format_message(error),
        }
    }
}

fn one_of(expected: &[&str]) -> Cow<'static, str> {
    format!("expected one of {}", expected.join(", ")).into()
}
