//! Writes results to standard output, and errors to standard error.

use std::error::Error;
use std::io::{self, ErrorKind, Write as _};

use anyhow::{Chain, Context as _};
use ccm_core::failure;
use kube::config::KubeconfigError;

use crate::provider;
use crate::yaml_error;

/// Writes to standard output; a closed pipe is no error, because its reader has what it wanted.
///
/// # Errors
/// It cannot be written, such as to a full disk.
pub(crate) fn write(result: &[u8]) -> anyhow::Result<()> {
    end_result(io::stdout().write_all(result))
}

/// Ends the output of a result, which clap writes by itself, or [`write`].
///
/// # Errors
/// As of [`write`].
pub(crate) fn end_result(written: io::Result<()>) -> anyhow::Result<()> {
    // Flushed here: an error at the end of the process would be lost.
    match written.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints an error and its causes to standard error, one per line.
pub(crate) fn print_error(error: &anyhow::Error) {
    // Escaped, because clouds, registries and modules contribute causes. An error of a closed standard error has no
    // consequence.
    let text = with_causes(error);
    let _ = io::stderr().write_all(provider::visible(&text).as_bytes());
}

/// The error and its causes, one per line.
fn with_causes(error: &anyhow::Error) -> String {
    format!("Error: {}\n", texts(error.chain()).join("\n  caused by: "))
}

/// The error and its causes as the value of a log line, which escapes them.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    texts(error.chain()).join(": ")
}

/// The same of an error of a library.
pub(crate) fn causes_in_one_line(error: &(dyn Error + 'static)) -> String {
    texts(Chain::new(error)).join(": ")
}

/// The texts of the error and its causes. A cause is left out if the text above ends with it: many libraries repeat the
/// cause in their own text.
fn texts(chain: Chain<'_>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for cause in chain {
        let whole = in_our_words(cause);
        let is_whole = whole.is_some();
        let cause = whole.unwrap_or_else(|| without_type(cause));
        if texts.last().is_none_or(|above| !above.ends_with(&cause)) {
            texts.push(cause);
        }
        if is_whole {
            break;
        }
    }
    texts
}

/// The text of an error itself. The Kubernetes client's begins with the name of a type where no answer came.
fn without_type(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(kube::Error::Service(cause)) => cause.to_string(),
        _ => error.to_string(),
    }
}

/// The text of an error of the Kubernetes client, its causes included, where the client's own text has structures of
/// Rust, or lines of a kubeconfig, which may contain a token.
fn in_our_words(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return Some(failure::of_status(status.code, &status.message));
    }
    match error.downcast_ref()? {
        KubeconfigError::Parse(error) => Some(yaml_error::describe(error)),
        KubeconfigError::ReadConfig(error, path) => Some(format!("{}: {error}", path.display())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::with_causes;

    #[test]
    fn a_cause_that_the_line_above_repeats_is_left_out() {
        let error = anyhow!("no such file")
            .context("cannot open /a: no such file")
            .context("cannot read the configuration");
        let text =
            "Error: cannot read the configuration\n  caused by: cannot open /a: no such file\n";
        assert_eq!(with_causes(&error), text);
        let error = anyhow!("no such file").context("cannot open /a");
        let text = "Error: cannot open /a\n  caused by: no such file\n";
        assert_eq!(with_causes(&error), text);
    }

    #[test]
    fn an_error_of_the_kubernetes_client_is_told_without_the_librarys_structures() {
        let status = kube::core::Status::failure("nodes is forbidden", "Forbidden").with_code(403);
        let away = std::io::Error::other("connection refused");
        for (error, told) in [
            (
                kube::Error::Api(Box::new(status)),
                "the API server does not allow it (403): nodes is forbidden",
            ),
            (kube::Error::Service(Box::new(away)), "connection refused"),
        ] {
            let error = anyhow::Error::from(error);
            assert_eq!(with_causes(&error), format!("Error: {told}\n"));
            let text = with_causes(&error.context("the nodes cannot be listed"));
            let expected = format!("Error: the nodes cannot be listed\n  caused by: {told}\n");
            assert_eq!(text, expected);
        }
    }
}
