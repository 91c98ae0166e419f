//! Table of the kinds that this server supports: the properties that the generic handlers need. Holds only facts; rules
//! that need code are in `node`, `service` and `small`.

use k8s_openapi::api::{coordination, core, events};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::field_error::FieldError;
use super::names::NameRule;
use super::{node, provider, service, service_rules, small};

/// The properties of one kind.
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// The resource name in paths.
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Whether there is a `/status` subresource.
    pub(super) status: bool,
    /// Name of the collection that stores its objects. The two Event kinds share one, as upstream's do.
    pub(super) collection: &'static str,
    /// The key prefix in etcd, which some conflict messages quote.
    pub(super) registry: &'static str,
    /// Whether a PUT of a missing object creates it.
    pub(super) create_on_update: bool,
    /// Whether a PUT without resourceVersion overwrites.
    pub(super) unconditional_update: bool,
    /// Whether DELETE returns the object instead of a `Status`.
    pub(super) returns_deleted: bool,
    pub(super) name_rule: NameRule,
    /// Lists that a strategic merge patch merges, with their merge key (`None`: a list of plain values).
    pub(super) merge_lists: &'static [(&'static str, Option<&'static str>)],
    /// Fields allowed in field selectors, besides metadata.name and metadata.namespace.
    pub(super) selectable: &'static [&'static str],
    /// Fields present in every response, even when unset.
    pub(super) always: fn() -> Value,
    /// Decodes the object as its type and encodes it again: drops unknown fields, reports wrong types as errors.
    pub(super) typed: fn(Value) -> Result<Value, String>,
    /// Sets defaults, as upstream's decoding does.
    pub(super) default: fn(&mut Value),
    /// Sets or resets fields that clients may not choose. Arguments: new object, old object, whether the status is
    /// written.
    pub(super) prepare: fn(&mut Value, Option<&Value>, bool),
    /// The kind's own validation, with the same arguments.
    pub(super) validate: fn(&Value, Option<&Value>, bool) -> Vec<FieldError>,
    /// Like `always`, for the elements of lists.
    pub(super) always_each: &'static [ListOf],
    /// Fields that this version omits when they are empty, although the stored form has them.
    pub(super) terse: &'static [&'static str],
    /// Whether a CustomResourceDefinition defines the kind: objects are stored as sent, list items carry their type,
    /// changes of the desired state increase the generation, and strategic merge patches are not supported.
    pub(super) is_custom: bool,
    /// Field names that differ between this version and the stored form: `(here, stored)`.
    pub(super) renamed: &'static [(&'static str, &'static str)],
}

/// The path of a list, and the fields that each element has in every response.
type ListOf = (&'static str, fn() -> Value);

impl Kind {
    /// The resource's name with its group, such as `nodes` or `leases.coordination.k8s.io`.
    pub(super) fn qualified(&self) -> String {
        join_group(self.plural, self.group)
    }

    /// The kind's name with its group, such as `Node` or `Lease.coordination.k8s.io`.
    pub(super) fn qualified_kind(&self) -> String {
        join_group(self.kind, self.rules_group())
    }

    /// The group under which validation errors are reported: that of the stored form.
    pub(super) fn rules_group(&self) -> &'static str {
        if self.renamed.is_empty() {
            self.group
        } else {
            ""
        }
    }

    /// The `apiVersion` of objects, such as `v1` or `coordination.k8s.io/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The key of one object in its collection.
    pub(super) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// How a strategic merge patch merges the list at this path; `None`: it replaces the list.
    pub(super) fn merge_list(&self, path: &str) -> Option<Option<&'static str>> {
        METADATA_LISTS
            .iter()
            .chain(self.merge_lists)
            .find(|(known, _)| *known == path)
            .map(|(_, key)| *key)
    }

    /// Converts a stored object to this version, with kind and apiVersion.
    pub(super) fn present(&self, kept: &Value) -> Value {
        let mut object = kept.clone();
        if let Value::Object(fields) = &mut object {
            for (here, there) in self.renamed {
                if let Some(value) = fields.remove(*there) {
                    fields.insert((*here).to_owned(), value);
                }
            }
            fields.retain(|key, value| !(self.terse.contains(&key.as_str()) && value == ""));
            fields.insert("kind".into(), self.kind.into());
            fields.insert("apiVersion".into(), self.api_version().into());
        }
        object
    }

    /// Converts an object of this version to the stored form, without kind and apiVersion.
    pub(super) fn keep(&self, mut object: Value) -> Value {
        if let Value::Object(fields) = &mut object {
            fields.remove("kind");
            fields.remove("apiVersion");
            for (here, there) in self.renamed {
                if let Some(value) = fields.remove(*here) {
                    fields.insert((*there).to_owned(), value);
                }
            }
        }
        object
    }
}

fn join_group(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// Finds a kind by group, version and plural name.
pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
}

/// Whether any kind of this group and version is served.
pub(super) fn serves(group: &str, version: &str) -> bool {
    KINDS
        .iter()
        .any(|kind| kind.group == group && kind.version == version)
}

/// All kinds, in the order of discovery documents; custom ones only if `custom`.
pub(super) fn all(custom: bool) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |kind| custom || !kind.is_custom)
}

fn typed<T: DeserializeOwned + Serialize>(object: Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(object).map_err(|error| error.to_string())?;
    serde_json::to_value(read).map_err(|error| error.to_string())
}

const METADATA_LISTS: &[(&str, Option<&str>)] = &[
    ("metadata.ownerReferences", Some("uid")),
    ("metadata.finalizers", None),
];

/// The defaults of most kinds; each table entry overrides what differs.
const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    status: false,
    collection: "",
    registry: "",
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    name_rule: NameRule::Subdomain,
    merge_lists: &[],
    selectable: &[],
    always: || json!({}),
    typed: |object| Ok(object),
    default: |_| {},
    prepare: |_, _, _| {},
    validate: |_, _, _| Vec::new(),
    always_each: &[],
    terse: &[],
    is_custom: false,
    renamed: &[],
};

const KINDS: &[Kind] = &[
    Kind {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        status: true,
        collection: "nodes",
        registry: "/registry/minions",
        merge_lists: &[
            ("spec.podCIDRs", None),
            ("status.addresses", Some("type")),
            ("status.conditions", Some("type")),
        ],
        selectable: &["spec.unschedulable"],
        always: node::always,
        always_each: &[("/status/conditions", node::always_in_a_condition)],
        typed: typed::<core::v1::Node>,
        default: node::default,
        prepare: node::prepare,
        validate: node::validate,
        ..PLAIN
    },
    Kind {
        plural: "services",
        kind: "Service",
        status: true,
        collection: "services",
        registry: "/registry/services/specs",
        create_on_update: true,
        name_rule: NameRule::Label,
        merge_lists: &[
            ("spec.ports", Some("port")),
            ("status.conditions", Some("type")),
        ],
        selectable: &["spec.clusterIP", "spec.type"],
        always: || json!({"spec": {}, "status": {"loadBalancer": {}}}),
        typed: typed::<core::v1::Service>,
        default: service::default,
        prepare: service::prepare,
        validate: service_rules::validate,
        ..PLAIN
    },
    Kind {
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        status: true,
        collection: "namespaces",
        registry: "/registry/namespaces",
        returns_deleted: true,
        name_rule: NameRule::Label,
        merge_lists: &[("status.conditions", Some("type"))],
        selectable: &["status.phase"],
        always: || json!({"spec": {}, "status": {}}),
        typed: typed::<core::v1::Namespace>,
        default: small::default_namespace,
        prepare: small::prepare_namespace,
        ..PLAIN
    },
    Kind {
        plural: "configmaps",
        kind: "ConfigMap",
        collection: "configmaps",
        registry: "/registry/configmaps",
        typed: typed::<core::v1::ConfigMap>,
        validate: small::validate_config_map,
        ..PLAIN
    },
    Kind {
        plural: "secrets",
        kind: "Secret",
        collection: "secrets",
        registry: "/registry/secrets",
        selectable: &["type"],
        typed: small::typed_secret,
        default: small::default_secret,
        validate: small::validate_secret,
        ..PLAIN
    },
    Kind {
        plural: "serviceaccounts",
        kind: "ServiceAccount",
        collection: "serviceaccounts",
        registry: "/registry/serviceaccounts",
        returns_deleted: true,
        merge_lists: &[("secrets", Some("name"))],
        typed: typed::<core::v1::ServiceAccount>,
        ..PLAIN
    },
    Kind {
        plural: "events",
        kind: "Event",
        collection: "events",
        registry: "/registry/events",
        create_on_update: true,
        name_rule: NameRule::PathSegment,
        selectable: EVENT_FIELDS,
        always: small::event_always,
        typed: typed::<core::v1::Event>,
        validate: small::validate_event,
        ..PLAIN
    },
    Kind {
        group: "coordination.k8s.io",
        plural: "leases",
        kind: "Lease",
        collection: "leases",
        registry: "/registry/leases",
        create_on_update: true,
        unconditional_update: false,
        always: || json!({"spec": {}}),
        typed: typed::<coordination::v1::Lease>,
        validate: small::validate_lease,
        ..PLAIN
    },
    Kind {
        group: "events.k8s.io",
        plural: "events",
        kind: "Event",
        collection: "events",
        registry: "/registry/events",
        create_on_update: true,
        selectable: EVENT_FIELDS,
        always: small::event_always,
        typed: typed::<events::v1::Event>,
        validate: small::validate_new_event,
        terse: &["reportingController", "reportingInstance"],
        renamed: &[
            ("note", "message"),
            ("regarding", "involvedObject"),
            ("reportingController", "reportingComponent"),
            ("deprecatedSource", "source"),
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedCount", "count"),
        ],
        ..PLAIN
    },
    Kind {
        group: "wasm-ccm.dev",
        version: "v1alpha1",
        plural: "providers",
        kind: "Provider",
        namespaced: false,
        status: true,
        collection: "providers",
        registry: "/registry/wasm-ccm.dev/providers",
        unconditional_update: false,
        typed: provider::typed,
        prepare: provider::prepare,
        validate: provider::validate,
        is_custom: true,
        ..PLAIN
    },
];

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
