//! API objects parsed without the fields that no controller reads: images, managed fields and the rest make up four
//! fifths of a node that runs pods. They are skipped during parsing, so that they cost neither memory nor time to
//! build. Reads only.

#[cfg(test)]
pub(crate) mod fixtures;
mod managed_fields;
mod node;
mod service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(crate) use managed_fields::ManagedFields;
pub(crate) use node::NodeAnswer;
pub(crate) use service::PrunedService;

/// Makes a type the same resource as one of the API types, for requests and watches.
macro_rules! same_resource {
    ($type:ty, $api:ty, |$object:ident| $metadata:expr) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = <$api as kube::Resource>::Scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <$api as kube::Resource>::kind(&())
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <$api as kube::Resource>::group(&())
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <$api as kube::Resource>::version(&())
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <$api as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &$crate::pruned_objects::ObjectMeta {
                let $object = self;
                &$metadata
            }

            fn meta_mut(&mut self) -> &mut $crate::pruned_objects::ObjectMeta {
                let $object = self;
                &mut $metadata
            }
        }
    };
}
use same_resource;
