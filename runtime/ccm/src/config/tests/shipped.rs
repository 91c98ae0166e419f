//! The configurations that the pages show and that the variants ship.

use std::path::{Path, PathBuf};

use super::*;

/// A valid public key; no test has a signature by it.
const PUBLIC_KEY: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEezQuZXwaIrPg0bNNvXqX4XRY4BCL\n\
C/a0GSjtONkfnH7WXZ8EgZ+WS4tf5QQiSowjgKY0vJb0WzEIBXRqY3xB4g==\n\
-----END PUBLIC KEY-----\n";

#[test]
fn the_configurations_that_operators_are_shown_are_valid() {
    let context = ConfigContext {
        absent: None,
        variable: &|_| Some("a-token".to_owned()),
        file: &|path| match path.extension() {
            Some(end) if end == "pub" => Ok(PUBLIC_KEY.to_owned()),
            Some(end) if end == "pem" => Ok(AUTHORITY.clone()),
            _ => Ok("a-token".to_owned()),
        },
        // A docker configuration without logins, which is also valid as a token.
        secret: &|_| Ok(r#"{"auths":{}}"#.to_owned()),
    };
    let pages = ["deploy/docs/providers.md", "deploy/docs/load-balancers.md"];
    let pages = pages.into_iter().map(|page| {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        // The first block of a page.
        let block = text.split("```yaml\n").nth(1);
        let block = block.and_then(|rest| rest.split("```").next());
        block.unwrap().to_owned()
    });
    let variants = variants();
    assert!(variants.len() >= 4);
    let variants = variants.iter().map(|folder| configuration(folder));
    for text in pages.chain(variants) {
        let read = parse(&text, &context);
        assert_eq!(read.err().map(|Mistakes(all)| all), None, "{text}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of all shipped ways of delivery.
fn variants() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(root().join("deploy/kustomize/variants")).unwrap();
    let folders = folders.map(|folder| folder.unwrap().path());
    // Where objects configure the providers there is no file.
    folders
        .filter(|folder| folder.join("ccm.yaml").exists())
        .collect()
}

fn configuration(variant: &Path) -> String {
    std::fs::read_to_string(variant.join("ccm.yaml")).unwrap()
}

#[test]
fn no_variant_that_is_shipped_runs_a_module_that_nobody_vouches_for() {
    for variant in variants() {
        let text = configuration(&variant);
        let shipped = |path: &Path| match path.extension() {
            Some(end) if end == "pub" => {
                let key = variant.join(path.file_name().unwrap());
                std::fs::read_to_string(key).map_err(|error| error.to_string())
            }
            _ => Ok("a-token".to_owned()),
        };
        let with = |file: &dyn Fn(&Path) -> Result<String, String>| {
            let context = ConfigContext {
                absent: None,
                variable: &|_| None,
                file,
                secret: &|_| Ok(r#"{"auths":{}}"#.to_owned()),
            };
            parse(&text, &context).map_err(|Mistakes(mistakes)| mistakes)
        };
        let signed = with(&|path| match path.extension() {
            Some(end) if end == "pub" => Ok(PUBLIC_KEY.to_owned()),
            _ => shipped(path),
        });
        let mut keys = 0;
        for provider in signed.unwrap() {
            let is_pinned = matches!(&provider.source, Location::Oci(at) if at.digest.is_some());
            let is_vouched = !provider.trust.allows_unsigned;
            assert!(is_vouched || is_pinned, "{}: {text}", variant.display());
            keys += provider.trust.keys.len();
        }
        // The shipped key is a placeholder: nothing starts before it is replaced.
        let mistakes = with(&shipped).err().unwrap_or_default();
        let expected = "provider \"hcloud\": trust: keys: /etc/ccm/provider.pub: a public key is wanted in PEM, \
                        beginning with -----BEGIN PUBLIC KEY-----";
        assert_eq!(mistakes, vec![expected; keys], "{}", variant.display());
    }
}
