//! The life of a load balancer, driven by the foreign crate, and the simulator's views of it.

use std::collections::HashMap;
use std::time::Duration;

use ccm_sim::hetzner::{Fault, Hetzner, Location, Locking, Options, ServerSpec, Trouble};
use hcloud::apis::configuration::Configuration;
use hcloud::apis::{load_balancer_types_api, load_balancers_api as api};
use hcloud::models;
use hcloud::models::load_balancer_target_health_status::Status as Health;

use super::{TOKEN, client, cloud, cloud_with, poll, refusal, refused};

pub(super) fn service(port: i32) -> models::LoadBalancerService {
    models::LoadBalancerService {
        protocol: models::load_balancer_service::Protocol::Tcp,
        listen_port: port,
        destination_port: 30_000 + port,
        proxyprotocol: false,
        http: None,
        health_check: Box::new(models::LoadBalancerServiceHealthCheck {
            protocol: models::load_balancer_service_health_check::Protocol::Tcp,
            port: 30_000 + port,
            interval: 15,
            timeout: 10,
            retries: 3,
            http: None,
        }),
    }
}

pub(super) fn server(id: u64) -> models::LoadBalancerAddTarget {
    models::LoadBalancerAddTarget {
        r#type: models::load_balancer_add_target::Type::Server,
        server: Some(Box::new(models::ResourceId { id: id as i64 })),
        use_private_ip: Some(false),
        ..Default::default()
    }
}

pub(super) fn requested(name: &str) -> models::CreateLoadBalancerRequest {
    models::CreateLoadBalancerRequest {
        name: name.to_owned(),
        load_balancer_type: "lb11".to_owned(),
        location: Some("hel1".to_owned()),
        labels: Some(HashMap::from([("owner".to_owned(), name.to_owned())])),
        ..Default::default()
    }
}

pub(super) async fn create(
    client: &Configuration,
    requested: models::CreateLoadBalancerRequest,
) -> Result<models::CreateLoadBalancerResponse, hcloud::apis::Error<api::CreateLoadBalancerError>> {
    let params = api::CreateLoadBalancerParams {
        create_load_balancer_request: requested,
    };
    api::create_load_balancer(client, params).await
}

pub(super) async fn get(client: &Configuration, id: i64) -> models::LoadBalancer {
    let answer = api::get_load_balancer(client, api::GetLoadBalancerParams { id }).await;
    *answer.unwrap().load_balancer
}

async fn names(client: &Configuration, params: api::ListLoadBalancersParams) -> Vec<String> {
    let answer = api::list_load_balancers(client, params).await.unwrap();
    let balancers = answer.load_balancers.into_iter();
    balancers.map(|balancer| balancer.name).collect()
}

pub(super) fn slow() -> Options {
    Options {
        action_duration: Duration::from_millis(300),
        ..Options::new(TOKEN)
    }
}

#[tokio::test]
async fn one_request_makes_a_load_balancer_with_services_targets_network_and_addresses() {
    let cloud = cloud_with(slow()).await;
    let client = client(&cloud, TOKEN);
    let network = cloud.add_network("nodes", "10.0.0.0/24".parse().unwrap(), Location::Hel1);
    let node = cloud.add_server(ServerSpec::named("node-1"));
    let private = cloud.add_server(ServerSpec {
        location: Location::Hel1,
        ..ServerSpec::named("node-2")
    });
    cloud.attach(private, network, None).unwrap();
    let made = create(
        &client,
        models::CreateLoadBalancerRequest {
            services: Some(vec![service(80), service(443)]),
            targets: Some(vec![
                server(node),
                models::LoadBalancerAddTarget {
                    use_private_ip: Some(true),
                    ..server(private)
                },
            ]),
            network: Some(network as i64),
            ..requested("web")
        },
    )
    .await
    .unwrap();
    assert_eq!(
        (made.action.command.as_str(), made.action.status),
        ("create_load_balancer", models::action::Status::Running)
    );
    let balancer = *made.load_balancer;
    assert_eq!(balancer.services, vec![service(80), service(443)]);
    assert_eq!(
        (
            balancer.load_balancer_type.name.as_str(),
            balancer.location.name.as_str()
        ),
        ("lb11", "hel1")
    );
    let public = &balancer.public_net;
    assert_eq!(public.ipv4.ip, Some(Some("198.19.192.1".to_owned())));
    assert_eq!(public.ipv6.ip, Some(Some("2001:db8:fffe::1".to_owned())));
    assert_eq!(balancer.private_net[0].ip.as_deref(), Some("10.0.0.3"));
    let health = |balancer: &models::LoadBalancer| -> Vec<Health> {
        let targets = balancer.targets.iter();
        let each = targets.flat_map(|target| target.health_status.clone().unwrap());
        each.map(|one| one.status.unwrap()).collect()
    };
    assert_eq!(health(&balancer), [Health::Unknown; 4]);

    poll(&client, made.action.id).await;
    cloud.set_status(node, ccm_sim::hetzner::ServerStatus::Off);
    let balancer = get(&client, balancer.id).await;
    let (ill, well) = (Health::Unhealthy, Health::Healthy);
    assert_eq!(health(&balancer), [ill, ill, well, well]);
    let shown = cloud.network(network).unwrap();
    assert_eq!(shown["load_balancers"], serde_json::json!([balancer.id]));
    assert_eq!(
        cloud.server(node).unwrap()["load_balancers"],
        serde_json::json!([balancer.id])
    );

    // A deleted server is no target any more, nor is one that was reached through the deleted network.
    assert!(cloud.remove_server(node) && cloud.remove_network(network));
    let balancer = get(&client, balancer.id).await;
    assert_eq!((balancer.targets, balancer.private_net), (vec![], vec![]));
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_paged() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    for name in ["b", "a", "c"] {
        create(&client, requested(name)).await.unwrap();
    }
    let params = api::ListLoadBalancersParams::default;
    assert_eq!(names(&client, params()).await, ["b", "a", "c"]);
    let named = api::ListLoadBalancersParams {
        name: Some("a".to_owned()),
        ..params()
    };
    assert_eq!(names(&client, named).await, ["a"]);
    let labelled = api::ListLoadBalancersParams {
        label_selector: Some("owner!=a".to_owned()),
        sort: Some(vec!["name:desc".to_owned()]),
        ..params()
    };
    assert_eq!(names(&client, labelled).await, ["c", "b"]);
    let second = api::ListLoadBalancersParams {
        page: Some(2),
        per_page: Some(2),
        ..params()
    };
    assert_eq!(names(&client, second).await, ["c"]);
}

#[tokio::test]
async fn a_name_is_taken_once_and_renaming_keeps_that() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = create(&client, requested("web"))
        .await
        .unwrap()
        .load_balancer
        .id;
    create(&client, requested("other")).await.unwrap();
    let twin = create(&client, requested("web")).await;
    assert_eq!(refusal(twin), refused(409, "uniqueness_error"));
    let rename = |name: &str| {
        let params = api::ReplaceLoadBalancerParams {
            id,
            replace_load_balancer_request: models::ReplaceLoadBalancerRequest {
                name: Some(name.to_owned()),
                labels: None,
            },
        };
        api::replace_load_balancer(&client, params)
    };
    assert_eq!(
        refusal(rename("other").await),
        refused(409, "uniqueness_error")
    );
    let renamed = rename("web-2").await.unwrap().load_balancer;
    assert_eq!(
        (renamed.name.as_str(), renamed.labels["owner"].as_str()),
        ("web-2", "web")
    );

    api::delete_load_balancer(&client, api::DeleteLoadBalancerParams { id })
        .await
        .unwrap();
    let gone = api::get_load_balancer(&client, api::GetLoadBalancerParams { id }).await;
    assert_eq!(refusal(gone), refused(404, "not_found"));
    assert_eq!(
        cloud.load_balancer_actions(id as u64).last(),
        Some(&"delete_load_balancer")
    );
}

async fn add_port(client: &Configuration, id: i64, port: i32) -> Result<i64, (u16, String)> {
    let params = api::AddServiceParams {
        id,
        load_balancer_service: service(port),
    };
    match api::add_service(client, params).await {
        Ok(answer) => Ok(answer.action.id),
        refused => Err(refusal(refused)),
    }
}

#[tokio::test]
async fn a_running_action_locks_a_load_balancer_as_the_test_wants_it() {
    let cloud = cloud_with(slow()).await;
    let client = client(&cloud, TOKEN);
    let made = create(&client, requested("web")).await.unwrap();
    let id = made.load_balancer.id;
    assert_eq!(add_port(&client, id, 80).await, Err(refused(423, "locked")));
    cloud.set_load_balancer_locking(Locking::Conflict);
    assert_eq!(
        add_port(&client, id, 80).await,
        Err(refused(409, "conflict"))
    );
    cloud.set_load_balancer_locking(Locking::Off);
    let action = add_port(&client, id, 80).await.unwrap();
    assert_eq!(get(&client, id).await.services, []);
    poll(&client, action).await;
    assert_eq!(get(&client, id).await.services, [service(80)]);
    cloud.set_load_balancer_locking(Locking::Locked);
    add_port(&client, id, 443).await.unwrap();
    let delete = api::delete_load_balancer(&client, api::DeleteLoadBalancerParams { id });
    assert_eq!(refusal(delete.await), refused(423, "locked"));
}

async fn fail_next(cloud: &Hetzner) {
    let trouble = Trouble::ActionFails {
        code: "action_failed".to_owned(),
        message: "no host is free".to_owned(),
    };
    cloud.inject(Fault::new(trouble).method(http::Method::POST).times(1));
}

#[tokio::test]
async fn what_could_not_be_made_stays_as_a_name_and_a_change_that_failed_changes_nothing() {
    let cloud = cloud_with(slow()).await;
    let client = client(&cloud, TOKEN);
    let node = cloud.add_server(ServerSpec::named("node-1"));
    fail_next(&cloud).await;
    let range = "10.0.0.0/24".parse().unwrap();
    let network = cloud.add_network("nodes", range, Location::Hel1);
    let requested = models::CreateLoadBalancerRequest {
        services: Some(vec![service(80)]),
        targets: Some(vec![server(node)]),
        network: Some(network as i64),
        ..requested("web")
    };
    let made = create(&client, requested).await.unwrap();
    let id = made.load_balancer.id;
    assert_eq!(made.load_balancer.services, [service(80)]);
    let ended = poll(&client, made.action.id).await;
    assert_eq!(ended.error.unwrap().message, "no host is free");
    let left = get(&client, id).await;
    assert_eq!(
        (left.name.as_str(), left.services, left.targets),
        ("web", vec![], vec![])
    );
    assert_eq!((left.private_net, left.public_net.enabled), (vec![], true));
    let members = &cloud.network(network).unwrap()["load_balancers"];
    assert_eq!(*members, serde_json::json!([]));

    fail_next(&cloud).await;
    let action = add_port(&client, id, 80).await.unwrap();
    assert_eq!(
        poll(&client, action).await.status,
        models::action::Status::Error
    );
    assert_eq!(get(&client, id).await.services, []);
}

#[tokio::test]
async fn load_balancer_types_tell_limits_and_prices() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let params = load_balancer_types_api::ListLoadBalancerTypesParams::default();
    let types = load_balancer_types_api::list_load_balancer_types(&client, params)
        .await
        .unwrap();
    let types = types.load_balancer_types.into_iter();
    let limits: Vec<_> = types
        .map(|one| {
            (
                one.id,
                one.name,
                one.max_services,
                one.max_targets,
                one.prices.len(),
            )
        })
        .collect();
    assert_eq!(
        limits,
        [
            (1, "lb11".to_owned(), 5, 25, 6),
            (2, "lb21".to_owned(), 15, 75, 6),
            (3, "lb31".to_owned(), 30, 150, 6),
        ]
    );
    let params = load_balancer_types_api::GetLoadBalancerTypeParams { id: 3 };
    let one = load_balancer_types_api::get_load_balancer_type(&client, params)
        .await
        .unwrap();
    assert_eq!(
        one.load_balancer_type.unwrap().max_assigned_certificates,
        50
    );
}
