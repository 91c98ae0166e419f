//! Adapter for contract version 0.1: its functions are called with arguments of 0.2, and its answers are converted to
//! those of 0.2, so that the rest of this host needs no code for it.
//!
//! Only the types that differ from 0.2 are written here. WIT types are equal by their structure, so all others are
//! those of 0.2; the engine compares them with the component's before any of it runs (`function_types`).

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::bindings::{common, instances, lifecycle, load_balancer, routes};
use crate::function_types::{Component, FunctionCall, Functions};
use crate::sandbox::{Answer, Ask};

/// Maximum number of addresses of one instance; 0.2 allows more.
const ADDRESSES: usize = 32;

/// See `lifecycle.config`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Config<'a> {
    #[component(name = "cluster-name")]
    cluster_name: &'a str,
    #[component(name = "cluster-cidrs")]
    cluster_cidrs: &'a [String],
    values: &'a [(String, String)],
    extra: Vec<(&'static str, String)>,
}

/// See `common.node`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Node<'a> {
    name: &'a str,
    uid: &'a str,
    #[component(name = "provider-id")]
    provider_id: Option<&'a str>,
    labels: &'a [(String, String)],
    annotations: &'a [(String, String)],
    addresses: &'a [common::Address],
    #[component(name = "pod-cidrs")]
    pod_cidrs: &'a [String],
    #[component(name = "system-uuid")]
    system_uuid: Option<&'a str>,
    created: u64,
    extra: Vec<(&'static str, &'static str)>,
}

/// See `load-balancer.ensure-request`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct EnsureRequest<'a> {
    service: &'a load_balancer::Service,
    targets: Vec<Node<'a>>,
    adopt: Option<&'a str>,
    hint: Option<&'a [u8]>,
}

/// See `load-balancer.update-request`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct UpdateRequest<'a> {
    service: &'a load_balancer::Service,
    targets: Vec<Node<'a>>,
    hint: Option<&'a [u8]>,
}

/// See `routes.create-request`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct CreateRequest<'a> {
    node: Node<'a>,
    #[component(name = "destination-cidr")]
    destination_cidr: &'a str,
    hint: Option<&'a [u8]>,
}

/// See `common.conflict`.
#[derive(Debug, Clone, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Conflict {
    message: String,
    owner: Option<String>,
}

/// See `common.error`.
#[derive(Debug, Clone, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Error {
    #[component(name = "invalid")]
    Invalid(String),
    #[component(name = "denied")]
    Denied(String),
    #[component(name = "conflict")]
    Conflict(Conflict),
    #[component(name = "throttled")]
    Throttled(common::Throttled),
    #[component(name = "unavailable")]
    Unavailable(String),
    #[component(name = "unsupported")]
    Unsupported(String),
    #[component(name = "elsewhere")]
    Elsewhere,
    #[component(name = "internal")]
    Internal(String),
}

/// Return value of a function of this version.
pub(crate) type Returned<T> = (Result<T, Error>,);

impl<'a> From<&'a lifecycle::Config> for Config<'a> {
    fn from(config: &'a lifecycle::Config) -> Config<'a> {
        let targets = config.targets.iter().map(|target| target.name.as_str());
        let targets: Vec<&str> = targets.collect();
        Config {
            cluster_name: &config.cluster_name,
            cluster_cidrs: &config.cluster_cidrs,
            values: &config.values,
            extra: vec![("targets", targets.join(","))],
        }
    }
}

impl<'a> From<&'a common::Node> for Node<'a> {
    fn from(node: &'a common::Node) -> Node<'a> {
        let ready = match node.ready {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        };
        Node {
            name: &node.name,
            uid: &node.uid,
            provider_id: node.provider_id.as_deref(),
            labels: &node.labels,
            annotations: &node.annotations,
            addresses: &node.addresses,
            pod_cidrs: &node.pod_cidrs,
            system_uuid: node.system_uuid.as_deref(),
            created: node.created,
            extra: vec![("ready", ready)],
        }
    }
}

fn nodes(nodes: &[common::Node]) -> Vec<Node<'_>> {
    nodes.iter().map(Node::from).collect()
}

/// Argument `adopt` of 0.1. Guests of 0.1 cannot report an owner by name, so none has to be passed to them.
fn adopt(adopt: Option<&load_balancer::Adoption>) -> Option<&str> {
    match adopt? {
        load_balancer::Adoption::Owned(common::Owner::Uid(uid)) => Some(uid),
        load_balancer::Adoption::Owned(common::Owner::Name(_)) => None,
        load_balancer::Adoption::Unowned => Some(""),
    }
}

impl From<Error> for common::Error {
    fn from(error: Error) -> common::Error {
        match error {
            Error::Invalid(text) => common::Error::Invalid(text),
            Error::Denied(text) => common::Error::Denied(text),
            Error::Conflict(Conflict { message, owner }) => {
                let owner = owner.map(common::Owner::Uid);
                common::Error::Conflict(common::Conflict { message, owner })
            }
            Error::Throttled(throttled) => common::Error::Throttled(throttled),
            Error::Unavailable(text) => common::Error::Unavailable(text),
            Error::Unsupported(text) => common::Error::Unsupported(text),
            Error::Elsewhere => common::Error::Elsewhere,
            Error::Internal(text) => common::Error::Internal(text),
        }
    }
}

/// The answer to `find`, if it keeps to the limits of 0.1, where those of 0.2 are wider.
fn found(reply: instances::FindReply) -> Result<Answer, Error> {
    let addresses = reply.lookups.iter().map(|lookup| match lookup {
        instances::Lookup::Found(instance) => instance.addresses.len(),
        _ => 0,
    });
    for (index, count) in addresses.enumerate() {
        if count > ADDRESSES {
            return Err(Error::Internal(format!(
                "find, lookup {index}: {count} addresses, at most {ADDRESSES} allowed"
            )));
        }
    }
    Ok(Answer::Found(reply))
}

/// Finds the functions of a component, and compares their types with the contract's.
///
/// # Errors
/// The first function that is missing or has another type.
pub(crate) fn functions(component: &Component<'_>) -> wasmtime::Result<Functions> {
    use load_balancer::{DeleteRequest, EnsureReply, Found, ProgressReply, Service};
    let has = component.load.capabilities;
    let lifecycle = component.interface("ccm:provider/lifecycle@0.1.0", true);
    let self_check =
        component.interface("ccm:provider/self-check@0.1.0", component.load.self_check);
    let instances = component.interface("ccm:provider/instances@0.1.0", has.instances);
    let balancers = component.interface("ccm:provider/load-balancer@0.1.0", has.load_balancer);
    let routes = component.interface("ccm:provider/routes@0.1.0", has.routes);
    Ok(Functions {
        init: lifecycle
            .function::<(Config<'static>,), Returned<Vec<lifecycle::Capability>>>("init")?,
        check: self_check.function::<(), Returned<()>>("check")?,
        find: instances
            .function::<(Vec<Node<'static>>,), Returned<instances::FindReply>>("find")?,
        ensure: balancers.function::<(EnsureRequest<'static>,), Returned<EnsureReply>>("ensure")?,
        update_targets: balancers
            .function::<(UpdateRequest<'static>,), Returned<ProgressReply>>("update-targets")?,
        delete: balancers.function::<(DeleteRequest,), Returned<ProgressReply>>("delete")?,
        get: balancers.function::<(Service,), Returned<Found>>("get")?,
        list: routes.function::<(Vec<Node<'static>>,), Returned<Vec<routes::Route>>>("list")?,
        create_route: routes
            .function::<(CreateRequest<'static>,), Returned<routes::ProgressReply>>("create")?,
        delete_route: routes
            .function::<(routes::DeleteRequest,), Returned<routes::ProgressReply>>("delete")?,
    })
}

/// Calls `init`. The inner error is the guest's.
pub(crate) async fn init(
    functions: &Functions,
    call: FunctionCall<'_>,
    config: &lifecycle::Config,
) -> wasmtime::Result<Result<Vec<lifecycle::Capability>, common::Error>> {
    let enabled: Result<_, Error> = call.of(functions.init, (Config::from(config),)).await?;
    Ok(enabled.map_err(Into::into))
}

/// Calls a function after `init`.
pub(crate) async fn call(
    functions: &Functions,
    ask: &Ask,
    call: FunctionCall<'_>,
) -> wasmtime::Result<Result<Answer, common::Failure>> {
    let answer: Result<Answer, Error> = match ask {
        Ask::Init => wasmtime::bail!("init is called before every other function"),
        Ask::SelfCheck => call.of(functions.check, ()).await?.map(|()| Answer::Well),
        Ask::Find(asked) => call
            .of(functions.find, (nodes(asked),))
            .await?
            .and_then(found),
        Ask::EnsureLoadBalancer(request) => {
            let request = EnsureRequest {
                service: &request.service,
                targets: nodes(&request.targets),
                adopt: adopt(request.adopt.as_ref()),
                hint: request.hint.as_deref(),
            };
            call.of(functions.ensure, (request,))
                .await?
                .map(Answer::Ensured)
        }
        Ask::UpdateTargets(request) => {
            let request = UpdateRequest {
                service: &request.service,
                targets: nodes(&request.targets),
                hint: request.hint.as_deref(),
            };
            let answer = call.of(functions.update_targets, (request,)).await?;
            answer.map(Answer::LoadBalancerProgress)
        }
        Ask::DeleteLoadBalancer(request) => {
            let answer = call.of(functions.delete, (request,)).await?;
            answer.map(Answer::LoadBalancerProgress)
        }
        Ask::GetLoadBalancer(service) => {
            let answer = call.of(functions.get, (service,)).await?;
            answer.map(Answer::LoadBalancer)
        }
        Ask::ListRoutes(asked) => {
            let answer = call.of(functions.list, (nodes(asked),)).await?;
            answer.map(Answer::Routes)
        }
        Ask::CreateRoute(request) => {
            let request = CreateRequest {
                node: Node::from(&request.node),
                destination_cidr: &request.destination_cidr,
                hint: request.hint.as_deref(),
            };
            let answer = call.of(functions.create_route, (request,)).await?;
            answer.map(Answer::RouteProgress)
        }
        Ask::DeleteRoute(request) => {
            let answer = call.of(functions.delete_route, (request,)).await?;
            answer.map(Answer::RouteProgress)
        }
    };
    Ok(answer.map_err(|error| common::Error::from(error).into()))
}

#[cfg(test)]
mod tests;
