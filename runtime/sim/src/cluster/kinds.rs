//! The kinds this server knows, as one table: what a generic handler must know about each of them.
//! It holds facts only; rules that need code stand in `node`, `service` and `small`.

use k8s_openapi::api::{coordination, core, events};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::field_error::FieldError;
use super::names::NameRule;
use super::{node, provider, service, service_rules, small};

/// What the generic handlers must know about one kind.
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// The resource, as it stands in paths.
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Whether there is a `/status` subresource.
    pub(super) status: bool,
    /// Where its objects are kept. The two Event kinds share one room, as upstream's do.
    pub(super) room: &'static str,
    /// The key prefix in etcd, which some conflicts quote.
    pub(super) registry: &'static str,
    /// Whether a PUT of something absent creates it.
    pub(super) create_on_update: bool,
    /// Whether a PUT without resourceVersion overwrites.
    pub(super) unconditional_update: bool,
    /// Whether DELETE answers with the object instead of a `Status`.
    pub(super) returns_deleted: bool,
    pub(super) name_rule: NameRule,
    /// Lists that a strategic merge patch merges, with their merge key (`None`: a list of plain values).
    pub(super) merge_lists: &'static [(&'static str, Option<&'static str>)],
    /// Fields that a field selector may name, besides metadata.name and metadata.namespace.
    pub(super) selectable: &'static [&'static str],
    /// Fields that every answer has, even when nobody set them.
    pub(super) always: fn() -> Value,
    /// Reads the object as its type and writes it back: unknown fields are gone, wrong types are errors.
    pub(super) typed: fn(Value) -> Result<Value, String>,
    /// Fills in defaults, as decoding does upstream.
    pub(super) default: fn(&mut Value),
    /// Sets or resets what clients may not choose: `(new, old, is it the status subresource)`.
    pub(super) prepare: fn(&mut Value, Option<&Value>, bool),
    /// The rules of the kind itself, with the same arguments.
    pub(super) validate: fn(&Value, Option<&Value>, bool) -> Vec<FieldError>,
    /// The same for the elements of lists.
    pub(super) always_each: &'static [ListOf],
    /// Fields that this version leaves out when they are empty, though the kept form has them.
    pub(super) terse: &'static [&'static str],
    /// Whether the kind is defined by a CustomResourceDefinition: its objects are kept as they were sent, items of lists
    /// carry their type, changes of what is wished are counted, and there are no strategic merge patches.
    pub(super) is_custom: bool,
    /// Field names that differ between this version and the kept form: `(here, kept)`.
    pub(super) renamed: &'static [(&'static str, &'static str)],
}

/// Where a list is, and what each of its elements has in every answer.
type ListOf = (&'static str, fn() -> Value);

impl Kind {
    /// `nodes`, or `leases.coordination.k8s.io`.
    pub(super) fn qualified(&self) -> String {
        join_group(self.plural, self.group)
    }

    /// `Node`, or `Lease.coordination.k8s.io`.
    pub(super) fn qualified_kind(&self) -> String {
        join_group(self.kind, self.rules_group())
    }

    /// The group that broken rules are reported under: that of the kept form.
    pub(super) fn rules_group(&self) -> &'static str {
        if self.renamed.is_empty() {
            self.group
        } else {
            ""
        }
    }

    /// `v1`, or `coordination.k8s.io/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The key of one object in its room.
    pub(super) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// How the list at this path is merged: `Some(key)` when a strategic merge patch merges it.
    pub(super) fn merge_list(&self, path: &str) -> Option<Option<&'static str>> {
        METADATA_LISTS
            .iter()
            .chain(self.merge_lists)
            .find(|(known, _)| *known == path)
            .map(|(_, key)| *key)
    }

    /// This version's form of a kept object, with kind and apiVersion.
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

    /// The kept form of an object of this version, without kind and apiVersion.
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

/// The kind behind a group, version and plural name.
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

/// Every kind, in the order of discovery documents. Without those that are `custom`, if nobody has defined them.
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

/// What most kinds share; each entry of the table says where it differs.
const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    status: false,
    room: "",
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
        room: "nodes",
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
        room: "services",
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
        room: "namespaces",
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
        room: "configmaps",
        registry: "/registry/configmaps",
        typed: typed::<core::v1::ConfigMap>,
        validate: small::validate_config_map,
        ..PLAIN
    },
    Kind {
        plural: "secrets",
        kind: "Secret",
        room: "secrets",
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
        room: "serviceaccounts",
        registry: "/registry/serviceaccounts",
        returns_deleted: true,
        merge_lists: &[("secrets", Some("name"))],
        typed: typed::<core::v1::ServiceAccount>,
        ..PLAIN
    },
    Kind {
        plural: "events",
        kind: "Event",
        room: "events",
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
        room: "leases",
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
        room: "events",
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
        room: "providers",
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
