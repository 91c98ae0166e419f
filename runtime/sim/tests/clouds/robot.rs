//! The Robot simulator, from the client's side of the connection. A client that others wrote drives it, too: see
//! `tests/foreign`.

mod faults;
mod limits;
mod resets;
mod servers;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ccm_sim::robot::{Clock, Options, Robot};
use serde_json::{Value, json};

const USER: &str = "#ws+testuser";
const PASSWORD: &str = "pass:word";

async fn robot() -> Robot {
    robot_with(Options::new(USER, PASSWORD)).await
}

async fn robot_with(options: Options) -> Robot {
    Robot::start(options).await.expect("a free port")
}

/// A clock that stands still until a test sets it.
struct ManualClock(Arc<Mutex<SystemTime>>);

impl ManualClock {
    fn new() -> Self {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Self(Arc::new(Mutex::new(start)))
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || *now.lock().unwrap())
    }

    fn advance(&self, seconds: u64) {
        *self.0.lock().unwrap() += Duration::from_secs(seconds);
    }
}

/// A client that trusts no authority: loading the machine's own each time would take longer than the test.
fn client() -> reqwest::Client {
    // One TLS provider for the process; the first test installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    builder.build().unwrap()
}

async fn ask_as(robot: &Robot, password: &str, path: &str) -> reqwest::Result<(u16, Value)> {
    let url = format!("{}{path}", robot.endpoint());
    let request = client().get(url).basic_auth(USER, Some(password));
    read(request.send().await?).await
}

async fn get(robot: &Robot, path: &str) -> (u16, Value) {
    ask_as(robot, PASSWORD, path).await.unwrap()
}

async fn post(robot: &Robot, path: &str, form: &'static str) -> (u16, Value) {
    let url = format!("{}{path}", robot.endpoint());
    let request = client()
        .post(url)
        .basic_auth(USER, Some(PASSWORD))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form);
    read(request.send().await.unwrap()).await.unwrap()
}

/// Status and JSON of an answer; a body that is no JSON becomes a string.
async fn read(answer: reqwest::Response) -> reqwest::Result<(u16, Value)> {
    let status = answer.status().as_u16();
    let text = answer.text().await?;
    Ok((
        status,
        serde_json::from_str(&text).unwrap_or_else(|_| json!(text)),
    ))
}

fn error(status: u16, code: &str, message: &str) -> (u16, Value) {
    let error = json!({"status": status, "code": code, "message": message});
    (status, json!({"error": error}))
}

/// Status and error code of an answer; `None` if it is no refusal.
fn code((status, body): &(u16, Value)) -> (u16, Option<&str>) {
    (*status, body["error"]["code"].as_str())
}
