//! Reading: lists, single objects, the token and the budget.

use std::time::Duration;

use ccm_sim::hetzner::{Location, Options, RateLimit, ServerSpec, ServerStatus, ServerType};
use hcloud::apis::{Error, locations_api, server_types_api, servers_api};
use hcloud::models;
use hcloud::models::server::Status;

use super::{
    TOKEN, client, cloud, cloud_with, list, page, refusal, refused, reqwest_client, specs,
};

#[tokio::test]
async fn servers_are_listed_page_by_page_until_there_is_no_next_page() {
    let cloud = cloud().await;
    let ids = cloud.add_servers(specs(120));
    let mut seen = Vec::new();
    let mut next = Some(1);
    while let Some(number) = next {
        let answer = servers_api::list_servers(&client(&cloud, TOKEN), page(number, 50))
            .await
            .unwrap();
        let meta = answer.meta.pagination;
        assert_eq!((meta.page, meta.per_page), (number, 50));
        assert_eq!((meta.last_page, meta.total_entries), (Some(3), Some(120)));
        assert_eq!(meta.previous_page, (number > 1).then(|| number - 1));
        seen.extend(answer.servers.iter().map(|server| server.id as u64));
        next = meta.next_page;
    }
    assert_eq!(seen, ids);
    let paths: Vec<String> = cloud
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    let expected = [1, 2, 3].map(|page| format!("/servers?page={page}&per_page=50"));
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn pages_hold_25_entries_unless_asked_and_never_more_than_50() {
    let cloud = cloud().await;
    cloud.add_servers(specs(120));
    let default = list(&cloud, servers_api::ListServersParams::default()).await;
    assert_eq!(default.len(), 25);
    assert_eq!(list(&cloud, page(1, 1000)).await.len(), 50);
    assert_eq!(list(&cloud, page(9, 50)).await.len(), 0);
    let zero = servers_api::list_servers(&client(&cloud, TOKEN), page(0, 50)).await;
    assert_eq!(refusal(zero), refused(422, "invalid_input"));
}

#[tokio::test]
async fn lists_are_filtered_and_sorted() {
    let cloud = cloud().await;
    for (name, pool, status) in [
        ("b", "blue", ServerStatus::Running),
        ("a", "green", ServerStatus::Off),
        ("c", "blue", ServerStatus::Off),
    ] {
        let mut spec = ServerSpec::named(name);
        spec.labels.insert("pool".to_owned(), pool.to_owned());
        spec.status = status;
        cloud.add_server(spec);
    }
    let none = servers_api::ListServersParams::default;
    let text = |text: &str| Some(text.to_owned());
    let many = |text: &str| Some(vec![text.to_owned()]);
    let cases = [
        (
            servers_api::ListServersParams {
                name: text("a"),
                ..none()
            },
            vec!["a"],
        ),
        (
            servers_api::ListServersParams {
                name: text("A"),
                ..none()
            },
            vec![],
        ),
        (
            servers_api::ListServersParams {
                status: many("off"),
                ..none()
            },
            vec!["a", "c"],
        ),
        (
            servers_api::ListServersParams {
                sort: many("name:desc"),
                ..none()
            },
            vec!["c", "b", "a"],
        ),
        (
            servers_api::ListServersParams {
                label_selector: text("pool=blue"),
                ..none()
            },
            vec!["b", "c"],
        ),
    ];
    for (params, expected) in cases {
        assert_eq!(list(&cloud, params.clone()).await, expected, "{params:?}");
    }
    let client = client(&cloud, TOKEN);
    let unusable = [
        servers_api::ListServersParams {
            sort: many("shoe_size"),
            ..none()
        },
        servers_api::ListServersParams {
            label_selector: text("pool in (blue"),
            ..none()
        },
    ];
    for params in unusable {
        let result = servers_api::list_servers(&client, params).await;
        assert_eq!(refusal(result), refused(422, "invalid_input"));
    }
}

#[tokio::test]
async fn one_server_has_everything_the_vendor_tells() {
    let cloud = cloud().await;
    let id = cloud.add_server(ServerSpec {
        server_type: ServerType::Cax11,
        location: Location::Ash,
        ..ServerSpec::named("node-1")
    });
    let network = cloud.add_network("nodes", "10.0.0.0/16".parse().unwrap(), Location::Ash);
    cloud.attach(id, network, None).unwrap();
    let params = servers_api::GetServerParams { id: id as i64 };
    let answer = servers_api::get_server(&client(&cloud, TOKEN), params)
        .await
        .unwrap();
    let server = answer.server.unwrap();
    assert_eq!(
        (server.name.as_str(), server.status),
        ("node-1", Status::Running)
    );
    assert_eq!(server.server_type.name, "cax11");
    assert_eq!(server.server_type.architecture, models::Architecture::Arm);
    assert_eq!(server.location.name, "ash");
    assert_eq!(server.location.network_zone, "us-east");
    assert_eq!(server.public_net.ipv4.as_ref().unwrap().ip, "198.18.0.1");
    assert_eq!(
        server.public_net.ipv6.as_ref().unwrap().ip,
        "2001:db8:0:1::/64"
    );
    assert_eq!(server.private_net[0].ip.as_deref(), Some("10.0.0.2"));
    assert_eq!(server.private_net[0].network, Some(network as i64));
    cloud.remove_server(id);
    let client = client(&cloud, TOKEN);
    let gone = servers_api::get_server(&client, servers_api::GetServerParams { id: id as i64 });
    assert_eq!(refusal(gone.await), refused(404, "not_found"));
}

#[tokio::test]
async fn locations_and_server_types_are_the_vendors() {
    let cloud = cloud().await;
    let client = client(&cloud, TOKEN);
    let locations = locations_api::list_locations(&client, Default::default())
        .await
        .unwrap()
        .locations;
    let names: Vec<&str> = locations
        .iter()
        .map(|location| location.name.as_str())
        .collect();
    assert_eq!(names, ["fsn1", "nbg1", "hel1", "ash", "hil", "sin"]);
    let one = locations_api::get_location(&client, locations_api::GetLocationParams { id: 6 });
    assert_eq!(*one.await.unwrap().location, locations[5]);
    let types = server_types_api::list_server_types(&client, Default::default())
        .await
        .unwrap();
    assert_eq!(types.server_types.len(), 4);
    assert!(types.server_types.iter().all(|size| size.prices.len() == 6));
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_recorded_and_costs_no_budget() {
    let rate_limit = Some(RateLimit {
        limit: 1,
        refill_every: Duration::from_secs(3600),
    });
    let cloud = cloud_with(Options {
        rate_limit,
        ..Options::new(TOKEN)
    })
    .await;
    let wrong = locations_api::list_locations(&client(&cloud, "wrong"), Default::default()).await;
    assert_eq!(refusal(wrong), refused(401, "unauthorized"));
    cloud.set_token("new-token");
    let rotated = client(&cloud, "new-token");
    locations_api::list_locations(&rotated, Default::default())
        .await
        .unwrap();
    let seen: Vec<_> = cloud
        .requests()
        .iter()
        .map(|seen| (seen.authorized, seen.status))
        .collect();
    assert_eq!(seen, [(false, Some(401)), (true, Some(200))]);
}

#[tokio::test]
async fn a_spent_budget_is_answered_with_429_and_comes_back() {
    let rate_limit = Some(RateLimit {
        limit: 2,
        refill_every: Duration::from_millis(400),
    });
    let cloud = cloud_with(Options {
        rate_limit,
        ..Options::new(TOKEN)
    })
    .await;
    let client = client(&cloud, TOKEN);
    let ask = || locations_api::list_locations(&client, Default::default());
    let mut refusals = 0;
    for _ in 0..50 {
        if let Err(Error::ResponseError(content)) = ask().await {
            assert_eq!(content.status.as_u16(), 429);
            assert!(content.content.contains("rate_limit_exceeded"));
            refusals += 1;
        }
    }
    assert!(refusals > 0, "50 requests at once must spend a budget of 2");
    tokio::time::sleep(Duration::from_millis(450)).await;
    ask().await.unwrap();
}

#[tokio::test]
async fn answers_are_as_large_as_the_vendors_and_tell_the_budget() {
    let cloud = cloud().await;
    cloud.add_servers(specs(50));
    let client = reqwest_client();
    let url = format!("{}/servers?per_page=50", cloud.endpoint());
    let answer = client.get(url).bearer_auth(TOKEN).send().await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("ratelimit-limit"), "3600");
    assert_eq!(header("ratelimit-remaining"), "3599");
    assert!(header("ratelimit-reset").parse::<u64>().unwrap() > 1_700_000_000);
    let each = answer.bytes().await.unwrap().len() / 50;
    assert!((5_000..8_000).contains(&each), "{each} bytes a server");
}
