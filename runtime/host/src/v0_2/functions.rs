//! Functions of contract version 0.2: finds them in a component, and calls them. Nothing has to be converted.

use crate::bindings::common::{Error, Failure, Node};
use crate::bindings::{instances, lifecycle, load_balancer, routes};
use crate::function_types::{Component, FunctionCall, Functions};
use crate::sandbox::{Answer, Ask};

/// Return value of a function that can report events with its error.
type Returned<T> = (Result<T, Failure>,);

/// Finds the functions of a component, and compares their types with the contract's.
///
/// # Errors
/// The first function that is missing or has another type.
pub(crate) fn functions(component: &Component<'_>) -> wasmtime::Result<Functions> {
    use load_balancer::{
        DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
    };
    let has = component.load.capabilities;
    let lifecycle = component.interface("ccm:provider/lifecycle@0.2.0", true);
    let self_check =
        component.interface("ccm:provider/self-check@0.2.0", component.load.self_check);
    let instances = component.interface("ccm:provider/instances@0.2.0", has.instances);
    let balancers = component.interface("ccm:provider/load-balancer@0.2.0", has.load_balancer);
    let routes = component.interface("ccm:provider/routes@0.2.0", has.routes);
    Ok(Functions {
        init: lifecycle
            .function::<(lifecycle::Config,), (Result<Vec<lifecycle::Capability>, Error>,)>(
                "init",
            )?,
        check: self_check.function::<(), (Result<(), Error>,)>("check")?,
        find: instances.function::<(Vec<Node>,), (Result<instances::FindReply, Error>,)>("find")?,
        ensure: balancers.function::<(EnsureRequest,), Returned<EnsureReply>>("ensure")?,
        update_targets: balancers
            .function::<(UpdateRequest,), Returned<ProgressReply>>("update-targets")?,
        delete: balancers.function::<(DeleteRequest,), Returned<ProgressReply>>("delete")?,
        get: balancers.function::<(Service,), Returned<Found>>("get")?,
        list: routes.function::<(Vec<Node>,), Returned<Vec<routes::Route>>>("list")?,
        create_route: routes
            .function::<(routes::CreateRequest,), Returned<routes::ProgressReply>>("create")?,
        delete_route: routes
            .function::<(routes::DeleteRequest,), Returned<routes::ProgressReply>>("delete")?,
    })
}

/// Calls `init`. The inner error is the guest's.
pub(crate) async fn init(
    functions: &Functions,
    call: FunctionCall<'_>,
    config: &lifecycle::Config,
) -> wasmtime::Result<Result<Vec<lifecycle::Capability>, Error>> {
    call.of(functions.init, (config,)).await
}

/// Calls a function after `init`.
pub(crate) async fn call(
    functions: &Functions,
    ask: &Ask,
    call: FunctionCall<'_>,
) -> wasmtime::Result<Result<Answer, Failure>> {
    Ok(match ask {
        Ask::Init => wasmtime::bail!("init is called before every other function"),
        Ask::SelfCheck => {
            let answer: Result<(), Error> = call.of(functions.check, ()).await?;
            answer.map(|()| Answer::Well).map_err(Into::into)
        }
        Ask::Find(nodes) => {
            let answer: Result<_, Error> = call.of(functions.find, (nodes,)).await?;
            answer.map(Answer::Found).map_err(Into::into)
        }
        Ask::EnsureLoadBalancer(request) => {
            let answer = call.of(functions.ensure, (request,)).await?;
            answer.map(Answer::Ensured)
        }
        Ask::UpdateTargets(request) => {
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
        Ask::ListRoutes(nodes) => {
            let answer = call.of(functions.list, (nodes,)).await?;
            answer.map(Answer::Routes)
        }
        Ask::CreateRoute(request) => {
            let answer = call.of(functions.create_route, (request,)).await?;
            answer.map(Answer::RouteProgress)
        }
        Ask::DeleteRoute(request) => {
            let answer = call.of(functions.delete_route, (request,)).await?;
            answer.map(Answer::RouteProgress)
        }
    })
}
