#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use super::*;

fn read(text: &str) -> Result<Vec<ProviderConfig>, Mistakes> {
    let surroundings = Surroundings {
        variable: &|name| (name == "TOKEN").then(|| "s3cret".to_owned()),
        file: &|path| match path.to_str() {
            Some("/ca.pem") => Ok("-----BEGIN CERTIFICATE-----".to_owned()),
            _ => Err("no such file".to_owned()),
        },
    };
    parse(text, &surroundings)
}

const GOOD: &str = "
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: hcloud
  module: file:///etc/ccm/hcloud.wasm
  config: { HCLOUD_NETWORK: cluster }
  grants:
    targets:
    - name: api
      endpoint: https://api.example.com/v1
      credential: { bearer: { env: TOKEN } }
      addresses: [10.0.0.0/8, 192.168.1.1]
      caFile: /ca.pem
      rules:
      - { methods: [GET], path: /servers, access: read }
";

#[test]
fn a_whole_file_is_read() {
    let providers = read(GOOD).unwrap();
    let [provider] = providers.as_slice() else {
        panic!("one provider")
    };
    assert_eq!(
        provider.module,
        ModuleRef::File("/etc/ccm/hcloud.wasm".into())
    );
    assert_eq!(provider.values["HCLOUD_NETWORK"], "cluster");
    let target = &provider.grants.as_ref().unwrap().targets[0];
    assert_eq!(target.endpoint.as_str(), "https://api.example.com/v1");
    assert_eq!(target.addresses.len(), 2);
    assert!(matches!(target.credential, Credential::Bearer(_)));
    assert!(target.ca_pem.is_some());
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = GOOD
        .replace("v1alpha1", "v9")
        .replace("env: TOKEN", "env: MISSING")
        .replace("/ca.pem", "/nowhere")
        .replace("10.0.0.0/8", "ten")
        .replace("file:///etc", "ftp://etc");
    let Mistakes(mistakes) = read(&text).err().unwrap();
    for expected in [
        "apiVersion",
        "MISSING is not set",
        "/nowhere",
        "\"ten\"",
        "ftp://",
    ] {
        assert!(
            mistakes.iter().any(|mistake| mistake.contains(expected)),
            "{expected}: {mistakes:?}"
        );
    }
    assert!(!mistakes.join("\n").contains("s3cret"));
}

#[test]
fn an_unknown_key_is_a_mistake_with_its_line() {
    let Mistakes(mistakes) = read(&GOOD.replace("  module:", "  modul:")).err().unwrap();
    assert!(mistakes[0].contains("modul"), "{mistakes:?}");
}

#[test]
fn module_references_have_two_forms_and_a_plain_path() {
    assert_eq!(
        ModuleRef::parse("embedded:x"),
        Ok(ModuleRef::Embedded("x".into()))
    );
    assert_eq!(
        ModuleRef::parse("file:///a/b.wasm"),
        Ok(ModuleRef::File("/a/b.wasm".into()))
    );
    assert_eq!(
        ModuleRef::parse("b.wasm"),
        Ok(ModuleRef::File("b.wasm".into()))
    );
    for text in ["", "file://a/b.wasm", "http://x/y", "oci://x"] {
        assert!(ModuleRef::parse(text).is_err(), "{text}");
    }
}

#[test]
fn load_balancers_are_for_services_without_a_class_unless_the_file_says_otherwise() {
    let [unset] = &read(GOOD).unwrap()[..] else {
        panic!("one provider")
    };
    assert_eq!(unset.load_balancers, LoadBalancerConfig::default());
    assert!(unset.load_balancers.is_default && !unset.load_balancers.adoption);
    let text = GOOD.replace(
        "  grants:",
        "  loadBalancerClasses: [internal, example.com/hcloud]
  defaultLoadBalancer: false
  ingressCIDRs: [203.0.113.0/24, 2001:db8::/32]
  adoptLoadBalancers: true
  grants:",
    );
    let [set] = &read(&text).unwrap()[..] else {
        panic!("one provider")
    };
    let LoadBalancerConfig {
        classes,
        is_default,
        ingress_cidrs,
        adoption,
    } = &set.load_balancers;
    assert_eq!(
        classes.iter().collect::<Vec<_>>(),
        ["example.com/hcloud", "internal"]
    );
    assert!(!is_default && *adoption);
    assert_eq!(ingress_cidrs.len(), 2);
}

#[test]
fn mistakes_about_load_balancers_name_what_is_wrong() {
    let wrong = "
apiVersion: config.wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: one
  loadBalancerClasses: [same, same, Bad.Domain/x, -x, '']
- name: two
  loadBalancerClasses: [same]
  ingressCIDRs: [203.0.113.1, everywhere]
";
    let Mistakes(mistakes) = read(wrong).err().unwrap();
    let expected = [
        "provider \"one\": load balancer class \"same\" is there twice",
        "provider \"one\": load balancer class \"Bad.Domain/x\": expected a label such as example.com/internal",
        "provider \"one\": load balancer class \"-x\": expected a label such as example.com/internal",
        "provider \"one\": load balancer class \"\": expected a label such as example.com/internal",
        "provider \"two\": ingressCIDRs \"203.0.113.1\": expected a range such as 203.0.113.0/24",
        "provider \"two\": ingressCIDRs \"everywhere\": expected a range such as 203.0.113.0/24",
        "loadBalancerClasses: \"same\" is served by the providers \"one\" and \"two\": one of them has to go",
    ];
    assert_eq!(mistakes, expected);
}
