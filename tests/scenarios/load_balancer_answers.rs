//! The deviations from the truth about load balancers: a script's errors, delays and lies, one injected fault, and a
//! defective manager's reading of an answer. Knows no load balancer.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    AnnotationChange, Ingress, IpMode, LoadBalancerStatus, Pending, PortStatus, Protocol,
};
use ccm_core::cloud::{CloudEvent, EventType, ProviderError};

use crate::broken_clients::Tamper;
use crate::cloud::{SLOW, TIMEOUT};
use crate::cloud_lines::error;
use crate::disturbance::CallFault;
use crate::load_balancers::{Ask, LoadBalancers, Operation, Told, key};
use crate::script::Line;
use crate::world::seconds;

/// The prefix of annotations that the provider may set.
pub(crate) const PREFIX: &str = "sim.example/";

/// The script's lines about answers, by load balancer name.
#[derive(Default)]
pub(crate) struct Answers {
    /// By name (`*`: all load balancers) and operation.
    errors: BTreeMap<(String, Option<Operation>), ProviderError>,
    takes: BTreeMap<String, Duration>,
    instead: BTreeMap<String, LoadBalancerStatus>,
    /// The words `stays`, `hides` and `incomplete`, by name.
    lies: BTreeMap<String, Vec<String>>,
    events: BTreeMap<String, Vec<CloudEvent>>,
    annotations: BTreeMap<String, Vec<AnnotationChange>>,
}

/// `balancer NAME …`: see `README.md`.
pub(crate) fn apply(balancers: &LoadBalancers, line: &Line) -> Result<(), String> {
    let name = match line.word(1)? {
        "*" => "*".to_owned(),
        name => key(name),
    };
    match line.word(2)? {
        "exists" => {
            let owner = match line.word(3)? {
                "nobody" => None,
                owner => Some(owner.strip_prefix("service/").map_or(owner.to_owned(), key)),
            };
            balancers.exists(&name, owner.as_deref());
            Ok(())
        }
        "vanishes" => balancers.vanishes(&name),
        _ => balancers.answers(|answers| answers.apply(name, line)),
    }
}

impl Answers {
    fn apply(&mut self, name: String, line: &Line) -> Result<(), String> {
        match line.word(2)? {
            "takes" => drop(self.takes.insert(name, seconds(line.word(3)?)?)),
            "fails" => {
                let operation = Operation::named(line.word(3)?);
                let error = error(line, if operation.is_some() { 4 } else { 3 })?;
                self.errors.insert((name, operation), error);
            }
            "works" => self
                .errors
                .retain(|(one, _), _| name != "*" && *one != name),
            "answers" => drop(self.instead.insert(name, status(line)?)),
            lie @ ("stays" | "hides" | "incomplete") => {
                self.lies.entry(name).or_default().push(lie.to_owned());
            }
            "says" => {
                let event = CloudEvent::new(EventType::Warning, line.word(3)?, line.rest(4));
                self.events.entry(name).or_default().push(event);
            }
            "annotates" => {
                let (key, value) = line.word(3)?.split_once('=').ok_or("KEY=VALUE")?;
                let change = AnnotationChange {
                    key: key.to_owned(),
                    value: (value != "-").then(|| value.to_owned()),
                };
                self.annotations.entry(name).or_default().push(change);
            }
            "honest" => {
                self.instead.remove(&name);
                self.lies.remove(&name);
                self.events.remove(&name);
                self.annotations.remove(&name);
            }
            other => return Err(format!("a load balancer does not {other:?}")),
        }
        Ok(())
    }

    /// The error of such a call, by the script.
    pub(crate) fn error(&self, name: &str, operation: Operation) -> Option<ProviderError> {
        let about = |name: &str, operation| self.errors.get(&(name.to_owned(), operation));
        let found = about(name, Some(operation)).or(about(name, None));
        let found = found.or(about("*", Some(operation))).or(about("*", None));
        found.cloned()
    }

    /// The duration of a change.
    pub(crate) fn takes(&self, name: &str) -> Duration {
        let reported = self.takes.get(name).or(self.takes.get("*"));
        reported.copied().unwrap_or_default()
    }

    fn lies(&self, name: &str, lie: &str) -> bool {
        let lies = self.lies.get(name);
        lies.is_some_and(|lies| lies.iter().any(|one| one == lie))
    }

    /// Whether deletions are falsely reported as done.
    pub(crate) fn stays(&self, name: &str) -> bool {
        self.lies(name, "stays")
    }

    /// The answer with the lie in place of the truth.
    pub(crate) fn instead(&self, name: &str, operation: Operation, mut told: Told) -> Told {
        if let (Some(status), Some(_)) = (self.instead.get(name), &told.status) {
            told.status = Some(status.clone());
        }
        if operation == Operation::Get {
            if self.lies(name, "hides") {
                told.status = None;
            }
            told.complete &= !self.lies(name, "incomplete");
        }
        told
    }

    /// The Events and annotations in every answer about a change.
    pub(crate) fn besides(&self, name: &str) -> (Vec<CloudEvent>, Vec<AnnotationChange>) {
        let events = self.events.get(name).cloned().unwrap_or_default();
        (
            events,
            self.annotations.get(name).cloned().unwrap_or_default(),
        )
    }
}

/// The words `ip:192.0.2.9`, `ip:192.0.2.9/VIP`, `hostname:lb.example`, `port:80:Broken` of the one before,
/// `many:1000`, or `nothing`.
pub(crate) fn status(line: &Line) -> Result<LoadBalancerStatus, String> {
    let mut ingress: Vec<Ingress> = Vec::new();
    for word in line.words.iter().skip(3).filter(|word| *word != "nothing") {
        match word
            .split_once(':')
            .ok_or_else(|| format!("no ingress: {word:?}"))?
        {
            ("ip", ip) => {
                let (ip, mode) = ip
                    .split_once('/')
                    .map_or((ip, None), |(ip, mode)| (ip, Some(mode)));
                ingress.push(Ingress {
                    ip: Some(ip.to_owned()),
                    ip_mode: match mode {
                        None => None,
                        Some("VIP") => Some(IpMode::Vip),
                        Some("Proxy") => Some(IpMode::Proxy),
                        Some(mode) => return Err(format!("no mode is called {mode:?}")),
                    },
                    ..Ingress::default()
                });
            }
            ("hostname", name) => ingress.push(Ingress {
                hostname: Some(name.to_owned()),
                ..Ingress::default()
            }),
            ("port", port) => {
                let (port, error) = port.split_once(':').unwrap_or((port, ""));
                let last = ingress.last_mut().ok_or("a port of no ingress")?;
                last.ports.push(PortStatus {
                    port: port.parse().map_err(|_| format!("no port: {port:?}"))?,
                    protocol: Protocol::Tcp,
                    error: (!error.is_empty()).then(|| error.to_owned()),
                });
            }
            ("many", count) => {
                let count: u32 = count.parse().map_err(|_| format!("no number: {count:?}"))?;
                ingress.extend((0..count).map(|index| Ingress {
                    ip: Some(format!("198.18.{}.{}", index / 256, index % 256)),
                    ..Ingress::default()
                }));
            }
            (other, _) => return Err(format!("an ingress has no {other:?}")),
        }
    }
    Ok(LoadBalancerStatus { ingress })
}

/// Applies an injected fault before the call is carried out.
pub(crate) async fn before(fault: Option<CallFault>) -> Result<(), ProviderError> {
    let why = || "injected".to_owned();
    match fault {
        Some(CallFault::Throttled) => Err(ProviderError::Throttled {
            message: why(),
            retry_after: Some(TIMEOUT),
        }),
        Some(CallFault::Unavailable) => Err(ProviderError::Unavailable(why())),
        Some(CallFault::Denied) => Err(ProviderError::Denied(why())),
        Some(CallFault::Trapped) => Err(ProviderError::Trapped(why())),
        Some(CallFault::Endless) => std::future::pending().await,
        _ => Ok(()),
    }
}

/// Applies an injected fault to the answer of a call that was carried out.
pub(crate) async fn after(
    fault: Option<CallFault>,
    ask: &Ask,
    mut told: Told,
) -> Result<Told, ProviderError> {
    let operation = ask.operation;
    match fault {
        Some(CallFault::Lost) => {
            return Err(ProviderError::Unavailable("injected: 502".to_owned()));
        }
        Some(CallFault::Slow) => tokio::time::sleep(SLOW).await,
        // Reported as begun, and nothing is begun.
        Some(CallFault::Partial) if operation != Operation::Get => {
            told.pending = Some(Pending {
                retry_after: SLOW,
                hint: None,
            });
        }
        // These faults prove no absence.
        Some(CallFault::AllGone | CallFault::NobodyMine | CallFault::Incomplete)
            if operation == Operation::Get =>
        {
            told.status = None;
            told.complete = false;
        }
        // Once without an address, where there was one.
        Some(CallFault::Short) if !ask.service.status.ingress.is_empty() => {
            told.status = told.status.map(|_| LoadBalancerStatus::default());
        }
        _ => {}
    }
    Ok(told)
}

/// The answer as a manager with this defect understands it.
pub(crate) fn as_understood(
    tamper: Option<Tamper>,
    answer: Result<Told, ProviderError>,
) -> Result<Told, ProviderError> {
    match (tamper, answer) {
        (Some(Tamper::BelievesIncomplete), Ok(told)) => Ok(Told {
            complete: true,
            ..told
        }),
        (Some(Tamper::Impatient), Err(ProviderError::Throttled { message, .. })) => {
            Err(ProviderError::Unavailable(message))
        }
        (_, answer) => answer,
    }
}
