#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

#[test]
fn a_path_is_brought_into_one_form() {
    for (given, sent) in [
        ("/", "/"),
        ("/servers", "/servers"),
        ("/servers/42", "/servers/42"),
        ("/%73ervers", "/servers"),
        ("/a%2Bb", "/a+b"),
        ("/a%2bb+c", "/a+b+c"),
        ("/a b", "/a%20b"),
        ("/ü", "/%C3%BC"),
        ("/%c3%bc", "/%C3%BC"),
        ("/a%3Fb%23c", "/a%3Fb%23c"),
        ("/a;b", "/a%3Bb"),
        ("/100%25", "/100%25"),
        ("/a:stop", "/a:stop"),
        ("/~x/-_.!$&'()*+,=:@", "/~x/-_.!$&'()*+,=:@"),
        ("/a{b}\"<>|^`", "/a%7Bb%7D%22%3C%3E%7C%5E%60"),
    ] {
        assert_eq!(canonical(given).unwrap().as_str(), sent, "{given}");
    }
}

#[test]
fn a_path_that_two_servers_could_read_differently_is_refused() {
    use PathError::*;
    for (given, expected) in [
        ("", NoSlash),
        ("servers", NoSlash),
        ("http://evil/", NoSlash),
        ("//evil/x", EmptySegment),
        ("/a//b", EmptySegment),
        ("/a/", EmptySegment),
        ("/.", DotSegment),
        ("/a/..", DotSegment),
        ("/a/../b", DotSegment),
        ("/%2e%2e/b", DotSegment),
        ("/.%2E/b", DotSegment),
        ("/a/%2e", DotSegment),
        ("/a/..;/b", DotSegment),
        ("/a/..;x=1/b", DotSegment),
        ("/a/%2e%2e%3b/b", DotSegment),
        ("/a/.../b", DotSegment),
        ("/a/..%20/b", DotSegment),
        ("/a/ ", DotSegment),
        ("/a?b", Separator),
        ("/a#b", Separator),
        ("/a\\b", Separator),
        ("/a%2fb", Separator),
        ("/a%2Fb", Separator),
        ("/a%5cb", Separator),
        ("/..%5c", Separator),
        ("/a%00", Control),
        ("/a%0d%0aX", Control),
        ("/a\r\nb", Control),
        ("/a\tb", Control),
        ("/a%7f", Control),
        ("/a%C2%85", Control),
        ("/a%", Encoding),
        ("/a%zz", Encoding),
        ("/a%2", Encoding),
        ("/a%ff", Encoding),
        ("/a%c0%af", Encoding),
        ("/a%e0%80%af", Encoding),
        ("/%252e%252e", EncodedTwice),
        ("/a%252fb", EncodedTwice),
        ("/a%2500", EncodedTwice),
    ] {
        assert_eq!(canonical(given).unwrap_err(), expected, "{given:?}");
    }
    assert_eq!(
        canonical(&format!("/{}", "a".repeat(MAX_PATH))).unwrap_err(),
        TooLong
    );
    assert_eq!(
        canonical(&format!("/{}", "ü".repeat(MAX_PATH / 4))).unwrap_err(),
        TooLong,
        "longer than the cap once encoded"
    );
    assert!(canonical(&format!("/{}", "a".repeat(MAX_PATH - 1))).is_ok());
}

#[test]
fn a_pattern_says_what_it_means() {
    for (pattern, path, expected) in [
        ("/", "/", true),
        ("/", "/a", false),
        ("/a", "/", false),
        ("/servers", "/servers", true),
        ("/servers", "/Servers", false),
        ("/servers", "/%73ervers", true),
        ("/servers/{id}", "/servers/1", true),
        ("/servers/{id}", "/servers", false),
        ("/servers/{id}", "/servers/1/actions", false),
        ("/servers/{id}", "/servers/a%3Fb", true),
        ("/{a}/{b}", "/x/y", true),
        ("/servers", "/servers%3Fx", false),
    ] {
        let matches = PathPattern::parse(pattern)
            .unwrap()
            .matches(&canonical(path).unwrap());
        assert_eq!(matches, expected, "{pattern} {path}");
    }
}

#[test]
fn a_pattern_that_could_be_misread_is_refused() {
    for text in [
        "",
        "servers",
        "/a/",
        "//",
        "/a//b",
        "/*x/../y",
        "/..",
        "/{}",
        "/{id",
        "/id}",
        "/x{id}",
        "/{id}x",
        "/{i-d}",
        "/{a}{b}",
        "/a?b=c",
        "/a#b",
        "/a%20b",
        "/a b",
        "/ü",
        "/a;b",
        "/{123456789012345678901234567890123}",
    ] {
        assert!(PathPattern::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_pattern_covers_what_it_matches_and_no_more() {
    for (wide, narrow, expected) in [
        ("/servers/{id}", "/servers/{name}", true),
        ("/servers/{id}", "/servers/7", true),
        ("/servers/7", "/servers/{id}", false),
        ("/{a}/{b}", "/servers/{id}", true),
        ("/servers", "/servers/{id}", false),
        ("/servers", "/networks", false),
    ] {
        let covers = PathPattern::parse(wide)
            .unwrap()
            .covers(&PathPattern::parse(narrow).unwrap());
        assert_eq!(covers, expected, "{wide} {narrow}");
    }
}

/// Paths with many dangerous parts.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9]{1,3}",
        1 => Just("..".to_owned()), 1 => Just(".".to_owned()), 1 => Just("%2e".to_owned()), 1 => Just("%2f".to_owned()),
        1 => Just("%25".to_owned()), 1 => Just("%5C".to_owned()), 1 => Just("%00".to_owned()), 1 => Just(";".to_owned()),
        1 => Just("?".to_owned()), 1 => Just("%3f".to_owned()), 1 => Just("\\".to_owned()), 3 => Just("/".to_owned()),
        2 => any::<char>().prop_map(String::from), 1 => "%[0-9a-fA-F]{2}", 1 => Just("%".to_owned()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #[test]
    fn the_one_form_is_its_own_one_form(path in nasty()) {
        if let Ok(once) = canonical(&path) {
            prop_assert_eq!(&canonical(once.as_str()).unwrap(), &once);
        }
    }

    #[test]
    fn what_is_matched_is_what_is_sent_and_stays_below_the_base(path in nasty()) {
        if let Ok(canonical) = canonical(&path) {
            let url = url::Url::parse(&format!("https://host.test/base{}", canonical.as_str())).unwrap();
            let sent = format!("/base{}", canonical.as_str());
            prop_assert_eq!(url.path(), sent.as_str());
            prop_assert!(url.query().is_none() && url.fragment().is_none());
            let segments: Vec<_> = url.path_segments().unwrap().skip(1).filter(|segment| !segment.is_empty()).collect();
            prop_assert_eq!(segments.len(), canonical.segments().len());
            for segment in canonical.segments() {
                prop_assert!(!segment.contains(['/', '\\', '\0', '\r', '\n']));
                prop_assert!(segment != "." && segment != "..");
            }
        }
    }

    #[test]
    fn no_input_breaks_the_readers(text in any::<String>()) {
        let _ = canonical(&text);
        let _ = PathPattern::parse(&text);
    }
}
