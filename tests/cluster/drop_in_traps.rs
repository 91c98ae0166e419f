//! Settings from the guides of hcloud's manager, with `ccm` in its place: its Deployment or DaemonSet with more
//! variables, under its name and with its flags alone, and only the image changed.

use ccm_sim::hetzner::LoadBalancerSpec;
use ccm_tests::log::severity;
use k8s_openapi::api::core::v1::{Event, Service};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::drop_in::{Deployment, apart_in, cluster, start};
use crate::go_managers::{CHART_OF_A_DAEMON_SET, HCLOUD, MANIFEST};
use crate::pod_network::Network;
use crate::services::Services;
use crate::world::until;

const MODULE: &str = "drop_in_traps";
const PREFIX: &str = "load-balancer.hetzner.cloud";
const OWNER: &str = "hcloud-ccm/service-uid";
const REFUSED: &str = "SyncLoadBalancerFailed";

/// These objects, in which the vendor's container has these variables.
fn with(mut objects: Vec<Value>, variables: &[(&str, Value)]) -> Vec<Value> {
    let container = objects
        .iter_mut()
        .find_map(|object| object.pointer_mut("/spec/template/spec/containers/0"))
        .unwrap();
    if container["command"].is_null() {
        container["command"] = json!([format!("/bin/{HCLOUD}")]);
    }
    let env = container["env"].as_array_mut().unwrap();
    for (name, value) in variables {
        env.retain(|variable| variable["name"] != *name);
        let mut variable = value.clone();
        variable["name"] = json!(name);
        env.push(variable);
    }
    objects
}

fn value(text: &str) -> Value {
    json!({"value": text})
}

/// Creates a Service of type LoadBalancer with these annotations of hcloud's.
async fn create(services: &Services<'_>, name: &str, annotations: &[(&str, &str)]) -> Service {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("{PREFIX}/{key}"), json!(value)))
        .collect();
    let service = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let service = serde_json::from_value(service).unwrap();
    let params = PostParams::default();
    services.api.create(&params, &service).await.unwrap()
}

impl Deployment {
    /// Waits for an Event about a Service with this reason, whose message contains these words.
    async fn wait_for_event(&mut self, service: &str, reason: &str, words: &str) {
        let admin = self.world.api.client_for("admin").await.unwrap();
        let events: Api<Event> = Api::default_namespaced(admin);
        let about = format!("involvedObject.kind=Service,involvedObject.name={service}");
        let params = ListParams::default().fields(&about);
        let what = format!("{reason} about {service}: {words}");
        until(&mut self.running.process, &what, async || {
            let mut events = events.list(&params).await.unwrap().items.into_iter();
            let is_it = |event: &Event| {
                event.reason.as_deref() == Some(reason)
                    && event.message.as_deref().unwrap_or_default().contains(words)
            };
            events.find(is_it).map(drop)
        })
        .await;
    }

    /// The load balancer with the label of this Service.
    fn balancer(&self, service: &Service) -> Value {
        let all = self.world.cloud.load_balancers();
        let mut its = all
            .into_iter()
            .filter(|one| one["labels"][OWNER] == json!(service.metadata.uid));
        let found = its.next().expect("the Service has a load balancer");
        assert_eq!(its.next(), None, "the Service has two");
        found
    }
}

#[test]
fn a_load_balancer_is_imported_by_its_name_unless_a_living_service_has_it() {
    const NAME: &str = "a_load_balancer_is_imported_by_its_name_unless_a_living_service_has_it";
    apart_in(MODULE, NAME, async {
        let objects = with(MANIFEST.objects(), &[]);
        let mut deployment = start(objects, cluster(Network::add).await).await;
        deployment.works(None).await;
        let cloud = &deployment.world.cloud;
        let by_hand = cloud.add_load_balancer(LoadBalancerSpec::named("made-by-hand"));
        let mut all = cloud.load_balancers().into_iter();
        // The load balancer of the Service that every deployment has.
        let made = all.find(|one| one["id"] != by_hand).unwrap();
        let made = made["name"].as_str().unwrap().to_owned();

        // No location is set: a load balancer that exists does not need one.
        let services = Services::of(&deployment.world).await;
        let import = create(&services, "import", &[("name", "made-by-hand")]).await;
        drop(services);
        deployment
            .wait_for_event("import", "LoadBalancerAdopted", "no owner")
            .await;
        deployment
            .wait_for_event("import", "EnsuredLoadBalancer", "")
            .await;
        let imported = deployment.balancer(&import);
        assert_eq!(imported["id"], by_hand);
        assert_eq!(imported["services"][0]["listen_port"], 80);
        assert_eq!(
            imported["targets"].as_array().unwrap().len(),
            2,
            "{imported}"
        );

        let before = deployment.world.cloud.load_balancers();
        for (thief, name) in [
            ("first-thief", "made-by-hand"),
            ("second-thief", made.as_str()),
        ] {
            let services = Services::of(&deployment.world).await;
            create(&services, thief, &[("name", name)]).await;
            drop(services);
            deployment
                .wait_for_event(thief, REFUSED, "another Service of this cluster")
                .await;
            let services = Services::of(&deployment.world).await;
            let theirs = services.api.get(thief).await.unwrap().status.unwrap();
            let ingress = theirs.load_balancer.and_then(|status| status.ingress);
            assert_eq!(ingress, None, "{thief}");
            services.delete(thief).await;
            services
                .is_gone(&mut deployment.running.process, thief)
                .await;
            assert_eq!(deployment.world.cloud.load_balancers(), before, "{thief}");
        }
        let (failures, log) = deployment.stop().await;
        assert!(!failures.is_empty(), "{log}");
        for line in failures {
            assert!(line.contains("-thief"), "{line}");
        }
        // A load balancer without owner is refused first, and then adopted: the pending state is no failure.
        let is_about_import = |line: &&str| {
            severity(line) == Some('I')
                && line.contains("service/default/import")
                && line.contains("the cloud operation is pending")
        };
        assert!(log.lines().any(|line| is_about_import(&line)), "{log}");
    });
}

/// Steps of `docs/guides/robot/lb-only-without-credentials.md` of version 1.35.0.
#[test]
fn robot_without_credentials_makes_targets_of_internal_addresses() {
    const NAME: &str = "robot_without_credentials_makes_targets_of_internal_addresses";
    const ADDRESS: &str = "10.2.0.7";
    apart_in(MODULE, NAME, async {
        let variables = [
            ("ROBOT_ENABLED", value("true")),
            ("HCLOUD_NETWORK", value("cluster")),
            ("HCLOUD_NETWORK_ROUTES_ENABLED", value("false")),
        ];
        let objects = with(MANIFEST.objects(), &variables);
        let mut deployment = start(objects, cluster(Network::add).await).await;
        deployment.works(None).await;
        let world = &deployment.world;
        let range = "10.2.0.0/24".parse().unwrap();
        // The only network.
        assert!(world.cloud.add_vswitch_subnet(1, range, 4321));
        let node = json!({
            "metadata": {"name": "bare-1"},
            "spec": {"providerID": "hrobot://321"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": ADDRESS}],
                "conditions": [{"type": "Ready", "status": "Unknown"}],
            },
        });
        let node = serde_json::from_value(node).unwrap();
        let params = PostParams::default();
        let node = world.nodes.create(&params, &node).await.unwrap();
        for (name, use_private_ip, expected) in [("private", "true", 3), ("public", "false", 2)] {
            let annotations = [("use-private-ip", use_private_ip), ("location", "fsn1")];
            let services = Services::of(&deployment.world).await;
            let service = create(&services, name, &annotations).await;
            drop(services);
            deployment
                .wait_for_event(name, "EnsuredLoadBalancer", "")
                .await;
            let balancer = deployment.balancer(&service);
            let targets = balancer["targets"].as_array().unwrap();
            assert_eq!(targets.len(), expected, "{balancer}");
            let mut addresses = targets.iter().filter_map(|one| one["ip"]["ip"].as_str());
            let bare = (name == "private").then_some(ADDRESS);
            assert_eq!(addresses.next(), bare, "{balancer}");
        }
        let words = "use-private-ip is not true: bare-1";
        deployment
            .wait_for_event("public", "ServerNotFound", words)
            .await;
        // The node controllers leave the node alone.
        let now = deployment.world.nodes.get("bare-1").await.unwrap();
        assert_eq!(
            now.metadata.resource_version,
            node.metadata.resource_version
        );
        let asked = deployment.asked();
        assert_eq!(asked.iter().find(|entry| entry.name == "bare-1"), None);
        let (failures, log) = deployment.stop().await;
        assert_eq!(failures, [""; 0], "{log}");
        let note = "ROBOT_ENABLED without ROBOT_USER and ROBOT_PASSWORD: ";
        assert_eq!(log.matches(note).count(), 1, "{log}");
    });
}

#[test]
fn of_a_token_and_a_token_file_the_token_counts_with_one_warning() {
    const NAME: &str = "of_a_token_and_a_token_file_the_token_counts_with_one_warning";
    apart_in(MODULE, NAME, async {
        let token = json!({"valueFrom": {"secretKeyRef": {"name": "hcloud", "key": "token"}}});
        let variables = [
            ("HCLOUD_TOKEN", token),
            // The file exists, and the cloud does not accept its text as a token.
            ("HCLOUD_TOKEN_FILE", value("/etc/hetzner/network")),
        ];
        let objects = with(CHART_OF_A_DAEMON_SET.objects(), &variables);
        let mut deployment = start(objects, cluster(Network::add).await).await;
        deployment.works(Some("10.244.0.0/16")).await;
        let requests = deployment.world.cloud.requests();
        assert!(requests.iter().all(|request| request.authorized));
        let (failures, log) = deployment.stop().await;
        let [warning] = failures.as_slice() else {
            panic!("one warning: {failures:#?}\n{log}");
        };
        let words = "HCLOUD_TOKEN and HCLOUD_TOKEN_FILE are both set: HCLOUD_TOKEN counts";
        assert!(warning.contains(words), "{warning}");
    });
}
