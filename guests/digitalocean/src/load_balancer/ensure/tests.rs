//! The load balancer that a Service gets, and the changes when the Service changes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use ccm_guest::load_balancer::{Ensured, Found};
use ccm_guest::testing::{TestHost, json};
use ccm_guest::{Error, LoadBalancerStatus};
use serde_json::{Value, json as value};

use super::*;
use crate::load_balancer::deletion;
use crate::load_balancer::fixtures::{Account, settings, web, worker};

mod changes;
mod costs;
mod owners;

const FIXTURE: &str = "4de7ac8b-495b-4884-9a69-1050c6793cd6";
const LIST: &str = "GET /v2/load_balancers?per_page=200&page=1";

/// Calls `ensure` and drops the events beside an error, which have a test of their own.
fn ensure(settings: &Settings, request: &EnsureRequest) -> Result<EnsureReply, Error> {
    super::ensure(settings, request).map_err(|failure| failure.error)
}

fn request(service: Service) -> EnsureRequest {
    EnsureRequest::new(service, vec![worker(1), worker(2)])
}

fn owned(id: &str, annotations: &[(&str, &str)]) -> Service {
    let mut all = vec![(ID, id)];
    all.extend(annotations);
    web(&all)
}

fn status(reply: &EnsureReply) -> Option<&LoadBalancerStatus> {
    match &reply.ensured {
        Ensured::Ready(status) => Some(status),
        Ensured::Pending(_) => None,
    }
}

/// The requests that change something.
fn writes(host: &TestHost) -> Vec<String> {
    let mut writes = host.requests();
    writes.retain(|line| !line.starts_with("GET"));
    writes
}

/// Creates the load balancer of `web` and returns its id.
fn made() -> (TestHost, std::rc::Rc<std::cell::RefCell<Account>>, String) {
    let (host, account) = Account::new().serve();
    let reply = ensure(&settings(&[]), &request(web(&[]))).unwrap();
    let id = reply.annotations[0].value.clone().unwrap();
    assert_eq!(reply.annotations[0].key, ID);
    assert_eq!(
        status(&reply).unwrap().ingress[0].ip.as_deref(),
        Some("203.0.113.7")
    );
    (host, account, id)
}

#[test]
fn a_new_one_is_looked_at_until_it_is_active_and_never_written_to() {
    let (host, account) = Account {
        status: "new",
        ..Account::new()
    }
    .serve();
    let mut request = request(web(&[]));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let reply = ensure(&settings(&[]), &request).unwrap();
        let Ensured::Pending(pending) = reply.ensured else {
            panic!("{reply:?}");
        };
        waits.push(pending.retry_after_ms / 1000);
        request.hint = pending.hint;
    }
    assert_eq!(waits, [30, 30, 15, 15]);
    account.borrow_mut().load_balancers[0]["status"] = value!("active");
    account.borrow_mut().load_balancers[0]["ip"] = value!("203.0.113.8");
    account.borrow_mut().load_balancers[0]["ipv6"] = value!("2001:db8::8");
    // Without hint and annotation, the tag leads to the load balancer.
    request.hint = None;
    let reply = ensure(&settings(&[]), &request).unwrap();
    let ips: Vec<_> = status(&reply)
        .unwrap()
        .ingress
        .iter()
        .map(|one| one.ip.clone().unwrap())
        .collect();
    assert_eq!(ips, ["203.0.113.8", "2001:db8::8"]);
    assert_eq!(writes(&host).len(), 1);
}

#[test]
fn a_lost_answer_makes_nothing_twice() {
    let (_host, account) = Account::new().serve();
    account.borrow_mut().instead.push(("POST", json(500, "")));
    assert!(ensure(&settings(&[]), &request(web(&[]))).is_err());
    ensure(&settings(&[]), &request(web(&[]))).unwrap();
    ensure(&settings(&[]), &request(web(&[]))).unwrap();
    assert_eq!(account.borrow().load_balancers.len(), 1);
}

#[test]
fn an_errored_one_is_told_and_a_busy_one_tried_again() {
    let (_host, account, id) = made();
    account.borrow_mut().load_balancers[0]["status"] = value!("errored");
    let error = ensure(&settings(&[]), &request(owned(&id, &[]))).unwrap_err();
    assert!(error.message().contains("errored"), "{error:?}");
    account.borrow_mut().load_balancers[0]["status"] = value!("active");
    let busy = include_str!("../../../fixtures/error-previous-actions.json");
    account.borrow_mut().instead.push(("PUT", json(403, busy)));
    let error = ensure(
        &settings(&[]),
        &request(owned(&id, &[("enable-proxy-protocol", "true")])),
    )
    .unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

/// The load balancer that the Go manager created for `web`, as the vendor shows it.
fn of_the_go_manager(fields: &Value) -> Account {
    let mut account = Account::new();
    account.put(&value!({"name": "auidofweb", "droplet_ids": [2, 1]}));
    let last = account.load_balancers.last_mut().unwrap();
    for (key, value) in fields.as_object().unwrap() {
        last[key] = value.clone();
    }
    account
}

#[test]
fn what_the_go_manager_made_is_not_written_to() {
    for shown in [
        value!({}),
        value!({"tags": ["k8s-service-uid:uid-of-web", "foreign"]}),
    ] {
        let (host, _account) = of_the_go_manager(&shown).serve();
        for service in [owned(FIXTURE, &[]), web(&[])] {
            let reply = ensure(&settings(&[]), &request(service)).unwrap();
            assert!(status(&reply).is_some());
        }
        assert_eq!(writes(&host), [""; 0]);
    }
    // The vendor shows tags, and this provider's is missing until the first call.
    let (host, account) = of_the_go_manager(&value!({"tags": ["foreign"]})).serve();
    for is_ready in [false, true] {
        let reply = ensure(&settings(&[]), &request(owned(FIXTURE, &[]))).unwrap();
        assert_eq!(status(&reply).is_some(), is_ready);
    }
    assert_eq!(
        writes(&host),
        [
            "POST /v2/tags",
            "POST /v2/tags/k8s-service-uid:uid-of-web/resources"
        ]
    );
    let found = account.borrow().load_balancers[0].clone();
    assert_eq!(
        found["tags"],
        value!(["foreign", "k8s-service-uid:uid-of-web"])
    );
}

/// `ccm migrate check` refuses the first request, and shows what was logged before it.
#[test]
fn what_will_be_changed_is_logged_before_the_tag() {
    let check = value!({"protocol": "tcp", "port": 80});
    for (mut shown, then) in [
        (value!({}), "nothing differs"),
        (
            value!({"health_check": check, "size_unit": 6}),
            "health_check size",
        ),
    ] {
        shown["tags"] = value!(["foreign"]);
        let (host, account) = of_the_go_manager(&shown).serve();
        account.borrow_mut().instead.push(("POST", json(403, "")));
        assert!(ensure(&settings(&[]), &request(owned(FIXTURE, &[]))).is_err());
        let (_, line) = host.lines().pop().unwrap();
        let expected = format!(
            "tagging the load balancer id={FIXTURE} tag=k8s-service-uid:uid-of-web then={then}"
        );
        assert_eq!(line, expected);
    }
}

/// A load balancer cannot move, and a request that asks for it could be refused as a whole.
#[test]
fn vpc_and_subnet_stay_whatever_is_wanted_later() {
    let tags = ["k8s-service-uid:uid-of-web"];
    let shown = value!({"vpc_uuid": "vpc-1", "subnet_uuid": "subnet-1", "tags": tags});
    let (host, account) = of_the_go_manager(&shown).serve();
    let settings = settings(&[("DO_CLUSTER_VPC_ID", "vpc-2")]);
    let service = owned(FIXTURE, &[("subnet-uuid", "subnet-2"), ("name", "another")]);
    ensure(&settings, &request(service)).unwrap();
    assert!(host.requests().iter().any(|line| line.starts_with("PUT")));
    let found = account.borrow().load_balancers[0].clone();
    assert_eq!(
        (&found["vpc_uuid"], &found["subnet_uuid"], &found["name"]),
        (&value!("vpc-1"), &value!("subnet-1"), &value!("another"))
    );
}

#[test]
fn each_difference_is_written_and_settles() {
    let table = [
        value!({"name": "renamed"}),
        value!({"droplet_ids": [1]}),
        value!({"tag": "web", "droplet_ids": [1, 2]}),
        value!({"forwarding_rules": []}),
        value!({"health_check": {"protocol": "tcp", "port": 80}}),
        value!({"sticky_sessions": {"type": "cookies", "cookie_name": "X", "cookie_ttl_seconds": 9}}),
        value!({"redirect_http_to_https": true}),
        value!({"enable_proxy_protocol": true}),
        value!({"enable_backend_keepalive": true}),
        value!({"disable_lets_encrypt_dns_records": true}),
        value!({"firewall": {"allow": ["ip:1.2.3.4"], "deny": []}}),
        // The annotation is gone, and the vendor's default applies.
        value!({"size": "lb-large", "size_unit": 6}),
    ];
    for fields in table {
        let mut shown = fields.clone();
        shown["tags"] = value!(["k8s-service-uid:uid-of-web"]);
        let (host, _account) = of_the_go_manager(&shown).serve();
        ensure(&settings(&[]), &request(owned(FIXTURE, &[]))).unwrap();
        let mut writes = host.seen();
        writes.retain(|one| one.method == "PUT");
        assert_eq!(writes.len(), 1, "{fields}");
        let body: Value = serde_json::from_slice(&writes[0].body).unwrap();
        for kept in ["project_id", "vpc_uuid", "tls_cipher_policy"] {
            assert!(body[kept].is_string(), "{kept} was not sent back");
        }
        // The vendor reads them only at creation.
        assert!(body.get("tags").is_none(), "{body}");
    }
    // Fields that the vendor sets by itself, and the other spelling in its documentation.
    for fields in [
        value!({"http_idle_timeout_seconds": 90}),
        value!({"algorithm": "least_connections"}),
        value!({"firewall": null}),
    ] {
        let (host, _account) = of_the_go_manager(&fields).serve();
        ensure(&settings(&[]), &request(owned(FIXTURE, &[]))).unwrap();
        assert_eq!(writes(&host), [""; 0], "{fields}");
    }
}

#[test]
fn what_is_fixed_stays_as_it_is_unless_an_annotation_says_otherwise() {
    let fixed = value!({"type": "REGIONAL", "network_stack": "DUALSTACK", "forwarding_rules": []});
    let (host, account) = of_the_go_manager(&fixed).serve();
    ensure(&settings(&[]), &request(owned(FIXTURE, &[]))).unwrap();
    assert_eq!(account.borrow().load_balancers[0]["type"], "REGIONAL");
    assert_eq!(
        account.borrow().load_balancers[0]["forwarding_rules"][0]["target_port"],
        30080
    );
    let before = writes(&host).len();
    for change in [
        ("type", "REGIONAL_NETWORK"),
        ("network", "INTERNAL"),
        ("network-stack", "IPV4"),
    ] {
        let error = ensure(&settings(&[]), &request(owned(FIXTURE, &[change]))).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(text) if text.contains("cannot be changed")),
            "{error:?}"
        );
    }
    assert_eq!(writes(&host).len(), before);
}

#[test]
fn certificates_are_found_by_name_and_followed_when_they_are_renewed() {
    let certificate = |id: &str, kind: &str| value!({"id": id, "name": "shop", "type": kind});
    let https = |key: &'static str, value: &'static str| {
        [("type", "REGIONAL"), ("tls-ports", "443"), (key, value)]
    };
    let mut account = Account::new();
    account
        .certificates
        .push(certificate("c-1", "lets_encrypt"));
    let (host, account) = account.serve();
    ensure(
        &settings(&[]),
        &request(web(&https("certificate-name", "shop"))),
    )
    .unwrap();
    let actual =
        || account.borrow().load_balancers[0]["forwarding_rules"][1]["certificate_id"].clone();
    assert_eq!(actual(), "c-1");
    let error = ensure(
        &settings(&[]),
        &request(web(&https("certificate-name", "other"))),
    )
    .unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    // After a renewal the load balancer has the new id, and the annotation the old one, which is gone.
    account.borrow_mut().certificates = vec![certificate("c-2", "lets_encrypt")];
    account.borrow_mut().load_balancers[0]["forwarding_rules"][1]["certificate_id"] = value!("c-2");
    let before = writes(&host).len();
    let reply = ensure(
        &settings(&[]),
        &request(web(&https("certificate-id", "c-1"))),
    )
    .unwrap();
    assert_eq!(reply.events[0].reason, "CertificateRenewed");
    assert_eq!(writes(&host).len(), before);
    // Another certificate of type `custom` is no renewal.
    account
        .borrow_mut()
        .certificates
        .push(value!({"id": "c-3", "name": "new", "type": "custom"}));
    ensure(
        &settings(&[]),
        &request(web(&https("certificate-id", "c-3"))),
    )
    .unwrap();
    assert_eq!(actual(), "c-3");
}

#[test]
fn the_region_is_the_configured_one_or_that_of_vpc_or_nodes() {
    let region = |values: &[(&str, &str)], labels: &[&str]| {
        let (_host, account) = Account::new().serve();
        let settings = Settings::read(&ccm_guest::testing::config(values)).unwrap();
        let mut request = request(web(&[]));
        for (node, label) in request.targets.iter_mut().zip(labels) {
            node.labels = vec![(
                "topology.kubernetes.io/region".to_owned(),
                (*label).to_owned(),
            )];
        }
        let result = ensure(&settings, &request);
        result.map(|_| account.borrow().load_balancers[0]["region"]["slug"].clone())
    };
    assert_eq!(region(&[("REGION", "fra1")], &[]), Ok(value!("fra1")));
    assert_eq!(
        region(&[("DO_CLUSTER_VPC_ID", "v1")], &[]),
        Ok(value!("nyc3"))
    );
    assert_eq!(region(&[], &["ams3", "ams3"]), Ok(value!("ams3")));
    for odd in [&[][..], &["ams3", "fra1"]] {
        assert!(matches!(region(&[], odd), Err(Error::Invalid(_))));
    }
}

#[test]
fn nothing_is_made_without_a_droplet_behind_it() {
    let (host, _account) = Account::new().serve();
    let empty = EnsureRequest::new(web(&[]), Vec::new());
    assert!(matches!(
        ensure(&settings(&[]), &empty),
        Err(Error::Unavailable(_))
    ));
    let mut private = worker(1);
    private.addresses.truncate(1);
    let request = EnsureRequest::new(web(&[]), vec![private]);
    let error = ensure(&settings(&[]), &request).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(text) if text.contains("worker-1")),
        "{error:?}"
    );
    assert!(host.requests().iter().all(|line| line.starts_with("GET")));
    let regional = EnsureRequest::new(web(&[("type", "REGIONAL")]), request.targets);
    assert!(ensure(&settings(&[]), &regional).is_ok());
}

/// As when all Node objects have just been registered anew, and have no address or no provider ID yet.
#[test]
fn nothing_that_is_wrong_with_the_nodes_empties_it() {
    let (host, account, id) = made();
    let sent = writes(&host).len();
    let mut private = worker(1);
    private.addresses.truncate(1);
    let mut unknown = worker(1);
    unknown.provider_id = None;
    for (nodes, words) in [
        (vec![private], "worker-1"),
        (vec![unknown], "no node yet"),
        (vec![], "no node yet"),
    ] {
        let service = owned(&id, &[]);
        let request = EnsureRequest::new(service.clone(), nodes.clone());
        let refused = [
            ensure(&settings(&[]), &request).map(drop),
            update_targets(&settings(&[]), &UpdateRequest::new(service, nodes)).map(drop),
        ];
        for result in refused {
            let error = result.unwrap_err();
            assert!(error.message().contains(words), "{error:?}");
        }
    }
    assert_eq!(writes(&host).len(), sent);
    let droplets = || account.borrow().load_balancers[0]["droplet_ids"].clone();
    assert_eq!(droplets(), value!([1, 2]));
    // The only node that is left is one whose droplet is gone.
    account.borrow_mut().gone = vec![3];
    let update = UpdateRequest::new(owned(&id, &[]), vec![worker(3)]);
    let error = update_targets(&settings(&[]), &update).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert_eq!(droplets(), value!([1, 2]));
    // One that has no droplets any more loses none.
    account.borrow_mut().load_balancers[0]["droplet_ids"] = value!([]);
    let request = EnsureRequest::new(owned(&id, &[]), vec![]);
    assert!(ensure(&settings(&[]), &request).is_ok());
}

/// Its Node stays until the deletion is confirmed.
#[test]
fn a_node_whose_droplet_is_gone_keeps_nobody_from_the_load_balancer() {
    let (host, account, id) = made();
    account.borrow_mut().gone = vec![1];
    account.borrow_mut().load_balancers[0]["droplet_ids"] = value!([2]);
    let service = owned(&id, &[]);
    let droplets = || account.borrow().load_balancers[0]["droplet_ids"].clone();
    let nodes = vec![worker(1), worker(2), worker(3)];
    let update = UpdateRequest::new(service.clone(), nodes.clone());
    update_targets(&settings(&[]), &update).unwrap();
    assert_eq!(droplets(), value!([2, 3]));
    let nodes = vec![worker(1), worker(2), worker(3), worker(4)];
    let reply = ensure(&settings(&[]), &EnsureRequest::new(service.clone(), nodes)).unwrap();
    assert!(status(&reply).is_some());
    assert_eq!(droplets(), value!([2, 3, 4]));
    // One that is gone is added alone.
    let update = UpdateRequest::new(service, vec![worker(1), worker(2)]);
    update_targets(&settings(&[]), &update).unwrap();
    assert_eq!(droplets(), value!([2]));

    drop((host, account));
    let other = Account {
        gone: vec![1],
        ..Account::new()
    };
    let (_host, account) = other.serve();
    let request = EnsureRequest::new(web(&[]), vec![worker(1), worker(2)]);
    ensure(&settings(&[]), &request).unwrap();
    assert_eq!(
        account.borrow().load_balancers[0]["droplet_ids"],
        value!([2])
    );
}

#[test]
fn what_has_no_effect_is_told_beside_the_error() {
    let (_host, _account) = Account::new().serve();
    let service = web(&[("algorithm", "least_connections")]);
    let failure = super::ensure(&settings(&[]), &EnsureRequest::new(service, Vec::new()));
    let failure = failure.unwrap_err();
    assert!(matches!(failure.error, Error::Unavailable(_)));
    let reasons: Vec<&str> = failure
        .events
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert_eq!(reasons, ["UnsupportedFieldConfigured"]);
}

#[test]
fn a_host_name_takes_the_place_of_addresses() {
    let (_host, _account) = Account::new().serve();
    let reply = ensure(
        &settings(&[]),
        &request(web(&[("hostname", "Web.Example.com")])),
    )
    .unwrap();
    let ingress = &status(&reply).unwrap().ingress;
    assert_eq!(
        (ingress.len(), ingress[0].hostname.as_deref()),
        (1, Some("web.example.com"))
    );
}
