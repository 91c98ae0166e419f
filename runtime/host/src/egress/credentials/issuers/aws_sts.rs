//! AWS's Security Token Service: a role for a workload's token (`AssumeRoleWithWebIdentity`). Sources: AWS's API
//! reference of STS, and the names and defaults of the SDKs.

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use url::form_urlencoded;

use super::issuer_client::IssuerClient;
use super::{Issued, SecretRedactor, issued_keys, presented};
use crate::egress::body_fields::FORM;
use crate::grant::WebIdentity;

/// The keys of a role, for the token that it is assumed with.
pub(super) async fn issue(
    client: &IssuerClient,
    identity: &WebIdentity,
    redactor: &SecretRedactor,
) -> Result<Issued, String> {
    let token = presented(&identity.token, redactor).await?;
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("Action", "AssumeRoleWithWebIdentity")
        .append_pair("Version", "2011-06-15")
        .append_pair("RoleArn", &identity.role_arn)
        .append_pair("RoleSessionName", &identity.session_name)
        .append_pair("WebIdentityToken", token.expose())
        .finish();
    let request = Request::post(client.endpoint.as_str()).header(CONTENT_TYPE, FORM);
    let answer = client.ask(request, Bytes::from(form)).await?;
    let xml = answer.success(|text| element(text, "Code").map(str::to_owned))?;
    let part = |name| {
        let part = element(xml, name).map(str::to_owned);
        part.ok_or_else(|| format!("answered without one {name}"))
    };
    issued_keys(
        part("AccessKeyId")?,
        part("SecretAccessKey")?,
        part("SessionToken")?,
        &part("Expiration")?,
    )
}

/// Text of the only element of this name. The elements of interest have no attributes, no children and no characters
/// that XML escapes; an element that has any is not found, or is no key.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let (_, rest) = xml.split_once(&open)?;
    let (text, after) = rest.split_once(&close)?;
    (!after.contains(&open) && !text.contains('<')).then(|| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found_once_or_not_at_all() {
        for (xml, found) in [
            ("<a><Code> x </Code></a>", Some("x")),
            ("<Code>x</Code><Code>y</Code>", None),
            ("<Code><b>x</b></Code>", None),
            ("<Code>x", None),
            ("<code>x</code>", None),
            ("", None),
        ] {
            assert_eq!(element(xml, "Code"), found, "{xml}");
        }
    }
}
