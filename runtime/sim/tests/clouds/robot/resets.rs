//! Reset options, the operating status, and the effects of resets.

use ccm_sim::robot::{OperatingStatus, ResetType, ServerSpec};
use http::Method;
use serde_json::json;

use super::{code, error, get, post, robot};

#[tokio::test]
async fn reset_options_are_listed_and_read_with_the_operating_status() {
    let robot = robot().await;
    let none = error(404, "NOT_FOUND", "No servers with reset option found");
    assert_eq!(get(&robot, "/reset").await, none);
    let without = robot.add_server(ServerSpec {
        reset_types: Vec::new(),
        ..ServerSpec::named("old")
    });
    assert_eq!(get(&robot, "/reset").await, none);
    let number = robot.add_server(ServerSpec {
        reset_types: vec![ResetType::Software, ResetType::Hardware],
        ..ServerSpec::named("bare-1")
    });
    let mut reset = json!({
        "server_ip": "198.19.128.2", "server_ipv6_net": "2001:db8:ffff:1::",
        "server_number": number, "type": ["sw", "hw"],
    });
    assert_eq!(
        get(&robot, "/reset").await,
        (200, json!([{"reset": reset}]))
    );
    for (status, words) in [
        (OperatingStatus::Running, "running"),
        (OperatingStatus::ShutOff, "shut off"),
        (OperatingStatus::NotSupported, "not supported"),
    ] {
        assert!(robot.set_operating_status(number, status));
        reset["operating_status"] = json!(words);
        let read = get(&robot, &format!("/reset/{number}")).await;
        assert_eq!(read, (200, json!({"reset": reset})));
    }
    for (id, expected) in [(without, "RESET_NOT_AVAILABLE"), (1, "SERVER_NOT_FOUND")] {
        let refused = get(&robot, &format!("/reset/{id}")).await;
        assert_eq!(code(&refused), (404, Some(expected)));
    }
    assert_eq!(
        get(&robot, &format!("/server/{without}")).await.1["server"]["reset"],
        false
    );
}

#[tokio::test]
async fn a_reset_changes_the_operating_status_as_the_hardware_would() {
    use OperatingStatus::{NotSupported, Running, ShutOff};
    let cases = [
        ("type=sw", Running, "running"),
        ("type=sw", ShutOff, "shut off"),
        ("type=hw", ShutOff, "running"),
        ("type=power", Running, "shut off"),
        ("type=power", ShutOff, "running"),
        ("type=power_long", Running, "shut off"),
        ("type=power_long", ShutOff, "shut off"),
        ("type=man", ShutOff, "shut off"),
        ("type=hw", NotSupported, "not supported"),
    ];
    for (form, before, after) in cases {
        let robot = robot().await;
        let number = robot.add_server(ServerSpec {
            operating_status: before,
            ..ServerSpec::named("bare-1")
        });
        let path = format!("/reset/{number}");
        let (status, done) = post(&robot, &path, form).await;
        assert_eq!(status, 200, "{form}");
        let expected = json!({"reset": {
            "server_ip": "198.19.128.1", "server_ipv6_net": "2001:db8:ffff::",
            "server_number": number, "type": form.trim_start_matches("type="),
        }});
        assert_eq!(done, expected);
        let read = get(&robot, &path).await.1;
        assert_eq!(
            read["reset"]["operating_status"], after,
            "{form} {before:?}"
        );
        assert_eq!(robot.resets(number).len(), 1);
        assert_eq!(
            (
                robot.count(&Method::POST, &path),
                robot.count(&Method::GET, &path)
            ),
            (1, 1)
        );
    }
}

#[tokio::test]
async fn resets_that_cannot_be_had_are_refused_and_change_nothing() {
    let robot = robot().await;
    let number = robot.add_server(ServerSpec {
        reset_types: vec![ResetType::Hardware, ResetType::Manual],
        ..ServerSpec::named("bare-1")
    });
    let path = format!("/reset/{number}");
    assert_eq!(post(&robot, &path, "type=man").await.0, 200);
    let cases = [
        ("type=man", (409, "RESET_MANUAL_ACTIVE")),
        ("type=sw", (400, "INVALID_INPUT")),
        ("type=", (400, "INVALID_INPUT")),
        ("", (400, "INVALID_INPUT")),
    ];
    for (form, (status, expected)) in cases {
        let refused = post(&robot, &path, form).await;
        assert_eq!(code(&refused), (status, Some(expected)), "{form}");
    }
    let invalid = post(&robot, &path, "type=sw").await.1;
    assert_eq!(invalid["error"]["invalid"], json!(["type"]));
    assert_eq!(robot.resets(number), [ResetType::Manual]);
}
