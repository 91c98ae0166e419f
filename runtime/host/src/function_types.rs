//! Compares the types of a component's exported functions with the contract's before any of it runs, so that an
//! error names the function.

use ccm_core::cloud::Capabilities;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, InstancePre, Lift, Lower};

use crate::bindings::common::{Error, Failure, Node};
use crate::bindings::{instances, lifecycle, load_balancer, routes};
use crate::store_data::Guest;

/// A component, and the indices of its contract exports.
#[derive(Clone, Copy)]
pub(crate) struct Component<'a> {
    pub(crate) linked: &'a InstancePre<Guest>,
    pub(crate) has: Capabilities,
    pub(crate) self_check: bool,
}

/// Checks every function of version 0.2 that a component exports.
///
/// # Errors
/// The first function that is missing or has another type.
pub(crate) fn check(component: &Component<'_>) -> wasmtime::Result<()> {
    let has = component.has;
    let lifecycle = component.interface("ccm:provider/lifecycle@0.2.0", true);
    lifecycle
        .function::<(lifecycle::Config,), (Result<Vec<lifecycle::Capability>, Error>,)>("init")?;
    let self_check = component.interface("ccm:provider/self-check@0.2.0", component.self_check);
    self_check.function::<(), (Result<(), Error>,)>("check")?;
    let instances = component.interface("ccm:provider/instances@0.2.0", has.instances);
    instances.function::<(Vec<Node>,), (Result<instances::FindReply, Error>,)>("find")?;
    {
        use load_balancer::{
            DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
        };
        let interface = component.interface("ccm:provider/load-balancer@0.2.0", has.load_balancer);
        interface.function::<(EnsureRequest,), (Result<EnsureReply, Failure>,)>("ensure")?;
        interface
            .function::<(UpdateRequest,), (Result<ProgressReply, Failure>,)>("update-targets")?;
        interface.function::<(DeleteRequest,), (Result<ProgressReply, Failure>,)>("delete")?;
        interface.function::<(Service,), (Result<Found, Failure>,)>("get")?;
    }
    {
        use routes::{CreateRequest, DeleteRequest, ProgressReply, Route};
        let interface = component.interface("ccm:provider/routes@0.2.0", has.routes);
        interface.function::<(Vec<Node>,), (Result<Vec<Route>, Failure>,)>("list")?;
        interface.function::<(CreateRequest,), (Result<ProgressReply, Failure>,)>("create")?;
        interface.function::<(DeleteRequest,), (Result<ProgressReply, Failure>,)>("delete")?;
    }
    Ok(())
}

impl<'a> Component<'a> {
    /// An interface of the component. One that it does not export has no functions to check.
    pub(crate) fn interface(&self, name: &'static str, is_exported: bool) -> Interface<'a> {
        Interface {
            linked: self.linked,
            name,
            is_exported,
        }
    }
}

/// An interface of a component.
#[derive(Clone, Copy)]
pub(crate) struct Interface<'a> {
    linked: &'a InstancePre<Guest>,
    name: &'static str,
    is_exported: bool,
}

impl Interface<'_> {
    /// Index of a function of this type; `None` if the component does not export the interface.
    ///
    /// # Errors
    /// The function is missing, or has another type.
    pub(crate) fn function<Parameters, Results>(
        self,
        name: &str,
    ) -> wasmtime::Result<Option<ComponentExportIndex>>
    where
        Parameters: ComponentNamedList + Lower,
        Results: ComponentNamedList + Lift,
    {
        if !self.is_exported {
            return Ok(None);
        }
        let component = self.linked.component();
        let function = component
            .get_export_index(None, self.name)
            .and_then(|interface| component.get_export(Some(&interface), name));
        let Some((ComponentItem::ComponentFunc(function), index)) = function else {
            wasmtime::bail!("{} lacks the function {name}", self.name);
        };
        function
            .typecheck::<Parameters, Results>(&self.linked.instance_type())
            .map_err(|error| {
                error.context(format!(
                    "{}: {name} has another type than in the contract",
                    self.name
                ))
            })?;
        Ok(Some(index))
    }
}
