#![allow(clippy::unwrap_used, reason = "tests")]

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Machine {
    name: String,
    size: Option<u16>,
    #[serde(rename = "place.zone", default)]
    zone: String,
    #[serde(rename = "groups.*.id")]
    groups: Vec<String>,
    #[serde(default)]
    alias: Vec<String>,
}

fn read<T: DeserializeOwned>(text: &str, path: &str) -> Result<Option<T>, String> {
    Document::parse(text)?.read(path)
}

#[test]
fn names_of_fields_are_paths() {
    let text = "<answer xmlns=\"http://cloud.example/\"><list><machine>
        <name>web &amp; db</name><size> 7 </size><place><zone>a</zone></place>
        <groups><group><id>1</id></group><group><id>2</id><else/></group></groups>
        <alias>x</alias><alias>y</alias><other>unknown</other>
    </machine></list></answer>";
    let expected = Machine {
        name: "web & db".to_owned(),
        size: Some(7),
        zone: "a".to_owned(),
        groups: vec!["1".to_owned(), "2".to_owned()],
        alias: vec!["x".to_owned(), "y".to_owned()],
    };
    assert_eq!(read(text, "list.*"), Ok(Some(vec![expected])));
    assert_eq!(Document::parse(text).unwrap().name(), "answer");
    let place = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    assert_eq!(read(text, "list.machine.place"), Ok(Some(place)));
    assert_eq!(read::<String>(text, "list.machine.color"), Ok(None));
}

#[test]
fn a_list_without_elements_is_empty_and_one_that_is_not_there_is_none() {
    let machines = |text: &str| read::<Vec<Machine>>(text, "list.*.machines.*");
    assert_eq!(machines("<answer/>"), Ok(None));
    assert_eq!(machines("<answer><other/></answer>"), Ok(None));
    for empty in ["", "<item/>", "<item><machines/></item>"] {
        let text = format!("<answer><list>{empty}</list></answer>");
        assert_eq!(machines(&text), Ok(Some(Vec::new())), "{empty}");
    }
    let machine = |fields: &str| read::<Machine>(&format!("<a><m>{fields}</m></a>"), "m");
    assert_eq!(
        machine("<name>a</name>"),
        Err("missing field `groups.*.id`".to_owned())
    );
    let found = machine("<name>a</name><place/><groups/>").unwrap().unwrap();
    assert_eq!((found.zone, found.groups), (String::new(), Vec::new()));
}

/// As with fields: none of them replaces the others.
#[test]
fn a_repeated_element_of_a_map_is_a_list() {
    let text = "<a><place><zone>a</zone><rack>7</rack><zone>b</zone></place></a>";
    assert_eq!(
        read::<BTreeMap<String, String>>(text, "place"),
        Err("not one element where one belongs".to_owned())
    );
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let place: BTreeMap<String, Vec<String>> = BTreeMap::from([
        ("rack".to_owned(), texts(&["7"])),
        ("zone".to_owned(), texts(&["a", "b"])),
    ]);
    assert_eq!(read(text, "place"), Ok(Some(place)));
}

#[test]
fn what_is_elsewhere_than_it_belongs_is_an_error() {
    for (fields, why) in [
        ("<name>a</name>b", "text in <m>, where elements belong"),
        (
            "<name><first/></name>",
            "elements in <name>, where text belongs",
        ),
        (
            "<name>a</name><name>b</name>",
            "not one element where one belongs",
        ),
        (
            "<place>here</place>",
            "text in <place>, where elements belong",
        ),
        (
            "<groups><id>1</id>2</groups>",
            "text in <groups>, where elements belong",
        ),
        (
            "<groups><group>1</group></groups>",
            "text in <group>, where elements belong",
        ),
        (
            "<name>a</name><size>65536</size><groups/>",
            "number too large to fit in target type",
        ),
    ] {
        let text = format!("<a><m>{fields}</m></a>");
        assert_eq!(read::<Machine>(&text, "m"), Err(why.to_owned()), "{fields}");
    }
}

#[test]
fn entities_of_a_document_are_errors() {
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;&b;\">]><a><m>&c;</m></a>";
    let outside = "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a><m>&x;</m></a>";
    let deep = format!("<a>{}</a>", "<b>".repeat(100_000));
    for text in [
        "",
        "<a>",
        "<a><m>1</a>",
        "{}",
        bomb,
        outside,
        &deep,
        "\u{fffe}<a/>",
    ] {
        assert!(Document::parse(text).is_err(), "{text:.60}");
    }
}
