//! The server's certificates: from files, which are read again when they change, or made and signed by this process.
//! Chooses among them by the name that the client asks for.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::ServingError;
use crate::settings::{SecureServing, SniCertificate};
use crate::slow_file;
use crate::told_reason::{HOURLY, ToldReason};

/// How often the files are compared with the served certificates. A kubelet updates mounted Secrets a minute late
/// anyway.
const LOOK: Duration = Duration::from_secs(10);
/// The name of the self-signed pair in `--cert-dir`, as upstream's.
const PAIR: &str = "cloud-controller-manager";
/// Names of the self-signed certificate, as upstream's.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// The source of one certificate.
enum Source {
    Files { certificate: PathBuf, key: PathBuf },
    Memory,
}

/// One certificate with the host names that it is served for.
struct Entry {
    source: Source,
    names: Vec<String>,
    served: ArcSwap<Loaded>,
    /// Why the files could not be read again.
    told: ToldReason,
}

struct Loaded {
    key: Arc<CertifiedKey>,
    /// The files' contents, to notice changes.
    files: (Vec<u8>, Vec<u8>),
    /// Names in the certificate.
    names: Vec<String>,
}

/// All certificates of the server. Clones share them.
#[derive(Clone)]
pub(crate) struct Certificates(Arc<Shared>);

struct Shared {
    default: Entry,
    sni: Vec<Entry>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Loads all certificates; makes a self-signed one where none is given.
    ///
    /// # Errors
    /// A file is missing or unusable.
    pub(crate) async fn load(settings: &SecureServing) -> Result<Certificates, ServingError> {
        let default = match (&settings.certificate, &settings.certificate_folder) {
            (Some((certificate, key)), _) => from_files(certificate, key, &[]).await?,
            (None, Some(folder)) => {
                let path = |extension| folder.join(format!("{PAIR}.{extension}"));
                let (certificate, key) = (path("crt"), path("key"));
                if !certificate.exists() || !key.exists() {
                    write_self_signed(folder, &certificate, &key)?;
                }
                from_files(&certificate, &key, &[]).await?
            }
            (None, None) => in_memory()?,
        };
        let mut sni = Vec::new();
        for SniCertificate {
            certificate,
            key,
            names,
        } in &settings.sni
        {
            sni.push(from_files(certificate, key, names).await?);
        }
        Ok(Certificates(Arc::new(Shared { default, sni })))
    }

    /// Reads the files again at intervals, for ever. A pair that cannot be used, as while it is half replaced, changes
    /// nothing.
    pub(crate) async fn follow(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look().await;
        }
    }

    /// The default certificate's chain.
    #[cfg(test)]
    pub(crate) fn served(&self) -> Vec<CertificateDer<'static>> {
        self.0.default.served.load().key.cert.clone()
    }

    pub(crate) async fn look(&self) {
        for entry in self.0.sni.iter().chain([&self.0.default]) {
            entry.look().await;
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or_default();
        let fits = |entry: &Entry, is_pattern: bool| {
            let served = entry.served.load();
            let names = match entry.names.is_empty() {
                true => &served.names,
                false => &entry.names,
            };
            let mut names = names.iter();
            names.any(|one| one.starts_with("*.") == is_pattern && covers(one, name))
        };
        // As in Go, whatever the order of the flags.
        let of = |is_pattern| {
            let mut entries = self.0.sni.iter();
            entries.find(|entry| fits(entry, is_pattern))
        };
        let entry = of(false).or_else(|| of(true));
        let entry = entry.unwrap_or(&self.0.default);
        Some(entry.served.load().key.clone())
    }
}

/// Whether a name or a pattern such as `*.example.com` covers a host name.
fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(rest) => name
            .split_once('.')
            .is_some_and(|(first, parent)| !first.is_empty() && parent.eq_ignore_ascii_case(rest)),
        None => !name.is_empty() && pattern.eq_ignore_ascii_case(name),
    }
}

impl Entry {
    async fn look(&self) {
        let Source::Files { certificate, key } = &self.source else {
            return;
        };
        match self.changed(certificate, key).await {
            Ok(changed) => {
                self.told.clear();
                if let Some(loaded) = changed {
                    tracing::info!(file = %certificate.display(), "the serving certificate is read again");
                    self.served.store(Arc::new(loaded));
                }
            }
            Err(error) => {
                if self.told.is_due(&error.to_string(), Instant::now()) {
                    tracing::warn!(%error, "the old serving certificate is kept");
                }
            }
        }
    }

    /// What the files hold now, unless it is what is served.
    async fn changed(
        &self,
        certificate: &Path,
        key: &Path,
    ) -> Result<Option<Loaded>, ServingError> {
        let files = read(certificate, key).await?;
        if files == self.served.load().files {
            return Ok(None);
        }
        Loaded::parse(files, certificate, key).map(Some)
    }
}

impl Loaded {
    fn parse(
        files: (Vec<u8>, Vec<u8>),
        certificate: &Path,
        key: &Path,
    ) -> Result<Loaded, ServingError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&files.0)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(certificate, error))?;
        if chain.is_empty() {
            return Err(unusable(certificate, "it has no certificate in PEM form"));
        }
        let private =
            PrivateKeyDer::from_pem_slice(&files.1).map_err(|error| unusable(key, error))?;
        let names = names(&chain);
        let signing = any_supported_type(&private).map_err(|error| unusable(key, error))?;
        let pair = CertifiedKey::new(chain, signing);
        pair.keys_match()
            .map_err(|_| unusable(key, "it is not the key of the certificate"))?;
        Ok(Loaded {
            key: Arc::new(pair),
            files,
            names,
        })
    }
}

async fn from_files(
    certificate: &Path,
    key: &Path,
    names: &[String],
) -> Result<Entry, ServingError> {
    let loaded = Loaded::parse(read(certificate, key).await?, certificate, key)?;
    Ok(Entry {
        source: Source::Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        },
        names: names.to_vec(),
        served: ArcSwap::from_pointee(loaded),
        told: ToldReason::new(HOURLY),
    })
}

fn in_memory() -> Result<Entry, ServingError> {
    let (certificate, key) = self_signed()?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing =
        any_supported_type(&private).map_err(|error| ServingError::Tls(error.to_string()))?;
    let pair = CertifiedKey::new(vec![certificate.der().clone()], signing);
    Ok(Entry {
        source: Source::Memory,
        names: Vec::new(),
        served: ArcSwap::from_pointee(Loaded {
            key: Arc::new(pair),
            files: (Vec::new(), Vec::new()),
            names: Vec::new(),
        }),
        told: ToldReason::new(HOURLY),
    })
}

fn self_signed() -> Result<(rcgen::Certificate, rcgen::KeyPair), ServingError> {
    let failed = |error: rcgen::Error| ServingError::Tls(error.to_string());
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = rcgen::CertificateParams::new(NAMES.map(str::to_owned))
        .map_err(failed)?
        .self_signed(&key)
        .map_err(failed)?;
    Ok((certificate, key))
}

fn write_self_signed(folder: &Path, certificate: &Path, key: &Path) -> Result<(), ServingError> {
    fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    let (made, private) = self_signed()?;
    for (path, text, mode) in [
        (key, private.serialize_pem(), 0o600),
        (certificate, made.pem(), 0o644),
    ] {
        // A file that is overwritten keeps its owner, its permissions and its readers.
        let removed = match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        removed
            .and_then(|()| options.open(path)?.write_all(text.as_bytes()))
            .map_err(|error| unusable(path, error))?;
    }
    Ok(())
}

async fn read(certificate: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>), ServingError> {
    let public = slow_file::read(certificate).await;
    let public = public.map_err(|error| unusable(certificate, error))?;
    let private = slow_file::read(key).await;
    Ok((public, private.map_err(|error| unusable(key, error))?))
}

/// DNS names of the first certificate. One that cannot be parsed has none, and is served by default only.
fn names(chain: &[CertificateDer<'_>]) -> Vec<String> {
    let Some(certificate) = chain
        .first()
        .and_then(|first| x509_cert::Certificate::from_der(first).ok())
    else {
        return Vec::new();
    };
    let Ok(Some((_, alternative))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let dns = alternative.0.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        _ => None,
    });
    dns.collect()
}

fn unusable(path: &Path, reason: impl fmt::Display) -> ServingError {
    ServingError::Certificate {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_star_covers_one_label() {
        for (pattern, name, expected) in [
            ("ccm.example.com", "ccm.example.com", true),
            ("ccm.example.com", "CCM.example.com", true),
            ("*.example.com", "ccm.example.com", true),
            ("*.example.com", "a.ccm.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("", "", false),
        ] {
            assert_eq!(covers(pattern, name), expected, "{pattern} {name}");
        }
    }
}
