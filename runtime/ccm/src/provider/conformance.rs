//! `ccm provider test`: tests a module against the laws of the contract, and reports on each. The module runs in the
//! real sandbox and sends its requests through the real egress to the endpoints of the configuration. Faults happen
//! between the egress and these endpoints.
//!
//! | Part | Contents |
//! |---|---|
//! | `law` | every law, in one table |
//! | `module_under_test` | loads the module again for each law, and calls it |
//! | `contract`, `instances`, `load_balancers`, `routes` | how each law is tested |
//! | `report` | the findings, for people, for programs and for publication |
//!
//! A law is judged by the module's answers and the requests that it sends. The state of a cloud is seen through the
//! module alone: no law needs to know the cloud.

mod contract;
mod instances;
mod law;
mod load_balancers;
mod module_under_test;
mod report;
mod routes;

use std::sync::Arc;

use anyhow::anyhow;
use ccm_core::cloud_provider::CloudProvider as _;

use super::Verdict;
use super::arguments::{ReportForm, Suite, Test};
use super::configured_providers::Inputs;
use super::loadable::{ClusterProperties, Loadable};
use super::terminal::Screen;
use super::try_command::objects::{completed, read_service};
use crate::termination_signals::TerminationSignals;
use law::Findings;
use module_under_test::{ModuleUnderTest, Subjects};
use report::Report;

/// Tests the module and prints the report.
pub(super) async fn run(options: &Test, screen: Screen) -> anyhow::Result<Verdict> {
    let service = match &options.service {
        Some(path) => read_service(path)?,
        None => completed(load_balancers::template()?),
    };
    let subject = &options.subject;
    let cluster = ClusterProperties {
        name: subject.cluster_name.clone(),
        cidrs: subject.cluster_cidr.clone(),
    };
    let (module, entry) = (&options.module, &options.entry);
    let loadable = Loadable::find(module, entry, cluster, Inputs::Used, screen).await?;
    screen.step("compiling and starting");
    let bar = screen.busy("compiling and starting");
    let loadable = Arc::new(loadable);
    // A module that cannot be loaded is an error of the command, and no finding.
    let provider = loadable.load(None).await?;
    let enabled = provider.capabilities();
    let warnings = provider.warnings().to_vec();
    drop((provider, bar));
    let tested = ModuleUnderTest::new(loadable.clone(), Subjects::new(options, service));
    let suites = suites(&options.suite, enabled);
    let mut findings = Findings::new(&tested, screen);
    let mut signals = TerminationSignals::listen()?;
    tokio::select! {
        () = judge(&tested, &suites, &mut findings) => {}
        () = signals.next() => return Err(interrupted(&tested)),
    }
    let report = Report::new(&loadable, warnings, findings.findings);
    let text = match options.output {
        ReportForm::Text => report.text(),
        ReportForm::Markdown => report.markdown(),
        ReportForm::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
    };
    Ok(Verdict {
        text,
        is_yes: report.conforms,
    })
}

async fn judge(tested: &ModuleUnderTest, suites: &[Suite], findings: &mut Findings<'_>) {
    contract::begin(tested, findings).await;
    for suite in suites {
        match suite {
            Suite::Contract => {}
            Suite::Instances => instances::judge(tested, findings).await,
            Suite::LoadBalancer => load_balancers::judge(tested, findings).await,
            Suite::Routes => routes::judge(tested, findings).await,
        }
    }
    contract::end(tested, findings).await;
}

/// The error of a test that a signal ends, with the objects that a person may have to remove.
fn interrupted(tested: &ModuleUnderTest) -> anyhow::Error {
    match tested.left().as_slice() {
        [] => anyhow!("interrupted; nothing is left at the cloud"),
        left => anyhow!("interrupted; left at the cloud: {}", left.join(", ")),
    }
}

/// The suites that are tested: those that were chosen, or those of the enabled interfaces.
fn suites(chosen: &[Suite], enabled: ccm_core::cloud::Capabilities) -> Vec<Suite> {
    if !chosen.is_empty() {
        return chosen.to_vec();
    }
    let all = [
        (Suite::Instances, enabled.instances),
        (Suite::LoadBalancer, enabled.load_balancer),
        (Suite::Routes, enabled.routes),
    ];
    all.into_iter()
        .filter_map(|(suite, is_enabled)| is_enabled.then_some(suite))
        .collect()
}
