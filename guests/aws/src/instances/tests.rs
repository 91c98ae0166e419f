#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::{Answer, TestHost};
use ccm_guest::{AddressType, Instance};

use super::*;
use crate::fixtures::{
    INSTANCE, INSTANCES, NONE, THROTTLED, actions, forms, host, known, node, settings, xml,
};

const NAME: &str = "ip-192-168-1-88.eu-west-1.compute.internal";
const ID: &str = "aws:///eu-west-1c/i-1234567890abcdef0";

fn found(lookup: &Lookup) -> &Instance {
    match lookup {
        Lookup::Found(instance) => instance,
        other => panic!("{other:?}"),
    }
}

fn look_up(more: &[(&str, &str)], nodes: &[Node]) -> Vec<Lookup> {
    find(&settings(more), nodes).unwrap().lookups
}

#[test]
fn an_instance_is_told_as_the_go_provider_tells_it() {
    let host = host(|_, _| None);
    let lookups = look_up(
        &[],
        &[
            known(),
            node(NAME, None),
            node(INSTANCE, None),
            node(&format!("{INSTANCE}.ec2.internal"), None),
        ],
    );
    for lookup in &lookups {
        assert_eq!(lookup, &lookups[0]);
    }
    let instance = found(&lookups[0]);
    assert_eq!(
        (
            instance.provider_id.as_str(),
            instance.instance_type.as_deref(),
            instance.zone.as_deref(),
            instance.region.as_deref()
        ),
        (ID, Some("t2.micro"), Some("eu-west-1c"), Some("eu-west-1"))
    );
    assert_eq!(instance.shutdown, Some(false));
    let addresses: Vec<_> = instance
        .addresses
        .iter()
        .map(|one| (one.address_type, one.address.as_str()))
        .collect();
    let public = "ec2-54-194-252-215.eu-west-1.compute.amazonaws.com";
    let expected = [
        (AddressType::InternalIp, "192.168.1.88"),
        (AddressType::InternalIp, "192.168.1.89"),
        (AddressType::InternalIp, "192.168.2.10"),
        (AddressType::ExternalIp, "54.194.252.215"),
        (AddressType::InternalDns, NAME),
        (AddressType::Hostname, NAME),
        (AddressType::ExternalDns, public),
    ];
    assert_eq!(addresses, expected);
    assert_eq!(
        instance.labels,
        [(ZONE_ID.to_owned(), "euw1-az2".to_owned())]
    );
    // By ID, by name, and the zones: three requests for all nodes.
    assert_eq!(
        actions(&host),
        [
            "DescribeInstances",
            "DescribeInstances",
            "DescribeAvailabilityZones"
        ]
    );
}

#[test]
fn families_and_the_number_of_addresses_are_kept_to() {
    let _host = host(|_, _| None);
    let brief = |more: &[(&str, &str)]| -> Vec<String> {
        found(&look_up(more, &[known()])[0])
            .addresses
            .iter()
            .map(|one| one.address.clone())
            .collect()
    };
    assert_eq!(
        brief(&[("NodeIPFamilies", "ipv6")]),
        ["2001:db8:1234:1a2b::123"]
    );
    let both = brief(&[("NodeIPFamilies", "ipv6, ipv4")]);
    assert_eq!(
        (both.len(), both[0].as_str()),
        (8, "2001:db8:1234:1a2b::123")
    );
    drop(_host);

    // The fixture's interfaces have two more addresses.
    let with = |more: u8| {
        let item =
            |last| format!("<item><privateIpAddress>192.168.9.{last}</privateIpAddress></item>");
        let many: String = (0..more).map(item).collect();
        let own = "<item><privateIpAddress>192.168.1.89</privateIpAddress><primary>false</primary></item>";
        let body = INSTANCES.replacen(own, &many, 1);
        let _host = host(move |action, _| (action == "DescribeInstances").then(|| xml(200, &body)));
        brief(&[("NodeIPFamilies", "ipv6,ipv4")])
    };
    let private = |addresses: &[String]| {
        let all = addresses.iter();
        all.filter(|one| one.starts_with("192.168."))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(private(&with(30)).len(), 32);
    let addresses = with(31);
    let own = ["192.168.1.88", "192.168.2.10"];
    assert_eq!(private(&addresses), own, "each interface's own");
    assert!(with(30).len() <= 64, "the contract's limit");
}

/// The fixture lists its primary interface second.
#[test]
fn the_primary_interface_has_the_first_address_of_either_family() {
    let second =
        "<ipv6AddressesSet><item><ipv6Address>2001:db8::2</ipv6Address></item></ipv6AddressesSet>";
    let body = INSTANCES.replace("<ipv6AddressesSet/>", second);
    let _host = host(move |action, _| (action == "DescribeInstances").then(|| xml(200, &body)));
    let lookups = look_up(&[("NodeIPFamilies", "ipv6")], &[known()]);
    let addresses = found(&lookups[0]).addresses.iter();
    let addresses: Vec<_> = addresses.map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["2001:db8:1234:1a2b::123", "2001:db8::2"]);
}

fn with_state(state: &str) -> Answer {
    xml(
        200,
        INSTANCES.replace("<name>running</name>", &format!("<name>{state}</name>")),
    )
}

#[test]
fn only_what_is_proven_is_gone() {
    for (state, expected) in [
        ("stopped", Some(true)),
        ("stopping", Some(false)),
        ("shutting-down", Some(false)),
        ("terminated", None),
    ] {
        let _host =
            host(move |action, _| (action == "DescribeInstances").then(|| with_state(state)));
        let lookups = look_up(&[], &[known()]);
        match expected {
            Some(_) => assert_eq!(found(&lookups[0]).shutdown, expected, "{state}"),
            None => assert_eq!(lookups, [Lookup::Gone]),
        }
    }
    // Two answers without the instance, and no further request that could fail.
    let nothing = host(|action, _| (action == "DescribeInstances").then(|| xml(200, NONE)));
    assert_eq!(
        look_up(&[], &[known(), node("new", None)]),
        [Lookup::Gone, Lookup::NotMine]
    );
    assert_eq!(actions(&nothing), ["DescribeInstances"; 3]);
    drop(nothing);

    // Status 200 with any other body proves no absence.
    for body in [
        "<html/>",
        "<DescribeInstancesResponse/>",
        "<DescribeImagesResponse><imagesSet/></DescribeImagesResponse>",
    ] {
        let _host = host(move |_, _| Some(xml(200, body)));
        assert!(
            matches!(find(&settings(&[]), &[known()]), Err(Error::Unavailable(_))),
            "{body}"
        );
    }
    let _host = host(|_, _| Some(xml(503, THROTTLED)));
    assert!(matches!(
        find(&settings(&[]), &[known()]),
        Err(Error::Throttled(_))
    ));
}

#[test]
fn an_answer_that_lags_behind_is_asked_for_again() {
    let mut asked = 0;
    let _host = host(move |action, _| {
        (action == "DescribeInstances").then(|| {
            asked += 1;
            xml(200, if asked == 1 { NONE } else { INSTANCES })
        })
    });
    assert_eq!(found(&look_up(&[], &[known()])[0]).provider_id, ID);
}

#[test]
fn provider_ids_that_prove_nothing_ask_nothing() {
    let host = host(|_, _| None);
    let nodes = [
        node("elsewhere", Some("aws:///us-east-1a/i-1234567890abcdef0")),
        node(
            "fargate",
            Some("aws:///eu-west-1a/0123/fargate-ip-10-0-0-1.ec2.internal"),
        ),
        node("odd", Some("aws:///eu-west-1a/i-*")),
        node("other", Some("hcloud://1")),
    ];
    let lookups = look_up(&[], &nodes);
    for lookup in &lookups[..3] {
        assert!(matches!(lookup, Lookup::Unknown(_)), "{lookup:?}");
    }
    assert_eq!(lookups[3], Lookup::NotMine);
    assert_eq!(actions(&host), [""; 0]);
}

#[test]
fn of_several_instances_of_one_name_the_clusters_is_taken() {
    let other = INSTANCES
        .replace("i-1234567890abcdef0", "i-other")
        .replace("cluster/prod", "cluster/test");
    let reservations = |text: &str| {
        let (_, rest) = text.split_once("<reservationSet>").unwrap();
        rest.split_once("</reservationSet>").unwrap().0.to_owned()
    };
    let both = INSTANCES.replace(
        "</reservationSet>",
        &format!("{}</reservationSet>", reservations(&other)),
    );
    let twice = INSTANCES.replace(
        "</reservationSet>",
        &format!(
            "{}</reservationSet>",
            reservations(&INSTANCES.replace("i-1234567890abcdef0", "i-twin"))
        ),
    );
    for (body, expected) in [(both, Some(true)), (other, None), (twice, Some(false))] {
        let _host = host(move |action, _| (action == "DescribeInstances").then(|| xml(200, &body)));
        let reply = find(&settings(&[]), &[node(NAME, None)]).unwrap();
        match expected {
            Some(true) => assert_eq!(found(&reply.lookups[0]).provider_id, ID),
            Some(false) => {
                assert!(matches!(reply.lookups[0], Lookup::Unknown(_)));
                assert_eq!(reply.events[0].event.reason, "InstanceLookupFailed");
                assert!(reply.events[0].event.message.contains("i-twin"));
            }
            None => assert_eq!(reply.lookups, [Lookup::NotMine]),
        }
    }
}

/// Machines of other VPCs have the same names.
#[test]
fn an_instance_without_a_tag_is_found_by_its_name_only_in_the_clusters_vpc() {
    let untagged = INSTANCES.replace("kubernetes.io/cluster/prod", "owner");
    let _host = host(move |action, _| (action == "DescribeInstances").then(|| xml(200, &untagged)));
    let nodes = [node(NAME, None), known()];
    for lookup in look_up(&[("VPC", "vpc-1")], &nodes) {
        assert_eq!(found(&lookup).provider_id, ID);
    }
    let reply = find(&settings(&[]), &nodes).unwrap();
    let why = "has the tag kubernetes.io/cluster/prod: i-1234567890abcdef0";
    let is_told = |lookup: &Lookup| matches!(lookup, Lookup::Unknown(text) if text.contains(why));
    assert!(is_told(&reply.lookups[0]), "{reply:?}");
    assert_eq!(reply.events[0].event.reason, "InstanceLookupFailed");
    assert_eq!(found(&reply.lookups[1]).provider_id, ID);
}

/// The answer has two pages, and the instance is on the second one.
#[test]
fn network_nodes_are_labels() {
    const FIRST: &str = "<DescribeInstanceTopologyResponse><instanceSet/><nextToken>2</nextToken></DescribeInstanceTopologyResponse>";
    let _host = host(|action, form| match action {
        "DescribeInstances" => Some(xml(200, INSTANCES.replace("t2.micro", "p4d.24xlarge"))),
        "DescribeInstanceTopology" => (!form.contains_key("NextToken")).then(|| xml(200, FIRST)),
        _ => None,
    });
    let lookups = look_up(&[], &[known()]);
    let labels: Vec<_> = found(&lookups[0])
        .labels
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let layer = |number: u8| format!("{NETWORK_NODE}{number}");
    let (one, two, three) = (layer(1), layer(2), layer(3));
    let expected = [
        (ZONE_ID, "euw1-az2"),
        (one.as_str(), "nn-1"),
        (two.as_str(), "nn-2"),
        (three.as_str(), "nn-3"),
    ];
    assert_eq!(labels, expected);
    let gone = node("gone", Some("aws:///eu-west-1c/i-0000000000000000e"));
    let lookups = look_up(&[], &[gone, known()]);
    assert_eq!(lookups[0], Lookup::Gone);
    assert_eq!(
        found(&lookups[1]).labels.len(),
        4,
        "beside one that is gone"
    );
}

/// The manager writes these labels only while it initialises a node.
#[test]
fn a_new_node_waits_for_labels_that_cannot_be_read() {
    let ready = Node {
        initialized: true,
        ..known()
    };
    for (action, code, waits) in [
        ("DescribeAvailabilityZones", "RequestLimitExceeded", true),
        ("DescribeAvailabilityZones", "UnauthorizedOperation", true),
        ("DescribeInstanceTopology", "RequestLimitExceeded", true),
        ("DescribeInstanceTopology", "UnauthorizedOperation", false),
        ("DescribeInstanceTopology", "UnsupportedOperation", false),
    ] {
        let refusal = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>m</Message></Error></Errors></Response>"
        );
        let _host = host(move |asked, _| match asked {
            "DescribeInstances" => Some(xml(200, INSTANCES.replace("t2.micro", "p4d.24xlarge"))),
            _ => (asked == action).then(|| xml(400, &refusal)),
        });
        let lookups = look_up(&[], &[known(), ready.clone()]);
        match &lookups[0] {
            Lookup::Unknown(why) => assert!(waits && why.contains(code), "{action}: {why}"),
            new => assert!(!waits && found(new).labels.len() == 1, "{action}: {new:?}"),
        }
        assert_eq!(found(&lookups[1]).labels, [], "{action}");
        // No other node needs an answer, so the manager reports the error at once, and retries as it requires.
        let alone = find(&settings(&[]), &[known()]);
        let is_error = matches!(&alone, Err(Error::Denied(_) | Error::Throttled(_)));
        assert_eq!(is_error, waits, "{action}: {alone:?}");
    }
}

/// AWS, where every instance exists that is asked for, of this type.
fn existing(kind: &'static str) -> TestHost {
    host(move |action, form| {
        let item = |id: &String| {
            format!(
                "<item><instanceId>{id}</instanceId><instanceType>{kind}</instanceType><instanceState><name>running</name></instanceState></item>"
            )
        };
        let ids = form
            .iter()
            .filter(|(key, _)| key.starts_with("Filter.1.Value"))
            .map(|(_, id)| item(id));
        let items: String = ids.collect();
        let body = format!(
            "<DescribeInstancesResponse><reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet></DescribeInstancesResponse>"
        );
        (action == "DescribeInstances").then(|| xml(200, body))
    })
}

/// The calls of aws in the table of `guests/README.md`.
#[test]
fn what_has_requests_of_its_own_costs_what_the_readme_says() {
    let readme = include_str!("../../../README.md");
    let documented = |call: &str, gone: usize, sent: &[String], most: usize| {
        let row = format!("| aws | {call} | – | {gone} | {} | {most} |", sent.len());
        assert!(
            readme.contains(&row),
            "guests/README.md lacks\n{row}\n{sent:?}"
        );
    };
    let id = |number: usize| format!("aws:///eu-west-1c/i-{number:017x}");
    let nodes: Vec<Node> = (0..1000)
        .map(|number| node("n", Some(&id(number))))
        .collect();
    for (kind, topologies) in [("p4d.24xlarge", 10), ("t3.large", 0)] {
        let there = existing(kind);
        look_up(&[], &nodes);
        let sent = actions(&there);
        let of_topology = sent.iter().filter(|one| *one == "DescribeInstanceTopology");
        assert_eq!(of_topology.count(), topologies, "{kind}");
        if topologies > 0 {
            let call = "1000 new ones of the type `p`, `trn` or `hpc`";
            documented(call, 0, &sent, 1000_usize.div_ceil(150) + 2);
        }
    }
    let there = host(|_, _| None);
    let lookups = look_up(&[], &[node("gone", Some(&id(1))), node(NAME, None)]);
    assert_eq!(lookups[0], Lookup::Gone);
    found(&lookups[1]);
    let call = "2, one of them new and without provider ID";
    documented(call, 1, &actions(&there), 3);
}

/// N nodes cost at most as many requests as their pages, and two.
#[test]
fn many_nodes_cost_few_requests() {
    for count in [1, 150, 151, 1000, 5000] {
        let id = |number: usize| format!("i-{number:017x}");
        let nodes: Vec<Node> = (0..count)
            .map(|number| node("n", Some(&format!("aws:///eu-west-1c/{}", id(number)))))
            .collect();
        let pages = count.div_ceil(150);
        // No instance exists: the missing ones are asked for once more.
        let gone = host(|action, _| (action == "DescribeInstances").then(|| xml(200, NONE)));
        assert!(look_up(&[], &nodes).iter().all(|one| *one == Lookup::Gone));
        let sent = forms(&gone);
        assert_eq!(sent.len(), pages + 1);
        assert!(
            sent.iter().all(|form| form.len() <= 156),
            "no more values than one request may have"
        );
        drop(gone);
        // All instances exist and are new: the zones are asked for.
        let there = existing("t3.large");
        for lookup in look_up(&[], &nodes) {
            found(&lookup);
        }
        assert_eq!(actions(&there).len(), pages + 1);
    }
}
