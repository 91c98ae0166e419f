//! A server with authorities of its own, and clients with and without their certificates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use ccm_core::status_report::{StatusReport, Time};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use reqwest::{Client, ClientBuilder};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tempfile::TempDir;

use crate::ServingError;
use crate::cipher_suites::TlsSettings;
use crate::endpoints::Endpoints;
use crate::health::Checks;
use crate::server::Server;
use crate::settings::{Authentication, Authorization, HeaderNames, RequestHeader, SecureServing};

/// The verbosity that the last `PUT /debug/flags/v` of any test set.
pub(super) static VERBOSITY: AtomicU32 = AtomicU32::new(0);

/// A certificate authority of a test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The authority's own certificate.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// The certificate in PEM form.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key, in PEM form.
    pub(crate) fn issue(
        &self,
        common_name: &str,
        organizations: &[&str],
        names: &[&str],
    ) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        for organization in organizations {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *organization);
        }
        let key = KeyPair::generate().unwrap();
        (
            params.signed_by(&key, &self.0).unwrap().pem(),
            key.serialize_pem(),
        )
    }
}

/// The report that the status page shows.
pub(super) fn report() -> StatusReport {
    let now = Time("2026-03-01T12:00:00Z".parse().unwrap());
    StatusReport {
        component: "cloud-controller-manager".to_owned(),
        version: "1.2.3".to_owned(),
        mode: "enforce".to_owned(),
        api_server: "https://10.0.0.1:6443/".to_owned(),
        started: now,
        now,
        has_election: false,
        leases: Vec::new(),
        providers: Vec::new(),
        waiting: Vec::new(),
        is_waiting_cut: false,
        brakes: Vec::new(),
        decisions: Vec::new(),
    }
}

pub(super) struct World {
    pub(super) folder: TempDir,
    pub(super) servers: Authority,
    pub(super) clients: Authority,
    pub(super) proxies: Authority,
    pub(super) checks: Checks,
}

impl World {
    pub(super) fn new() -> World {
        World {
            folder: TempDir::new().unwrap(),
            servers: Authority::new(),
            clients: Authority::new(),
            proxies: Authority::new(),
            checks: Checks::new(&mut Registry::default()),
        }
    }

    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn pair(&self, name: &str, names: &[&str]) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.servers.issue(name, &[], names);
        (
            self.file(&format!("{name}.crt"), &certificate),
            self.file(&format!("{name}.key"), &key),
        )
    }

    pub(super) fn settings(&self) -> SecureServing {
        SecureServing {
            bind_address: [127, 0, 0, 1].into(),
            port: 0,
            http2_streams: Some(0),
            share_port: false,
            certificate_folder: None,
            certificate: Some(self.pair("server", &["127.0.0.1"])),
            sni: Vec::new(),
            tls: TlsSettings::default(),
        }
    }

    pub(super) fn authentication(&self) -> Authentication {
        Authentication {
            cluster: None,
            cache: Duration::from_secs(10),
            client_ca: Some(self.file("clients.crt", &self.clients.pem())),
            request_header: Some(RequestHeader {
                ca: self.file("proxies.crt", &self.proxies.pem()),
                headers: HeaderNames {
                    allowed_names: vec!["front-proxy".to_owned()],
                    user: vec!["X-Remote-User".to_owned()],
                    uid: Vec::new(),
                    group: vec!["X-Remote-Group".to_owned()],
                    extra: vec!["X-Remote-Extra-".to_owned()],
                },
            }),
            skips_lookup: false,
            tolerates_failed_lookup: false,
        }
    }

    pub(super) fn endpoints(&self) -> Endpoints {
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        counter.inc();
        registry.register("things", "Things that were counted", counter);
        Endpoints {
            component: "cloud-controller-manager",
            version: "1.2.3",
            checks: self.checks.clone(),
            ready: self.checks.beside(),
            metrics: Arc::new(registry),
            slis: Arc::new(Registry::default()),
            configz: Arc::new(json!({"cloudcontrollermanager.config.k8s.io": {}})),
            flags: Arc::new(BTreeMap::from([("v".to_owned(), "2".to_owned())])),
            started: SystemTime::now(),
            status: Arc::new(report),
            set_verbosity: Some(|verbosity| VERBOSITY.store(verbosity, Ordering::SeqCst)),
        }
    }

    pub(super) async fn start(&self) -> Server {
        self.start_with(self.settings()).await.unwrap()
    }

    pub(super) async fn start_with(&self, settings: SecureServing) -> Result<Server, ServingError> {
        let authorization = Authorization {
            cluster: None,
            cache_allowed: Duration::from_secs(10),
            cache_denied: Duration::from_secs(10),
            always_allowed: ["/healthz", "/livez", "/readyz"]
                .map(str::to_owned)
                .to_vec(),
        };
        Server::secure(
            settings,
            self.authentication(),
            authorization,
            self.endpoints(),
        )
        .await
    }

    /// A client that trusts the server, with a certificate of its own if one is given.
    pub(super) fn client(&self, own: Option<(String, String)>) -> Client {
        self.client_builder(own).build().unwrap()
    }

    /// The same client, not built yet.
    pub(super) fn client_builder(&self, own: Option<(String, String)>) -> ClientBuilder {
        let own = own.map(|(certificate, key)| {
            (
                CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap(),
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
        });
        let config = ccm_tests::tls_client::config(self.servers.certificate(), own).unwrap();
        Client::builder().tls_backend_preconfigured(config)
    }

    pub(super) fn master(&self) -> Client {
        self.client(Some(self.clients.issue("admin", &["system:masters"], &[])))
    }
}

pub(super) async fn get(client: &Client, server: &Server, path: &str) -> (u16, String) {
    let answer = client
        .get(format!("https://{}{path}", server.address()))
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}
