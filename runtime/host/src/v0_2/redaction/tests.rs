//! Answers with a credential in each of their texts and names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fmt::Debug;
use std::sync::Arc;

use ccm_core::cloud::load_balancer::{Ingress, PortStatus, Progress, Protocol};
use ccm_core::cloud::route::CloudRoute;
use ccm_core::cloud::{Address, AddressType, EventType};
use ccm_core::moment::Moment;
use ccm_core::safety::permit::Mode;
use ccm_fixtures::audit::RecordingAudit;
use ccm_fixtures::permits::{audited, change, permit};
use serde_json::json;

use super::*;
use crate::egress::EgressLimits;
use crate::grant::{Credential, Secret};
use crate::guest_log::{GuestLog, Level};
use crate::manifest::Manifest;

const CANARY: &str = "Canary7d1f0a3c9e";

/// An egress with two targets, of which the second has the credential.
fn egress() -> Egress {
    let target = |name: &str| {
        json!({
            "name": name, "endpoint": "https://cloud.test", "auth": "bearer",
            "rules": [{ "methods": ["GET"], "path": "/", "access": "read" }],
        })
    };
    let manifest = json!({
        "contract": "0.1.0", "name": "test", "version": "1",
        "targets": [target("first"), target("api")],
    });
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let mut grants = manifest.as_grants();
    for (target, token) in grants.targets.iter_mut().zip(["another-token", CANARY]) {
        target.endpoint = "http://127.0.0.1:9".parse().unwrap();
        target.credential = Credential::Bearer(Secret::new(token.to_owned()));
    }
    let granted = manifest.narrow(grants).unwrap();
    Egress::new("test", &granted, EgressLimits::standard()).unwrap()
}

fn canary() -> String {
    CANARY.to_owned()
}

fn event(reason: &str, message: &str) -> CloudEvent {
    CloudEvent::new(EventType::Normal, reason, message.to_owned())
}

/// Each answer with the credential in a text: shown redacted.
fn texts<R: Shown + Debug>(replies: Vec<R>) {
    let egress = egress();
    for reply in replies {
        let before = format!("{reply:?}");
        let shown = format!("{:?}", show(&egress, Ok(reply)).unwrap());
        assert!(before.contains(CANARY), "{before}");
        assert!(
            !shown.contains(CANARY) && shown.contains("[redacted]"),
            "{shown}"
        );
    }
}

/// Each answer with the credential in a name: refused.
fn names<R: Shown + Debug>(replies: Vec<R>) {
    let egress = egress();
    for reply in replies {
        let before = format!("{reply:?}");
        assert!(before.contains(CANARY), "{before}");
        match show(&egress, Ok(reply)) {
            Err(ProviderError::Internal(text)) => assert!(text.contains("credential"), "{text}"),
            other => panic!("{before}: {other:?}"),
        }
    }
}

fn found(change: impl FnOnce(&mut Instance)) -> FindReply {
    let mut instance = Instance {
        provider_id: "test://1".to_owned(),
        instance_type: None,
        zone: None,
        region: None,
        addresses: Vec::new(),
        labels: Vec::new(),
        shutdown: None,
    };
    change(&mut instance);
    FindReply {
        lookups: vec![Lookup::Found(Box::new(instance))],
        events: Vec::new(),
        complete: true,
    }
}

fn find(lookup: Lookup, event: CloudEvent) -> FindReply {
    FindReply {
        lookups: vec![lookup],
        events: vec![(0, event)],
        complete: true,
    }
}

fn status(change: impl FnOnce(&mut Ingress)) -> LoadBalancerStatus {
    let mut ingress = Ingress::default();
    change(&mut ingress);
    LoadBalancerStatus {
        ingress: vec![ingress],
    }
}

fn statuses() -> [LoadBalancerStatus; 3] {
    [
        status(|way| way.ip = Some(canary())),
        status(|way| way.hostname = Some(format!("{CANARY}.test"))),
        status(|way| {
            way.ports = vec![PortStatus {
                port: 1,
                protocol: Protocol::Tcp,
                error: Some(canary()),
            }];
        }),
    ]
}

fn ensured(events: Vec<CloudEvent>, annotations: Vec<AnnotationChange>) -> EnsureReply {
    EnsureReply {
        ensured: Ensured::Ready(LoadBalancerStatus::default()),
        events,
        annotations,
    }
}

fn annotation(key: &str, value: &str) -> AnnotationChange {
    AnnotationChange {
        key: key.to_owned(),
        value: Some(value.to_owned()),
    }
}

#[test]
fn h2_a_credential_in_an_answer_about_nodes_reaches_nobody() {
    texts(vec![
        find(Lookup::Unknown(format!("with {CANARY}")), event("Told", "")),
        find(Lookup::Gone, event("Told", &format!("with {CANARY}"))),
    ]);
    let address = |text: &str| Address {
        address_type: AddressType::Hostname,
        address: text.to_owned(),
    };
    names(vec![
        found(|one| one.provider_id = format!("test://{CANARY}")),
        found(|one| one.instance_type = Some(canary())),
        found(|one| one.zone = Some(canary())),
        found(|one| one.region = Some(canary())),
        found(|one| one.addresses = vec![address(&format!("{CANARY}.test"))]),
        found(|one| one.labels = vec![("key".to_owned(), canary())]),
        found(|one| one.labels = vec![(canary(), "value".to_owned())]),
        find(Lookup::Gone, event(CANARY, "")),
    ]);
}

#[test]
fn h2_a_credential_in_an_answer_about_load_balancers_reaches_nobody() {
    let told = || vec![event("Told", CANARY)];
    let named = || vec![event(CANARY, "")];
    let value = || vec![annotation("test/key", CANARY)];
    let key = || vec![annotation(&format!("test/{CANARY}"), "value")];
    let progress = |events, annotations| ProgressReply {
        progress: Progress::Done,
        events,
        annotations,
    };
    texts(vec![
        ensured(told(), Vec::new()),
        ensured(Vec::new(), value()),
    ]);
    texts(vec![
        progress(told(), Vec::new()),
        progress(Vec::new(), value()),
    ]);
    names(vec![
        ensured(named(), Vec::new()),
        ensured(Vec::new(), key()),
    ]);
    names(vec![
        progress(named(), Vec::new()),
        progress(Vec::new(), key()),
    ]);
    for status in statuses() {
        names(vec![EnsureReply {
            ensured: Ensured::Ready(status.clone()),
            ..ensured(Vec::new(), Vec::new())
        }]);
        names(vec![GetReply {
            found: Found::Present(status),
            complete: true,
        }]);
    }
}

#[test]
fn h2_a_credential_in_an_answer_about_routes_reaches_nobody() {
    let list = |id: &str, destination: &str, target| ListRoutesReply {
        routes: vec![CloudRoute {
            id: id.to_owned(),
            destination_cidr: destination.to_owned(),
            target,
            extra: Vec::new(),
        }],
        complete: true,
    };
    let changed = |event| RouteReply {
        progress: Progress::Done,
        events: vec![event],
    };
    texts(vec![list("1", "10.0.0.0/24", RouteTarget::Other(canary()))]);
    texts(vec![changed(event("Told", CANARY))]);
    names(vec![
        list(CANARY, "10.0.0.0/24", RouteTarget::Blackhole),
        list("1", CANARY, RouteTarget::Blackhole),
    ]);
    names(vec![changed(event(CANARY, ""))]);
}

#[test]
fn h2_a_credential_in_an_error_reaches_nobody() {
    let egress = egress();
    let shown = |error| format!("{:?}", show::<GetReply>(&egress, Err(error)).unwrap_err());
    let text = || format!("with {CANARY}");
    for error in [
        ProviderError::Invalid(text()),
        ProviderError::Unavailable(text()),
        ProviderError::Trapped(text()),
        ProviderError::Interrupted(text()),
        ProviderError::NotBegun(text()),
        ProviderError::TimedOut(text()),
        ProviderError::Conflict {
            message: text(),
            owner: None,
        },
        ProviderError::Conflict {
            message: String::new(),
            owner: Some(Owner::Uid(canary())),
        },
    ] {
        let shown = shown(error);
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

#[test]
fn h2_a_credential_in_an_event_of_a_failure_reaches_nobody() {
    let egress = Arc::new(egress());
    let until = Moment(std::time::Duration::from_secs(1));
    let permit = permit(until, Mode::Enforce, 1);
    let scope = egress.scope(permit.clone(), tokio::time::Instant::now(), false);
    scope.fail_with(vec![
        event(CANARY, "named"),
        event("Told", &format!("with {CANARY}")),
    ]);
    let failure = permit.failure(ProviderError::Invalid(String::new()));
    assert_eq!(failure.events, [event("Told", "with [redacted]")]);
}

#[test]
fn h2_a_credential_in_the_log_line_beside_a_refused_change_reaches_nobody() {
    let egress = Arc::new(egress());
    for before in [0, 500, 508] {
        let audit = Arc::new(RecordingAudit::default());
        let now = Moment(std::time::Duration::ZERO);
        let permit = audited(
            Moment(std::time::Duration::from_secs(1)),
            Mode::Plan,
            1,
            audit.clone(),
        );
        let scope = egress.scope(permit.clone(), tokio::time::Instant::now(), false);
        let line = format!("{}{CANARY}", "x".repeat(before));
        GuestLog::new(&Arc::from("test"), Some(scope)).contract_line(Level::Info, &line);
        permit.ask(now, &change("POST", "/")).unwrap_err();
        let kept = format!("{:?}", audit.entries());
        assert!(!kept.contains("Canary7d"), "{before}: {kept}");
    }
}
