//! No byte of the signed content, the signature, the certificate, the log's entry or the time stamp can be changed.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::Index;
use rcgen::SigningKey as _;
use serde_json::{Value, json};

use super::fixtures::sign;
use super::fixtures::{
    MANIFEST, WASM, Wanted, World, artifact, evidence, key, now, payload, simple_signing, trusting,
};
use crate::artifact::SignatureEvidence;

/// One world for all cases, so that its keys are made once.
static WORLD: LazyLock<World> = LazyLock::new(World::new);

/// The base64 text at `path`, with one bit changed.
fn flipped(bundle: &Value, path: &str, at: Index, bit: u8) -> Value {
    let mut changed = bundle.clone();
    let field = changed.pointer_mut(path).unwrap();
    let mut bytes = STANDARD.decode(field.as_str().unwrap()).unwrap();
    flip(&mut bytes, at, bit);
    *field = json!(STANDARD.encode(bytes));
    changed
}

fn flip(bytes: &mut [u8], at: Index, bit: u8) {
    let at = at.index(bytes.len());
    bytes[at] ^= 1 << bit;
}

/// Places of a keyless bundle, in base64.
const KEYLESS: [&str; 8] = [
    "/messageSignature/signature",
    "/messageSignature/messageDigest/digest",
    "/verificationMaterial/certificate/rawBytes",
    "/verificationMaterial/tlogEntries/0/logId/keyId",
    "/verificationMaterial/tlogEntries/0/inclusionPromise/signedEntryTimestamp",
    "/verificationMaterial/tlogEntries/0/inclusionProof/rootHash",
    "/verificationMaterial/tlogEntries/0/inclusionProof/hashes/0",
    "/verificationMaterial/tlogEntries/0/canonicalizedBody",
];
/// Places of a bundle in a registry, in base64.
const ATTACHED: [&str; 2] = ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_keyless_bundle_with_one_bit_changed_is_refused(at: Index, bit in 0u8..8, place in 0..KEYLESS.len()) {
        let world = &*WORLD;
        let bundle = world.bundle(WASM, &world.signer(&Wanted::default()));
        let policy = world.policy(true, false);
        prop_assert!(policy.verify(&artifact(WASM, vec![evidence(&bundle)]), None, "1.0.0", now()).is_ok());
        let changed = evidence(&flipped(&bundle, KEYLESS[place], at, bit));
        prop_assert!(policy.verify(&artifact(WASM, vec![changed]), None, "1.0.0", now()).is_err());
    }

    #[test]
    fn a_time_stamp_with_one_bit_changed_is_refused_or_says_the_same(at: Index, bit in 0u8..8) {
        let world = &*WORLD;
        let signer = world.signer(&Wanted::default());
        let signature = signer.key.sign(WASM).unwrap();
        let stamps = json!([world.stamp(&signature, "20240301120000Z")]);
        let bundle = signer.bundle(WASM, &signature, &json!([]), &stamps);
        let policy = world.policy(false, true);
        let vouched = policy.verify(&artifact(WASM, vec![evidence(&bundle)]), None, "1.0.0", now());
        let place = "/verificationMaterial/timestampVerificationData/rfc3161Timestamps/0/signedTimestamp";
        let changed = evidence(&flipped(&bundle, place, at, bit));
        // Names of algorithms outside of the signed part may be changed; the time may not.
        if let Ok(changed) = policy.verify(&artifact(WASM, vec![changed]), None, "1.0.0", now()) {
            prop_assert_eq!(Ok(changed), vouched);
        }
    }

    #[test]
    fn a_module_with_one_bit_changed_is_refused(at: Index, bit in 0u8..8, length in 1usize..512) {
        let (signing, public) = key();
        let mut wasm = vec![7; length];
        let bundle = evidence(&sign::file(&signing, &wasm));
        let policy = trusting(&public);
        prop_assert!(policy.verify(&artifact(&wasm, vec![bundle.clone()]), None, "1.0.0", now()).is_ok());
        flip(&mut wasm, at, bit);
        prop_assert!(policy.verify(&artifact(&wasm, vec![bundle]), None, "1.0.0", now()).is_err());
    }

    #[test]
    fn a_signature_of_a_key_with_one_bit_changed_is_refused(at: Index, bit in 0u8..8, place in 0usize..6) {
        let (signing, public) = key();
        let file = sign::file(&signing, WASM);
        let attached = sign::attached(&signing, MANIFEST);
        let mut older = payload(MANIFEST);
        let mut signature = signing.sign(&older).unwrap();
        let changed = match place {
            0 => evidence(&flipped(&file, KEYLESS[0], at, bit)),
            1 => evidence(&flipped(&file, KEYLESS[1], at, bit)),
            2 | 3 => evidence(&flipped(&attached, ATTACHED[place - 2], at, bit)),
            4 => {
                flip(&mut older, at, bit);
                simple_signing(older, signature)
            }
            _ => {
                flip(&mut signature, at, bit);
                simple_signing(older, signature)
            }
        };
        prop_assert!(trusting(&public).verify(&artifact(WASM, vec![changed]), None, "1.0.0", now()).is_err());
    }

    #[test]
    fn junk_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512), cut: Index) {
        let world = &*WORLD;
        let (signing, public) = key();
        let mut policy = world.policy(true, true);
        policy.keys.push(public);
        let whole = sign::file(&signing, WASM).to_string().into_bytes();
        let junk = [
            SignatureEvidence::Bundle(bytes.clone()),
            SignatureEvidence::Bundle(whole[..cut.index(whole.len())].to_vec()),
            SignatureEvidence::SimpleSigning {
                payload: payload(MANIFEST),
                signature: bytes.clone(),
                certificate: Some(String::from_utf8_lossy(&bytes).into_owned()),
                chain: Some(String::from_utf8_lossy(&bytes).into_owned()),
                log_entry: Some(bytes.clone()),
                time_stamp: Some(bytes.clone()),
            },
            simple_signing(bytes.clone(), bytes),
        ];
        prop_assert!(policy.verify(&artifact(WASM, junk.to_vec()), None, "1.0.0", now()).is_err());
    }
}
