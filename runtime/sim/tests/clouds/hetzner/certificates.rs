//! Certificates, driven by the foreign crate: uploaded and managed, in use and unused.

use std::collections::HashMap;

use ccm_sim::hetzner::{Fault, Trouble};
use hcloud::apis::certificates_api as api;
use hcloud::apis::configuration::Configuration;
use hcloud::models;
use hcloud::models::certificate_status::Issuance;
use serde_json::json;

use super::load_balancer_rules::post;
use super::{TOKEN, client, cloud, poll, refusal, refused};

const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n";

fn uploaded(name: &str) -> models::CreateCertificateRequest {
    models::CreateCertificateRequest {
        name: name.to_owned(),
        certificate: Some(CHAIN.to_owned()),
        private_key: Some(KEY.to_owned()),
        labels: Some(HashMap::from([("owner".to_owned(), name.to_owned())])),
        ..Default::default()
    }
}

fn managed(name: &str) -> models::CreateCertificateRequest {
    models::CreateCertificateRequest {
        name: name.to_owned(),
        r#type: Some(models::create_certificate_request::Type::Managed),
        domain_names: Some(vec!["example.com".to_owned()]),
        ..Default::default()
    }
}

async fn create(
    client: &Configuration,
    create_certificate_request: models::CreateCertificateRequest,
) -> Result<models::CreateCertificateResponse, hcloud::apis::Error<api::CreateCertificateError>> {
    let params = api::CreateCertificateParams {
        create_certificate_request,
    };
    api::create_certificate(client, params).await
}

async fn issuance(client: &Configuration, id: i64) -> (Issuance, Option<String>) {
    let answer = api::get_certificate(client, api::GetCertificateParams { id }).await;
    let status = answer.unwrap().certificate.status.flatten().unwrap();
    let error = status.error.flatten().and_then(|error| error.code);
    (status.issuance.unwrap(), error)
}

#[tokio::test]
async fn an_uploaded_certificate_is_kept_listed_renamed_and_deleted() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let made = create(&client, uploaded("own")).await.unwrap();
    create(&client, uploaded("other")).await.unwrap();
    assert_eq!(made.action, Some(None));
    let twin = create(&client, uploaded("own")).await;
    assert_eq!(refusal(twin), refused(409, "uniqueness_error"));
    let id = made.certificate.id;
    let params = api::ReplaceCertificateParams {
        id,
        replace_certificate_request: models::ReplaceCertificateRequest {
            name: Some("renamed".to_owned()),
            labels: None,
        },
    };
    api::replace_certificate(&client, params).await.unwrap();
    let params = api::ListCertificatesParams {
        label_selector: Some("owner=own".to_owned()),
        r#type: Some(vec!["uploaded".to_owned()]),
        ..Default::default()
    };
    let listed = api::list_certificates(&client, params)
        .await
        .unwrap()
        .certificates;
    let listed: Vec<_> = listed
        .into_iter()
        .map(|one| (one.name, one.certificate))
        .collect();
    assert_eq!(listed, [("renamed".to_owned(), Some(CHAIN.to_owned()))]);

    let service = json!({
        "protocol": "https", "listen_port": 443, "destination_port": 80, "http": {"certificates": [id]},
    });
    let requested = json!({"name": "web", "load_balancer_type": "lb11", "location": "fsn1", "services": [service]});
    assert_eq!(post(&cloud, "/load_balancers", requested).await.0, 201);
    let delete = || api::delete_certificate(&client, api::DeleteCertificateParams { id });
    assert_eq!(refusal(delete().await), refused(422, "resource_in_use"));
    let used = api::get_certificate(&client, api::GetCertificateParams { id })
        .await
        .unwrap();
    let used_by: Vec<_> = used.certificate.used_by.iter().map(|one| one.id).collect();
    assert_eq!(used_by, [1]);
    assert!(cloud.remove_load_balancer(1));
    delete().await.unwrap();
    assert_eq!(refusal(delete().await), refused(404, "not_found"));
}

#[tokio::test]
async fn a_managed_certificate_is_issued_by_an_action_that_may_fail_and_be_retried() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    cloud.inject(
        Fault::new(Trouble::ActionFails {
            code: "dns_zone_not_found".to_owned(),
            message: "DNS zone not found".to_owned(),
        })
        .path("/certificates")
        .times(1),
    );
    let made = create(&client, managed("web")).await.unwrap();
    let id = made.certificate.id;
    let status = made.certificate.status.flatten().unwrap();
    assert_eq!(status.issuance, Some(Issuance::Pending));
    let ended = poll(&client, made.action.flatten().unwrap().id).await;
    assert_eq!(ended.error.unwrap().code, "dns_zone_not_found");
    let failed = (Issuance::Failed, Some("dns_zone_not_found".to_owned()));
    assert_eq!(issuance(&client, id).await, failed);

    let retry =
        || api::retry_issuance_or_renewal(&client, api::RetryIssuanceOrRenewalParams { id });
    let action = retry().await.unwrap().action;
    poll(&client, action.id).await;
    assert_eq!(issuance(&client, id).await, (Issuance::Completed, None));
    assert_eq!(refusal(retry().await), refused(422, "unsupported_error"));
    let params = api::ListActionsForCertificateParams {
        id,
        sort: None,
        status: None,
        page: None,
        per_page: None,
    };
    let actions = api::list_actions_for_certificate(&client, params)
        .await
        .unwrap()
        .actions;
    let commands: Vec<_> = actions
        .iter()
        .map(|action| action.command.as_str())
        .collect();
    assert_eq!(commands, ["create_certificate", "issue_certificate"]);
}

#[tokio::test]
async fn a_certificate_needs_what_its_type_needs() {
    let cloud = cloud().await;
    for (body, field) in [
        (json!({"name": "a"}), "certificate"),
        (
            json!({"name": "a", "certificate": "x", "private_key": KEY}),
            "certificate",
        ),
        (json!({"name": "a", "certificate": CHAIN}), "private_key"),
        (json!({"name": "a", "type": "managed"}), "domain_names"),
        (
            json!({"name": "a", "type": "managed", "domain_names": ["x"]}),
            "domain_names",
        ),
        (json!({"name": "a", "type": "borrowed"}), "type"),
        (json!({"certificate": CHAIN, "private_key": KEY}), "name"),
        (json!({"name": "a", "password": "x"}), "password"),
    ] {
        let (status, answer) = post(&cloud, "/certificates", body.clone()).await;
        let named = &answer["error"]["details"]["fields"][0]["name"];
        assert_eq!((status, named), (422, &json!(field)), "{body}");
    }
}
