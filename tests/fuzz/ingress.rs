//! A provider's answer about a load balancer, line by line (`ip`, `hostname`, `mode`, `port NUMBER [ERROR]`, and
//! `annotation KEY=VALUE`): the parts that the service controller's decisions store.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    AnnotationChange, EnsureReply, Ensured, Ingress, IpMode, LoadBalancerStatus, PortStatus,
    Protocol,
};
use ccm_core::moment::{Moment, Now};
use ccm_core::node::object::PrunedNode;
use ccm_core::node::ownership::OwnershipContext;
use ccm_core::reconciliation::effect::{Answered, Decision, EventOutcome, InUse, Performed};
use ccm_core::reconciliation::patch::ServicePatch;
use ccm_core::safety::permit::Mode;
use ccm_core::service::{
    Account, Facts, RetainedState, ServiceAction, ServiceOutcome, Targets, Witnesses, World, decide,
};
use ccm_core::settings::{IngressRules, ServiceRules};
use ccm_fixtures::kubernetes::node;
use ccm_tests::fuzz::{Target, Verdict};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::{hold, is_one_line};

pub(crate) const TARGET: Target = Target {
    name: "ingress",
    words: &[
        "ip ",
        "hostname ",
        "mode VIP\n",
        "mode Proxy\n",
        "port 80\n",
        "port 0\n",
        "port 443 PortTaken\n",
        "annotation ",
        "lb.example.com/",
        "kubernetes.io/",
        "wasm-ccm.dev/provider",
        "192.0.2.1",
        "10.96.0.10",
        "10.0.0.7",
        "10.0.0.8",
        "169.254.169.254",
        "::ffff:10.96.0.10",
        "::ffff:192.0.2.1",
        "fe80::1",
        "0.0.0.0",
        "127.0.0.1",
        "255.255.255.255",
        "\n",
        "=",
        "LB.EXAMPLE",
        "192.0.2.300",
        "168.63.129.16",
    ],
    longest: 4096,
    check,
};

const PREFIX: &str = "lb.example.com/";

static SERVICE: LazyLock<Arc<Service>> = LazyLock::new(|| {
    let service = json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "u0",
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            "annotations": { "wasm-ccm.dev/provider": "sim" },
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
            "ports": [{ "protocol": "TCP", "port": 80, "nodePort": 30080 }],
        },
    });
    Arc::new(serde_json::from_value(service).unwrap())
});
static NODE: LazyLock<PrunedNode> =
    LazyLock::new(|| node("a").uid("a").provider_id("sim://a").ready().build());
static WORLD: LazyLock<Arc<World>> = LazyLock::new(|| {
    let rules = ServiceRules {
        ingress: IngressRules {
            refused: vec!["10.96.0.0/12".parse().unwrap()],
            api_server: vec!["10.0.0.7".parse().unwrap()],
            allowed: Vec::new(),
        },
        ..ServiceRules::default()
    };
    let ownership = Arc::new(OwnershipContext::alone("sim", vec!["sim".to_owned()]));
    let prefixes = Arc::from([PREFIX.to_owned()]);
    Arc::new(World::new(
        ownership,
        prefixes,
        Arc::new(rules),
        Mode::Enforce,
    ))
});

fn check(input: &[u8]) -> Result<Verdict, String> {
    let reply = read(&String::from_utf8_lossy(input));
    let (service, world) = (SERVICE.clone(), WORLD.clone());
    let targets = Targets::of([&*NODE].into_iter(), true);
    let mut facts = Facts::new(
        service,
        false,
        world,
        targets,
        RetainedState::default(),
        Account::default(),
    );
    let now = Now {
        moment: Moment(Duration::from_secs(1_000)),
        wall: Timestamp::UNIX_EPOCH,
    };
    let (mut is_stored, mut reported) = (false, String::new());
    for _ in 0..100 {
        let effects = match decide(&facts, now) {
            Decision::Do(effects) => effects,
            Decision::Done(_) if is_stored && reported.is_empty() => return Ok(Verdict::Taken),
            Decision::Done((end, _)) => return Ok(Verdict::Refused(format!("{reported} {end}"))),
        };
        for effect in effects {
            let outcome = match &effect.action {
                ServiceAction::Ensure(_) => ServiceOutcome::Ensured(Ok(answered(reply.clone()))),
                ServiceAction::ProveAccount(_) => {
                    ServiceOutcome::Witnesses(Ok(Witnesses::default()))
                }
                ServiceAction::ReadNamespace => ServiceOutcome::NamespaceGoes(false),
                ServiceAction::Read => {
                    ServiceOutcome::Service(Ok(Some(Box::new(Service::clone(&SERVICE)))))
                }
                ServiceAction::Patch(patch) => {
                    may_be_written(patch, &reply)?;
                    is_stored |= patch.status.is_some();
                    ServiceOutcome::Service(Ok(Some(Box::new(Service::clone(&SERVICE)))))
                }
                ServiceAction::RecordEvent(event) => {
                    hold(
                        is_one_line(&event.message) && event.message.len() <= 1024,
                        || format!("{event:?}"),
                    )?;
                    if event.event_type == ccm_core::cloud::EventType::Warning {
                        reported.push_str(&event.message);
                    }
                    ServiceOutcome::Event(EventOutcome::Recorded)
                }
                other => return Err(format!("nothing of the answer asks for {other:?}")),
            };
            facts.absorb(&effect, Performed::Ended(outcome));
        }
    }
    Err("the reconciliation does not end".to_owned())
}

fn answered(reply: EnsureReply) -> Answered<EnsureReply> {
    let held = InUse {
        ip: "10.0.0.8".parse().unwrap(),
        by: "node/worker-1".to_owned(),
    };
    Answered {
        reply,
        mutations: 1,
        in_use: vec![held],
    }
}

fn read(text: &str) -> EnsureReply {
    let mut status = LoadBalancerStatus::default();
    let mut annotations = Vec::new();
    for line in text.split('\n') {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, status.ingress.last_mut()) {
            ("ip", _) => status.ingress.push(Ingress {
                ip: Some(rest.to_owned()),
                ..Ingress::default()
            }),
            ("hostname", _) => status.ingress.push(Ingress {
                hostname: Some(rest.to_owned()),
                ..Ingress::default()
            }),
            ("mode", Some(last)) => {
                last.ip_mode = Some(if rest == "Proxy" {
                    IpMode::Proxy
                } else {
                    IpMode::Vip
                });
            }
            ("port", Some(last)) => {
                let (port, error) = rest
                    .split_once(' ')
                    .map_or((rest, None), |(port, error)| (port, Some(error)));
                last.ports.push(PortStatus {
                    port: port.parse().unwrap_or_default(),
                    protocol: Protocol::Tcp,
                    error: error.map(str::to_owned),
                });
            }
            ("annotation", _) => {
                let (key, value) = rest
                    .split_once('=')
                    .map_or((rest, None), |(key, value)| (key, Some(value)));
                annotations.push(AnnotationChange {
                    key: key.to_owned(),
                    value: value.map(str::to_owned),
                });
            }
            _ => {}
        }
    }
    EnsureReply {
        ensured: Ensured::Ready(status),
        events: Vec::new(),
        annotations,
    }
}

fn may_be_written(patch: &ServicePatch, reply: &EnsureReply) -> Result<(), String> {
    hold(patch.finalizer.is_none() && patch.uid == "u0", || {
        format!("{patch:?}")
    })?;
    for (key, value) in &patch.annotations {
        let name = key.strip_prefix(PREFIX).unwrap_or_default();
        let is_name = name.len() <= 63
            && name
                .bytes()
                .all(|one| one.is_ascii_alphanumeric() || b"-_.".contains(&one));
        let is_wanted = reply
            .annotations
            .iter()
            .any(|requested| requested.key == *key && requested.value == *value);
        hold(!name.is_empty() && is_name && is_wanted, || {
            format!("the annotation {key:?}")
        })?;
    }
    for condition in &patch.conditions {
        hold(is_one_line(&condition.message), || format!("{condition:?}"))?;
    }
    let Some(status) = &patch.status else {
        return Ok(());
    };
    hold(Ensured::Ready(status.clone()) == reply.ensured, || {
        format!("nobody answered {status:?}")
    })?;
    hold(status.ingress.len() <= 16, || "too many ways in".to_owned())?;
    for ingress in &status.ingress {
        hold(ingress.ip.is_some() || ingress.hostname.is_some(), || {
            "an empty way in".to_owned()
        })?;
        hold(ingress.ip.as_deref().is_none_or(is_way_in), || {
            format!("{ingress:?}")
        })?;
        let is_name = |name: &str| {
            let is_inner =
                |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || b".-".contains(&one);
            !name.is_empty()
                && name.len() <= 253
                && name.bytes().all(is_inner)
                && name.parse::<IpAddr>().is_err()
        };
        hold(ingress.hostname.as_deref().is_none_or(is_name), || {
            format!("{ingress:?}")
        })?;
        let is_port =
            |port: &PortStatus| port.port != 0 && port.error.as_deref().is_none_or(is_one_line);
        hold(ingress.ports.iter().all(is_port), || format!("{ingress:?}"))?;
    }
    Ok(())
}

/// Whether nodes may send traffic for a load balancer to this IP.
fn is_way_in(text: &str) -> bool {
    let Ok(ip) = text.parse::<IpAddr>() else {
        return false;
    };
    ip.to_canonical() == ip
        && match ip {
            IpAddr::V4(v4) => {
                let special = v4.is_loopback()
                    || v4.is_link_local()
                    || v4.is_multicast()
                    || v4.is_broadcast();
                !special
                    && !matches!(
                        v4.octets(),
                        [0, ..] | [10, 96..=111, ..] | [10, 0, 0, 7 | 8] | [168, 63, 129, 16]
                    )
            }
            IpAddr::V6(v6) => {
                !v6.is_loopback()
                    && !v6.is_unicast_link_local()
                    && !v6.is_multicast()
                    && !v6.is_unspecified()
            }
        }
}
