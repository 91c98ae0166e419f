//! A test runs every command that the documents show, or the document says why not.

use std::collections::{BTreeMap, BTreeSet};

use ccm_tests::documents::{Mark, Page, is_as_shown};

use crate::lists::{assert_none, files, functions, root, text};

/// Every page but those of the benchmarks, relative to the repository.
fn pages() -> Vec<Page> {
    let mut paths: Vec<String> = [
        "ARCHITECTURE.md",
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
    ]
    .map(str::to_owned)
    .into();
    let prefix = format!("{}/", root().display());
    let folders = ["deploy", "guest-sdk", "guests", "tests", "wit"];
    let found = files(&folders, "md");
    let found = found.iter().filter_map(|path| path.strip_prefix(&prefix));
    paths.extend(
        found
            .filter(|path| !path.contains("/target/") && !path.starts_with("tests/bench/"))
            .map(str::to_owned),
    );
    paths
        .iter()
        .map(|path| Page::read(&root(), path).unwrap())
        .collect()
}

/// The source files of all tests, by the names of their tests.
fn tests() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in files(&["tests", "runtime"], "rs") {
        let text = text(&path);
        for name in functions(std::slice::from_ref(&text)).into_keys() {
            found.insert(name, text.clone());
        }
    }
    found
}

#[test]
fn every_command_of_the_documents_is_run_by_a_test_or_says_why_not() {
    let tests = tests();
    let mut problems = Vec::new();
    let mut run = 0;
    for page in pages() {
        let path = &page.path;
        // A test that runs a block has read it, so its source names the page.
        let named = |at: &str, test: &str| match tests.get(test) {
            None => Some(format!("{at}: there is no test {test}")),
            Some(source) if !source.contains(path.as_str()) => Some(format!(
                "{at}: the file of the test {test} does not name {path}"
            )),
            Some(_) => None,
        };
        if let Some(test) = &page.run_by {
            problems.extend(named(path, test));
        }
        for (line, text) in &page.unmarked_commands {
            problems.push(format!(
                "{path}:{line}: a command outside of a block `sh` or `console`: {text}"
            ));
        }
        for block in &page.blocks {
            let at = format!("{path}:{}", block.line);
            match &block.mark {
                Some(Mark::RunBy(test)) => {
                    problems.extend(named(&at, test));
                    run += 1;
                }
                Some(Mark::NotRun(_)) => {}
                Some(Mark::StandIn { name, .. }) => {
                    let source = page.run_by.as_ref().and_then(|test| tests.get(test));
                    if !source.is_some_and(|source| source.contains(&format!("{name:?}"))) {
                        problems.push(format!("{at}: the page's test has no stand-in {name}"));
                    }
                }
                Some(Mark::Unreadable(text)) => {
                    problems.push(format!("{at}: it is not said why, or not readably: {text}"))
                }
                None if page.run_by.is_some() => run += 1,
                None => problems.push(format!(
                    "{at}: nobody says who runs this, or why nobody does"
                )),
            }
            if let Err(error) = block.steps() {
                problems.push(format!("{at}: {error}"));
            }
        }
    }
    assert_none(&problems);
    assert!(run > 20, "{run} blocks are run");
}

/// The counts of the suites, by the variable of each: by default, in CI, and full, as pages write numbers. A suite whose
/// default is no literal is left out.
fn counts() -> BTreeMap<String, [String; 3]> {
    let mut counts = BTreeMap::new();
    for file in files(&["tests"], "rs") {
        let source = text(&file);
        for count in source.split("variable: \"CCM_").skip(1) {
            let (name, fields) = count.split_once('"').unwrap();
            let values = ["default: ", "ci: ", "full: "].map(|field| {
                let value = fields.split(field).nth(1).unwrap();
                value.split(',').next().unwrap().replace('_', " ")
            });
            if values[0].starts_with(|first: char| first.is_ascii_digit()) {
                counts.insert(format!("CCM_{name}"), values);
            }
        }
    }
    counts
}

#[test]
fn the_page_about_tests_has_the_counts_of_each_suite() {
    let mut counts = counts();
    assert!(counts.len() >= 10, "{counts:?}");
    let page = text("tests/README.md");
    let mut problems = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `CCM_")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let variables = cells[0].split('`').skip(1).step_by(2);
        let suites: Vec<[String; 3]> = variables.filter_map(|name| counts.remove(name)).collect();
        let of = |depth: usize| {
            let numbers = suites.iter().map(|suite| suite[depth].as_str());
            numbers.collect::<Vec<_>>().join(", ")
        };
        let expected = [of(0), of(1), of(2)].join("; ");
        if !suites.is_empty() && !cells[2].starts_with(&expected) {
            problems.push(format!("{}: {expected}", cells[0]));
        }
    }
    let missing = counts.into_keys();
    problems.extend(missing.map(|variable| format!("{variable} has no row")));
    assert_none(&problems);
}

/// `rollout status` of a DaemonSet that matches no node succeeds; `wait` fails without pods.
#[test]
fn no_page_takes_a_daemonset_without_pods_for_one_that_runs() {
    const WAIT: &str = "kubectl -n kube-system wait --for=condition=Ready pod -l app.kubernetes.io/name=ccm --timeout=60s";
    let mut problems = Vec::new();
    let mut found = 0;
    for page in pages() {
        for block in &page.blocks {
            let rollouts = block.text.split("rollout status daemonset/").skip(1);
            for after in rollouts {
                found += 1;
                if !after.contains(WAIT) {
                    let (path, line) = (&page.path, block.line);
                    problems.push(format!("{path}:{line}: no `{WAIT}` after `rollout status`"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(found >= 3, "{found} rollouts were found");
}

/// `rollout undo` restores the pods' template alone: keys of the configuration stay that the older version refuses.
#[test]
fn the_way_back_is_an_apply_of_the_files_as_they_were() {
    let mut problems = Vec::new();
    let mut found = 0;
    for page in pages() {
        for block in &page.blocks {
            let mut lines = block.text.lines();
            found += usize::from(lines.any(|line| {
                line.starts_with("kubectl apply -k my-cluster ") && line.contains("# back: ")
            }));
            if block.text.contains("rollout undo") {
                let (path, line) = (&page.path, block.line);
                problems.push(format!("{path}:{line}: `rollout undo` takes back no file"));
            }
        }
    }
    assert_none(&problems);
    assert_eq!(found, 1);
}

#[test]
fn the_event_of_a_service_that_is_not_deleted_is_the_one_that_is_recorded() {
    let scenario = text("tests/scenarios/service/f21_stays.txt");
    let warnings = scenario
        .lines()
        .filter_map(|line| line.split_once("Warning "));
    let recorded: BTreeSet<&str> = warnings.map(|(_, reason)| reason).collect();
    let page = text("deploy/docs/troubleshooting.md");
    let mut rows = page.lines();
    let row = rows.find(|row| row.starts_with("| a Service is not deleted |"));
    for reason in &recorded {
        assert!(row.unwrap().contains(reason), "{reason}");
    }
    assert!(!recorded.is_empty());
}

#[test]
fn a_page_cannot_hide_its_commands() {
    let page = |text: &str| Page::parse("page.md", text).unwrap();
    let hidden = page("# A\n\n```text\nHCLOUD_TOKEN=… ccm run\nwords\n```\n");
    assert_eq!(
        hidden.unmarked_commands,
        [(4, "HCLOUD_TOKEN=… ccm run".to_owned())]
    );
    for (comment, expected) in [
        (
            "<!-- not run: needs a cloud account -->",
            Some(Mark::NotRun("needs a cloud account".to_owned())),
        ),
        (
            "<!-- not run -->",
            Some(Mark::Unreadable("not run".to_owned())),
        ),
        (
            "<!-- not run: no -->",
            Some(Mark::Unreadable("not run: no".to_owned())),
        ),
        ("<!-- run by: me -->", Some(Mark::RunBy("me".to_owned()))),
        (
            "<!-- not run, stand-in pod: needs a kubelet -->",
            Some(Mark::StandIn {
                name: "pod".to_owned(),
                reason: "needs a kubelet".to_owned(),
            }),
        ),
        ("text", None),
    ] {
        let mut page = page(&format!("# A\n{comment}\n```sh\nccm\n```\n"));
        assert_eq!(page.blocks.remove(0).mark, expected);
    }
}

#[test]
fn output_is_compared_line_by_line() {
    let shown = "NAME  AGE\nweb   12s\n…\nlast …id end";
    for (output, expected) in [
        ("NAME   AGE\nweb   3m4s\nlast an-id end", true),
        ("NAME   AGE\nweb   3m4s\nmore\nmore\nlast id end", true),
        ("NAME   AGE\nweb   never\nlast id end", false),
        ("NAME   AGE\nweb   1s\nlast id", false),
        ("NAME   AGE\nweb   1s", false),
        ("NAME   AGE\nweb   1s\nlast id end\nand more", false),
    ] {
        assert_eq!(is_as_shown(shown, output), expected, "{output}");
    }
}

/// Links to files and to headings of the pages.
#[test]
fn links_between_the_pages_lead_somewhere() {
    let mut problems = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = text(&page.path);
        let folder = root().join(&page.path).parent().unwrap().to_owned();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if link.contains("://") || link.starts_with('#') || link.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = folder.join(file);
            if !target.exists() {
                problems.push(format!("{}: {link}", page.path));
                continue;
            }
            if !heading.is_empty()
                && !headings(&std::fs::read_to_string(target).unwrap()).contains(heading)
            {
                problems.push(format!("{}: {link} has no such heading", page.path));
            }
        }
    }
    assert_none(&problems);
    assert!(links > 20, "{links}");
}

/// The anchors of a page's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    lines
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|one| one.is_alphanumeric() || matches!(one, ' ' | '-' | '_'));
            kept.map(|one| if one == ' ' { '-' } else { one }).collect()
        })
        .collect()
}
