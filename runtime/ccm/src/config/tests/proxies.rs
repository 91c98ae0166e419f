//! `proxy` of a provider, of a target and of `registry`: its meaning, and its mistakes.

use ccm_host::grant::ProxyGrant;

use super::super::*;

/// Reads a provider with these lines, in an environment with a proxy.
fn read(lines: &str) -> Result<ProviderConfig, String> {
    let text = format!(
        "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: hcloud\n{lines}"
    );
    let context = ConfigContext {
        absent: None,
        variable: &|name| match name {
            "HTTPS_PROXY" => Some("http://me:s3cret@env.test:3128".to_owned()),
            "NO_PROXY" => Some("10.0.0.0/8,.internal".to_owned()),
            _ => None,
        },
        file: &|path| match path.to_str() {
            Some("/password") => Ok("s3cret\n".to_owned()),
            Some("/ca.pem") => Ok(super::AUTHORITY.clone()),
            _ => Err("no such file".to_owned()),
        },
        secret: &|_| Ok("s3cret".to_owned()),
    };
    let providers = parse(&text, &context);
    let mut providers = providers.map_err(|Mistakes(mistakes)| mistakes.join("; "))?;
    Ok(providers.remove(0))
}

/// Grants of one target with these lines.
fn grants(endpoint: &str, lines: &str) -> String {
    format!(
        "  grants:\n    targets:\n    - name: api\n      endpoint: {endpoint}\n      rules: [{{ methods: [GET], path: /servers, access: read }}]\n{lines}"
    )
}

fn shown(grant: Option<&ProxyGrant>) -> String {
    grant.map_or_else(|| "-".to_owned(), |grant| grant.proxy.to_string())
}

#[test]
fn a_target_has_its_own_proxy_or_that_of_its_provider() {
    const CLOUD: &str = "https://api.example.com";
    for (provider, target, endpoint, expected) in [
        ("", "", CLOUD, "-"),
        ("  proxy: direct\n", "", CLOUD, "-"),
        ("  proxy: environment\n", "", CLOUD, "http://env.test:3128"),
        ("  proxy: environment\n", "", "https://api.internal", "-"),
        ("  proxy: environment\n", "", "https://10.1.2.3", "-"),
        ("  proxy: environment\n", "", "http://127.0.0.1:80", "-"),
        (
            "  proxy: environment\n",
            "      proxy: direct\n",
            CLOUD,
            "-",
        ),
        (
            "",
            "      proxy: environment\n",
            CLOUD,
            "http://env.test:3128",
        ),
        (
            "  proxy: { url: \"https://a.test\" }\n",
            "",
            CLOUD,
            "https://a.test:443",
        ),
        (
            "  proxy: { url: \"https://a.test\" }\n",
            "      proxy: { url: \"socks5://b.test\", noProxy: example.org }\n",
            CLOUD,
            "socks5://b.test:1080",
        ),
        (
            "  proxy: { url: \"http://a.test\", noProxy: \"example.com:443\" }\n",
            "",
            CLOUD,
            "-",
        ),
    ] {
        let read = read(&format!("{provider}{}", grants(endpoint, target))).unwrap();
        let grants = read.grants.unwrap();
        assert_eq!(
            shown(grants.targets[0].route()),
            expected,
            "{provider}{target}{endpoint}"
        );
    }
}

#[test]
fn a_shipped_module_and_a_registry_have_proxies_too() {
    let lines = "  proxy: { url: \"http://10.0.0.1:3128\", login: { user: me, password: { file: /password } }, addresses: [10.0.0.0/8], caFile: /ca.pem }\n  registry: { proxy: environment }\n";
    let read = read(lines).unwrap();
    let ProxyChoice::Through(grant) = &read.proxy else {
        panic!("no proxy")
    };
    assert_eq!(grant.proxy.to_string(), "http://10.0.0.1:3128");
    assert!(grant.proxy.has_login() && grant.ca_pem.is_some());
    assert_eq!(grant.addresses.len(), 1);
    let registry = read.registry.access.proxy.as_ref();
    assert_eq!(shown(registry), "http://env.test:3128");
}

#[test]
fn the_secret_of_a_login_is_one_that_is_read_first() {
    let text = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: a\n  proxy: { url: \"http://a.test\", login: { user: me, password: { secret: { namespace: n, name: one, key: k } } } }\n  registry: { proxy: { url: \"http://a.test\", login: { user: me, password: { secret: { namespace: n, name: two, key: k } } } } }\n";
    let secrets = Written::read(text).unwrap().secrets();
    let names: Vec<_> = secrets.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn a_proxy_that_cannot_be_used_is_a_mistake_without_its_password() {
    for (lines, expected) in [
        (
            "  proxy: \"http://me:s3cret@a.test\"\n",
            "expected `environment`, `direct` or a mapping",
        ),
        (
            "  proxy: { url: \"http://me:s3cret@a.test\" }\n",
            "a password does not belong into this file",
        ),
        (
            "  proxy: { url: \"ftp://a.test\" }\n",
            "expected a URL with",
        ),
        ("  proxy: { url: \"http://a.test\", port: 1 }\n", "port"),
        (
            "  proxy: { url: \"http://a.test\", login: { user: \"a:b\", password: { file: /password } } }\n",
            "login: the user has a colon",
        ),
        (
            "  proxy: { url: \"http://a.test\", login: { user: me, password: { file: /none } } }\n",
            "login: /none: no such file",
        ),
        (
            "  proxy: { url: \"http://a.test\", caFile: /none }\n",
            "caFile /none: no such file",
        ),
        (
            "  proxy: { url: \"http://a.test\", addresses: [x] }\n",
            "expected an IP address or a CIDR range",
        ),
        (
            "  proxy: { url: \"http://169.254.169.254\" }\n",
            "where metadata services are",
        ),
        (
            "  registry: { proxy: { url: \"socks5://a.test\" } }\n",
            "registries are reached through http:// and https:// proxies only",
        ),
        (
            "  registry: { proxy: { url: \"https://a.test\", caFile: /ca.pem } }\n",
            "registry: proxy: caFile: the certificate of this proxy must chain to what the registry's must",
        ),
        (
            "  registry: { proxy: { url: \"https://a.test\", caPem: x } }\n",
            "registry: proxy: caPem: the certificate",
        ),
    ] {
        let mistake = read(lines).err().unwrap();
        assert!(mistake.contains(expected), "{lines}: {mistake}");
        assert!(!mistake.contains("s3cret"), "{mistake}");
    }
    for (endpoint, expected) in [
        (
            "https://metadata.google.internal",
            "no proxy is asked for a metadata service",
        ),
        ("https://a.localhost", "the proxy's own machine"),
        ("http://api.example.com", "http goes to loopback only"),
    ] {
        let lines = format!(
            "  proxy: {{ url: \"http://a.test\" }}\n{}",
            grants(endpoint, "")
        );
        let mistake = read(&lines).err().unwrap();
        assert!(mistake.contains(expected), "{endpoint}: {mistake}");
    }
}
