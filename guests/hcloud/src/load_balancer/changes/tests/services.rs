//! Which options of a service differ.

use super::*;
use crate::load_balancer::wanted::WantedHttp;

#[test]
fn every_option_of_a_service_is_compared() {
    for (key, value) in [
        (annotations::PROTOCOL, "http"),
        (annotations::USES_PROXYPROTOCOL, "true"),
        (annotations::HTTP_COOKIE_NAME, "other"),
        (annotations::HTTP_COOKIE_LIFETIME, "6m"),
        (annotations::HTTP_TIMEOUT_IDLE, "61s"),
        (annotations::HTTP_REDIRECT_HTTP, "false"),
        (annotations::HTTP_STICKY_SESSIONS, "false"),
        (annotations::HEALTH_CHECK_PROTOCOL, "https"),
        (annotations::HEALTH_CHECK_PORT, "8080"),
        (annotations::HEALTH_CHECK_INTERVAL, "16s"),
        (annotations::HEALTH_CHECK_TIMEOUT, "11s"),
        (annotations::HEALTH_CHECK_RETRIES, "4"),
        (annotations::HEALTH_CHECK_HTTP_DOMAIN, "example.org"),
        (annotations::HEALTH_CHECK_HTTP_PATH, "/healthz"),
        (annotations::HTTP_STATUS_CODES, "2??"),
        (annotations::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE, "true"),
    ] {
        let wanted = wanted_with(&[(key, value)]);
        let writes = writes(of_services(&wanted, &known(), &read(found())));
        assert_eq!(writes.len(), 1, "{key}");
        assert_eq!(writes[0].0, "update_service", "{key}");
        assert_eq!(writes[0].1["listen_port"], 443, "{key}");
    }
    let other = Known {
        certificates: Some(vec![898]),
        ..known()
    };
    let changes = of_services(&wanted_with(&[]), &other, &read(found()));
    let why = "port 443 has another http.certificates.0";
    assert_eq!(changes[0].why, why);
    assert_eq!(writes(changes)[0].1["http"]["certificates"], json!([898]));
}

/// An update for one of these would be sent again at every comparison.
#[test]
fn what_the_cloud_shows_in_another_form_is_no_difference() {
    type Form = fn(&mut WantedService, &mut Known, &mut Value);
    let table: [(&str, Form); 7] = [
        ("an empty text as null", |wanted, _, shown| {
            wanted.http.as_mut().unwrap().cookie_name = Some(String::new());
            shown["http"]["cookie_name"] = Value::Null;
        }),
        ("an empty text as it is", |wanted, _, shown| {
            let check = wanted.health_check.http.as_mut().unwrap();
            check.domain = Some(String::new());
            shown["health_check"]["http"]["domain"] = json!("");
        }),
        ("options that are off as none", |wanted, known, shown| {
            wanted.http = Some(WantedHttp {
                redirect_http: Some(false),
                ..WantedHttp::default()
            });
            known.certificates = None;
            shown["http"] = Value::Null;
        }),
        (
            "HTTP options of a TCP service as none",
            |wanted, _, shown| {
                wanted.protocol = ServiceProtocol::Tcp;
                shown["protocol"] = json!("tcp");
                shown["http"] = Value::Null;
            },
        ),
        ("certificates in another order", |_, known, shown| {
            known.certificates = Some(vec![1000, 897, 897]);
            shown["http"]["certificates"] = json!([897, 1000]);
        }),
        ("status codes once", |wanted, _, _| {
            let check = wanted.health_check.http.as_mut().unwrap();
            let codes = ["3??", "2??", "3??"].map(str::to_owned);
            check.status_codes = Some(codes.to_vec());
        }),
        ("fields of tomorrow", |_, _, shown| {
            shown["later"] = json!(1);
            shown["http"]["later"] = json!(1);
            shown["health_check"]["http"]["later"] = json!(1);
        }),
    ];
    for (what, form) in table {
        let (mut wanted, mut known, mut found) = (wanted_with(&[]), known(), found());
        let service = wanted.services.get_mut(&443).unwrap();
        form(service, &mut known, &mut found["services"][0]);
        let changes = of_services(&wanted, &known, &read(found));
        assert_eq!(changes, [], "{what}");
    }
}
