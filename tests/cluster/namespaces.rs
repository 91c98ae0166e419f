//! A namespace that is deleted on a real API server: everything in it is to go, so the brake does not hold its load
//! balancers.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::services::{PLACE, load_balancer};
use crate::world::{Setup, World, size, until};

/// A namespace with Services, which a test deletes.
pub(crate) struct Leaving {
    namespaces: Api<Namespace>,
    services: Api<Service>,
    name: &'static str,
}

impl Leaving {
    /// Creates the namespace with this many Services.
    pub(crate) async fn with(world: &World, name: &'static str, services: usize) -> Leaving {
        let admin = world.api.client_for("admin").await.unwrap();
        let leaving = Leaving {
            namespaces: Api::all(admin.clone()),
            services: Api::namespaced(admin, name),
            name,
        };
        let namespace = json!({"metadata": {"name": name}});
        let namespace = serde_json::from_value(namespace).unwrap();
        let params = PostParams::default();
        leaving
            .namespaces
            .create(&params, &namespace)
            .await
            .unwrap();
        for number in 0..services {
            let service =
                json!({"metadata": {"name": format!("s{number}")}, "spec": load_balancer(&[80])});
            let service = serde_json::from_value(service).unwrap();
            leaving.services.create(&params, &service).await.unwrap();
        }
        leaving
    }

    /// How many of its Services exist; `with_address`: only those with an address.
    pub(crate) async fn count(&self, with_address: bool) -> usize {
        let all = self.services.list(&ListParams::default()).await.unwrap();
        let has_address = |service: &Service| {
            let status = json!(service)["status"]["loadBalancer"]["ingress"].clone();
            status.as_array().is_some_and(|all| !all.is_empty())
        };
        all.iter()
            .filter(|one| !with_address || has_address(one))
            .count()
    }

    /// Deletes it and its Services: there is no namespace controller here.
    pub(crate) async fn leave(&self) {
        let params = DeleteParams::default();
        self.namespaces.delete(self.name, &params).await.unwrap();
        let all = self.services.list(&ListParams::default()).await.unwrap();
        for service in all {
            let name = service.metadata.name.unwrap();
            self.services.delete(&name, &params).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_load_balancers_with_it() {
    let world = World::start(Setup::default()).await;
    let services = size("CCM_CLUSTER_NAMESPACE", 60, 200);
    let leaving = Leaving::with(&world, "leaving", services).await;
    let values = world.configuration(json!(BTreeMap::from([PLACE])));
    let mut ccm = world.ccm(&values, &[]);
    until(&mut ccm, "an address for each", async || {
        (leaving.count(true).await == services).then_some(())
    })
    .await;
    assert_eq!(world.cloud.load_balancers().len(), services);
    let began = Instant::now();
    leaving.leave().await;
    until(&mut ccm, "the end of all", async || {
        (leaving.count(false).await == 0).then_some(())
    })
    .await;
    assert_eq!(world.cloud.load_balancers().len(), 0);
    #[allow(clippy::print_stdout, reason = "the figure belongs to the result")]
    {
        println!(
            "{services} load balancers of a deleted namespace went in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
}
