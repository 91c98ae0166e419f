//! Output of the plan: its text, the reasons if it is incomplete, and the exit code. Computes nothing; contacts the API
//! server only to check that it is reachable, and only for an incomplete plan.

use std::process::ExitCode;
use std::time::Duration;

use ccm_controllers::SharedPlan;
use ccm_controllers::api_error::describe;
use ccm_core::safety::plan::{Plan, PlanVerdict};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Config};
use tokio::time::Instant;

use crate::api_server_proxy::unbound_client;
use crate::cli;
use crate::exit::Exit;
use crate::telemetry::startup::shown;

/// Time limit for contacting the API server once more at the end of an incomplete plan.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long nothing may be open before a plan is complete: longer than the node controllers' period, and than the quiet
/// time after node changes.
const QUIET: Duration = Duration::from_secs(6);

/// Completes when everything has been judged for [`QUIET`], or after `timeout`.
pub(super) async fn judged(shared_plan: &SharedPlan, timeout: Duration) {
    let began = Instant::now();
    let mut open = began;
    while began.elapsed() < timeout && open.elapsed() < QUIET {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if !shared_plan.snapshot().is_sure() {
            open = Instant::now();
        }
    }
}

/// Adds the causes of an incomplete plan: providers that do not serve, and an API server that does not answer.
pub(super) async fn explain(plan: &mut Plan, unserved: &[String], kubernetes: &Config) {
    for name in unserved {
        let why = Some("the provider does not serve");
        plan.set_unsure(&format!("provider/{name}"), "", name, why);
    }
    if !plan.is_whole()
        && let Some(why) = unreachable(kubernetes).await
    {
        plan.explain(why);
    }
}

/// Prints the plan. Its verdict is the exit code: 0 no changes, 2 changes planned, 3 undecidable.
pub(super) fn print(plan: &Plan, json: bool) -> anyhow::Result<ExitCode> {
    let text = if json {
        format!("{}\n", plan.to_json())
    } else {
        plan.table()
    };
    cli::write(text.as_bytes())?;
    Ok(exit_code(plan))
}

/// The verdict as an exit code.
pub(crate) fn exit_code(plan: &Plan) -> ExitCode {
    match plan.verdict() {
        PlanVerdict::Empty => Exit::Done.into(),
        PlanVerdict::Changes => Exit::Refused.into(),
        PlanVerdict::Unknown => Exit::Unjudged.into(),
    }
}

/// Why the API server refuses reads; `None` if it allows them.
async fn unreachable(kubernetes: &Config) -> Option<String> {
    let server = shown(&kubernetes.cluster_url);
    let server = server.trim_end_matches('/');
    let nodes: Api<Node> = match unbound_client(kubernetes) {
        Ok(client) => Api::all(client),
        Err(error) => return Some(format!("{server} cannot be asked: {error}")),
    };
    let one = ListParams::default().limit(1);
    match tokio::time::timeout(PROBE_TIMEOUT, nodes.list_metadata(&one)).await {
        Ok(Ok(_)) => None,
        Ok(Err(kube::Error::Api(status))) => Some(match status.code {
            401 => format!("{server} refuses the credential (401)"),
            code => format!(
                "{server} refuses to list nodes ({code}): {}",
                status.message
            ),
        }),
        Ok(Err(error)) => Some(format!("{server} cannot be reached ({})", describe(&error))),
        Err(_) => Some(format!(
            "{server} cannot be reached (no answer within {PROBE_TIMEOUT:?})"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "tests")]
    use super::*;

    #[tokio::test]
    async fn a_provider_that_does_not_serve_is_counted() {
        let mut plan = Plan::default();
        plan.set_whole();
        let nowhere = Config::new("https://cluster.test".parse().expect("a URL"));
        explain(&mut plan, &["nimbus".to_owned()], &nowhere).await;
        assert_eq!(plan.verdict(), PlanVerdict::Unknown);
        assert_eq!(
            plan.table(),
            "provider/nimbus  ?  the provider does not serve\n\
             no change is known; changes that cannot be judged yet: 1\n"
        );
    }

    /// A plan is kept and passed on, by CI for example.
    #[tokio::test]
    async fn the_login_of_an_api_server_is_not_part_of_the_plan() {
        let mut plan = Plan::default();
        let nowhere = Config::new("https://joe:secret@127.0.0.1:9".parse().expect("a URL"));
        explain(&mut plan, &[], &nowhere).await;
        let table = plan.table();
        assert!(
            table.contains("127.0.0.1:9") && !table.contains("secret"),
            "{table}"
        );
    }
}
