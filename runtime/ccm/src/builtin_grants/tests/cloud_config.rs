//! The file of AWS's Go provider.

use super::super::cloud_config::{CloudConfig, KEYS};
use super::*;

fn read(text: &str) -> Result<CloudConfig, String> {
    let read = cloud_config(Some("aws"), text, false);
    read.map(Option::unwrap)
        .map_err(|mistakes| mistakes.to_string())
}

#[test]
fn its_keys_are_those_of_the_module() {
    let text = r#"
; The cluster's.
[global]
  kubernetesclusterid = prod ; its tag
  VPC = "vpc-1"
  DisableSecurityGroupIngress
  NodeIPFamilies = ipv6
  NodeIPFamilies = ipv4
  RouteTableID = rtb-1
  RouteTableID = rtb-2
  RoleARN =
  # Region = eu-west-1
"#;
    let expected = [
        ("DisableSecurityGroupIngress", "true"),
        ("KubernetesClusterID", "prod"),
        ("NodeIPFamilies", "ipv6,ipv4"),
        ("RouteTableID", "rtb-2"),
        ("VPC", "vpc-1"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let CloudConfig { provider, ignored } = read(text).unwrap();
    assert_eq!(provider.values, BTreeMap::from(expected));
    let empty = "line 11: RoleARN: what is empty is not set";
    assert_eq!(ignored, ["line 9: RouteTableID: line 10 counts", empty]);
    let manifest = manifest_of("aws");
    for key in KEYS {
        assert!(manifest.config.iter().any(|one| one.key == key), "{key}");
    }
}

#[test]
fn a_boolean_has_every_form_of_the_go_providers_parser() {
    for (written, expected) in [
        ("yes", "true"),
        ("On", "true"),
        ("TRUE", "true"),
        ("1", "true"),
        ("no", "false"),
        ("off", "false"),
        ("False", "false"),
        ("0", "false"),
        ("perhaps", "perhaps"),
    ] {
        let text = format!("[Global]\nDisableSecurityGroupIngress = {written}\nVPC = no\n");
        let values = read(&text).unwrap().provider.values;
        let values: Vec<&str> = values.values().map(String::as_str).collect();
        assert_eq!(values, [expected, "no"], "{written}");
    }
}

/// Some editors write one, and the Go provider skips it.
#[test]
fn a_byte_order_mark_at_the_beginning_is_skipped() {
    let with_mark = read("\u{feff}[Global]\nVPC = vpc-1\n").unwrap();
    let without = read("[Global]\nVPC = vpc-1\n").unwrap();
    assert_eq!(with_mark.provider.values, without.provider.values);
}

#[test]
fn what_the_module_does_not_have_is_refused_with_what_there_is() {
    let reported = read(
        "[Global]\nRoleARN = arn:aws:iam::1:role/r\nDisableStrictZoneCheck = true\nVPC = vpc-1\n[ServiceOverride \"1\"]\nService = ec2\n[Other]\n",
    );
    let reported = reported.err().unwrap();
    let lines: Vec<&str> = reported.lines().collect();
    for (line, parts) in lines.iter().zip([
        ["line 2: RoleARN: ", "AWS_ROLE_ARN"],
        ["line 3: DisableStrictZoneCheck: ", "KubernetesClusterID"],
        ["line 5: [ServiceOverride \"1\"]: ", "AWS_ENDPOINT_URL_EC2"],
        ["line 7: [Other]: ", "[Global]"],
    ]) {
        for part in parts {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    assert_eq!(lines.len(), 4, "{reported}");
}

#[test]
fn only_aws_has_such_a_file() {
    for name in [None, Some("hcloud")] {
        let reported = cloud_config(name, "[Global]\nVPC = vpc-1\n", true);
        let reported = reported.err().unwrap().to_string();
        assert!(reported.contains("--cloud-provider=aws"), "{reported}");
    }
}

#[test]
fn the_file_of_proxmox_is_refused_with_what_takes_its_place() {
    let file = "features:\n  provider: default\nclusters:\n- url: https://10.0.0.2:8006/api2/json\n  token_secret: hidden\n";
    for (name, text) in [
        (Some("proxmox"), file.to_owned()),
        (None, format!("\u{feff}# The cluster's.\n---\n{file}")),
        (Some("hcloud"), "clusters: []\n".to_owned()),
    ] {
        let reported = cloud_config(name, &text, true).err().unwrap().to_string();
        for part in [
            "PROXMOX_ENDPOINT (url)",
            "PROXMOX_TOKEN (token_id=token_secret)",
            "PROXMOX_REGION (region)",
        ] {
            assert!(reported.contains(part), "{part}: {reported}");
        }
        assert!(!reported.contains("hidden"), "{reported}");
    }
    for other in [
        "apiVersion: v1\nkind: Config\nclusters: []\n",
        "apiVersion: wasm-ccm.dev/v1alpha1\nproviders:\n- config:\n    clusters: a\n",
        "features:\n  clusters: []\n",
    ] {
        let read = cloud_config(Some("proxmox"), other, true).unwrap();
        assert!(read.is_none(), "{other:?}");
    }
}

#[test]
fn a_file_without_content_is_one_only_where_the_go_provider_reads_one() {
    let yaml = "# YAML\napiVersion: wasm-ccm.dev/v1alpha1\n";
    for (name, text, may_be_empty, is_such) in [
        ("aws", "", true, true),
        ("aws", "\u{feff}\n ; none\n# none\n", true, true),
        ("aws", "", false, false),
        ("aws", "# none\n", false, false),
        ("hcloud", "", true, false),
        ("aws", yaml, true, false),
    ] {
        let read = cloud_config(Some(name), text, may_be_empty).unwrap();
        assert_eq!(read.is_some(), is_such, "{name}: {text:?}");
        assert!(read.is_none_or(|read| read.provider.values.is_empty()));
    }
}
