//! Injected faults, from the client's side of the connection.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use ccm_sim::hetzner::{Fault, Hetzner, Options, ServerSpec, Trouble};
use http::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TOKEN, cloud, cloud_with, reqwest_client, specs};

/// Everything that a client sees of one exchange: the status line and headers in lower case, and the body; or how the
/// connection failed. Uses a bare socket, so that no library hides anything.
async fn exchange(cloud: &Hetzner, method: &str, path: &str) -> std::io::Result<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(cloud.address()).await?;
    let request = format!(
        "{method} /v1{path} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await?;
    let end = raw
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    let body = raw.split_off(end + 4);
    Ok((String::from_utf8(raw).unwrap().to_lowercase(), body))
}

pub(super) async fn get(cloud: &Hetzner, path: &str) -> (String, Vec<u8>) {
    exchange(cloud, "GET", path).await.unwrap()
}

async fn json(cloud: &Hetzner, path: &str) -> Value {
    serde_json::from_slice(&get(cloud, path).await.1).unwrap()
}

fn status_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn a_fault_meets_only_the_requests_it_is_for_and_only_so_often() {
    let cloud = cloud().await;
    cloud.add_servers(specs(60));
    let refuse = || {
        Fault::new(Trouble::Refuse {
            status: 503,
            code: "unavailable".to_owned(),
        })
    };
    cloud.inject(
        refuse()
            .method(Method::GET)
            .path("/servers")
            .page(2)
            .times(2),
    );
    let expected = [
        ("/servers?page=1", "200"),
        ("/networks?page=2", "200"),
        ("/servers?page=2", "503"),
        ("/servers", "200"),
        ("/servers?page=2", "503"),
        ("/servers?page=2", "200"),
    ];
    for (path, status) in expected {
        assert_eq!(status_of(&get(&cloud, path).await.0), status, "{path}");
    }
    cloud.inject(refuse());
    assert_eq!(status_of(&get(&cloud, "/locations").await.0), "503");
    cloud.clear_faults();
    assert_eq!(status_of(&get(&cloud, "/locations").await.0), "200");
}

#[tokio::test]
async fn answers_that_stand_in_for_the_real_one() {
    let cloud = cloud().await;
    cloud.add_server(ServerSpec::named("node-1"));
    let text = str::to_owned;
    let cases: Vec<(Trouble, &str, Vec<&str>)> = vec![
        (
            Trouble::TooManyRequests { retry_after: None },
            "429",
            vec![],
        ),
        (
            Trouble::TooManyRequests {
                retry_after: Some(text("7")),
            },
            "429",
            vec!["retry-after: 7"],
        ),
        (
            Trouble::Refuse {
                status: 403,
                code: text("token_readonly"),
            },
            "403",
            vec![],
        ),
        (
            Trouble::Foreign {
                status: 200,
                content_type: text("text/html"),
                body: b"<html>please log in</html>".to_vec(),
            },
            "200",
            vec!["content-type: text/html"],
        ),
        (
            Trouble::Redirect {
                status: 307,
                location: text("http://169.254.169.254/"),
            },
            "307",
            vec!["location: http://169.254.169.254/"],
        ),
    ];
    for (trouble, status, headers) in cases {
        let name = format!("{trouble:?}");
        cloud.inject(Fault::new(trouble).times(1));
        // Nothing is executed: the server still exists after a DELETE.
        let (head, _) = exchange(&cloud, "DELETE", "/servers/1").await.unwrap();
        assert_eq!(status_of(&head), status, "{name}");
        assert!(
            headers.iter().all(|header| head.contains(header)),
            "{name}: {head}"
        );
        assert_eq!(
            head.contains("retry-after"),
            name.contains("Some"),
            "{name}"
        );
        assert_eq!(cloud.server_ids(), [1], "{name}");
    }
}

#[tokio::test]
async fn a_reset_comes_before_or_after_the_request_is_carried_out() {
    for (trouble, left) in [(Trouble::ResetBefore, 1), (Trouble::ResetAfter, 0)] {
        let cloud = cloud().await;
        cloud.add_server(ServerSpec::named("node-1"));
        let name = format!("{trouble:?}");
        cloud.inject(Fault::new(trouble));
        let error = exchange(&cloud, "DELETE", "/servers/1").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{name}");
        assert_eq!(cloud.server_ids().len(), left, "{name}");
        let seen = cloud.requests();
        assert_eq!(
            (seen.len(), seen[0].status, seen[0].write),
            (1, None, true),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_slow_cloud_commits_before_or_after_the_wait() {
    for (slow, left) in [
        (Trouble::SlowBefore as fn(Duration) -> Trouble, 1),
        (Trouble::SlowAfter, 0),
    ] {
        let cloud = cloud().await;
        cloud.add_server(ServerSpec::named("node-1"));
        cloud.inject(Fault::new(slow(Duration::from_secs(3600))).path("/servers"));
        let client = reqwest_client();
        let url = format!("{}/servers/1", cloud.endpoint());
        let request = client
            .delete(url)
            .bearer_auth(TOKEN)
            .timeout(Duration::from_secs(1));
        assert!(request.send().await.unwrap_err().is_timeout());
        assert_eq!(cloud.server_ids().len(), left);
    }
}

#[tokio::test]
async fn lists_lie_in_three_ways() {
    let cloud = cloud().await;
    cloud.add_servers(specs(60));
    let path = "/servers?page=1&per_page=50";
    let cases = [
        (Trouble::EmptyList, 0, serde_json::json!([null, 0])),
        (Trouble::PartialPage, 25, serde_json::json!([2, 60])),
        (Trouble::NextPageIsThisPage, 50, serde_json::json!([1, 60])),
    ];
    for (trouble, count, expected) in cases {
        let name = format!("{trouble:?}");
        cloud.inject(Fault::new(trouble).times(1));
        let list = json(&cloud, path).await;
        assert_eq!(list["servers"].as_array().unwrap().len(), count, "{name}");
        let meta = &list["meta"]["pagination"];
        assert_eq!(
            serde_json::json!([meta["next_page"], meta["total_entries"]]),
            expected,
            "{name}"
        );
    }
    assert_eq!(
        json(&cloud, path).await["servers"]
            .as_array()
            .unwrap()
            .len(),
        50
    );
}

#[tokio::test]
async fn every_request_is_recorded_without_its_token() {
    let cloud = cloud_with(Options {
        rate_limit: None,
        ..Options::new(TOKEN)
    })
    .await;
    let client = reqwest_client();
    let before = SystemTime::now();
    let url = format!("{}/servers", cloud.endpoint());
    let asked = client
        .get(format!("{url}?page=3&name=a%20b"))
        .bearer_auth(TOKEN);
    let answer = asked
        .header("user-agent", "witness/1")
        .send()
        .await
        .unwrap();
    assert!(!answer.headers().contains_key("ratelimit-limit"));
    answer.bytes().await.unwrap();
    client.post(url).send().await.unwrap();
    let seen = cloud.requests();
    assert_eq!(
        seen.iter()
            .map(|request| request.sequence)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(seen[0].path, "/servers?page=3&name=a%20b");
    assert_eq!(
        (seen[0].page, seen[0].write, seen[0].authorized),
        (Some(3), false, true)
    );
    assert_eq!(seen[0].user_agent.as_deref(), Some("witness/1"));
    assert_eq!(
        seen[0].header_names,
        ["accept", "authorization", "host", "user-agent"]
    );
    assert_eq!(
        (seen[1].page, seen[1].write, seen[1].authorized),
        (None, true, false)
    );
    assert_eq!(seen[1].status, Some(401));
    assert_eq!(seen[0].connection, seen[1].connection);
    assert_eq!(cloud.connections(), 1);
    assert_eq!(seen[0].peer, IpAddr::from([127, 0, 0, 1]));
    assert!(before <= seen[0].received && seen[0].received <= seen[1].received);
    assert_eq!(cloud.requests_since(0), seen);
    assert_eq!(cloud.requests_since(1), seen[1..]);
    assert_eq!(cloud.requests_since(2), []);
    assert!(!format!("{seen:?}").contains(TOKEN));
    cloud.clear_requests();
    assert_eq!(cloud.requests(), []);
}
