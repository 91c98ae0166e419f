//! Forbidden requests of tenants, and faults of the cloud during them: each is reported in an Event on its Service, and
//! no other load balancer is touched.

use std::collections::BTreeSet;
use std::time::Duration;

use ccm_sim::hetzner::{Fault, Trouble};
use ccm_tests::harness::trial;
use http::Method;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use crate::load_balancers::inventory::{
    EXCLUDE, FINALIZER, OWNER, PREFIX, PROVIDER, findings, ingress, owner,
};
use crate::load_balancers::world::{Running, Setup, World, in_world, load_balancer, tcp};

/// The reason of the Event about a failed reconciliation.
const FAILED: &str = "SyncLoadBalancerFailed";
/// Interval of drift checks on the decisions' clock: so long that each correction here follows from a change.
const NEVER: Duration = Duration::from_secs(30 * 24 * 3600);
/// A Service without mistakes.
const NEIGHBOUR: &str = "neighbour";

type Play = for<'a> fn(&'a Fixture<'a>) -> Playing<'a>;
type Playing<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), Failed>> + 'a>>;

/// A world with a Service whose load balancer must stay as it is.
struct Fixture<'a> {
    world: &'a World,
    neighbour: Value,
}

macro_rules! plays {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), (|fixture| Box::pin($name(fixture))) as Play)),*]
    };
}

pub(crate) fn trials() -> Vec<Trial> {
    let in_public = plays![
        values_that_cannot_be_read_are_named_in_an_event,
        values_that_the_cloud_does_not_know_are_named_in_an_event,
        a_udp_port_is_left_out_with_an_event,
        more_ports_than_the_type_has_are_refused_with_an_event,
        a_storm_of_429_is_waited_out_and_said,
        an_answer_that_is_lost_after_the_order_makes_no_second_one,
        a_load_balancer_deleted_behind_our_back_is_made_again,
        a_type_changed_in_the_middle_of_a_create_leaves_nothing,
        a_service_renamed_in_the_middle_of_a_create_leaves_one,
        the_name_of_anothers_load_balancer_is_a_conflict,
        a_rename_to_anothers_name_keeps_both,
        the_id_of_anothers_load_balancer_means_nothing,
        anothers_managed_certificate_is_not_taken,
        a_certificate_that_nobody_has_is_named_in_an_event,
    ];
    let in_network = plays![a_deleted_network_is_named_in_an_event];
    let made = |(name, play): (&str, Play), has_network| {
        let name = format!("input::{name}");
        trial(name, move || {
            let setup = Setup {
                pace: 60,
                has_network,
                drift_check: NEVER,
                ..Setup::default()
            };
            in_world(setup, async |world| beside_a_neighbour(world, play).await)
        })
    };
    let in_public = in_public.into_iter().map(|play| made(play, false));
    let in_network = in_network.into_iter().map(|play| made(play, true));
    let without_nodes = "input::without_eligible_nodes_there_is_an_event_and_no_target";
    let without_nodes = trial(without_nodes, || in_world(Setup::default(), nodeless));
    in_public.chain(in_network).chain([without_nodes]).collect()
}

async fn nodeless(world: &World) -> Result<(), Failed> {
    let manager = world.manage().await?;
    world.create("web", &[80], json!({})).await;
    let reason = "UnAvailableLoadBalancer";
    world
        .event("web", reason, "There are no available nodes")
        .await?;
    let is_so = async || findings(world, &BTreeSet::new()).await.is_empty();
    world
        .until("a load balancer without targets", is_so)
        .await?;
    assert_eq!(world.cloud.load_balancers()[0]["targets"], json!([]));
    world.join("worker-1").await;
    world.until("a load balancer with a target", is_so).await?;
    manager.stop().await
}

async fn beside_a_neighbour(world: &World, play: Play) -> Result<(), Failed> {
    for name in ["worker-1", "worker-2"] {
        world.join(name).await;
    }
    let manager: Running = world.manage().await?;
    world.create(NEIGHBOUR, &[80, 443], json!({})).await;
    let is_so = async || findings(world, &BTreeSet::new()).await.is_empty();
    world.until("the neighbour's load balancer", is_so).await?;
    let fixture = Fixture {
        world,
        neighbour: world.cloud.load_balancers().remove(0),
    };
    play(&fixture).await?;
    if fixture.lasting(&fixture.neighbour_now()) != fixture.lasting(&fixture.neighbour) {
        return Err(world.failed("the neighbour was harmed").await);
    }
    manager.stop().await
}

fn key(name: &str) -> String {
    format!("{PREFIX}/{name}")
}

impl Fixture<'_> {
    fn neighbour_now(&self) -> Value {
        let id = self.neighbour["id"].as_u64().unwrap();
        self.world.cloud.load_balancer(id).unwrap_or_default()
    }

    /// The parts of the neighbour's load balancer that must not change. The cloud itself removes it from a deleted
    /// network.
    fn lasting(&self, balancer: &Value) -> Value {
        let mut lasting = balancer.clone();
        if self.world.network.is_some() {
            lasting["private_net"] = Value::Null;
        }
        lasting
    }

    /// The load balancers that a Service owns.
    async fn owned(&self, name: &str) -> Vec<Value> {
        let service = self.world.service(name).await;
        let uid = service["metadata"]["uid"].as_str().unwrap().to_owned();
        let mut all = self.world.cloud.load_balancers();
        all.retain(|one| owner(one) == Some(&uid));
        all
    }

    /// Waits until all load balancers are as the Services want them.
    async fn settled(&self) -> Result<(), Failed> {
        let is_so = async || findings(self.world, &BTreeSet::new()).await.is_empty();
        self.world.until("a cloud as it is wanted", is_so).await
    }

    async fn annotate(&self, name: &str, annotations: Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.world.change(name, patch).await;
    }
}

async fn values_that_cannot_be_read_are_named_in_an_event(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    for (number, (name, value)) in [
        ("algorithm-type", "fastest"),
        ("protocol", "sctp"),
        ("use-private-ip", "perhaps"),
        ("uses-proxyprotocol", "yes please"),
        ("health-check-interval", "soon"),
        ("health-check-retries", "many"),
        ("health-check-port", "99999"),
        ("health-check-protocol", "gopher"),
        ("node-selector", "pool in ("),
    ]
    .into_iter()
    .enumerate()
    {
        let service = format!("bad-{number}");
        let annotations = json!({key(name): value});
        fixture.world.create(&service, &[80], annotations).await;
        fixture.world.event(&service, FAILED, name).await?;
        let owned = fixture.owned(&service).await;
        assert!(owned.is_empty(), "{name}={value} was made: {owned:?}");
        // After the correction it is created.
        fixture.annotate(&service, json!({key(name): null})).await;
        fixture.settled().await?;
    }
    Ok(())
}

async fn values_that_the_cloud_does_not_know_are_named_in_an_event(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    for (name, value) in [("type", "lb99"), ("location", "moon1")] {
        fixture
            .world
            .create(value, &[80], json!({key(name): value}))
            .await;
        fixture.world.event(value, FAILED, name).await?;
        assert!(fixture.owned(value).await.is_empty());
        fixture.annotate(value, json!({key(name): null})).await;
        fixture.settled().await?;
    }
    Ok(())
}

async fn a_udp_port_is_left_out_with_an_event(fixture: &Fixture<'_>) -> Result<(), Failed> {
    let mut service = load_balancer("dns", &[53], json!({}));
    let udp = json!({"name": "udp", "port": 53, "protocol": "UDP"});
    service["spec"]["ports"] = json!([tcp(53), udp]);
    fixture.world.try_create(&service).await.unwrap();
    fixture
        .world
        .event("dns", "UnsupportedProtocolConfigured", "")
        .await?;
    fixture.settled().await
}

async fn more_ports_than_the_type_has_are_refused_with_an_event(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    let ports = [80, 81, 82, 83, 84, 85];
    fixture.world.create("wide", &ports, json!({})).await;
    fixture.world.event("wide", FAILED, "").await?;
    fixture.annotate("wide", json!({key("type"): "lb21"})).await;
    fixture.settled().await
}

async fn a_storm_of_429_is_waited_out_and_said(fixture: &Fixture<'_>) -> Result<(), Failed> {
    const STORM: u32 = 3;
    let refusal = Trouble::TooManyRequests {
        retry_after: Some("1".to_owned()),
    };
    fixture.world.cloud.clear_requests();
    fixture.world.cloud.inject(Fault::new(refusal).times(STORM));
    fixture.world.create("web", &[80], json!({})).await;
    fixture.world.event("web", FAILED, "").await?;
    fixture.settled().await?;
    let requests = fixture.world.cloud.requests();
    let refused = requests.iter().filter(|one| one.status == Some(429));
    let refused = refused.count();
    assert_eq!(refused, usize::try_from(STORM)?, "each is met once");
    assert!(requests.len() - refused <= 4, "{requests:#?}");
    Ok(())
}

async fn an_answer_that_is_lost_after_the_order_makes_no_second_one(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    let order = |trouble| {
        Fault::new(trouble)
            .method(Method::POST)
            .path("/load_balancers")
            .times(1)
    };
    for (name, trouble) in [
        ("reset", Trouble::ResetAfter),
        ("cut", Trouble::Cut),
        ("truncated", Trouble::Truncated),
    ] {
        fixture.world.cloud.inject(order(trouble));
        fixture.world.create(name, &[80], json!({})).await;
        fixture.world.event(name, FAILED, "").await?;
        fixture.settled().await?;
        assert_eq!(fixture.owned(name).await.len(), 1, "{name}");
    }
    let requests = fixture.world.cloud.requests();
    let orders = requests
        .iter()
        .filter(|one| one.method == Method::POST && one.path == "/load_balancers");
    assert_eq!(orders.count(), 1 + 3, "one order for each Service");
    Ok(())
}

async fn a_load_balancer_deleted_behind_our_back_is_made_again(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    fixture.world.create("web", &[80], json!({})).await;
    fixture.settled().await?;
    let before = fixture.owned("web").await.remove(0);
    let id = before["id"].as_u64().unwrap();
    assert!(fixture.world.cloud.remove_load_balancer(id));
    fixture
        .annotate("web", json!({"example.com/note": "look"}))
        .await;
    fixture.settled().await?;
    let after = fixture.owned("web").await.remove(0);
    assert_ne!(after["id"], before["id"]);
    // Also when only the nodes change, and the load balancer was not looked up before.
    let id = after["id"].as_u64().unwrap();
    assert!(fixture.world.cloud.remove_load_balancer(id));
    fixture.world.join("worker-3").await;
    fixture.settled().await?;
    // The neighbour is to have the same targets as before. Before the pass about the new node this would cancel it: a
    // node that comes and goes within a pass changes no load balancer.
    let out = json!({"metadata": {"labels": {EXCLUDE: "true"}}});
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(out);
    fixture
        .world
        .nodes
        .patch("worker-3", &params, &patch)
        .await?;
    fixture.settled().await?;
    assert_eq!(fixture.owned("web").await.len(), 1);
    Ok(())
}

/// Waits until the creation of a load balancer has begun and not ended.
async fn ordered(fixture: &Fixture<'_>, name: &str) -> Result<(), Failed> {
    fixture
        .world
        .cloud
        .set_action_duration(Duration::from_millis(400));
    fixture.world.create(name, &[80], json!({})).await;
    let is_ordered = async || fixture.world.cloud.load_balancers().len() == 2;
    fixture.world.until("an order", is_ordered).await
}

async fn a_type_changed_in_the_middle_of_a_create_leaves_nothing(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    ordered(fixture, "web").await?;
    let patch = json!({"spec": {"type": "ClusterIP"}});
    fixture.world.change("web", patch).await;
    fixture.settled().await?;
    let service = fixture.world.service("web").await;
    assert_eq!(fixture.world.cloud.load_balancers().len(), 1);
    assert!(ingress(&service).is_null());
    let text = service["metadata"].to_string();
    assert!(!text.contains(FINALIZER), "{text}");
    assert!(!text.contains(PROVIDER), "{text}");
    Ok(())
}

async fn a_service_renamed_in_the_middle_of_a_create_leaves_one(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    ordered(fixture, "web").await?;
    fixture.world.delete("web").await;
    fixture.world.create("shop", &[80], json!({})).await;
    fixture.settled().await?;
    let is_gone = async || fixture.world.service("web").await.is_null();
    fixture
        .world
        .until("the end of the old one", is_gone)
        .await?;
    assert_eq!(fixture.world.cloud.load_balancers().len(), 2);
    assert_eq!(fixture.owned("shop").await.len(), 1);
    Ok(())
}

async fn the_name_of_anothers_load_balancer_is_a_conflict(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    let name = json!({key("name"): fixture.neighbour["name"]});
    fixture.world.create("thief", &[8080], name).await;
    fixture.world.event("thief", FAILED, "").await?;
    assert!(fixture.owned("thief").await.is_empty());
    let shown = fixture.world.service("thief").await;
    assert!(ingress(&shown).is_null());
    // Its deletion does not delete what it never owned.
    fixture.world.delete("thief").await;
    let is_gone = async || fixture.world.service("thief").await.is_null();
    fixture.world.until("the end of the thief", is_gone).await
}

async fn a_rename_to_anothers_name_keeps_both(fixture: &Fixture<'_>) -> Result<(), Failed> {
    fixture.world.create("thief", &[8080], json!({})).await;
    fixture.settled().await?;
    let before = fixture.owned("thief").await;
    let name = json!({key("name"): fixture.neighbour["name"]});
    fixture.annotate("thief", name).await;
    fixture.world.event("thief", FAILED, "").await?;
    assert_eq!(fixture.owned("thief").await, before);
    Ok(())
}

async fn the_id_of_anothers_load_balancer_means_nothing(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    let id = fixture.neighbour["id"].to_string();
    let labels = fixture.neighbour["labels"][OWNER].clone();
    let annotations = json!({key("id"): id, OWNER: labels, key("ipv4"): "203.0.113.1"});
    fixture.world.create("thief", &[8080], annotations).await;
    fixture.settled().await?;
    let owned = fixture.owned("thief").await;
    assert_ne!(owned[0]["id"], fixture.neighbour["id"]);
    fixture.world.delete("thief").await;
    let is_gone = async || fixture.world.cloud.load_balancers().len() == 1;
    fixture.world.until("the end of its own one", is_gone).await
}

fn managed(name: &str, domain: &str) -> Value {
    json!({
        key("protocol"): "https",
        key("certificate-type"): "managed",
        key("http-managed-certificate-name"): name,
        key("http-managed-certificate-domains"): domain,
    })
}

async fn anothers_managed_certificate_is_not_taken(fixture: &Fixture<'_>) -> Result<(), Failed> {
    let shop = managed("shop-cert", "shop.example.com");
    fixture.world.create("shop", &[443], shop).await;
    fixture.settled().await?;
    let before = fixture.owned("shop").await;
    let certificates = before[0]["services"][0]["http"]["certificates"].clone();
    assert_eq!(certificates.as_array().map(Vec::len), Some(1));
    let thief = managed("shop-cert", "thief.example.com");
    fixture.world.create("thief", &[443], thief).await;
    fixture.world.event("thief", FAILED, "certificate").await?;
    for one in fixture.owned("thief").await {
        let taken = &one["services"][0]["http"]["certificates"];
        assert_ne!(*taken, certificates);
    }
    fixture.world.delete("thief").await;
    let is_gone = async || fixture.world.service("thief").await.is_null();
    fixture.world.until("the end of the thief", is_gone).await?;
    assert_eq!(fixture.owned("shop").await, before);
    Ok(())
}

async fn a_certificate_that_nobody_has_is_named_in_an_event(
    fixture: &Fixture<'_>,
) -> Result<(), Failed> {
    let annotations = json!({
        key("protocol"): "https",
        key("http-certificates"): "no-such-certificate",
    });
    fixture.world.create("web", &[443], annotations).await;
    fixture
        .world
        .event("web", FAILED, "no-such-certificate")
        .await?;
    assert!(fixture.owned("web").await.is_empty());
    Ok(())
}

async fn a_deleted_network_is_named_in_an_event(fixture: &Fixture<'_>) -> Result<(), Failed> {
    let network = fixture.world.network.unwrap();
    assert!(fixture.world.cloud.remove_network(network));
    let left = fixture.neighbour_now();
    fixture.world.create("web", &[80], json!({})).await;
    fixture.world.event("web", FAILED, "network").await?;
    assert_eq!(fixture.neighbour_now(), left);
    fixture.world.delete("web").await;
    let is_gone = async || fixture.world.service("web").await.is_null();
    fixture
        .world
        .until("the end of the Service", is_gone)
        .await?;
    assert_eq!(fixture.world.cloud.load_balancers(), [left]);
    Ok(())
}
