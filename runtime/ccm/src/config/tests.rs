#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod fingerprints;
mod hostile;
mod proxies;
mod registries;
mod shipped;
mod syntax;

use std::sync::LazyLock;
use std::time::Duration;

use ccm_core::settings::Adoption;
use ccm_delivery::trust::MinimumVersion;

use super::*;

/// An authority's certificate.
static AUTHORITY: LazyLock<String> =
    LazyLock::new(|| ccm_tests::authority::issue("a test").unwrap().ca_pem);

fn read(text: &str) -> Result<Vec<ProviderConfig>, Mistakes> {
    let context = ConfigContext {
        absent: None,
        variable: &|name| (name == "TOKEN").then(|| "s3cret".to_owned()),
        file: &|path| match path.to_str() {
            Some("/ca.pem") => Ok(AUTHORITY.clone()),
            _ => Err("no such file".to_owned()),
        },
        secret: &|key| match key.name.as_str() {
            "cloud" => Ok("s3cret".to_owned()),
            _ => Err("there is no such Secret".to_owned()),
        },
    };
    parse(text, &context)
}

const GOOD: &str = "
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: hcloud
  source: file:///etc/ccm/hcloud.wasm
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
    assert_eq!(provider.source.to_string(), "file:///etc/ccm/hcloud.wasm");
    assert!(provider.trust.allows_unsigned, "the operator's own file");
    assert_eq!(provider.values["HCLOUD_NETWORK"], "cluster");
    let target = &provider.grants.as_ref().unwrap().targets[0];
    assert_eq!(target.endpoint.as_str(), "https://api.example.com/v1");
    assert_eq!(target.addresses.len(), 2);
    assert_eq!(target.credential.kind().as_str(), "bearer");
    let origin = target.credential.origin();
    assert_eq!(origin.as_deref(), Some("the variable TOKEN"));
    assert!(target.ca_pem.is_some());
}

#[test]
fn a_target_has_the_budget_of_requests_that_is_written_down_or_a_large_one() {
    let budget_of = |text: &str| {
        let providers = read(text).map_err(|Mistakes(mistakes)| mistakes.join("; "))?;
        let requests = providers[0].grants.as_ref().unwrap().targets[0].requests;
        Ok::<_, String>((requests.requests.get(), requests.per.as_secs()))
    };
    let with = |line: &str| {
        GOOD.replace(
            "      caFile",
            &format!("      requestBudget: {line}\n      caFile"),
        )
    };
    assert_eq!(budget_of(GOOD), Ok((6000, 60)));
    assert_eq!(
        budget_of(&with("{ requests: 3600, per: 1h }")),
        Ok((3600, 3600))
    );
    for (line, mistake) in [
        ("{ requests: 0, per: 1h }", "requests has to be at least 1"),
        (
            "{ requests: 1, per: 1ms }",
            "per has to be between 1s and 24h",
        ),
        (
            "{ requests: 1, per: 25h }",
            "per has to be between 1s and 24h",
        ),
        ("{ requests: 1, per: hour }", "per: expected a duration"),
    ] {
        let found = budget_of(&with(line)).unwrap_err();
        let place = "provider \"hcloud\": target \"api\": requestBudget: ";
        assert!(
            found.starts_with(place) && found.contains(mistake),
            "{found}"
        );
    }
    assert!(
        budget_of(&with("{ requests: 1 }")).is_err(),
        "both are needed"
    );
}

#[test]
fn an_endpoint_to_which_no_request_can_go_is_a_mistake_that_shows_no_password() {
    for (endpoint, why) in [
        ("https://169.254.169.254/", "metadata"),
        ("https://user:pa55@api.example.com/", "a credential"),
        ("https://user:pa55@api example.com/", "invalid"),
        ("http://10.0.0.1/", "loopback only"),
        ("https://api.example.com:0/", "port 0"),
        ("http://./10.0.0.1/v1", "a part of it is empty"),
        ("https://api..example.com/", "a part of it is empty"),
        ("https://api.example.com/?a=b", "base path only"),
    ] {
        let text = GOOD.replace("https://api.example.com/v1", &format!("{endpoint:?}"));
        let Err(Mistakes(mistakes)) = read(&text) else {
            panic!("{endpoint} is taken");
        };
        let [mistake] = mistakes.as_slice() else {
            panic!("{mistakes:?}");
        };
        assert!(
            mistake.contains(why) && !mistake.contains("pa55"),
            "{mistake}"
        );
    }
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
    let Mistakes(mistakes) = read(&GOOD.replace("  source:", "  sourc:")).err().unwrap();
    assert!(mistakes[0].contains("sourc"), "{mistakes:?}");
}

#[test]
fn load_balancers_are_for_services_without_a_class_unless_the_file_says_otherwise() {
    let [unset] = &read(GOOD).unwrap()[..] else {
        panic!("one provider")
    };
    assert_eq!(unset.load_balancers, LoadBalancerConfig::default());
    assert!(
        unset.load_balancers.is_default.is_none()
            && unset.load_balancers.adoption == Adoption::Never
    );
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
    assert_eq!((*is_default, *adoption), (Some(false), Adoption::Orphaned));
    assert_eq!(ingress_cidrs.len(), 2);
}

/// Without a file the shipped modules for a vendor take over what names no owner: a file can say the same.
#[test]
fn a_file_says_which_load_balancers_are_taken_over() {
    for (keys, expected) in [
        (&["adoptUnownedLoadBalancers: true"][..], Adoption::Unowned),
        (&["adoptUnownedLoadBalancers: false"], Adoption::Never),
        (&["adoptLoadBalancers: false"], Adoption::Never),
        (
            &[
                "adoptLoadBalancers: false",
                "adoptUnownedLoadBalancers: true",
            ],
            Adoption::Unowned,
        ),
        (
            &[
                "adoptLoadBalancers: true",
                "adoptUnownedLoadBalancers: false",
            ],
            Adoption::Orphaned,
        ),
    ] {
        let entry = format!("  {}\n  grants:", keys.join("\n  "));
        let read = read(&GOOD.replace("  grants:", &entry)).unwrap();
        assert_eq!(read[0].load_balancers.adoption, expected, "{keys:?}");
    }
}

/// The second one would have no effect.
#[test]
fn two_targets_of_one_name_are_a_mistake() {
    let target = "{ name: api, endpoint: https://cloud.test, rules: [] }";
    let twice = format!(
        "
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: one
  grants: {{ targets: [{target}, {target}] }}
"
    );
    let Mistakes(mistakes) = read(&twice).err().unwrap();
    let expected = "provider \"one\": target \"api\" is there twice";
    assert!(mistakes.iter().any(|one| one == expected), "{mistakes:?}");
}

#[test]
fn mistakes_about_load_balancers_name_what_is_wrong() {
    let wrong = "
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: one
  loadBalancerClasses: [same, same, Bad.Domain/x, a..b/x, -x, '']
- name: two
  loadBalancerClasses: [same]
  ingressCIDRs: [203.0.113.1, everywhere]
";
    let Mistakes(mistakes) = read(wrong).err().unwrap();
    let expected = [
        "provider \"one\": load balancer class \"same\" is there twice",
        "provider \"one\": load balancer class \"Bad.Domain/x\": expected a label such as example.com/internal",
        "provider \"one\": load balancer class \"a..b/x\": expected a label such as example.com/internal",
        "provider \"one\": load balancer class \"-x\": expected a label such as example.com/internal",
        "provider \"one\": load balancer class \"\": expected a label such as example.com/internal",
        "provider \"two\": ingressCIDRs \"203.0.113.1\": expected a range such as 203.0.113.0/24",
        "provider \"two\": ingressCIDRs \"everywhere\": expected a range such as 203.0.113.0/24",
        "loadBalancerClasses: \"same\" is served by the providers \"one\" and \"two\": one of them has to go",
    ];
    assert_eq!(mistakes, expected);
}

/// The mistakes of a file with one provider that has these lines.
fn mistakes_of(lines: &str) -> Vec<String> {
    let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: one\n{lines}");
    read(&text).err().map_or_else(Vec::new, |Mistakes(all)| all)
}

#[test]
fn who_has_to_vouch_depends_on_where_the_module_comes_from() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let rows = [
        ("  source: embedded:hcloud", 0),
        ("  source: file:///a/b.wasm", 0),
        ("  source: configmap://kube-system/ccm/p.wasm", 1),
        ("  source: oci://registry.example.com/p:v1", 1),
        (
            &format!("  source: oci://registry.example.com/p@{digest}"),
            0,
        ),
        (
            "  source: oci://registry.example.com/p:v1\n  trust: { unsigned: true }",
            0,
        ),
        // Its roots alone are wrong.
        (
            "  source: oci://registry.example.com/p:v1\n  trust: { keyless: [{ identity: a, issuer: b, roots: { pem: nonsense } }] }",
            1,
        ),
        (
            &format!(
                "  source: configmap://kube-system/ccm/p.wasm\n  trust: {{ digest: '{digest}' }}"
            ),
            0,
        ),
        (
            &format!(
                "  source: file:///a/b.wasm\n  trust: {{ unsigned: true, digest: '{digest}' }}"
            ),
            1,
        ),
        ("  trust: { digest: sha256:short }", 1),
        ("  trust: { keys: [{ pem: nonsense }] }", 1),
        (
            "  trust: { keys: [{ file: /nowhere }], minimumVersion: newest }",
            2,
        ),
        ("  source: ftp://example.com/p.wasm", 1),
    ];
    for (lines, expected) in rows {
        let found = mistakes_of(lines);
        assert_eq!(found.len(), expected, "{lines}: {found:?}");
        for mistake in found {
            assert!(mistake.starts_with("provider \"one\": "), "{mistake}");
        }
    }
}

#[test]
fn a_pin_makes_its_module_vouched_for_and_every_other_one_not() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let text = format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: one\n  source: file:///a/b.wasm\n  trust: {{ digest: '{digest}', minimumVersion: 1.2.3 }}"
    );
    let [provider] = &read(&text).unwrap()[..] else {
        panic!("one provider")
    };
    assert!(!provider.trust.allows_unsigned);
    assert!(provider.trust.digest.is_some());
    let minimum = MinimumVersion::parse("1.2.3").unwrap();
    assert_eq!(provider.trust.minimum_version, Some(minimum));
}

#[test]
fn secrets_of_the_cluster_are_listed_before_they_are_read() {
    let text = GOOD.replace(
        "env: TOKEN",
        "secret: { namespace: kube-system, name: cloud, key: token }",
    );
    let listed: Vec<String> = Written::read(&text)
        .unwrap()
        .secrets()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(listed, ["key \"token\" of Secret kube-system/cloud"]);
    assert!(read(&text).is_ok());
    let Mistakes(mistakes) = read(&text.replace("name: cloud", "name: other"))
        .err()
        .unwrap();
    assert_eq!(
        mistakes,
        [
            "provider \"hcloud\": target \"api\": credential: key \"token\" of Secret kube-system/other: there is no such Secret"
        ]
    );
}

#[test]
fn a_rotated_secret_is_a_change_and_the_same_file_is_none() {
    let with = |token: &str| {
        let token = token.to_owned();
        let context = ConfigContext {
            absent: None,
            variable: &|_| Some(token.clone()),
            file: &|_| Ok(AUTHORITY.clone()),
            secret: &|_| Err("no cluster".to_owned()),
        };
        parse(GOOD, &context).unwrap()
    };
    assert!(with("one") == with("one"));
    assert!(with("one") != with("two"));
}

#[test]
fn providers_beside_each_other_need_names_and_nodes_of_their_own() {
    let two = |first: &str, second: &str| {
        read(&format!(
            "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- {{ name: one, {first} }}\n- {{ name: two, {second} }}"
        ))
        .and_then(|providers| together(&providers))
        .err()
        .map_or(0, |Mistakes(mistakes)| mistakes.len())
    };
    let cloud = "source: embedded:hcloud";
    let nodes = |selector: &str| {
        format!("{cloud}, nodes: {{ schemes: [hcloud], selector: \"{selector}\" }}")
    };
    assert_eq!(two(&nodes("region=a"), &nodes("region=b")), 0);
    assert_eq!(two(&nodes("region=a"), &nodes("region in (a, b)")), 1);
    assert_eq!(
        two(
            &nodes("region=a"),
            &format!("{cloud}, nodes: {{ schemes: [hcloud] }}")
        ),
        1
    );
    assert_eq!(two(&nodes("not a selector ("), &nodes("region=b")), 1);
    let default = format!("{cloud}, defaultLoadBalancer: true");
    assert_eq!(two(&default, cloud), 0);
    assert_eq!(two(&default, &default), 1);
    let Mistakes(named) = read(&format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: No_Label"
    ))
    .err()
    .unwrap();
    assert!(named[0].contains("a name is lower-case"), "{named:?}");
}

#[test]
fn times_and_limits_are_read_and_refused_with_their_key() {
    let good = "  limits: { memoryMiB: 64, callSeconds: 30 }\n  rollout: { canaryCalls: 5, canaryTime: 90s, shadowTime: 0s, approveWithinGrants: true }\n  registry: { pollInterval: 1m, mirrors: [mirror.example.com/prefix] }";
    assert_eq!(mistakes_of(good), Vec::<String>::new());
    let bad = "  rollout: { canaryTime: soon }\n  registry: { pollInterval: 1s, addresses: [ten], mirrors: ['https://x'] }";
    let found = mistakes_of(bad);
    for expected in ["canaryTime", "pollInterval", "\"ten\"", "mirror"] {
        assert!(
            found.iter().any(|mistake| mistake.contains(expected)),
            "{expected}: {found:?}"
        );
    }
    assert!(mistakes_of("  limits: { memoryGiB: 1 }")[0].contains("memoryGiB"));
    assert_eq!(
        mistakes_of("  limits: { memoryMiB: 0, callSeconds: 0 }"),
        [
            "provider \"one\": limits: memoryMiB has to be at least 1",
            "provider \"one\": limits: callSeconds has to be at least 1",
        ]
    );
}

#[test]
fn each_key_of_a_rollout_and_of_limits_sets_its_own_rule() {
    let text = format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\nproviders:\n- name: one\n  \
         limits: {{ memoryMiB: 64, callSeconds: 30 }}\n  registry: {{ pollInterval: 5s }}\n  \
         rollout: {{ approveWithinGrants: true, shadowCalls: 1, shadowTime: 2s, toleratedDifferences: 3, \
         canaryCalls: 4, canaryTime: 5s, quiet: 6s }}"
    );
    let providers = read(&text).unwrap();
    let rules = RolloutRules {
        approve_within_grants: true,
        shadow_comparisons: 1,
        shadow_time: Duration::from_secs(2),
        tolerated_differences: 3,
        canary_calls: 4,
        canary_time: Duration::from_secs(5),
        quiet: Duration::from_secs(6),
        ..RolloutRules::default()
    };
    assert_eq!(providers[0].rollout, rules);
    let limits = providers[0].limits;
    let limits = (limits.memory_mib, limits.call_seconds);
    assert_eq!(limits, (Some(64), Some(30)));
    assert_eq!(providers[0].registry.access.poll, Duration::from_secs(5));
}

#[test]
fn schemes_are_written_as_they_stand_in_provider_ids() {
    assert_eq!(
        mistakes_of("  nodes: { schemes: [hcloud, gce-x, a.b+c] }"),
        Vec::<String>::new()
    );
    let found = mistakes_of("  nodes: { schemes: ['hcloud://', HCLOUD, '', 'a b', '1a'] }");
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].contains("scheme \"hcloud://\""), "{found:?}");
}

#[test]
fn a_file_that_says_nothing_is_told_what_it_should_say() {
    for text in ["", " \n\n"] {
        let Mistakes(mistakes) = read(text).err().unwrap();
        assert!(mistakes[0].starts_with("it is empty"), "{mistakes:?}");
    }
    let Mistakes(mistakes) = together(&[]).err().unwrap();
    assert_eq!(mistakes, ["providers: there is none in the list"]);
}
