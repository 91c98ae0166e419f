//! Written forms of fingerprints.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_fingerprint_is_read_as_tools_print_it_and_written_as_most_do() {
    let pairs = vec!["aB"; 32];
    let shown = vec!["AB"; 32].join(":");
    for text in [pairs.concat(), pairs.join(":")] {
        let read: Fingerprint = text.parse().unwrap();
        assert_eq!(read.to_string(), shown);
    }
}

#[test]
fn anything_else_is_no_fingerprint() {
    let pairs = vec!["ab"; 32];
    let sha1 = vec!["ab"; 20];
    let table = [
        String::new(),
        sha1.join(":"),
        sha1.concat(),
        format!("{}:", pairs.join(":")),
        format!("{}0", pairs.concat()),
        pairs.join("-"),
        format!("sha256:{}", pairs.concat()),
        vec!["xy"; 32].concat(),
        format!("{}:{}", vec!["ab"; 16].concat(), vec!["ab"; 16].concat()),
    ];
    for text in table {
        assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError), "{text}");
    }
}
