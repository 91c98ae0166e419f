//! The authorities that this server trusts: the CA files of the flags, and where a flag is not given, the cluster's own
//! settings in the ConfigMap `kube-system/extension-apiserver-authentication` (PROC-076). Reads both again at
//! intervals.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use thiserror::Error;
use tokio::time::timeout;

use crate::ServingError;
use crate::access_control::is_unanswered;
use crate::authentication::CertificateAuthority;
use crate::settings::{Authentication, HeaderNames};
use crate::slow_file;
use crate::told_reason::{HOURLY, ToldReason};

/// The ConfigMap in which the API server publishes how it authenticates.
const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// Timeout of reading the ConfigMap.
const LOOKUP: Duration = Duration::from_secs(5);

/// The authorities trusted now.
#[derive(Debug, Default)]
pub(crate) struct Trusted {
    pub client_authority: Option<CertificateAuthority>,
    pub front_proxy: Option<FrontProxy>,
    /// Whether the cluster's settings were read, or need not be.
    pub is_complete: bool,
}

/// A proxy that may name users.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    pub authority: CertificateAuthority,
    pub headers: HeaderNames,
}

/// The trust settings, as last read.
pub(crate) struct ClusterSettings {
    config_map: Option<Api<ConfigMap>>,
    trusted: ArcSwap<Trusted>,
    /// Why the files of the flags could not be read again.
    told: ToldReason,
}

impl ClusterSettings {
    /// Reads the files and, unless switched off, the ConfigMap.
    ///
    /// # Errors
    /// A file is unusable; or the ConfigMap cannot be read and has to be.
    pub(crate) async fn read(
        settings: &Authentication,
        client: Option<Client>,
    ) -> Result<ClusterSettings, ServingError> {
        let looks_up = !settings.skips_lookup
            && (settings.client_ca.is_none() || settings.request_header.is_none());
        let client = client.filter(|_| looks_up);
        let config_map = client.map(|client| Api::namespaced(client, "kube-system"));
        let found = match lookup(config_map.as_ref()).await {
            Err(Lookup::Refused(error)) if !settings.tolerates_failed_lookup => {
                return Err(ServingError::ClusterSettings(error));
            }
            Err(reason) => {
                tracing::warn!(
                    %reason,
                    "cannot read ConfigMap kube-system/{CONFIG_MAP}: until then client certificates are not accepted"
                );
                None
            }
            Ok(found) => Some(found),
        };
        let trusted = trust(settings, found).await?;
        Ok(ClusterSettings {
            config_map,
            trusted: ArcSwap::from_pointee(trusted),
            told: ToldReason::new(HOURLY),
        })
    }

    /// The authorities trusted now.
    pub(crate) fn trusted(&self) -> Arc<Trusted> {
        self.trusted.load_full()
    }

    /// Reads everything again. A file or ConfigMap that cannot be read changes nothing.
    pub(crate) async fn look(&self, settings: &Authentication) {
        match lookup(self.config_map.as_ref()).await {
            Ok(found) => match trust(settings, Some(found)).await {
                Ok(trusted) => {
                    self.told.clear();
                    self.trusted.store(Arc::new(trusted));
                }
                Err(error) => {
                    if self.told.is_due(&error.to_string(), Instant::now()) {
                        tracing::warn!(%error, "trust in clients stays as it is");
                    }
                }
            },
            Err(reason) => tracing::debug!(%reason, "trust in clients stays as it is"),
        }
    }
}

/// Why the ConfigMap was not read.
#[derive(Debug, Error)]
enum Lookup {
    /// The API server answers with an error, such as missing rights, which does not pass by itself.
    #[error("{0}")]
    Refused(kube::Error),
    /// The API server cannot be reached, or cannot serve yet; a proxy in front of it may say so in its place. As everywhere
    /// in this program, that is no reason to end.
    #[error("the API server does not answer")]
    Unreachable,
}

async fn lookup(api: Option<&Api<ConfigMap>>) -> Result<Option<ConfigMap>, Lookup> {
    let Some(api) = api else {
        return Ok(None);
    };
    // A cluster without the ConfigMap trusts no client certificates.
    match timeout(LOOKUP, api.get_opt(CONFIG_MAP)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(match is_unanswered(&error) {
            true => Lookup::Unreachable,
            false => Lookup::Refused(error),
        }),
        Err(_) => Err(Lookup::Unreachable),
    }
}

/// `config_map` is `None` if it could not be read, and `Some(None)` if there is none.
async fn trust(
    settings: &Authentication,
    config_map: Option<Option<ConfigMap>>,
) -> Result<Trusted, ServingError> {
    let is_complete = config_map.is_some();
    let config_map = config_map.flatten();
    let data = config_map.as_ref().and_then(|map| map.data.as_ref());
    let value = |key: &str| data.and_then(|data| data.get(key)).map(String::as_str);
    let client_authority = match &settings.client_ca {
        Some(file) => Some(authority_file(file).await?),
        None => value("client-ca-file").and_then(authority_text),
    };
    let front_proxy = match &settings.request_header {
        Some(flags) => Some(FrontProxy {
            authority: authority_file(&flags.ca).await?,
            headers: flags.headers.clone(),
        }),
        None => value("requestheader-client-ca-file")
            .and_then(authority_text)
            .and_then(|authority| {
                let headers = HeaderNames::published(value)?;
                Some(FrontProxy { authority, headers })
            }),
    };
    Ok(Trusted {
        client_authority,
        front_proxy,
        is_complete,
    })
}

impl HeaderNames {
    /// Reads the header names of the ConfigMap, whose values are JSON lists. `None`: one cannot be parsed; an empty list
    /// in its place would allow every proxy.
    fn published<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<HeaderNames> {
        let list = |key: &str| -> Option<Vec<String>> {
            let text = value(key).filter(|text| !text.is_empty());
            let parsed = serde_json::from_str::<Option<Vec<String>>>(text.unwrap_or("[]"));
            let parsed = parsed.inspect_err(|_| {
                tracing::warn!(
                    key,
                    "a list of the cluster is unusable: no front proxy names users"
                );
            });
            parsed.ok().map(Option::unwrap_or_default)
        };
        Some(HeaderNames {
            allowed_names: list("requestheader-allowed-names")?,
            user: list("requestheader-username-headers")?,
            uid: list("requestheader-uid-headers")?,
            group: list("requestheader-group-headers")?,
            extra: list("requestheader-extra-headers-prefix")?,
        })
    }
}

async fn authority_file(path: &Path) -> Result<CertificateAuthority, ServingError> {
    let unusable = |reason: String| ServingError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let pem = slow_file::read(path).await;
    let pem = pem.map_err(|error| unusable(error.to_string()))?;
    CertificateAuthority::from_pem(&pem).map_err(unusable)
}

/// A published bundle that cannot be parsed trusts no client.
fn authority_text(pem: &str) -> Option<CertificateAuthority> {
    CertificateAuthority::from_pem(pem.as_bytes())
        .inspect_err(|reason| tracing::warn!(reason, "a CA bundle of the cluster is unusable"))
        .ok()
}
