//! Networks and their routes, before the vendor's own client.

use ccm_sim::hetzner::Hetzner;
use serde_json::{Value, json};

use super::{answers, drive};
use crate::python::Client;

fn route(destination: &str, gateway: &str) -> Value {
    json!({"class": "NetworkRoute", "destination": destination, "gateway": gateway})
}

fn subnet(kind: &str, range: &str, vswitch: Option<u64>) -> Value {
    json!({
        "class": "NetworkSubnet", "type": kind, "ip_range": range, "network_zone": "eu-central", "vswitch_id": vswitch,
    })
}

pub(super) fn check(client: &Client, cloud: &Hetzner) {
    let network = json!({"of": 0});
    let change = |method: &str, one: Value| json!([format!("networks.{method}"), {"network": network, "route": one}]);
    let wait = |call: usize| json!(["wait", {"action": {"of": call}}]);
    let calls = json!([
        ["networks.create", {
            "name": "routed", "ip_range": "10.128.0.0/9",
            "subnets": [subnet("cloud", "10.128.0.0/24", None), subnet("vswitch", "10.128.9.0/24", Some(1000))],
            "routes": [route("10.244.1.0/24", "10.128.0.2")], "expose_routes_to_vswitch": true,
        }],
        change("add_route", route("10.244.2.0/24", "10.128.0.3")),
        wait(1),
        change("add_route", route("10.244.2.128/25", "10.128.0.4")),
        change("add_route", route("10.244.3.0/24", "10.128.9.7")),
        change("add_route", route("10.244.3.0/24", "10.128.0.1")),
        change("delete_route", route("10.244.2.0/24", "10.128.0.4")),
        change("delete_route", route("10.244.1.0/24", "10.128.0.2")),
        wait(7),
        ["networks.update", {"network": network, "name": "renamed", "labels": {"a": "b"}}],
        ["networks.get_by_name", {"name": "renamed"}],
        ["networks.get_actions", {"network": {"of": 10}}],
    ]);
    let reported = drive(client, cloud, calls);
    let codes: Vec<_> = reported.iter().map(|one| one["refused"].as_str()).collect();
    let invalid = Some("invalid_input");
    let mut expected = vec![None; codes.len()];
    expected[3..6].fill(invalid);
    expected[6] = Some("not_found");
    assert_eq!(codes, expected, "{reported:#?}");
    let made = answers(&reported[..1])[0];
    assert_eq!(
        made["routes"],
        json!([{"destination": "10.244.1.0/24", "gateway": "10.128.0.2"}])
    );
    assert_eq!(
        (
            &made["subnets"][1]["type"],
            &made["subnets"][1]["vswitch_id"]
        ),
        (&json!("vswitch"), &json!(1000))
    );
    assert_eq!(reported[1]["answer"]["command"], "add_route");
    assert_eq!(reported[8]["answer"]["status"], "success");
    let found = &reported[10]["answer"];
    assert_eq!(
        found["routes"],
        json!([{"destination": "10.244.2.0/24", "gateway": "10.128.0.3"}])
    );
    assert_eq!(
        (&found["expose_routes_to_vswitch"], &found["labels"]),
        (&json!(true), &json!({"a": "b"}))
    );
    let commands: Vec<_> = reported[11]["answer"].as_array().unwrap().iter().collect();
    let commands: Vec<_> = commands.iter().map(|one| one["command"].as_str()).collect();
    assert_eq!(commands, [Some("add_route"), Some("delete_route")]);
}
