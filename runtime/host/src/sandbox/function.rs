//! Contract functions that the host calls: their arguments and results. Finds and calls them in the version of the
//! component.

use ccm_core::cloud::Capabilities;
use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::{common, instances, lifecycle, load_balancer, routes};
use crate::function_types::{Component, FunctionCall, Functions};
use crate::manifest::Contract;
use crate::store_data::Guest;
use crate::{v0_1, v0_2};

/// A function call with its arguments.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Only `lifecycle.init`, which also precedes every other function.
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
    Found(instances::FindReply),
    Ensured(load_balancer::EnsureReply),
    LoadBalancerProgress(load_balancer::ProgressReply),
    LoadBalancer(load_balancer::Found),
    Routes(Vec<routes::Route>),
    RouteProgress(routes::ProgressReply),
}

impl Ask {
    /// Name of the function, for messages.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Ask::Init => "init",
            Ask::SelfCheck => "self-check.check",
            Ask::Find(_) => "instances.find",
            Ask::EnsureLoadBalancer(_) => "load-balancer.ensure",
            Ask::UpdateTargets(_) => "load-balancer.update-targets",
            Ask::DeleteLoadBalancer(_) => "load-balancer.delete",
            Ask::GetLoadBalancer(_) => "load-balancer.get",
            Ask::ListRoutes(_) => "routes.list",
            Ask::CreateRoute(_) => "routes.create",
            Ask::DeleteRoute(_) => "routes.delete",
        }
    }

    /// Capability that `init` must have enabled, and its name in the contract.
    pub(crate) fn capability(&self) -> Option<(lifecycle::Capability, &'static str)> {
        use lifecycle::Capability;
        match self {
            Ask::Init | Ask::SelfCheck => None,
            Ask::Find(_) => Some((Capability::Instances, "instances")),
            Ask::EnsureLoadBalancer(_)
            | Ask::UpdateTargets(_)
            | Ask::DeleteLoadBalancer(_)
            | Ask::GetLoadBalancer(_) => Some((Capability::LoadBalancer, "load-balancer")),
            Ask::ListRoutes(_) | Ask::CreateRoute(_) | Ask::DeleteRoute(_) => {
                Some((Capability::Routes, "routes"))
            }
        }
    }
}

/// Exported functions of a component, in one version of the contract.
pub(crate) struct Exports {
    contract: Contract,
    functions: Box<Functions>,
}

impl Exports {
    /// Finds the functions of a component with these capabilities.
    ///
    /// # Errors
    /// The first function that is missing or has another type than in the contract.
    pub(crate) fn find(
        linked: &InstancePre<Guest>,
        contract: Contract,
        has: Capabilities,
        self_check: bool,
    ) -> wasmtime::Result<Exports> {
        let component = Component {
            linked,
            has,
            self_check,
        };
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
        if let Some((capability, name)) = ask.capability()
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
