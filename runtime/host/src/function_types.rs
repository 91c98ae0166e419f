//! Finds the functions that a component exports and compares their types with the contract's before any of it runs, so
//! that an error names the function. Calls them.

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, ComponentType, Instance, InstancePre, Lift, Lower,
};

use crate::sandbox::Load;
use crate::store_data::Guest;

/// A component, and the settings that say what it exports.
pub(crate) struct Component<'a> {
    pub(crate) linked: &'a InstancePre<Guest>,
    pub(crate) load: &'a Load,
}

/// Indices of the functions of a component; `None`: it does not export the interface.
pub(crate) struct Functions {
    pub(crate) init: Option<ComponentExportIndex>,
    pub(crate) check: Option<ComponentExportIndex>,
    pub(crate) find: Option<ComponentExportIndex>,
    pub(crate) ensure: Option<ComponentExportIndex>,
    pub(crate) update_targets: Option<ComponentExportIndex>,
    pub(crate) delete: Option<ComponentExportIndex>,
    pub(crate) get: Option<ComponentExportIndex>,
    pub(crate) list: Option<ComponentExportIndex>,
    pub(crate) create_route: Option<ComponentExportIndex>,
    pub(crate) delete_route: Option<ComponentExportIndex>,
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

/// One call of a function of an instance.
pub(crate) struct FunctionCall<'a> {
    pub(crate) store: &'a mut Store<Guest>,
    pub(crate) instance: &'a Instance,
}

impl FunctionCall<'_> {
    /// Calls the function. The inner error is the guest's.
    ///
    /// # Errors
    /// The component does not export the function, or the guest failed.
    pub(crate) async fn of<Parameters, T, E>(
        self,
        function: Option<ComponentExportIndex>,
        parameters: Parameters,
    ) -> wasmtime::Result<Result<T, E>>
    where
        Parameters: ComponentNamedList + Lower + Send + Sync,
        T: ComponentType + Lift + Send + Sync + 'static,
        E: ComponentType + Lift + Send + Sync + 'static,
    {
        let FunctionCall { store, instance } = self;
        let function = function
            .ok_or_else(|| wasmtime::format_err!("the component does not export this interface"))?;
        let function =
            instance.get_typed_func::<Parameters, (Result<T, E>,)>(&mut *store, function)?;
        let (answer,) = function.call_async(store, parameters).await?;
        Ok(answer)
    }
}
