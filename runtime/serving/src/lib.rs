//! The HTTP endpoints of the process, as the Go cloud-controller-manager serves them on its secure port: `/healthz` and
//! its kin, `/metrics`, `/configz`, `/flagz` and `/statusz`, and a status page for people at `/`, over TLS, behind the
//! API server's authentication and authorisation (PROC-075).
//!
//! The endpoints run on a thread of their own, so that they answer while the controllers' threads are busy or hang.
//! This crate knows no controller and no provider: it is given what it shows as text, functions and checks. It changes
//! nothing in the cluster.
#![forbid(unsafe_code)]

mod access_cache;
mod access_control;
mod authentication;
mod authorization;
mod certificates;
mod cipher_suites;
mod cluster_settings;
mod connection;
mod connection_limit;
mod endpoints;
mod health;
mod listener;
mod review_client;
mod runtime_heartbeat;
mod server;
mod settings;
mod slow_file;
pub mod status;
mod told_reason;
mod write_limit;

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

pub use access_control::is_unanswered;
pub use cipher_suites::{TlsSettings, cipher_suites, curves, min_version};
pub use endpoints::Endpoints;
pub use health::{Checks, Health};
pub use runtime_heartbeat::RuntimeHeartbeat;
pub use server::Server;
pub use settings::{
    Authentication, Authorization, ClusterAccess, HeaderNames, RequestHeader, SecureServing,
    SniCertificate,
};

/// Why the endpoints cannot be served.
#[derive(Debug, Error)]
pub enum ServingError {
    /// The address is in use, or is none of this machine's.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address that the flags give.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A certificate or key file is missing or unusable.
    #[error("{path}: {reason}", path = path.display())]
    Certificate {
        /// Path of the certificate or key file.
        path: PathBuf,
        /// The reason; never the file's content.
        reason: String,
    },
    /// The TLS settings exclude each other.
    #[error("TLS: {0}")]
    Tls(String),
    /// The cluster's own authentication settings cannot be read.
    #[error(
        "cannot read ConfigMap kube-system/extension-apiserver-authentication: grant the Role \
         extension-apiserver-authentication-reader, or set --authentication-skip-lookup or \
         --authentication-tolerate-lookup-failure"
    )]
    ClusterSettings(#[source] kube::Error),
    /// The client for reviews cannot be created.
    #[error("cannot make a Kubernetes client for {purpose}")]
    Client {
        /// The purpose of the client, for the message.
        purpose: &'static str,
        /// The error of the Kubernetes client library.
        #[source]
        source: kube::Error,
    },
    /// The operating system refuses to start a thread.
    #[error("cannot start the thread of the endpoints")]
    Thread(#[source] std::io::Error),
}
