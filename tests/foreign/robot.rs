//! The Robot simulator, driven over TLS by a client that others generated from the vendor's documentation (`hrobot-py`
//! from PyPI). An answer that this client cannot read has not the vendor's shape.

use ccm_sim::robot::{Fault, OperatingStatus, Options, ResetType, Robot, ServerSpec, Trouble};
use ccm_tests::authority;
use serde_json::{Value, json};

use super::python::Client;

const USER: &str = "#ws+testuser";
const PASSWORD: &str = "the-password";

/// Makes calls through the client and returns its reading of each answer.
fn drive(client: &Client, robot: &Robot, password: &str, calls: Value) -> Vec<Value> {
    let authority = client.trust(robot.ca_pem().unwrap());
    let task = json!({
        "endpoint": robot.endpoint(), "authority": authority,
        "user": USER, "password": password, "calls": calls,
    });
    client.drive(&task, &[])
}

/// The client's reading of an answer that is as documented, or with these further fields.
fn documented(class: &str, value: Value, beyond: &[&str]) -> Value {
    json!({
        "class": class, "value": value, "absent": [], "mistyped": [], "undocumented": beyond,
    })
}

/// A refusal as the client understood it; the fields that only other refusals have are absent.
fn refusal(status: u16, code: &str) -> impl Fn(&Value) -> bool {
    move |answer: &Value| {
        let understood = &answer["understood"];
        answer["status"] == status
            && understood["class"] == "RobotError"
            && understood["value"]["status"] == status
            && understood["value"]["code"] == code
            && understood["mistyped"] == json!([])
            && understood["undocumented"] == json!([])
    }
}

#[test]
fn the_robot_simulator_is_understood_by_a_client_of_others() {
    let client = Client::install("robot");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let options = Options {
        tls: Some(authority::issue("robot").unwrap()),
        ..Options::new(USER, PASSWORD)
    };
    let robot = runtime.block_on(Robot::start(options)).unwrap();

    let number = robot.add_server(ServerSpec {
        linked_storagebox: Some(12),
        reset_types: vec![ResetType::Hardware, ResetType::Power],
        operating_status: OperatingStatus::ShutOff,
        ..ServerSpec::named("bare-1")
    });
    let id = number.to_string();
    let calls = json!([
        ["list_servers"],
        ["get_server", id],
        ["update_server", id, "web ü"],
        ["list_reset_options"],
        ["get_server_reset_options", id],
        ["execute_server_reset", id, "power"],
        ["get_server_reset_options", id],
    ]);
    let answers = drive(&client, &robot, PASSWORD, calls);
    assert!(
        answers.iter().all(|answer| answer["status"] == 200),
        "{answers:#?}"
    );
    let understood: Vec<_> = answers.iter().map(|answer| &answer["understood"]).collect();

    let mut server = json!({
        "server_ip": "198.19.128.1", "server_ipv6_net": "2001:db8:ffff::", "server_number": number,
        "server_name": "bare-1", "product": "AX41-NVMe", "dc": "FSN1-DC14", "traffic": "unlimited",
        "status": "ready", "cancelled": false, "paid_until": "2026-12-31", "ip": ["198.19.128.1"],
        "subnet": [{"ip": "2001:db8:ffff::", "mask": "64"}], "linked_storagebox": 12,
    });
    // The vendor's list has the storage box, its documentation only reads of one server.
    let listed = documented("ServerSummary", server.clone(), &["linked_storagebox"]);
    assert_eq!(*understood[0], json!([listed]));
    for (flags, value) in [
        (["reset", "rescue", "vnc", "wol"], true),
        (["windows", "plesk", "cpanel", "hot_swap"], false),
    ] {
        for flag in flags {
            server[flag] = json!(value);
        }
    }
    assert_eq!(
        *understood[1],
        documented("ServerDetail", server.clone(), &[])
    );
    server["server_name"] = json!("web ü");
    assert_eq!(*understood[2], documented("ServerDetail", server, &[]));

    let mut reset = json!({
        "server_ip": "198.19.128.1", "server_ipv6_net": "2001:db8:ffff::", "server_number": number,
        "type": ["hw", "power"],
    });
    let listed = documented("ResetSummary", reset.clone(), &[]);
    assert_eq!(*understood[3], json!([listed]));
    for (place, words) in [(4, "shut off"), (6, "running")] {
        reset["operating_status"] = json!(words);
        assert_eq!(
            *understood[place],
            documented("ResetDetail", reset.clone(), &[])
        );
    }
    let done = json!({
        "server_ip": "198.19.128.1", "server_ipv6_net": "2001:db8:ffff::", "server_number": number,
        "type": "power",
    });
    assert_eq!(*understood[5], documented("ResetExecution", done, &[]));
    assert_eq!(robot.resets(number), [ResetType::Power]);
    assert_eq!(robot.server(number).unwrap()["server_name"], "web ü");

    refusals(&client, &robot, &id);
}

fn refusals(client: &Client, robot: &Robot, id: &str) {
    let too_many = Trouble::TooManyRequests { retry_after: None };
    robot.inject(Fault::new(too_many).path("/reset").times(1));
    robot.inject(Fault::new(Trouble::Cut).path("/reset").times(1));
    let calls = json!([
        ["get_server", "1"],
        ["execute_server_reset", id, "sw"],
        ["list_reset_options"],
        ["list_reset_options"],
        ["list_reset_options"],
    ]);
    // The first fault meets the call about the reset.
    let answers = drive(client, robot, PASSWORD, calls);
    assert!(
        refusal(404, "SERVER_NOT_FOUND")(&answers[0]),
        "{:#}",
        answers[0]
    );
    assert!(
        refusal(403, "RATE_LIMIT_EXCEEDED")(&answers[1]),
        "{:#}",
        answers[1]
    );
    let limit = &answers[1]["understood"]["value"];
    assert_eq!(
        (&limit["max_request"], &limit["interval"]),
        (&json!(200), &json!(3600))
    );
    assert_eq!(
        answers[2]["failed"], "RemoteProtocolError",
        "{:#}",
        answers[2]
    );
    assert_eq!(
        (&answers[3]["status"], &answers[4]["status"]),
        (&json!(200), &json!(200))
    );

    let answers = drive(
        client,
        robot,
        PASSWORD,
        json!([["execute_server_reset", id, "sw"]]),
    );
    assert!(
        refusal(400, "INVALID_INPUT")(&answers[0]),
        "{:#}",
        answers[0]
    );
    assert_eq!(
        answers[0]["understood"]["value"]["invalid"],
        json!(["type"])
    );

    let tries = json!([
        ["list_servers"],
        ["list_servers"],
        ["list_servers"],
        ["list_servers"]
    ]);
    let answers = drive(client, robot, "wrong", tries);
    for answer in &answers[..3] {
        assert!(refusal(401, "UNAUTHORIZED")(answer), "{answer:#}");
    }
    assert!(
        answers[3]["failed"].is_string(),
        "locked out: {:#}",
        answers[3]
    );
}
