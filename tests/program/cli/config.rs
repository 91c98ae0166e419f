//! `ccm config check`: all mistakes at once, or the rights that a configuration grants; never a secret.

use serde_json::Value;
use tempfile::TempDir;

use super::{ccm, ccm_reading, file, other_module, text};

/// A configuration with two providers, one of them with every field that is reported.
fn configuration(folder: &TempDir) -> String {
    let token = file(folder, "token", b"very-secret-token\n");
    format!(
        "\
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: hcloud
  source: embedded:hcloud
  nodes: {{ selector: 'cloud=hcloud' }}
- name: nimbus
  source: oci://registry.example.com/clouds/nimbus:1
  registry:
    credentials: {{ secret: {{ namespace: kube-system, name: registry, key: .dockerconfigjson }} }}
  trust: {{ digest: 'sha256:{digest}' }}
  nodes: {{ selector: 'cloud=nimbus' }}
  proxy: {{ url: 'http://proxy.example.com:3128', login: {{ user: me, password: {{ file: {token} }} }}, noProxy: other.example.com }}
  defaultLoadBalancer: false
  loadBalancerClasses: [nimbus.example.com/lb]
  config: {{ REGION: north }}
  grants:
    annotationPrefixes: [lb.nimbus.example.com/]
    targets:
    - name: api
      endpoint: https://api.nimbus.example.com/v1
      credential: {{ bearer: {{ file: {token} }} }}
      rules:
      - {{ methods: [GET], path: '/servers/{{id}}', access: read }}
      - {{ methods: [DELETE], path: '/balancers/{{id}}', access: write }}
    - name: other
      endpoint: https://other.example.com/
      credential: {{ bearer: {{ secret: {{ namespace: kube-system, name: nimbus, key: token }} }} }}
      rules: [{{ methods: [GET], path: /, access: read }}]
",
        digest = "1".repeat(64),
        token = text(&token),
    )
}

#[test]
fn a_valid_configuration_is_summed_up_without_its_secrets() {
    let folder = TempDir::new().unwrap();
    let yaml = configuration(&folder);
    let config = file(&folder, "ccm.yaml", yaml.as_bytes());
    let output = ccm(&["config", "check", text(&config)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    for part in [
        "yes: 2 provider(s)",
        "embedded:hcloud",
        "oci://registry.example.com/clouds/nimbus:1",
        "exactly one digest",
        "target api: https://api.nimbus.example.com/v1 (credential: bearer)",
        "through the proxy http://proxy.example.com:3128, which resolves the name",
        "GET /servers/{id} (read)",
        "DELETE /balancers/{id} (write)",
        "lb.nimbus.example.com/…",
        "cloud=nimbus",
        "nimbus.example.com/lb",
        "REGION",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    assert!(!output.out.contains("very-secret-token"), "{}", output.out);

    let output = ccm_reading(&["config", "check", "-", "-o", "json"], yaml.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        json["providers"][1]["grants"]["targets"][0]["credential"],
        "bearer"
    );
    assert_eq!(json["providers"][0]["grants"], Value::Null);
    assert!(
        !String::from_utf8(output.stdout)
            .unwrap()
            .contains("very-secret-token")
    );
}

#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let folder = TempDir::new().unwrap();
    let yaml = configuration(&folder)
        .replace("name: nimbus\n  source", "name: hcloud\n  source")
        .replace("  trust: ", "  # trust: ")
        .replace("https://other.example.com/", "other")
        .replace("access: write", "access: read")
        .replace(text(&folder.path().join("token")), "/nowhere/token");
    let config = file(&folder, "ccm.yaml", yaml.as_bytes());
    let output = ccm(&["config", "check", "--require-inputs", text(&config)]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    let mistakes = [
        "two providers are named \"hcloud\"",
        "need a digest, keys or keyless",
        "target \"other\": endpoint: ",
        "DELETE changes something",
        "/nowhere/token",
    ];
    for part in mistakes {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    let output = ccm(&[
        "config",
        "check",
        "--require-inputs",
        text(&config),
        "-o",
        "json",
    ]);
    assert_eq!(output.code, 2);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(json["ok"], false);
    assert!(
        json["mistakes"].as_array().unwrap().len() >= mistakes.len(),
        "{json}"
    );
}

/// As for `run`, which then reads the whole file and runs that entry.
#[test]
fn only_the_entry_that_the_flag_names_is_held_to_what_entries_must_be_together() {
    let folder = TempDir::new().unwrap();
    let config = file(
        &folder,
        "ccm.yaml",
        b"\
apiVersion: wasm-ccm.dev/v1alpha1
kind: ProviderConfiguration
providers:
- name: hcloud
  nodes: { selector: 'cloud=hcloud' }
  defaultLoadBalancer: true
- name: static
  nodes: { selector: 'cloud=static' }
  defaultLoadBalancer: true
  config: { NO_SUCH_KEY: x }
",
    );
    for (name, code, expected) in [
        (None, 2, "defaultLoadBalancer"),
        (
            Some("--cloud-provider=hcloud"),
            0,
            "yes: 1 provider(s)\n\nhcloud\n",
        ),
        (Some("--cloud-provider=static"), 2, "no key NO_SUCH_KEY"),
    ] {
        let mut words = vec!["config", "check", text(&config)];
        words.extend(name);
        let output = ccm(&words);
        assert_eq!(output.code, code, "{name:?}: {}{}", output.out, output.err);
        assert!(output.out.contains(expected), "{name:?}: {}", output.out);
    }
}

#[test]
fn what_run_would_refuse_of_a_module_in_the_binary_is_told() {
    let folder = TempDir::new().unwrap();
    let head = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n";
    for (entries, expected) in [
        (
            "- name: hcloud\n  config: { HCLOUD_LOAD_BALANCERS_LOCATON: fsn1 }\n",
            "provider \"hcloud\": hcloud has no key HCLOUD_LOAD_BALANCERS_LOCATON; did you mean HCLOUD_LOAD_BALANCERS_LOCATION?",
        ),
        (
            "- name: one\n  source: embedded:hclod\n",
            "provider \"one\": no module \"hclod\" is embedded",
        ),
        (
            "- name: hcloud\n  grants: { targets: [] }\n",
            "provider \"hcloud\": target api",
        ),
        (
            "- name: hcloud\n- name: hcloud\n",
            "two providers are named \"hcloud\"",
        ),
    ] {
        let config = file(&folder, "ccm.yaml", format!("{head}{entries}").as_bytes());
        let output = ccm(&["config", "check", text(&config)]);
        assert_eq!(output.code, 2, "{entries}: {}{}", output.out, output.err);
        assert!(output.out.contains(expected), "{entries}: {}", output.out);
    }
    let other = file(&folder, "other.wasm", &other_module());
    let entries = format!("- name: acme\n  source: file://{}\n", text(&other));
    let config = file(&folder, "ccm.yaml", format!("{head}{entries}").as_bytes());
    let output = ccm(&["config", "check", text(&config)]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(output.out.contains("so it needs grants"), "{}", output.out);
    // The machine where it runs has its variables, this one has not.
    let good =
        format!("{head}- name: hcloud\n  config: {{ HCLOUD_LOAD_BALANCERS_LOCATION: fsn1 }}\n");
    let config = file(&folder, "ccm.yaml", good.as_bytes());
    let output = ccm(&["config", "check", text(&config)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);

    // Unneeded grants are used as far as possible, by `run` as well.
    let vain = format!("{head}- name: hcloud\n  limits: {{ memoryMiB: 900 }}\n");
    let config = file(&folder, "ccm.yaml", vain.as_bytes());
    let output = ccm(&["config", "check", text(&config)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let warning = "memoryMiB 900 is granted, and 256 is the most that is given";
    assert!(output.out.contains(warning), "{}", output.out);
}

#[test]
fn the_file_of_awss_go_provider_is_read_as_run_reads_it() {
    let folder = TempDir::new().unwrap();
    let aws: &[&str] = &["--cloud-provider=aws"];
    for (written, more, code, expected) in [
        (
            "[Global]\nKubernetesClusterID = prod\nVPC = vpc-1\n",
            aws,
            0,
            &[
                "embedded:aws",
                "config         KubernetesClusterID",
                "config         VPC",
            ][..],
        ),
        (
            "[global]\nvpc = vpc-1\nVPC = vpc-2\nRoleARN =\n",
            aws,
            0,
            &[
                "without effect:",
                "line 2: VPC: line 3 counts",
                "line 4: RoleARN: ",
            ],
        ),
        (
            "[Global]\nRoleARN = arn:aws:iam::1:role/r\nVPCs = vpc-1\n[ServiceOverride \"1\"]\n",
            aws,
            2,
            &[
                "no: 3 mistake(s)",
                "line 2: RoleARN: ",
                "line 3: VPCs: is unknown",
                "line 4: ",
            ],
        ),
        ("[Global]\nVPC = vpc-1\n", &[], 2, &["--cloud-provider=aws"]),
        ("", aws, 0, &["yes: 1 provider(s)", "embedded:aws"]),
        ("; none\n\n# yet\n", aws, 0, &["embedded:aws"]),
        ("", &["--cloud-provider=hcloud"], 2, &["no: 1 mistake(s)"]),
        (
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders: [{ name: aws }]\n",
            aws,
            0,
            &["yes: 1 provider(s)"],
        ),
    ] {
        let config = file(&folder, "aws.conf", written.as_bytes());
        let output = ccm(&[&["config", "check", text(&config)], more].concat());
        assert_eq!(output.code, code, "{written}: {}{}", output.out, output.err);
        for part in expected {
            assert!(
                output.out.contains(part),
                "{written}: {part}: {}",
                output.out
            );
        }
    }
    let output = ccm_reading(
        &["config", "check", "-", "--cloud-provider=aws", "-o", "json"],
        b"[Global]\nVPC = vpc-1\nZone =\n",
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["providers"][0]["config"], serde_json::json!(["VPC"]));
    let zone = json["ignored"][0].as_str().unwrap();
    assert!(zone.starts_with("line 3: Zone: "), "{zone}");
}

#[test]
fn the_variants_are_checked_on_a_machine_that_has_none_of_their_secrets() {
    let deploy = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/kustomize/variants"
    );
    for (variant, assumed) in [
        (
            "configmap",
            &[
                "the file /etc/ccm-credentials/token",
                "the file /etc/ccm/provider.pub",
            ][..],
        ),
        (
            "configmap-volume",
            &[
                "the file /etc/ccm-credentials/token",
                "the file /etc/ccm/provider.pub",
                "the module file:///etc/ccm-provider/provider.wasm",
            ],
        ),
        (
            "image-volume",
            &[
                "the file /etc/ccm-credentials/token",
                "the file /etc/ccm/provider.pub",
                "the module file:///etc/ccm-provider/provider.wasm",
            ],
        ),
        ("registry", &["the file /etc/ccm-credentials/token"]),
    ] {
        let config = format!("{deploy}/{variant}/ccm.yaml");
        let output = ccm(&["config", "check", &config]);
        assert_eq!(output.code, 0, "{variant}: {}{}", output.out, output.err);
        let (_, after) = output
            .out
            .split_once("assumed to be where ccm runs")
            .unwrap();
        let lines: Vec<_> = after.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines, assumed, "{variant}");
        // On the machine where it runs they must exist.
        let output = ccm(&["config", "check", "--require-inputs", &config]);
        assert_eq!(output.code, 2, "{variant}: {}", output.out);
        assert!(
            output.out.contains("/etc/ccm-credentials/token"),
            "{}",
            output.out
        );
    }
    // Existing files are read all the same, and an unset variable is no mistake either.
    let folder = TempDir::new().unwrap();
    let key = file(&folder, "provider.pub", b"no key");
    let yaml = format!(
        "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: one\n  source: file:///x.wasm\n  trust: {{ keys: [{{ file: {} }}] }}\n  grants:\n    targets:\n    - name: api\n      endpoint: https://api.example.com\n      credential: {{ bearer: {{ env: CCM_TESTS_UNSET }} }}\n      rules: [{{ methods: [GET], path: /, access: read }}]\n",
        text(&key)
    );
    let output = ccm_reading(&["config", "check", "-", "-o", "json"], yaml.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        json["assumed"],
        serde_json::json!(["the variable CCM_TESTS_UNSET"])
    );
    assert_eq!(json["mistakes"].as_array().unwrap().len(), 1, "{json}");
    let mistake = json["mistakes"][0].as_str().unwrap();
    assert!(mistake.contains("provider.pub"), "{mistake}");
}

#[test]
fn what_is_no_configuration_is_told_apart_from_what_cannot_be_read() {
    let folder = TempDir::new().unwrap();
    for (yaml, expected) in [
        ("", "no: 1 mistake(s)"),
        ("apiVersion: [", "no: 1 mistake(s)"),
        (
            "apiVersion: v1\nkind: ConfigMap\nproviders: []\n",
            "expected wasm-ccm.dev/v1alpha1",
        ),
        (
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders: []\n\u{1b}[2J: 1\n",
            "mistake(s)",
        ),
    ] {
        let config = file(&folder, "ccm.yaml", yaml.as_bytes());
        let output = ccm(&["config", "check", text(&config)]);
        assert_eq!(output.code, 2, "{yaml}: {}{}", output.out, output.err);
        assert!(output.out.contains(expected), "{yaml}: {}", output.out);
        assert!(!output.out.contains('\u{1b}'), "{}", output.out);
    }
    let output = ccm(&["config", "check", "/nowhere.yaml"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("/nowhere.yaml"), "{}", output.err);
}

#[test]
fn what_is_too_large_for_run_is_refused_from_a_pipe_as_from_a_file() {
    let folder = TempDir::new().unwrap();
    let entry = "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: hcloud\n";
    let whole = format!("{entry}{}\n", "#".repeat((1 << 20) - entry.len() - 1));
    for (more, expected) in [("", 0), ("- name: another\n", 1)] {
        let yaml = format!("{whole}{more}");
        let config = file(&folder, "ccm.yaml", yaml.as_bytes());
        let from_file = ccm(&["config", "check", text(&config)]);
        let piped = ccm_reading(&["config", "check", "-"], yaml.as_bytes());
        let err = String::from_utf8_lossy(&piped.stderr);
        assert_eq!(from_file.code, expected, "{}", from_file.err);
        assert_eq!(piped.status.code(), Some(expected), "{err}");
        for err in [&from_file.err, err.as_ref()] {
            let is_told = err.contains("larger than 1048576 bytes");
            assert_eq!(is_told, expected != 0, "{err}");
        }
    }
}

#[test]
fn a_module_in_a_file_is_read_where_it_is_and_its_keys_are_judged() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "guest.wasm", test_guests::MISBEHAVING);
    let none = folder.path().join("none.wasm");
    let text_file = file(&folder, "text.wasm", b"hello, this is text");
    let entry = |path: &std::path::Path, key: &str| {
        format!(
            "apiVersion: wasm-ccm.dev/v1alpha1\nkind: ProviderConfiguration\nproviders:\n- name: misbehaving\n  source: file://{}\n  config: {{ {key}: honest }}\n  grants:\n    targets:\n    - name: api\n      endpoint: https://api.example.com\n      rules: [{{ methods: [GET], path: '/machines/{{name}}', access: read }}]\n",
            text(path)
        )
    };
    for (path, key, more, expected) in [
        // Requests that are not granted are reported, too.
        (&module, "behaviuor", &[][..], "did you mean behaviour?"),
        (&module, "behaviour", &[], "POST /balancers"),
        (&text_file, "behaviour", &[], "not WebAssembly"),
        (
            &none,
            "behaviour",
            &["--require-inputs"],
            "there is no module file://",
        ),
    ] {
        let config = file(&folder, "ccm.yaml", entry(path, key).as_bytes());
        let output = ccm(&[&["config", "check", text(&config)], more].concat());
        assert_eq!(output.code, 2, "{expected}: {}{}", output.out, output.err);
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
    let config = file(&folder, "ccm.yaml", entry(&none, "behaviour").as_bytes());
    let output = ccm(&["config", "check", text(&config)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.out.contains("the module file://"), "{}", output.out);
}

#[test]
fn verify_needs_no_name_where_there_is_one_entry() {
    let folder = TempDir::new().unwrap();
    let module = file(&folder, "guest.wasm", test_guests::MISBEHAVING);
    let output = ccm(&["provider", "inspect", "-o", "grants", text(&module)]);
    let written = output.out.replace(
        "file:///path/to/provider.wasm",
        &format!("file://{}", text(&module)),
    );
    let token = file(&folder, "token", b"secret");
    let written = written.replace("env: API_SECRET", &format!("file: {}", text(&token)));
    for part in [
        "unsigned: true",
        "each build that you rename over the file takes over",
        "  config:\n    behaviour: \"\" # which of its behaviours it shows\n",
        "\n  #   authority: \"\" # host and port",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
    let config = file(&folder, "ccm.yaml", written.as_bytes());
    let output = ccm(&["provider", "verify", "--config", text(&config)]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let (_, entry) = written.split_once("providers:\n").unwrap();
    let other = entry.replace("name: misbehaving", "name: other");
    let second = format!("{written}{other}");
    let config = file(&folder, "two.yaml", second.as_bytes());
    let output = ccm(&["provider", "verify", "--config", text(&config)]);
    assert_eq!(output.code, 1, "{}{}", output.out, output.err);
}
