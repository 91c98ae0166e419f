//! The execution of a call about a load balancer: a sound provider in front of a sound cloud. It looks the load
//! balancer up, asks the permit for each change, makes it, and reports unfinished changes as pending. Deviations from
//! this are in `load_balancer_answers.rs`.

use std::sync::Arc;

use ccm_core::cloud::load_balancer::{
    CloudService, Ingress, LoadBalancerStatus, Pending, TrafficPolicy,
};
use ccm_core::cloud::{Owner, ProviderError};
use ccm_core::safety::permit::Permit;
use tokio::time::Instant;

use super::{Ask, Balancer, Called, Changed, LoadBalancers, Operation, State, Told, key_of};
use crate::broken_clients::Tamper;
use crate::cloud_changes::{self, AGAIN, Halt, LATENCY};
use crate::disturbance::CallFault;
use crate::load_balancer_answers as answers;

/// The prefix of annotations that a load balancer depends on.
const OPTION: &str = "sim.example/with-";
/// A call that has begun. It ends when its future is dropped.
struct Open {
    balancers: LoadBalancers,
    number: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        let ended = (Instant::now(), (self.balancers.sequence)());
        self.balancers.state().calls[self.number].ended = Some(ended);
    }
}

/// Why a call has no regular answer.
enum Stop {
    Error(ProviderError),
    Halt(Halt),
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Stop {
        Stop::Halt(halt)
    }
}

impl Told {
    /// The answer that no load balancer exists.
    fn none() -> Told {
        Told {
            pending: None,
            status: None,
            complete: true,
        }
    }
}

impl LoadBalancers {
    /// One call, as the cloud carries it out.
    pub(crate) async fn call(
        self,
        ask: Ask,
        permit: Arc<Permit>,
        fault: Option<CallFault>,
    ) -> Result<Told, ProviderError> {
        let open = self.begin(&ask);
        let answer = self.carry_out(&ask, &permit, fault).await;
        self.state().calls[open.number].answer = Some(answer.clone());
        drop(open);
        answers::as_understood(self.tamper, answer)
    }

    fn begin(&self, ask: &Ask) -> Open {
        let after = (self.sequence)();
        let mut state = self.state();
        state.calls.push(Called {
            operation: ask.operation,
            uid: ask.service.uid.clone(),
            adopt: ask.adopt.clone(),
            hint: ask.hint.clone(),
            process: self.process,
            at: Instant::now(),
            after,
            ended: None,
            answer: None,
        });
        Open {
            balancers: self.clone(),
            number: state.calls.len() - 1,
        }
    }

    async fn carry_out(
        &self,
        ask: &Ask,
        permit: &Permit,
        fault: Option<CallFault>,
    ) -> Result<Told, ProviderError> {
        answers::before(fault).await?;
        let name = key_of(&ask.service);
        let error = self.state().answers.error(&name, ask.operation);
        if let Some(error) = error {
            return Err(error);
        }
        tokio::time::sleep(LATENCY).await;
        let honest = match ask.operation {
            Operation::Ensure => self.ensure(ask, permit),
            Operation::Update => self.update(ask, permit),
            Operation::Delete => self.delete(ask, permit),
            Operation::Get => Ok(self.look(ask)),
        };
        let honest = match honest {
            Ok(reported) => Ok(reported),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Halt(halt)) => Err(halt.into_error().await),
        };
        let reported = honest?;
        let reported = self.state().answers.instead(&name, ask.operation, reported);
        answers::after(fault, ask, reported).await
    }

    fn ensure(&self, ask: &Ask, permit: &Permit) -> Result<Told, Stop> {
        let (uid, name) = (&ask.service.uid, key_of(&ask.service));
        let index = match self
            .find(uid)
            .filter(|_| self.tamper != Some(Tamper::MakesTwice))
        {
            Some(index) => index,
            None => match self.named(&name) {
                Some((index, owner)) if self.may_take(ask, owner.as_deref()) => {
                    self.change(permit, ask, "adopt", Some(index), |state| {
                        state.all[index].owner = Some(uid.clone());
                    })?;
                    index
                }
                Some((_, owner)) => {
                    return Err(Stop::Error(ProviderError::Conflict {
                        message: format!("{name} belongs to somebody else"),
                        owner: owner.map(Owner::Uid),
                    }));
                }
                None => self.change(permit, ask, "create", None, |state| {
                    state.make(uid, &name, ask);
                    state.all.len() - 1
                })?,
            },
        };
        if let Some(pending) = self.busy(index) {
            return Ok(pending);
        }
        let balancer = self.state().all[index].clone();
        let settings = settings(&ask.service);
        if balancer.settings != settings {
            self.change(permit, ask, "settings", Some(index), |state| {
                state.all[index].settings = settings;
                state.work(index);
            })?;
        }
        if balancer.targets != ask.targets {
            self.retarget(index, ask, permit)?;
        }
        Ok(self.busy(index).unwrap_or_else(|| self.status(index)))
    }

    fn update(&self, ask: &Ask, permit: &Permit) -> Result<Told, Stop> {
        let Some(index) = self.find(&ask.service.uid) else {
            return Err(Stop::Error(ProviderError::Unavailable(
                "there is no load balancer".to_owned(),
            )));
        };
        if let Some(pending) = self.busy(index) {
            return Ok(pending);
        }
        if self.state().all[index].targets != ask.targets {
            self.retarget(index, ask, permit)?;
        }
        Ok(self.busy(index).unwrap_or_else(|| self.status(index)))
    }

    fn retarget(&self, index: usize, ask: &Ask, permit: &Permit) -> Result<(), Stop> {
        Ok(self.change(permit, ask, "targets", Some(index), |state| {
            state.all[index].targets = ask.targets.clone();
            state.work(index);
        })?)
    }

    fn delete(&self, ask: &Ask, permit: &Permit) -> Result<Told, Stop> {
        let name = key_of(&ask.service);
        let index = match self.tamper {
            Some(Tamper::DeletesByName) => self.named(&name).map(|(index, _)| index),
            _ => self.find(&ask.service.uid),
        };
        let (Some(index), false) = (index, self.state().answers.stays(&name)) else {
            return Ok(Told::none());
        };
        let has_begun = self.state().all[index].gone.is_some();
        if !has_begun {
            if let Some(pending) = self.busy(index) {
                return Ok(pending);
            }
            self.change(permit, ask, "delete", Some(index), |state| {
                state.work(index);
                state.all[index].gone = Some(state.all[index].busy_until);
            })?;
        }
        Ok(self.busy(index).unwrap_or_else(Told::none))
    }

    fn look(&self, ask: &Ask) -> Told {
        self.find(&ask.service.uid)
            .map_or_else(Told::none, |index| self.status(index))
    }

    fn find(&self, uid: &str) -> Option<usize> {
        let (state, now) = (self.state(), Instant::now());
        let is_it = |one: &Balancer| one.owner.as_deref() == Some(uid) && one.exists(now);
        state.all.iter().position(is_it)
    }

    fn named(&self, name: &str) -> Option<(usize, Option<String>)> {
        let (state, now) = (self.state(), Instant::now());
        let is_it = |one: &Balancer| one.name == name && one.exists(now);
        let index = state.all.iter().position(is_it)?;
        Some((index, state.all[index].owner.clone()))
            .filter(|_| self.tamper != Some(Tamper::MakesTwice))
    }

    fn may_take(&self, ask: &Ask, owner: Option<&str>) -> bool {
        self.tamper == Some(Tamper::TakesOver) || ask.adopt.as_deref() == Some(owner.unwrap_or(""))
    }

    /// The pending answer if a change is under way.
    fn busy(&self, index: usize) -> Option<Told> {
        let (state, now) = (self.state(), Instant::now());
        let hint = format!("{}/{}", state.all[index].name, state.changes.len());
        let reported = Told {
            pending: Some(Pending {
                retry_after: AGAIN,
                hint: Some(hint.into_bytes().into()),
            }),
            status: None,
            complete: true,
        };
        (state.all[index].busy_until > now).then_some(reported)
    }

    fn status(&self, index: usize) -> Told {
        let state = self.state();
        let ingress = Ingress {
            ip: Some(state.all[index].ip()),
            ..Ingress::default()
        };
        Told {
            pending: None,
            status: Some(LoadBalancerStatus {
                ingress: vec![ingress],
            }),
            complete: true,
        }
    }

    /// A change, as the egress makes it: permitted, carried out, reported.
    fn change<T>(
        &self,
        permit: &Permit,
        ask: &Ask,
        what: &'static str,
        index: Option<usize>,
        change: impl FnOnce(&mut State) -> T,
    ) -> Result<T, Halt> {
        let path = format!("/load_balancers/{what}");
        let is_asked = self.tamper != Some(Tamper::ChangesUnasked);
        cloud_changes::change(permit, &path, is_asked, || {
            let mut state = self.state();
            let owner = index.and_then(|index| state.all[index].owner.clone());
            state.changes.push(Changed {
                what,
                uid: ask.service.uid.clone(),
                owner,
                at: Instant::now(),
            });
            change(&mut state)
        })
    }
}

impl State {
    fn make(&mut self, uid: &str, name: &str, ask: &Ask) {
        let now = Instant::now();
        let (address, _) = self.known.get(uid).cloned().unwrap_or_default();
        self.all.push(Balancer {
            name: name.to_owned(),
            owner: Some(uid.to_owned()),
            settings: settings(&ask.service),
            targets: ask.targets.clone(),
            address,
            busy_until: now,
            made: now,
            gone: None,
        });
        self.work(self.all.len() - 1);
    }
}

/// The parts of a Service that a load balancer depends on.
fn settings(service: &CloudService) -> Vec<String> {
    let mut settings: Vec<String> = service
        .ports
        .iter()
        .map(|port| {
            let node_port = port
                .node_port
                .map_or("-".to_owned(), |port| port.to_string());
            format!("{}:{node_port}/{}", port.port, port.protocol.as_str())
        })
        .collect();
    if service.external_traffic_policy == Some(TrafficPolicy::Local) {
        settings.push("Local".to_owned());
    }
    settings.extend(service.source_ranges.iter().cloned());
    let ours = service.annotations.iter();
    let ours = ours.filter(|(key, _)| key.starts_with(OPTION));
    settings.extend(ours.map(|(key, value)| format!("{key}={value}")));
    settings
}
