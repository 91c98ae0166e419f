//! The agreement table on a real kube-apiserver: its answers compared with the table and with the in-memory ones.

#[path = "normal.rs"]
mod normal;

use std::time::Duration;

use anyhow::{Context, Result};
use ccm_tests::apiserver::{ApiServer, StartOptions};
use kube::Client;

use crate::table::row::{self, Row};
use crate::table::run::{self, Answer, Names, TIMEOUT, send, succeed};
use crate::table::{differences, in_memory, reason_of, table};

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_answers_like_the_in_memory_one() {
    let server = ApiServer::start().await.expect("a real API server");
    let client = server.client_for("admin").await.expect("a client for it");
    define_providers(&client)
        .await
        .expect("the definition of Provider");
    let mut wrong = Vec::new();
    for (number, row) in table().iter().enumerate().filter(|(_, row)| !row.forgets) {
        wrong.extend(match run::prepare(&client, row, number).await {
            Ok(names) => compare(row, number, run::ask(&client, row, names).await).await,
            Err(error) => vec![format!("{}: {error:#}", row.name)],
        });
    }
    assert!(
        wrong.is_empty(),
        "{} disagreements\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The rows about forgotten history, on a server of their own: it forgets every second, and is restarted once.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_forgets_like_the_in_memory_one() {
    let options = StartOptions {
        flags: vec!["--etcd-compaction-interval=1s".to_owned()],
        ..StartOptions::default()
    };
    let mut server = ApiServer::start_with(options)
        .await
        .expect("a real API server");
    let client = server.client_for("admin").await.expect("a client for it");
    let mut prepared = Vec::new();
    for (number, row) in table()
        .into_iter()
        .enumerate()
        .filter(|(_, row)| row.forgets)
    {
        let names = run::prepare(&client, &row, number).await.expect(row.name);
        prepared.push((number, row, names));
    }
    // A restarted server has no memory of its own, so only etcd could still know.
    server.restart().await.expect("a restart");
    let client = server.client_for("admin").await.expect("a client for it");
    until_forgotten(&client).await.expect("a compaction");
    let mut wrong = Vec::new();
    for (number, row, names) in prepared {
        wrong.extend(compare(&row, number, run::ask(&client, &row, names).await).await);
    }
    assert!(
        wrong.is_empty(),
        "{} disagreements\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The differences of the real answer from the table and from the in-memory one.
async fn compare(row: &Row, number: usize, theirs: Result<Answer>) -> Vec<String> {
    let (ours, theirs) = match (in_memory(row, number).await, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (ours, theirs) => return vec![format!("{}: {ours:?} / {theirs:?}", row.name)],
    };
    if let Some((code, reason, why)) = row.real {
        let real = (theirs.code, reason_of(&theirs));
        let known = real == (code, reason);
        return (!known)
            .then(|| format!("{}: {why}, and now {real:?}", row.name))
            .into_iter()
            .collect();
    }
    let mut wrong: Vec<String> = differences(row, &theirs, row.code, row.reason)
        .map(|text| format!("REAL {text}"))
        .into_iter()
        .collect();
    let (one, other) = (normal::normal(row, &ours), normal::normal(row, &theirs));
    if one != other {
        wrong.push(format!("{}:\n  ours   {one}\n  theirs {other}", row.name));
    }
    wrong
}

/// Waits until a real server has forgotten its current history.
async fn until_forgotten(client: &Client) -> Result<()> {
    let list = row::get("/api/v1/configmaps");
    let now = succeed(client, &list, &Names::default()).await?;
    let revision = now["metadata"]["resourceVersion"]
        .as_str()
        .context("a list has a version")?;
    let path = format!("/api/v1/configmaps?resourceVersion={revision}&resourceVersionMatch=Exact");
    let exact = row::get(&path);
    tokio::time::timeout(TIMEOUT, async {
        while send(client, &exact, &Names::default()).await?.0 != 410 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
    .await?
}

/// Applies the definition that users apply, and waits until a real server serves the kind.
async fn define_providers(client: &Client) -> Result<()> {
    let definition = include_str!("../../deploy/kustomize/base/crd.yaml");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let define = row::post(path, definition).typed("application/yaml");
    let names = Names::default();
    succeed(client, &define, &names).await?;
    let list = row::get("/apis/wasm-ccm.dev/v1alpha1/providers");
    tokio::time::timeout(TIMEOUT, async {
        while send(client, &list, &names).await?.0 != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    })
    .await?
}
