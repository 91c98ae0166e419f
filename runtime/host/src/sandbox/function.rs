//! Contract functions that the host calls: their arguments and results. Finds and calls them in the version of the
//! component.

use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use super::Load;
use crate::bindings::{common, instances, lifecycle, load_balancer, routes};
use crate::function_types::{Component, FunctionCall, Functions};
use crate::manifest::Contract;
use crate::store_data::Guest;
use crate::{v0_1, v0_2};

/// A function of the contract that the host calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// Only `lifecycle.init`, which also precedes every other function.
    Init,
    SelfCheck,
    Find,
    EnsureLoadBalancer,
    UpdateTargets,
    DeleteLoadBalancer,
    GetLoadBalancer,
    ListRoutes,
    CreateRoute,
    DeleteRoute,
}

/// A function call with its arguments.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask {
    Init,
    SelfCheck,
    Find(Vec<common::Node>),
    EnsureLoadBalancer(load_balancer::EnsureRequest),
    UpdateTargets(load_balancer::UpdateRequest),
    DeleteLoadBalancer(load_balancer::DeleteRequest),
    GetLoadBalancer(load_balancer::Service),
    ListRoutes(Vec<common::Node>),
    CreateRoute(routes::CreateRequest),
    DeleteRoute(routes::DeleteRequest),
}

/// Result of a function.
#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    Enabled(Vec<lifecycle::Capability>),
    Well,
    Found(#[serde(with = "super::found")] instances::FindReply),
    Ensured(load_balancer::EnsureReply),
    LoadBalancerProgress(load_balancer::ProgressReply),
    LoadBalancer(load_balancer::Found),
    Routes(Vec<routes::Route>),
    RouteProgress(routes::ProgressReply),
}

impl Function {
    /// Its name, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Init => "init",
            Function::SelfCheck => "self-check.check",
            Function::Find => "instances.find",
            Function::EnsureLoadBalancer => "load-balancer.ensure",
            Function::UpdateTargets => "load-balancer.update-targets",
            Function::DeleteLoadBalancer => "load-balancer.delete",
            Function::GetLoadBalancer => "load-balancer.get",
            Function::ListRoutes => "routes.list",
            Function::CreateRoute => "routes.create",
            Function::DeleteRoute => "routes.delete",
        }
    }

    /// Capability that `init` must have enabled, and its name in the contract.
    pub(crate) fn capability(self) -> Option<(lifecycle::Capability, &'static str)> {
        use lifecycle::Capability;
        match self {
            Function::Init | Function::SelfCheck => None,
            Function::Find => Some((Capability::Instances, "instances")),
            Function::EnsureLoadBalancer
            | Function::UpdateTargets
            | Function::DeleteLoadBalancer
            | Function::GetLoadBalancer => Some((Capability::LoadBalancer, "load-balancer")),
            Function::ListRoutes | Function::CreateRoute | Function::DeleteRoute => {
                Some((Capability::Routes, "routes"))
            }
        }
    }
}

impl Ask {
    fn function(&self) -> Function {
        match self {
            Ask::Init => Function::Init,
            Ask::SelfCheck => Function::SelfCheck,
            Ask::Find(_) => Function::Find,
            Ask::EnsureLoadBalancer(_) => Function::EnsureLoadBalancer,
            Ask::UpdateTargets(_) => Function::UpdateTargets,
            Ask::DeleteLoadBalancer(_) => Function::DeleteLoadBalancer,
            Ask::GetLoadBalancer(_) => Function::GetLoadBalancer,
            Ask::ListRoutes(_) => Function::ListRoutes,
            Ask::CreateRoute(_) => Function::CreateRoute,
            Ask::DeleteRoute(_) => Function::DeleteRoute,
        }
    }
}

/// Exported functions of a component, in one version of the contract.
pub(crate) struct Exports {
    contract: Contract,
    functions: Box<Functions>,
}

impl Exports {
    /// Finds the functions of a component with these settings.
    ///
    /// # Errors
    /// The first function that is missing or has another type than in the contract.
    pub(crate) fn find(linked: &InstancePre<Guest>, load: &Load) -> wasmtime::Result<Exports> {
        let contract = load.contract;
        let component = Component { linked, load };
        let functions = match contract {
            Contract::V0_1 => v0_1::functions(&component)?,
            Contract::V0_2 => v0_2::functions(&component)?,
        };
        Ok(Exports {
            contract,
            functions: Box::new(functions),
        })
    }

    /// Calls `init`. The inner error is the guest's.
    pub(super) async fn init(
        &self,
        store: &mut Store<Guest>,
        instance: &Instance,
        config: &lifecycle::Config,
    ) -> wasmtime::Result<Result<Vec<lifecycle::Capability>, common::Error>> {
        let call = FunctionCall { store, instance };
        match self.contract {
            Contract::V0_1 => v0_1::init(&self.functions, call, config).await,
            Contract::V0_2 => v0_2::init(&self.functions, call, config).await,
        }
    }

    /// Calls a function after `init`, which returned `enabled`.
    pub(super) async fn call(
        &self,
        ask: &Ask,
        store: &mut Store<Guest>,
        instance: &Instance,
        enabled: Vec<lifecycle::Capability>,
    ) -> wasmtime::Result<Result<Answer, common::Failure>> {
        if let Some((capability, name)) = ask.function().capability()
            && !enabled.contains(&capability)
        {
            let why = format!("init enabled {name} when the module was loaded, and does not now");
            return Ok(Err(common::Error::Internal(why).into()));
        }
        let call = FunctionCall { store, instance };
        match (ask, self.contract) {
            (Ask::Init, _) => Ok(Ok(Answer::Enabled(enabled))),
            (_, Contract::V0_1) => v0_1::call(&self.functions, ask, call).await,
            (_, Contract::V0_2) => v0_2::call(&self.functions, ask, call).await,
        }
    }
}

impl From<common::Error> for common::Failure {
    fn from(error: common::Error) -> common::Failure {
        let events = Vec::new();
        common::Failure { error, events }
    }
}
