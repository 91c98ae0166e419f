//! Compares the types of a component's exported functions with the contract's before any of it runs, so that an
//! error names the function.

use ccm_core::cloud::Capabilities;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentNamedList, InstancePre, Lift, Lower};

use crate::bindings::common::{Error, Node};
use crate::bindings::{instances, lifecycle, load_balancer, routes};
use crate::store_data::Guest;

/// Checks every contract function that a component exports.
///
/// # Errors
/// The first function that is missing or has another type.
pub(crate) fn check(
    component: &InstancePre<Guest>,
    has: Capabilities,
    self_check: bool,
) -> wasmtime::Result<()> {
    let lifecycle = Exported {
        component,
        interface: "ccm:provider/lifecycle@0.1.0",
    };
    lifecycle
        .function::<(lifecycle::Config,), (Result<Vec<lifecycle::Capability>, Error>,)>("init")?;
    if self_check {
        let interface = Exported {
            component,
            interface: "ccm:provider/self-check@0.1.0",
        };
        interface.function::<(), (Result<(), Error>,)>("check")?;
    }
    if has.instances {
        let interface = Exported {
            component,
            interface: "ccm:provider/instances@0.1.0",
        };
        interface.function::<(Vec<Node>,), (Result<instances::FindReply, Error>,)>("find")?;
    }
    if has.load_balancer {
        use load_balancer::{
            DeleteRequest, EnsureReply, EnsureRequest, Found, ProgressReply, Service, UpdateRequest,
        };
        let interface = Exported {
            component,
            interface: "ccm:provider/load-balancer@0.1.0",
        };
        interface.function::<(EnsureRequest,), (Result<EnsureReply, Error>,)>("ensure")?;
        interface
            .function::<(UpdateRequest,), (Result<ProgressReply, Error>,)>("update-targets")?;
        interface.function::<(DeleteRequest,), (Result<ProgressReply, Error>,)>("delete")?;
        interface.function::<(Service,), (Result<Found, Error>,)>("get")?;
    }
    if has.routes {
        use routes::{CreateRequest, DeleteRequest, ProgressReply, Route};
        let interface = Exported {
            component,
            interface: "ccm:provider/routes@0.1.0",
        };
        interface.function::<(Vec<Node>,), (Result<Vec<Route>, Error>,)>("list")?;
        interface.function::<(CreateRequest,), (Result<ProgressReply, Error>,)>("create")?;
        interface.function::<(DeleteRequest,), (Result<ProgressReply, Error>,)>("delete")?;
    }
    Ok(())
}

/// An exported interface of a component.
#[derive(Clone, Copy)]
struct Exported<'a> {
    component: &'a InstancePre<Guest>,
    interface: &'static str,
}

impl Exported<'_> {
    fn function<Parameters, Results>(self, name: &str) -> wasmtime::Result<()>
    where
        Parameters: ComponentNamedList + Lower,
        Results: ComponentNamedList + Lift,
    {
        let component = self.component.component();
        let function = component
            .get_export_index(None, self.interface)
            .and_then(|interface| component.get_export(Some(&interface), name));
        let Some((ComponentItem::ComponentFunc(function), _)) = function else {
            wasmtime::bail!("{} lacks the function {name}", self.interface);
        };
        function
            .typecheck::<Parameters, Results>(&self.component.instance_type())
            .map_err(|error| {
                error.context(format!(
                    "{}: {name} has another type than in the contract",
                    self.interface
                ))
            })
    }
}
