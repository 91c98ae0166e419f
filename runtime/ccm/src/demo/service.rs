//! Service part of the demo: a Service gets a load balancer with an address, and nothing remains when it is deleted.
//! Only changes the cluster and waits; the controllers do the work.

use std::time::Instant;

use anyhow::ensure;
use ccm_core::well_known;
use ccm_sim::hetzner::Hetzner;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::narrate::Narrator;
use super::{STEP_TIMEOUT, wait};

/// Name of the Service.
const NAME: &str = "web";
/// Namespace of the Service.
pub(super) const NAMESPACE: &str = "default";

/// Shows the life cycle of one load balancer.
///
/// # Errors
/// A step did not happen.
pub(super) async fn show(
    services: &Api<Service>,
    cloud: &Hetzner,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    narrator.print(
        "cluster",
        NAME,
        "a Service of type LoadBalancer with two ports",
    );
    services.create(&PostParams::default(), &wanted()).await?;
    let address = until(services, "an address", |service| service.and_then(address)).await?;
    narrator.print(
        "cluster",
        NAME,
        &format!(
            "is reached at {address}; load balancers in the cloud: {}",
            cloud.load_balancers().len()
        ),
    );
    ensure!(
        cloud.load_balancers().len() == 1,
        "there is not one load balancer"
    );

    narrator.print(
        "cluster",
        NAME,
        "is deleted; its finalizer keeps it until the load balancer is gone",
    );
    services.delete(NAME, &DeleteParams::default()).await?;
    until(services, "its end", |service| {
        service.is_none().then_some(())
    })
    .await?;
    let left = cloud.load_balancers().len();
    ensure!(left == 0, "{left} load balancers are left");
    narrator.print(
        "cluster",
        NAME,
        "is gone, and nothing of it is left in the cloud",
    );
    Ok(())
}

fn wanted() -> Service {
    let port = |name: &str, port, node_port| ServicePort {
        name: Some(name.to_owned()),
        port,
        node_port: Some(node_port),
        ..ServicePort::default()
    };
    Service {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            ports: Some(vec![port("http", 80, 30080), port("https", 443, 30443)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The address, only if the finalizer, which must come first, is set.
fn address(service: &Service) -> Option<String> {
    let finalizers = service.metadata.finalizers.as_deref().unwrap_or_default();
    let is_kept = finalizers
        .iter()
        .any(|finalizer| finalizer == well_known::LOAD_BALANCER_FINALIZER);
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    let first = status.ingress.as_ref()?.first()?;
    first.ip.clone().filter(|_| is_kept)
}

async fn until<T>(
    services: &Api<Service>,
    what: &str,
    read: impl Fn(Option<&Service>) -> Option<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        if let Some(read) = read(services.get_opt(NAME).await?.as_ref()) {
            return Ok(read);
        }
        wait(deadline, || format!("{NAME} still waits for {what}")).await?;
    }
}
