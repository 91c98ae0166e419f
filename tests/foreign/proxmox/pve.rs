//! fakepve, a simulator of Proxmox VE that others make, unmodified and in a process of its own; and proxmoxer, a client
//! that others make, which creates and destroys its machines. Asserts nothing about its clients.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use ccm_host::Digest;
use ccm_host::grant::Fingerprint;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::python::Client;

/// The owner of the token.
pub(crate) const USER: &str = "kubernetes@pve";
const TOKEN: &str = "ccm";
/// The secret of the API token.
pub(crate) const SECRET: &str = "5b0a7c62-6b9a-4a0e-9a53-0d1f6c5f3c11";

/// fakepve, served by a script beside this file; its process ends with this value.
pub(crate) struct Pve {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) url: String,
    pub(crate) fingerprint: Fingerprint,
    /// The authority that has signed its certificate, as PEM.
    pub(crate) ca_pem: String,
}

impl Pve {
    pub(crate) fn serve(client: &Client) -> Pve {
        let tls = ccm_tests::authority::issue("pve").unwrap();
        let folder = client.folder();
        std::fs::write(folder.join("certificate.pem"), &tls.certificate_pem).unwrap();
        std::fs::write(folder.join("key.pem"), &tls.key_pem).unwrap();
        let certificate = CertificateDer::from_pem_slice(tls.certificate_pem.as_bytes()).unwrap();
        let digest = Digest::of(&certificate).to_string();
        let fingerprint = digest.strip_prefix("sha256:").unwrap().parse().unwrap();
        let script = super::checkout().join("tests/foreign/proxmox/serve.py");
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(script)
            .arg(folder)
            .args([&format!("{USER}!{TOKEN}"), SECRET])
            .env("PYTHONPATH", client.packages())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        Pve {
            orders: child.stdin.take(),
            child,
            answers,
            url: serde_json::from_str(&line).expect("fakepve did not start"),
            fingerprint,
            ca_pem: tls.ca_pem,
        }
    }

    pub(crate) fn order(&mut self, order: &Value) -> Value {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The requests since this was called last.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        serde_json::from_value(self.order(&json!(["requests"]))).unwrap()
    }

    /// The value of the header that carries the token with this secret.
    pub(crate) fn authorization(secret: &str) -> String {
        format!("PVEAPIToken={USER}!{TOKEN}={secret}")
    }

    /// Makes calls through proxmoxer, all of which must succeed.
    pub(crate) fn calls(&mut self, client: &Client, calls: Value) -> Vec<Value> {
        let authority = client.trust(&self.ca_pem);
        let trusted: &Path = &authority;
        let task = json!({
            "host": self.url.strip_prefix("https://"), "user": USER, "token": TOKEN, "secret": SECRET, "calls": calls,
        });
        let reported = client.drive(&task, &[("REQUESTS_CA_BUNDLE", trusted)]);
        let answers = reported.iter().map(|one| match one.get("answer") {
            Some(answer) => answer.clone(),
            None => panic!("{reported:#?}"),
        });
        let answers = answers.collect();
        self.requests();
        answers
    }
}

impl Drop for Pve {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// The call that makes a machine and starts it.
pub(crate) fn machine(node: &str, vmid: u64, name: &str, uuid: &str, more: Value) -> Value {
    let mut parameters = json!({
        "vmid": vmid, "name": name, "cores": 2, "memory": 2048, "smbios1": format!("uuid={uuid}"), "start": 1,
    });
    for (key, value) in more.as_object().unwrap() {
        parameters[key] = value.clone();
    }
    json!(["post", format!("nodes/{node}/qemu"), parameters])
}

/// The rules that the shipped module requests of its required target, as an operator grants them.
pub(crate) fn rules() -> Value {
    json!([
        {"methods": ["GET"], "path": "/cluster/resources", "query": {"type": ["vm"]}, "access": "read"},
        {"methods": ["GET"], "path": "/nodes/{node}/qemu/{vmid}/config", "access": "read"},
        {"methods": ["GET"], "path": "/access/permissions", "access": "read"},
    ])
}
