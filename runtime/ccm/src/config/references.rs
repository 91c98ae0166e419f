//! What a provider's entry refers to outside of itself, but its module. Reads nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::proxy::RawProxy;
use super::raw::{RawPem, RawProvider};
use super::raw_credential::{
    RawAwsSource, RawCredential, RawIssuer, RawKeystoneMethod, RawOAuth2Grant,
};
use super::secret::{SecretKey, SecretSource};

/// The cluster Secrets that an entry refers to, and whether it refers to what is the manager's own.
#[derive(Default)]
pub(super) struct References {
    /// Keys of Secrets in the cluster.
    pub(super) secrets: BTreeSet<SecretKey>,
    /// A secret is in a variable or a file of the manager.
    pub(super) has_manager_secret: bool,
    /// Certificates or keys are in a file of the manager's machine.
    pub(super) has_manager_file: bool,
    /// A credential is the identity of the machine or the container that the manager runs on.
    pub(super) has_manager_identity: bool,
}

impl References {
    /// Every reference of the entry.
    pub(super) fn of(provider: &RawProvider) -> References {
        let mut found = References::default();
        for target in provider.grants.iter().flat_map(|grants| &grants.targets) {
            found.file(&target.ca_file);
            found.proxy(&target.proxy);
            if let Some(credential) = &target.credential {
                found.credential(credential);
            }
        }
        found.proxy(&provider.proxy);
        found.secret(&provider.registry.credentials);
        found.file(&provider.registry.ca_file);
        found.proxy(&provider.registry.proxy);
        found.pems(&provider.trust.keys);
        for signer in &provider.trust.keyless {
            found.pems([&signer.roots]);
            found.pems(&signer.logs);
            found.pems(&signer.time_stamps);
        }
        found
    }

    fn secret<'a>(&mut self, sources: impl IntoIterator<Item = &'a SecretSource>) {
        for source in sources {
            match source {
                SecretSource::Secret(key) => {
                    self.secrets.insert(key.clone());
                }
                SecretSource::Env(_) | SecretSource::File(_) => self.has_manager_secret = true,
            }
        }
    }

    fn file(&mut self, path: &Option<PathBuf>) {
        self.has_manager_file |= path.is_some();
    }

    fn pems<'a>(&mut self, pems: impl IntoIterator<Item = &'a RawPem>) {
        let mut pems = pems.into_iter();
        self.has_manager_file |= pems.any(|pem| matches!(pem, RawPem::File(_)));
    }

    fn proxy(&mut self, proxy: &Option<RawProxy>) {
        if let Some(RawProxy::Through(server)) = proxy {
            self.file(&server.ca_file);
            self.secret(server.login.as_ref().map(|login| &login.password));
        }
    }

    fn issuer<'a>(&mut self, issuer: impl IntoIterator<Item = &'a RawIssuer>) {
        for issuer in issuer {
            self.file(&issuer.ca_file);
            self.proxy(&issuer.proxy);
        }
    }

    fn credential(&mut self, credential: &RawCredential) {
        match credential {
            RawCredential::Bearer(secret)
            | RawCredential::Basic {
                password: secret, ..
            }
            | RawCredential::Header { value: secret, .. } => self.secret([secret]),
            RawCredential::AwsSigV4(aws) => self.aws(&aws.source),
            RawCredential::OAuth2(oauth2) => {
                self.issuer([&oauth2.issuer]);
                let client = oauth2.client.iter();
                self.secret(client.flat_map(|client| &client.secret));
                self.secret(oauth2.grant.as_ref().map(|grant| match grant {
                    RawOAuth2Grant::JwtBearer { assertion } => assertion,
                    RawOAuth2Grant::TokenExchange { subject_token, .. } => subject_token,
                }));
            }
            RawCredential::Keystone(keystone) => {
                self.issuer([&keystone.issuer]);
                self.secret([match &keystone.method {
                    RawKeystoneMethod::Password { password, .. } => password,
                    RawKeystoneMethod::ApplicationCredential { secret, .. } => secret,
                }]);
            }
        }
    }

    fn aws(&mut self, source: &RawAwsSource) {
        match source {
            RawAwsSource::Keys(keys) => {
                self.secret([&keys.access_key_id, &keys.secret_access_key]);
                self.secret(&keys.session_token);
            }
            RawAwsSource::WebIdentity(identity) => {
                self.issuer(&identity.issuer);
                self.secret([&identity.token]);
            }
            RawAwsSource::Container(container) => {
                self.has_manager_identity = true;
                self.issuer([&container.issuer]);
                self.secret(&container.authorization);
            }
            RawAwsSource::InstanceMetadata(metadata) => {
                self.has_manager_identity = true;
                self.issuer(&metadata.issuer);
            }
        }
    }
}
