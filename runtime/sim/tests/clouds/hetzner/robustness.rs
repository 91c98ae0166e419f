//! Malformed requests, and the end of a simulator.

use ccm_sim::hetzner::{Location, ServerSpec};

use super::{TOKEN, cloud, list, page, reqwest_client};

#[tokio::test]
async fn no_body_and_no_path_brings_the_server_down() {
    let cloud = cloud().await;
    cloud.add_server(ServerSpec::named("node-1"));
    cloud.add_network("nodes", "10.0.0.0/24".parse().unwrap(), Location::Fsn1);
    let client = reqwest_client();
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "{\"network\":-1}",
        "{\"network\":1,\"ip\":\"x\"}",
        "\u{0}",
        "{\"name\":1}",
    ];
    let paths = [
        "/servers",
        "/servers/1/actions/attach_to_network",
        "/servers/1/actions/detach_from_network",
        "/networks",
        "/networks/1/actions/add_route",
        "/networks/1/actions/delete_route",
        "/networks/1/actions/add_subnet",
        "/servers/99999999999999999999",
        "//",
        "/servers/",
        "/actions/x",
        "/servers/1/actions/explode",
    ];
    for path in paths {
        for body in bodies {
            let request = client
                .post(format!("{}{path}", cloud.endpoint()))
                .bearer_auth(TOKEN)
                .body(body);
            let status = request.send().await.unwrap().status();
            assert!(status.is_client_error(), "{path} {body} {status}");
        }
    }
    let outside = cloud.endpoint().replace("/v1", "/v2/servers");
    let answer = client.get(outside).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 404);
    assert_eq!(list(&cloud, page(1, 50)).await, ["node-1"]);
}

#[tokio::test]
async fn it_stops_with_its_last_handle() {
    let cloud = cloud().await;
    let url = format!("{}/locations", cloud.endpoint());
    let client = reqwest_client();
    let twin = cloud.clone();
    drop(cloud);
    client.get(&url).send().await.unwrap();
    twin.stop().await;
    client.get(&url).send().await.unwrap_err();
    assert_eq!(twin.requests().len(), 1);
}

#[tokio::test]
async fn a_request_body_has_a_limit() {
    let cloud = cloud().await;
    let url = format!("{}/servers", cloud.endpoint());
    for (size, status) in [(1 << 20, 400), ((1 << 20) + 1, 413)] {
        let request = reqwest_client().post(&url).bearer_auth(TOKEN);
        let answer = request.body(vec![b'x'; size]).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{size} bytes");
    }
}
