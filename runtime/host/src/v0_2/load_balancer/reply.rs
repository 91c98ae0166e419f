//! Converts a guest's answer to core's types. The shape was checked before (`answer_limits`), so nothing is cut here;
//! only the time until the next call is clamped to the contract's range. The fields of `ensure`'s reply and of ingresses
//! are named, so that a new one is not forgotten.

use std::time::Duration;

use ccm_core::cloud::load_balancer::{
    AnnotationChange, EnsureReply, Ensured, Found, Ingress, LoadBalancerStatus, Pending,
    PortStatus, Progress, ProgressReply,
};

use crate::bindings::{common, load_balancer};

/// Shortest delay; a shorter one would make the host call the guest in a loop.
const SOONEST: Duration = Duration::from_millis(100);
/// Longest delay; a longer one would leave the Service unattended.
const LATEST: Duration = Duration::from_secs(600);

impl From<load_balancer::EnsureReply> for EnsureReply {
    fn from(reply: load_balancer::EnsureReply) -> EnsureReply {
        let load_balancer::EnsureReply {
            ensured,
            events,
            annotations,
        } = reply;
        EnsureReply {
            ensured: match ensured {
                load_balancer::Ensured::Ready(status) => Ensured::Ready(status.into()),
                load_balancer::Ensured::Pending(pending) => Ensured::Pending(pending.into()),
            },
            events: events.into_iter().map(Into::into).collect(),
            annotations: annotations.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<load_balancer::ProgressReply> for ProgressReply {
    fn from(reply: load_balancer::ProgressReply) -> ProgressReply {
        ProgressReply {
            progress: match reply.progress {
                load_balancer::Progress::Done => Progress::Done,
                load_balancer::Progress::Pending(pending) => Progress::Pending(pending.into()),
            },
            events: reply.events.into_iter().map(Into::into).collect(),
            annotations: reply.annotations.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<load_balancer::Found> for Found {
    fn from(found: load_balancer::Found) -> Found {
        match found {
            load_balancer::Found::Present(status) => Found::Present(status.into()),
            load_balancer::Found::Absent => Found::Absent,
        }
    }
}

impl From<common::Pending> for Pending {
    fn from(pending: common::Pending) -> Pending {
        Pending {
            retry_after: Duration::from_millis(pending.retry_after_ms).clamp(SOONEST, LATEST),
            hint: pending.hint.map(Into::into),
        }
    }
}

impl From<common::AnnotationChange> for AnnotationChange {
    fn from(change: common::AnnotationChange) -> AnnotationChange {
        AnnotationChange {
            key: change.key,
            value: change.value,
        }
    }
}

impl From<common::LoadBalancerStatus> for LoadBalancerStatus {
    fn from(status: common::LoadBalancerStatus) -> LoadBalancerStatus {
        LoadBalancerStatus {
            ingress: status.ingress.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<common::Ingress> for Ingress {
    fn from(ingress: common::Ingress) -> Ingress {
        let common::Ingress {
            ip,
            hostname,
            ip_mode,
            ports,
        } = ingress;
        Ingress {
            ip,
            hostname,
            ip_mode: ip_mode.map(Into::into),
            ports: ports.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<common::PortStatus> for PortStatus {
    fn from(port: common::PortStatus) -> PortStatus {
        PortStatus {
            port: port.port,
            protocol: port.protocol.into(),
            error: port.error,
        }
    }
}
