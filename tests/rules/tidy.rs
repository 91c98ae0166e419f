//! Lints of the whole workspace: dependencies between crates, places of `unsafe`, lengths of files, writers of a
//! cluster; and that names in the documents exist. The name of the test is the rule; its message names the files.

use std::collections::BTreeSet;
use std::path::Path;

use crate::lists::{assert_none, files, root, shipped, text};

/// Every Rust file of the repository, with its path from the root.
fn sources() -> impl Iterator<Item = (String, String)> {
    let folders = ["runtime", "guest-sdk", "guests", "deploy", "tests"];
    files(&folders, "rs").into_iter().map(|path| {
        let text = text(&path);
        (from_root(&path), text)
    })
}

/// The path of a file from the root of the repository.
fn from_root(path: &str) -> String {
    let path = Path::new(path).strip_prefix(root()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let text = text(manifest);
    let section = text.split("[dependencies]\n").nth(1).unwrap_or_default();
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn core_can_do_no_io_by_its_manifest() {
    let expected = [
        "fixedbitset",
        "ipnet",
        "k8s-openapi",
        "serde",
        "serde_json",
        "thiserror",
    ];
    let found = dependencies("runtime/core/Cargo.toml");
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn dependencies_point_downward() {
    // What ends with `-` stands for every name that begins with it.
    let never: &[(&str, &[&str])] = &[
        ("runtime/metrics", &["ccm-", "kube", "tokio", "wasmtime"]),
        (
            "runtime/proxy",
            &["ccm-", "kube", "reqwest", "tokio", "wasmtime"],
        ),
        ("runtime/watch", &["ccm-", "reqwest", "wasmtime"]),
        ("runtime/sim", &["ccm-", "wasmtime"]),
        ("guest-sdk", &["ccm-", "kube", "tokio", "wasmtime"]),
        (
            "runtime/serving",
            &[
                "ccm-host",
                "ccm-controllers",
                "ccm-sim",
                "ccm-delivery",
                "wasmtime",
            ],
        ),
        (
            "runtime/host",
            &[
                "ccm-controllers",
                "ccm-sim",
                "ccm-delivery",
                "kube",
                "k8s-openapi",
            ],
        ),
        (
            "runtime/delivery",
            &["ccm-controllers", "ccm-sim", "wasmtime"],
        ),
        (
            "runtime/controllers",
            &["ccm-host", "ccm-delivery", "wasmtime", "reqwest"],
        ),
    ];
    let of_guests: &[&str] = &["ccm-", "kube", "tokio", "wasmtime"];
    let guests = shipped().into_iter();
    let guests = guests.map(|guest| (format!("guests/{guest}"), of_guests));
    let packages = never.iter();
    let packages = packages.map(|(package, forbidden)| ((*package).to_owned(), *forbidden));
    let mut broken = Vec::new();
    for (package, forbidden) in packages.chain(guests) {
        let mut found = dependencies(&format!("{package}/Cargo.toml"));
        if package.starts_with("guests/") {
            assert!(found.remove("ccm-guest"), "{package}: {found:?}");
        }
        let is_forbidden = |name: &str| {
            let mut forbidden = forbidden.iter();
            forbidden.any(|one| name == *one || one.ends_with('-') && name.starts_with(*one))
        };
        for name in found.iter().filter(|name| is_forbidden(name)) {
            broken.push(format!("{package} depends on {name}"));
        }
    }
    assert_none(&broken);
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    // Loading compiled code, advice to the kernel, and the output of the bindings generator and the export macro.
    let allowed = [
        "runtime/ccm/src/program_pages.rs",
        "runtime/host/src/compile/cache.rs",
        "guest-sdk/",
        "guests/",
        "tests/guests/",
    ];
    let broken: Vec<_> = sources()
        .filter(|(file, _)| {
            file != "tests/rules/tidy.rs" && !allowed.iter().any(|place| file.starts_with(place))
        })
        .flat_map(|(file, text)| {
            let hits: Vec<_> = text
                .lines()
                .map(|line| line.split("//").next().unwrap_or_default())
                .filter(|code| {
                    code.contains("unsafe {")
                        || code.contains("unsafe fn")
                        || code.contains("unsafe impl")
                        || code.contains("#[unsafe(")
                })
                .map(|code| format!("{file}: {}", code.trim()))
                .collect();
            hits
        })
        .collect();
    assert_none(&broken);
    for library in [
        "runtime/core/src/lib.rs",
        "runtime/controllers/src/lib.rs",
        "runtime/sim/src/lib.rs",
        "runtime/serving/src/lib.rs",
        "runtime/proxy/src/lib.rs",
        "runtime/watch/src/lib.rs",
    ] {
        assert!(
            text(library).contains("#![forbid(unsafe_code)]"),
            "{library} does not forbid unsafe code"
        );
    }
}

/// Whether the first line says that the file is generated: such a file is not edited.
fn is_generated(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|line| line.starts_with("//! Generated from "))
}

#[test]
fn files_are_short() {
    let long: Vec<_> = sources()
        .filter(|(_, text)| !is_generated(text))
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines > 500)
        .map(|(file, lines)| format!("{file}: {lines} lines"))
        .collect();
    assert_none(&long);
}

#[test]
fn modules_say_what_they_hold() {
    let silent: Vec<_> = sources()
        .filter(|(file, text)| {
            file.contains("/src/") && !file.contains("tests") && !text.starts_with("//!")
        })
        .filter(|(file, _)| !file.ends_with("/bindings.rs"))
        .map(|(file, _)| file)
        .collect();
    assert_none(&silent);
}

#[test]
fn names_say_something() {
    let empty = [
        "util", "utils", "helper", "helpers", "manager", "misc", "common", "mod",
    ];
    let broken: Vec<_> = sources()
        .filter(|(file, _)| {
            let stem = Path::new(file).file_stem().unwrap().to_str().unwrap();
            empty.contains(&stem)
        })
        .map(|(file, _)| file)
        .collect();
    assert_none(&broken);
}

/// The lines `FILE: WORD` for every file of `place` that contains one of the words. This file contains them all.
fn mentions(words: &[&str], place: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in sources().filter(|(file, _)| file != "tests/rules/tidy.rs" && place(file)) {
        let hits = words.iter().filter(|word| text.contains(**word));
        found.extend(hits.map(|word| format!("{file}: {word}")));
    }
    found
}

/// Whether the file is part of the crate, and none of its tests.
fn is_of(package: &str, file: &str) -> bool {
    let is_for_tests = file.contains("tests") || file.ends_with("/fixtures.rs");
    file.starts_with(package) && !is_for_tests
}

fn is_controllers(file: &str) -> bool {
    is_of("runtime/controllers/src/", file)
}

#[test]
fn only_the_executor_writes_to_the_cluster_or_calls_the_cloud() {
    let acts = [
        ".patch(",
        ".patch_status(",
        ".create(",
        ".replace(",
        ".replace_status(",
        ".delete(",
        "Permit::new(",
    ];
    // The Lease is not a controller's object, and is written without a check of leadership. A controller's own
    // ServiceAccount is created before it can be used, by a client that the tenure bounds.
    let writers = [
        "src/executor",
        "src/lease",
        "src/tenure_client/service_account.rs",
    ];
    let broken = mentions(&acts, |file| {
        is_controllers(file) && !writers.iter().any(|writer| file.contains(writer))
    });
    assert_none(&broken);
}

#[test]
fn only_the_record_of_delivery_writes_to_the_cluster() {
    // The parameters of kube's other writes: the methods have names that files and texts have, too.
    let acts = [".patch(", ".patch_status(", "PostParams", "DeleteParams"];
    let broken = mentions(&acts, |file| {
        is_of("runtime/delivery/src/", file) && !file.contains("src/record/cluster/write.rs")
    });
    assert_none(&broken);
}

#[test]
fn only_one_file_of_the_controllers_reads_a_clock() {
    let clocks = [
        "Instant::now(",
        "SystemTime::now(",
        "Timestamp::now(",
        "clock_gettime(",
    ];
    let broken = mentions(&clocks, |file| {
        is_controllers(file) && !file.ends_with("/clock.rs")
    });
    assert_none(&broken);
}

#[test]
fn no_test_is_switched_off_and_nothing_is_left_for_later() {
    let words = ["#[ignore", "todo!(", "unimplemented!(", "FIXME", "XXX"];
    assert_none(&mentions(&words, |_| true));
}

#[test]
fn no_type_refers_to_its_modules_documentation() {
    assert_none(&mentions(&["ee the module"], |_| true));
}

#[test]
fn what_texts_cite_can_be_read() {
    // The name of a document that is not published.
    let unpublished = "ccm-behaviour";
    let mut broken = mentions(&[unpublished], |_| true);
    let mut pages = files(&["deploy", "guest-sdk", "guests", "tests"], "md");
    pages.retain(|page| text(page).contains(unpublished));
    broken.extend(pages);
    assert_none(&broken);
}

#[test]
fn the_root_holds_the_agreed_folders() {
    let expected = ["deploy", "guest-sdk", "guests", "runtime", "tests", "wit"];
    let found: BTreeSet<_> = std::fs::read_dir(root())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

/// The parts between each `open` and the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| part.split(close).next())
}

#[test]
fn operators_find_every_event() {
    // Made from the table in core.
    let page = text("deploy/docs/reference/events.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let explained: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(explained.len() > 30, "{explained:?}");
    let runtime: String = sources()
        .filter(|(file, _)| file.starts_with("runtime/core/src/") && !file.contains("tests"))
        .map(|(_, text)| text)
        .collect();

    // Transcripts show recorded reasons. The reasons of a provider are in their scripts.
    let mut missing = BTreeSet::new();
    for file in files(&["tests/scenarios"], "txt") {
        let transcript = text(&file);
        for line in transcript.lines().filter(|line| line.contains(" event ")) {
            let reason = [" Warning ", " Normal "]
                .into_iter()
                .find_map(|kind| line.split(kind).nth(1)?.split_whitespace().next());
            missing.extend(
                reason
                    .filter(|reason| {
                        !explained.contains(*reason) && runtime.contains(&format!("\"{reason}\""))
                    })
                    .map(|reason| format!("{file}: {reason}")),
            );
        }
    }
    assert_none(&missing.into_iter().collect::<Vec<_>>());
}

#[test]
fn flags_that_the_documents_name_exist() {
    let mut known: BTreeSet<String> =
        between(&text("runtime/ccm/src/flags/table.rs"), "flag(\"", "\n")
            .filter_map(|row| row.split('"').nth(2).map(str::to_owned))
            .collect();
    assert!(known.len() > 90, "{known:?}");
    for options in [
        "provider/arguments.rs",
        "provider/arguments/asking.rs",
        "migrate/arguments.rs",
        "status.rs",
    ] {
        let options = text(&format!("runtime/ccm/src/{options}"));
        known.extend(between(&options, "    pub ", ":").map(|field| field.replace('_', "-")));
    }
    let options = text("tests/bench/options.rs");
    known.extend(between(&options, "    pub(crate) ", ":").map(|field| field.replace('_', "-")));
    let own = text("runtime/ccm/src/cli.rs");
    known.extend(between(&own, ".long(\"", "\"").map(str::to_owned));
    // Flags of other programs: apt-get, cargo, cosign, grep, hcloud, helm, kubeadm, kubectl, the kubelet; and `--help`, which
    // every command has.
    let others = "no-install-recommends no-default-features features package profile release target server-side force-conflicts from-literal from-file dry-run \
                  docker-server as node-ip node-labels provider-id bundle tlog-upload use-signing-config help \
                  hostname-override print-join-command count for timeout all field-selector image port type repo namespace set \
                  replicas all-namespaces ignore-not-found cascade overwrite name network location ip ip-range network-zone key insecure-ignore-tlog certificate-identity certificate-oidc-issuer platform check take-ownership";
    known.extend(others.split_whitespace().map(str::to_owned));
    let mut unknown = Vec::new();
    let folders = ["deploy", "guest-sdk", "guests"];
    let mut pages = files(&folders, "md");
    pages.extend(files(&folders, "yaml"));
    pages.extend(["README.md", "SECURITY.md"].map(str::to_owned));
    for file in pages {
        let page = text(&file);
        let words =
            page.split(|character: char| character.is_whitespace() || "`(|\"'".contains(character));
        for word in words {
            let Some(rest) = word.strip_prefix("--") else {
                continue;
            };
            let name: String = rest
                .chars()
                .take_while(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || *one == '-')
                .collect();
            if name.len() > 1 && !name.starts_with('-') && !known.contains(&name) {
                unknown.push(format!("{file}: --{name}"));
            }
        }
    }
    assert_none(&unknown);
}
