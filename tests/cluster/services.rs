//! Services of type LoadBalancer on a real API server: the writes to them, the Events about them, and their load
//! balancers, from creation to deletion.

use std::collections::{BTreeMap, BTreeSet};

use ccm_sim::hetzner::ServerSpec;
use ccm_tests::process::Process;
use k8s_openapi::api::core::v1::{Event, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{Setup, World, until};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const OWNER: &str = "wasm-ccm.dev/provider";
const UID_LABEL: &str = "hcloud-ccm/service-uid";

/// Variable and value of the location of load balancers.
pub(crate) const PLACE: (&str, &str) = ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1");

/// The Services of a world.
pub(crate) struct Services<'a> {
    world: &'a World,
    pub(crate) api: Api<Service>,
    events: Api<Event>,
}

impl<'a> Services<'a> {
    pub(crate) async fn of(world: &'a World) -> Services<'a> {
        let admin = world.api.client_for("admin").await.unwrap();
        Services {
            world,
            api: Api::default_namespaced(admin.clone()),
            events: Api::default_namespaced(admin),
        }
    }

    /// Starts `ccm` with a location for load balancers.
    pub(crate) fn ccm(&self) -> Process {
        let values = BTreeMap::from([PLACE]);
        let values = self.world.configuration(json!(values));
        self.world.ccm(&values, &[])
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Service {
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let service = serde_json::from_value(service).unwrap();
        let params = PostParams::default();
        self.api.create(&params, &service).await.unwrap()
    }

    pub(crate) async fn change(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        self.api.patch(name, &params, &patch).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.api.delete(name, &params).await.unwrap();
    }

    async fn get(&self, name: &str) -> Option<Value> {
        let service = self.api.get_opt(name).await.unwrap()?;
        Some(json!(service))
    }

    /// Waits until the Service satisfies a condition.
    async fn until(&self, ccm: &mut Process, name: &str, what: &str, is_so: fn(&Value) -> bool) {
        until(ccm, &format!("{name}: {what}"), async || {
            self.get(name).await.filter(is_so).map(drop)
        })
        .await;
    }

    pub(crate) async fn has_address(&self, ccm: &mut Process, name: &str) {
        self.until(ccm, name, "an address", |service| {
            !addresses(service).is_empty()
        })
        .await;
    }

    /// Waits until the Service's status has this host name.
    pub(crate) async fn shows(&self, ccm: &mut Process, name: &str, hostname: &str) {
        until(ccm, &format!("{name} at {hostname}"), async || {
            let service = self.get(name).await?;
            let ingress = &service["status"]["loadBalancer"]["ingress"][0];
            (ingress["hostname"] == hostname).then_some(())
        })
        .await;
    }

    /// Waits until the Service does not exist.
    pub(crate) async fn is_gone(&self, ccm: &mut Process, name: &str) {
        until(ccm, &format!("the end of {name}"), async || {
            self.get(name).await.is_none().then_some(())
        })
        .await;
    }

    /// The one load balancer of a Service, if it has one.
    pub(crate) async fn balancer(&self, name: &str) -> Option<Value> {
        let service = self.get(name).await?;
        let all = self.world.cloud.load_balancers();
        let is_its = |one: &Value| one["labels"][UID_LABEL] == service["metadata"]["uid"];
        let mut its: Vec<Value> = all.into_iter().filter(is_its).collect();
        assert!(its.len() <= 1, "{name} has two: {its:?}");
        its.pop()
    }

    /// Waits until the load balancer of a Service satisfies a condition.
    async fn serves(
        &self,
        ccm: &mut Process,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        until(ccm, &format!("{name} with {what}"), async || {
            self.balancer(name).await.filter(|one| is_so(one))
        })
        .await
    }

    /// How often each reason occurs in the Events that `ccm` recorded about a Service.
    async fn event_reasons(&self, name: &str) -> BTreeMap<String, i32> {
        let about = format!("involvedObject.kind=Service,involvedObject.name={name}");
        let params = ListParams::default().fields(&about);
        let events = self.events.list(&params).await.unwrap();
        let mut reported = BTreeMap::new();
        for event in events {
            // The API server records Events about the repair of Services whose address it has not found allocated yet.
            let reporter = event.reporting_component.unwrap_or_default();
            if reporter.ends_with("allocator-repair-controller") {
                continue;
            }
            let source = event.source.unwrap_or_default().component;
            assert_eq!(source.as_deref(), Some("service-controller"));
            let reason = event.reason.unwrap_or_default();
            *reported.entry(reason).or_default() += event.count.unwrap_or(1);
        }
        reported
    }

    /// Waits for an Event about a Service with this reason.
    pub(crate) async fn event(&self, ccm: &mut Process, name: &str, reason: &str) {
        until(
            ccm,
            &format!("an Event {reason} about {name}"),
            async || {
                self.event_reasons(name)
                    .await
                    .contains_key(reason)
                    .then_some(())
            },
        )
        .await;
    }

    /// Waits until such an Event was counted more than once.
    async fn event_again(&self, ccm: &mut Process, name: &str, reason: &str) {
        until(ccm, &format!("{reason} about {name} again"), async || {
            let reported = self.event_reasons(name).await;
            reported.get(reason).filter(|times| **times > 1).map(drop)
        })
        .await;
    }
}

/// A Service with these ports.
pub(crate) fn load_balancer(ports: &[u16]) -> Value {
    json!({"type": "LoadBalancer", "ports": named(ports)})
}

fn named(ports: &[u16]) -> Value {
    let port = |port: &u16| json!({"name": format!("p{port}"), "port": port});
    ports.iter().map(port).collect()
}

fn addresses(service: &Value) -> Vec<&str> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let ingress = ingress.into_iter().flatten();
    ingress.filter_map(|one| one["ip"].as_str()).collect()
}

fn is_kept(service: &Value) -> bool {
    let finalizers = service["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.contains(&json!(FINALIZER)))
}

fn node_ports(service: &Value) -> BTreeSet<u64> {
    let ports = service["spec"]["ports"].as_array().unwrap().iter();
    ports.filter_map(|port| port["nodePort"].as_u64()).collect()
}

fn listens_on(balancer: &Value) -> BTreeSet<u64> {
    let services = balancer["services"].as_array().unwrap().iter();
    services
        .filter_map(|one| one["listen_port"].as_u64())
        .collect()
}

fn sends_to(balancer: &Value) -> BTreeSet<u64> {
    let services = balancer["services"].as_array().unwrap().iter();
    services
        .filter_map(|one| one["destination_port"].as_u64())
        .collect()
}

fn targets(balancer: &Value) -> BTreeSet<u64> {
    let targets = balancer["targets"].as_array().unwrap().iter();
    targets
        .filter_map(|one| one["server"]["id"].as_u64())
        .collect()
}

#[tokio::test]
async fn svc_103_a_load_balancer_is_made_and_changed_and_leaves_no_trace() {
    let world = World::start(Setup::default()).await;
    let machines = world.machines(3).await;
    let services = Services::of(&world).await;
    let mut ccm = services.ccm();
    services.create("web", load_balancer(&[80, 443])).await;
    services.has_address(&mut ccm, "web").await;

    let web = services.get("web").await.unwrap();
    assert!(is_kept(&web), "{web}");
    assert_eq!(web["metadata"]["annotations"][OWNER], "hcloud");
    let balancer = services.balancer("web").await.unwrap();
    let public = &balancer["public_net"];
    let shown = [&public["ipv4"]["ip"], &public["ipv6"]["ip"]];
    assert_eq!(json!(addresses(&web)), json!(shown));
    assert_eq!(listens_on(&balancer), BTreeSet::from([80, 443]));
    assert_eq!(sends_to(&balancer), node_ports(&web));
    let mut wanted: BTreeSet<u64> = machines.iter().map(|one| one.server).collect();
    assert_eq!(targets(&balancer), wanted);
    services
        .event(&mut ccm, "web", "EnsuringLoadBalancer")
        .await;
    services.event(&mut ccm, "web", "EnsuredLoadBalancer").await;

    // One port is removed, another one is added.
    let patch = json!({"spec": {"ports": named(&[80, 8443])}});
    services.change("web", patch).await;
    let ports = |balancer: &Value| listens_on(balancer) == BTreeSet::from([80, 8443]);
    services.serves(&mut ccm, "web", "other ports", ports).await;
    // Nodes change only after that: simultaneous changes would be made together.
    services
        .event_again(&mut ccm, "web", "EnsuredLoadBalancer")
        .await;
    let after = services.get("web").await.unwrap();
    assert_eq!(addresses(&after), addresses(&web), "the address stays");

    // One node joins, another one leaves.
    let server = world.cloud.add_server(ServerSpec::named("worker-4"));
    world.join("worker-4", server, "True").await;
    wanted.insert(server);
    let has_all = |balancer: &Value| targets(balancer) == wanted;
    services
        .serves(&mut ccm, "web", "a new node", has_all)
        .await;
    services.event(&mut ccm, "web", "UpdatedLoadBalancer").await;
    let params = DeleteParams::default();
    world.nodes.delete("worker-1", &params).await.unwrap();
    wanted.remove(&machines[0].server);
    let has_all = |balancer: &Value| targets(balancer) == wanted;
    services
        .serves(&mut ccm, "web", "one node less", has_all)
        .await;

    services.delete("web").await;
    services.is_gone(&mut ccm, "web").await;
    assert!(world.cloud.load_balancers().is_empty(), "gone before it");
    services.event(&mut ccm, "web", "DeletedLoadBalancer").await;
    let reported = services.event_reasons("web").await;
    assert!(
        reported.contains_key("DeletingLoadBalancer"),
        "{reported:?}"
    );
    assert!(
        !reported.contains_key("SyncLoadBalancerFailed"),
        "{reported:?}"
    );
    world.stop(ccm).await;

    let mut writes = world.asked();
    writes.retain(|one| {
        one.resource == "services" && !["get", "list", "watch"].contains(&one.verb.as_str())
    });
    for write in &writes {
        let how = (write.verb.as_str(), write.subresource.as_str(), write.code);
        assert_eq!(how, ("patch", "status", 200), "{write:?}");
    }
    // The writes: finalizer and owner, the address, and the end of both.
    assert_eq!(writes.len(), 3, "{writes:#?}");
}

#[tokio::test]
async fn svc_100_the_type_walks_to_load_balancer_and_back() {
    let world = World::start(Setup::default()).await;
    world.machines(2).await;
    let services = Services::of(&world).await;
    let mut ccm = services.ccm();
    let spec = json!({"type": "ClusterIP", "ports": named(&[80])});
    services.create("web", spec).await;
    // Another Service shows that the first was processed, and left alone.
    services.create("other", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "other").await;
    assert!(services.balancer("web").await.is_none());

    let to = async |kind: &str| {
        let patch = json!({"spec": {"type": kind}});
        services.change("web", patch).await;
        services.get("web").await.unwrap()
    };
    let node_port = node_ports(&to("NodePort").await);
    assert_eq!(node_port.len(), 1);
    assert!(!is_kept(&services.get("web").await.unwrap()));
    for _ in 0..2 {
        to("LoadBalancer").await;
        services.has_address(&mut ccm, "web").await;
        let web = services.get("web").await.unwrap();
        assert!(is_kept(&web), "{web}");
        let balancer = services.balancer("web").await.unwrap();
        assert_eq!(sends_to(&balancer), node_ports(&web));

        let patch = json!({"spec": {
            "type": "ClusterIP", "allocateLoadBalancerNodePorts": null, "externalTrafficPolicy": null,
            "ports": named(&[80]),
        }});
        services.change("web", patch).await;
        services
            .until(&mut ccm, "web", "no trace", |service| {
                !is_kept(service)
                    && addresses(service).is_empty()
                    && service["metadata"]["annotations"][OWNER].is_null()
            })
            .await;
        assert_eq!(world.cloud.load_balancers().len(), 1, "only the other's");
        let web = services.get("web").await.unwrap();
        assert!(node_ports(&web).is_empty(), "{web}");
    }
    world.stop(ccm).await;
}

#[tokio::test]
async fn svc_100_the_node_port_stays_when_the_type_changes() {
    let world = World::start(Setup::default()).await;
    world.machines(1).await;
    let services = Services::of(&world).await;
    let mut ccm = services.ccm();
    let spec = json!({"type": "NodePort", "ports": named(&[80])});
    services.create("web", spec).await;
    let before = node_ports(&services.get("web").await.unwrap());
    let patch = json!({"spec": {"type": "LoadBalancer"}});
    services.change("web", patch).await;
    services.has_address(&mut ccm, "web").await;
    let balancer = services.balancer("web").await.unwrap();
    assert_eq!(sends_to(&balancer), before);
    // The node port changes: the address stays.
    let web = services.get("web").await.unwrap();
    let mut ports = web["spec"]["ports"].clone();
    ports[0]["nodePort"] = json!(32_123);
    services
        .change("web", json!({"spec": {"ports": ports}}))
        .await;
    let is_moved = |balancer: &Value| sends_to(balancer) == BTreeSet::from([32_123]);
    let after = services.serves(&mut ccm, "web", "32123", is_moved).await;
    assert_eq!(after["id"], balancer["id"]);
    world.stop(ccm).await;
}

#[tokio::test]
async fn services_side_by_side_each_have_their_own_and_a_new_one_of_the_same_name_another() {
    let world = World::start(Setup::default()).await;
    world.machines(2).await;
    let services = Services::of(&world).await;
    let mut ccm = services.ccm();
    services.create("web", load_balancer(&[80])).await;
    services.create("mail", load_balancer(&[25, 465])).await;
    let mut other = load_balancer(&[80]);
    other["loadBalancerClass"] = json!("example.com/other");
    services.create("other", other).await;
    services.has_address(&mut ccm, "web").await;
    services.has_address(&mut ccm, "mail").await;
    let (web, mail) = (
        services.balancer("web").await.unwrap(),
        services.balancer("mail").await.unwrap(),
    );
    assert_eq!(world.cloud.load_balancers().len(), 2);

    services.delete("web").await;
    services.is_gone(&mut ccm, "web").await;
    services.create("web", load_balancer(&[80])).await;
    services.has_address(&mut ccm, "web").await;
    let again = services.balancer("web").await.unwrap();
    assert_ne!(again["id"], web["id"]);
    assert_eq!(services.balancer("mail").await.unwrap(), mail);

    // Another controller's Service is as it was created, also with the finalizer that both use.
    let theirs = services.get("other").await.unwrap();
    assert!(
        !is_kept(&theirs) && addresses(&theirs).is_empty(),
        "{theirs}"
    );
    let finalizers = json!({"metadata": {"finalizers": [FINALIZER]}});
    services.change("other", finalizers).await;
    services.delete("other").await;
    services.delete("mail").await;
    services.is_gone(&mut ccm, "mail").await;
    let theirs = services.get("other").await.unwrap();
    assert!(is_kept(&theirs), "it is not ours to take away: {theirs}");
    world.stop(ccm).await;
}
