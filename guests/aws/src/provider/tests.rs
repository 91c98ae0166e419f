#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ccm_guest::testing::config;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{NOT_FOUND, actions, host, known, service, settings, xml};

/// Actions that AWS requires in addition to those that are sent, and why.
const IMPLIED: &[&str] = &[
    // Tags in the requests that make load balancers, target groups and listeners.
    "elasticloadbalancing:AddTags",
    // Tags in the request that makes a security group.
    "ec2:CreateTags",
    // The first load balancer of an account.
    "iam:CreateServiceLinkedRole",
];
/// Actions that the Go provider sends (`ensureTargetGroupAttributes`) and its published policy lacks: without them AWS
/// refuses its annotation `target-group-attributes`.
const LACKING: &[&str] = &[
    "elasticloadbalancing:DescribeTargetGroupAttributes",
    "elasticloadbalancing:ModifyTargetGroupAttributes",
];

/// The actions that the manifest's rules allow, as an IAM policy names them.
fn requested() -> BTreeSet<String> {
    let manifest: Value = serde_json::from_str(include_str!("../../manifest.json")).unwrap();
    let mut all: BTreeSet<String> = IMPLIED.iter().map(|action| (*action).to_owned()).collect();
    for target in manifest["targets"].as_array().unwrap() {
        let service = match target["name"].as_str().unwrap() {
            "ec2" => "ec2",
            "elb" => "elasticloadbalancing",
            other => panic!("{other}"),
        };
        for rule in target["rules"].as_array().unwrap() {
            let sent = rule["form"]["Action"].as_array().unwrap();
            all.extend(
                sent.iter()
                    .map(|action| format!("{service}:{}", action.as_str().unwrap())),
            );
        }
    }
    all
}

#[test]
fn the_policy_is_what_the_manifest_requests() {
    let policy: Value = serde_json::from_str(include_str!("../../iam-policy.json")).unwrap();
    let (only_with_it, usual): (BTreeSet<String>, BTreeSet<String>) = requested()
        .into_iter()
        .partition(|action| LACKING.contains(&action.as_str()));
    let sid = "OnlyForTheAnnotationTargetGroupAttributes";
    let expected = json!({
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": usual, "Resource": "*"},
            {"Sid": sid, "Effect": "Allow", "Action": only_with_it, "Resource": "*"},
        ],
    });
    assert_eq!(policy, expected, "iam-policy.json has to be\n{expected:#}");
}

#[test]
fn it_needs_no_more_than_the_go_provider() {
    let published = include_str!("../../fixtures/go-provider-actions.txt");
    let published: BTreeSet<&str> = published
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(published.len() > 50);
    let all = requested();
    let more: Vec<&String> = all
        .iter()
        .filter(|action| !published.contains(action.as_str()))
        .collect();
    assert_eq!(more, LACKING);
}

#[test]
fn what_the_go_providers_policy_lacks_is_sent_only_with_the_annotation() {
    let with_it = ("target-group-attributes", "preserve_client_ip.enabled=true");
    for (annotations, expected) in [
        (&[][..], &[][..]),
        (&[("healthcheck-healthy-threshold", "5")], &[]),
        (&[with_it], LACKING),
    ] {
        let sent = sent_for(annotations);
        let lacking = LACKING.iter().filter(|action| {
            let (_, action) = action.split_once(':').unwrap();
            sent.contains(action)
        });
        let lacking: Vec<&str> = lacking.copied().collect();
        assert_eq!(lacking, expected, "{annotations:?}: {sent:?}");
        assert!(sent.contains("CreateLoadBalancer") && sent.contains("DeleteLoadBalancer"));
    }
}

/// The actions from the creation of a Service's load balancer to its deletion.
fn sent_for(annotations: &[(&str, &str)]) -> BTreeSet<String> {
    const ATTRIBUTES: &str = include_str!("../../fixtures/attributes.xml");
    let is_made = Rc::new(Cell::new(false));
    let made = is_made.clone();
    let host = host(move |action, _| match action {
        "DescribeLoadBalancers" if !made.get() => Some(xml(400, NOT_FOUND)),
        "DescribeTargetGroupAttributes" => {
            let body = ATTRIBUTES.replace("DescribeLoadBalancerA", "DescribeTargetGroupA");
            Some(xml(200, body))
        }
        _ => None,
    });
    let settings = settings(&[]);
    let web = service(annotations);
    let mut edited = web.clone();
    edited.ports[0].node_port = Some(30081);
    for service in [&web, &web, &edited] {
        let request = EnsureRequest::new(service.clone(), vec![known()]);
        ensure::ensure(&settings, &request).unwrap();
        is_made.set(true);
    }
    let request = UpdateRequest::new(edited.clone(), vec![known()]);
    ensure::update_targets(&settings, &request).unwrap();
    deletion::delete(&settings, &DeleteRequest::new(edited)).unwrap();
    actions(&host).into_iter().collect()
}

#[test]
fn every_action_is_either_read_or_write() {
    let manifest: Value = serde_json::from_str(include_str!("../../manifest.json")).unwrap();
    for target in manifest["targets"].as_array().unwrap() {
        for rule in target["rules"].as_array().unwrap() {
            for action in rule["form"]["Action"].as_array().unwrap() {
                let is_read = action.as_str().unwrap().starts_with("Describe");
                assert_eq!(
                    rule["access"],
                    if is_read { "read" } else { "write" },
                    "{action}"
                );
            }
        }
    }
}

#[test]
fn routes_need_the_clusters_ranges_and_the_check_a_region_that_is_there() {
    let mut given = config(&[("Region", "eu-west-1"), ("KubernetesClusterID", "prod")]);
    let all = [
        Capability::Instances,
        Capability::LoadBalancer,
        Capability::Routes,
    ];
    let enabled = |config: &Config| Aws::init(config).unwrap().enabled(&all);
    assert_eq!(enabled(&given), all[..2]);
    given.cluster_cidrs = vec!["10.244.0.0/16".to_owned()];
    assert_eq!(enabled(&given), all);

    let host = host(|_, _| None);
    Aws::init(&given).unwrap().check().unwrap();
    given
        .values
        .insert("Region".to_owned(), "us-east-1".to_owned());
    host.forget_state();
    let wrong = Aws::init(&given).unwrap().check();
    assert!(matches!(wrong, Err(Error::Invalid(why)) if why.contains("eu-west-1a")));
    assert_eq!(actions(&host), ["DescribeAvailabilityZones"; 2]);
}
