//! Which values count as different.

use serde_json::json;

use super::*;

#[test]
fn lists_are_compared_by_key_and_only_differences_are_told() {
    let wanted = BTreeMap::from([(80, "a"), (443, "b"), (8080, "c")]);
    let shown = BTreeMap::from([(22, "x"), (80, "a"), (443, "B"), (9000, "y")]);
    let found = changes(&wanted, &shown, |wanted, shown| {
        (wanted != shown).then_some("text")
    });
    let expected = [
        Change::Differs(&443, &"b", &"B", "text"),
        Change::Missing(&8080, &"c"),
        Change::Extra(&22, &"x"),
        Change::Extra(&9000, &"y"),
    ];
    assert_eq!(found, expected);
    assert_eq!(changes(&wanted, &wanted, |_, _| None::<()>), []);
}

#[test]
fn only_wanted_fields_of_an_object_are_compared() {
    let shown = json!({
        "name": "web", "size": 1, "id": 9_007_199_254_740_993_u64, "status": "active", "check": {"port": 80, "path": "/"},
        "rules": [{"entry": 80, "target": 30080, "tls": false}]
    });
    let table = [
        (json!({}), None),
        (json!({"name": "web", "check": {"port": 80}}), None),
        (json!({"rules": [{"entry": 80, "target": 30080}]}), None),
        (json!({"vpc": null}), None),
        (json!({"name": "shop"}), Some("name")),
        (json!({"vpc": "a"}), Some("vpc")),
        (json!({"size": null}), Some("size")),
        (json!({"size": "1"}), Some("size")),
        (json!({"size": 1.0}), None),
        (json!({"size": 1.5}), Some("size")),
        (json!({"id": 9_007_199_254_740_992_u64}), Some("id")),
        (json!({"check": {"port": 81}}), Some("check.port")),
        (json!({"rules": []}), Some("rules")),
        (
            json!({"rules": [{"entry": 80, "target": 1}]}),
            Some("rules.0.target"),
        ),
    ];
    for (wanted, expected) in table {
        assert_eq!(difference(&wanted, &shown).as_deref(), expected, "{wanted}");
    }
}
