//! Routes of networks: the vendor's rules and limits; vSwitches; and injected faults.

use std::net::Ipv4Addr;

use ccm_sim::hetzner::{Fault, Hetzner, Location, Trouble};
use hcloud::apis::configuration::Configuration;
use hcloud::apis::{Error, networks_api};
use hcloud::models;

use super::{TOKEN, client, cloud, poll, refusal, refused};

fn route(destination: &str, gateway: &str) -> models::Route {
    models::Route {
        destination: destination.to_owned(),
        gateway: gateway.to_owned(),
    }
}

async fn add(
    client: &Configuration,
    id: u64,
    route: models::Route,
) -> Result<models::AddRouteToNetworkResponse, Error<networks_api::AddRouteToNetworkError>> {
    let id = id as i64;
    let params = networks_api::AddRouteToNetworkParams { id, route };
    networks_api::add_route_to_network(client, params).await
}

async fn delete(
    client: &Configuration,
    id: u64,
    route: models::Route,
) -> Result<models::DeleteRouteFromNetworkResponse, Error<networks_api::DeleteRouteFromNetworkError>>
{
    let id = id as i64;
    let params = networks_api::DeleteRouteFromNetworkParams { id, route };
    networks_api::delete_route_from_network(client, params).await
}

async fn get(client: &Configuration, id: u64) -> models::Network {
    let params = networks_api::GetNetworkParams { id: id as i64 };
    let answer = networks_api::get_network(client, params).await.unwrap();
    *answer.network.unwrap()
}

fn network(cloud: &Hetzner) -> u64 {
    let ranges = ["10.0.0.0/8", "10.0.0.0/24"].map(|range| range.parse().unwrap());
    cloud.add_network_with_subnet("nodes", ranges[0], ranges[1], Location::Fsn1)
}

#[tokio::test]
async fn nothing_is_routed_to_machines_behind_a_vswitch() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let subnet = |kind, range: &str, vswitch_id, zone: &str| models::Subnet {
        ip_range: Some(range.to_owned()),
        network_zone: zone.to_owned(),
        r#type: kind,
        vswitch_id,
    };
    use models::subnet::Type;
    let (plain, zone) = (
        subnet(Type::Cloud, "10.0.0.0/24", None, "eu-central"),
        "eu-central",
    );
    let create = |second: models::Subnet| networks_api::CreateNetworkParams {
        create_network_request: models::CreateNetworkRequest {
            name: "nodes".to_owned(),
            ip_range: "10.0.0.0/8".to_owned(),
            expose_routes_to_vswitch: Some(true),
            subnets: Some(vec![plain.clone(), second]),
            ..Default::default()
        },
    };
    for wrong in [
        subnet(Type::Vswitch, "10.0.1.0/24", None, zone),
        subnet(Type::Cloud, "10.0.1.0/24", Some(1000), zone),
        subnet(Type::Vswitch, "10.0.1.0/24", Some(1000), "us-east"),
        subnet(Type::Vswitch, "10.0.0.0/28", Some(1000), zone),
        subnet(Type::Vswitch, "10.0.1.0/31", Some(1000), zone),
    ] {
        let result = networks_api::create_network(&client, create(wrong.clone())).await;
        assert_eq!(refusal(result), refused(422, "invalid_input"), "{wrong:?}");
    }
    let good = create(subnet(Type::Vswitch, "10.0.1.0/24", Some(1000), zone));
    let made = networks_api::create_network(&client, good).await.unwrap();
    let made = made.network.unwrap();
    assert!(made.expose_routes_to_vswitch);
    let shown = &made.subnets[1];
    assert_eq!(
        (shown.vswitch_id, shown.gateway.as_str()),
        (Some(Some(1000)), "10.0.1.1")
    );

    let id = made.id as u64;
    let behind = add(&client, id, route("10.244.1.0/24", "10.0.1.7")).await;
    let Err(Error::ResponseError(content)) = &behind else {
        panic!("{behind:?}");
    };
    assert!(content.content.contains("invalid gateway"), "{content:?}");
    assert_eq!(refusal(behind), refused(422, "invalid_input"));
    let first = cloud.add_server(ccm_sim::hetzner::ServerSpec::named("node-1"));
    let place = Some("10.0.1.7".parse().unwrap());
    assert!(
        cloud.attach(first, id, place).is_err(),
        "no cloud server is there"
    );
    assert_eq!(
        cloud.attach(first, id, None).unwrap().to_string(),
        "10.0.0.2"
    );
}

#[tokio::test]
async fn a_network_has_room_for_a_hundred_routes() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = network(&cloud);
    for number in 0..100 {
        let destination = format!("10.244.{number}.0/24").parse().unwrap();
        assert!(cloud.add_route(id, destination, Ipv4Addr::new(10, 0, 0, 2)));
    }
    let next = || route("10.244.100.0/24", "10.0.0.2");
    assert_eq!(
        refusal(add(&client, id, next()).await),
        refused(403, "resource_limit_exceeded")
    );
    assert!(cloud.remove_route(id, "10.244.0.0/24".parse().unwrap()));
    assert!(!cloud.remove_route(id, "10.244.0.0/24".parse().unwrap()));
    let action = add(&client, id, next()).await.unwrap().action;
    poll(&client, action.id).await;
    assert_eq!(cloud.routes(id).len(), 100);
}

#[tokio::test]
async fn only_the_very_route_is_deleted() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = network(&cloud);
    cloud.add_route(
        id,
        "10.244.1.0/24".parse().unwrap(),
        Ipv4Addr::new(10, 0, 0, 2),
    );
    for (destination, gateway, status, code) in [
        ("10.244.1.0/24", "10.0.0.3", 404, "not_found"),
        ("10.244.2.0/24", "10.0.0.2", 404, "not_found"),
        ("10.244.1.0/24", "<nil>", 422, "invalid_input"),
    ] {
        let result = delete(&client, id, route(destination, gateway)).await;
        assert_eq!(
            refusal(result),
            refused(status, code),
            "{destination} {gateway}"
        );
    }
    assert_eq!(cloud.routes(id).len(), 1);
    let action = delete(&client, id, route("10.244.1.0/24", "10.0.0.2")).await;
    poll(&client, action.unwrap().action.id).await;
    assert_eq!(cloud.routes(id), []);
}

#[tokio::test]
async fn a_change_that_fails_changes_no_route() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = network(&cloud);
    let fails = || {
        Fault::new(Trouble::ActionFails {
            code: "action_failed".to_owned(),
            message: "no".to_owned(),
        })
    };
    cloud.inject(
        fails()
            .path(format!("/networks/{id}/actions/add_route"))
            .times(1),
    );
    let one = || route("10.244.1.0/24", "10.0.0.2");
    let action = add(&client, id, one()).await.unwrap().action;
    let ended = poll(&client, action.id).await;
    assert_eq!(ended.status, models::action::Status::Error);
    assert_eq!(get(&client, id).await.routes, []);
    let action = add(&client, id, one()).await.unwrap().action;
    poll(&client, action.id).await;
    cloud.inject(
        fails()
            .path(format!("/networks/{id}/actions/delete_route"))
            .times(1),
    );
    let action = delete(&client, id, one()).await.unwrap().action;
    poll(&client, action.id).await;
    assert_eq!(get(&client, id).await.routes, [one()]);
}

#[tokio::test]
async fn an_update_changes_what_it_names() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = network(&cloud);
    cloud.add_network("other", "10.1.0.0/24".parse().unwrap(), Location::Fsn1);
    let update = |request| networks_api::ReplaceNetworkParams {
        id: id as i64,
        replace_network_request: request,
    };
    let exposes = models::ReplaceNetworkRequest {
        expose_routes_to_vswitch: Some(true),
        ..Default::default()
    };
    let answer = networks_api::replace_network(&client, update(exposes)).await;
    let network = answer.unwrap().network.unwrap();
    assert!(network.expose_routes_to_vswitch);
    assert_eq!(network.name, "nodes");
    let taken = models::ReplaceNetworkRequest {
        name: Some("other".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        refusal(networks_api::replace_network(&client, update(taken)).await),
        refused(409, "uniqueness_error")
    );
}

#[tokio::test]
async fn a_subnet_does_not_overlap_with_a_route() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let id = network(&cloud);
    cloud.add_route(
        id,
        "10.244.1.0/24".parse().unwrap(),
        Ipv4Addr::new(10, 0, 0, 2),
    );
    let params = networks_api::AddSubnetToNetworkParams {
        id: id as i64,
        subnet: models::Subnet {
            ip_range: Some("10.244.0.0/16".to_owned()),
            network_zone: "eu-central".to_owned(),
            r#type: models::subnet::Type::Cloud,
            vswitch_id: None,
        },
    };
    let result = networks_api::add_subnet_to_network(&client, params).await;
    assert_eq!(refusal(result), refused(422, "invalid_input"));
}
