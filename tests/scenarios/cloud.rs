//! A cloud that answers as the script says. Knows nothing of Kubernetes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::cloud::{
    Address, AddressType, Capabilities, CloudNode, CloudProvider, FindReply, Instance, Lookup,
    ProviderError, Reply,
};
use ccm_core::permit::Permit;

use crate::script::Line;

/// The provider `sim` with the scheme `sim`. Clones are the same cloud.
#[derive(Clone, Default)]
pub(crate) struct ScriptedCloud {
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    /// By the name of the node. Who is not in here is not this cloud's.
    lookups: BTreeMap<String, Lookup>,
    /// Instead of every answer.
    error: Option<ProviderError>,
    /// The sizes of the calls since they were asked for last.
    calls: Vec<usize>,
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

    fn find<'a>(&'a self, nodes: &'a [CloudNode], _: Arc<Permit>) -> Reply<'a, FindReply> {
        let mut said = self.said.lock().unwrap();
        said.calls.push(nodes.len());
        let answer = match &said.error {
            Some(error) => Err(error.clone()),
            None => Ok(FindReply {
                lookups: nodes
                    .iter()
                    .map(|node| {
                        said.lookups
                            .get(&node.name)
                            .cloned()
                            .unwrap_or(Lookup::NotMine)
                    })
                    .collect(),
                events: Vec::new(),
                complete: true,
            }),
        };
        Box::pin(async move { answer })
    }
}
