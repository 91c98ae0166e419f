//! The annotation `alpha.kubernetes.io/provided-node-ip`, in which a kubelet records its `--node-ip`.

use ccm_sim::hetzner::{Location, ServerSpec};
use ccm_tests::process::Process;
use serde_json::{Value, json};

use crate::kubelet::{addresses, is_tainted};
use crate::world::{Setup, World, until};

const ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";

/// A machine's addresses, as the cloud reports them.
struct Machine {
    name: String,
    private: String,
    public: String,
    public6: String,
}

/// Adds servers with all kinds of addresses.
fn machines(world: &World, count: usize) -> Vec<Machine> {
    let range = "10.1.0.0/16".parse().unwrap();
    let network = world
        .cloud
        .add_network("cluster", range, Location::default());
    let machine = |number: usize| {
        let name = format!("worker-{number}");
        let id = world.cloud.add_server(ServerSpec::named(&name));
        let private = world.cloud.attach(id, network, None).unwrap().to_string();
        let server = world.cloud.server(id).unwrap();
        let net = &server["public_net"];
        let range = net["ipv6"]["ip"].as_str().unwrap();
        Machine {
            name,
            private,
            public: net["ipv4"]["ip"].as_str().unwrap().to_owned(),
            public6: range.replace("::/64", "::1"),
        }
    };
    (1..=count).map(machine).collect()
}

fn configuration(world: &World) -> Value {
    world.configuration(json!({
        "HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack",
        "HCLOUD_NETWORK": "cluster",
        "HCLOUD_SERVER_CACHE_MAX_AGE": "0",
    }))
}

impl Machine {
    /// Addresses in this order: `n`ame, `p`rivate, public IPv`4`, public IPv`6`.
    fn addresses(&self, order: &str) -> Value {
        let one = |letter: char| match letter {
            'n' => json!({"type": "Hostname", "address": self.name}),
            'p' => json!({"type": "InternalIP", "address": self.private}),
            '4' => json!({"type": "ExternalIP", "address": self.public}),
            '6' => json!({"type": "ExternalIP", "address": self.public6}),
            other => panic!("no kind of address: {other}"),
        };
        order.chars().map(one).collect()
    }

    /// The annotation's value, from a text with `{private}`, `{public}` and `{public6}`.
    fn provided(&self, text: &str) -> String {
        text.replace("{private}", &self.private)
            .replace("{public}", &self.public)
            .replace("{public6}", &self.public6)
    }

    /// Another spelling of the public IPv6 address.
    fn spelled_out(&self) -> String {
        let ip: std::net::Ipv6Addr = self.public6.parse().unwrap();
        let groups = ip.segments().map(|group| format!("{group:04X}"));
        groups.join(":")
    }
}

/// Value of the annotation, and the resulting addresses: preferred ones first, others of their types left out.
const HONOURED: [(&str, &str); 11] = [
    ("{private}", "pn46"),
    ("{public}", "4np"),
    ("{public6}", "6np"),
    ("{spelled}", "6np"),
    ("::ffff:{private}", "pn46"),
    ("{private},{public6}", "p6n"),
    ("{public6},{private}", "6pn"),
    ("{public},{public6}", "46np"),
    ("{public6},{public}", "64np"),
    ("{spelled},{private}", "6pn"),
    ("010.001.000.{host}", "pn46"),
];

/// Values that no machine can satisfy.
const REFUSED: [&str; 12] = [
    "",
    "192.0.2.1",
    "2001:db8:ffff::1",
    "{private},192.0.2.1",
    "worker",
    "{private}/16",
    " {private}",
    "{private}, {public6}",
    "{private},{public}",
    "{private},",
    "{private},{public6},{public}",
    "0.0.0.0",
];

#[tokio::test]
async fn node_082_each_form_of_the_annotation_puts_its_addresses_first() {
    let world = World::start(Setup::default()).await;
    let machines = machines(&world, HONOURED.len());
    for (machine, (text, _)) in machines.iter().zip(HONOURED) {
        let host = machine.private.rsplit('.').next().unwrap();
        let provided = machine
            .provided(text)
            .replace("{spelled}", &machine.spelled_out())
            .replace("{host}", &format!("{host:0>3}"));
        let annotations = json!({"annotations": {ANNOTATION: provided}});
        world.add_node(&machine.name, annotations).await;
    }

    let mut ccm = world.ccm(&configuration(&world), &[]);
    for (machine, (text, order)) in machines.iter().zip(HONOURED) {
        let node = world.initialised(&mut ccm, &machine.name).await;
        assert_eq!(addresses(&node), machine.addresses(order), "{text:?}");
        assert_eq!(world.writes_to(&machine.name).len(), 2, "{text:?}");
    }
}

#[tokio::test]
async fn node_025_a_node_whose_annotation_cannot_be_satisfied_waits_for_a_better_one() {
    let world = World::start(Setup::default()).await;
    let machines = machines(&world, REFUSED.len());
    for (machine, text) in machines.iter().zip(REFUSED) {
        let annotations = json!({"annotations": {ANNOTATION: machine.provided(text)}});
        world.add_node(&machine.name, annotations).await;
    }

    let mut ccm = world.ccm(&configuration(&world), &[]);
    for (machine, text) in machines.iter().zip(REFUSED) {
        let name = &machine.name;
        let event = world.event(&mut ccm, name, "InvalidProvidedNodeIP").await;
        assert_eq!(event.type_.as_deref(), Some("Warning"), "{text:?}");
        assert!(is_tainted(&world.nodes.get(name).await.unwrap()));
        assert!(world.writes_to(name).is_empty(), "{text:?}");
    }

    for machine in &machines {
        provide(&world, machine, json!(machine.private)).await;
    }
    for (machine, text) in machines.iter().zip(REFUSED) {
        let node = world.initialised(&mut ccm, &machine.name).await;
        assert_eq!(addresses(&node), machine.addresses("pn46"), "{text:?}");
    }
}

/// Sets or (with `null`) removes the annotation.
async fn provide(world: &World, machine: &Machine, value: Value) {
    let annotations = json!({"metadata": {"annotations": {ANNOTATION: value}}});
    world.change(&machine.name, annotations).await;
}

async fn addresses_become(world: &World, ccm: &mut Process, machine: &Machine, order: &str) {
    let expected = machine.addresses(order);
    until(ccm, &format!("addresses {order}"), async || {
        let node = world.nodes.get(&machine.name).await.unwrap();
        (addresses(&node) == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_annotation_that_comes_changes_or_goes_later_is_followed_in_the_next_pass() {
    let world = World::start(Setup::default()).await;
    let machine = machines(&world, 1).remove(0);
    world.add_node(&machine.name, json!({})).await;
    let flags = ["--node-status-update-frequency=1s"];
    let mut ccm = world.ccm(&configuration(&world), &flags);
    let node = world.initialised(&mut ccm, &machine.name).await;
    assert_eq!(addresses(&node), machine.addresses("n46p"));

    provide(&world, &machine, json!(machine.private)).await;
    addresses_become(&world, &mut ccm, &machine, "pn46").await;
    provide(&world, &machine, json!(machine.public6)).await;
    addresses_become(&world, &mut ccm, &machine, "6np").await;
    // A value that cannot be satisfied is reported in an Event, and no address is removed.
    provide(&world, &machine, json!("192.0.2.1")).await;
    world
        .event(&mut ccm, &machine.name, "InvalidProvidedNodeIP")
        .await;
    let node = world.nodes.get(&machine.name).await.unwrap();
    assert_eq!(addresses(&node), machine.addresses("6np"));
    provide(&world, &machine, Value::Null).await;
    addresses_become(&world, &mut ccm, &machine, "n46p").await;

    world.stop(ccm).await;
    let writes = world.writes_to(&machine.name);
    assert_eq!(writes.len(), 2 + 3, "{writes:#?}");
}
