//! A patch of `services/<name>/status`. Upstream writes all its fields of a Service through this subresource (SVC-080):
//! it accepts metadata and status, and never the spec.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, PortStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};

use crate::cloud::load_balancer::{Ingress, LoadBalancerStatus};
use crate::well_known::LOAD_BALANCER_FINALIZER;

/// Changes of this manager's fields of a Service.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServicePatch {
    /// `metadata.uid` of the Service.
    pub uid: String,
    /// This manager's finalizer. Other finalizers keep their place.
    pub finalizer: Option<FinalizerChange>,
    /// Annotations to set; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// `status.loadBalancer`, as a whole.
    pub status: Option<LoadBalancerStatus>,
    /// Conditions of the status, by type; others stay.
    pub conditions: Vec<Condition>,
}

/// The change of this manager's finalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalizerChange {
    /// Append it to these.
    Add(Vec<String>),
    /// Remove it and keep these.
    Remove(Vec<String>),
}

impl ServicePatch {
    /// A patch without changes.
    pub fn new(uid: impl Into<String>) -> ServicePatch {
        ServicePatch {
            uid: uid.into(),
            ..ServicePatch::default()
        }
    }

    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.finalizer.is_none()
            && self.annotations.is_empty()
            && self.status.is_none()
            && self.conditions.is_empty()
    }

    /// The patch body. Finalizers are written as in client-go's strategic merge (SVC-081), so that one that another
    /// client adds meanwhile is not lost; `ingress` is an atomic list (SVC-085).
    pub fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), json!(self.uid));
        match &self.finalizer {
            Some(FinalizerChange::Add(before)) => {
                let mut order = before.clone();
                order.push(LOAD_BALANCER_FINALIZER.to_owned());
                metadata.insert("$setElementOrder/finalizers".to_owned(), json!(order));
                metadata.insert("finalizers".to_owned(), json!([LOAD_BALANCER_FINALIZER]));
            }
            Some(FinalizerChange::Remove(others)) => {
                metadata.insert("$setElementOrder/finalizers".to_owned(), json!(others));
                metadata.insert(
                    "$deleteFromPrimitiveList/finalizers".to_owned(),
                    json!([LOAD_BALANCER_FINALIZER]),
                );
            }
            None => {}
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        let mut status = Map::new();
        if let Some(load_balancer) = &self.status {
            let ingress: Vec<Value> = load_balancer.ingress.iter().map(ingress_json).collect();
            let ingress = (!ingress.is_empty()).then_some(ingress);
            status.insert("loadBalancer".to_owned(), json!({ "ingress": ingress }));
        }
        if !self.conditions.is_empty() {
            status.insert("conditions".to_owned(), json!(self.conditions));
        }
        let mut body = Map::new();
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if !status.is_empty() {
            body.insert("status".to_owned(), Value::Object(status));
        }
        Value::Object(body)
    }
}

fn ingress_json(ingress: &Ingress) -> Value {
    let ports = ingress.ports.iter().map(|port| PortStatus {
        port: port.port.into(),
        protocol: port.protocol.as_str().to_owned(),
        error: port.error.clone(),
    });
    json!(LoadBalancerIngress {
        ip: ingress.ip.clone(),
        hostname: ingress.hostname.clone(),
        ip_mode: ingress.ip_mode.map(|mode| mode.as_str().to_owned()),
        ports: (!ingress.ports.is_empty()).then(|| ports.collect()),
    })
}

/// Part of an effect's label: lists the written fields, each after a blank.
impl fmt::Display for ServicePatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.finalizer {
            Some(FinalizerChange::Add(_)) => write!(f, " +finalizer")?,
            Some(FinalizerChange::Remove(_)) => write!(f, " -finalizer")?,
            None => {}
        }
        if !self.annotations.is_empty() {
            write!(f, " annotations({})", self.annotations.len())?;
        }
        if let Some(status) = &self.status {
            write!(f, " status={status}")?;
        }
        for condition in &self.conditions {
            let is_true = condition.status == "True";
            write!(f, " {}={is_true}", condition.type_)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::load_balancer::{IpMode, PortStatus, Protocol};

    #[test]
    fn svc_081_a_finalizer_is_added_and_removed_without_touching_others() {
        let mut patch = ServicePatch::new("u1");
        patch.finalizer = Some(FinalizerChange::Add(vec!["foo".to_owned()]));
        let expected = json!({ "metadata": {
            "uid": "u1",
            "$setElementOrder/finalizers": ["foo", LOAD_BALANCER_FINALIZER],
            "finalizers": [LOAD_BALANCER_FINALIZER]
        } });
        assert_eq!(patch.to_json(), expected);
        patch.finalizer = Some(FinalizerChange::Remove(vec!["foo".to_owned()]));
        let expected = json!({ "metadata": {
            "uid": "u1",
            "$setElementOrder/finalizers": ["foo"],
            "$deleteFromPrimitiveList/finalizers": [LOAD_BALANCER_FINALIZER]
        } });
        assert_eq!(patch.to_json(), expected);
    }

    #[test]
    fn svc_085_ingress_is_written_as_a_whole_and_cleared_with_null() {
        let mut patch = ServicePatch::new("u1");
        patch.status = Some(LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some("192.0.2.1".to_owned()),
                hostname: None,
                ip_mode: Some(IpMode::Vip),
                ports: vec![PortStatus {
                    port: 80,
                    protocol: Protocol::Tcp,
                    error: Some("Broken".to_owned()),
                }],
            }],
        });
        let expected = json!({ "metadata": { "uid": "u1" }, "status": { "loadBalancer": { "ingress": [
            { "ip": "192.0.2.1", "ipMode": "VIP", "ports": [{ "port": 80, "protocol": "TCP", "error": "Broken" }] }
        ] } } });
        assert_eq!(patch.to_json(), expected);
        patch.status = Some(LoadBalancerStatus::default());
        let expected = json!({ "metadata": { "uid": "u1" }, "status": { "loadBalancer": { "ingress": null } } });
        assert_eq!(patch.to_json(), expected);
    }
}
