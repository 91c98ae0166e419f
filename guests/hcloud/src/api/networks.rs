//! API calls for private networks and their routes.

use std::time::Duration;

use ccm_guest::http::Request;
use ccm_guest::{Error, state};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::actions::{self, Action};
use super::refusal::{self, Refusal};
use super::{API, NoError};

/// How long the id for a network name counts without a request.
pub(super) const NETWORK_KNOWN: Duration = Duration::from_secs(600);
/// How long this network is read again by its id and not by its name: as long as the host keeps anything.
const NETWORK_KEPT: Duration = Duration::from_secs(3600);

/// A network, limited to the fields for routes. No field has a default, so that missing data does not look like empty
/// data.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Unique; never reused.
    pub id: u64,
    /// The address range of the network.
    pub ip_range: String,
    /// The network's subnets. Members have addresses only in subnets.
    pub subnets: Vec<Subnet>,
    /// All routes of the network, also those of other clusters.
    pub routes: Vec<Route>,
    /// Ids of the attached servers.
    pub servers: Vec<u64>,
    /// Ids of the attached load balancers. The vendor's documentation does not guarantee this field.
    #[serde(default)]
    pub load_balancers: Vec<u64>,
}

/// A subnet of a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// The address range. The vendor's documentation does not guarantee this field.
    pub ip_range: Option<String>,
    /// The gateway of the servers in the subnet.
    pub gateway: String,
    /// `cloud`, `server` or `vswitch`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A route: packets for `destination` go to `gateway`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Route {
    /// A range or a single address.
    pub destination: String,
    /// The next hop's address.
    pub gateway: String,
}

/// The id of the network `name_or_id`. A number is tried as an id first, then as a name. Cached for ten minutes.
///
/// # Errors
/// [`Error::Invalid`] when there is no such network.
pub fn network_id(name_or_id: &str) -> Result<u64, Error> {
    if let Some(id) = remembered(&known(name_or_id)) {
        return Ok(id);
    }
    let Identified { id } = read(name_or_id)?;
    Ok(id)
}

/// Reads the network `name_or_id`. One request, except for the first one for a numeric name.
///
/// # Errors
/// [`Error::Invalid`] when there is no such network; otherwise the reason why it is not known.
pub fn network(name_or_id: &str) -> Result<Network, Error> {
    read(name_or_id)
}

/// Reads the network that was found under this name before, whatever it is called now. Otherwise renaming it would stop
/// this generation, and giving its name to another one would move the cluster there.
fn read<T: Numbered>(name_or_id: &str) -> Result<T, Error> {
    let network: Option<T> = match remembered(&kept(name_or_id)) {
        Some(id) => by_id(id)?,
        None => None,
    };
    let network = match network {
        Some(network) => network,
        None => {
            // If the network was deleted, another one may have its name now.
            state::delete(&known(name_or_id));
            state::delete(&kept(name_or_id));
            ask(name_or_id)?
        }
    };
    let id = network.id().to_be_bytes();
    state::set(&known(name_or_id), &id, NETWORK_KNOWN);
    state::set(&kept(name_or_id), &id, NETWORK_KEPT);
    Ok(network)
}

/// Starts adding or deleting a route. `action` is the operation's name in the API path.
///
/// # Errors
/// The reason why it was not started.
pub fn begin(
    network: u64,
    action: &str,
    destination: &str,
    gateway: &str,
) -> Result<Action, Refusal> {
    let path = format!("/networks/{network}/actions/{action}");
    let body = json!({"destination": destination, "gateway": gateway});
    actions::begin(path, &body)
}

fn known(name_or_id: &str) -> String {
    format!("network/{name_or_id}")
}

fn kept(name_or_id: &str) -> String {
    format!("network-kept/{name_or_id}")
}

fn remembered(key: &str) -> Option<u64> {
    let bytes = state::get(key)?.try_into().ok()?;
    Some(u64::from_be_bytes(bytes))
}

fn by_id<T: Numbered>(id: u64) -> Result<Option<T>, Error> {
    let response = Request::get(API, format!("/networks/{id}")).send()?;
    let Some(response) = refusal::found(response)? else {
        return Ok(None);
    };
    let NetworkAnswer::<T> { network } = response.json()?;
    match network.id() {
        came if came == id => Ok(Some(network)),
        came => Err(Error::unavailable(format!(
            "network {id} was asked for and network {came} came"
        ))),
    }
}

fn ask<T: Numbered>(name_or_id: &str) -> Result<T, Error> {
    if let Ok(id) = name_or_id.parse::<u64>()
        && let Some(network) = by_id(id)?
    {
        return Ok(network);
    }
    let list = Request::get(API, "/networks").query("name", name_or_id);
    let answer: NetworksAnswer<T> = super::read(list)?;
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

/// What is read of a network, with its id.
trait Numbered: DeserializeOwned {
    fn id(&self) -> u64;
}

impl Numbered for Network {
    fn id(&self) -> u64 {
        self.id
    }
}

#[derive(Deserialize)]
struct Identified {
    id: u64,
}

impl Numbered for Identified {
    fn id(&self) -> u64 {
        self.id
    }
}
