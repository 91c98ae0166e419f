//! Structured logs to standard error, as text or JSON. Never to standard output, which is for results.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Starts logging for `ccm run`. `verbosity` is klog's `-v`.
///
/// # Errors
/// Logging was started before.
pub(crate) fn start(verbosity: u32, json: bool) -> anyhow::Result<()> {
    let filter = filter(verbosity);
    let registry = tracing_subscriber::registry().with(filter);
    if json {
        registry
            .with(fmt::layer().json().with_writer(std::io::stderr))
            .try_init()?;
    } else {
        registry
            .with(fmt::layer().with_writer(std::io::stderr).with_ansi(false))
            .try_init()?;
    }
    Ok(())
}

fn filter(verbosity: u32) -> EnvFilter {
    EnvFilter::new(format!("{},{SILENT}", directives(verbosity)))
}

/// Applied at every verbosity. kube's client logs the whole text of an answer that it cannot parse, which may be a
/// Secret; the caller gets the error anyway. Its submodules (TLS, each request's span) log no such content.
const SILENT: &str = "kube_client::client=error,kube_client::client::tls=warn";

/// Log filter of each verbosity. Libraries stay quiet below the highest one: the connection pool's messages do not help
/// to find a problem with a node.
fn directives(verbosity: u32) -> &'static str {
    match verbosity {
        0..=1 => {
            "warn,ccm=info,ccm_controllers=info,ccm_host=info,ccm_delivery=info,rollout=info,decision=info,waiting=info,initialised=info,guest=info,egress=warn,plan=info,audit=info"
        }
        2..=3 => {
            "warn,ccm=debug,ccm_controllers=debug,ccm_host=info,ccm_delivery=debug,rollout=debug,decision=debug,waiting=info,initialised=info,guest=info,egress=info,plan=info,audit=info"
        }
        4..=5 => {
            "info,ccm=debug,ccm_controllers=debug,ccm_host=debug,ccm_delivery=debug,rollout=debug,decision=debug,waiting=debug,guest=debug,egress=debug,plan=debug,audit=debug"
        }
        _ => "trace",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::Secret;
    use kube::api::ListParams;
    use kube::{Api, Client};

    use super::*;

    /// A readable log. Clones share it.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// An API server that answers every request with this text.
    fn answering(text: &'static str) -> Client {
        let answer = move |_: http::Request<kube::client::Body>| async move {
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(text))))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_read_is_not_logged_at_any_verbosity() {
        for verbosity in [0, 2, 4, 6] {
            let lines = Lines::default();
            let writer = lines.clone();
            let layer = fmt::layer().with_writer(move || writer.clone());
            let registry = tracing_subscriber::registry().with(filter(verbosity));
            let _guard = ccm_tests::log::listen(registry.with(layer));
            tracing::warn!("this is seen");
            for text in [
                r#"{"kind":"SecretList","apiVersion":"v1","items":[{"data":{"token":"Y2FuYXJ5"}}"#,
                r#"{"kind":"Secret","apiVersion":"v1","metadata":{},"data":{"token":"Y2FuYXJ5"},"type":1}"#,
            ] {
                let api: Api<Secret> = Api::namespaced(answering(text), "kube-system");
                assert!(api.list(&ListParams::default()).await.is_err());
                assert!(api.get("hcloud").await.is_err());
                assert!(api.delete("hcloud", &Default::default()).await.is_err());
            }
            let log = lines.text();
            assert!(log.contains("this is seen"), "-v {verbosity}: {log}");
            assert!(!log.contains("Y2FuYXJ5"), "-v {verbosity}: {log}");
        }
    }

    #[test]
    fn what_operators_are_told_to_look_for_is_shown_without_a_flag() {
        for verbosity in [0, 2, 4] {
            for target in [
                "rollout",
                "waiting",
                "initialised",
                "guest",
                "plan",
                "audit",
            ] {
                let shown = [format!("{target}=info"), format!("{target}=debug")];
                let mut all = directives(verbosity).split(',');
                let is_shown =
                    all.any(|one| shown.iter().any(|shown| shown == one) || one == "info");
                assert!(is_shown, "{target} at -v {verbosity}");
            }
        }
    }
}
