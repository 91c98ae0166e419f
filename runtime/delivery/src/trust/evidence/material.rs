//! Converts certificates, log entries and time stamps of cosign's older form to the form of the Sigstore library.

use serde::Deserialize;
use sigstore_verify::types::bundle::{
    CertificateContent, InclusionPromise, LogId, PublicKeyIdentifier, Rfc3161Timestamp,
    TimestampVerificationData, TransparencyLogEntry, VerificationMaterialContent, X509Certificate,
};
use sigstore_verify::types::{DerCertificate, KindVersion, LogIndex};

use super::decoded;
use crate::trust::EvidenceRefusal;

/// Maximum number of certificates above the signer's.
const MOST_CERTIFICATES: usize = 8;

/// The signer's certificate and its chain; without one, an unnamed key.
pub(super) fn certificates(
    certificate: Option<&str>,
    chain: Option<&str>,
) -> Result<VerificationMaterialContent, EvidenceRefusal> {
    let Some(certificate) = certificate else {
        return Ok(VerificationMaterialContent::PublicKey(
            PublicKeyIdentifier::new(""),
        ));
    };
    let mut signer = blocks(certificate)?;
    let mut above = blocks(chain.unwrap_or_default())?;
    match (signer.pop(), signer.is_empty()) {
        (Some(signer), true) if above.is_empty() => Ok(VerificationMaterialContent::Certificate(
            CertificateContent::new(signer),
        )),
        (Some(signer), true) => {
            above.insert(0, signer);
            Ok(VerificationMaterialContent::X509CertificateChain {
                certificates: above.into_iter().map(X509Certificate::new).collect(),
            })
        }
        _ => Err(EvidenceRefusal::unreadable("one certificate is wanted")),
    }
}

fn blocks(text: &str) -> Result<Vec<DerCertificate>, EvidenceRefusal> {
    let blocks = pem::parse_many(text).map_err(EvidenceRefusal::unreadable)?;
    if blocks.len() > MOST_CERTIFICATES || blocks.iter().any(|block| block.tag() != "CERTIFICATE") {
        return Err(EvidenceRefusal::unreadable(
            "expected at most 8 certificates and no other content",
        ));
    }
    Ok(blocks
        .into_iter()
        .map(|block| DerCertificate::new(block.into_contents()))
        .collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LogEntry {
    signed_entry_timestamp: String,
    payload: LogPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPayload {
    body: String,
    integrated_time: i64,
    log_index: u64,
    #[serde(rename = "logID")]
    log_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    kind: String,
    api_version: String,
}

/// The entry of a transparency log, with the log's promise instead of a proof.
pub(super) fn entries(json: Option<&[u8]>) -> Result<Vec<TransparencyLogEntry>, EvidenceRefusal> {
    let Some(json) = json else {
        return Ok(Vec::new());
    };
    let entry: LogEntry = serde_json::from_slice(json).map_err(EvidenceRefusal::unreadable)?;
    let body = decoded(&entry.payload.body)?;
    let named: Body = serde_json::from_slice(&body).map_err(EvidenceRefusal::unreadable)?;
    if (named.kind.as_str(), named.api_version.as_str()) != ("hashedrekord", "0.0.1") {
        return Err(EvidenceRefusal::unreadable(
            "the log's entry is of a kind that we do not know",
        ));
    }
    let time = jiff::Timestamp::from_second(entry.payload.integrated_time)
        .map_err(EvidenceRefusal::unreadable)?;
    let log_id = from_hex(&entry.payload.log_id)?;
    Ok(vec![
        TransparencyLogEntry::new(
            LogIndex::new(entry.payload.log_index).map_err(EvidenceRefusal::unreadable)?,
            LogId::new(log_id.into()),
            KindVersion::HashedRekordV001,
            body.into(),
        )
        .with_integrated_time(time)
        .with_inclusion_promise(InclusionPromise::new(
            decoded(&entry.signed_entry_timestamp)?.into(),
        )),
    ])
}

/// The 32 bytes of a log's ID.
fn from_hex(text: &str) -> Result<Vec<u8>, EvidenceRefusal> {
    sigstore_verify::types::Sha256Hash::from_hex(text)
        .map(|hash| hash.as_slice().to_vec())
        .map_err(EvidenceRefusal::unreadable)
}

#[derive(Deserialize)]
struct Stamp {
    #[serde(rename = "SignedRFC3161Timestamp")]
    signed: String,
}

/// The time stamp of an authority.
pub(super) fn stamps(json: Option<&[u8]>) -> Result<TimestampVerificationData, EvidenceRefusal> {
    let Some(json) = json else {
        return Ok(TimestampVerificationData::default());
    };
    let stamp: Stamp = serde_json::from_slice(json).map_err(EvidenceRefusal::unreadable)?;
    Ok(TimestampVerificationData::new(vec![Rfc3161Timestamp::new(
        decoded(&stamp.signed)?.into(),
    )]))
}
