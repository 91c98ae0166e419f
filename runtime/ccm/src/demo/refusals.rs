//! What is refused in the demo: a request beyond the grants, and a module that requests more than it is granted.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use bytes::Bytes;
use ccm_core::moment::Moment;
use ccm_core::safety::permit::Permit;
use ccm_host::egress::{Egress, EgressLimits, FetchRequest};
use ccm_host::manifest::Manifest;
use ccm_host::{Host, Module};
use ccm_sim::hetzner::Hetzner;

use super::narrate::Narrator;

/// Sends a request outside the grant through the guests' egress, which refuses it.
pub(super) async fn refuse_request(
    manifest: &Manifest,
    cloud: &Hetzner,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    let granted = manifest.narrow(super::grants(manifest, cloud)?)?;
    let egress = Arc::new(Egress::new("hcloud", &granted, EgressLimits::standard())?);
    let before = cloud.connections();
    let deadline = tokio::time::Instant::now() + super::STEP_TIMEOUT;
    let scope = egress.scope(
        Arc::new(Permit::read_only(Moment(Duration::MAX))),
        deadline,
        false,
    );
    let request = FetchRequest {
        supplementary: false,
        target: "api".to_owned(),
        method: http::Method::DELETE,
        path: "/servers/1".to_owned(),
        query: Vec::new(),
        headers: Vec::new(),
        body: None,
    };
    match scope.fetch(request).await {
        Ok(answer) => bail!("DELETE /servers/1 was sent and answered {}", answer.status),
        Err(refusal) => narrator.print(
            "egress",
            "",
            &format!("DELETE api/servers/1 → refused: {refusal}"),
        ),
    }
    ensure!(
        cloud.connections() == before,
        "a refused request reached the cloud"
    );
    Ok(())
}

/// Loads the same module with fewer grants than it requests: refused, with the missing lines named, of which two are
/// printed.
pub(super) async fn refuse_module(
    host: &Host,
    manifest: &Manifest,
    cloud: &Hetzner,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    let mut grants = super::grants(manifest, cloud)?;
    for target in &mut grants.targets {
        target.rules.truncate(1);
    }
    let module = Module {
        source: "embedded:hcloud".to_owned(),
        wasm: Bytes::from_static(super::embedded()?),
    };
    match host.load(module, grants, super::guest_config()).await {
        Ok(_) => bail!("a module was loaded with less than it requests"),
        Err(refusal) => {
            let causes: Vec<_> = anyhow::Error::from(refusal)
                .chain()
                .map(ToString::to_string)
                .collect();
            let why = causes.join(": ");
            let lines: Vec<&str> = why.split("; ").collect();
            let (shown, others) = lines.split_at(lines.len().min(2));
            let text = format!(
                "with one rule granted → not loaded: {}; and {} more",
                shown.join("; "),
                others.len()
            );
            narrator.print("provider", "hcloud", &text);
        }
    }
    Ok(())
}
