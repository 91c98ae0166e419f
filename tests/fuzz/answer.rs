//! A provider's answer about a node, line by line (`stored`, `id`, `type`, `zone`, `region`, `label KEY=VALUE`, or an
//! address by its type): the accepted rest may be written to a Node.

use std::net::IpAddr;

use ccm_core::cloud::{Address, AddressType, CloudEvent, EventType, Instance};
use ccm_core::node::answer_check::{
    Known, MAX_ADDRESSES, MAX_LABELS, check as checked, check_event, faults_event,
};
use ccm_core::node::index::AddressClash;
use ccm_core::settings::AddressRules;
use ccm_tests::fuzz::{Target, Verdict};

use crate::{hold, is_one_line};

pub(crate) const TARGET: Target = Target {
    name: "answer",
    words: &[
        "id sim://a\n",
        "stored sim://a\n",
        "InternalIP ",
        "ExternalIP ",
        "Hostname ",
        "InternalDNS ",
        "ExternalDNS ",
        "label ",
        "zone ",
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "169.254.169.254",
        "10.96.0.1",
        "10.0.0.7",
        "0.0.0.0",
        "/24",
        "kubernetes.io/",
        ".k8s.io/",
        "wasm-ccm.dev/",
        "=",
        "\n",
        "://",
        "node-role.",
        "example.com/",
    ],
    longest: 4096,
    check,
};

fn check(input: &[u8]) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(input);
    let (instance, stored) = read(&text);
    let rules = AddressRules {
        refused: vec![
            "10.96.0.0/12".parse().unwrap(),
            "fd00:96::/108".parse().unwrap(),
        ],
        api_server: vec!["10.0.0.7".parse().unwrap()],
        internal: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
    };
    let clash = AddressClash {
        address: "10.0.0.8".parse().unwrap(),
        name: "other".to_owned(),
    };
    let known = Known {
        provider_id: stored,
        schemes: &["sim".to_owned()],
        rules: &rules,
        clashes: &[clash],
        is_control_plane: false,
    };
    let reason = instance.zone.as_deref().unwrap_or_default();
    let event = CloudEvent::new(EventType::Warning, reason, text.clone().into_owned());
    if let Some(event) = check_event(&event) {
        let is_reason = !event.reason.is_empty()
            && event.reason.len() <= 64
            && event.reason.bytes().all(|one| one.is_ascii_alphanumeric());
        hold(is_reason, || format!("{event:?}"))?;
        hold(
            event.message.len() <= 1024 && is_one_line(&event.message),
            || format!("{event:?}"),
        )?;
    }
    let checked = match checked(&instance, known) {
        Ok(checked) => checked,
        Err(error) => {
            let why = error.to_string();
            hold(is_one_line(&why), || format!("people are shown {why:?}"))?;
            return Ok(Verdict::Refused(why));
        }
    };
    may_be_written(&checked.instance, stored)?;
    let Some(event) = faults_event(&checked.faults) else {
        hold(
            checked.instance.labels.len() == instance.labels.len(),
            || "left out without a word".to_owned(),
        )?;
        return Ok(Verdict::Taken);
    };
    hold(
        event.message.len() <= 1024 && is_one_line(&event.message),
        || format!("{event:?}"),
    )?;
    Ok(Verdict::Refused(event.message))
}

fn read(text: &str) -> (Instance, Option<&str>) {
    let (mut instance, mut stored) = (Instance::default(), None);
    for line in text.split('\n') {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "id" => instance.provider_id = rest.to_owned(),
            "stored" => stored = Some(rest),
            "type" => instance.instance_type = Some(rest.to_owned()),
            "zone" => instance.zone = Some(rest.to_owned()),
            "region" => instance.region = Some(rest.to_owned()),
            "label" => {
                let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
                instance.labels.push((key.to_owned(), value.to_owned()));
            }
            _ => {
                if let Some(address_type) = AddressType::parse(word) {
                    let address = rest.to_owned();
                    instance.addresses.push(Address {
                        address_type,
                        address,
                    });
                }
            }
        }
    }
    (instance, stored)
}

fn may_be_written(instance: &Instance, stored: Option<&str>) -> Result<(), String> {
    let id = &instance.provider_id;
    let is_ours = id.starts_with("sim://")
        && id.len() > "sim://".len()
        && id.bytes().all(|one| one.is_ascii_graphic());
    hold(is_ours && stored.is_none_or(|stored| stored == id), || {
        format!("the provider ID {id:?}")
    })?;
    hold(instance.addresses.len() <= MAX_ADDRESSES, || {
        "too many addresses".to_owned()
    })?;
    for (index, address) in instance.addresses.iter().enumerate() {
        hold(is_usable(address), || format!("{address:?}"))?;
        let mut before = instance.addresses.iter().take(index);
        hold(!before.any(|other| other.is_same(address)), || {
            format!("twice {address:?}")
        })?;
    }
    hold(instance.labels.len() <= MAX_LABELS, || {
        "too many labels".to_owned()
    })?;
    for (key, value) in &instance.labels {
        let (domain, name) = key.split_once('/').unwrap_or(("", key));
        let lower = domain.to_ascii_lowercase();
        let is_reserved = ["kubernetes.io", "k8s.io", "wasm-ccm.dev"]
            .iter()
            .any(|one| lower == *one || lower.ends_with(&format!(".{one}")));
        let is_domain = domain.len() <= 253
            && domain.bytes().all(|one| {
                one.is_ascii_lowercase() || one.is_ascii_digit() || b".-".contains(&one)
            });
        hold(
            !is_reserved && is_domain && !name.is_empty() && is_value(name) && is_value(value),
            || format!("{key:?}={value:?}"),
        )?;
    }
    let places = [&instance.instance_type, &instance.zone, &instance.region];
    hold(
        places.into_iter().flatten().all(|one| is_value(one)),
        || format!("{instance:?}"),
    )
}

fn is_value(text: &str) -> bool {
    let is_end = |one: Option<&u8>| one.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|one| one.is_ascii_alphanumeric() || b"-_.".contains(one))
}

fn is_usable(address: &Address) -> bool {
    let text = &address.address;
    if !address.address_type.is_ip() {
        return !text.is_empty()
            && text.len() <= 253
            && text
                .bytes()
                .all(|one| one.is_ascii_alphanumeric() || b".-".contains(&one));
    }
    let Ok(ip) = text.parse::<IpAddr>() else {
        return false;
    };
    let is_special = match ip.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified()
        }
    };
    // The addresses of Services, of the API server and of another node.
    let octets = match ip.to_canonical() {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let is_taken = matches!(octets, [10, 96..=111, ..] | [10, 0, 0, 7 | 8]);
    // Whether the operator's internal networks contain it.
    let is_inside = octets[0] == 10 || ip.to_string().starts_with("fd");
    !is_special && !is_taken && (is_inside || address.address_type != AddressType::InternalIp)
}
