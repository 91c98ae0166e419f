//! Faults, slow actions and late addresses, as a client sees them when it creates and deletes load balancers.

use std::time::Duration;

use ccm_sim::hetzner::{Fault, Hetzner, LoadBalancerSpec, Options, Trouble};
use http::Method;
use serde_json::{Value, json};

use super::load_balancer_rules::{ask, post};
use super::{TOKEN, cloud, cloud_with, reqwest_client};

fn requested(name: &str) -> Value {
    json!({"name": name, "load_balancer_type": "lb11", "location": "fsn1"})
}

async fn get(cloud: &Hetzner, path: &str) -> Value {
    ask(cloud, Method::GET, path, Value::Null).await.1
}

#[tokio::test]
async fn each_trouble_says_whether_the_load_balancer_was_made() {
    let refuse = |status, code: &str| Trouble::Refuse {
        status,
        code: code.to_owned(),
    };
    let after = Trouble::RefuseAfter {
        status: 503,
        code: "unavailable".to_owned(),
    };
    let pause = Duration::from_millis(1);
    let cases = [
        (Trouble::TooManyRequests { retry_after: None }, Some(429), 0),
        (refuse(500, "server_error"), Some(500), 0),
        (refuse(504, "timeout"), Some(504), 0),
        (after, Some(503), 1),
        (Trouble::ResetBefore, None, 0),
        (Trouble::ResetAfter, None, 1),
        (Trouble::Cut, None, 1),
        (Trouble::SlowBefore(pause), Some(201), 1),
        (Trouble::SlowAfter(pause), Some(201), 1),
    ];
    for (trouble, status, made) in cases {
        let cloud = cloud().await;
        let shown = format!("{trouble:?}");
        let fault = Fault::new(trouble)
            .method(Method::POST)
            .path("/load_balancers");
        cloud.inject(fault.times(1));
        let url = format!("{}/load_balancers", cloud.endpoint());
        let request = reqwest_client().post(url).bearer_auth(TOKEN);
        let sent = request.body(requested("web").to_string()).send().await;
        let whole = match sent {
            Ok(answer) => {
                let status = answer.status().as_u16();
                answer.bytes().await.map(|_| status)
            }
            Err(lost) => Err(lost),
        };
        assert_eq!(
            (whole.ok(), cloud.load_balancer_ids().len()),
            (status, made),
            "{shown}"
        );
        // A client that lost the response looks the load balancer up by name.
        let listed = get(&cloud, "/load_balancers?name=web").await;
        assert_eq!(
            listed["load_balancers"].as_array().unwrap().len(),
            made,
            "{shown}"
        );
        let again = post(&cloud, "/load_balancers", requested("web")).await.0;
        assert_eq!(again, if made == 0 { 201 } else { 409 }, "{shown}");
    }
}

#[tokio::test]
async fn several_actions_are_asked_for_at_once_and_one_alone() {
    let cloud = cloud_with(Options {
        action_duration: Duration::MAX,
        ..Options::new(TOKEN)
    })
    .await;
    let first = post(&cloud, "/load_balancers", requested("a")).await.1;
    let second = post(&cloud, "/load_balancers", requested("b")).await.1;
    let (one, two) = (&first["action"]["id"], &second["action"]["id"]);
    let both = get(&cloud, &format!("/actions?id={one}&id={two}")).await;
    assert_eq!(both["actions"], json!([first["action"], second["action"]]));
    let alone = json!({"action": first["action"]});
    for path in [
        "/actions",
        "/load_balancers/actions",
        "/load_balancers/1/actions",
    ] {
        assert_eq!(get(&cloud, &format!("{path}/{one}")).await, alone, "{path}");
    }
    let listed = get(&cloud, "/load_balancers/2/actions?status=running").await;
    assert_eq!(listed["actions"], json!([second["action"]]));
    let listed = get(&cloud, "/load_balancers/actions?sort=id:desc").await;
    assert_eq!(
        listed["actions"],
        json!([second["action"], first["action"]])
    );
    let (status, answer) = ask(&cloud, Method::GET, "/actions", Value::Null).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (410, &json!("deprecated_api_endpoint"))
    );
}

#[tokio::test]
async fn actions_end_when_the_test_wants_it() {
    let cloud = cloud().await;
    cloud.set_prompt_actions(true);
    let made = post(&cloud, "/load_balancers", requested("prompt")).await.1;
    assert_eq!(made["action"]["status"], "success");
    let deleted = ask(&cloud, Method::DELETE, "/load_balancers/1", Value::Null).await;
    assert_eq!(
        (deleted.0, &deleted.1["action"]["status"]),
        (201, &json!("success"))
    );

    cloud.set_action_duration(Duration::MAX);
    let made = post(&cloud, "/load_balancers", requested("slow")).await.1;
    assert_eq!(made["action"]["status"], "running");
    let path = format!("/actions/{}", made["action"]["id"]);
    assert_eq!(get(&cloud, &path).await["action"]["status"], "running");
}

#[tokio::test]
async fn addresses_can_be_late_and_lists_older_than_the_newest() {
    let cloud = cloud_with(Options {
        action_duration: Duration::from_millis(100),
        ..Options::new(TOKEN)
    })
    .await;
    cloud.set_late_addresses(true);
    let made = post(&cloud, "/load_balancers", requested("web")).await.1;
    let addresses = |balancer: &Value| {
        let public = &balancer["public_net"];
        [public["ipv4"]["ip"].clone(), public["ipv6"]["ip"].clone()]
    };
    assert_eq!(
        addresses(&made["load_balancer"]),
        [Value::Null, Value::Null]
    );
    let path = format!("/actions/{}", made["action"]["id"]);
    while get(&cloud, &path).await["action"]["status"] == "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let shown = get(&cloud, "/load_balancers/1").await;
    assert_eq!(
        addresses(&shown["load_balancer"]),
        [json!("198.19.192.1"), json!("2001:db8:fffe::1")]
    );

    cloud.set_listing_delay(Duration::from_secs(3_600));
    let listed = get(&cloud, "/load_balancers").await;
    assert_eq!(listed["load_balancers"], json!([]));
    assert_eq!(
        get(&cloud, "/load_balancers/1").await["load_balancer"]["name"],
        "web"
    );
    assert_eq!(cloud.load_balancer_ids(), [1]);
}

#[tokio::test]
async fn no_body_and_no_path_brings_the_server_down() {
    let cloud = cloud().await;
    cloud.add_load_balancer(LoadBalancerSpec::named("web"));
    let client = reqwest_client();
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "{\"id\":-1}",
        "\u{0}",
        "{\"name\":1}",
        "{\"type\":{}}",
    ];
    let actions = [
        "add_service",
        "update_service",
        "delete_service",
        "add_target",
        "remove_target",
        "attach_to_network",
        "detach_from_network",
        "change_algorithm",
        "change_type",
        "change_dns_ptr",
        "change_protection",
        "explode",
    ];
    let below = actions.map(|action| format!("/load_balancers/1/actions/{action}"));
    let others = [
        "/load_balancers",
        "/load_balancers/",
        "/certificates",
        "/load_balancers/x/actions/add_target",
    ];
    for path in below.iter().map(String::as_str).chain(others) {
        for body in bodies {
            let url = format!("{}{path}", cloud.endpoint());
            let request = client.post(url).bearer_auth(TOKEN).body(body);
            let status = request.send().await.unwrap().status();
            assert!(status.is_client_error(), "{path} {body} {status}");
        }
    }
    assert_eq!(cloud.load_balancer_actions(1), Vec::<&str>::new());
}
