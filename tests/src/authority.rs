//! Private certificate authorities for servers on this machine. Each is created for one certificate and then
//! discarded.

use anyhow::{Context as _, Result};
use ccm_sim::hetzner::Tls;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Creates an authority and a certificate of `server` (a display name) signed by it, valid for `localhost` and
/// `127.0.0.1`.
///
/// # Errors
/// The system has no randomness.
pub fn issue(server: &str) -> Result<Tls> {
    issued(server).context("cannot make a certificate")
}

fn issued(server: &str) -> Result<Tls, rcgen::Error> {
    let mut authority = CertificateParams::default();
    let name = format!("Authority of {server}");
    authority.distinguished_name.push(DnType::CommonName, name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut leaf = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
    leaf.distinguished_name.push(DnType::CommonName, server);
    leaf.use_authority_key_identifier_extension = true;
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    Ok(Tls {
        certificate_pem: leaf.signed_by(&key, &authority)?.pem(),
        key_pem: key.serialize_pem(),
        ca_pem: authority.pem(),
    })
}
