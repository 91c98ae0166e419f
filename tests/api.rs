//! The agreement table: one list of requests, answered by the in-memory API as the table says, and by a real
//! kube-apiserver likewise. Neither side may agree only with itself: the expected fields stand in the table, and
//! both whole answers are compared. The second half needs the feature `cluster`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "api/creates.rs"]
mod creates;
#[path = "api/deletes.rs"]
mod deletes;
#[path = "api/normal.rs"]
#[cfg_attr(
    not(feature = "cluster-tests"),
    allow(dead_code, reason = "only two answers can be compared")
)]
mod normal;
#[path = "api/patches.rs"]
mod patches;
#[path = "api/providers.rs"]
mod providers;
#[path = "api/reads.rs"]
mod reads;
#[path = "api/row.rs"]
mod row;
#[path = "api/run.rs"]
mod run;
#[path = "api/services.rs"]
mod services;
#[path = "api/small.rs"]
mod small;
#[path = "api/strategic.rs"]
mod strategic;
#[path = "api/updates.rs"]
mod updates;
#[path = "api/watches.rs"]
mod watches;

use ccm_sim::cluster::Cluster;
use row::Row;
use run::Answer;
use serde_json::Value;

fn table() -> Vec<Row> {
    let mut table = reads::rows();
    table.extend(creates::rows());
    table.extend(updates::rows());
    table.extend(patches::rows());
    table.extend(strategic::rows());
    table.extend(deletes::rows());
    table.extend(watches::rows());
    table.extend(services::rows());
    table.extend(small::rows());
    table.extend(providers::rows());
    table
}

#[test]
fn row_names_are_unique_and_every_refusal_is_named() {
    let mut names: Vec<&str> = table().iter().map(|row| row.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
    assert!(before >= 60, "{before} rows");
    for row in table() {
        let named = !row.reason.is_empty() || row.code < 400 || row.code == 500;
        assert!(
            named || row.reason.is_empty() && row.code == 404,
            "{}",
            row.name
        );
    }
}

#[tokio::test]
async fn the_in_memory_api_answers_as_the_table_says() {
    let mut wrong = Vec::new();
    for (number, row) in table().iter().enumerate() {
        match in_memory(row, number).await {
            Ok(answer) => wrong.extend(differences(row, &answer, row.code, row.reason)),
            Err(error) => wrong.push(format!("{}: {error:#}", row.name)),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[cfg(feature = "cluster-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_answers_like_the_in_memory_one() {
    use ccm_tests::apiserver::ApiServer;

    let server = ApiServer::start().await.expect("a real API server");
    let client = server.client_for("admin").await.expect("a client for it");
    run::define_providers(&client)
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
#[cfg(feature = "cluster-tests")]
#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_forgets_like_the_in_memory_one() {
    use ccm_tests::apiserver::{ApiServer, StartOptions};

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
    // A restarted server remembers nothing of its own, so only etcd could still know.
    server.restart().await.expect("a restart");
    let client = server.client_for("admin").await.expect("a client for it");
    run::until_forgotten(&client).await.expect("a compaction");
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

/// In what the real answer differs from the table and from the in-memory one.
#[cfg(feature = "cluster-tests")]
async fn compare(row: &Row, number: usize, theirs: anyhow::Result<Answer>) -> Vec<String> {
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

async fn in_memory(row: &Row, number: usize) -> anyhow::Result<Answer> {
    let cluster = Cluster::new();
    let client = cluster.client();
    let names = run::prepare(&client, row, number).await?;
    if row.forgets {
        cluster.expire_watches();
    }
    run::ask(&client, row, names).await
}

/// What an answer lacks of what the table says.
fn differences(row: &Row, answer: &Answer, code: u16, reason: &str) -> Option<String> {
    let mut wrong = Vec::new();
    if answer.code != code {
        wrong.push(format!("code {} instead of {code}", answer.code));
    }
    if !reason.is_empty() && reason_of(answer) != reason {
        wrong.push(format!(
            "reason {:?} instead of {reason}",
            reason_of(answer)
        ));
    }
    for (pointer, expected) in &row.fields {
        let expected: Value =
            serde_json::from_str(&answer.names.fill(&expected.to_string())).unwrap();
        let found = answer.body.pointer(pointer).cloned().unwrap_or(Value::Null);
        if found != expected {
            wrong.push(format!("{pointer} is {found} instead of {expected}"));
        }
    }
    (!wrong.is_empty()).then(|| format!("{}: {} in {}", row.name, wrong.join("; "), answer.body))
}

fn reason_of(answer: &Answer) -> &str {
    match answer.body["kind"].as_str() {
        Some("Status") => answer.body["reason"].as_str().unwrap_or_default(),
        _ => "",
    }
}
