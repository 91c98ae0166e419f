//! Cases that matter to node controllers: addresses of every kind, two projects behind one endpoint, lists that fail
//! half-way, and lists that lag behind.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ccm_sim::hetzner::{Fault, Location, Options, ServerSpec, Trouble};
use hcloud::apis::{Error, servers_api};
use hcloud::models;

use super::{TOKEN, client, cloud, cloud_with, list, page, refusal, refused, specs};

fn by_name(name: &str) -> servers_api::ListServersParams {
    servers_api::ListServersParams {
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

fn refuse(status: u16, code: &str) -> Fault {
    let code = code.to_owned();
    Fault::new(Trouble::Refuse { status, code })
}

/// The public addresses of a server, then its private ones.
fn addresses(server: &models::Server) -> (Option<&str>, Option<&str>, Vec<&str>) {
    let public = &server.public_net;
    let private = server
        .private_net
        .iter()
        .filter_map(|net| net.ip.as_deref());
    (
        public.ipv4.as_ref().map(|net| net.ip.as_str()),
        public.ipv6.as_ref().map(|net| net.ip.as_str()),
        private.collect(),
    )
}

#[tokio::test]
async fn servers_have_the_addresses_that_they_were_given_and_no_others() {
    let cloud = cloud().await;
    let network = cloud.add_network("nodes", "10.0.0.0/16".parse().unwrap(), Location::Fsn1);
    let other = cloud.add_network("backup", "172.16.0.0/24".parse().unwrap(), Location::Fsn1);
    for (name, public_ipv4, public_ipv6, networks) in [
        ("dual", true, true, vec![]),
        ("four", true, false, vec![network]),
        ("six", false, true, vec![network, other]),
        ("private", false, false, vec![network]),
    ] {
        let id = cloud.add_server(ServerSpec {
            public_ipv4,
            public_ipv6,
            ..ServerSpec::named(name)
        });
        for network in networks {
            cloud.attach(id, network, None).unwrap();
        }
    }
    let servers = servers_api::list_servers(&client(&cloud, TOKEN), page(1, 50))
        .await
        .unwrap()
        .servers;
    let seen: Vec<_> = servers.iter().map(addresses).collect();
    let expected = [
        (Some("198.18.0.1"), Some("2001:db8:0:1::/64"), vec![]),
        (Some("198.18.0.2"), None, vec!["10.0.0.2"]),
        (
            None,
            Some("2001:db8:0:3::/64"),
            vec!["10.0.0.3", "172.16.0.2"],
        ),
        (None, None, vec!["10.0.0.4"]),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_token_opens_its_own_project_and_no_other() {
    let first = cloud().await;
    let second = first.project("second-token");
    let ours = first.add_server(ServerSpec::named("shared-name"));
    let theirs = second.add_server(ServerSpec::named("shared-name"));
    assert_eq!(first.endpoint(), second.endpoint());
    assert_ne!(ours, theirs);

    for (token, id, other, address) in [
        (TOKEN, ours, theirs, "198.18.0.1"),
        ("second-token", theirs, ours, "198.18.128.1"),
    ] {
        let client = client(&first, token);
        let found = servers_api::list_servers(&client, by_name("shared-name"))
            .await
            .unwrap()
            .servers;
        let seen: Vec<_> = found
            .iter()
            .map(|server| (server.id as u64, addresses(server).0))
            .collect();
        assert_eq!(seen, [(id, Some(address))]);
        let params = servers_api::GetServerParams { id: other as i64 };
        let other = servers_api::get_server(&client, params).await;
        assert_eq!(refusal(other), refused(404, "not_found"));
    }
    assert_eq!((first.requests().len(), second.requests().len()), (2, 2));

    second.inject(refuse(503, "unavailable").times(1));
    assert_eq!(list(&first, page(1, 50)).await, ["shared-name"]);
    let broken = servers_api::list_servers(&client(&first, "second-token"), page(1, 50)).await;
    assert_eq!(refusal(broken), refused(503, "unavailable"));

    second.set_token("rotated");
    let stale = servers_api::list_servers(&client(&first, "second-token"), page(1, 50)).await;
    assert_eq!(refusal(stale), refused(401, "unauthorized"));
    assert!(!first.requests().last().unwrap().authorized);
}

#[tokio::test]
async fn one_page_of_many_fails_or_ends_early_and_the_others_are_whole() {
    for (trouble, refuses) in [
        (
            Trouble::Refuse {
                status: 502,
                code: "bad_gateway".to_owned(),
            },
            true,
        ),
        (Trouble::Cut, false),
        (Trouble::Truncated, false),
        (Trouble::ResetAfter, false),
    ] {
        let cloud = cloud().await;
        cloud.add_servers(specs(120));
        let name = format!("{trouble:?}");
        cloud.inject(Fault::new(trouble).path("/servers").page(2).times(1));
        let client = client(&cloud, TOKEN);
        let mut seen = Vec::new();
        for number in 1..=3 {
            let answer = servers_api::list_servers(&client, page(number, 50)).await;
            seen.push(match answer {
                Ok(answer) => Ok(answer.servers.len()),
                Err(Error::ResponseError(content)) => Err(Some(content.status.as_u16())),
                Err(_) => Err(None),
            });
        }
        let failure = Err(refuses.then_some(502));
        assert_eq!(seen, [Ok(50), failure, Ok(20)], "{name}");
        assert_eq!(list(&cloud, page(2, 50)).await.len(), 50, "{name}");
    }
}

#[tokio::test]
async fn bursts_end_and_flickers_come_again() {
    let cases = [
        (refuse(500, "server_error").times(3), "xxx......"),
        (refuse(500, "server_error").after(2).times(2), "..xx....."),
        (refuse(500, "server_error").every(3), "..x..x..x"),
        (refuse(500, "server_error").after(1).every(4), "....x...x"),
    ];
    for (fault, expected) in cases {
        let cloud = cloud().await;
        let client = client(&cloud, TOKEN);
        cloud.inject(fault);
        let mut seen = String::new();
        for _ in 0..expected.len() {
            let answer = servers_api::list_servers(&client, page(1, 50)).await;
            seen.push(if answer.is_ok() { '.' } else { 'x' });
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_new_server_is_found_by_its_id_before_any_list_shows_it() {
    let now = Arc::new(Mutex::new(
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
    ));
    let clock = Arc::clone(&now);
    let cloud = cloud_with(Options {
        clock: Arc::new(move || *clock.lock().unwrap()),
        ..Options::new(TOKEN)
    })
    .await;
    let pass = |time: Duration| *now.lock().unwrap() += time;
    let client = client(&cloud, TOKEN);

    cloud.add_server(ServerSpec::named("old"));
    pass(Duration::from_secs(60));
    cloud.set_listing_delay(Duration::from_secs(10));
    let id = cloud.add_server(ServerSpec::named("new"));
    for (waited, listed) in [(0, false), (9_999, false), (1, true)] {
        pass(Duration::from_millis(waited));
        let all: &[&str] = if listed { &["old", "new"] } else { &["old"] };
        let named: &[&str] = if listed { &["new"] } else { &[] };
        let answer = servers_api::list_servers(&client, page(1, 50))
            .await
            .unwrap();
        let total = answer.meta.pagination.total_entries;
        assert_eq!(total, Some(all.len() as i64), "{waited}");
        assert_eq!(list(&cloud, page(1, 50)).await, all, "{waited}");
        assert_eq!(list(&cloud, by_name("new")).await, named, "{waited}");
        let params = servers_api::GetServerParams { id: id as i64 };
        let read = servers_api::get_server(&client, params).await.unwrap();
        assert_eq!(read.server.unwrap().name, "new");
    }
    // A deleted server disappears at once.
    cloud.remove_server(id);
    assert_eq!(list(&cloud, page(1, 50)).await, ["old"]);
}

#[tokio::test]
async fn a_token_for_reading_opens_its_project_and_changes_nothing_in_it() {
    let cloud = cloud().await;
    let id = cloud.add_server(ServerSpec::named("node-1"));
    cloud.set_read_token("for-reading");
    let reader = client(&cloud, "for-reading");
    let params = servers_api::GetServerParams { id: id as i64 };
    assert!(servers_api::get_server(&reader, params).await.is_ok());
    let params = servers_api::DeleteServerParams { id: id as i64 };
    let deleted = servers_api::delete_server(&reader, params.clone()).await;
    assert_eq!(refusal(deleted), refused(403, "token_readonly"));
    assert_eq!(cloud.server_ids(), [id]);

    let deleted = servers_api::delete_server(&client(&cloud, TOKEN), params).await;
    assert!(deleted.is_ok(), "{deleted:?}");
    assert_eq!(cloud.server_ids(), [] as [u64; 0]);
}
