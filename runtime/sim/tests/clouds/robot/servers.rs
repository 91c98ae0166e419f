//! Lists, reads and names of servers.

use ccm_sim::robot::{Options, ServerSpec, ServerStatus, Tls};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use super::{PASSWORD, USER, client, error, get, post, robot, robot_with};

fn shown(number: u32, name: &str, ip: &str, net: &str) -> Value {
    json!({
        "server_ip": ip, "server_ipv6_net": net, "server_number": number, "server_name": name,
        "product": "AX41-NVMe", "dc": "FSN1-DC14", "traffic": "unlimited", "status": "ready",
        "cancelled": false, "paid_until": "2026-12-31", "ip": [ip],
        "subnet": [{"ip": net, "mask": "64"}], "linked_storagebox": null,
    })
}

#[tokio::test]
async fn servers_are_listed_and_read_as_the_vendor_shows_them() {
    let robot = robot().await;
    let first = robot.add_server(ServerSpec::named("bare-1"));
    let second = robot.add_server(ServerSpec {
        product: "Server Auction".to_owned(),
        dc: "HEL1-DC2".to_owned(),
        status: ServerStatus::InProcess,
        cancelled: true,
        public_ipv4: false,
        linked_storagebox: Some(7),
        ..ServerSpec::named("bare-2")
    });
    let one = shown(first, "bare-1", "198.19.128.1", "2001:db8:ffff::");
    let mut two = shown(second, "bare-2", "198.19.128.2", "2001:db8:ffff:1::");
    for (field, value) in [
        ("product", json!("Server Auction")),
        ("dc", json!("HEL1-DC2")),
        ("status", json!("in process")),
        ("cancelled", json!(true)),
        ("linked_storagebox", json!(7)),
        ("server_ip", Value::Null),
        ("ip", Value::Null),
    ] {
        two[field] = value;
    }
    let expected = json!([{"server": one}, {"server": two}]);
    assert_eq!(get(&robot, "/server").await, (200, expected));

    let mut detail = two;
    for flag in ["reset", "rescue", "vnc", "wol"] {
        detail[flag] = json!(true);
    }
    for flag in ["windows", "plesk", "cpanel", "hot_swap"] {
        detail[flag] = json!(false);
    }
    let by_number = get(&robot, &format!("/server/{second}")).await;
    assert_eq!(by_number, (200, json!({"server": detail})));
    assert_eq!(robot.server(second), Some(detail));
    let (status, by_address) = get(&robot, "/server/198.19.128.1").await;
    assert_eq!(
        (status, &by_address["server"]["server_number"]),
        (200, &json!(first))
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_vendors_words() {
    let robot = robot().await;
    let none = error(404, "SERVER_NOT_FOUND", "No server found");
    assert_eq!(get(&robot, "/server").await, none);
    let number = robot.add_server(ServerSpec::named("bare-1"));
    for id in [
        "1",
        "0",
        "-1",
        "99999999999999999999",
        "192.0.2.1",
        "bare-1",
        "",
    ] {
        let gone = error(
            404,
            "SERVER_NOT_FOUND",
            &format!("Server with id {id} not found"),
        );
        assert_eq!(get(&robot, &format!("/server/{id}")).await, gone);
    }
    for path in [
        "/",
        "/servers",
        "/server.yaml",
        "/v1/server",
        "/server/1/cancellation",
    ] {
        let unknown = error(404, "NOT_FOUND", "Not found");
        assert_eq!(get(&robot, path).await, unknown, "{path}");
    }
    assert!(robot.remove_server(number) && !robot.remove_server(number));
    assert_eq!(get(&robot, "/server").await, none);
}

#[tokio::test]
async fn a_server_is_renamed_by_the_client_and_by_the_owner() {
    let robot = robot().await;
    let number = robot.add_server(ServerSpec::named("bare-1"));
    let path = format!("/server/{number}");
    let (status, renamed) = post(&robot, &path, "server_name=web+%C3%BC&other=1").await;
    assert_eq!(
        (status, &renamed["server"]["server_name"]),
        (200, &json!("web ü"))
    );
    assert_eq!(renamed["server"]["rescue"], true);
    let (status, refused) = post(&robot, &path, "name=x").await;
    assert_eq!(status, 400);
    assert_eq!(
        refused["error"],
        json!({
            "status": 400, "code": "INVALID_INPUT", "message": "invalid input",
            "missing": ["server_name"], "invalid": null,
        })
    );
    assert_eq!(get(&robot, &path).await.1["server"]["server_name"], "web ü");
    assert!(robot.rename(number, "bare-2") && !robot.rename(1, "bare-2"));
    assert_eq!(
        get(&robot, &path).await.1["server"]["server_name"],
        "bare-2"
    );
    let gone = post(&robot, "/server/1", "server_name=x").await;
    assert_eq!(gone.0, 404);
}

#[tokio::test]
async fn addresses_and_the_rest_change_behind_the_clients_backs() {
    let robot = robot().await;
    let number = robot.add_server(ServerSpec::named("bare-1"));
    let path = format!("/server/{number}");
    for (ipv4, net) in [
        (Some("192.0.2.7"), None),
        (None, Some("2001:db8:7::")),
        (None, None),
    ] {
        let address = ipv4.map(|ip| ip.parse().unwrap());
        assert!(robot.set_addresses(number, address, net.map(|ip: &str| ip.parse().unwrap())));
        let server = get(&robot, &path).await.1["server"].take();
        let subnet = net.map(|ip| json!([{"ip": ip, "mask": "64"}]));
        assert_eq!(server["server_ip"], json!(ipv4));
        assert_eq!(server["ip"], json!(ipv4.map(|ip| [ip])));
        assert_eq!(server["server_ipv6_net"], json!(net));
        assert_eq!(server["subnet"], json!(subnet));
    }
    assert!(!robot.set_addresses(1, None, None));
    assert!(robot.change_server(number, |spec| spec.dc = "NBG1-DC3".to_owned()));
    assert_eq!(get(&robot, &path).await.1["server"]["dc"], "NBG1-DC3");
}

#[tokio::test]
async fn over_tls_it_is_reached_by_who_trusts_its_authority() {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let tls = Tls {
        certificate_pem: cert.pem(),
        key_pem: signing_key.serialize_pem(),
        ca_pem: cert.pem(),
    };
    let robot = robot_with(Options {
        tls: Some(tls),
        ..Options::new(USER, PASSWORD)
    })
    .await;
    robot.add_server(ServerSpec::named("bare-1"));
    let url = format!("{}/server", robot.endpoint());
    assert!(url.starts_with("https://localhost:"), "{url}");
    let _ = client();
    let authority = reqwest::Certificate::from_pem(robot.ca_pem().unwrap().as_bytes()).unwrap();
    let friend = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([authority])
        .build()
        .unwrap();
    let answer = friend.get(&url).basic_auth(USER, Some(PASSWORD)).send();
    assert_eq!(answer.await.unwrap().status().as_u16(), 200);
    client().get(&url).send().await.unwrap_err();
    assert_eq!(robot.requests().len(), 1);
}

#[tokio::test]
async fn it_stops_with_its_last_handle_and_takes_no_large_form() {
    let robot = robot().await;
    let number = robot.add_server(ServerSpec::named("bare-1"));
    let url = format!("{}/server/{number}", robot.endpoint());
    let client = client();
    for (size, status) in [(1 << 16, 400), ((1 << 16) + 1, 413)] {
        let request = client.post(&url).basic_auth(USER, Some(PASSWORD));
        let answer = request.body(vec![b'x'; size]).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{size} bytes");
    }
    let twin = robot.clone();
    drop(robot);
    client.get(&url).send().await.unwrap();
    twin.stop().await;
    client.get(&url).send().await.unwrap_err();
    assert_eq!(twin.requests().len(), 3);
}
