//! `deploy/docs/other-languages.md`: its commands, from top to bottom, build a provider in each language; each then
//! looks nodes up, fails in the ways that the page describes, and keeps the laws of the contract.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use axum::http::{StatusCode, Uri};
use ccm_tests::conformance::{At, Tested, configuration, conforms};
use ccm_tests::documents::{Mark, Page};
use serde_json::{Value, json};
use tempfile::TempDir;
use wit_parser::Resolve;

use super::{CCM, checkout, copy, tool};

const PAGE: &str = "deploy/docs/other-languages.md";

/// Runs commands as a reader does, in this folder.
fn run(folder: &Path, commands: &str) -> Output {
    let tools = tool();
    let path = std::env::var("PATH").unwrap();
    let tools = tools.parent().unwrap().display();
    Command::new("bash")
        .args(["-euc", commands])
        .current_dir(folder)
        .env(
            "PATH",
            format!("{}:{tools}:{path}", folder.join("bin").display()),
        )
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .unwrap()
}

/// The files of the page: a name in backquotes above each block.
fn files(text: &str) -> Vec<(&str, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut files = Vec::new();
    for window in lines.windows(3).enumerate() {
        let (at, [name, "", fence]) = window else {
            continue;
        };
        let name = name
            .strip_prefix('`')
            .and_then(|name| name.strip_suffix("`:"))
            .filter(|name| !name.contains('`'));
        let (Some(name), true) = (name, fence.starts_with("```")) else {
            continue;
        };
        let code = lines[at + 3..].iter().take_while(|line| **line != "```");
        let code: String = code.map(|line| format!("{line}\n")).collect();
        files.push((name, code));
    }
    files
}

/// A cloud with a healthy machine, one whose description is no JSON, one that is described as nothing, and no other.
fn cloud(runtime: &tokio::runtime::Runtime) -> SocketAddr {
    let router = Router::new().fallback(|uri: Uri| async move {
        match uri.path() {
            "/machines/m-1" => (StatusCode::OK, r#"{"type": "small"}"#),
            "/machines/m-broken" => (StatusCode::OK, "oops"),
            "/machines/m-nothing" => (StatusCode::OK, "null"),
            _ => (StatusCode::NOT_FOUND, ""),
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0");
    let listener = runtime.block_on(listener).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    address
}

/// The configuration of a module before the cloud at this endpoint, with this region.
fn configured(path: &str, endpoint: &str, region: &str) -> String {
    let api = At {
        target: "api",
        endpoint,
        credential: Value::Null,
    };
    configuration(Path::new(CCM), path, &[api], &[("region", region)]).unwrap()
}

/// Tests a module against the laws of the contract.
fn conforms_to_the_contract(folder: &Path, module: &str, endpoint: &str) {
    let path = folder.join(module);
    let path = path.to_str().unwrap();
    let compiled = folder.join("compiled");
    let compiled = format!("--compiled-cache-dir={}", compiled.display());
    let tested = Tested {
        program: Path::new(CCM),
        module: path,
        config: &configured(path, endpoint, "north"),
        arguments: &["--node=a=other://m-1", "--gone=other://m-404", &compiled],
    };
    let applicable = [
        "instances/found",
        "instances/gone",
        "instances/not-gone-by-failing",
        "instances/throttled",
        "instances/in-time",
    ];
    conforms(&tested, &applicable).unwrap();
}

/// Looks up one node with a module, with this region.
fn asked(folder: &Path, module: &str, endpoint: &str, region: &str, node: &str) -> Output {
    let path = folder.join(module);
    let path = path.to_str().unwrap();
    let config = configured(path, endpoint, region);
    let config_file = folder.join("ccm.yaml");
    std::fs::write(&config_file, config).unwrap();
    Command::new(CCM)
        .args(["provider", "try", "-o", "json", "--node", node, "--config"])
        .arg(&config_file)
        .arg("--compiled-cache-dir")
        .arg(folder.join("compiled"))
        .arg(path)
        .output()
        .unwrap()
}

fn document(output: &Output) -> Value {
    let reported = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&reported)
        .unwrap_or_else(|_| panic!("{reported}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn languages_the_world_of_the_page_has_two_interfaces_and_the_self_check() {
    let text = std::fs::read_to_string(checkout().join(PAGE)).unwrap();
    let (_, block) = text.split_once("```wit\n").unwrap();
    let (world, _) = block.split_once("```").unwrap();
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("world.wit"), world).unwrap();
    copy(
        &checkout().join("wit/v0.2"),
        &folder.path().join("deps/ccm"),
    );

    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(folder.path()).unwrap();
    let world = resolve.select_world(&[package], Some("cloud")).unwrap();
    let exports = resolve.worlds[world].exports.keys();
    let exports: BTreeSet<String> = exports.map(|key| resolve.name_world_key(key)).collect();
    let expected = ["instances", "lifecycle", "load-balancer", "self-check"];
    let expected = expected.map(|name| format!("ccm:provider/{name}@0.2.0"));
    assert_eq!(exports, BTreeSet::from(expected));
}

#[test]
fn languages_the_commands_of_the_page_build_providers() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for part in ["wit", "tests/guests/component"] {
        copy(&checkout().join(part), &folder.join(part));
    }
    std::fs::create_dir(folder.join("bin")).unwrap();
    std::os::unix::fs::symlink(CCM, folder.join("bin/ccm")).unwrap();
    let text = std::fs::read_to_string(checkout().join(PAGE)).unwrap();
    let files = files(&text);
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["manifest.json", "guest.js", "build.mjs", "app.py"]);
    for (name, code) in files {
        std::fs::write(folder.join(name), code).unwrap();
    }
    let page = Page::parse(PAGE, &text).unwrap();
    for block in &page.blocks {
        if matches!(block.mark, Some(Mark::NotRun(_))) {
            continue;
        }
        let output = run(folder, &block.text);
        assert!(
            output.status.success(),
            "{PAGE}:{}:\n{}{}{}",
            block.line,
            block.text,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let endpoint = format!("http://{}", cloud(&runtime));
    for module in ["provider-js.wasm", "provider-py.wasm"] {
        let ask = |region: &str, node: &str| asked(folder, module, &endpoint, region, node);
        let found = document(&ask("north", "a=other://m-1"));
        assert_eq!(found["served"], true, "{module}: {found:#}");
        let answer = found["asked"][0]["objects"][0]["answer"].as_str().unwrap();
        assert!(
            answer.starts_with("found other://m-1 small - north"),
            "{answer}"
        );
        // Its output is in the log.
        assert_eq!(
            found["asked"][0]["calls"][0]["log"],
            json!(["asked about a"])
        );

        let gone = document(&ask("north", "a=other://m-2"));
        assert_eq!(gone["asked"][0]["objects"][0]["answer"], "gone", "{module}");

        // An ID is one segment of the path as it stands: this one is not `m-1`.
        let other = document(&ask("north", "a=other://m-%31"));
        let answer = other["asked"][0]["objects"][0]["answer"].as_str().unwrap();
        assert!(!answer.starts_with("found"), "{module}: {answer}");

        // An error of the contract is no trap; a defect has its traceback in the error, and an Event at once.
        let refused = ask("", "a=other://m-1");
        assert_eq!(refused.status.code(), Some(2));
        let reported = document(&refused)["reasons"].to_string();
        assert!(
            reported.contains("invalid: region: it is empty"),
            "{module}: {reported}"
        );
        let broken = document(&ask("north", "a=other://m-broken"));
        let answer = broken["asked"][0]["objects"][0]["answer"].as_str().unwrap();
        assert!(answer.contains("the answer is no JSON"), "{answer}");
        let nothing = document(&ask("north", "a=other://m-nothing"));
        let object = &nothing["asked"][0]["objects"][0];
        let answer = object["answer"].as_str().unwrap();
        assert!(
            answer.starts_with("trapped: ") && answer.contains("TypeError"),
            "{answer}"
        );
        assert_eq!(object["events"][0]["reason"], "InstanceLookupFailed");

        conforms_to_the_contract(folder, module, &endpoint);

        // Too large for a ConfigMap, as the page says.
        let packed = format!("ccm provider pack {module} --compress gzip --to packed.wasm.gz");
        assert!(run(folder, &packed).status.success());
        let packed = std::fs::metadata(folder.join("packed.wasm.gz")).unwrap();
        assert!(packed.len() > 1 << 20, "{module}: {}", packed.len());
    }
}
