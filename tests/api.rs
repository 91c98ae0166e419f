//! The agreement table: a list of requests. The in-memory API and a real kube-apiserver must both answer each as the
//! table says. The expected fields stand in the table, so that the two cannot merely agree with each other, and both
//! whole answers are compared. The second half is `api/agreement.rs`, which the suite `apiserver` runs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "api/table.rs"]
mod table;

use table::{differences, in_memory, table};

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
