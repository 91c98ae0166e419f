//! Contract functions that the host calls: their arguments, their results, and their indices in a component.

use ccm_core::cloud::Capabilities;
use serde::{Deserialize, Serialize};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::{common, instances, lifecycle, load_balancer, routes, self_check};
use crate::function_types::{self, Component};
use crate::manifest::Contract;
use crate::store_data::Guest;
use crate::v0_1;

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
    fn capability(&self) -> Option<(lifecycle::Capability, &'static str)> {
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

/// Indices of the exported functions, in one version of the contract.
pub(crate) enum Exports {
    V0_1(Box<v0_1::Exports>),
    V0_2(Box<Newest>),
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
        Ok(match contract {
            Contract::V0_1 => Exports::V0_1(Box::new(v0_1::Exports::find(&component)?)),
            Contract::V0_2 => Exports::V0_2(Box::new(Newest::find(&component)?)),
        })
    }

    /// Calls `init`. The inner error is the guest's.
    pub(super) async fn init(
        &self,
        store: &mut Store<Guest>,
        instance: &Instance,
        config: &lifecycle::Config,
    ) -> wasmtime::Result<Result<Vec<lifecycle::Capability>, common::Error>> {
        match self {
            Exports::V0_1(exports) => exports.init(store, instance, config).await,
            Exports::V0_2(exports) => {
                let guest = exports.lifecycle.load(&mut *store, instance)?;
                guest.call_init(store, config).await
            }
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
        match (ask, self) {
            (Ask::Init, _) => Ok(Ok(Answer::Enabled(enabled))),
            (_, Exports::V0_1(exports)) => {
                let answer = exports.call(ask, store, instance).await?;
                Ok(answer.map_err(Into::into))
            }
            (_, Exports::V0_2(exports)) => exports.call(ask, store, instance).await,
        }
    }
}

impl From<common::Error> for common::Failure {
    fn from(error: common::Error) -> common::Failure {
        let events = Vec::new();
        common::Failure { error, events }
    }
}

/// Functions of the newest version.
pub(crate) struct Newest {
    lifecycle: lifecycle::GuestIndices,
    self_check: Option<self_check::GuestIndices>,
    instances: Option<instances::GuestIndices>,
    load_balancer: Option<load_balancer::GuestIndices>,
    routes: Option<routes::GuestIndices>,
}

impl Newest {
    fn find(component: &Component<'_>) -> wasmtime::Result<Newest> {
        function_types::check(component)?;
        let Component {
            linked,
            has,
            self_check,
        } = *component;
        Ok(Newest {
            lifecycle: lifecycle::GuestIndices::new(linked)?,
            self_check: self_check
                .then(|| self_check::GuestIndices::new(linked))
                .transpose()?,
            instances: has
                .instances
                .then(|| instances::GuestIndices::new(linked))
                .transpose()?,
            load_balancer: has
                .load_balancer
                .then(|| load_balancer::GuestIndices::new(linked))
                .transpose()?,
            routes: has
                .routes
                .then(|| routes::GuestIndices::new(linked))
                .transpose()?,
        })
    }

    async fn call(
        &self,
        ask: &Ask,
        store: &mut Store<Guest>,
        instance: &Instance,
    ) -> wasmtime::Result<Result<Answer, common::Failure>> {
        Ok(match ask {
            Ask::Init => wasmtime::bail!("init is called before every other function"),
            Ask::SelfCheck => {
                let guest = there(&self.self_check)?.load(&mut *store, instance)?;
                let answer = guest.call_check(store).await?;
                answer.map(|()| Answer::Well).map_err(Into::into)
            }
            Ask::Find(nodes) => {
                let guest = there(&self.instances)?.load(&mut *store, instance)?;
                let answer = guest.call_find(store, nodes).await?;
                answer.map(Answer::Found).map_err(Into::into)
            }
            Ask::EnsureLoadBalancer(request) => {
                let guest = there(&self.load_balancer)?.load(&mut *store, instance)?;
                let answer = guest.call_ensure(store, request).await?;
                answer.map(Answer::Ensured)
            }
            Ask::UpdateTargets(request) => {
                let guest = there(&self.load_balancer)?.load(&mut *store, instance)?;
                let answer = guest.call_update_targets(store, request).await?;
                answer.map(Answer::LoadBalancerProgress)
            }
            Ask::DeleteLoadBalancer(request) => {
                let guest = there(&self.load_balancer)?.load(&mut *store, instance)?;
                let answer = guest.call_delete(store, request).await?;
                answer.map(Answer::LoadBalancerProgress)
            }
            Ask::GetLoadBalancer(service) => {
                let guest = there(&self.load_balancer)?.load(&mut *store, instance)?;
                let answer = guest.call_get(store, service).await?;
                answer.map(Answer::LoadBalancer)
            }
            Ask::ListRoutes(nodes) => {
                let guest = there(&self.routes)?.load(&mut *store, instance)?;
                guest.call_list(store, nodes).await?.map(Answer::Routes)
            }
            Ask::CreateRoute(request) => {
                let guest = there(&self.routes)?.load(&mut *store, instance)?;
                let answer = guest.call_create(store, request).await?;
                answer.map(Answer::RouteProgress)
            }
            Ask::DeleteRoute(request) => {
                let guest = there(&self.routes)?.load(&mut *store, instance)?;
                let answer = guest.call_delete(store, request).await?;
                answer.map(Answer::RouteProgress)
            }
        })
    }
}

/// Indices of an interface, or an error if the component does not export it.
fn there<Indices>(interface: &Option<Indices>) -> wasmtime::Result<&Indices> {
    interface
        .as_ref()
        .ok_or_else(|| wasmtime::format_err!("the component does not export this interface"))
}
