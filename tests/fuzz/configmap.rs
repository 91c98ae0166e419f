//! A ConfigMap as JSON, which contains a module whole or in parts.

use std::collections::BTreeMap;

use ccm_delivery::artifact::{EVIDENCE_BYTES, SignatureEvidence};
use ccm_delivery::source::configmap::content::{NotFound, keys, module_in};
use ccm_host::Digest;
use ccm_tests::fuzz::{Target, Verdict};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::{hold, is_one_line};

pub(crate) const TARGET: Target = Target {
    name: "configmap",
    words: &[
        "\"data\":{",
        "\"binaryData\":{",
        "\"module.wasm\":\"AGFzbQ0AAQA=\"",
        "\"module.wasm.00\":\"AGFzbQ0AAQA=\"",
        "\"module.wasm.01\":\"AAAA\"",
        "module.wasm.sha256",
        "module.wasm.sigstore.json",
        "sha256:",
        ".99",
        ".00",
        "null",
        "\\u0000asm",
        "\\u001b",
        "=",
        "{}",
    ],
    longest: 16 << 10,
    check,
};

const KEY: &str = "module.wasm";

fn check(input: &[u8]) -> Result<Verdict, String> {
    let Ok(map) = serde_json::from_slice::<ConfigMap>(input) else {
        return Ok(Verdict::Refused("no ConfigMap".to_owned()));
    };
    hold(keys(&map, KEY).first() == Some(&KEY), || {
        "another key comes first".to_owned()
    })?;
    let found = match module_in(&map, KEY) {
        Ok(found) => found,
        Err(NotFound::Absent(why) | NotFound::Refused(why)) => {
            hold(is_one_line(&why), || format!("people are shown {why:?}"))?;
            return Ok(Verdict::Refused(why));
        }
    };
    let text = |key: &str| map.data.as_ref().and_then(|data| data.get(key));
    let binary = |key: &str| map.binary_data.as_ref().and_then(|data| data.get(key));
    let sizes = map.data.iter().flat_map(BTreeMap::values).map(String::len);
    let size = sizes
        .chain(
            map.binary_data
                .iter()
                .flat_map(BTreeMap::values)
                .map(|bytes| bytes.0.len()),
        )
        .sum::<usize>();
    hold(found.bytes.len() <= size, || {
        "more comes out than stands there".to_owned()
    })?;
    let is_whole = text(KEY).is_some() || binary(KEY).is_some();
    let digest = format!("{KEY}.sha256");
    let named = binary(&digest).map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned());
    let named = named.or_else(|| text(&digest).cloned());
    hold(is_whole || named.is_some(), || {
        "parts of different changes may be joined".to_owned()
    })?;
    let digest = Digest::of(&found.bytes).hex();
    let is_right = named.is_none_or(|named| named.to_ascii_lowercase().contains(&digest));
    hold(is_right, || {
        format!("{digest} is not what stands beside it")
    })?;
    let is_small = |evidence: &SignatureEvidence| matches!(evidence, SignatureEvidence::Bundle(bytes) if bytes.len() <= EVIDENCE_BYTES);
    hold(
        found.evidence.len() <= 1 && found.evidence.iter().all(is_small),
        || "too much vouches for it".to_owned(),
    )?;
    Ok(Verdict::Taken)
}
