//! Answers of Proxmox, and what is read from them.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn config_of(smbios1: &str, agent: &str) -> MachineConfig {
    MachineConfig {
        smbios1: smbios1.to_owned(),
        agent: agent.to_owned(),
    }
}

#[test]
fn uuid_and_sku_are_read_in_both_of_their_forms() {
    let table = [
        ("", None, None),
        ("uuid=1-2", Some("1-2"), None),
        ("manufacturer=x,uuid=1-2,sku=big", Some("1-2"), Some("big")),
        ("uuid=1-2,base64=1,sku=YmlnLTE=", Some("1-2"), Some("big-1")),
        ("base64=1,sku=###", None, None),
        ("uuid", None, None),
    ];
    for (text, uuid, sku) in table {
        let config = config_of(text, "");
        assert_eq!(
            (config.uuid(), config.sku().as_deref()),
            (uuid, sku),
            "{text}"
        );
    }
}

#[test]
fn an_agent_is_there_if_it_is_enabled() {
    let table = [
        ("", false),
        ("0", false),
        ("1", true),
        ("1,fstrim_cloned_disks=1", true),
        ("enabled=1,type=isa", true),
        ("enabled=0", false),
        ("fstrim_cloned_disks=1", false),
    ];
    for (text, expected) in table {
        assert_eq!(config_of("", text).has_agent(), expected, "{text}");
    }
}

#[test]
fn machines_are_seen_by_one_privilege_only() {
    let table = [
        (r#"{}"#, false),
        (r#"{"/": {"Sys.Audit": 1}}"#, false),
        (r#"{"/vms/101": {}}"#, false),
        (r#"{"/": {"VM.Audit": 1}}"#, true),
        (r#"{"/pool/k8s": {"VM.Audit": 1}}"#, true),
        // It does not hold for paths below this one.
        (r#"{"/vms/101": {"VM.Audit": 0}}"#, true),
    ];
    for (text, expected) in table {
        let rights: Rights = serde_json::from_str(text).unwrap();
        assert_eq!(rights.may_see_machines(), expected, "{text}");
    }
}
