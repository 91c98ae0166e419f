//! Sends the requests of one row through a client, byte for byte, and hands back the last answer.
//! It asserts nothing about that answer.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::row::{Ask, Row};

/// Timeout of one answer of the real server. Only a broken server needs it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server's answer to the request of a row.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    /// The placeholders of the row with their values on this server.
    pub(crate) names: Names,
}

/// Placeholders and their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    /// Replaces the placeholders in a text.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }

    fn learn(&mut self, step: usize, answer: &Value) {
        for (short, pointer) in [
            ("rv", "/metadata/resourceVersion"),
            ("uid", "/metadata/uid"),
            ("continue", "/metadata/continue"),
        ] {
            if let Some(value) = answer.pointer(pointer).and_then(Value::as_str) {
                self.0
                    .push((format!("{{{step}.{short}}}"), value.to_owned()));
            }
        }
    }
}

/// Takes the setup steps of a row. `number` makes its names unique on a server that all rows share.
pub(crate) async fn prepare(client: &Client, row: &Row, number: usize) -> Result<Names> {
    let mut names = Names(vec![("{n}".to_owned(), format!("row-{number}"))]);
    let namespace = super::row::post("/api/v1/namespaces", r#"{"metadata": {"name": "{n}"}}"#);
    succeed(client, &namespace, &names)
        .await
        .context("namespace")?;
    for (step, ask) in row.given.iter().enumerate() {
        let answer = succeed(client, ask, &names)
            .await
            .with_context(|| format!("setup step {step}: {ask:?}"))?;
        names.learn(step, &answer);
    }
    Ok(names)
}

/// Sends the request of a row.
pub(crate) async fn ask(client: &Client, row: &Row, names: Names) -> Result<Answer> {
    let (code, body) = if row.events == 0 {
        send(client, &row.ask, &names).await?
    } else {
        follow(client, row, &names).await?
    };
    Ok(Answer { code, body, names })
}

pub(crate) async fn succeed(client: &Client, ask: &Ask, names: &Names) -> Result<Value> {
    let (code, body) = send(client, ask, names).await?;
    ensure!((200..300).contains(&code), "answered {code}: {body}");
    Ok(body)
}

pub(crate) async fn send(client: &Client, ask: &Ask, names: &Names) -> Result<(u16, Value)> {
    let response = tokio::time::timeout(TIMEOUT, client.send(request(ask, names)?)).await??;
    let code = response.status().as_u16();
    let bytes = tokio::time::timeout(TIMEOUT, response.into_body().collect_bytes()).await??;
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(&bytes)}));
    Ok((code, body))
}

/// Opens a watch, takes the steps that belong to it, and reads the lines that make the answer.
async fn follow(client: &Client, row: &Row, names: &Names) -> Result<(u16, Value)> {
    let response = tokio::time::timeout(TIMEOUT, client.send(request(&row.ask, names)?)).await??;
    let code = response.status().as_u16();
    let mut chunks = response.into_body().into_data_stream();
    if code != 200 {
        bail!("the watch was refused with {code}");
    }
    for ask in &row.meanwhile {
        succeed(client, ask, names)
            .await
            .with_context(|| format!("meanwhile: {ask:?}"))?;
    }
    let (mut text, mut events): (Vec<u8>, Vec<Value>) = (Vec::new(), Vec::new());
    while events.len() < row.events {
        let chunk = tokio::time::timeout(TIMEOUT, chunks.try_next())
            .await
            .with_context(|| format!("only {} events: {events:?}", events.len()))??
            .with_context(|| format!("the watch ended after {} events", events.len()))?;
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            events.push(serde_json::from_slice(&line)?);
        }
    }
    Ok((code, json!({"events": events})))
}

fn request(ask: &Ask, names: &Names) -> Result<Request<Body>> {
    let mut request = Request::builder()
        .method(ask.method)
        .uri(names.fill(&ask.path))
        .header("accept", ask.accept);
    if !ask.content_type.is_empty() {
        request = request.header("content-type", ask.content_type);
    }
    Ok(request.body(Body::from(names.fill(&ask.body).into_bytes()))?)
}
