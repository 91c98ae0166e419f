//! Reads which certificates a Service wants. Pure: other modules look them up and create them.

use ccm_guest::Event;
use ccm_guest::load_balancer::Service;
use ccm_guest::values::{Values, parse_boolean};

use super::annotations::{
    CERTIFICATE_TYPE, HTTP_CERTIFICATES, HTTP_MANAGED_CERTIFICATE_ACME_STAGING,
    HTTP_MANAGED_CERTIFICATE_DOMAINS, HTTP_MANAGED_CERTIFICATE_NAME, parts,
};
use super::wanted::{Certificate, Certificates, ManagedCertificate};
use super::{names, unsupported};

#[cfg(test)]
mod tests;

/// The value of `certificate-type` that orders a certificate, in exactly these letters. Any other value means
/// `uploaded`, as in the Go manager.
pub const MANAGED: &str = "managed";

/// The certificates of every port. With a managed one, `http-certificates` is ignored.
pub fn read(
    service: &Service,
    annotations: &mut Values<'_>,
    events: &mut Vec<Event>,
) -> Certificates {
    match annotations.text(CERTIFICATE_TYPE) {
        Some(MANAGED) => return Certificates::Managed(managed(service, annotations)),
        None | Some("" | "uploaded") => {}
        Some(_) => {
            let message = format!(
                "{CERTIFICATE_TYPE} is neither uploaded nor managed, and counts as uploaded: no certificate is ordered"
            );
            events.push(Event::warning(unsupported::REASON, message));
        }
    }
    uploaded(annotations)
}

fn uploaded(annotations: &mut Values<'_>) -> Certificates {
    let Some(parts) = parts(annotations, HTTP_CERTIFICATES) else {
        return Certificates::None;
    };
    let mut certificates = Vec::with_capacity(parts.len());
    for part in parts {
        let certificate = match part.parse::<i64>().map(u64::try_from) {
            Ok(Ok(id)) if id > 0 => Certificate::Id(id),
            Err(_) if !part.is_empty() => Certificate::Name(part),
            Ok(_) | Err(_) => {
                let what = "is neither the name nor the id of a certificate";
                annotations.wrong_part::<()>(HTTP_CERTIFICATES, &part, what);
                continue;
            }
        };
        // Each name costs a request, and a tenant can repeat one two thousand times.
        if !certificates.contains(&certificate) {
            certificates.push(certificate);
        }
    }
    Certificates::Uploaded(certificates)
}

fn managed(service: &Service, annotations: &mut Values<'_>) -> ManagedCertificate {
    let name = annotations.filled(HTTP_MANAGED_CERTIFICATE_NAME);
    let mut labels = names::labels(&service.uid);
    // Only a true value requests a certificate that browsers do not trust; any other text is no mistake.
    let staging = annotations.text(HTTP_MANAGED_CERTIFICATE_ACME_STAGING);
    if staging.and_then(parse_boolean) == Some(true) {
        labels.insert(names::STAGING.to_owned(), "true".to_owned());
    }
    ManagedCertificate {
        name: name.map_or_else(|| names::certificate(&service.uid), str::to_owned),
        domains: domains(annotations),
        labels,
    }
}

fn domains(annotations: &mut Values<'_>) -> Vec<String> {
    let key = HTTP_MANAGED_CERTIFICATE_DOMAINS;
    if !annotations.is_set(key) {
        annotations.mistake(format_args!(
            "{CERTIFICATE_TYPE}: a managed certificate needs domains, in {key}"
        ));
    }
    let domains = parts(annotations, key).unwrap_or_default();
    if domains.iter().any(String::is_empty) {
        annotations.wrong::<()>(key, "has an empty domain in it");
    }
    domains
}
