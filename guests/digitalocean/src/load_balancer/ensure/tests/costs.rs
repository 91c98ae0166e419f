//! The requests that each event costs. The README has the same rows, beside the Go manager's requests, which are
//! counted in its source.

use super::*;

const ONE: &str = "GET /v2/load_balancers/00000000-0000-4000-8000-000000000001";
const CERTIFICATES: &str = "GET /v2/certificates?per_page=200&page=1&name=shop";

/// Events that cost more than a third of the Go manager's requests without a change: they need one look.
const ONE_LOOK: &[&str] = &["another annotation that says nothing about it; the hourly look"];

/// Checks that the README has the row of this event, and that its requests are at most a third of the Go manager's: one
/// of [`ONE_LOOK`], or the changes alone are more.
fn documented(event: &str, sent: &[&str], go: &str) {
    let requests = sent.len();
    let changes = sent.iter().filter(|one| !one.starts_with("GET ")).count();
    let (go_sends, _) = go.split_once(';').unwrap_or((go, ""));
    let go_sends: usize = go_sends.parse().unwrap();
    let is_third = requests * 3 <= go_sends || changes * 3 > go_sends;
    assert_eq!(!is_third, ONE_LOOK.contains(&event), "{event}: {sent:?}");
    assert!(is_third || requests == 1, "{event}: {sent:?}");
    let unit = match event.starts_with("nothing, for an hour") {
        true => " for each Service",
        false => "",
    };
    let row = format!("| {event} | {requests}{unit} | {go} |");
    let readme = include_str!("../../../../README.md");
    assert!(
        readme.contains(&row),
        "guests/digitalocean/README.md lacks\n{row}"
    );
}

#[test]
fn what_each_event_costs() {
    let (host, account, id) = made();
    let mut seen = host.seen().len();
    assert_eq!(host.requests(), [LIST, "POST /v2/load_balancers"]);
    let mut cost = |what: &str, go: &str, expected: &[&str]| {
        let all = host.requests();
        let new: Vec<String> = all[seen..]
            .iter()
            .map(|line| line.replace(&id, "ID"))
            .collect();
        seen = all.len();
        assert_eq!(new, expected, "{what}");
        documented(what, expected, go);
    };
    let again =
        |annotations: &[(&str, &str)]| ensure(&settings(&[]), &request(owned(&id, annotations)));

    again(&[("example.com/note", "1")]).unwrap();
    cost(
        "another annotation that says nothing about it; the hourly look",
        "2; never",
        &["GET /v2/load_balancers/ID"],
    );
    again(&[("enable-proxy-protocol", "true")]).unwrap();
    cost(
        "a change",
        "2",
        &["GET /v2/load_balancers/ID", "PUT /v2/load_balancers/ID"],
    );
    again(&[]).unwrap();
    cost(
        "a change",
        "2",
        &["GET /v2/load_balancers/ID", "PUT /v2/load_balancers/ID"],
    );
    let update = |ids: &[u64]| {
        let nodes = ids.iter().map(|id| worker(*id)).collect();
        update_targets(&settings(&[]), &UpdateRequest::new(owned(&id, &[]), nodes))
    };
    update(&[1, 2, 3]).unwrap();
    cost(
        "node added, or removed",
        "2",
        &[
            "GET /v2/load_balancers/ID",
            "POST /v2/load_balancers/ID/droplets",
        ],
    );
    update(&[2, 3]).unwrap();
    cost(
        "node added, or removed",
        "2",
        &[
            "GET /v2/load_balancers/ID",
            "DELETE /v2/load_balancers/ID/droplets",
        ],
    );
    update(&[3, 2]).unwrap();
    cost(
        "nothing, for an hour, with `DO_CLUSTER_ID`",
        "8",
        &["GET /v2/load_balancers/ID"],
    );
    assert_eq!(
        account.borrow().load_balancers[0]["droplet_ids"],
        value!([2, 3])
    );
    deletion::delete(&owned(&id, &[])).unwrap();
    assert_eq!(deletion::get(&owned(&id, &[])), Ok(Found::Absent));
    cost(
        "delete, and its proof",
        "3",
        &[
            "GET /v2/load_balancers/ID",
            "DELETE /v2/load_balancers/ID",
            "DELETE /v2/tags/k8s-service-uid:uid-of-web",
            LIST,
        ],
    );
}

/// Creates a load balancer whose creation takes a minute, and reads once more at the end.
fn made_in_a_minute(annotations: &[(&str, &str)]) -> Vec<String> {
    let mut account = Account {
        status: "new",
        ..Account::new()
    };
    account
        .certificates
        .push(value!({"id": "c-1", "name": "shop", "type": "custom"}));
    let (host, account) = account.serve();
    let mut request = request(web(annotations));
    let mut waited = 0;
    while waited <= 60 {
        if waited == 60 {
            account.borrow_mut().load_balancers[0]["status"] = value!("active");
            account.borrow_mut().load_balancers[0]["ip"] = value!("203.0.113.7");
        }
        match ensure(&settings(&[]), &request).unwrap().ensured {
            Ensured::Pending(pending) => {
                waited += pending.retry_after_ms / 1000;
                request.hint = pending.hint;
            }
            Ensured::Ready(_) => break,
        }
    }
    assert_eq!(waited, 60);
    ensure(&settings(&[]), &request).unwrap();
    host.requests()
}

#[test]
fn a_new_load_balancer_is_looked_at_twice_a_minute() {
    let requests = made_in_a_minute(&[]);
    let create = [LIST, "POST /v2/load_balancers", ONE, ONE];
    assert_eq!(requests[..4], create);
    documented("create, a minute until it is active", &create, "12");
    assert_eq!(requests[4..], [ONE], "afterwards");
}

#[test]
fn a_certificate_by_name_is_looked_up_when_it_is_needed() {
    let requests = made_in_a_minute(&[("type", "REGIONAL"), ("certificate-name", "shop")]);
    let create = [
        LIST,
        CERTIFICATES,
        "POST /v2/load_balancers",
        ONE,
        ONE,
        CERTIFICATES,
    ];
    assert_eq!(requests[..6], create);
    let event = "create with a certificate by name, a minute";
    documented(event, &create, "33");
    let again = [ONE, CERTIFICATES];
    assert_eq!(requests[6..], again);
    documented(
        "another annotation, with a certificate by name",
        &again,
        "6",
    );
}

/// No code of a refusal says that a droplet is gone, so the droplets are read after each one.
#[test]
fn a_refusal_costs_no_request_for_each_node() {
    const REFUSED: &str = r#"{"id": "unprocessable_entity", "message": "no such subnet"}"#;
    let (host, account) = Account::new().serve();
    let refuse = || {
        let refusal = ("POST /v2/load_balancers", json(422, REFUSED));
        account.borrow_mut().instead.push(refusal);
    };
    let nodes = |more: u64| -> Vec<Node> { (1..=40).chain(200..200 + more).map(worker).collect() };
    refuse();
    let request = EnsureRequest::new(web(&[]), nodes(0));
    let error = ensure(&settings(&[]), &request).unwrap_err();
    assert!(error.message().contains("no such subnet"), "{error:?}");
    let list = "GET /v2/droplets?per_page=200&page=1";
    let refused = [LIST, "POST /v2/load_balancers", list];
    assert_eq!(host.requests(), refused);
    documented("a creation that is refused", &refused, "2");
    // Droplets that no list has are looked up.
    refuse();
    let request = EnsureRequest::new(web(&[]), nodes(2));
    assert!(ensure(&settings(&[]), &request).is_err());
    let looked_up = ["GET /v2/droplets/200", "GET /v2/droplets/201"];
    assert_eq!(
        host.requests()[refused.len()..],
        [refused.as_slice(), &looked_up].concat()
    );
}
