//! A registry behind a proxy: requests to the proxy, which alone resolves the registry's name.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ccm_host::grant::ProxyGrant;
use ccm_proxy::{NoProxy, Proxy};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::fake_registry::{FakeRegistry, RegistryContent, module, source};
use crate::source::oci::OciSettings;
use crate::source::{Location, Source as _, SourceError};

/// A proxy on loopback; runs until it is dropped.
pub(super) struct Tunnels {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tunnels {
    /// Starts a proxy that answers with `status`; behind its tunnels, `tls` wraps the plain server `to`.
    pub(super) async fn start(status: &'static str, tls: TlsAcceptor, to: String) -> Tunnels {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let written = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (written, tls, to) = (written.clone(), tls.clone(), to.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.unwrap());
                    }
                    let head = String::from_utf8(head).unwrap();
                    written.lock().unwrap().push(head);
                    let answer = format!("HTTP/1.1 {status}\r\n\r\n");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    if let Ok(mut stream) = tls.accept(stream).await {
                        let mut server = TcpStream::connect(to).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut server).await;
                    }
                });
            }
        });
        Tunnels {
            address,
            asked,
            task,
        }
    }

    pub(super) fn grant(&self, no_proxy: &str) -> ProxyGrant {
        let url = format!("http://me:canary-5c1@{}", self.address);
        ProxyGrant {
            proxy: Proxy::parse(&url).unwrap(),
            except: NoProxy::parse(no_proxy),
            addresses: Vec::new(),
            ca_pem: None,
        }
    }
}

/// TLS for `registry.test`, and its authority.
pub(super) fn tls() -> (TlsAcceptor, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["registry.test".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

/// The settings of a fake whose registry is called `host` and needs TLS.
fn settings(fake: &FakeRegistry, host: &str, ca: &str, proxy: ProxyGrant) -> OciSettings {
    let mut settings = fake.settings(":1");
    let place = format!("oci://{host}/{}:1", settings.place.repository);
    let Location::Oci(place) = Location::parse(&place).unwrap() else {
        unreachable!()
    };
    settings.place = place;
    settings.access.ca_pem = Some(ca.to_owned());
    settings.access.proxy = Some(proxy);
    settings.access.plain_http = false;
    settings
}

#[tokio::test]
async fn a_module_comes_through_a_proxy_that_resolves_the_name() {
    let (content, _) = RegistryContent::with(&module(5000));
    let fake = FakeRegistry::honest(content).await;
    let (tls, ca) = tls();
    let proxy = Tunnels::start("200 OK", tls, fake.host.clone()).await;
    let settings = settings(&fake, "registry.test", &ca, proxy.grant(""));
    // The registry's name is not resolved here: that would be an error.
    let artifact = source(settings).next().await.unwrap();
    assert_eq!(artifact.wasm.len(), 5000);
    let asked = proxy.asked.lock().unwrap().clone();
    assert!(!asked.is_empty());
    for head in asked {
        assert!(
            head.starts_with("CONNECT registry.test:443 HTTP/1.1\r\n"),
            "{head}"
        );
        // `me:canary-5c1`
        let login = head.to_ascii_lowercase();
        assert!(
            login.contains("proxy-authorization: basic bwu6y2fuyxj5ltvjmq=="),
            "{head}"
        );
    }
    assert!(
        fake.asked()
            .iter()
            .all(|asked| asked.authorization.is_none())
    );
}

#[tokio::test]
async fn a_refusal_and_a_lie_of_a_proxy_bring_nothing() {
    let (content, _) = RegistryContent::with(&module(100));
    let fake = FakeRegistry::honest(content).await;
    let (foreign, _) = tls();
    let (genuine, ca) = tls();
    for (status, tls, expected) in [
        ("407 No", genuine.clone(), "tunnel"),
        ("403 No", genuine, "tunnel"),
        ("200 OK", foreign, "certificate"),
    ] {
        let proxy = Tunnels::start(status, tls, fake.host.clone()).await;
        let settings = settings(&fake, "registry.test", &ca, proxy.grant(""));
        let error: SourceError = source(settings).next().await.err().unwrap();
        let text = error.to_string();
        let through = format!("registry.test through the proxy http://{}", proxy.address);
        assert!(text.contains(&through) && text.contains(expected), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn what_is_excepted_or_never_named_does_not_reach_the_proxy() {
    let (content, _) = RegistryContent::with(&module(100));
    let fake = FakeRegistry::honest(content).await;
    let (tls, ca) = tls();
    let proxy = Tunnels::start("200 OK", tls, fake.host.clone()).await;
    for (host, no_proxy, expected) in [
        ("registry.test", ".test", "is looked up"),
        ("metadata.google.internal", "", "a metadata service"),
        ("a.localhost", "", "the proxy's own machine"),
        ("169.254.169.254", "", "metadata services are"),
    ] {
        let settings = settings(&fake, host, &ca, proxy.grant(no_proxy));
        let error = source(settings).next().await.err().unwrap().to_string();
        assert!(error.contains(expected), "{host}: {error}");
    }
    assert!(proxy.asked.lock().unwrap().is_empty());
}
