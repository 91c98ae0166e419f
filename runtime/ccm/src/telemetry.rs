//! Logs: structured, to standard error, as text or JSON. Never to standard output, which belongs to results.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Starts logging for `ccm run`. `verbosity` is klog's `-v`.
///
/// # Errors
/// Logging was started before.
pub(crate) fn start(verbosity: u32, json: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::new(directives(verbosity));
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

/// What each verbosity shows. Libraries stay quiet until everything is asked for: the connection pool's
/// chatter helps nobody who looks for a node.
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
mod tests {
    use super::*;

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
