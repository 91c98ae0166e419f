//! A cloud that answers as the script says, apart from the one call that is to go wrong. Knows nothing of Kubernetes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::{
    Address, AddressType, Capabilities, CloudNode, CloudProvider, FindReply, Instance, Lookup,
    ProviderError, Reply,
};
use ccm_core::permit::Permit;

use tokio::time::Instant;

use crate::disturbance::CallFault;
use crate::life::{Act, Life};
use crate::script::Line;

/// How long a slow answer takes; shorter than a call may last.
const SLOW: Duration = Duration::from_secs(20);
/// What a throttled call asks for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The provider `sim` with the scheme `sim`. Clones are the same cloud.
#[derive(Clone, Default)]
pub(crate) struct ScriptedCloud {
    said: Arc<Mutex<Said>>,
    /// Of the process that calls; `None`: nobody kills it.
    life: Option<Life>,
}

/// What the cloud answered about one node.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    /// When, on tokio's clock.
    pub(crate) at: Instant,
    /// Counts the calls from 1.
    pub(crate) call: usize,
    /// The node's name.
    pub(crate) node: String,
    /// The answer.
    pub(crate) lookup: Lookup,
    /// Whether it may prove absence.
    pub(crate) complete: bool,
}

#[derive(Default)]
struct Said {
    /// By the name of the node. Who is not in here is not this cloud's.
    lookups: BTreeMap<String, Lookup>,
    /// Instead of every answer.
    error: Option<ProviderError>,
    /// The sizes of the calls since they were asked for last.
    calls: Vec<usize>,
    /// How many calls were made in all.
    made: usize,
    /// What is wrong with which call.
    fault: Option<(CallFault, usize)>,
    answered: Vec<Answered>,
}

impl ScriptedCloud {
    /// `cloud …`: see `README.md`.
    pub(crate) fn say(&self, line: &Line) -> Result<(), String> {
        let mut said = self.said.lock().unwrap();
        match line.word(1)? {
            "works" => said.error = None,
            "fails" => said.error = Some(error(line)?),
            name => {
                let lookup = match line.word(2)? {
                    "gone" => Lookup::Gone,
                    "not-mine" => Lookup::NotMine,
                    "unknown" => Lookup::Unknown(line.rest(3)),
                    _ => Lookup::Found(Box::new(instance(line)?)),
                };
                said.lookups.insert(name.to_owned(), lookup);
            }
        }
        Ok(())
    }

    /// From now on the so many-th call has this fault.
    pub(crate) fn disturb(&self, fault: CallFault, number: usize) {
        self.said.lock().unwrap().fault = Some((fault, number));
    }

    /// The same cloud, called by a process with this life.
    pub(crate) fn called_by(&self, life: Life) -> ScriptedCloud {
        ScriptedCloud {
            said: self.said.clone(),
            life: Some(life),
        }
    }

    /// How many calls were made.
    pub(crate) fn made(&self) -> usize {
        self.said.lock().unwrap().made
    }

    /// Every answer about every node.
    pub(crate) fn answered(&self) -> Vec<Answered> {
        self.said.lock().unwrap().answered.clone()
    }

    /// How many nodes each call was about, since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.said.lock().unwrap().calls)
    }
}

fn error(line: &Line) -> Result<ProviderError, String> {
    Ok(match line.word(2)? {
        "throttled" => {
            let seconds = line
                .word(3)?
                .parse()
                .map_err(|_| "throttled wants seconds".to_owned())?;
            ProviderError::Throttled {
                message: "slow down".to_owned(),
                retry_after: Some(Duration::from_secs(seconds)),
            }
        }
        "unavailable" => ProviderError::Unavailable(line.rest(3)),
        "denied" => ProviderError::Denied(line.rest(3)),
        "trapped" => ProviderError::Trapped(line.rest(3)),
        other => return Err(format!("no provider error is called {other:?}")),
    })
}

fn instance(line: &Line) -> Result<Instance, String> {
    let mut instance = Instance::default();
    for (key, value) in line.pairs(2)? {
        match key {
            "id" => instance.provider_id = value.to_owned(),
            "type" => instance.instance_type = Some(value.to_owned()),
            "zone" => instance.zone = Some(value.to_owned()),
            "region" => instance.region = Some(value.to_owned()),
            "addr" => instance.addresses.push(address(value)?),
            "label" => {
                let (key, value) = value.split_once(':').ok_or("label wants KEY:VALUE")?;
                instance.labels.push((key.to_owned(), value.to_owned()));
            }
            other => return Err(format!("an instance has no {other:?}")),
        }
    }
    Ok(instance)
}

fn address(text: &str) -> Result<Address, String> {
    let (kind, address) = text.split_once(':').ok_or("addr wants TYPE:ADDRESS")?;
    let address_type =
        AddressType::parse(kind).ok_or_else(|| format!("no address type is called {kind:?}"))?;
    Ok(Address {
        address_type,
        address: address.to_owned(),
    })
}

impl CloudProvider for ScriptedCloud {
    fn name(&self) -> &str {
        "sim"
    }

    fn schemes(&self) -> &[String] {
        static SCHEMES: std::sync::LazyLock<Vec<String>> =
            std::sync::LazyLock::new(|| vec!["sim".to_owned()]);
        &SCHEMES
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            instances: true,
            ..Capabilities::default()
        }
    }

    fn find_fresh<'a>(
        &'a self,
        nodes: &'a [CloudNode],
        permit: Arc<Permit>,
    ) -> Reply<'a, FindReply> {
        self.find(nodes, permit)
    }

    fn find<'a>(&'a self, nodes: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let call = answer(self.said.clone(), names);
        match self.life.clone() {
            Some(life) => Box::pin(async move { life.effect(Act::Call, call).await }),
            None => Box::pin(call),
        }
    }
}

/// One call, as it is carried out at the cloud.
async fn answer(said: Arc<Mutex<Said>>, names: Vec<String>) -> Result<FindReply, ProviderError> {
    let (fault, honest) = {
        let mut said = said.lock().unwrap();
        said.made += 1;
        said.calls.push(names.len());
        let made = said.made;
        let fault = said.fault.filter(|(_, number)| *number == made);
        (fault.map(|(fault, _)| fault), said.honest(&names))
    };
    let reply = disturbed(honest, fault).await;
    if let Ok(reply) = &reply {
        said.lock().unwrap().note(&names, reply);
    }
    reply
}

impl Said {
    fn honest(&self, names: &[String]) -> Result<FindReply, ProviderError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let known = |name: &String| self.lookups.get(name).cloned();
        Ok(FindReply {
            lookups: names
                .iter()
                .map(|name| known(name).unwrap_or(Lookup::NotMine))
                .collect(),
            events: Vec::new(),
            complete: true,
        })
    }

    fn note(&mut self, names: &[String], reply: &FindReply) {
        let call = self.made;
        let answered = names
            .iter()
            .zip(&reply.lookups)
            .map(|(node, lookup)| Answered {
                at: Instant::now(),
                call,
                node: node.clone(),
                lookup: lookup.clone(),
                complete: reply.complete,
            });
        self.answered.extend(answered);
    }
}

async fn disturbed(
    honest: Result<FindReply, ProviderError>,
    fault: Option<CallFault>,
) -> Result<FindReply, ProviderError> {
    let why = || "injected".to_owned();
    let Some(fault) = fault else {
        return honest;
    };
    match fault {
        CallFault::Throttled => Err(ProviderError::Throttled {
            message: why(),
            retry_after: Some(PATIENCE),
        }),
        CallFault::Unavailable => Err(ProviderError::Unavailable(why())),
        CallFault::Denied => Err(ProviderError::Denied(why())),
        CallFault::Trapped => Err(ProviderError::Trapped(why())),
        CallFault::Slow => {
            tokio::time::sleep(SLOW).await;
            honest
        }
        CallFault::Endless => std::future::pending().await,
        CallFault::NobodyMine => everybody(honest, |_, _| Lookup::NotMine),
        CallFault::AllGone => everybody(honest, |_, _| Lookup::Gone),
        CallFault::Partial => everybody(honest, |index, lookup| match index % 2 {
            0 => Lookup::Unknown("injected".to_owned()),
            _ => lookup,
        }),
        CallFault::Short => honest.map(|mut reply| {
            reply.lookups.pop();
            reply
        }),
        CallFault::Incomplete => honest.map(|mut reply| {
            reply.complete = false;
            reply
        }),
    }
}

fn everybody(
    honest: Result<FindReply, ProviderError>,
    answer: fn(usize, Lookup) -> Lookup,
) -> Result<FindReply, ProviderError> {
    honest.map(|mut reply| {
        let lookups = reply.lookups.into_iter().enumerate();
        reply.lookups = lookups.map(|(index, one)| answer(index, one)).collect();
        reply
    })
}
