//! `registry` of a provider: what the client of its registry is told.

use ccm_delivery::source::oci::{Mirror, RegistryCredentials};
use ipnet::IpNet;
use tokio::sync::watch;

use super::*;

const PROVIDER: &str = "
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: cloud
  source: oci://registry.test:5000/clouds/cloud:1
  trust: { unsigned: true }
  registry:
    credentials: { env: LOGIN }
    caFile: /ca.pem
    mirrors: [mirror.test/prefix]
    pollInterval: 1m
    addresses: [10.0.0.0/8]
    proxy: { url: \"http://proxy.test:3128\" }
    plainHttp: true
";
const LOGIN: &str = r#"{"auths": {"registry.test:5000": {"auth": "cm9ib3Q6Y2FuYXJ5LTlmMg=="}}}"#;

#[test]
fn every_setting_of_a_registry_reaches_its_client() {
    let context = ConfigContext {
        absent: None,
        variable: &|name| (name == "LOGIN").then(|| LOGIN.to_owned()),
        file: &|_| Ok(AUTHORITY.clone()),
        secret: &|_| Err("there is no such Secret".to_owned()),
    };
    let mut providers = parse(PROVIDER, &context).ok().unwrap();
    let provider = providers.remove(0);
    let Location::Oci(place) = &provider.source else {
        panic!("{}", provider.source)
    };
    let (_sender, credentials) = watch::channel(provider.registry.credentials.clone());
    let settings = provider.registry.settings(place, credentials);
    let place = settings.place.to_string();
    assert_eq!(place, "oci://registry.test:5000/clouds/cloud:1");
    let login = RegistryCredentials::parse_docker_config(LOGIN).unwrap();
    assert!(*settings.credentials.borrow() == Some(login));
    assert_eq!(settings.ca_pem.as_ref(), Some(&*AUTHORITY));
    let mirror = Mirror::parse("mirror.test/prefix").unwrap();
    assert_eq!(settings.mirrors, [mirror]);
    assert_eq!(settings.poll, Duration::from_secs(60));
    assert_eq!(settings.addresses, ["10.0.0.0/8".parse::<IpNet>().unwrap()]);
    let proxy = settings.proxy.map(|grant| grant.proxy.to_string());
    assert_eq!(proxy.as_deref(), Some("http://proxy.test:3128"));
    assert!(settings.plain_http);
    // Without a single one, the defaults of the client.
    let defaults = RegistryConfig::default();
    let settings = defaults.settings(&settings.place, watch::channel(None).1);
    assert!(settings.credentials.borrow().is_none() && settings.ca_pem.is_none());
    assert!(settings.proxy.is_none() && !settings.plain_http);
}
