//! A client that others wrote: the crate `hcloud`, generated from the vendor's own API document, drives the simulator.
//! An object that it cannot deserialise does not have the vendor's form.

mod bodies;
mod certificates;
mod faults;
mod load_balancer_changes;
mod load_balancer_faults;
mod load_balancer_rules;
mod load_balancer_service_rules;
mod load_balancer_target_rules;
mod load_balancers;
mod nodes;
mod reads;
mod robustness;
mod routes;
mod tls;
mod writes;

use std::time::Duration;

use ccm_sim::hetzner::{Hetzner, Options, ServerSpec};
use hcloud::apis::configuration::Configuration;
use hcloud::apis::{Error, actions_api, servers_api};
use hcloud::models;

const TOKEN: &str = "the-token";

const VENDOR: &str = "https://api.hetzner.cloud/v1";

async fn cloud() -> Hetzner {
    cloud_with(Options::new(TOKEN)).await
}

async fn cloud_with(options: Options) -> Hetzner {
    Hetzner::start(options).await.expect("a free port")
}

fn client(cloud: &Hetzner, token: &str) -> Configuration {
    let mut configuration = Configuration::new();
    configuration.bearer_access_token = Some(token.to_owned());
    let mapping = &mut configuration.base_path_mapping;
    mapping.insert(VENDOR.to_owned(), cloud.endpoint());
    configuration
}

fn refusal<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, Error<E>>) -> (u16, String) {
    let Err(Error::ResponseError(content)) = result else {
        panic!("expected a refusal, got {result:?}");
    };
    let envelope: models::ErrorResponse = serde_json::from_str(&content.content).unwrap();
    (content.status.as_u16(), envelope.error.code)
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn specs(count: usize) -> impl Iterator<Item = ServerSpec> {
    (1..=count).map(|number| ServerSpec::named(format!("node-{number:03}")))
}

fn page(page: i64, per_page: i64) -> servers_api::ListServersParams {
    servers_api::ListServersParams {
        page: Some(page),
        per_page: Some(per_page),
        ..Default::default()
    }
}

async fn list(cloud: &Hetzner, params: servers_api::ListServersParams) -> Vec<String> {
    let answer = servers_api::list_servers(&client(cloud, TOKEN), params)
        .await
        .unwrap();
    answer
        .servers
        .into_iter()
        .map(|server| server.name)
        .collect()
}

async fn poll(client: &Configuration, id: i64) -> models::Action {
    for _ in 0..200 {
        let params = actions_api::GetMultipleActionsParams { id: vec![id] };
        let mut actions = actions_api::get_multiple_actions(client, params)
            .await
            .unwrap()
            .actions;
        let action = actions.pop().expect("the action is known");
        if action.status != models::action::Status::Running {
            let alone = actions_api::get_action(client, actions_api::GetActionParams { id });
            assert_eq!(*alone.await.unwrap().action, action);
            return action;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("action {id} never ended");
}

fn reqwest_client() -> reqwest::Client {
    // One TLS provider for the process; the first test installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}
