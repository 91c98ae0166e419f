//! Private networks in the API, and their routes.

use std::time::Duration;

use ccm_guest::http::Request;
use ccm_guest::{Error, state};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::actions::Action;
use super::refusal::{self, Refusal};
use super::{API, NoError, found, ok};

/// How long the id of a network is remembered by its name. Networks are made by people and never change their id.
pub(super) const NETWORK_KNOWN: Duration = Duration::from_secs(600);

/// A network, as far as routes are concerned. No field has a default: what is missing must not look like nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Unique for ever.
    pub id: u64,
    /// Every address in it.
    pub ip_range: String,
    /// Its parts. Members have addresses in them and nowhere else.
    pub subnets: Vec<Subnet>,
    /// Its routes.
    pub routes: Vec<Route>,
    /// The ids of the servers in it.
    pub servers: Vec<u64>,
    /// The ids of the load balancers in it. The vendor's description does not promise the field.
    #[serde(default)]
    pub load_balancers: Vec<u64>,
}

/// A part of a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// Every address in it. The vendor's description does not promise the field.
    #[serde(default)]
    pub ip_range: Option<String>,
    /// The address that servers in it send through.
    pub gateway: String,
    /// `cloud`, `server` or `vswitch`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Packets for `destination` go to `gateway`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Route {
    /// A range or an address.
    pub destination: String,
    /// An address.
    pub gateway: String,
}

/// The id of the network that `name_or_id` names. A number is an id first, and a name if there is no
/// such id. Remembered for ten minutes.
///
/// # Errors
/// [`Error::Invalid`] when there is no such network.
pub fn network_id(name_or_id: &str) -> Result<u64, Error> {
    if let Some(id) = remembered(name_or_id) {
        return Ok(id);
    }
    let Identified { id } = ask(name_or_id)?;
    remember(name_or_id, id);
    Ok(id)
}

/// The network that `name_or_id` names, as it is now: one request, but for the first one of a name that is a number.
///
/// # Errors
/// [`Error::Invalid`] when there is no such network; why it is not known.
pub fn network(name_or_id: &str) -> Result<Network, Error> {
    if let Some(id) = remembered(name_or_id) {
        let network: Option<Network> = by_id(id)?;
        match network {
            Some(network) if network.id == id => return Ok(network),
            Some(network) => {
                return Err(Error::unavailable(format!(
                    "network {id} was asked for and network {} came",
                    network.id
                )));
            }
            // Another one may have its name by now.
            None => state::delete(&key(name_or_id)),
        }
    }
    let network: Network = ask(name_or_id)?;
    remember(name_or_id, network.id);
    Ok(network)
}

/// Begins to add the route, or to delete it. `action` is the change's name in the API's path.
///
/// # Errors
/// Why it is not begun.
pub fn begin(
    network: u64,
    action: &str,
    destination: &str,
    gateway: &str,
) -> Result<Action, Refusal> {
    let path = format!("/networks/{network}/actions/{action}");
    let body = json!({"destination": destination, "gateway": gateway});
    let response = refusal::accepted(Request::post(API, path).json(&body)?.send()?)?;
    let answer: ActionAnswer = response.json()?;
    Ok(answer.action)
}

fn key(name_or_id: &str) -> String {
    format!("network/{name_or_id}")
}

fn remembered(name_or_id: &str) -> Option<u64> {
    let bytes = state::get(&key(name_or_id))?.try_into().ok()?;
    Some(u64::from_be_bytes(bytes))
}

fn remember(name_or_id: &str, id: u64) {
    state::set(&key(name_or_id), &id.to_be_bytes(), NETWORK_KNOWN);
}

fn by_id<T: DeserializeOwned>(id: u64) -> Result<Option<T>, Error> {
    let response = Request::get(API, format!("/networks/{id}")).send()?;
    let Some(response) = found(response)? else {
        return Ok(None);
    };
    let answer: NetworkAnswer<T> = response.json()?;
    Ok(Some(answer.network))
}

fn ask<T: DeserializeOwned>(name_or_id: &str) -> Result<T, Error> {
    if let Ok(id) = name_or_id.parse::<u64>()
        && let Some(network) = by_id(id)?
    {
        return Ok(network);
    }
    let response = ok(Request::get(API, "/networks")
        .query("name", name_or_id)
        .send()?)?;
    let answer: NetworksAnswer<T> = response.json()?;
    let mut networks = answer.networks.into_iter();
    match (networks.next(), networks.next()) {
        (Some(network), None) => Ok(network),
        (None, _) => Err(Error::invalid(format!(
            "HCLOUD_NETWORK: there is no network {name_or_id:?} in the project"
        ))),
        (Some(_), Some(_)) => Err(Error::unavailable(format!(
            "more than one network is named {name_or_id:?}"
        ))),
    }
}

#[derive(Deserialize)]
struct NetworkAnswer<T> {
    network: T,
}

#[derive(Deserialize)]
struct NetworksAnswer<T> {
    #[serde(default, rename = "error")]
    _error: NoError,
    networks: Vec<T>,
}

#[derive(Deserialize)]
struct Identified {
    id: u64,
}

#[derive(Deserialize)]
struct ActionAnswer {
    action: Action,
}
