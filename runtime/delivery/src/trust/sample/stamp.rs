//! The tests' time stamp authority (RFC 3161, RFC 5652), with the minimum of DER that it needs.

use ccm_host::Digest;
use rcgen::{
    CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber, SigningKey as _, date_time_ymd,
};

use super::authority;

const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x03];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04];
const STAMP: &[u8] = &[
    0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x01, 0x04,
];
const POLICY: &[u8] = &[0x2a, 0x03, 0x04];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const OCTETS: u8 = 0x04;
const INTEGER: u8 = 0x02;
/// `[0]`, constructed.
const FIRST: u8 = 0xa0;

const NAME: &str = "stamps";
const SERIAL: u8 = 42;

pub(super) struct Stamper {
    root: CertifiedIssuer<'static, KeyPair>,
    certificate: String,
    key: KeyPair,
}

impl Stamper {
    pub(super) fn new() -> Stamper {
        let root = authority(NAME);
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from(vec![SERIAL]));
        params.not_before = date_time_ymd(2023, 1, 1);
        params.not_after = date_time_ymd(2033, 1, 1);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::TimeStamping];
        Stamper {
            certificate: params.signed_by(&pair, &root).unwrap().pem(),
            root,
            key: pair,
        }
    }

    /// Its certificate, and the root above it.
    pub(super) fn chain(&self) -> String {
        self.certificate.clone() + &self.root.as_ref().pem()
    }

    /// The answer to a request for a time stamp over `signature`, at `time` (`20240301120000Z`).
    pub(super) fn stamp(&self, signature: &[u8], time: &str) -> Vec<u8> {
        let sha256 = seq(&[&tlv(OID, &[SHA256])]);
        let imprint = seq(&[&sha256, &tlv(OCTETS, &[Digest::of(signature).as_bytes()])]);
        let info = seq(&[
            &tlv(INTEGER, &[&[1]]),
            &tlv(OID, &[POLICY]),
            &imprint,
            &tlv(INTEGER, &[&[9]]),
            &tlv(0x18, &[time.as_bytes()]),
        ]);
        let attributes = [
            attribute(CONTENT_TYPE, &tlv(OID, &[STAMP])),
            attribute(
                MESSAGE_DIGEST,
                &tlv(OCTETS, &[Digest::of(&info).as_bytes()]),
            ),
        ]
        .concat();
        // The signature covers the SET, not the tagged field that carries it.
        let sealed = self.key.sign(&tlv(SET, &[&attributes])).unwrap();
        let name = seq(&[&tlv(
            SET,
            &[&seq(&[
                &tlv(OID, &[COMMON_NAME]),
                &tlv(0x0c, &[NAME.as_bytes()]),
            ])],
        )]);
        let signer = seq(&[
            &tlv(INTEGER, &[&[1]]),
            &seq(&[&name, &tlv(INTEGER, &[&[SERIAL]])]),
            &sha256,
            &tlv(FIRST, &[&attributes]),
            &seq(&[&tlv(OID, &[ECDSA_SHA256])]),
            &tlv(OCTETS, &[&sealed]),
        ]);
        let content = seq(&[&tlv(OID, &[STAMP]), &tlv(FIRST, &[&tlv(OCTETS, &[&info])])]);
        let signed = seq(&[
            &tlv(INTEGER, &[&[3]]),
            &tlv(SET, &[&sha256]),
            &content,
            &tlv(SET, &[&signer]),
        ]);
        let token = seq(&[&tlv(OID, &[SIGNED_DATA]), &tlv(FIRST, &[&signed])]);
        seq(&[&seq(&[&tlv(INTEGER, &[&[0]])]), &token])
    }
}

fn attribute(kind: &[u8], value: &[u8]) -> Vec<u8> {
    seq(&[&tlv(OID, &[kind]), &tlv(SET, &[value])])
}

fn seq(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, parts)
}

/// Encodes a DER value; shorter than 64 KiB.
pub(super) fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let [high, low] = u16::try_from(value.len()).unwrap().to_be_bytes();
    let length = match (high, low) {
        (0, short @ 0..=127) => vec![short],
        (0, _) => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [&[tag], length.as_slice(), &value].concat()
}

pub(super) fn der_of(pem: &str) -> Vec<u8> {
    pem::parse(pem).unwrap().into_contents()
}
