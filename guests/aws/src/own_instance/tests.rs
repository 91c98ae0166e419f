#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::config;
use ccm_guest::{Config, Instances as _, Provider as _, SelfCheck as _};

use super::*;
use crate::fixtures::{INSTANCE, INSTANCES, NONE, THROTTLED, actions, forms, host, known, xml};
use crate::provider::Aws;

/// A configuration that names the instance of the fixtures, and has these keys, too.
fn given(more: &[(&str, &str)]) -> Config {
    let usual = [("Region", "eu-west-1"), ("InstanceID", INSTANCE)];
    config(&[&usual, more].concat())
}

/// The answer with the instance of the fixtures, which has these tags.
fn tagged(tags: &[(&str, &str)]) -> String {
    let item = |(key, value): &(&str, &str)| {
        format!("<item><key>{key}</key><value>{value}</value></item>")
    };
    let tags: String = tags.iter().map(item).collect();
    let usual = "<item><key>kubernetes.io/cluster/prod</key><value>owned</value></item>";
    assert!(INSTANCES.contains(usual));
    INSTANCES.replace(usual, &tags)
}

/// Reads the settings from an instance with these tags; each tag of the cluster's own objects, or the error.
fn read(tags: &[(&str, &str)]) -> Result<Vec<(String, String)>, Error> {
    let answer = tagged(tags);
    let _host =
        host(move |action, _| (action == "DescribeInstances").then(|| xml(200, answer.as_str())));
    let provider = Aws::init(&given(&[])).unwrap();
    let settings = provider.settings()?;
    Ok(settings.cluster.owned())
}

const NEW: (&str, &str) = ("kubernetes.io/cluster/prod", "owned");
const LEGACY: (&str, &str) = ("KubernetesCluster", "prod");

#[test]
fn the_tags_of_the_instance_name_the_cluster_by_the_go_providers_rules() {
    let owned = |tags: &[(&str, &str)]| -> Vec<(String, String)> {
        let tags = tags.iter();
        tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let shared = (NEW.0, "shared");
    for (tags, expected) in [
        (vec![NEW], vec![NEW]),
        (vec![("Name", "a"), shared], vec![NEW]),
        // New objects get the older tag where the instance has it.
        (vec![LEGACY], vec![NEW, LEGACY]),
        (vec![NEW, LEGACY], vec![NEW, LEGACY]),
        (vec![LEGACY, NEW], vec![NEW, LEGACY]),
        (vec![("KubernetesCluster", ""), NEW], vec![NEW]),
    ] {
        assert_eq!(read(&tags), Ok(owned(&expected)), "{tags:?}");
    }
}

#[test]
fn tags_that_do_not_name_one_cluster_are_an_error_that_says_what_to_set() {
    let test = ("kubernetes.io/cluster/test", "shared");
    for (tags, expected) in [
        (
            vec![],
            "i-1234567890abcdef0 has no tag kubernetes.io/cluster/ID",
        ),
        (vec![("kubernetes.io/cluster/", "owned")], "has no tag"),
        (vec![NEW, test], "name several clusters, prod, test: set it"),
        (
            vec![test, LEGACY],
            "name several clusters, prod, test: set it",
        ),
    ] {
        let Err(Error::Invalid(reported)) = read(&tags) else {
            panic!("{tags:?}")
        };
        assert!(
            reported.starts_with("KubernetesClusterID is not set"),
            "{reported}"
        );
        assert!(reported.contains(expected), "{reported}");
    }
}

#[test]
fn an_instance_that_cannot_be_read_is_read_again() {
    let mut answers = [xml(200, NONE), xml(503, THROTTLED), xml(200, INSTANCES)].into_iter();
    let host = host(move |_, _| answers.next());
    let provider = Aws::init(&given(&[])).unwrap();
    let missing = provider.settings();
    assert!(
        matches!(&missing, Err(Error::Unavailable(why)) if why.contains("KubernetesClusterID is not set")),
        "{missing:?}"
    );
    let throttled = provider.settings();
    assert!(
        matches!(throttled, Err(Error::Throttled(_))),
        "{throttled:?}"
    );
    assert_eq!(provider.settings().unwrap().cluster.id, "prod");
    assert_eq!(actions(&host), ["DescribeInstances"; 3]);
}

#[test]
fn the_tags_are_read_once_an_hour() {
    let host = host(|_, _| None);
    let find = || {
        let provider = Aws::init(&given(&[])).unwrap();
        provider.find(vec![known()]).unwrap();
    };
    find();
    let sent = forms(&host);
    assert_eq!(sent[0]["Filter.1.Name"], "instance-id");
    assert_eq!(sent[0]["Filter.1.Value.1"], INSTANCE);
    let after_the_first = sent.len();
    find();
    let after_the_second = forms(&host).len();
    let costs = after_the_second - after_the_first;
    assert_eq!(after_the_first, costs + 2, "the zones are kept, too");
    host.advance(AGE);
    find();
    assert_eq!(forms(&host).len(), after_the_second + after_the_first);
}

#[test]
fn a_configured_cluster_counts_and_costs_no_request() {
    for key in ["KubernetesClusterID", "KubernetesClusterTag"] {
        let host = host(|_, _| None);
        let provider = Aws::init(&given(&[(key, "other")])).unwrap();
        assert_eq!(provider.settings().unwrap().cluster.id, "other");
        assert_eq!(actions(&host), [""; 0], "{key}");
    }
    let wrong = Aws::init(&config(&[("Region", "r"), ("InstanceID", "i-*")]));
    assert!(
        matches!(&wrong, Err(Error::Invalid(why)) if why.starts_with("InstanceID: ")),
        "{wrong:?}"
    );
}

#[test]
fn the_self_check_finds_a_missing_tag() {
    let answer = tagged(&[]);
    let _host =
        host(move |action, _| (action == "DescribeInstances").then(|| xml(200, answer.as_str())));
    let provider = Aws::init(&given(&[])).unwrap();
    let reported = provider.check();
    assert!(
        matches!(&reported, Err(Error::Invalid(why)) if why.contains("has no tag")),
        "{reported:?}"
    );
}
