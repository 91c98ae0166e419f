//! The parts of a script's lines about a cloud's answers: errors, machines and addresses. Reads and refuses.

use std::time::Duration;

use ccm_core::cloud::{Address, AddressType, Instance, Owner, ProviderError};

use crate::script::Line;

/// The error in a line, from the word at `from` on.
pub(crate) fn error(line: &Line, from: usize) -> Result<ProviderError, String> {
    let why = line.rest(from + 1);
    Ok(match line.word(from)? {
        "throttled" => {
            let seconds = line
                .word(from + 1)?
                .parse()
                .map_err(|_| "throttled wants seconds".to_owned())?;
            ProviderError::Throttled {
                message: "slow down".to_owned(),
                retry_after: Some(Duration::from_secs(seconds)),
            }
        }
        "conflict" => ProviderError::Conflict {
            message: "somebody else has it".to_owned(),
            owner: (!why.is_empty()).then_some(Owner::Uid(why)),
        },
        "elsewhere" => ProviderError::Elsewhere,
        "invalid" => ProviderError::Invalid(why),
        "unsupported" => ProviderError::Unsupported(why),
        "unavailable" => ProviderError::Unavailable(why),
        "internal" => ProviderError::Internal(why),
        "denied" => ProviderError::Denied(why),
        "trapped" => ProviderError::Trapped(why),
        other => return Err(format!("no provider error is called {other:?}")),
    })
}

/// The machine in a line, after the node's name.
pub(crate) fn instance(line: &Line) -> Result<Instance, String> {
    let mut instance = Instance::default();
    for (key, value) in line.pairs(2)? {
        match key {
            "id" => instance.provider_id = value.to_owned(),
            "type" => instance.instance_type = Some(value.to_owned()),
            "zone" => instance.zone = Some(value.to_owned()),
            "region" => instance.region = Some(value.to_owned()),
            "shutdown" => {
                let value = value.parse().map_err(|_| "shutdown wants true or false")?;
                instance.shutdown = Some(value);
            }
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
