//! Writes the files of a kube-apiserver: its certificate, the service account key, users with their tokens, the audit
//! policy; and the kubeconfig files for its clients.
//!
//! All files are in one folder, are created for each server, and are useless after that server is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::KeyPair;
use serde_json::json;

use super::StartOptions;
use crate::authority;

/// The user of every server.
pub(super) const ADMIN: &str = "admin";

/// Watches are recorded when they begin, all other requests when they are answered: one entry per request. Bodies of
/// writes are included, because tests may check their contents and order.
const AUDIT_POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "rules": [
    {"level": "Metadata", "verbs": ["watch"], "omitStages": ["RequestReceived", "ResponseComplete"]},
    {"level": "Metadata", "verbs": ["get", "list"], "omitStages": ["RequestReceived", "ResponseStarted"]},
    {"level": "Request", "omitStages": ["RequestReceived", "ResponseStarted"]}
  ]
}"#;

/// The files of one server.
pub(super) struct Files {
    folder: PathBuf,
    server: String,
    kubeconfigs: BTreeMap<String, PathBuf>,
    audit: bool,
}

impl Files {
    /// Writes all files for a server on `port` of 127.0.0.1.
    pub(super) fn write(folder: &Path, port: u16, options: &StartOptions) -> Result<Self> {
        let mut files = Self {
            folder: folder.to_owned(),
            server: format!("https://127.0.0.1:{port}"),
            kubeconfigs: BTreeMap::new(),
            audit: options.audit,
        };
        let tls = authority::issue("kube-apiserver")?;
        files.put("ca.crt", &tls.ca_pem)?;
        files.put("server.crt", &tls.certificate_pem)?;
        files.put("server.key", &tls.key_pem)?;
        let service_accounts = KeyPair::generate().context("cannot make a key")?;
        files.put("service-accounts.key", &service_accounts.serialize_pem())?;
        files.put("service-accounts.pub", &service_accounts.public_key_pem())?;
        if options.audit {
            files.put("audit-policy.json", AUDIT_POLICY)?;
        }

        let admin = (ADMIN.to_owned(), vec!["system:masters".to_owned()]);
        let mut tokens = String::new();
        for (number, (user, groups)) in std::iter::once(&admin).chain(&options.users).enumerate() {
            let token = format!("token-{number}");
            let groups = groups.join(",");
            tokens.push_str(&format!("{token},{user},{number},\"{groups}\"\n"));
            let kubeconfig = files.write_kubeconfig(&format!("user-{number}"), &token)?;
            files.kubeconfigs.insert(user.clone(), kubeconfig);
        }
        files.put("tokens.csv", &tokens)?;
        Ok(files)
    }

    /// The server flags with the file paths.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut flags = vec![
            ("tls-cert-file", "server.crt"),
            ("tls-private-key-file", "server.key"),
            ("cert-dir", "certificates"),
            ("service-account-key-file", "service-accounts.pub"),
            ("service-account-signing-key-file", "service-accounts.key"),
            ("token-auth-file", "tokens.csv"),
        ];
        if self.audit {
            flags.extend([
                ("audit-policy-file", "audit-policy.json"),
                ("audit-log-path", "audit.log"),
            ]);
        }
        flags
            .into_iter()
            .map(|(flag, file)| format!("--{flag}={}", self.path(file).display()))
            .collect()
    }

    /// The kubeconfig file of a user.
    pub(super) fn kubeconfig(&self, user: &str) -> Result<PathBuf> {
        let path = self.kubeconfigs.get(user);
        path.cloned()
            .with_context(|| format!("this API server was started without the user {user:?}"))
    }

    /// Path of the audit log, if enabled.
    pub(super) fn audit_log(&self) -> Option<PathBuf> {
        self.audit.then(|| self.path("audit.log"))
    }

    /// Writes a kubeconfig file with a token and returns its path.
    pub(super) fn write_kubeconfig(&self, name: &str, token: &str) -> Result<PathBuf> {
        let cluster = json!({
            "server": self.server,
            "certificate-authority": self.path("ca.crt"),
        });
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        });
        let file = format!("kubeconfig-{name}.json");
        self.put(&file, &kubeconfig.to_string())?;
        Ok(self.path(&file))
    }

    /// The authority that issued the server's certificate.
    pub(super) fn ca_pem(&self) -> Result<String> {
        let path = self.path("ca.crt");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
