//! Answers of a registry, as headers, an empty line and a body: any of them is read without harm. The corpus is with
//! those of `tests/fuzz`.

use ccm_host::Digest;
use ccm_tests::fuzz::{Target, Verdict};
use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

use crate::artifact::MODULE_BYTES;
use crate::source::oci::challenge::{self, Challenge};
use crate::source::oci::manifest::{self, Offer};
use crate::source::oci::{blob, registry};

/// The longest text that people are shown of one answer, in bytes.
const MOST_SHOWN: usize = 512;

#[test]
fn answers_of_registries_are_read_without_harm() {
    let target = Target {
        name: "registry",
        words: &[
            "application/wasm",
            "application/vnd.oci.image.manifest.v1+json",
            "application/vnd.oci.image.index.v1+json",
            "application/vnd.wasm.config.v0+json",
            "\"mediaType\":",
            "\"digest\":\"sha256:",
            "\"size\":-1",
            "\"layers\":[",
            "\"manifests\":[",
            "\"platform\":{\"architecture\":\"wasm\"}",
            "null",
            "\\u001b",
            "www-authenticate: Bearer realm=\"",
            "www-authenticate: Basic\n",
            "location: http://",
            "location: //",
            "content-range: bytes 10-",
            "/100",
            "\n\n",
            "\\\"",
            ",",
        ],
        longest: 32 << 10,
        check,
    };
    target.run().unwrap();
}

fn check(input: &[u8]) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(input);
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut headers = HeaderMap::new();
    for line in head.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers_lead_nowhere_else(&headers)?;
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let found = match manifest::offer(body.as_bytes(), kind) {
        Ok(Offer::Layer(layer)) if layer.size > MODULE_BYTES as u64 => {
            return Err(format!("too much would be downloaded: {layer:?}"));
        }
        Ok(Offer::Layer(found) | Offer::Manifest(found)) => found,
        Err(trouble) => {
            let why = trouble.why;
            let is_fit = why.len() <= MOST_SHOWN && !why.chars().any(char::is_control);
            return match is_fit {
                true => Ok(Verdict::Refused(why)),
                false => Err(format!("people are shown {why:?}")),
            };
        }
    };
    // The digest becomes a part of a path.
    match Digest::parse(&found.digest) {
        Some(digest) if digest.to_string() == found.digest => Ok(Verdict::Taken),
        _ => Err(format!("no digest: {found:?}")),
    }
}

fn headers_lead_nowhere_else(headers: &HeaderMap) -> Result<(), String> {
    let bytes: usize = headers.values().map(HeaderValue::len).sum();
    if let Some(Challenge::Bearer { realm, service }) = challenge::of(headers)
        && realm.len() + service.map_or(0, |service| service.len()) > bytes
    {
        return Err(format!("more than was sent: {realm}"));
    }
    let from = Url::parse("https://registry.example.com/v2/a/blobs/x").unwrap();
    if let Ok(to) = registry::redirected(&from, headers)
        && to.scheme() != "https"
    {
        return Err(format!("without TLS: {to}"));
    }
    let mut answer = http::Response::new("");
    *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    *answer.headers_mut() = headers.clone();
    let range = headers.get(CONTENT_RANGE).map(HeaderValue::as_bytes);
    let range = range.unwrap_or_default();
    let is_ours =
        range.starts_with(b"bytes 10-") && (range.ends_with(b"/*") || range.ends_with(b"/100"));
    match blob::continues(&answer.into(), 10, 100) && !is_ours {
        true => Err(format!(
            "put behind other bytes: {:?}",
            range.escape_ascii()
        )),
        false => Ok(()),
    }
}
