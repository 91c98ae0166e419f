//! Writes: actions, the objects that they lock, their effects, and refusals.

use std::time::Duration;

use ccm_sim::hetzner::{Fault, Location, Options, ServerSpec, Trouble};
use hcloud::apis::{networks_api, servers_api};
use hcloud::models;
use hcloud::models::server::Status;

use super::{TOKEN, client, cloud, cloud_with, poll, refusal, refused};

#[tokio::test]
async fn a_running_action_locks_its_server_and_then_takes_effect() {
    let cloud = cloud_with(Options {
        action_duration: Duration::from_millis(300),
        ..Options::new(TOKEN)
    })
    .await;
    let client = client(&cloud, TOKEN);
    let id = cloud.add_server(ServerSpec::named("node-1")) as i64;
    let off = servers_api::PowerOffServerParams { id };
    let action = servers_api::power_off_server(&client, off.clone())
        .await
        .unwrap()
        .action;
    assert_eq!(
        (action.command.as_str(), action.status),
        ("stop_server", models::action::Status::Running)
    );
    assert_eq!(
        refusal(servers_api::power_off_server(&client, off).await),
        refused(423, "locked")
    );
    let get = || servers_api::get_server(&client, servers_api::GetServerParams { id });
    let server = get().await.unwrap().server.unwrap();
    assert_eq!((server.status, server.locked), (Status::Running, true));

    let ended = poll(&client, action.id).await;
    assert_eq!(
        (ended.status, ended.progress, ended.error),
        (models::action::Status::Success, 100, None)
    );
    let server = get().await.unwrap().server.unwrap();
    assert_eq!((server.status, server.locked), (Status::Off, false));
}

#[tokio::test]
async fn a_failing_action_says_why_and_changes_nothing() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = cloud.add_server(ServerSpec::named("node-1")) as i64;
    cloud.inject(Fault::new(Trouble::ActionFails {
        code: "action_failed".to_owned(),
        message: "the host is on fire".to_owned(),
    }));
    let off = servers_api::PowerOffServerParams { id };
    let action = servers_api::power_off_server(&client, off)
        .await
        .unwrap()
        .action;
    let ended = poll(&client, action.id).await;
    assert_eq!(ended.status, models::action::Status::Error);
    assert_eq!(ended.error.unwrap().message, "the host is on fire");
    assert_eq!(cloud.server(id as u64).unwrap()["status"], "running");
}

#[tokio::test]
async fn routes_are_added_listed_refused_and_deleted() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let request = models::CreateNetworkRequest {
        name: "nodes".to_owned(),
        ip_range: "10.0.0.0/8".to_owned(),
        subnets: Some(vec![models::Subnet {
            ip_range: Some("10.0.0.0/24".to_owned()),
            network_zone: "eu-central".to_owned(),
            r#type: models::subnet::Type::Cloud,
            vswitch_id: None,
        }]),
        ..Default::default()
    };
    let params = networks_api::CreateNetworkParams {
        create_network_request: request,
    };
    let id = networks_api::create_network(&client, params)
        .await
        .unwrap()
        .network
        .unwrap()
        .id;
    let server = cloud.add_server(ServerSpec::named("node-1"));
    let attach = servers_api::AttachServerToNetworkParams {
        id: server as i64,
        attach_server_to_network_request: models::AttachServerToNetworkRequest {
            network: id,
            ..Default::default()
        },
    };
    let attached = servers_api::attach_server_to_network(&client, attach)
        .await
        .unwrap();
    poll(&client, attached.action.id).await;

    let route = |destination: &str, gateway: &str| networks_api::AddRouteToNetworkParams {
        id,
        route: models::Route {
            destination: destination.to_owned(),
            gateway: gateway.to_owned(),
        },
    };
    let good = route("10.244.1.0/24", "10.0.0.2");
    let action = networks_api::add_route_to_network(&client, good.clone())
        .await
        .unwrap()
        .action;
    poll(&client, action.id).await;
    for (destination, gateway) in [
        ("10.244.1.0/24", "10.0.0.3"),
        ("10.244.1.0/25", "10.0.0.3"),
        ("10.0.0.128/25", "10.0.0.3"),
        ("8.8.8.0/24", "10.0.0.3"),
        ("10.244.2.0/24", "10.0.0.1"),
        ("10.244.2.0/24", "192.168.0.1"),
        ("10.244.2.0/24", "<nil>"),
        ("fd00::/64", "10.0.0.3"),
    ] {
        let result = networks_api::add_route_to_network(&client, route(destination, gateway)).await;
        assert_eq!(
            refusal(result),
            refused(422, "invalid_input"),
            "{destination} {gateway}"
        );
    }
    let get = || networks_api::get_network(&client, networks_api::GetNetworkParams { id });
    let network = get().await.unwrap().network.unwrap();
    assert_eq!(network.routes, vec![good.route.clone()]);
    assert_eq!(network.servers, vec![server as i64]);

    let delete = networks_api::DeleteRouteFromNetworkParams {
        id,
        route: good.route,
    };
    let action = networks_api::delete_route_from_network(&client, delete.clone())
        .await
        .unwrap()
        .action;
    poll(&client, action.id).await;
    assert_eq!(get().await.unwrap().network.unwrap().routes, vec![]);
    let again = networks_api::delete_route_from_network(&client, delete).await;
    assert_eq!(refusal(again), refused(404, "not_found"));
}

#[tokio::test]
async fn a_network_that_is_being_changed_is_a_conflict() {
    let cloud = cloud_with(Options {
        action_duration: Duration::MAX,
        ..Options::new(TOKEN)
    })
    .await;
    let client = client(&cloud, TOKEN);
    let id = cloud.add_network("nodes", "10.0.0.0/24".parse().unwrap(), Location::Fsn1) as i64;
    let add = |destination: &str| {
        let route = models::Route {
            destination: destination.to_owned(),
            gateway: "10.0.0.2".to_owned(),
        };
        networks_api::add_route_to_network(
            &client,
            networks_api::AddRouteToNetworkParams { id, route },
        )
    };
    add("10.244.1.0/24").await.unwrap();
    assert_eq!(
        refusal(add("10.244.2.0/24").await),
        refused(409, "conflict")
    );
    let named = networks_api::ListNetworksParams {
        name: Some("nodes".to_owned()),
        ..Default::default()
    };
    let networks = networks_api::list_networks(&client, named)
        .await
        .unwrap()
        .networks;
    assert_eq!(networks.len(), 1);
    assert_eq!(networks[0].routes, vec![]);
}

#[tokio::test]
async fn servers_are_created_and_deleted_by_request() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let create = || servers_api::CreateServerParams {
        create_server_request: models::CreateServerRequest {
            name: "node-1".to_owned(),
            server_type: "cx23".to_owned(),
            image: "debian-13".to_owned(),
            location: Some("hel1".to_owned()),
            ..Default::default()
        },
    };
    let created = servers_api::create_server(&client, create()).await.unwrap();
    assert_eq!(created.server.status, Status::Initializing);
    poll(&client, created.action.id).await;
    assert_eq!(
        cloud.server(created.server.id as u64).unwrap()["status"],
        "running"
    );
    let twin = servers_api::create_server(&client, create()).await;
    assert_eq!(refusal(twin), refused(409, "uniqueness_error"));

    let delete = servers_api::DeleteServerParams {
        id: created.server.id,
    };
    let deleted = servers_api::delete_server(&client, delete.clone())
        .await
        .unwrap();
    assert_eq!(deleted.action.unwrap().command, "delete_server");
    assert_eq!(cloud.server_ids(), Vec::<u64>::new());
    assert_eq!(
        refusal(servers_api::delete_server(&client, delete).await),
        refused(404, "not_found")
    );
}

#[tokio::test]
async fn private_addresses_are_handed_out_once_and_come_back() {
    let cloud = cloud().await;
    let range = "10.0.0.0/29".parse().unwrap();
    let network = cloud.add_network("nodes", range, Location::Fsn1);
    let ids = cloud.add_servers((1..=6).map(|number| ServerSpec::named(format!("node-{number}"))));
    let given: Vec<String> = ids[..5]
        .iter()
        .map(|id| cloud.attach(*id, network, None).unwrap().to_string())
        .collect();
    let expected = ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"];
    assert_eq!(given, expected);
    cloud.attach(ids[5], network, None).unwrap_err();
    assert!(cloud.remove_server(ids[0]) && cloud.detach(ids[2], network));
    for reserved in ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.7", "10.0.1.2"] {
        let wanted = Some(reserved.parse().unwrap());
        cloud.attach(ids[5], network, wanted).unwrap_err();
    }
    let again = cloud.attach(ids[5], network, None).unwrap();
    assert_eq!(again.to_string(), "10.0.0.2");
    let held = &cloud.network(network).unwrap()["servers"];
    assert_eq!(*held, serde_json::json!([ids[5], ids[1], ids[3], ids[4]]));
    let stranger = cloud.add_server(ServerSpec {
        location: Location::Ash,
        ..ServerSpec::named("far-away")
    });
    cloud.attach(stranger, network, None).unwrap_err();
    assert!(cloud.remove_network(network));
    let nets = &cloud.server(ids[5]).unwrap()["private_net"];
    assert_eq!(*nets, serde_json::json!([]));
}
