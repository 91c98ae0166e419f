//! For tests: a host that answers each action with its fixture, in the form that AWS documents.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use ccm_guest::Node;
use ccm_guest::load_balancer::Service;
use ccm_guest::testing::{self, Answer, TestHost};

use crate::config::Settings;
use crate::load_balancer::annotations::PREFIX;
use crate::load_balancer::classic::elb::VERSION;

/// The fields of a request's form.
pub(crate) type Form = BTreeMap<String, String>;

/// The ID of the instance in the fixtures.
pub(crate) const INSTANCE: &str = "i-1234567890abcdef0";
pub(crate) const NONE: &str =
    "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
pub(crate) const INSTANCES: &str = include_str!("../fixtures/instances.xml");
pub(crate) const NOT_FOUND: &str = include_str!("../fixtures/error-elb.xml");
/// The answer to `DescribeListeners` about a load balancer without any.
pub(crate) const NO_LISTENERS: &str = "<DescribeListenersResponse><DescribeListenersResult><Listeners/></DescribeListenersResult></DescribeListenersResponse>";
pub(crate) const THROTTLED: &str = include_str!("../fixtures/error-ec2.xml");

const READS: &[(&str, &str)] = &[
    (
        "DescribeAvailabilityZones",
        include_str!("../fixtures/zones.xml"),
    ),
    ("DescribeInstances", INSTANCES),
    (
        "DescribeInstanceTopology",
        include_str!("../fixtures/topology.xml"),
    ),
    (
        "DescribeListeners",
        include_str!("../fixtures/listeners.xml"),
    ),
    (
        "DescribeLoadBalancerAttributes",
        include_str!("../fixtures/attributes.xml"),
    ),
    (
        "DescribeLoadBalancers",
        include_str!("../fixtures/load-balancers.xml"),
    ),
    (
        "DescribeRouteTables",
        include_str!("../fixtures/route-tables.xml"),
    ),
    (
        "DescribeSecurityGroups",
        include_str!("../fixtures/security-groups.xml"),
    ),
    ("DescribeSubnets", include_str!("../fixtures/subnets.xml")),
    (
        "DescribeTargetGroups",
        include_str!("../fixtures/target-groups.xml"),
    ),
    (
        "DescribeTargetHealth",
        include_str!("../fixtures/target-health.xml"),
    ),
];

const NO_CLASSIC: &str = "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancerDescriptions/></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>";

pub(crate) fn xml(status: u16, body: impl AsRef<str>) -> Answer {
    let headers = vec![("content-type".to_owned(), "text/xml".to_owned())];
    Ok((status, headers, body.as_ref().as_bytes().to_vec()))
}

/// The fixture that answers an action; changes succeed, and return the fixture's objects.
pub(crate) fn usual(action: &str, form: &Form) -> Answer {
    let made = match action {
        "CreateLoadBalancer" => "DescribeLoadBalancers",
        "CreateTargetGroup" => "DescribeTargetGroups",
        "CreateListener" => "DescribeListeners",
        other => other,
    };
    let fixture = READS.iter().find(|(read, _)| *read == made);
    xml(
        200,
        fixture.map_or(format!("<{action}Response/>"), |(_, body)| {
            let body = body.replace(made, action);
            match form.get("Name") {
                // Each new target group has an ARN of its own.
                Some(name) => body.replace("arn:group-30080", &format!("arn:{name}")),
                None => body,
            }
        }),
    )
}

/// Whether a request is for the API of classic load balancers; the other one has actions of the same names.
pub(crate) fn is_of_classic(form: &Form) -> bool {
    form.get("Version")
        .is_some_and(|version| version == VERSION)
}

/// A host that answers with `script`, or with [`usual`] and no classic load balancer where it returns `None`.
pub(crate) fn host(mut script: impl FnMut(&str, &Form) -> Option<Answer> + 'static) -> TestHost {
    TestHost::new(include_str!("../manifest.json"), move |seen| {
        let form = form(&seen.body);
        let action = form.get("Action").cloned().unwrap_or_default();
        script(&action, &form).unwrap_or_else(|| match &*action {
            "DescribeLoadBalancers" if is_of_classic(&form) => xml(200, NO_CLASSIC),
            _ => usual(&action, &form),
        })
    })
}

pub(crate) fn form(body: &[u8]) -> Form {
    form_urlencoded::parse(body).into_owned().collect()
}

/// The forms of all requests that were sent.
pub(crate) fn forms(host: &TestHost) -> Vec<Form> {
    host.seen().iter().map(|seen| form(&seen.body)).collect()
}

/// The actions of all requests that were sent.
pub(crate) fn actions(host: &TestHost) -> Vec<String> {
    forms(host)
        .into_iter()
        .map(|mut form| form.remove("Action").unwrap_or_default())
        .collect()
}

/// The actions that change something, in the order in which they were sent.
pub(crate) fn changes(host: &TestHost) -> Vec<String> {
    actions(host)
        .into_iter()
        .filter(|action| !action.starts_with("Describe"))
        .collect()
}

pub(crate) fn settings(more: &[(&str, &str)]) -> Settings {
    let mut config = testing::config(&[("Region", "eu-west-1"), ("KubernetesClusterID", "prod")]);
    let more = more
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    config.values.extend(more);
    config.cluster_cidrs = vec!["10.244.0.0/16".to_owned(), "fd00:10:244::/48".to_owned()];
    Settings::read(&config).unwrap()
}

pub(crate) fn node(name: &str, provider_id: Option<&str>) -> Node {
    testing::node(name, provider_id)
}

/// The node of the fixtures' instance, with its provider ID.
pub(crate) fn known() -> Node {
    node("known", Some("aws:///eu-west-1c/i-1234567890abcdef0"))
}

/// The Service of the fixtures, with these annotations added.
pub(crate) fn service(more: &[(&str, &str)]) -> Service {
    let mut service = testing::service("web", &[(80, 30080), (443, 30443)]);
    let annotations = [
        ("ssl-cert", "arn:certificate"),
        ("ssl-ports", "443"),
        ("type", "nlb"),
    ];
    let annotations: BTreeMap<&str, &str> = annotations.iter().chain(more).copied().collect();
    let annotations = annotations.into_iter();
    service.annotations = annotations
        .map(|(name, value)| (format!("{PREFIX}{name}"), value.to_owned()))
        .collect();
    service
}
