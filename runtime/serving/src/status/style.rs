//! The page's stylesheet, and the security policy that admits this stylesheet alone.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use sha2::{Digest as _, Sha256};

/// The stylesheet, which stands inside the page.
pub(super) const STYLE: &str = include_str!("page/style.css");

/// The page's Content-Security-Policy: this stylesheet; no script, no image, no frame around it, nothing from other
/// hosts.
pub(super) fn policy() -> HeaderValue {
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        // Base64 is visible ASCII. If it were not, a page without style is better than one without a policy.
        HeaderValue::from_str(&policy)
            .unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
    });
    POLICY.clone()
}
