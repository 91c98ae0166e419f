//! The rows of the agreement table, the in-memory API's answers, and the comparison of an answer with its row.

mod creates;
mod deletes;
mod patches;
mod providers;
mod reads;
pub(crate) mod row;
pub(crate) mod run;
mod services;
mod small;
mod strategic;
mod updates;
mod watches;

use ccm_sim::cluster::Cluster;
use row::Row;
use run::Answer;
use serde_json::Value;

/// The rows of all files.
pub(crate) fn table() -> Vec<Row> {
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

/// The in-memory API's answer to a row.
pub(crate) async fn in_memory(row: &Row, number: usize) -> anyhow::Result<Answer> {
    let cluster = Cluster::new();
    let client = cluster.client();
    let names = run::prepare(&client, row, number).await?;
    if row.forgets {
        cluster.expire_watches();
    }
    run::ask(&client, row, names).await
}

/// The differences of an answer from its row, as text.
pub(crate) fn differences(row: &Row, answer: &Answer, code: u16, reason: &str) -> Option<String> {
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

/// The reason of a refusal, or nothing.
pub(crate) fn reason_of(answer: &Answer) -> &str {
    match answer.body["kind"].as_str() {
        Some("Status") => answer.body["reason"].as_str().unwrap_or_default(),
        _ => "",
    }
}
