//! Hostile configuration files. The corpus is beside those of `tests/fuzz`.

use std::net::IpAddr;

use ccm_core::name_syntax::is_dns_label;
use ccm_tests::fuzz::{Target, Verdict};

use super::super::*;
use super::read;

/// The value of every source that the file names; it is never shown.
const SECRET: &str = "s3cret";

#[test]
fn whatever_a_file_says_it_is_refused_or_safe() {
    let target = Target {
        name: "config",
        words: &[
            "apiVersion: wasm-ccm.dev/v1alpha1\n",
            "kind: ProviderConfiguration\n",
            "providers:\n- name: hcloud\n",
            "  source: oci://registry.example.com/a/b:1\n",
            "  source: file:///x.wasm\n",
            "  trust: { unsigned: true }\n",
            "  limits: { memoryMiB: 0 }\n",
            "  nodes: { schemes: [sim], selector: \"a=b\" }\n",
            "  rollout: { quiet: 9999999h }\n",
            "{ bearer: { env: TOKEN } }",
            "{ secret: { name: cloud, key: token } }",
            "{ file: /x }",
            "endpoint: http://127.0.0.1/\n",
            "https://169.254.169.254/",
            "user:pass@",
            "access: write",
            "[*a,*a]",
            "&a ",
            "!!binary ",
            "\"",
            ": ",
            "- ",
            "\n",
            "|\n",
        ],
        longest: 8 << 10,
        check,
    };
    target.run().unwrap();
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    let Ok(text) = std::str::from_utf8(input) else {
        return Ok(Verdict::Refused("no text".to_owned()));
    };
    let providers = match read(text) {
        Ok(providers) => providers,
        Err(mistakes) => {
            let why = mistakes.to_string();
            let is_fit = !why.is_empty() && (text.contains(SECRET) || !why.contains(SECRET));
            return match is_fit {
                true => Ok(Verdict::Refused(why)),
                false => Err(format!("people are shown {why:?}")),
            };
        }
    };
    for provider in &providers {
        is_safe(provider, text).map_err(|why| format!("{}: {why}", provider.name))?;
    }
    match together(&providers) {
        Ok(()) => Ok(Verdict::Taken),
        Err(mistakes) => Ok(Verdict::Refused(mistakes.to_string())),
    }
}

fn is_safe(provider: &ProviderConfig, text: &str) -> Result<(), String> {
    let rules = [
        (is_dns_label(&provider.name), "its name is no label"),
        (
            !provider.trust.allows_unsigned
                || !matches!(provider.source, Location::Oci(_))
                || text.contains("unsigned"),
            "a registry is trusted that nobody vouches for",
        ),
        (
            provider.limits.memory_mib != Some(0) && provider.limits.call_seconds != Some(0),
            "no call can end",
        ),
    ];
    if let Some((_, why)) = rules.iter().find(|(holds, _)| !holds) {
        return Err((*why).to_owned());
    }
    for target in provider.grants.iter().flat_map(|grants| &grants.targets) {
        let endpoint = &target.endpoint;
        let is_plain = endpoint.username().is_empty()
            && endpoint.password().is_none()
            && endpoint.query().is_none()
            && endpoint.fragment().is_none();
        // A name is resolved when it is used; addresses are checked here.
        let host = endpoint.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let address = address.map(|address| address.to_canonical());
        let is_private =
            endpoint.scheme() == "https" || address.is_none_or(|address| address.is_loopback());
        let is_metadata = address.is_some_and(|address| match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        });
        if !is_plain || !is_private || is_metadata || target.rules.is_empty() {
            return Err(format!("requests may go to {endpoint}"));
        }
    }
    Ok(())
}
