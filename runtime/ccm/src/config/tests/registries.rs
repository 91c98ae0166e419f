//! `registry` of a provider: what the client of its registry is told.

use ccm_delivery::source::oci::{Mirror, RegistryCredentials};
use ipnet::IpNet;

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
fn every_setting_of_a_registry_is_read() {
    let context = ConfigContext {
        absent: None,
        variable: &|name| (name == "LOGIN").then(|| LOGIN.to_owned()),
        file: &|_| Ok(AUTHORITY.clone()),
        secret: &|_| Err("there is no such Secret".to_owned()),
    };
    let mut providers = parse(PROVIDER, &context).ok().unwrap();
    let provider = providers.remove(0);
    let registry = provider.registry;
    let login = RegistryCredentials::parse_docker_config(LOGIN).unwrap();
    assert!(registry.credentials == Some(login));
    let access = registry.access;
    assert_eq!(access.ca_pem.as_ref(), Some(&*AUTHORITY));
    let mirror = Mirror::parse("mirror.test/prefix").unwrap();
    assert_eq!(access.mirrors, [mirror]);
    assert_eq!(access.poll, Duration::from_secs(60));
    assert_eq!(access.addresses, ["10.0.0.0/8".parse::<IpNet>().unwrap()]);
    let proxy = access.proxy.map(|grant| grant.proxy.to_string());
    assert_eq!(proxy.as_deref(), Some("http://proxy.test:3128"));
    assert!(access.plain_http);
}
