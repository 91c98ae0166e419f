//! Every action on a load balancer, driven by the foreign crate.

use ccm_sim::hetzner::{Location, ServerSpec};
use hcloud::apis::configuration::Configuration;
use hcloud::apis::load_balancers_api as api;
use hcloud::models;

use super::load_balancers::{create, get, requested, server, service};
use super::{TOKEN, client, cloud, refusal, refused};

#[tokio::test]
async fn every_action_changes_what_it_names() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let network = cloud.add_network("nodes", "10.0.0.0/24".parse().unwrap(), Location::Hel1) as i64;
    let node = cloud.add_server(ServerSpec::named("node-1"));
    let id = create(&client, requested("web"))
        .await
        .unwrap()
        .load_balancer
        .id;
    change_services_and_targets(&client, id, node).await;
    change_networks(&client, id, network).await;
    change_the_rest(&client, id).await;
    let expected = [
        "create_load_balancer",
        "add_service",
        "update_service",
        "add_target",
        "remove_target",
        "delete_service",
        "attach_to_network",
        "disable_public_interface",
        "enable_public_interface",
        "detach_from_network",
        "change_algorithm",
        "change_load_balancer_type",
        "change_dns_ptr",
        "change_protection",
    ];
    assert_eq!(cloud.load_balancer_actions(id as u64), expected);
    let params = api::ListActionsForLoadBalancerParams {
        id,
        sort: Some(vec!["id:desc".to_owned()]),
        status: Some(vec!["success".to_owned()]),
        per_page: Some(1),
        page: None,
    };
    let listed = api::list_actions_for_load_balancer(&client, params)
        .await
        .unwrap();
    assert_eq!(listed.actions[0].command, "change_protection");
}

async fn change_services_and_targets(client: &Configuration, id: i64, node: u64) {
    let params = api::AddServiceParams {
        id,
        load_balancer_service: service(80),
    };
    api::add_service(client, params).await.unwrap();
    let params = api::UpdateServiceParams {
        id,
        update_load_balancer_service: models::UpdateLoadBalancerService {
            listen_port: 80,
            destination_port: Some(31_000),
            ..Default::default()
        },
    };
    api::update_service(client, params).await.unwrap();
    let params = api::AddTargetParams {
        id,
        load_balancer_add_target: server(node),
    };
    api::add_target(client, params).await.unwrap();
    let balancer = get(client, id).await;
    let updated = models::LoadBalancerService {
        destination_port: 31_000,
        ..service(80)
    };
    assert_eq!(balancer.services, [updated]);
    assert_eq!(balancer.targets[0].server.as_ref().unwrap().id, node as i64);
    let params = api::RemoveTargetParams {
        id,
        remove_target_request: models::RemoveTargetRequest {
            r#type: models::remove_target_request::Type::Server,
            server: Some(Box::new(models::ResourceId { id: node as i64 })),
            ..Default::default()
        },
    };
    api::remove_target(client, params).await.unwrap();
    let params = api::DeleteServiceParams {
        id,
        delete_service_request: models::DeleteServiceRequest { listen_port: 80 },
    };
    api::delete_service(client, params).await.unwrap();
    let balancer = get(client, id).await;
    assert_eq!((balancer.services, balancer.targets), (vec![], vec![]));
}

async fn change_networks(client: &Configuration, id: i64, network: i64) {
    let params = api::AttachLoadBalancerToNetworkParams {
        id,
        attach_load_balancer_to_network_request: models::AttachLoadBalancerToNetworkRequest {
            network,
            ip: Some("10.0.0.9".to_owned()),
            ip_range: Some("10.0.0.0/24".to_owned()),
        },
    };
    api::attach_load_balancer_to_network(client, params)
        .await
        .unwrap();
    let params = api::DisablePublicInterfaceOfLoadBalancerParams { id };
    api::disable_public_interface_of_load_balancer(client, params)
        .await
        .unwrap();
    let balancer = get(client, id).await;
    assert_eq!(balancer.private_net[0].ip.as_deref(), Some("10.0.0.9"));
    assert!(!balancer.public_net.enabled);
    let params = api::EnablePublicInterfaceOfLoadBalancerParams { id };
    api::enable_public_interface_of_load_balancer(client, params)
        .await
        .unwrap();
    let params = api::DetachLoadBalancerFromNetworkParams {
        id,
        detach_load_balancer_from_network_request: models::DetachLoadBalancerFromNetworkRequest {
            network,
        },
    };
    api::detach_load_balancer_from_network(client, params)
        .await
        .unwrap();
    let balancer = get(client, id).await;
    assert_eq!(
        (balancer.private_net, balancer.public_net.enabled),
        (vec![], true)
    );
}

async fn change_the_rest(client: &Configuration, id: i64) {
    let r#type = models::load_balancer_algorithm::Type::LeastConnections;
    let params = api::ChangeAlgorithmParams {
        id,
        body: models::LoadBalancerAlgorithm { r#type },
    };
    api::change_algorithm(client, params).await.unwrap();
    let params = api::ChangeTypeOfLoadBalancerParams {
        id,
        change_type_of_load_balancer_request: models::ChangeTypeOfLoadBalancerRequest {
            load_balancer_type: "lb21".to_owned(),
        },
    };
    api::change_type_of_load_balancer(client, params)
        .await
        .unwrap();
    let params = api::ChangeReverseDnsEntryForThisLoadBalancerParams {
        id,
        change_reverse_dns_entry_for_this_load_balancer_request:
            models::ChangeReverseDnsEntryForThisLoadBalancerRequest {
                ip: "198.19.192.1".to_owned(),
                dns_ptr: Some("web.example.com".to_owned()),
            },
    };
    api::change_reverse_dns_entry_for_this_load_balancer(client, params)
        .await
        .unwrap();
    let params = api::ChangeLoadBalancerProtectionParams {
        id,
        change_load_balancer_protection_request: models::ChangeLoadBalancerProtectionRequest {
            delete: Some(true),
        },
    };
    api::change_load_balancer_protection(client, params)
        .await
        .unwrap();
    let balancer = get(client, id).await;
    assert_eq!(
        (
            balancer.algorithm.r#type,
            balancer.load_balancer_type.name.as_str()
        ),
        (r#type, "lb21")
    );
    assert_eq!(
        balancer.public_net.ipv4.dns_ptr,
        Some(Some("web.example.com".to_owned()))
    );
    assert!(balancer.protection.delete);
    let refused_by_protection =
        api::delete_load_balancer(client, api::DeleteLoadBalancerParams { id });
    assert_eq!(
        refusal(refused_by_protection.await),
        refused(423, "protected")
    );
}
